//! `packet:` ports: a kernel interface through AF_PACKET (packet(7)).
//!
//! Frames arrive in a version 2 ring, which delivers single frames. Version 3 delivers blocks by a timer, which costs a millisecond of delay. A slot
//! holds the frames of a link with MTU 1500. The kernel queues longer frames, mostly super-frames, beside the ring and marks their slots
//! (PACKET_COPY_THRESH). They are read from there directly into a frame of the pool. While a port is open, the host's stack receives nothing from the
//! interface ([`crate::ingress`]).
//!
//! PACKET_VNET_HDR passes the offloads of each frame, segmentation and checksums, in both directions. With offloads disabled, interfaces join no
//! frames ([`crate::offload`]), and the port completes partial checksums (TP_STATUS_CSUMNOTREADY). For encapsulated packets it completes only the
//! outer one, because the ring does not report which checksum is missing. VLAN tags that the kernel removed are inserted again.

mod fanout;
mod interfaces;
mod port;
mod ring;
mod transmit;

pub(crate) use interfaces::PacketInterfaces;
pub use port::PacketPort;

use crate::advisories::OpenError;
use crate::ingress::{self, IngressDrop};
use crate::netlink::{KernelLink, Netlink};
use crate::offload::{DisabledOffloads, EthtoolOffload};
use crate::sys;
use ring::Ring;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a ring that the kernel allocates as one block.
const BLOCK: usize = 64 << 10;
/// Bytes of a slot: a frame with MTU 1500, its link header, and the kernel's header.
const SLOT: usize = 2048;
/// The maximum of bytes queued beside the ring, by the kernel's accounting: some hundred super-frames.
const MOST_QUEUED_BYTES: u32 = 32 << 20;
/// The maximum of bytes in flight, by the kernel's accounting.
const IN_FLIGHT: u32 = 8 << 20;
/// ARPHRD_ETHER: interfaces whose frames have Ethernet headers.
const ETHERNET: u16 = 1;
/// ARPHRD_LOOPBACK: has Ethernet headers too, but no peer.
const LOOPBACK: u16 = 772;

/// A name for a tap device, in hints.
const TAP: &str = "tap0";

/// Options for opening a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketOptions {
    /// Slots of the receive ring: a power of two, at least 64.
    pub receive_slots: usize,
    /// Receive and transmit super-frames and partial checksums without preparation.
    pub offloads: bool,
    /// Also receive frames for other hosts.
    pub promiscuous: bool,
    /// Take the arrival time from the kernel, so that the time in the ring counts. Costs some 50 ns for each receive call with frames.
    pub kernel_timestamps: bool,
}

impl Default for PacketOptions {
    fn default() -> Self {
        PacketOptions { receive_slots: 4096, offloads: true, promiscuous: true, kernel_timestamps: false }
    }
}

/// The socket, its ring and the changes to undo, closed in this order.
#[derive(Debug)]
struct PacketDevice {
    ring: Ring,
    socket: OwnedFd,
    link: KernelLink,
    offloads: bool,
    changes: Arc<InterfaceChanges>,
}

/// The changes to an interface, undone when the last port on it closes.
#[derive(Debug)]
struct InterfaceChanges {
    disabled_offloads: Vec<Arc<DisabledOffloads>>,
    ingress_drop: Mutex<Option<Arc<IngressDrop>>>,
    offloads: bool,
    /// The interface left the namespace: the ingress drop is gone, and the offloads stay as they were set.
    left_namespace: AtomicBool,
}

