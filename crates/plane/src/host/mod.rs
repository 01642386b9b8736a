//! The router's own protocols: the general path of packets the fast path cannot deal with.
//!
//! | file | what | source |
//! |---|---|---|
//! | `machine`, `neighbours`, `resolve` | who is on the links, packets that wait to know | RFC 4861 7, 826, 1122, 6583 |
//! | `arp`, `discovery` | the messages by which they are found | RFC 826, 5227; RFC 4861 |
//! | `local`, `extensions`, `requests`, `reset` | packets for the router itself | RFC 792, 1122, 4443, 8200, 9293 |
//! | `errors` | telling senders what went wrong | RFC 1812 4.3, RFC 4443 2.4 |
//! | `options` | IP options of packets on their way | RFC 1812 5.2.4, RFC 8200 4.2 |
//! | `fragment` | IPv4 packets longer than the next link takes | RFC 791 2.3 |
//! | `fragment6` | IPv6 packets of our own longer than their path takes | RFC 8200 4.5 |
//! | `path_mtu` | how long that is | RFC 1191, 8201 |
//! | `reassembly`, `datagrams` | packets for the router that come in fragments | RFC 791 3.2, RFC 8200 4.5 |
//! | `output` | how packets of our own leave | |
//!
//! A state machine without a clock: the time is [`World::now`], and everything it wants to happen later is in
//! [`Host::next`]. What it does not do: duplicate address detection for its own addresses, router advertisements,
//! multicast listener reports, reassembly and redirects.

mod arp;
mod datagrams;
mod discovery;
mod errors;
mod extensions;
mod fragment;
mod fragment6;
mod local;
mod machine;
mod neighbours;
mod options;
mod output;
mod path_mtu;
mod reassembly;
mod requests;
mod reset;
mod resolve;
#[cfg(test)]
mod tests;
mod world;

pub use crate::classify::Exception;
pub use crate::limits::HostLimits;
pub use world::World;

use crate::event::NeighbourState;
use crate::interface::Interface;
use datagrams::Datagrams;
use errors::Complaint;
use neighbours::{Bounds, Key, Neighbours, Waiting};
use packet::wire::{Ipv4, Ipv6};
use packet::{DropReason, Meta, Packet};
use path_mtu::PathMtus;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use units::{Bucket, Instant, InterfaceId, Mac, Nanos, PortId};

/// A neighbour, for `show`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NeighbourReport {
    /// On whose link it is.
    pub interface: InterfaceId,
    /// Its address.
    pub address: IpAddr,
    /// Its link-layer address, where known.
    pub mac: Option<Mac>,
    /// What is known of it.
    pub state: NeighbourState,
    /// Since when it is in this state.
    pub since: Instant,
    /// Packets that wait for it.
    pub pending: usize,
}

/// Due neighbours dealt with in one call of [`Host::tick`]: the rest comes with the next.
const DUE_PER_TICK: usize = 256;
/// How often an address that is new is announced, and the time between (RFC 5227 1.1, ANNOUNCE_NUM and
/// ANNOUNCE_INTERVAL; RFC 4861 7.2.6 allows as much).
const ANNOUNCEMENTS: u8 = 2;
const ANNOUNCE_INTERVAL: Nanos = Nanos::secs(2);

/// What is kept for each interface.
#[derive(Debug)]
struct Attachment {
    /// As it was adopted.
    known: Interface,
    errors: Bucket,
    messages: Bucket,
    /// When an address was last defended against another claim.
    defended: BTreeMap<IpAddr, Instant>,
}

/// The router's own protocols on one worker.
#[derive(Debug)]
pub struct Host {
    limits: HostLimits,
    neighbours: Neighbours,
    attachments: BTreeMap<InterfaceId, Attachment>,
    announcements: BTreeSet<(Instant, InterfaceId, IpAddr, u8)>,
    datagrams: Datagrams,
    path_mtus: PathMtus,
    /// The last identification given to an IPv4 packet of ours.
    identification: u16,
    /// Numbers drawn for jitter.
    draws: u64,
}

