//! A router's view of the Chord ring: the other routers that it knows, and the next hop of a packet (Stoica et al. 2001).

use super::id::ChordKey;
use std::net::SocketAddrV4;

/// A router of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingNode {
    /// Its place. It is responsible for the keys from behind its predecessor up to this one.
    pub key: ChordKey,
    /// The address and the UDP port that it receives packets at.
    pub address: SocketAddrV4,
}

/// The next hop of a packet on the ring.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RingHop {
    /// This router is responsible.
    Local,
    /// Another router.
    Router {
        /// Its address.
        to: SocketAddrV4,
        /// True if this router takes it for the responsible one.
        is_last: bool,
    },
}

/// The keys behind `after`, up to `up_to`, and their next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingRange {
    /// The key before the first one.
    pub after: ChordKey,
    /// The last key.
    pub up_to: ChordKey,
    /// The next hop of packets without the last-hop mark.
    pub hop: RingHop,
}

/// A router, and the others that it knows: fingers, successors and predecessors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingView {
    own: RingNode,
    /// Clockwise from this router on: the successor is the first, the predecessor the last.
    known: Vec<RingNode>,
}

impl RingView {
    /// The view of `own`, who knows `others`. Of several at one place the first counts; a router at its own place does not.
    pub fn new(own: RingNode, others: impl IntoIterator<Item = RingNode>) -> RingView {
        let mut known: Vec<RingNode> = others.into_iter().filter(|other| other.key != own.key).collect();
        known.sort_by_key(|other| (other.key < own.key, other.key));
        known.dedup_by_key(|other| other.key);
        RingView { own, known }
    }

    /// This router.
    pub fn own(&self) -> &RingNode {
        &self.own
    }

    /// The closest router that it knows before itself. `None` if it is alone.
    pub fn predecessor(&self) -> Option<&RingNode> {
        self.known.last()
    }

    /// True if this router is responsible for `key`: it is behind the predecessor's, up to and including the router's own.
    pub fn is_local(&self, key: &ChordKey) -> bool {
        self.predecessor().is_none_or(|predecessor| key.is_within(&predecessor.key, &self.own.key))
    }

    /// The next hop of a packet for `key`, which has the last-hop mark or not. Takes time in proportion to the routers known.
    pub fn next_hop(&self, key: &ChordKey, is_last: bool) -> RingHop {
        let (Some(successor), Some(predecessor)) = (self.known.first(), self.predecessor()) else {
            return RingHop::Local;
        };
        if self.is_local(key) {
            return RingHop::Local;
        }
        if is_last {
            // The sender does not know our predecessor yet, which is closer to the key than we are. The hop limit ends a loop.
            return RingHop::Router { to: predecessor.address, is_last: true };
        }
        if key.is_within(&self.own.key, &successor.key) {
            return RingHop::Router { to: successor.address, is_last: true };
        }
        let precedes = |other: &&RingNode| other.key != *key && other.key.is_within(&self.own.key, key);
        let closest = self.known.iter().rev().find(precedes).unwrap_or(successor);
        RingHop::Router { to: closest.address, is_last: false }
    }

    /// All keys in ranges with the same next hop, clockwise from this router on. The range of its own keys is the last.
    pub fn ranges(&self) -> Vec<RingRange> {
        let after = std::iter::once(&self.own).chain(&self.known);
        let up_to = self.known.iter().chain([&self.own]);
        let hop = |number: usize, after: &RingNode| match self.known.first() {
            _ if number == self.known.len() => RingHop::Local,
            Some(successor) if number == 0 => RingHop::Router { to: successor.address, is_last: true },
            _ => RingHop::Router { to: after.address, is_last: false },
        };
        let range = |(number, (after, up_to)): (usize, (&RingNode, &RingNode))| RingRange {
            after: after.key,
            up_to: up_to.key,
            hop: hop(number, after),
        };
        after.zip(up_to).enumerate().map(range).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    fn node(place: u8) -> RingNode {
        let mut key = ChordKey([0; 20]);
        key.0[0] = place;
        RingNode { key, address: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, place), 5610) }
    }

    fn to(place: u8, is_last: bool) -> RingHop {
        RingHop::Router { to: node(place).address, is_last }
    }

    #[test]
    fn i3_last_hop_to_pred() {
        let view = RingView::new(node(100), [node(200), node(120), node(40), node(120)]);
        let hop = |place: u8, is_last| view.next_hop(&node(place).key, is_last);
        // To the successor with the mark; to the closest router before the key without it.
        assert_eq!([101, 120].map(|place| hop(place, false)), [to(120, true); 2]);
        assert_eq!([121, 200].map(|place| hop(place, false)), [to(120, false); 2]);
        assert_eq!([201, 255, 0, 40].map(|place| hop(place, false)), [to(200, false); 4]);
        assert_eq!([41, 100].map(|place| hop(place, false)), [RingHop::Local; 2]);
        // With the mark it is ours, or the predecessor's.
        assert_eq!([41, 100].map(|place| hop(place, true)), [RingHop::Local; 2]);
        assert_eq!([40, 0, 255, 101, 120, 200].map(|place| hop(place, true)), [to(40, true); 6]);
    }

    #[test]
    fn router_alone_is_responsible_for_each_key() {
        let view = RingView::new(node(100), [node(100)]);
        assert_eq!(
            [0, 99, 100, 101, 255].map(|place| view.next_hop(&node(place).key, place > 99)),
            [RingHop::Local; 5]
        );
        assert_eq!(view.ranges().len(), 1);
    }

    proptest! {
        #[test]
        fn ranges_have_the_next_hop_of_each_key(own: u8, others in proptest::collection::vec(any::<u8>(), 0..8)) {
            let view = RingView::new(node(own), others.into_iter().map(node));
            for place in 0..=255u8 {
                let key = node(place).key;
                let ranges = view.ranges();
                let hops: Vec<_> = ranges.iter().filter(|range| key.is_within(&range.after, &range.up_to)).collect();
                prop_assert_eq!(hops.len(), 1);
                prop_assert_eq!(hops[0].hop, view.next_hop(&key, false));
            }
        }
    }
}
