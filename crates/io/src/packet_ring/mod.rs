//! `packet:` ports: a network interface of the kernel through AF_PACKET, version 2 rings (packet(7)).
//!
//! Version 3 hands over blocks by a timer, which costs a millisecond of delay; version 2 hands over single frames. Frames
//! are copied between the rings and the pool. While a port is open the host's stack receives nothing from the interface
//! ([`crate::ingress`]), and the interface joins no frames to super-frames ([`crate::offload`]).
//!
//! What the kernel leaves undone is done here: tags it took out are put back, checksums that a sender on this machine left
//! to a network card are filled in (TP_STATUS_CSUMNOTREADY). Of encapsulated packets only the outer checksum is: which
//! one is missing the ring does not say.

mod port;
mod ring;
mod tenure;

pub use port::PacketPort;
pub(crate) use tenure::Tenures;

use crate::ingress::{self, IngressDrop};
use crate::netlink::{Link, Netlink};
use crate::offload::{Offload, SwitchedOff};
use crate::remarks::OpenError;
use crate::sys;
use ring::Rings;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes of a ring that the kernel allocates at once.
const BLOCK: usize = 64 << 10;
/// What the kernel puts before a received frame in its slot: header, address and alignment, at most.
const BEFORE_FRAME: usize = 96;
/// Ethernet header and one tag.
const LINK_HEADER: usize = 18;
/// ARPHRD_ETHER: interfaces whose frames have Ethernet headers.
const ETHERNET: u16 = 1;
/// ARPHRD_LOOPBACK: so have this one's, but it leads nowhere.
const LOOPBACK: u16 = 772;

/// A name for a tap device, in hints.
const TAP: &str = "tap0";

/// How a port is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketOptions {
    /// Slots of the receive ring: a power of two, at least 64.
    pub receive_slots: usize,
    /// Slots of the send ring: a power of two, at least 64.
    pub send_slots: usize,
    /// Send past the interface's queueing discipline (PACKET_QDISC_BYPASS): the queues are ours.
    pub bypass_qdisc: bool,
    /// Receive frames for other stations too.
    pub promiscuous: bool,
}

impl Default for PacketOptions {
    fn default() -> Self {
        PacketOptions { receive_slots: 4096, send_slots: 2048, bypass_qdisc: true, promiscuous: true }
    }
}

/// The socket, its rings and what has to be undone when it closes, in that order.
#[derive(Debug)]
struct Device {
    rings: Rings,
    socket: OwnedFd,
    link: Link,
    tenure: Arc<Tenure>,
}

/// What was changed about an interface; undone when the last port on it closes.
#[derive(Debug)]
struct Tenure {
    _joining: Option<SwitchedOff>,
    ingress: Option<IngressDrop>,
}

/// Opens a device in the network namespace of the calling thread, with remarks on what could not be had. `held` says
/// whether a port that is open or closing has the interface, by its index.
fn open(
    interface: &str,
    options: &PacketOptions,
    held: impl FnOnce(u32) -> Option<Arc<Tenure>>,
) -> Result<(Device, Vec<String>), OpenError> {
    let mut remarks = Vec::new();
    let link = find(interface)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Without a protocol it receives nothing until it is bound.
    let socket =
        socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None).map_err(|e| refused(interface, e.into()))?;
    let rings = configure(&socket, &link, options).map_err(|error| refused(interface, error))?;
    let tenure = held(link.index).unwrap_or_else(|| Arc::new(take(&link, interface, &mut remarks)));
    sys::bind_packet(&socket, link.index).map_err(|error| refused(interface, error))?;
    Ok((Device { rings, socket, link, tenure }, remarks))
}

/// Takes an interface from the host's own stack.
fn take(link: &Link, interface: &str, remarks: &mut Vec<String>) -> Tenure {
    match ingress::sweep() {
        Ok(freed) if freed.is_empty() => {}
        Ok(freed) => remarks.push(format!("removed ingress filters that a killed router left on {}", freed.join(", "))),
        Err(error) => {
            remarks.push(format!("could not look for ingress filters a killed router may have left: {error}"))
        }
    }
    let ingress = IngressDrop::install(link.index).map_err(|error| {
        let harm = "where it has addresses there or forwards, packets are answered or routed twice";
        remarks.push(format!("the host's own stack also receives what comes in by {interface} ({error}): {harm}"));
    });
    let joining = SwitchedOff::new(interface, &[Offload::LargeReceive, Offload::ReceiveJoining]).map_err(|error| {
        let harm = "frames that the interface joins are dropped as frame_too_long";
        remarks.push(format!("could not switch off the joining of received frames on {interface} ({error}): {harm}"));
    });
    Tenure { _joining: joining.ok(), ingress: ingress.ok() }
}