impl Host {
    /// A host that knows nobody and has no interfaces: see [`Host::adopt`].
    pub fn new(limits: HostLimits) -> Host {
        let bounds = Bounds {
            neighbours_per_interface: limits.neighbours_per_interface.max(1),
            pending_per_neighbour: limits.pending_per_neighbour.max(1),
            pending: limits.pending.max(1),
        };
        Host {
            limits,
            neighbours: Neighbours::new(bounds),
            attachments: BTreeMap::new(),
            announcements: BTreeSet::new(),
            datagrams: Datagrams::new(datagrams::Bounds {
                fragments: limits.fragments,
                fragments_per_source: limits.fragments / 4,
            }),
            path_mtus: PathMtus::default(),
            identification: 0,
            draws: 0,
        }
    }

    /// Takes a packet with an exception ([`Exception::of`] its `meta.exception`). `meta.l3`, `meta.in_interface` and
    /// the flags `GROUP` and `IPV6` must be those of the frame; its bytes may be anything.
    pub fn receive(&mut self, packet: Packet, world: &mut impl World) {
        let Some(exception) = Exception::of(packet.meta().exception) else {
            // A programmer's mistake, but the packet is a sender's: it has to end somehow.
            debug_assert!(false, "only exceptions come to the host");
            return world.forward(packet);
        };
        match exception {
            Exception::Arp => self.receive_arp(packet, world),
            Exception::Local => self.receive_local(packet, world),
            Exception::Options => self.process_options(packet, world),
            Exception::Resolve => self.resolve(packet, world),
            Exception::TooBig => self.receive_too_big(packet, world),
            Exception::Expired => self.refuse(packet, Complaint::Expired, DropReason::TtlExpired, world),
            Exception::NoRoute => self.refuse(packet, Complaint::NoRoute, DropReason::NoRoute, world),
            Exception::Unreachable => self.refuse(packet, Complaint::Unreachable, DropReason::Unreachable, world),
            Exception::BeyondScope => self.refuse(packet, Complaint::BeyondScope, DropReason::LinkLocal, world),
        }
    }

    /// Does what is due. Cheap when nothing is; at most a bounded amount of work, so [`Host::next`] may lie in the past
    /// afterwards.
    pub fn tick(&mut self, world: &mut impl World) {
        let now = world.now();
        for _ in 0..DUE_PER_TICK {
            let Some(key) = self.neighbours.due(now) else { break };
            self.neighbour_due(key, world);
        }
        for _ in 0..DUE_PER_TICK {
            match self.announcements.first() {
                Some(&(at, ..)) if at <= now => self.announce_next(now, world),
                _ => break,
            }
        }
        self.expire_fragments(world);
    }

    /// When [`Host::tick`] is to be called next; [`Instant::FAR`] where nothing is to come.
    pub fn next(&self) -> Instant {
        let announcement = self.announcements.first().map(|&(at, ..)| at);
        let (neighbour, datagram) = (self.neighbours.next(), self.datagrams.next());
        announcement.into_iter().chain(neighbour).chain(datagram).min().unwrap_or(Instant::FAR)
    }

    /// Interfaces may have come, gone or changed: forgets what belonged to those that are gone, and announces the
    /// addresses that are new.
    pub fn adopt(&mut self, world: &mut impl World) {
        let now = world.now();
        let current: BTreeMap<InterfaceId, Interface> =
            world.interfaces().iter().map(|interface| (interface.id, interface.clone())).collect();
        let same_link = |a: &Interface, b: &Interface| (a.port, a.vlan, a.mac) == (b.port, b.vlan, b.mac);
        self.attachments.retain(|id, attachment| current.get(id).is_some_and(|i| same_link(i, &attachment.known)));
        let gone: Vec<Key> = self
            .neighbours
            .iter()
            .filter(|(key, machine, _)| !self.stays(*key, machine.state, &current))
            .map(|(key, ..)| key)
            .collect();
        for key in gone {
            self.dismiss(key, DropReason::PortRemoved, world);
        }
        for (id, interface) in current {
            let limits = self.limits;
            let before = self.attachments.insert(id, Attachment::new(interface, limits));
            let known = before.as_ref().map(|attachment| &attachment.known);
            let attachment = self.attachments.get_mut(&id).expect("inserted just now");
            let new: Vec<IpAddr> =
                addresses(&attachment.known).filter(|&a| known.is_none_or(|k| !is_own(k, a))).collect();
            if let Some(before) = before {
                (attachment.errors, attachment.messages) = (before.errors, before.messages);
                attachment.defended = before.defended;
                let own = &attachment.known;
                attachment.defended.retain(|&address, _| is_own(own, address));
            }
            self.announcements.extend(new.into_iter().map(|address| (now, id, address, ANNOUNCEMENTS)));
        }
        self.tick(world);
    }

