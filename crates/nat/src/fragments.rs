//! Fragmented packets whose first fragment has arrived. Later fragments have no ports, so they share the fate of the first (RFC 4787 REQ-14).
//! Fragments that arrive before the first are held in `stack::firsts`, which asks this module for new first fragments.
//!
//! Only first fragments create entries, so a flood of later fragments displaces none. The table is four-way set associative, and a new entry replaces
//! the oldest of its set.

use packet::DropReason;
use packet::wire::{Ipv4Header, protocol};
use units::{Instant, Nanos};

/// The fields that all fragments of one packet share (RFC 791 3.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Datagram {
    /// The source address.
    pub source: u32,
    /// The destination address.
    pub destination: u32,
    /// The protocol.
    pub protocol: u8,
    /// The identification.
    pub identification: u16,
}

impl Datagram {
    /// The key of a packet whose first fragment this is. `None` for all other packets, and for protocols that are not translated.
    #[inline]
    pub fn of_first_fragment(l3: &[u8]) -> Option<Datagram> {
        let header = Ipv4Header::of(l3).filter(|header| header.more_fragments() && header.is_first())?;
        let protocol = header.protocol();
        matches!(protocol, protocol::TCP | protocol::UDP | protocol::ICMP).then(|| Datagram {
            source: header.source().into(),
            destination: header.destination().into(),
            protocol,
            identification: header.identification(),
        })
    }
}

/// The fate of a first fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FragmentFate {
    /// Forwarded, with these source and destination addresses.
    Translated(u32, u32),
    /// Delivered to the router itself.
    Local,
    /// Dropped.
    Dropped(DropReason),
}

#[derive(Clone, Copy, Debug)]
struct FirstFragment {
    datagram: Datagram,
    fate: FragmentFate,
    until: Instant,
}

/// The lifetime of an entry, from the first fragment on: the reassembly timeout of RFC 791.
const LIFETIME: Nanos = Nanos::secs(30);
const SETS: usize = 1024;
const WAYS: usize = 4;
/// First fragments that the ring remembers.
const RECENT: usize = 256;

/// The fates of first fragments.
#[derive(Debug)]
pub struct Fragments {
    sets: Box<[[Option<FirstFragment>; WAYS]]>,
    secret: u64,
    /// The latest first fragments, as a ring.
    recent: Box<[Option<Datagram>]>,
    first_fragments: u64,
}

impl Fragments {
    /// An empty table. `secret` keys the hash, because senders choose the identifications.
    pub fn new(secret: u64) -> Fragments {
        let (sets, recent) = (vec![[None; WAYS]; SETS].into_boxed_slice(), vec![None; RECENT].into_boxed_slice());
        Fragments { sets, secret, recent, first_fragments: 0 }
    }

    fn set(&self, datagram: &Datagram) -> usize {
        let ends = u64::from(datagram.source) << 32 | u64::from(datagram.destination);
        let rest = u64::from(datagram.protocol) << 16 | u64::from(datagram.identification);
        // Multiplied twice, with a fold in between (Knuth, TAOCP 3, 6.4), so that the high bits depend on every input bit.
        let mixed = (ends ^ self.secret).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29 ^ rest).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 40) as usize % SETS
    }

    /// The fate of a packet's first fragment; `None` if it has not arrived.
    pub fn find(&self, datagram: &Datagram, now: Instant) -> Option<FragmentFate> {
        let set = &self.sets[self.set(datagram)];
        let known = set.iter().flatten().find(|known| known.datagram == *datagram && known.until > now)?;
        Some(known.fate)
    }

    /// Records the fate of a first fragment.
    pub fn remember(&mut self, datagram: Datagram, became: FragmentFate, now: Instant) {
        let set = self.set(&datagram);
        let set = &mut self.sets[set];
        // An empty way counts as the oldest.
        let age = |known: &Option<FirstFragment>| known.map_or(Instant::START, |known| known.until);
        // A reused identification replaces its old entry, so that no two entries have the same key.
        let same = set.iter().position(|known| known.is_some_and(|known| known.datagram == datagram));
        let oldest = (0..WAYS).min_by_key(|&way| age(&set[way])).unwrap_or(0);
        set[same.unwrap_or(oldest)] = Some(FirstFragment { datagram, fate: became, until: now + LIFETIME });
        self.recent[self.first_fragments as usize % RECENT] = Some(datagram);
        self.first_fragments += 1;
    }

    /// First fragments so far.
    pub fn first_fragments(&self) -> u64 {
        self.first_fragments
    }

    /// The first fragments after the first `seen`; `None` if the ring has overwritten some of them.
    pub fn since(&self, seen: u64) -> Option<impl Iterator<Item = Datagram> + '_> {
        let recent = self.first_fragments.saturating_sub(seen) <= RECENT as u64;
        recent.then(|| (seen..self.first_fragments).filter_map(|place| self.recent[place as usize % RECENT]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn datagram(n: u32) -> Datagram {
        Datagram { source: n / 8, destination: 1, protocol: 17, identification: (n % 8) as u16 }
    }

    proptest! {
        /// Compared with a map: no entry is invented, and with few entries none is lost before its time.
        #[test]
        fn first_fragment_is_remembered_for_its_lifetime(
            steps in proptest::collection::vec((0u32..64, 0u64..3_000_000_000, any::<bool>()), 1..300),
        ) {
            let mut fragments = Fragments::new(7);
            let mut naive = BTreeMap::new();
            let mut now = Instant::START;
            for (n, wait, first) in steps {
                now += Nanos::new(wait);
                let expected = naive.get(&datagram(n)).filter(|(_, until)| *until > now).map(|(became, _)| *became);
                prop_assert_eq!(fragments.find(&datagram(n), now), expected);
                if first {
                    let seen = fragments.first_fragments();
                    let became = FragmentFate::Translated(n, wait as u32);
                    fragments.remember(datagram(n), became, now);
                    naive.insert(datagram(n), (became, now + LIFETIME));
                    prop_assert_eq!(fragments.since(seen).map(Iterator::collect::<Vec<_>>), Some(vec![datagram(n)]));
                }
            }
        }
    }

    #[test]
    fn overrun_ring_of_first_fragments_returns_none() {
        let mut fragments = Fragments::new(7);
        (0..=RECENT as u32).for_each(|n| fragments.remember(datagram(n), FragmentFate::Local, Instant::START));
        assert!(fragments.since(0).is_none());
        assert_eq!(fragments.since(1).map(Iterator::count), Some(RECENT));
    }
}
