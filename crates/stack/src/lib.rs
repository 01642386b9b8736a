//! The router's own protocols: the general path of packets that the fast path cannot process.
//!
//! | file | what | source |
//! |---|---|---|
//! | `machine`, `neighbours`, `resolve` | neighbour table, resolution, waiting packets | RFC 4861 7, 826, 1122, 6583 |
//! | `arp`, `discovery` | ARP and neighbour discovery messages | RFC 826, 5227; RFC 4861 |
//! | `hearing` | rate limits for neighbour messages | RFC 6583 |
//! | `detection` | duplicate address detection | RFC 4862 5.4, 4429 |
//! | `membership` | multicast group reports | RFC 3810 |
//! | `advertise` | router advertisements | RFC 4861 6.2, 4191, 8106 |
//! | `local`, `extensions`, `requests`, `reset` | packets for the router itself | RFC 792, 1122, 4443, 8200, 9293 |
//! | `errors` | ICMP errors | RFC 1812 4.3, RFC 4443 2.4 |
//! | `redirect` | redirects | RFC 1812 5.2.7.2, RFC 4861 8.2 |
//! | `options` | IP options of forwarded packets | RFC 1812 5.2.4, RFC 8200 4.2 |
//! | `fragment` | packets longer than the MTU that must not be fragmented, and our own | RFC 791 2.3, 1191 |
//! | `fragment6` | IPv6 packets of our own longer than the path MTU | RFC 8200 4.5 |
//! | `path_mtu` | path MTU discovery | RFC 1191, 8201 |
//! | `reassembly`, `datagrams` | reassembly of packets for the router | RFC 791 3.2, RFC 8200 4.5 |
//! | `firsts` | fragments to be translated that wait for the first of their packet | RFC 4787 REQ-14 |
//! | `output` | transmission of our own packets | |
//!
//! A state machine without a clock: the time is [`World::now`], and [`LocalProtocols::next_deadline`] is the time of the next timer. Not implemented: probes for IPv4
//! addresses before they are used (RFC 5227 2.1), and proxy ARP or proxy neighbour discovery.

#![forbid(unsafe_code)]

mod advertise;
mod arp;
mod dad;
mod discovery;
mod errors;
mod extensions;
mod first_fragments;
mod fragment;
mod fragment6;
mod fragment_table;
mod interface;
mod interface_state;
mod limits;
mod local;
mod message_limiter;
mod mld_reports;
mod neighbours;
mod nud;
mod objectives;
mod options;
mod output;
mod path_mtu;
mod reassembly;
mod redirect;
mod replies;
mod reset;
mod resolution;
#[cfg(test)]
mod tests;
mod world;

pub use interface::{Interface, InterfaceAddress};
pub use limits::LocalProtocolLimits;
pub use objectives::{ObjectiveSource, ObjectiveTable};
pub use world::{NextHopState, World};

use dad::AddressStatus;
use errors::IcmpErrorCause;
use first_fragments::FirstFragments;
use fragment_table::FragmentTable;
use interface_state::InterfaceState;
use mld_reports::DueReport;
use neighbours::{HeldPacket, Key, NeighbourBounds, Neighbours};
use nud::NudEvent;
use output::packet_with;
use packet::event::NeighbourState;
use packet::wire::mld::{self, GroupRecord, MldQuery};
use packet::wire::{Ipv4, Ipv6, ipv6};
use packet::{DropReason, Exception, Meta, Packet};
use path_mtu::PathMtus;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use units::{Instant, InterfaceId, Mac, Nanos};

/// A neighbour, for `show`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NeighbourReport {
    /// The interface of its link.
    pub interface: InterfaceId,
    /// Its address.
    pub address: IpAddr,
    /// Its link-layer address, if known.
    pub mac: Option<Mac>,
    /// Its state.
    pub state: NeighbourState,
    /// When it entered this state.
    pub since: Instant,
    /// The packets that wait for it.
    pub pending: usize,
}

/// The most neighbour timers handled in one call of [`LocalProtocols::tick`]; the next call handles the others.
const DUE_PER_TICK: usize = 256;
/// The number of announcements of a new address, and the time between them (RFC 5227 1.1, ANNOUNCE_NUM and ANNOUNCE_INTERVAL; RFC 4861 7.2.6 permits
/// as many).
const ANNOUNCEMENTS: u8 = 2;
const ANNOUNCE_INTERVAL: Nanos = Nanos::secs(2);

/// A timed action for an interface. Actions that are due at the same time run in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum TimedAction {
    /// A group membership report.
    Report,
    /// A step of duplicate address detection.
    Detect(Ipv6Addr),
    /// An announcement of an address, with the number that is left.
    Announce(IpAddr, u8),
    /// A router advertisement.
    Advertise,
}

