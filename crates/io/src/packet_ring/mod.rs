//! `packet:` ports: a network interface of the kernel through AF_PACKET (packet(7)).
//!
//! Frames come in by a version 2 ring: version 3 hands over blocks by a timer, which costs a millisecond of delay; version
//! 2 hands over single frames. A slot holds what a link of 1500 bytes carries. What is longer, super-frames above all, the
//! kernel keeps beside the ring and says so in the slot (PACKET_COPY_THRESH), and is read from there straight into a
//! frame of the pool. While a port is open the host's stack receives nothing from the interface ([`crate::ingress`]).
//!
//! With each frame comes what its sender has left to others, segmentation and checksums (PACKET_VNET_HDR), and goes with
//! it. Where that is not wanted, interfaces join no frames ([`crate::offload`]), and checksums left to a network card are
//! filled in here (TP_STATUS_CSUMNOTREADY): of encapsulated packets only the outer one, as which is missing the ring does
//! not say. Tags that the kernel took out are put back.

mod fanout;
mod outgoing;
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
use ring::Ring;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a ring that the kernel allocates at once.
const BLOCK: usize = 64 << 10;
/// Bytes of a slot: a frame of 1500 bytes and its link header fit, with what the kernel puts before it.
const SLOT: usize = 2048;
/// Bytes of long frames that the kernel keeps beside the ring at most, as it counts them: some hundred super-frames.
const BESIDE: u32 = 32 << 20;
/// Bytes in flight at most, as the kernel counts them.
const IN_FLIGHT: u32 = 8 << 20;
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
    /// Take and hand over super-frames and partial checksums as they are.
    pub offloads: bool,
    /// Receive frames for other stations too.
    pub promiscuous: bool,
    /// Frames have come when the kernel got them, and not when they are found in the ring: what they waited there is not
    /// overlooked, for some 50 ns with each look that finds any.
    pub stamped: bool,
}

impl Default for PacketOptions {
    fn default() -> Self {
        PacketOptions { receive_slots: 4096, offloads: true, promiscuous: true, stamped: false }
    }
}

/// The socket, its ring and what has to be undone when it closes, in that order.
#[derive(Debug)]
struct Device {
    ring: Ring,
    socket: OwnedFd,
    link: Link,
    offloads: bool,
    tenure: Arc<Tenure>,
}

/// What was changed about an interface; undone when the last port on it closes.
#[derive(Debug)]
struct Tenure {
    joining: Vec<Arc<SwitchedOff>>,
    ingress: Mutex<Option<Arc<IngressDrop>>>,
    offloads: bool,
    /// The interface was away: what keeps the host out is gone, and the offloads are as they were set.
    let_go: AtomicBool,
}

