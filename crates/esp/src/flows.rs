//! Keeps packet order in flows that piggyback instructions: all packets of such a flow go to the worker of its computation (spec E-30).

use crate::store::Key;
use packet::wire::{Ipv4, Ipv6, hosts, protocol};
use plane::hook::Owner;
use units::{Instant, Nanos};

/// The most flows remembered at once.
const FLOWS: usize = 4096;

/// The worker of each flow that piggybacked an instruction within the last lifetime.
#[derive(Debug)]
pub(crate) struct FlowOwners {
    key: Key,
    lifetime: Nanos,
    /// The time at which the last entry expires.
    until: Instant,
    entries: Box<[FlowEntry]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct FlowEntry {
    flow: u64,
    until: Instant,
    owner: Owner,
}

/// The protocol and payload of an IP packet.
pub(crate) fn upper(l3: &[u8]) -> Option<(u8, &[u8])> {
    let (protocol, at) = match l3.first()? >> 4 {
        4 => {
            let packet = Ipv4::parse_without_checksum(l3).ok()?;
            (packet.header.protocol(), packet.header_length())
        }
        6 => {
            let chain = Ipv6::parse(l3).ok()?.chain().ok()?;
            (chain.protocol, chain.offset?)
        }
        _ => return None,
    };
    Some((protocol, l3.get(at..)?))
}

impl FlowOwners {
    pub fn new(key: Key, lifetime: Nanos) -> FlowOwners {
        FlowOwners { key, lifetime, until: Instant::START, entries: vec![FlowEntry::default(); FLOWS].into() }
    }

    /// True if at least one flow is remembered.
    #[inline]
    pub fn has_flows(&self, now: Instant) -> bool {
        now < self.until
    }

    /// Remembers that the flow of `l3` belongs to `owner`. The packet piggybacks an instruction; `inside` is the original payload of `protocol`.
    pub fn remember(&mut self, l3: &[u8], (protocol, inside): (u8, &[u8]), owner: Owner, now: Instant) {
        let flow = self.flow(l3, protocol, inside);
        self.until = now + self.lifetime;
        let slot = self.slot(flow);
        // Direct mapped: a newer flow replaces an older one with the same slot.
        self.entries[slot] = FlowEntry { flow, until: self.until, owner };
    }

    /// The worker of an IP packet's flow, if it is remembered.
    pub fn owner(&self, l3: &[u8], now: Instant) -> Option<Owner> {
        let (protocol, upper) = upper(l3)?;
        let flow = self.flow(l3, protocol, upper);
        let entry = self.entries[self.slot(flow)];
        (entry.flow == flow && now < entry.until).then_some(entry.owner)
    }

    fn slot(&self, flow: u64) -> usize {
        crate::store::below(flow, FLOWS as u64) as usize
    }

    fn flow(&self, l3: &[u8], protocol: u8, upper: &[u8]) -> u64 {
        let hosts = hosts(l3, 0, 0);
        let ports = match protocol {
            protocol::TCP | protocol::UDP => upper.first_chunk::<4>().map_or(0, |ports| u32::from_be_bytes(*ports)),
            _ => 0,
        };
        let ends = u64::from(hosts.source) << 32 | u64::from(hosts.destination);
        self.key.hash(self.key.hash(ends) ^ (u64::from(ports) << 8 | u64::from(protocol)))
    }
}
