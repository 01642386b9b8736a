//! Packets between the router and programs of its machine. The router *punts* received packets that such programs handle to the kernel, and *injects*
//! what they send into its links, as it is.
//!
//! The first worker is at one end of two bounded queues, the thread that serves the kernel's interfaces at the other. So no worker makes a system call
//! for these packets. Each protocol has a limit for all workers together, and counters.

use crate::parker::{Parker, WakeFn};
use packet::spsc::{Consumer, Producer, RingConsumer, RingProducer, ring};
use packet::wire::{Ethernet, LengthOrType, PacketFields, ethertype, icmp6, protocol};
use packet::{Meta, Packet};
use parking_lot::Mutex;
use plan::{PuntLimits, PuntedProtocol};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use units::{Instant, InterfaceId, Nanos, PacketRate, SharedBucket};

/// Frames in each direction that wait.
const CAPACITY: usize = 4096;
/// Bytes of frames for the kernel that wait: super-frames are long.
const MOST_BYTES: usize = 16 << 20;
/// Frames that a worker injects in one step.
pub(crate) const INJECTED_AT_ONCE: usize = 32;
/// The time whose packets may arrive at once.
const BURST: Nanos = Nanos::millis(100);
/// Sources with limits of their own for each protocol. More of them share.
const SOURCES: usize = 256;
/// Each source has this part of the limit of a protocol, so that one that floods leaves the rest to others.
const PART_OF_SOURCE: u64 = 4;

/// An Ethernet frame without a VLAN tag, and the interface of the router that it arrived at or leaves by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PuntedFrame {
    /// The interface.
    pub interface: InterfaceId,
    /// The frame.
    pub bytes: Box<[u8]>,
}

units::counters! {
    /// The counters of a protocol of programs of the machine.
    pub struct PuntCounters {
        /// Packets that the kernel got.
        punted "punted_packets";
        /// Packets above the limit of the protocol, which were dropped.
        limited "limited_packets";
        /// Packets that found the queue for the kernel full.
        overflowed "overflowed_packets";
        /// Packets that programs of the machine sent.
        injected "injected_packets";
    }
}

impl PuntCounters {
    /// True if there were packets of the protocol.
    pub fn is_used(&self) -> bool {
        *self != PuntCounters::default()
    }
}

#[derive(Default)]
struct Counters {
    punted: AtomicU64,
    limited: AtomicU64,
    overflowed: AtomicU64,
    injected: AtomicU64,
}

const PROTOCOLS: usize = PuntedProtocol::ALL.len();

/// The queues, limits and counters of one router. They outlive generations.
pub struct Punt {
    to_kernel: (Mutex<RingProducer<PuntedFrame>>, Mutex<RingConsumer<PuntedFrame>>),
    from_kernel: (Mutex<RingProducer<PuntedFrame>>, Mutex<RingConsumer<PuntedFrame>>),
    /// Bytes in `to_kernel`.
    bytes: AtomicUsize,
    /// Frames in `from_kernel`.
    waiting: AtomicUsize,
    /// Frames of programs that found `from_kernel` full.
    refused: AtomicU64,
    counters: [Counters; PROTOCOLS],
    /// By protocol.
    paid: [SharedBucket; PROTOCOLS],
    /// The same by protocol and source.
    paid_by_source: [[SharedBucket; SOURCES]; PROTOCOLS],
    /// The thread that serves the kernel's interfaces.
    reader: Parker,
    /// The first worker.
    worker: Arc<Parker>,
}

impl fmt::Debug for Punt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Punt").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

impl Default for Punt {
    fn default() -> Self {
        Punt::for_worker(Arc::default())
    }
}

impl Punt {
    pub(crate) fn for_worker(worker: Arc<Parker>) -> Punt {
        let ends = || {
            let (producer, consumer) = ring(CAPACITY);
            (Mutex::new(producer), Mutex::new(consumer))
        };
        Punt {
            to_kernel: ends(),
            from_kernel: ends(),
            bytes: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            counters: Default::default(),
            paid: Default::default(),
            paid_by_source: std::array::from_fn(|_| [const { SharedBucket::new() }; SOURCES]),
            reader: Parker::default(),
            worker,
        }
    }

    /// Sets how the thread at the kernel's end is woken. Only the first call counts.
    pub fn set_reader_wake(&self, wake: WakeFn) {
        self.reader.set_wake(wake);
    }

