//! The circuit table: the share of each packet by the subscriber's addresses, VLAN tags or MAC address.
//!
//! A packet belongs to the circuit with the longest prefix of its address. If there is none, the VLAN tags decide, then the MAC address. Prefixes lie in
//! the forwarding tables of crate `fib`, with the number of the share in place of a route's outcome.

use crate::exact_keys::ExactKeys;
use fib::{Fib4, Fib6, Outcome};
use packet::wire::TagStack;
use packet::{Meta, Packet};
use std::fmt;
use std::net::IpAddr;
use units::{Bytes, CircuitKey, Mac, QueueId, ShareId};

/// Packets that are looked up together.
const BATCH: usize = 256;
/// Packets whose headers are prefetched ahead of the one being read.
const AHEAD: usize = 4;
/// The largest identifier of a VLAN (IEEE 802.1Q 9.6).
const MOST_VLAN: u16 = 4094;
/// The number of identifiers of 12 bits.
const VLANS: usize = 1 << 12;

/// The direction of packets, which selects the fields that a look-up reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookUpDirection {
    /// From the subscriber: the source address, the tags of the frame, the source MAC address.
    Up,
    /// To the subscriber, received from the Internet: the destination address and MAC address. Tags are those of another link.
    Down,
    /// To the subscriber across a bridge: as `Down`, and the tags of the frame, which leaves with them.
    DownBridged,
}

/// A reason to refuse a circuit's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CircuitError {
    /// The prefix is longer than its address.
    PrefixLength(CircuitKey),
    /// The MAC address is that of a group, or zero.
    NotUnicast(CircuitKey),
    /// A VLAN identifier is not in 1..=4094.
    VlanRange(CircuitKey),
    /// The share is zero, or not below 2^24.
    ShareRange(CircuitKey, ShareId),
    /// Two circuits with different shares have this key.
    Duplicate(CircuitKey),
}

impl fmt::Display for CircuitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CircuitError::PrefixLength(key) => write!(f, "the prefix {key} is longer than its address"),
            CircuitError::NotUnicast(key) => write!(f, "the MAC address {key} is not that of one host"),
            CircuitError::VlanRange(key) => write!(f, "{key} is out of range: VLAN identifiers are 1 to {MOST_VLAN}"),
            CircuitError::ShareRange(key, share) => write!(f, "the circuit {key} has no valid share: {share}"),
            CircuitError::Duplicate(key) => write!(f, "two circuits with different shares have the key {key}"),
        }
    }
}

impl std::error::Error for CircuitError {}

/// The shares of all circuits by their keys. It never changes: the control side builds a new one and publishes it.
pub struct CircuitTable {
    /// `None` without prefixes of the family, so that empty tables reserve no address space.
    prefixes4: Option<Box<Fib4>>,
    prefixes6: Option<Box<Fib6>>,
    /// The share of each outermost tag, zero for none. Empty without such circuits.
    vlans: Box<[u32]>,
    tag_pairs: ExactKeys,
    macs: ExactKeys,
    keys: usize,
}

