//! TCP connections of two kernels in VLANs, across a pair of pass-through ports: every frame leaves with its tags, and offloads work.
//!
//! The kernels of test machines often have no VLAN interfaces. So a program at the end of each host's stack adds the tags, as such an interface does, with
//! the offloads of the segment still pending. One at the start of the stack of the other host drops frames without exactly these tags, and removes them.

use crate::lab;
use crate::rig::{Cable, Line, Running, ip};
use crate::taps::ip_command;
use crate::transfers::{BYTES, SEGMENT, transfer};
use io::bpf::instruction::{self, BpfInstruction, action, call, copy, exit, load32, set, skip_if_equal};
use io::bpf::{BpfAttachment, BpfHook, BpfProgram, BpfProgramKind};
use io::netlink::Netlink;
use io::netns::LabHost;
use io::offload::{Ethtool, EthtoolOffload};
use std::io as system;

/// A tag: its type and its control field with priority and VLAN.
type Tag = (u16, u16);

const CUSTOMER: Tag = (0x8100, 0x6000 | 20);
const SERVICE: Tag = (0x88a8, 0x2000 | 100);

/// The register with the context during calls.
const CONTEXT: u8 = 6;
/// `vlan_tci` in the context of a classifier (`struct __sk_buff`): the control field of the outermost tag, zero without one.
const CONTROL: i16 = 24;

/// Adds tags, the innermost first.
fn push(tags: &[Tag]) -> Vec<BpfInstruction> {
    let mut text = vec![copy(CONTEXT, 1)];
    for &(kind, control) in tags.iter().rev() {
        let kind = i32::from(kind.to_be());
        text.extend([copy(1, CONTEXT), set(2, kind), set(3, control.into()), instruction::call(call::VLAN_PUSH)]);
    }
    text.extend([set(0, action::CLASSIFIER_NEXT), exit()]);
    text
}

/// Removes tags. Drops frames with others.
fn pop(tags: &[Tag]) -> Vec<BpfInstruction> {
    let mut text = vec![copy(CONTEXT, 1)];
    for &(_, control) in tags {
        text.extend([load32(2, CONTEXT, CONTROL), skip_if_equal(2, control.into(), 2)]);
        text.extend([set(0, action::CLASSIFIER_DROP), exit()]);
        text.extend([copy(1, CONTEXT), instruction::call(call::VLAN_POP)]);
    }
    text.extend([set(0, action::CLASSIFIER_NEXT), exit()]);
    text
}

/// Tags all frames of a host's interface in both directions.
fn tag(host: &LabHost, tags: &[Tag]) -> system::Result<[BpfAttachment; 2]> {
    let attach = |hook, text: Vec<BpfInstruction>| {
        let index = Netlink::open().unwrap().link("eth0").unwrap().index;
        BpfProgram::load(BpfProgramKind::Classifier, "tags", &text)?.attach(hook, index)
    };
    host.run(|| Ok([attach(BpfHook::TcxEgress, push(tags))?, attach(BpfHook::TcxIngress, pop(tags))?])).unwrap()
}

/// Transfers over IPv4 and IPv6 between hosts that tag their frames.
fn connect(tags: &[Tag], cable: Cable) {
    let (cables, offloads) = ([cable; 2], cable.carries_super_frames());
    let Some(lab) = lab() else { return };
    let line = Line::lay(&lab, cables);
    let port = |side: usize| {
        let (_, near, _) = line.side(side);
        format!("[port.{near}]\ndevice = '{}'\noffloads = {offloads}\n", line.cables[side].device(near))
    };
    let configuration = format!("version = 1\n{}{}[[passthrough]]\nports = ['left', 'right']\n", port(0), port(1));
    // A link with MTU 1500 carries frames with one 802.1Q tag. The kernel counts a service tag and the tag behind it.
    for (host, link) in
        [(&line.client, "eth0"), (&line.server, "eth0"), (&line.router, "left"), (&line.router, "right")]
    {
        host.run(|| Netlink::open().unwrap().set_mtu(link, 1508).unwrap()).unwrap();
        if cables == [Cable::Plain; 2] && link == "eth0" {
            // Without super-frames, but with checksums that the host leaves to its interface.
            host.run(|| Ethtool::open().unwrap().switch(link, EthtoolOffload::TransmitChecksum, true).unwrap())
                .unwrap();
        }
    }
    let running = Running::start(&line.router, &configuration);
    let attached = [&line.client, &line.server].map(|host| tag(host, tags));
    if let Some(Err(error)) = attached.iter().find(|attached| attached.is_err()) {
        return println!("skipped: programs that tag frames: {error}");
    }
    for (host, own) in [(&line.client, 4), (&line.server, 5)] {
        host.add_address("eth0", ip(&format!("10.0.9.{own}")), 24).unwrap();
        host.add_address("eth0", ip(&format!("fd00:9::{own}")), 64).unwrap();
        ip_command(host, &format!("route replace 10.0.9.0/24 dev eth0 mtu 1500 src 10.0.9.{own}"));
        ip_command(host, "route replace fd00:9::/64 dev eth0 mtu 1500 metric 256");
    }
    transfer(&line.client, &line.server, "10.0.9.5", 1);
    transfer(&line.server, &line.client, "fd00:9::4", 2);
    let report = running.stop();
    let (packets, segments) = (report.ledger.received(), 2 * BYTES as u64 / SEGMENT);
    println!("{tags:x?} {cables:?}, offloads {offloads}: {packets} packets for {segments} segments");
    assert_eq!((report.ledger.generated() > 0, report.ledger.dropped()), (false, 0));
    assert_eq!(packets < segments, offloads, "super-frames pass whole if the ports carry them");
}

#[test]
fn connections_in_a_vlan_cross_the_bridge() {
    connect(&[CUSTOMER], Cable::Packet);
    connect(&[CUSTOMER], Cable::Plain);
}

#[test]
fn connections_in_qinq_cross_the_bridge() {
    connect(&[SERVICE, CUSTOMER], Cable::Packet);
    connect(&[SERVICE, CUSTOMER], Cable::Plain);
}

#[test]
fn connections_without_tags_cross_the_bridge() {
    connect(&[], Cable::Packet);
    connect(&[], Cable::Plain);
}
