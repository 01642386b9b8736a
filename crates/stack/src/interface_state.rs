//! The state of each interface, and the adoption of a new set of interfaces.

use super::advertise::Advertiser;
use super::dad::DetectionState;
use super::message_limiter::MessageLimiter;
use super::mld_reports::{self, GroupReports};
use super::nud::NudState;
use super::redirect::Redirects;
use super::{ANNOUNCEMENTS, Key, LocalProtocols, TimedAction, World, addresses, is_on_link, is_own};
use crate::{Interface, LocalProtocolLimits};
use packet::DropReason;
use packet::event::NeighbourState;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use units::{Bucket, Instant, InterfaceId, PortId};

#[derive(Debug)]
pub(super) struct InterfaceState {
    /// The interface as adopted.
    pub interface: Interface,
    pub errors: Bucket,
    pub message_limiter: MessageLimiter,
    /// Limits multicast and broadcast requests.
    pub request_bucket: Bucket,
    pub redirects: Redirects,
    /// When an address was last defended against another claim.
    pub defended: BTreeMap<IpAddr, Instant>,
    /// Addresses under duplicate address detection, and the time of its next step.
    pub detections: BTreeMap<Ipv6Addr, (DetectionState, Instant)>,
    pub group_reports: GroupReports,
    pub advertiser: Option<Advertiser>,
    /// When the next report and the next advertisement are due.
    pub report_at: Option<Instant>,
    pub advertise_at: Option<Instant>,
}

impl InterfaceState {
    pub fn new(known: Interface, limits: LocalProtocolLimits) -> InterfaceState {
        let errors = || Bucket::per_second(limits.icmp_rate, limits.icmp_burst);
        InterfaceState {
            interface: known,
            errors: errors(),
            message_limiter: MessageLimiter::new(limits),
            request_bucket: Bucket::per_second(limits.neighbour_requests, limits.neighbour_requests),
            redirects: Redirects::new(errors()),
            defended: BTreeMap::new(),
            detections: BTreeMap::new(),
            group_reports: GroupReports::default(),
            advertiser: None,
            report_at: None,
            advertise_at: None,
        }
    }

    /// The first chore for a new address.
    fn begin(&mut self, address: IpAddr, now: Instant) -> (Instant, InterfaceId, TimedAction) {
        let chore = match address {
            IpAddr::V4(_) => TimedAction::Announce(address, ANNOUNCEMENTS),
            IpAddr::V6(address) => {
                self.detections.insert(address, (DetectionState::New, now));
                TimedAction::Detect(address)
            }
        };
        (now, self.interface.id, chore)
    }
}

impl LocalProtocols {
    /// Adopts the current interfaces. Discards the state of removed ones, and starts detection and announcements of new addresses.
    pub fn adopt(&mut self, world: &mut impl World) {
        let now = world.now();
        let current: BTreeMap<InterfaceId, Interface> =
            world.interfaces().iter().map(|interface| (interface.id, interface.clone())).collect();
        let same_link = |a: &Interface, b: &Interface| (a.port, a.vlan, a.mac) == (b.port, b.vlan, b.mac);
        // An interface with another port, VLAN or MAC address is on another link: its old state is void.
        self.interfaces.retain(|id, attachment| current.get(id).is_some_and(|i| same_link(i, &attachment.interface)));
        let attachments = &self.interfaces;
        self.timers.retain(|(_, id, _)| attachments.contains_key(id));
        let stays = |(key, machine, _): &(Key, &NudState, usize)| self.is_still_attached(*key, machine.state, &current);
        let gone: Vec<Key> = self.neighbours.iter().filter(|entry| !stays(entry)).map(|(key, ..)| key).collect();
        for key in gone {
            self.remove_and_drop(key, DropReason::PortRemoved, world);
        }
        for (id, interface) in current {
            self.adopt_interface(id, interface, now);
        }
        self.tick(world);
    }

    fn adopt_interface(&mut self, id: InterfaceId, interface: Interface, now: Instant) {
        let limits = self.limits;
        let attachment = self.interfaces.entry(id);
        let mut known = None;
        let attachment = attachment
            .and_modify(|attachment| known = Some(std::mem::replace(&mut attachment.interface, interface.clone())))
            .or_insert_with(|| InterfaceState::new(interface.clone(), limits));
        attachment.defended.retain(|&address, _| is_own(&interface, address));
        attachment.detections.retain(|&address, _| is_own(&interface, address.into()));
        let new = addresses(&interface).filter(|&a| known.as_ref().is_none_or(|known| !is_own(known, a)));
        self.timers.extend(new.map(|address| attachment.begin(address, now)));
        let own = interface.ipv6.iter().flat_map(|a| a.subnet_router().into_iter().chain([a.address]));
        attachment.group_reports.set_groups(mld_reports::groups(own), now);
        self.schedule_report(id);
        self.adopt_advertiser(id, now);
    }