/// The router's own protocols on one worker.
// Large: a method for each message and timer of the protocols, in a file for each protocol.
#[derive(Debug)]
pub struct LocalProtocols {
    limits: LocalProtocolLimits,
    neighbours: Neighbours,
    interfaces: BTreeMap<InterfaceId, InterfaceState>,
    timers: BTreeSet<(Instant, InterfaceId, TimedAction)>,
    fragments: FragmentTable,
    first_fragments: FirstFragments,
    path_mtus: PathMtus,
    /// The last identification of an IPv4 packet of ours.
    identification: u16,
    /// The number of random draws so far.
    draws: u64,
}

impl LocalProtocols {
    /// A host without neighbours and interfaces: see [`LocalProtocols::adopt`].
    pub fn new(limits: LocalProtocolLimits) -> LocalProtocols {
        let bounds = NeighbourBounds {
            neighbours_per_interface: limits.neighbours_per_interface.max(1),
            pending_per_neighbour: limits.pending_per_neighbour.max(1),
            pending: limits.pending.max(1),
        };
        LocalProtocols {
            limits,
            neighbours: Neighbours::new(bounds),
            interfaces: BTreeMap::new(),
            timers: BTreeSet::new(),
            fragments: FragmentTable::new(fragment_table::FragmentBounds {
                fragments: limits.fragments,
                fragments_per_source: limits.fragments / 4,
            }),
            first_fragments: FirstFragments::new(),
            path_mtus: PathMtus::default(),
            identification: 0,
            draws: 0,
        }
    }

    /// Processes a packet with an exception ([`Exception::of`] its `meta.exception`). `meta.l3`, `meta.in_interface` and the flags `GROUP` and `IPV6`
    /// must be those of the frame. The bytes may be anything.
    pub fn receive(&mut self, packet: Packet, world: &mut impl World) {
        let Some(exception) = Exception::of(packet.meta().exception) else {
            // This is a programming error, but the packet must still have a fate.
            debug_assert!(false, "only exceptions come to the host");
            return world.forward(packet);
        };
        match exception {
            Exception::Arp => self.receive_arp(packet, world),
            Exception::Local => self.receive_local(packet, world),
            Exception::Options => self.process_options(packet, world),
            Exception::Resolve => self.resolve(packet, world),
            Exception::TooBig => self.receive_too_big(packet, world),
            Exception::Expired => self.drop_with_error(packet, IcmpErrorCause::Expired, DropReason::TtlExpired, world),
            Exception::NoRoute => self.drop_with_error(packet, IcmpErrorCause::NoRoute, DropReason::NoRoute, world),
            Exception::Unreachable => {
                self.drop_with_error(packet, IcmpErrorCause::Unreachable, DropReason::Unreachable, world)
            }
            Exception::Redirect => self.redirect(packet, world),
            Exception::Prohibited => self.reject(packet, world),
            Exception::Again | Exception::Dispatched => world.forward(packet),
            Exception::Unanswered => {
                self.drop_with_error(packet, IcmpErrorCause::NoAnswer, DropReason::NeighbourFailed, world)
            }
            Exception::Fragment => self.hold_until_first(packet, world),
            Exception::Kernel => world.punt(packet),
            Exception::Tunnel => world.decapsulate(packet),
            Exception::Delivered => world.consume(packet),
            // Its path has lost the function that it was made for.
            Exception::Originated => world.drop(packet, DropReason::SlicePort),
            Exception::BeyondScope => {
                self.drop_with_error(packet, IcmpErrorCause::BeyondScope, DropReason::LinkLocal, world)
            }
        }
    }

    /// Handles the timers that are due. Cheap if there are none. The work is bounded, so [`LocalProtocols::next_deadline`] may be in the past afterwards.
    pub fn tick(&mut self, world: &mut impl World) {
        let now = world.now();
        // Bounded, so that many timers at once do not delay forwarding.
        for _ in 0..DUE_PER_TICK {
            let Some(key) = self.neighbours.due(now) else { break };
            self.on_neighbour_deadline(key, world);
        }
        for _ in 0..DUE_PER_TICK {
            match self.timers.first() {
                Some(&(at, ..)) if at <= now => self.run_next_timer(world),
                _ => break,
            }
        }
        self.expire_fragments(world);
        self.release_fragments(world);
    }

    /// When [`LocalProtocols::tick`] must be called next; [`Instant::NEVER`] if no timer is set.
    pub fn next_deadline(&self) -> Instant {
        let chore = self.timers.first().map(|&(at, ..)| at);
        let (neighbour, datagram) = (self.neighbours.next_deadline(), self.fragments.next_deadline());
        chore
            .into_iter()
            .chain(neighbour)
            .chain(datagram)
            .chain(self.first_fragments.next_check())
            .min()
            .unwrap_or(Instant::NEVER)
    }

