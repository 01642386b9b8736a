//! The ingress drop as a traffic control filter: a classic BPF program of one instruction at a clsact qdisc.

use crate::netlink::message::{Message, attributes, u32_at};
use crate::netlink::{KernelError, Netlink};
use std::collections::HashSet;
use std::fs;

const QDISC_CLSACT: u32 = 0xffff_fff1;
const QDISC_HANDLE: u32 = 0xffff_0000;
/// TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)
const INGRESS: u32 = 0xffff_fff2;
/// The preference and handle of the filter, "SW" and "SWPH", which no other program is likely to use.
const PREFERENCE: u32 = 0x5357;
const HANDLE: u32 = 0x5357_5048;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const BPF_OPS_LEN: u16 = 4;
const BPF_OPS: u16 = 5;
const BPF_FLAGS: u16 = 8;
const BPF_FLAG_ACT_DIRECT: u32 = 1;

/// `ret TC_ACT_SHOT`: `struct sock_filter` of code, two jumps and a constant.
fn program() -> Vec<u8> {
    [&6u16.to_ne_bytes()[..], &[0, 0], &2u32.to_ne_bytes()].concat()
}

/// `struct tcmsg`. `info` is the preference and, in network byte order, the protocol that a filter matches: all of them.
fn header(index: u32, handle: u32, parent: u32, info: u32) -> [u8; 20] {
    let mut header = [0; 20];
    for (at, field) in [(4, index), (8, handle), (12, parent), (16, info)] {
        header[at..at + 4].copy_from_slice(&field.to_ne_bytes());
    }
    header
}

fn filter_header(index: u32) -> [u8; 20] {
    header(index, HANDLE, INGRESS, PREFERENCE << 16 | u32::from((libc::ETH_P_ALL as u16).to_be()))
}

/// Adds the qdisc, if there is none, and the filter. A filter from an earlier run is kept.
pub(super) fn add(netlink: &mut Netlink, index: u32) -> Result<(), KernelError> {
    let object = format!("of link {index}");
    let create = (libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
    let there_already = |result: Result<(), KernelError>| match result {
        Err(error) if error.error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        result => result,
    };
    let mut qdisc = Message::new(libc::RTM_NEWQDISC, create, &header(index, QDISC_HANDLE, QDISC_CLSACT, 0));
    qdisc.put_text(TCA_KIND, "clsact");
    // The qdisc of another program will do as well.
    there_already(netlink.change(qdisc, "adding the clsact qdisc", &object))?;
    let mut filter = Message::new(libc::RTM_NEWTFILTER, create, &filter_header(index));
    filter.put_text(TCA_KIND, "bpf").nest(TCA_OPTIONS, &[], |options| {
        options.put(BPF_OPS_LEN, &1u16.to_ne_bytes()).put(BPF_OPS, &program());
        options.put_u32(BPF_FLAGS, BPF_FLAG_ACT_DIRECT);
    });
    there_already(netlink.change(filter, "adding the ingress filter", &object))
}

/// Removes the filter. The qdisc stays: another program may use it by now, and without filters it has no effect.
pub(super) fn remove(netlink: &mut Netlink, index: u32) -> Result<(), KernelError> {
    let mut message = Message::new(libc::RTM_DELTFILTER, libc::NLM_F_ACK as u16, &filter_header(index));
    message.put_text(TCA_KIND, "bpf");
    netlink.change(message, "removing the ingress filter", &format!("of link {index}"))
}

/// True if the filter is on a link.
fn is_there(netlink: &mut Netlink, index: u32) -> bool {
    let mut found = false;
    let message = Message::new(libc::RTM_GETTFILTER, libc::NLM_F_DUMP as u16, &header(index, 0, INGRESS, 0));
    // A link without the qdisc returns an error: it has no filter either.
    let _ = netlink.exchange(message, "listing", "the ingress filters", |kind, body| {
        let ours = u32_at(body, 8) == Some(HANDLE) && u32_at(body, 16).is_some_and(|info| info >> 16 == PREFERENCE);
        let bpf = attributes(body.get(20..).unwrap_or(&[])).any(|(kind, value)| kind == TCA_KIND && value == b"bpf\0");
        found |= kind == libc::RTM_NEWTFILTER && ours && bpf;
    });
    found
}

/// Removes filters whose owner was killed, in the network namespace of the calling thread. A live owner has a packet socket on the link. Returns the
/// names of the freed links.
pub fn sweep() -> Result<Vec<String>, KernelError> {
    let mut netlink = Netlink::open()?;
    let path = "/proc/thread-self/net/packet";
    let sockets = fs::read_to_string(path).map_err(|error| KernelError::new("reading", path, error))?;
    // Columns: sk RefCnt Type Proto Iface R Rmem User Inode; the fifth is the link's index.
    let owned: HashSet<u32> =
        sockets.lines().skip(1).filter_map(|line| line.split_whitespace().nth(4)?.parse().ok()).collect();
    let mut freed = Vec::new();
    for link in netlink.links()? {
        if !owned.contains(&link.index) && is_there(&mut netlink, link.index) {
            remove(&mut netlink, link.index)?;
            freed.push(link.name);
        }
    }
    Ok(freed)
}
