//! Flows that carry instructions along: their other packets go to the same worker, so that none overtakes another (spec E-30).

use crate::store::Key;
use packet::wire::{Ipv4, Ipv6, hosts, protocol};
use plane::hook::Owner;
use units::{Instant, Nanos};

/// Flows that are remembered at a time, at most.
const FLOWS: usize = 4096;

/// Whom flows belong to, for one lifetime after they carried something.
#[derive(Debug)]
pub(crate) struct Flows {
    key: Key,
    span: Nanos,
    /// When the last of them is forgotten.
    until: Instant,
    known: Box<[Known]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    flow: u64,
    until: Instant,
    owner: Owner,
}

/// What an IP header carries, and of which protocol.
pub(crate) fn upper(l3: &[u8]) -> Option<(u8, &[u8])> {
    let (protocol, at) = match l3.first()? >> 4 {
        4 => {
            let packet = Ipv4::parse_unsummed(l3).ok()?;
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

impl Flows {
    pub fn new(key: Key, span: Nanos) -> Flows {
        Flows { key, span, until: Instant::START, known: vec![Known::default(); FLOWS].into() }
    }

    /// Whether any is known.
    #[inline]
    pub fn any(&self, now: Instant) -> bool {
        now < self.until
    }

    /// The packet `l3` carries an instruction of a computation that belongs to `owner`, and then `inside`, of a protocol.
    pub fn note(&mut self, l3: &[u8], (protocol, inside): (u8, &[u8]), owner: Owner, now: Instant) {
        let flow = self.flow(l3, protocol, inside);
        self.until = now + self.span;
        let slot = self.slot(flow);
        self.known[slot] = Known { flow, until: self.until, owner };
    }

    /// Whom the flow of an IP packet belongs to, if that is known.
    pub fn owner(&self, l3: &[u8], now: Instant) -> Option<Owner> {
        let (protocol, upper) = upper(l3)?;
        let flow = self.flow(l3, protocol, upper);
        let known = self.known[self.slot(flow)];
        (known.flow == flow && now < known.until).then_some(known.owner)
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