impl InterfaceChanges {
    fn ingress_drop(&self) -> Option<Arc<IngressDrop>> {
        self.ingress_drop.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn mark_left(&self) {
        self.left_namespace.store(true, Ordering::Release);
        *self.ingress_drop.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn has_left(&self) -> bool {
        self.left_namespace.load(Ordering::Acquire)
    }
}

/// Opens an interface in the network namespace of the calling thread: one device for each queue, with advisories about missing features. `held` tests
/// by index if an open or closing port has the interface.
fn open(
    interface: &str,
    options: &PacketOptions,
    queues: usize,
    held: impl FnOnce(u32) -> Option<Arc<InterfaceChanges>>,
) -> Result<(Vec<PacketDevice>, Vec<String>), OpenError> {
    let mut warnings = Vec::new();
    let link = find(interface)?;
    let mut sockets = Vec::new();
    for _ in 0..queues.max(1) {
        let socket = socket(&link, options).map_err(|error| refused(interface, error))?;
        let ring = Ring::map(&socket, SLOT, options.receive_slots, options.offloads);
        sockets.push((ring.map_err(|error| refused(interface, error))?, socket));
    }
    let tenure = match held(link.index) {
        Some(held) if held.offloads == options.offloads && !held.has_left() => held,
        held => {
            // The open port's ingress drop is shared: two `cls_bpf` drops would be one filter, which the first to close removes.
            let kept = held.as_ref().filter(|held| !held.has_left()).map(|held| held.ingress_drop());
            let ingress = kept.unwrap_or_else(|| drop_ingress(&link, &mut warnings).map(Arc::new));
            // An interface that left and returned still has its offloads off. Only the old record knows that they were on.
            let mut joining =
                held.filter(|held| held.has_left()).map_or_else(Vec::new, |held| held.disabled_offloads.clone());
            let switched = DisabledOffloads::new(interface, joining_offloads(options.offloads)).map_err(|error| {
                let harm = "the router cannot split frames that the interface merges";
                warnings.push(format!("cannot switch off GRO and LRO on {interface} ({error}): {harm}"));
            });
            joining.extend(
                switched.ok().filter(|switched| joining.is_empty() || switched.has_changed_any()).map(Arc::new),
            );
            let (ingress, let_go) = (Mutex::new(ingress), AtomicBool::new(false));
            Arc::new(InterfaceChanges {
                disabled_offloads: joining,
                ingress_drop: ingress,
                offloads: options.offloads,
                left_namespace: let_go,
            })
        }
    };
    // Bound last: a frame received before the changes above could be joined, or routed by the host as well.
    let joined = fanout::bind(sockets.iter().map(|(_, socket)| socket), link.index);
    let joined = joined.map_err(|error| refused(interface, error))?;
    if joined < sockets.len() {
        warnings.push(format!("the kernel has no PACKET_FANOUT here: one worker serves {interface}"));
        sockets.truncate(joined);
    }
    let device = |(ring, socket)| PacketDevice {
        ring,
        socket,
        link: link.clone(),
        offloads: options.offloads,
        changes: tenure.clone(),
    };
    Ok((sockets.into_iter().map(device).collect(), warnings))
}

/// Stops the host's stack from processing an interface's packets.
fn drop_ingress(link: &KernelLink, warnings: &mut Vec<String>) -> Option<IngressDrop> {
    match ingress::sweep() {
        Ok(freed) if freed.is_empty() => {}
        Ok(freed) => {
            warnings.push(format!("removed ingress filters that a killed router left on {}", freed.join(", ")))
        }
        Err(error) => warnings.push(format!("cannot search for ingress filters that a killed router left: {error}")),
    }
    let installed = IngressDrop::install(link.index).map_err(|error| {
        let (interface, harm) = (
            &link.name,
            "if the host has addresses on it or forwards, it answers or routes these packets a second time",
        );
        warnings.push(format!("the host's own stack also receives the packets of {interface} ({error}): {harm}"));
    });
    installed.ok()
}

/// The link with this name, in the network namespace of the calling thread.
pub(crate) fn find(interface: &str) -> Result<KernelLink, OpenError> {
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
            reason: format!(
                "the interface '{interface}' is the loopback of this machine, and a port would disconnect it"
            ),
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
        Some(libc::ENODEV | libc::ENXIO) => "the interface disappeared during the opening: try again",
        Some(libc::EAFNOSUPPORT | libc::ENOPROTOOPT) => "the kernel must be 4.20 or later, with CONFIG_PACKET",
        _ => "`switchpath doctor` reports the abilities of this machine",
    };
    OpenError { reason: format!("opening the interface '{interface}' for packets failed: {error}"), hint: hint.into() }
}

/// A fully configured socket that is not bound yet, so that no packet arrives before the configuration is complete.
fn socket(link: &KernelLink, options: &PacketOptions) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // With protocol zero it receives nothing until it is bound.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    let set = |name, value: u32| sys::set_option(&socket, libc::SOL_PACKET, name, &value);
    set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as u32)?;
    // Without this the port would also receive packets that leave by the interface.
    set(libc::PACKET_IGNORE_OUTGOING, 1)?;
    // A frame that exceeds its slot is also queued whole on the socket.
    set(libc::PACKET_COPY_THRESH, 1)?;
    if options.offloads {
        set(libc::PACKET_VNET_HDR, 1)?;
    } else {
        // Bypass the interface's queueing discipline, because the router has its own queues. Super-frames must pass it: it segments those that the
        // interface cannot segment.
        set(libc::PACKET_QDISC_BYPASS, 1)?;
    }
    let slots = options.receive_slots;
    // A block has 32 slots. A power of two from 64 on fills whole blocks, as the kernel requires.
    assert!(slots.is_power_of_two() && slots >= 64, "a ring of {slots} slots");
    let request = libc::tpacket_req {
        tp_block_size: BLOCK as u32,
        tp_block_nr: (slots * SLOT / BLOCK) as u32,
        tp_frame_size: SLOT as u32,
        tp_frame_nr: slots as u32,
    };
    sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
    // The plain options are limited by net.core.rmem_max and wmem_max.
    for (forced, plain, bytes) in
        [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, MOST_QUEUED_BYTES), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, IN_FLIGHT)]
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

/// The offloads that join received frames and must be off. LRO joins in the interface, irreversibly. GRO joins in the kernel and only matters without
/// super-frames.
fn joining_offloads(offloads: bool) -> &'static [EthtoolOffload] {
    if offloads {
        &[EthtoolOffload::LargeReceive]
    } else {
        &[EthtoolOffload::LargeReceive, EthtoolOffload::GenericReceive]
    }
}