    /// True if a packet of this protocol from this source, of [`source_of`], is within the limits now, for which it is charged.
    pub(crate) fn admits(&self, protocol: PuntedProtocol, source: u64, limits: &PuntLimits, now: Instant) -> bool {
        let (limit, place) = (limits.of(protocol), protocol as usize);
        let of_source = PacketRate::pps(limit.get().div_ceil(PART_OF_SOURCE));
        // The source first: packets beyond its part must not use up the limit of all.
        let admitted = self.paid_by_source[place][source as usize % SOURCES].take(of_source, BURST, now)
            && self.paid[place].take(limit, BURST, now);
        if !admitted {
            self.counters[protocol as usize].limited.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    /// Gives a frame to the kernel. False if the queue is full. Only the first worker calls it.
    pub(crate) fn send(&self, protocol: PuntedProtocol, frame: PuntedFrame) -> bool {
        let (counters, length) = (&self.counters[protocol as usize], frame.bytes.len());
        // The other thread only subtracts, so the bound holds.
        let fits = self.bytes.load(Ordering::Relaxed) + length <= MOST_BYTES;
        // The lock is this worker's alone, except while a panicking worker is replaced.
        let sent = fits && self.to_kernel.0.try_lock().is_some_and(|mut queue| queue.push(frame).is_ok());
        if sent {
            self.bytes.fetch_add(length, Ordering::Relaxed);
            counters.punted.fetch_add(1, Ordering::Relaxed);
            self.reader.unpark();
        } else {
            counters.overflowed.fetch_add(1, Ordering::Relaxed);
        }
        sent
    }

    /// Takes the next frame for the kernel out of the queue.
    pub fn next_for_kernel(&self) -> Option<PuntedFrame> {
        let frame = self.to_kernel.1.lock().pop()?;
        self.bytes.fetch_sub(frame.bytes.len(), Ordering::Relaxed);
        Some(frame)
    }

    /// The thread at the kernel's end is about to sleep. False if there are frames after all; otherwise it calls [`Punt::end_sleep`] afterwards.
    pub fn prepare_sleep(&self) -> bool {
        self.reader.prepare_park();
        let idle = self.to_kernel.1.lock().is_empty();
        if !idle {
            self.reader.end_park();
        }
        idle
    }

    /// The thread at the kernel's end is awake.
    pub fn end_sleep(&self) {
        self.reader.end_park();
    }

    /// Injects a frame that the kernel sent. False, and counted, if the queue is full.
    pub fn inject(&self, frame: PuntedFrame) -> bool {
        let accepted = self.from_kernel.0.lock().push(frame).is_ok();
        if accepted {
            // After the frame: a worker that sees the number finds the frame.
            self.waiting.fetch_add(1, Ordering::Release);
            // Not `unpark`: a worker without peers does not announce its sleep.
            self.worker.wake();
        } else {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        accepted
    }

    /// True if frames wait for [`Punt::next_injected`].
    #[inline(always)]
    pub(crate) fn has_injected(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Takes the next injected frame out of the queue. Only the first worker calls it.
    pub(crate) fn next_injected(&self) -> Option<PuntedFrame> {
        let frame = self.from_kernel.1.try_lock()?.pop()?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.counters[protocol_of(&frame.bytes) as usize].injected.fetch_add(1, Ordering::Relaxed);
        Some(frame)
    }

    /// The counters of each protocol, in the order of [`PuntedProtocol::ALL`].
    pub fn counters(&self) -> [PuntCounters; PROTOCOLS] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        std::array::from_fn(|index| {
            let Counters { punted, limited, overflowed, injected } = &self.counters[index];
            PuntCounters {
                punted: read(punted),
                limited: read(limited),
                overflowed: read(overflowed),
                injected: read(injected),
            }
        })
    }

    /// Frames of programs that were lost because the router did not take them in time.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// The protocol of a frame.
pub fn protocol_of(frame: &[u8]) -> PuntedProtocol {
    const LLDP: u16 = 0x88cc;
    /// Discovery and session stage (RFC 2516 4).
    const PPPOE: [u16; 2] = [0x8863, 0x8864];
    /// The service access points and the control field of ISO 10589 in a frame with a length (IEEE 802.2).
    const ISO: [u8; 3] = [0xfe, 0xfe, 0x03];
    let Ok(link) = Ethernet::parse(frame) else { return PuntedProtocol::Other };
    match link.length_or_type {
        LengthOrType::Ethertype(ethertype::ARP) => PuntedProtocol::Arp,
        LengthOrType::Ethertype(LLDP) => PuntedProtocol::Lldp,
        LengthOrType::Ethertype(kind) if PPPOE.contains(&kind) => PuntedProtocol::Pppoe,
        LengthOrType::Length(_) if frame.get(link.payload..).is_some_and(|llc| llc.starts_with(&ISO)) => {
            PuntedProtocol::Isis
        }
        LengthOrType::Ethertype(ethertype::IPV4 | ethertype::IPV6) => {
            PacketFields::of(frame).map_or(PuntedProtocol::Other, |fields| protocol_of_ip(frame, &fields))
        }
        _ => PuntedProtocol::Other,
    }
}

/// The protocol of an IP packet, by IANA's numbers of protocols and ports. Later fragments are [`PuntedProtocol::Other`].
fn protocol_of_ip(frame: &[u8], fields: &PacketFields) -> PuntedProtocol {
    const OSPF: u8 = 89;
    const PIM: u8 = 103;
    const VRRP: u8 = 112;
    /// Queries, reports and departures of MLD, and reports of its version 2 (RFC 2710, RFC 3810).
    const MLD: [u8; 4] = [130, 131, 132, 143];
    let Some(upper) = fields.l4_offset else { return PuntedProtocol::Other };
    let either = |ports: &[u16]| fields.sport.iter().chain(&fields.dport).any(|port| ports.contains(port));
    match fields.protocol {
        protocol::ICMP => PuntedProtocol::Icmp,
        protocol::ICMPV6 => match frame.get(upper) {
            Some(icmp6::ROUTER_SOLICITATION..=icmp6::REDIRECT) => PuntedProtocol::Discovery,
            Some(kind) if MLD.contains(kind) => PuntedProtocol::Membership,
            _ => PuntedProtocol::Icmp,
        },
        protocol::IGMP => PuntedProtocol::Membership,
        OSPF => PuntedProtocol::Ospf,
        PIM => PuntedProtocol::Pim,
        VRRP => PuntedProtocol::Vrrp,
        protocol::TCP if either(&[179]) => PuntedProtocol::Bgp,
        protocol::UDP if either(&[67, 68, 546, 547]) => PuntedProtocol::Dhcp,
        protocol::UDP if either(&[3784, 3785, 4784]) => PuntedProtocol::Bfd,
        protocol::UDP if either(&[520, 521]) => PuntedProtocol::Rip,
        protocol::UDP | protocol::TCP if either(&[53]) => PuntedProtocol::Dns,
        _ if is_routed_group(fields.destination) => PuntedProtocol::Multicast,
        _ => PuntedProtocol::Other,
    }
}

/// True for a multicast group whose packets may leave their link (RFC 5771 4, RFC 4291 2.7).
pub(crate) fn is_routed_group(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(group) => group.is_multicast() && group.octets()[..3] != [224, 0, 0],
        IpAddr::V6(group) => group.is_multicast() && group.octets()[1] & 0xf > 2,
    }
}

/// A number for the sender of a frame: its IP address, or its link-layer address for other protocols.
pub(crate) fn source_of(frame: &[u8]) -> u64 {
    /// The multiplier of FNV-1a (64 bits).
    const PRIME: u64 = 0x0100_0000_01b3;
    let mix = |bytes: &[u8]| {
        let hash =
            bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
        hash ^ hash >> 32
    };
    // A DHCP client has no address yet.
    match PacketFields::of(frame).map(|fields| fields.source).filter(|source| !source.is_unspecified()) {
        Some(IpAddr::V4(source)) => mix(&source.octets()),
        Some(IpAddr::V6(source)) => mix(&source.octets()),
        None => mix(frame.get(6..12).unwrap_or_default()),
    }
}

/// True if the router's own protocols process packets of this protocol before the kernel gets them. Their limit applies afterwards, so that a flood
/// of them, which those protocols limit themselves, takes nothing from the router.
pub(crate) fn is_shared(protocol: PuntedProtocol) -> bool {
    use PuntedProtocol::{Arp, Discovery, Icmp, Membership};
    matches!(protocol, Arp | Discovery | Icmp | Membership)
}

/// The frame of a received packet as an interface of the kernel receives it: without its VLAN tag.
pub(crate) fn untagged_frame(packet: &Packet) -> Box<[u8]> {
    /// The two MAC addresses.
    const ADDRESSES: usize = 12;
    /// An 802.1Q tag.
    const TAG: usize = 4;
    let bytes = packet.bytes();
    let tagged = Ethernet::parse(bytes).is_ok_and(|link| link.vlan.is_some());
    match bytes.split_at_checked(ADDRESSES) {
        Some((addresses, rest)) if tagged => [addresses, &rest[TAG.min(rest.len())..]].concat().into(),
        _ => bytes.into(),
    }
}

/// Prepares an injected frame for its link: the record of the packet as of one that the router has made.
pub(crate) fn describe(packet: &mut Packet) {
    let found = PacketFields::of(packet.bytes());
    let end = packet.bytes().len().min(usize::from(u16::MAX)) as u16;
    let meta = packet.meta_mut();
    // Without an IP header, the offset is the end of the frame, so that nothing is read as one.
    meta.l3 = found.as_ref().map_or(end, |fields| fields.l3_offset as u16);
    if let Some(fields) = found {
        meta.ecn = fields.ecn;
        meta.flags |= if fields.family == packet::wire::Family::V6 { Meta::IPV6 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::START + Nanos::secs(10) + Nanos::millis(ms)
    }

    fn frame(length: usize) -> PuntedFrame {
        PuntedFrame { interface: InterfaceId(1), bytes: vec![0; length].into() }
    }

    #[test]
    fn limit_admits_a_burst_and_then_its_rate() {
        let punt = Punt::default();
        let mut limits = PuntLimits::default();
        limits.0[PuntedProtocol::Vrrp as usize] = PacketRate::pps(100);
        let admitted = |source, ms| punt.admits(PuntedProtocol::Vrrp, source, &limits, at(ms));
        // A tenth of a second's packets at once, then one each 10 ms.
        assert_eq!((0..50).filter(|&source| admitted(source, 0)).count(), 10);
        assert_eq!((0..1000).filter(|&ms| admitted(ms, ms)).count(), 99);
        assert_eq!(punt.counters()[PuntedProtocol::Vrrp as usize].limited, 40 + 901);
        // Other protocols have limits of their own.
        assert!(punt.admits(PuntedProtocol::Bfd, 0, &limits, at(0)));
        limits.0[PuntedProtocol::Vrrp as usize] = PacketRate::ZERO;
        assert!(!punt.admits(PuntedProtocol::Vrrp, 0, &limits, at(5000)));
    }

    #[test]
    fn source_that_floods_leaves_most_of_the_limit_to_others() {
        let punt = Punt::default();
        let limits = PuntLimits::default();
        let (mut flood, mut neighbour) = (0, 0);
        // A second of 100,000 packets, among which a neighbour sends 1000.
        for packet in 0..100_000u64 {
            let now = Instant::START + Nanos::secs(10) + Nanos::micros(10 * packet);
            flood += u32::from(punt.admits(PuntedProtocol::Bfd, 1, &limits, now));
            neighbour += u32::from(packet % 100 == 0 && punt.admits(PuntedProtocol::Bfd, 2, &limits, now));
        }
        assert_eq!(neighbour, 1000);
        let quarter = PuntedProtocol::Bfd.default_limit().get() as u32 / 4;
        assert!((quarter..quarter * 12 / 10).contains(&flood), "{flood}");
    }

    #[test]
    fn queue_for_the_kernel_is_bounded_by_frames_and_by_bytes() {
        let punt = Punt::default();
        let accepted = (0..CAPACITY + 10).filter(|_| punt.send(PuntedProtocol::Bgp, frame(60))).count();
        assert_eq!(accepted, CAPACITY);
        let counts = punt.counters()[PuntedProtocol::Bgp as usize];
        assert_eq!((counts.punted, counts.overflowed), (CAPACITY as u64, 10));
        while punt.next_for_kernel().is_some() {}
        let accepted = (0..CAPACITY).filter(|_| punt.send(PuntedProtocol::Bgp, frame(60_000))).count();
        assert_eq!(accepted, MOST_BYTES / 60_000);
        while punt.next_for_kernel().is_some() {}
        assert!(punt.send(PuntedProtocol::Bgp, frame(60_000)));
    }

    #[test]
    fn injected_frames_are_taken_in_order_and_counted() {
        let punt = Punt::default();
        assert!(!punt.has_injected());
        for length in [60, 70, 80] {
            assert!(punt.inject(frame(length)));
        }
        assert!(punt.has_injected());
        let lengths: Vec<usize> = std::iter::from_fn(|| punt.next_injected()).map(|frame| frame.bytes.len()).collect();
        assert_eq!(lengths, [60, 70, 80]);
        assert!(!punt.has_injected());
        assert_eq!(punt.counters()[PuntedProtocol::Other as usize].injected, 3);
        assert_eq!((0..CAPACITY + 5).filter(|_| punt.inject(frame(60))).count(), CAPACITY);
        assert_eq!(punt.refused(), 5);
    }
}
