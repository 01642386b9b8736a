//! Fragments to be translated that arrive before the first fragment of their packet. Only the first has ports, so the others wait for it. Any host
//! can send such fragments, so their number and time are bounded (RFC 4787 REQ-14a). Fragments in order do not wait.

use super::fragment_table::{AddResult, FragmentBounds, FragmentTable, HeldFragment, Key};
use super::reassembly::piece4;
use super::{LocalProtocols, Parsed, World, parse};
use nat::{Datagram, Nat};
use packet::{DropReason, Packet};
use std::net::IpAddr;
use units::{Instant, Nanos};

/// The most waiting fragments in total and of one sender: slightly more than those of the longest packet on Ethernet.
const BOUNDS: FragmentBounds = FragmentBounds { fragments: 256, fragments_per_source: 64 };
/// How long they wait: reordering takes milliseconds.
const WAIT: Nanos = Nanos::secs(2);
/// The interval at which the translation table is checked for first fragments that other workers have received.
const ASK: Nanos = Nanos::millis(1);

/// The waiting fragments, and the number of first fragments seen so far.
#[derive(Debug)]
pub(super) struct FirstFragments {
    waiting: FragmentTable,
    first_count: u64,
    next_check: Instant,
}

impl FirstFragments {
    pub fn new() -> FirstFragments {
        FirstFragments { waiting: FragmentTable::new(BOUNDS), first_count: 0, next_check: Instant::NEVER }
    }

    /// The number of fragments that wait.
    pub fn fragment_count(&self) -> usize {
        self.waiting.fragment_count()
    }

    /// When they must be checked again.
    pub fn next_check(&self) -> Option<Instant> {
        self.waiting.next_deadline().map(|due| due.min(self.next_check))
    }

    pub fn drain(&mut self) -> impl Iterator<Item = Packet> + use<> {
        self.waiting.drain()
    }
}

fn key(datagram: Datagram) -> Key {
    Key {
        source: IpAddr::V4(datagram.source.into()),
        destination: IpAddr::V4(datagram.destination.into()),
        protocol: datagram.protocol,
        identification: datagram.identification.into(),
        scope: None,
    }
}

impl LocalProtocols {
    /// Holds a fragment until the first of its packet arrives.
    pub(super) fn hold_until_first(&mut self, packet: Packet, world: &mut impl World) {
        let piece = match parse(&packet) {
            Some(Parsed::V4(ip)) => piece4(&ip, &packet).ok(),
            _ => None,
        };
        let Some(piece) = piece else { return world.drop(packet, DropReason::BadFragment) };
        let now = world.now();
        if self.first_fragments.fragment_count() == 0 {
            // First fragments before now are in the translation table, which is checked below.
            self.first_fragments.first_count = world.nat().map_or(0, |(_, nat)| nat.first_fragments());
        }
        let known = |datagram: &Datagram| {
            world.nat().and_then(|(_, nat)| nat.with(|state| state.fragments.find(datagram, now).is_some()))
        };
        if datagram(piece.key).as_ref().and_then(known).unwrap_or(false) {
            // The first fragment has arrived meanwhile.
            return world.forward(packet);
        }
        while let Some(gone) = self.first_fragments.waiting.make_room(piece.key) {
            gone.into_iter().for_each(|packet| world.drop(packet, DropReason::FragmentLimit));
        }
        self.first_fragments.next_check = now + ASK;
        match self.first_fragments.waiting.add(piece, packet, now, WAIT) {
            AddResult::Incomplete => {}
            // A packet without its first fragment cannot be complete: the fragments are inconsistent.
            AddResult::Complete(whole) => {
                whole.fragments.into_iter().for_each(|held| world.drop(held.packet, DropReason::BadFragment));
            }
            AddResult::Refused(packet, reason) => world.drop(packet, reason),
            AddResult::Discarded(packets, reason) => packets.into_iter().for_each(|packet| world.drop(packet, reason)),
        }
    }

    /// True if fragments wait, and first fragments have arrived since the last check.
    #[inline]
    pub fn have_first_fragments_arrived(&self, nat: &Nat) -> bool {
        self.first_fragments.fragment_count() > 0 && self.first_fragments.first_count != nat.first_fragments()
    }

    /// Forwards the fragments whose first has arrived, and drops those that have waited too long.
    pub fn release_fragments(&mut self, world: &mut impl World) {
        if self.first_fragments.fragment_count() == 0 {
            return;
        }
        let now = world.now();
        self.first_fragments.next_check = now + ASK;
        let seen = self.first_fragments.first_count;
        let came = world.nat().and_then(|(_, nat)| {
            nat.with(|state| {
                let recent: Option<Vec<Datagram>> = state.fragments.since(seen).map(Iterator::collect);
                // Too many have arrived to list them: look up each awaited packet instead.
                let all = || self.first_fragments.waiting.keys().filter_map(datagram);
                let known = |datagram: &Datagram| state.fragments.find(datagram, now).is_some();
                (state.fragments.first_fragments(), recent.unwrap_or_else(|| all().filter(known).collect()))
            })
        });
        let (seen, came) = came.unwrap_or_default();
        self.first_fragments.first_count = seen;
        for held in
            came.into_iter().filter_map(|datagram| self.first_fragments.waiting.remove_packet(key(datagram))).flatten()
        {
            world.forward(held.packet);
        }
        while let Some(fragments) = self.first_fragments.waiting.expire(now) {
            for HeldFragment { packet, .. } in fragments {
                world.drop(packet, DropReason::NatFragment);
            }
        }
    }
}

/// The packet of a key, as the translation table names it.
fn datagram(key: Key) -> Option<Datagram> {
    match (key.source, key.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Some(Datagram {
            source: source.into(),
            destination: destination.into(),
            protocol: key.protocol,
            identification: key.identification as u16,
        }),
        _ => None,
    }
}