    /// The medium of a port has gone or come back. Whoever is behind it may be others then: what was found out of its
    /// neighbours is forgotten when it goes, and our own addresses are announced when it comes (RFC 5227 2.3 does so
    /// whenever a link becomes active). Configured neighbours stay.
    pub fn link_changed(&mut self, port: PortId, up: bool, world: &mut impl World) {
        let now = world.now();
        let on_port = |attachment: &&Attachment| attachment.known.port == port;
        if up {
            for attachment in self.attachments.values().filter(on_port) {
                let known = &attachment.known;
                self.announcements.retain(|&(_, id, ..)| id != known.id);
                self.announcements.extend(addresses(known).map(|address| (now, known.id, address, ANNOUNCEMENTS)));
            }
            return self.tick(world);
        }
        let known = |id: InterfaceId| self.attachments.get(&id).is_some_and(|attachment| on_port(&attachment));
        let found = |&(key, machine, _): &(Key, &machine::Machine, usize)| {
            machine.state != NeighbourState::Static && known(key.0)
        };
        let gone: Vec<Key> = self.neighbours.iter().filter(found).map(|(key, ..)| key).collect();
        for key in gone {
            self.dismiss(key, DropReason::PortDown, world);
        }
    }

    /// Other rates from now on; the buckets start full again. How much is remembered stays as it was.
    pub fn limit(&mut self, limits: HostLimits) {
        if limits == self.limits {
            return;
        }
        self.limits = limits;
        for attachment in self.attachments.values_mut() {
            let new = Attachment::new(attachment.known.clone(), limits);
            (attachment.errors, attachment.messages) = (new.errors, new.messages);
        }
    }

    /// Whether a neighbour is still one under the interfaces of `current`.
    fn stays(&self, key: Key, state: NeighbourState, current: &BTreeMap<InterfaceId, Interface>) -> bool {
        let Some(interface) = current.get(&key.0).filter(|_| self.attachments.contains_key(&key.0)) else {
            return false;
        };
        !is_own(interface, key.1) && (state == NeighbourState::Static || is_on_link(interface, key.1))
    }

    /// Configures the link-layer address of a neighbour, which is then never asked. False, and nothing changed, where
    /// the interface does not exist or no more neighbours can be remembered.
    pub fn set_static(&mut self, interface: InterfaceId, address: IpAddr, mac: Mac, world: &mut impl World) -> bool {
        world.interface(interface).is_some() && self.fix((interface, address), mac, world)
    }

    /// Forgets a neighbour that was configured; others stay.
    pub fn clear_static(&mut self, interface: InterfaceId, address: IpAddr, world: &mut impl World) {
        let key = (interface, address);
        if self.neighbours.machine(key).is_some_and(|machine| machine.state == NeighbourState::Static) {
            self.dismiss(key, DropReason::NeighbourFailed, world);
        }
    }

    /// Forgets a neighbour that was found, and drops what waits for it; one that was configured stays.
    pub fn forget(&mut self, interface: InterfaceId, address: IpAddr, world: &mut impl World) {
        let key = (interface, address);
        if self.neighbours.machine(key).is_some_and(|machine| machine.state != NeighbourState::Static) {
            self.dismiss(key, DropReason::NeighbourFailed, world);
        }
    }

    /// Every neighbour, by interface and address.
    pub fn neighbours(&self) -> Vec<NeighbourReport> {
        let report = |((interface, address), machine, pending): (Key, &machine::Machine, usize)| NeighbourReport {
            interface,
            address,
            mac: machine.mac,
            state: machine.state,
            since: machine.since,
            pending,
        };
        self.neighbours.iter().map(report).collect()
    }

    /// Takes over what another host knows of a neighbour; a usable one is usable here.
    pub(crate) fn recall(&mut self, known: &NeighbourReport, world: &mut impl World) {
        let machine = machine::Machine::recalled(known.state, known.mac, known.since);
        let usable = machine.usable();
        if self.neighbours.insert((known.interface, known.address), machine)
            && let Some(mac) = usable
        {
            // Without room for its adjacency it is asked for again, as by the other host.
            let _ = world.tables().resolve(known.interface, known.address, mac);
        }
    }

    /// Packets held: those that wait for a neighbour, and fragments that wait for the rest of their packet.
    pub fn pending(&self) -> usize {
        self.neighbours.held() + self.datagrams.held()
    }

