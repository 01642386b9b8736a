//! The circuit table: the share of each packet by the subscriber's addresses, VLAN tags or MAC address.
//!
//! A packet belongs to the circuit with the longest prefix of its address. If there is none, the VLAN tags decide, then the MAC address.

use crate::exact_keys::ExactKeys;
use crate::prefixes::{Addresses, BATCH, PrefixAddress, Prefixes};
use fib::Outcome;
use packet::wire::TagStack;
use packet::{Meta, Packet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use units::{Bytes, CircuitKey, Mac, ShareId};

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
    prefixes4: Prefixes<u32>,
    prefixes6: Prefixes<u128>,
    /// The share of each outermost tag, zero for none. Empty without such circuits.
    vlans: Box<[u32]>,
    tag_pairs: ExactKeys<u64>,
    macs: ExactKeys<u64>,
    keys: usize,
}

impl Default for CircuitTable {
    /// A table without circuits.
    fn default() -> CircuitTable {
        CircuitTable {
            prefixes4: Prefixes::new(&[]),
            prefixes6: Prefixes::new(&[]),
            vlans: Box::default(),
            tag_pairs: ExactKeys::new(&[]),
            macs: ExactKeys::new(&[]),
            keys: 0,
        }
    }
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
        let (mut prefixes4, mut prefixes6) = (Vec::new(), Vec::new());
        let (mut vlans, mut tag_pairs, mut macs) = (Vec::new(), Vec::new(), Vec::new());
        for &(key, share) in &entries {
            match key {
                CircuitKey::Prefix(IpAddr::V4(address), length) => prefixes4.push((address.to_bits(), length, share)),
                CircuitKey::Prefix(IpAddr::V6(address), length) => prefixes6.push((address.to_bits(), length, share)),
                CircuitKey::Mac(mac) => macs.push((mac.number(), share)),
                CircuitKey::Vlan { outer: Some(outer), vlan } => tag_pairs.push((pair_key([outer, vlan]), share)),
                CircuitKey::Vlan { outer: None, vlan } => {
                    vlans.resize(VLANS, 0);
                    vlans[usize::from(vlan)] = share.0;
                }
            }
        }
        Ok(CircuitTable {
            prefixes4: Prefixes::new(&prefixes4),
            prefixes6: Prefixes::new(&prefixes6),
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

    /// Memory in bytes. With more than four lengths of prefixes in a family it includes the reserved address space of a forwarding table, which uses
    /// memory page by page: 80 MB for IPv4, 64 MB for IPv6.
    pub fn memory(&self) -> Bytes {
        let prefixes = self.prefixes4.bytes() + self.prefixes6.bytes();
        let exact = self.tag_pairs.bytes() + self.macs.bytes() + size_of_val(&*self.vlans);
        Bytes::new((prefixes + exact) as u64)
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
                Some(Address::Four(address)) if !self.prefixes4.is_empty() => four.push(i, address),
                Some(Address::Six(address)) if !self.prefixes6.is_empty() => six.push(i, address),
                _ => rest.push(i),
            }
        }
        if !four.is_empty() {
            find(&self.prefixes4, &mut four, packets, &mut rest);
        }
        if !six.is_empty() {
            find(&self.prefixes6, &mut six, packets, &mut rest);
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
        let (mut tags, mut pairs) = ([[0; 2]; BATCH], [0; BATCH]);
        for ((&i, tags), pair) in rest.packets().iter().zip(&mut tags).zip(&mut pairs) {
            *tags = TagStack::of(packets[usize::from(i)].bytes()).map_or([0; 2], |stack| outermost_first(stack.vlans));
            *pair = pair_key(*tags);
        }
        rest.look_up(packets, &self.tag_pairs, &pairs, |at| {
            let share = self.vlans.get(usize::from(tags[at][0])).copied();
            share.filter(|share| *share != 0).map(ShareId)
        });
    }

    /// Looks up the MAC addresses of packets that have no circuit yet.
    #[inline(never)]
    fn look_up_macs(&self, direction: LookUpDirection, packets: &mut [Packet], rest: &mut Rest) {
        let mut macs = [0; BATCH];
        for (&i, mac) in rest.packets().iter().zip(&mut macs) {
            // A frame without both addresses has the key of the zero address, which no circuit has.
            *mac = mac_of(direction, packets[usize::from(i)].bytes()).map_or(0, Mac::number);
        }
        rest.look_up(packets, &self.macs, &macs, |_| None);
    }
}

/// Looks up addresses and stores the shares found. Packets without one are added to `rest`.
#[inline(always)]
fn find<A: PrefixAddress>(table: &Prefixes<A>, batch: &mut Addresses<A>, packets: &mut [Packet], rest: &mut Rest) {
    let found = |i: u8, share: ShareId| packets[usize::from(i)].meta_mut().set_share(share);
    table.look_up(batch, found, |i| rest.push(i.into()));
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
            Ok(CircuitKey::Prefix(Ipv4Addr::from_bits(address.to_bits().network(length)).into(), length))
        }
        CircuitKey::Prefix(IpAddr::V6(address), length @ 0..=128) => {
            Ok(CircuitKey::Prefix(Ipv6Addr::from_bits(address.to_bits().network(length)).into(), length))
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

    /// Looks up a key of each packet, or else `other`, and stores the share. Keeps the packets without one. `other` receives the position of the key.
    #[inline(always)]
    fn look_up(
        &mut self,
        packets: &mut [Packet],
        table: &ExactKeys<u64>,
        keys: &[u64; BATCH],
        other: impl Fn(usize) -> Option<ShareId>,
    ) {
        let Rest { packets: positions, count } = self;
        let mut kept = 0;
        table.look_up(&keys[..*count], |at, share| match share.or_else(|| other(at)) {
            Some(share) => packets[usize::from(positions[at])].meta_mut().set_share(share),
            None => {
                // At or before the position being read.
                positions[kept] = positions[at];
                kept += 1;
            }
        });
        *count = kept;
    }
}