    /// Configures a static neighbour, which is never probed. False, and nothing changed, if the interface does not exist or the table is full.
    pub fn set_static_neighbour(
        &mut self,
        interface: InterfaceId,
        address: IpAddr,
        mac: Mac,
        world: &mut impl World,
    ) -> bool {
        world.interface(interface).is_some() && self.add_static((interface, address), mac, world)
    }

    /// Removes a static neighbour; others stay.
    pub fn clear_static_neighbour(&mut self, interface: InterfaceId, address: IpAddr, world: &mut impl World) {
        let key = (interface, address);
        if self.neighbours.nud(key).is_some_and(|machine| machine.state == NeighbourState::Static) {
            self.remove_and_drop(key, DropReason::NeighbourFailed, world);
        }
    }

    /// Removes a dynamic neighbour and drops the packets that wait for it; a static one stays.
    pub fn remove_neighbour(&mut self, interface: InterfaceId, address: IpAddr, world: &mut impl World) {
        let key = (interface, address);
        if self.neighbours.nud(key).is_some_and(|machine| machine.state != NeighbourState::Static) {
            self.remove_and_drop(key, DropReason::NeighbourFailed, world);
        }
    }

    /// All neighbours, by interface and address.
    pub fn neighbours(&self) -> Vec<NeighbourReport> {
        let report = |((interface, address), machine, pending): (Key, &nud::NudState, usize)| NeighbourReport {
            interface,
            address,
            mac: machine.mac,
            state: machine.state,
            since: machine.since,
            pending,
        };
        self.neighbours.iter().map(report).collect()
    }

    /// Takes over a neighbour from another host. A usable one is usable here.
    pub fn restore_neighbour(&mut self, known: &NeighbourReport, world: &mut impl World) {
        let machine = nud::NudState::restored(known.state, known.mac, known.since);
        let usable = machine.usable_mac();
        if self.add_neighbour((known.interface, known.address), machine, world)
            && let Some(mac) = usable
        {
            // If no adjacency is free, the neighbour is resolved again later, as in the other host.
            let _ = world.tables().resolve(known.interface, known.address, mac);
        }
    }

    /// Learns a neighbour from a failed host of the same worker. Its address is used unverified, and probed when it is next needed.
    pub fn learn_neighbour(&mut self, known: &NeighbourReport, world: &mut impl World) {
        let here = world.interface(known.interface).is_some();
        if let Some(mac) = known.mac.filter(|_| here && known.state != NeighbourState::Static) {
            self.receive_neighbour_message((known.interface, known.address), NudEvent::Claim(mac), true, world);
        }
    }

    /// The packets held: those that wait for a neighbour, and incomplete fragments.
    pub fn held_packets(&self) -> usize {
        self.neighbours.held_packets() + self.fragments.fragment_count() + self.first_fragments.fragment_count()
    }

    /// Drops every packet held, because the worker stops.
    pub fn drain(&mut self, world: &mut impl World) {
        let keys: Vec<Key> = self.neighbours.iter().filter(|&(_, _, held)| held > 0).map(|(key, ..)| key).collect();
        for key in keys {
            for waiting in self.neighbours.take_held(key) {
                world.drop(waiting.packet(), DropReason::Shutdown);
            }
        }
        self.fragments
            .drain()
            .chain(self.first_fragments.drain())
            .for_each(|packet| world.drop(packet, DropReason::Shutdown));
    }

    /// Runs the first timer.
    fn run_next_timer(&mut self, world: &mut impl World) {
        let Some((_, id, chore)) = self.timers.pop_first() else { return };
        match chore {
            TimedAction::Report => self.send_due_report(id, world),
            TimedAction::Detect(address) => self.continue_detection(id, address, world),
            TimedAction::Announce(address, left) => self.announce(id, address, left, world),
            TimedAction::Advertise => self.advertise(id, world),
        }
    }

    /// Announces an address, and sets the timer for the next time.
    fn announce(&mut self, id: InterfaceId, address: IpAddr, left: u8, world: &mut impl World) {
        if !world.interface(id).is_some_and(|interface| is_own(interface, address)) {
            return;
        }
        match address {
            IpAddr::V4(address) => self.announce4(id, address, world),
            IpAddr::V6(address) if self.address_status(id, address) == AddressStatus::Own => {
                self.announce6(id, address, world)
            }
            IpAddr::V6(_) => return,
        }
        if left > 1 {
            self.timers.insert((world.now() + ANNOUNCE_INTERVAL, id, TimedAction::Announce(address, left - 1)));
        }
    }