impl CircuitTable {
    /// Builds the table. Entries may have any order. A key may occur again with the same share. Fails at the first key, in the order of keys, that cannot
    /// be used.
    pub fn new(entries: impl Iterator<Item = (CircuitKey, ShareId)>) -> Result<CircuitTable, CircuitError> {
        let mut entries: Vec<_> =
            entries.map(|(key, share)| Ok((checked(key, share)?, share))).collect::<Result<_, _>>()?;
        entries.sort_unstable();
        entries.dedup();
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(CircuitError::Duplicate(pair[0].0));
        }
        let (mut prefixes4, mut prefixes6) = (None, None);
        let (mut vlans, mut tag_pairs, mut macs) = (Vec::new(), Vec::new(), Vec::new());
        for &(key, share) in &entries {
            match key {
                CircuitKey::Prefix(IpAddr::V4(address), length) => {
                    let table: &mut Box<Fib4> = prefixes4.get_or_insert_default();
                    table.insert(address.to_bits(), length, share.0);
                }
                CircuitKey::Prefix(IpAddr::V6(address), length) => {
                    let table: &mut Box<Fib6> = prefixes6.get_or_insert_default();
                    table.insert(address.to_bits(), length, share.0);
                }
                CircuitKey::Mac(mac) => macs.push((mac.number(), share)),
                CircuitKey::Vlan { outer: Some(outer), vlan } => tag_pairs.push((pair_key([outer, vlan]), share)),
                CircuitKey::Vlan { outer: None, vlan } => {
                    vlans.resize(VLANS, 0);
                    vlans[usize::from(vlan)] = share.0;
                }
            }
        }
        Ok(CircuitTable {
            prefixes4,
            prefixes6,
            vlans: vlans.into(),
            tag_pairs: ExactKeys::new(&tag_pairs),
            macs: ExactKeys::new(&macs),
            keys: entries.len(),
        })
    }

    /// The number of different keys.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// Memory in use for prefixes, tags and MAC addresses, in bytes. Of the first tables of prefixes, which are used page by page, only the address space is
    /// known: 80 MB for IPv4 and 64 MB for IPv6 prefixes, counted in full.
    pub fn memory(&self) -> Bytes {
        let fib4 = self.prefixes4.as_ref().map_or(0, |table| table.bytes());
        let fib6 = self.prefixes6.as_ref().map_or(0, |table| table.bytes());
        let exact = self.tag_pairs.bytes() + self.macs.bytes() + size_of_val(&*self.vlans);
        Bytes::new((fib4 + fib6 + exact) as u64)
    }

    /// Writes the share of each packet that belongs to a circuit to its `queue`, and leaves the other packets alone. `l3` and the flag `IPV6` of each
    /// packet are set. IPv4, IPv6 and other frames may be mixed.
    pub fn look_up(&self, direction: LookUpDirection, packets: &mut [Packet]) {
        for packets in packets.chunks_mut(BATCH) {
            self.look_up_some(direction, packets);
        }
    }

    /// The same for at most [`BATCH`] packets.
    fn look_up_some(&self, direction: LookUpDirection, packets: &mut [Packet]) {
        let mut four = Addresses::<u32>::new();
        let mut six = Addresses::<u128>::new();
        // The packets without a circuit so far.
        let mut rest = Rest::new();
        for i in 0..packets.len() {
            if let Some(next) = packets.get(i + AHEAD) {
                next.prefetch_bytes();
            }
            match address(direction, &packets[i]) {
                Some(Address::Four(address)) if self.prefixes4.is_some() => four.push(i, address),
                Some(Address::Six(address)) if self.prefixes6.is_some() => six.push(i, address),
                _ => rest.push(i),
            }
        }
        if let Some(table) = &self.prefixes4 {
            four.look_up(packets, &mut rest, |addresses, words| table.lookup_bulk(addresses, words));
        }
        if let Some(table) = &self.prefixes6 {
            six.look_up(packets, &mut rest, |addresses, words| table.lookup_bulk(addresses, words));
        }
        if direction != LookUpDirection::Down && !(self.vlans.is_empty() && self.tag_pairs.is_empty()) {
            self.look_up_tags(packets, &mut rest);
        }
        if !self.macs.is_empty() {
            self.look_up_macs(direction, packets, &mut rest);
        }
    }

    /// Looks up the tags of packets that have no circuit yet.
    #[inline(never)]
    fn look_up_tags(&self, packets: &mut [Packet], rest: &mut Rest) {
        // Identifier zero of no tag is no circuit's either.
        let mut tags = [[0; 2]; BATCH];
        for (&i, tags) in rest.packets().iter().zip(&mut tags) {
            *tags = TagStack::of(packets[usize::from(i)].bytes()).map_or([0; 2], |stack| outermost_first(stack.vlans));
            self.tag_pairs.prefetch(pair_key(*tags));
        }
        rest.retain(|at, i| {
            let [outermost, inner] = tags[at];
            let pair = if inner == 0 { None } else { self.tag_pairs.get(pair_key(tags[at])) };
            let single = self.vlans.get(usize::from(outermost)).copied().filter(|share| *share != 0);
            settle(&mut packets[i], pair.or(single.map(ShareId)))
        });
    }

    /// Looks up the MAC addresses of packets that have no circuit yet.
    #[inline(never)]
    fn look_up_macs(&self, direction: LookUpDirection, packets: &mut [Packet], rest: &mut Rest) {
        let mut macs = [0; BATCH];
        for (&i, mac) in rest.packets().iter().zip(&mut macs) {
            // A frame without both addresses has the key of the zero address, which no circuit has.
            *mac = mac_of(direction, packets[usize::from(i)].bytes()).map_or(0, Mac::number);
            self.macs.prefetch(*mac);
        }
        rest.retain(|at, i| settle(&mut packets[i], self.macs.get(macs[at])));
    }
}

impl fmt::Debug for CircuitTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pairs, macs) = (self.tag_pairs.len(), self.macs.len());
        f.debug_struct("CircuitTable")
            .field("keys", &self.keys)
            .field("tag_pairs", &pairs)
            .field("macs", &macs)
            .finish()
    }
}

/// The key without bits after a prefix, or the reason to refuse it.
fn checked(key: CircuitKey, share: ShareId) -> Result<CircuitKey, CircuitError> {
    if share.0 == 0 || share.0 >= 1 << Outcome::BITS {
        return Err(CircuitError::ShareRange(key, share));
    }
    let is_vlan = |vlan: u16| (1..=MOST_VLAN).contains(&vlan);
    match key {
        CircuitKey::Prefix(IpAddr::V4(address), length @ 0..=32) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            Ok(CircuitKey::Prefix(std::net::Ipv4Addr::from_bits(address.to_bits() & mask).into(), length))
        }
        CircuitKey::Prefix(IpAddr::V6(address), length @ 0..=128) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            Ok(CircuitKey::Prefix(std::net::Ipv6Addr::from_bits(address.to_bits() & mask).into(), length))
        }
        CircuitKey::Prefix(..) => Err(CircuitError::PrefixLength(key)),
        CircuitKey::Mac(mac) if !mac.is_unicast() => Err(CircuitError::NotUnicast(key)),
        CircuitKey::Vlan { outer, vlan } if !is_vlan(vlan) || !outer.is_none_or(is_vlan) => {
            Err(CircuitError::VlanRange(key))
        }
        CircuitKey::Mac(_) | CircuitKey::Vlan { .. } => Ok(key),
    }
}