    /// Drops every packet held: the worker stops.
    pub fn drain(&mut self, world: &mut impl World) {
        let keys: Vec<Key> = self.neighbours.iter().filter(|&(_, _, held)| held > 0).map(|(key, ..)| key).collect();
        for key in keys {
            for waiting in self.neighbours.take_waiting(key) {
                world.drop(waiting.packet(), DropReason::Shutdown);
            }
        }
        self.datagrams.drain().for_each(|packet| world.drop(packet, DropReason::Shutdown));
    }

    /// What is kept for an interface; nothing where it was never adopted or is gone.
    fn attachment(&mut self, id: InterfaceId) -> Option<&mut Attachment> {
        self.attachments.get_mut(&id)
    }

    /// Whether one more ARP or neighbour discovery message may be heard on an interface now.
    fn may_listen(&mut self, id: InterfaceId, now: Instant) -> bool {
        self.attachment(id).is_some_and(|attachment| attachment.messages.take(now))
    }

    /// Announces the address whose turn it is, and sees to the next time.
    fn announce_next(&mut self, now: Instant, world: &mut impl World) {
        let Some((_, id, address, left)) = self.announcements.pop_first() else { return };
        if !world.interface(id).is_some_and(|interface| is_own(interface, address)) {
            return;
        }
        match address {
            IpAddr::V4(address) => self.announce4(id, address, world),
            IpAddr::V6(address) => self.announce6(id, address, world),
        }
        if left > 1 {
            self.announcements.insert((now + ANNOUNCE_INTERVAL, id, address, left - 1));
        }
    }

    /// A number as good as random: the same in every run of the same secret.
    fn draw(&mut self) -> u64 {
        self.draws = self.draws.wrapping_add(1);
        // Steele, Lea, Flood 2014 (SplitMix), its mixing function.
        let mut z = self.draws.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(self.limits.secret);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A time below `span`.
    fn jitter(&mut self, span: Nanos) -> Nanos {
        Nanos::new(self.draw() % span.get().max(1))
    }

    /// Identifications of fragments that nobody can guess from the one before (RFC 7739 5).
    fn next_identification6(&mut self) -> u32 {
        self.draw() as u32
    }

    fn next_identification(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }
}

impl Attachment {
    fn new(known: Interface, limits: HostLimits) -> Attachment {
        Attachment {
            known,
            errors: Bucket::per_second(limits.icmp_rate, limits.icmp_burst),
            messages: Bucket::per_second(limits.neighbour_messages, limits.neighbour_messages),
            defended: BTreeMap::new(),
        }
    }
}

fn addresses(interface: &Interface) -> impl Iterator<Item = IpAddr> + '_ {
    let v4 = interface.ipv4.iter().map(|attached| IpAddr::V4(attached.address));
    v4.chain(interface.ipv6.iter().map(|attached| IpAddr::V6(attached.address)))
}

/// Whether `address` is the router's own on `interface`.
fn is_own(interface: &Interface, address: IpAddr) -> bool {
    addresses(interface).any(|own| own == address)
}

/// Whether `address` can be a neighbour's on `interface`: it lies in a connected prefix and is no broadcast address of
/// it, or is link-local.
fn is_on_link(interface: &Interface, address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let named =
                |a: &crate::interface::Attached<_>| a.broadcast() != Some(address) && a.network() != Some(address);
            interface.ipv4.iter().any(|a| a.covers(address) && named(a))
        }
        IpAddr::V6(address) => address.is_unicast_link_local() || interface.ipv6.iter().any(|a| a.covers(address)),
    }
}

/// The network layer of a packet, up to the end of the frame.
fn l3(packet: &Packet) -> &[u8] {
    packet.bytes().get(usize::from(packet.meta().l3)..).unwrap_or_default()
}

/// A packet's IP header, read again: the classifier has seen it, but nothing here relies on that.
enum Parsed<'a> {
    V4(Ipv4<'a>),
    V6(Ipv6<'a>),
}

fn parse(packet: &Packet) -> Option<Parsed<'_>> {
    if packet.meta().flags & Meta::IPV6 == 0 {
        Ipv4::parse_unsummed(l3(packet)).ok().map(Parsed::V4)
    } else {
        Ipv6::parse(l3(packet)).ok().map(Parsed::V6)
    }
}