impl Tenure {
    fn ingress(&self) -> Option<Arc<IngressDrop>> {
        self.ingress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn let_go(&self) {
        self.let_go.store(true, Ordering::Release);
        *self.ingress.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn was_let_go(&self) -> bool {
        self.let_go.load(Ordering::Acquire)
    }
}

/// Opens an interface in the network namespace of the calling thread: one device for each queue, and remarks on what could
/// not be had. `held` says whether a port that is open or closing has the interface, by its index.
fn open(
    interface: &str,
    options: &PacketOptions,
    queues: usize,
    held: impl FnOnce(u32) -> Option<Arc<Tenure>>,
) -> Result<(Vec<Device>, Vec<String>), OpenError> {
    let mut remarks = Vec::new();
    let link = find(interface)?;
    let mut sockets = Vec::new();
    for _ in 0..queues.max(1) {
        let socket = socket(&link, options).map_err(|error| refused(interface, error))?;
        let ring = Ring::map(&socket, SLOT, options.receive_slots, options.offloads);
        sockets.push((ring.map_err(|error| refused(interface, error))?, socket));
    }
    let tenure = match held(link.index) {
        Some(held) if held.offloads == options.offloads && !held.was_let_go() => held,
        held => {
            let kept = held.as_ref().filter(|held| !held.was_let_go()).map(|held| held.ingress());
            let ingress = kept.unwrap_or_else(|| keep_host_out(&link, &mut remarks).map(Arc::new));
            let mut joining = held.filter(|held| held.was_let_go()).map_or_else(Vec::new, |held| held.joining.clone());
            let switched = SwitchedOff::new(interface, joined_by(options.offloads)).map_err(|error| {
                let harm = "frames that the interface joins cannot be taken apart again";
                remarks.push(format!(
                    "could not switch off the joining of received frames on {interface} ({error}): {harm}"
                ));
            });
            joining.extend(
                switched.ok().filter(|switched| joining.is_empty() || switched.has_changed_any()).map(Arc::new),
            );
            let (ingress, let_go) = (Mutex::new(ingress), AtomicBool::new(false));
            Arc::new(Tenure { joining, ingress, offloads: options.offloads, let_go })
        }
    };
    let joined = fanout::bind(sockets.iter().map(|(_, socket)| socket), link.index);
    let joined = joined.map_err(|error| refused(interface, error))?;
    if joined < sockets.len() {
        remarks.push(format!("the kernel spreads nothing over several sockets here: one worker serves {interface}"));
        sockets.truncate(joined);
    }
    let device = |(ring, socket)| Device {
        ring,
        socket,
        link: link.clone(),
        offloads: options.offloads,
        tenure: tenure.clone(),
    };
    Ok((sockets.into_iter().map(device).collect(), remarks))
}

/// Takes an interface from the host's own stack.
fn keep_host_out(link: &Link, remarks: &mut Vec<String>) -> Option<IngressDrop> {
    match ingress::sweep() {
        Ok(freed) if freed.is_empty() => {}
        Ok(freed) => remarks.push(format!("removed ingress filters that a killed router left on {}", freed.join(", "))),
        Err(error) => {
            remarks.push(format!("could not look for ingress filters a killed router may have left: {error}"))
        }
    }
    let installed = IngressDrop::install(link.index).map_err(|error| {
        let (interface, harm) =
            (&link.name, "where it has addresses there or forwards, packets are answered or routed twice");
        remarks.push(format!("the host's own stack also receives what comes in by {interface} ({error}): {harm}"));
    });
    installed.ok()
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

/// A socket with everything but the bind, so that nothing arrives half configured.
fn socket(link: &Link, options: &PacketOptions) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Without a protocol it receives nothing until it is bound.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    let set = |name, value: u32| sys::set_option(&socket, libc::SOL_PACKET, name, &value);
    set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as u32)?;
    set(libc::PACKET_IGNORE_OUTGOING, 1)?;
    set(libc::PACKET_COPY_THRESH, 1)?;
    if options.offloads {
        set(libc::PACKET_VNET_HDR, 1)?;
    } else {
        // Past the interface's queueing discipline: the queues are ours. Super-frames have to go by there, which cuts what
        // the interface cannot.
        set(libc::PACKET_QDISC_BYPASS, 1)?;
    }
    let slots = options.receive_slots;
    assert!(slots.is_power_of_two() && slots >= 64, "a ring of {slots} slots");
    let request = libc::tpacket_req {
        tp_block_size: BLOCK as u32,
        tp_block_nr: (slots * SLOT / BLOCK) as u32,
        tp_frame_size: SLOT as u32,
        tp_frame_nr: slots as u32,
    };
    sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
    // The plain options are capped by net.core.rmem_max and wmem_max.
    for (forced, plain, bytes) in
        [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, BESIDE), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, IN_FLIGHT)]
    {
        if sys::set_option(&socket, libc::SOL_SOCKET, forced, &bytes).is_err() {
            sys::set_option(&socket, libc::SOL_SOCKET, plain, &bytes)?;
        }
    }
    if options.promiscuous {
        let request = libc::packet_mreq {
            mr_ifindex: link.index as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)?;
    }
    Ok(socket)
}

/// What joins received frames and has to be off: the interface itself (LRO), whose work nobody can undo; and the kernel
/// (GRO), where super-frames are not wanted.
fn joined_by(offloads: bool) -> &'static [Offload] {
    if offloads { &[Offload::LargeReceive] } else { &[Offload::LargeReceive, Offload::ReceiveJoining] }
}