/// The address of a packet that identifies its subscriber.
enum Address {
    Four(u32),
    Six(u128),
}

/// The subscriber's address in an IP packet. `None` for other frames. Fragments have addresses as well.
#[inline(always)]
fn address(direction: LookUpDirection, packet: &Packet) -> Option<Address> {
    let meta = packet.meta();
    let l3 = packet.bytes().get(usize::from(meta.l3)..)?;
    let up = direction == LookUpDirection::Up;
    // A frame without an IP header has `l3` at its end. The version is compared too, since a bridge checks no headers.
    if meta.flags & Meta::IPV6 == 0 {
        let header = l3.first_chunk::<20>().filter(|header| header[0] >> 4 == 4)?;
        let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *header;
        Some(Address::Four(u32::from_be_bytes(if up { [s0, s1, s2, s3] } else { [d0, d1, d2, d3] })))
    } else {
        let header = l3.first_chunk::<40>().filter(|header| header[0] >> 4 == 6)?;
        let (source, destination) = header[8..].split_at(16);
        let bytes = if up { source } else { destination };
        Some(Address::Six(u128::from_be_bytes(*bytes.first_chunk()?)))
    }
}

/// The tags without a priority tag outside of another.
#[inline]
fn outermost_first([outer, inner]: [u16; 2]) -> [u16; 2] {
    if outer == 0 { [inner, 0] } else { [outer, inner] }
}

/// The key of a pair of tags.
#[inline(always)]
fn pair_key([outer, inner]: [u16; 2]) -> u64 {
    u64::from(outer) << 12 | u64::from(inner)
}

#[inline]
fn mac_of(direction: LookUpDirection, frame: &[u8]) -> Option<Mac> {
    let at = if direction == LookUpDirection::Up { 6 } else { 0 };
    Some(Mac(*frame.get(at..)?.first_chunk()?))
}

/// Stores the share of a packet. Returns true if there is none.
#[inline(always)]
fn settle(packet: &mut Packet, share: Option<ShareId>) -> bool {
    match share {
        Some(share) => packet.meta_mut().queue = QueueId(share.0),
        None => return true,
    }
    false
}

/// The addresses of some packets of a batch, and the positions of the packets.
struct Addresses<A> {
    addresses: [A; BATCH],
    packets: [u8; BATCH],
    count: usize,
}

impl<A: Copy + Default> Addresses<A> {
    #[inline(always)]
    fn new() -> Self {
        const { assert!(BATCH <= 1 << u8::BITS) };
        Addresses { addresses: [A::default(); BATCH], packets: [0; BATCH], count: 0 }
    }

    #[inline(always)]
    fn push(&mut self, packet: usize, address: A) {
        self.addresses[self.count] = address;
        self.packets[self.count] = packet as u8;
        self.count += 1;
    }

    /// Looks up all addresses and stores the shares found. Packets without one are added to `rest`.
    #[inline(always)]
    fn look_up(&self, packets: &mut [Packet], rest: &mut Rest, bulk: impl Fn(&[A], &mut [u32])) {
        if self.count == 0 {
            return;
        }
        let mut words = [0; BATCH];
        bulk(&self.addresses[..self.count], &mut words[..self.count]);
        for (&i, &word) in self.packets[..self.count].iter().zip(&words) {
            if settle(&mut packets[usize::from(i)], (word != 0).then_some(ShareId(word))) {
                rest.push(i.into());
            }
        }
    }
}

/// Positions of the packets of a batch that have no circuit yet.
struct Rest {
    packets: [u8; BATCH],
    count: usize,
}

impl Rest {
    #[inline(always)]
    fn new() -> Rest {
        Rest { packets: [0; BATCH], count: 0 }
    }

    #[inline(always)]
    fn push(&mut self, packet: usize) {
        self.packets[self.count] = packet as u8;
        self.count += 1;
    }

    #[inline(always)]
    fn packets(&self) -> &[u8] {
        &self.packets[..self.count]
    }

    /// Keeps the packets for which `without` returns true. It receives the index in this list, and the position of the packet in the batch.
    #[inline(always)]
    fn retain(&mut self, mut without: impl FnMut(usize, usize) -> bool) {
        let mut kept = 0;
        for at in 0..self.count {
            let packet = self.packets[at];
            if without(at, packet.into()) {
                self.packets[kept] = packet;
                kept += 1;
            }
        }
        self.count = kept;
    }
}