/// The link of that name, in the network namespace of the calling thread.
pub(crate) fn find(interface: &str) -> Result<Link, OpenError> {
    let mut netlink = Netlink::open().map_err(|error| OpenError {
        reason: error.to_string(),
        hint: "the kernel must be built with netlink".into(),
    })?;
    let link = netlink.link(interface).map_err(|_| {
        let links = netlink.links().unwrap_or_default();
        let names: Vec<String> = links.into_iter().map(|link| link.name).collect();
        OpenError {
            reason: format!("there is no network interface '{interface}' here"),
            hint: format!("use one of {}", names.join(", ")),
        }
    })?;
    if link.hardware == LOOPBACK {
        return Err(OpenError {
            reason: format!("the interface '{interface}' leads back to this machine, and would be cut off from it"),
            hint: format!("to talk to this machine, open 'tap:{TAP}' and give the interface {TAP} an address"),
        });
    }
    if link.hardware != ETHERNET {
        return Err(OpenError {
            reason: format!("the interface '{interface}' carries no Ethernet frames (hardware type {})", link.hardware),
            hint: "use an Ethernet, veth, bridge or tap interface".into(),
        });
    }
    Ok(link)
}

fn refused(interface: &str, error: io::Error) -> OpenError {
    let hint = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "it needs CAP_NET_RAW: run as root, or `setcap cap_net_raw,cap_net_admin=ep` the program, or use memory or \
             pcap ports"
        }
        Some(libc::ENOMEM) => "the kernel has no memory for the rings: close other programs",
        Some(libc::ENODEV | libc::ENXIO) => "the interface went away while it was opened: try again",
        Some(libc::EAFNOSUPPORT | libc::ENOPROTOOPT) => "the kernel must be 4.20 or later, with CONFIG_PACKET",
        _ => "`switchpath doctor` says what this machine can do",
    };
    OpenError { reason: format!("opening the interface '{interface}' for packets failed: {error}"), hint: hint.into() }
}

/// Everything but the bind, so that nothing arrives half configured.
fn configure(socket: &OwnedFd, link: &Link, options: &PacketOptions) -> io::Result<Rings> {
    let set = |name, value: u32| sys::set_option(socket, libc::SOL_PACKET, name, &value);
    set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as u32)?;
    set(libc::PACKET_IGNORE_OUTGOING, 1)?;
    // A frame the interface cannot take is passed over instead of stopping those behind it.
    set(libc::PACKET_LOSS, 1)?;
    if options.bypass_qdisc {
        set(libc::PACKET_QDISC_BYPASS, 1)?;
    }
    // A slot holds every frame of the pool, and at MTUs up to 1934 two share a page.
    let slot = if link.mtu as usize + LINK_HEADER + BEFORE_FRAME <= 2048 { 2048 } else { 4096 };
    for (name, slots) in [(libc::PACKET_RX_RING, options.receive_slots), (libc::PACKET_TX_RING, options.send_slots)] {
        assert!(slots.is_power_of_two() && slots >= 64, "a ring of {slots} slots");
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: (slots * slot / BLOCK) as u32,
            tp_frame_size: slot as u32,
            tp_frame_nr: slots as u32,
        };
        sys::set_option(socket, libc::SOL_PACKET, name, &request)?;
    }
    // Room for a full send ring in flight; the plain option is capped by net.core.wmem_max.
    let bytes = (options.send_slots * slot) as u32;
    if sys::set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
        sys::set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes)?;
    }
    if options.promiscuous {
        let request = libc::packet_mreq {
            mr_ifindex: link.index as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)?;
    }
    Rings::map(socket, slot, options.receive_slots, options.send_slots)
}
