//! Fragments to be translated that arrive before the first fragment of their packet. Only the first has ports, so the others wait for it. Any host
//! can send such fragments, so their number and time are bounded (RFC 4787 REQ-14a). Fragments in order do not wait.

use super::datagrams::{Added, Bounds, Datagrams, Held, Key};
use super::reassembly::piece4;
use super::{Host, Parsed, World, parse};
use nat::{Datagram, Nat};
use packet::{DropReason, Packet};
use std::net::IpAddr;
use units::{Instant, Nanos};

/// The most waiting fragments in total and of one sender: slightly more than those of the longest packet on Ethernet.
const BOUNDS: Bounds = Bounds { fragments: 256, fragments_per_source: 64 };
/// How long they wait: reordering takes milliseconds.
const WAIT: Nanos = Nanos::secs(2);
/// The interval at which the translation table is checked for first fragments that other workers have received.
const ASK: Nanos = Nanos::millis(1);

/// The waiting fragments, and the number of first fragments seen so far.
#[derive(Debug)]
pub(super) struct Firsts {
    waiting: Datagrams,
    seen: u64,
    ask: Instant,
}

impl Firsts {
    pub fn new() -> Firsts {
        Firsts { waiting: Datagrams::new(BOUNDS), seen: 0, ask: Instant::FAR }
    }

    /// The number of fragments that wait.
    pub fn held(&self) -> usize {
        self.waiting.held()
    }

    /// When they must be checked again.
    pub fn next(&self) -> Option<Instant> {
        self.waiting.next().map(|due| due.min(self.ask))
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

impl Host {
    /// Holds a fragment until the first of its packet arrives.
    pub(super) fn await_first(&mut self, packet: Packet, world: &mut impl World) {
        let piece = match parse(&packet) {
            Some(Parsed::V4(ip)) => piece4(&ip, &packet).ok(),
            _ => None,
        };
        let Some(piece) = piece else { return world.drop(packet, DropReason::BadFragment) };
        let now = world.now();
        if self.firsts.held() == 0 {
            // First fragments before now are in the translation table, which is checked below.
            self.firsts.seen = world.nat().map_or(0, |(_, nat)| nat.firsts());
        }
        let known = |datagram: &Datagram| {
            world.nat().and_then(|(_, nat)| nat.with(|state| state.fragments.find(datagram, now).is_some()))
        };
        if datagram(piece.key).as_ref().and_then(known).unwrap_or(false) {
            // The first fragment has arrived meanwhile.
            return world.forward(packet);
        }
        while let Some(gone) = self.firsts.waiting.make_room(piece.key) {
            gone.into_iter().for_each(|packet| world.drop(packet, DropReason::FragmentLimit));
        }
        self.firsts.ask = now + ASK;
        match self.firsts.waiting.add(piece, packet, now, WAIT) {
            Added::Waits => {}
            // A packet without its first fragment cannot be complete: the fragments are inconsistent.
            Added::Complete(whole) => {
                whole.fragments.into_iter().for_each(|held| world.drop(held.packet, DropReason::BadFragment));
            }
            Added::Refused(packet, reason) => world.drop(packet, reason),
            Added::Discarded(packets, reason) => packets.into_iter().for_each(|packet| world.drop(packet, reason)),
        }
    }

    /// True if fragments wait, and first fragments have arrived since the last check.
    #[inline]
    pub fn firsts_came(&self, nat: &Nat) -> bool {
        self.firsts.held() > 0 && self.firsts.seen != nat.firsts()
    }

    /// Forwards the fragments whose first has arrived, and drops those that have waited too long.
    pub fn release_fragments(&mut self, world: &mut impl World) {
        if self.firsts.held() == 0 {
            return;
        }
        let now = world.now();
        self.firsts.ask = now + ASK;
        let seen = self.firsts.seen;
        let came = world.nat().and_then(|(_, nat)| {
            nat.with(|state| {
                let recent: Option<Vec<Datagram>> = state.fragments.since(seen).map(Iterator::collect);
                // Too many have arrived to list them: look up each awaited packet instead.
                let all = || self.firsts.waiting.keys().filter_map(datagram);
                let known = |datagram: &Datagram| state.fragments.find(datagram, now).is_some();
                (state.fragments.came(), recent.unwrap_or_else(|| all().filter(known).collect()))
            })
        });
        let (seen, came) = came.unwrap_or_default();
        self.firsts.seen = seen;
        for held in came.into_iter().filter_map(|datagram| self.firsts.waiting.take(key(datagram))).flatten() {
            world.forward(held.packet);
        }
        while let Some(fragments) = self.firsts.waiting.expire(now) {
            for Held { packet, .. } in fragments {
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