    /// The link of a port went down or came up. When it goes down, dynamic neighbours are discarded, because other hosts may be behind it later. When
    /// it comes up, local addresses are detected and announced again (RFC 5227 2.3, and RFC 4862 5.4.2 whenever a link becomes active). Groups are
    /// reported and the router is advertised. Requests for unresolved neighbours, which no host received, are sent again. Static neighbours stay.
    pub fn link_changed(&mut self, port: PortId, up: bool, world: &mut impl World) {
        let now = world.now();
        let on_port = |attachment: &InterfaceState| attachment.interface.port == port;
        let ids: BTreeSet<InterfaceId> =
            self.interfaces.values().filter(|a| on_port(a)).map(|attachment| attachment.interface.id).collect();
        if !up {
            let found = |&(key, machine, _): &(Key, &NudState, usize)| {
                machine.state != NeighbourState::Static && ids.contains(&key.0)
            };
            let gone: Vec<Key> = self.neighbours.iter().filter(found).map(|(key, ..)| key).collect();
            for key in gone {
                self.remove_and_drop(key, DropReason::PortDown, world);
            }
            return;
        }
        self.timers.retain(|(_, id, _)| !ids.contains(id));
        for &id in &ids {
            let Some(attachment) = self.interfaces.get_mut(&id) else { continue };
            // Their timers have just been removed.
            (attachment.report_at, attachment.advertise_at) = (None, None);
            let known = attachment.interface.clone();
            self.timers.extend(addresses(&known).map(|address| attachment.begin(address, now)));
            attachment.group_reports.report_all_again(now);
            self.schedule_report(id);
            self.restart_advertiser(id, now);
        }
        self.tick(world);
        let asked = |(key, machine, _): &(Key, &NudState, usize)| {
            machine.state == NeighbourState::Incomplete && ids.contains(&key.0)
        };
        let unheard: Vec<Key> = self.neighbours.iter().filter(asked).map(|(key, ..)| key).collect();
        unheard.into_iter().for_each(|key| self.restart_resolution(key, world));
    }

    /// The MTU of a port has changed: hosts learn it from an advertisement.
    pub fn mtu_changed(&mut self, port: PortId, world: &mut impl World) {
        let on_port = self.interfaces.values().filter(|attachment| attachment.interface.port == port);
        let ids: Vec<InterfaceId> = on_port.map(|attachment| attachment.interface.id).collect();
        ids.into_iter().for_each(|id| self.restart_advertiser(id, world.now()));
        self.tick(world);
    }

    /// Changes the rates; the token buckets start full. Table sizes stay as they are.
    pub fn set_limits(&mut self, limits: LocalProtocolLimits) {
        if limits == self.limits {
            return;
        }
        self.limits = limits;
        for attachment in self.interfaces.values_mut() {
            let new = InterfaceState::new(attachment.interface.clone(), limits);
            (attachment.errors, attachment.redirects) = (new.errors, new.redirects);
            (attachment.message_limiter, attachment.request_bucket) = (new.message_limiter, new.request_bucket);
        }
    }

    /// True if a neighbour still belongs to one of the interfaces in `current`.
    fn is_still_attached(&self, key: Key, state: NeighbourState, current: &BTreeMap<InterfaceId, Interface>) -> bool {
        let Some(interface) = current.get(&key.0).filter(|_| self.interfaces.contains_key(&key.0)) else {
            return false;
        };
        !is_own(interface, key.1) && (state == NeighbourState::Static || is_on_link(interface, key.1))
    }

    /// The state of an interface; none if it was never adopted or was removed.
    pub(super) fn interface_state(&mut self, id: InterfaceId) -> Option<&mut InterfaceState> {
        self.interfaces.get_mut(&id)
    }

    /// The source address of `interface` for `peer`, except duplicates.
    pub(super) fn source6(&self, interface: &Interface, peer: Ipv6Addr) -> Option<Ipv6Addr> {
        let source = interface.source6(peer)?;
        if !self.is_duplicate(interface.id, source) {
            return Some(source);
        }
        let mut others = interface.clone();
        others.ipv6.retain(|attached| !self.is_duplicate(interface.id, attached.address));
        others.source6(peer)
    }
}