    /// Sets the timer for the next membership report.
    fn schedule_report(&mut self, id: InterfaceId) {
        let Some(attachment) = self.interfaces.get_mut(&id) else { return };
        if let Some(old) = attachment.report_at.take() {
            self.timers.remove(&(old, id, TimedAction::Report));
        }
        attachment.report_at = attachment.group_reports.next_report();
        self.timers.extend(attachment.report_at.map(|at| (at, id, TimedAction::Report)));
    }

    /// Sends a membership report (RFC 3810 5.2).
    fn send_due_report(&mut self, id: InterfaceId, world: &mut impl World) {
        let now = world.now();
        let drawn = self.draw();
        let Some(attachment) = self.interfaces.get_mut(&id) else { return };
        let told = attachment.group_reports.take_due_report(now, |span| Nanos::new(drawn % span.get().max(1)));
        // From the unspecified address, as long as the link-local address may be a duplicate (RFC 3810 5.2.13).
        let own = attachment.interface.link_local().filter(|own| !attachment.detections.contains_key(own));
        let source = own.unwrap_or(Ipv6Addr::UNSPECIFIED);
        match told {
            Some(DueReport { records, is_v1: false }) => {
                let write = |buffer: &mut [u8]| mld::write_report(buffer, source, &records);
                self.send_report(id, mld::ALL_MLD_ROUTERS, write, world);
            }
            // Version 1 leaves a group with another message, which is optional (RFC 2710 4).
            Some(DueReport { records, is_v1: true }) => {
                for (_, group) in records.into_iter().filter(|&(record, _)| record != GroupRecord::Left) {
                    self.send_report(id, group, |buffer| mld::write_report_v1(buffer, source, group), world);
                }
            }
            None => {}
        }
        self.schedule_report(id);
    }

    fn send_report(
        &mut self,
        id: InterfaceId,
        to: Ipv6Addr,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
        world: &mut impl World,
    ) {
        if let Some(packet) = packet_with(ipv6::MINIMUM_MTU, world, write) {
            self.transmit_ip(id, packet, ipv6::multicast_mac(to), world);
        }
    }

    /// Processes a membership query.
    fn receive_query(&mut self, id: InterfaceId, query: MldQuery, world: &impl World) {
        let (now, drawn) = (world.now(), self.draw());
        if let Some(attachment) = self.interfaces.get_mut(&id) {
            attachment.group_reports.receive_query(query, now, |span| Nanos::new(drawn % span.get().max(1)));
            self.schedule_report(id);
        }
    }

    /// A pseudo-random number, determined by the secret.
    fn draw(&mut self) -> u64 {
        self.draws = self.draws.wrapping_add(1);
        // Steele, Lea, Flood 2014 (SplitMix), its mixing function.
        let mut z = self.draws.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(self.limits.secret);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A random time below `span`.
    fn jitter(&mut self, span: Nanos) -> Nanos {
        Nanos::new(self.draw() % span.get().max(1))
    }

    /// Unpredictable identifications for fragments (RFC 7739 5).
    fn next_identification6(&mut self) -> u32 {
        self.draw() as u32
    }

    fn next_identification(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }
}

fn addresses(interface: &Interface) -> impl Iterator<Item = IpAddr> + '_ {
    let v4 = interface.ipv4.iter().map(|attached| IpAddr::V4(attached.address));
    v4.chain(interface.ipv6.iter().map(|attached| IpAddr::V6(attached.address)))
}

/// True if `address` is local on `interface`.
fn is_own(interface: &Interface, address: IpAddr) -> bool {
    addresses(interface).any(|own| own == address)
}

/// True if `address` can be a neighbour on `interface`: it is link-local, or in a connected prefix and not a broadcast address.
fn is_on_link(interface: &Interface, address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let named = |a: &crate::InterfaceAddress<_>| a.broadcast() != Some(address) && a.network() != Some(address);
            interface.ipv4.iter().any(|a| a.covers(address) && named(a))
        }
        IpAddr::V6(address) => address.is_unicast_link_local() || interface.ipv6.iter().any(|a| a.covers(address)),
    }
}

/// The network layer of a packet, up to the end of the frame.
fn l3(packet: &Packet) -> &[u8] {
    packet.bytes().get(usize::from(packet.meta().l3)..).unwrap_or_default()
}

/// The parsed IP header of a packet. The classifier has checked it, but this code does not rely on that.
enum Parsed<'a> {
    V4(Ipv4<'a>),
    V6(Ipv6<'a>),
}

fn parse(packet: &Packet) -> Option<Parsed<'_>> {
    if packet.meta().flags & Meta::IPV6 == 0 {
        Ipv4::parse_without_checksum(l3(packet)).ok().map(Parsed::V4)
    } else {
        Ipv6::parse(l3(packet)).ok().map(Parsed::V6)
    }
}
