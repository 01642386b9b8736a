//! Classification of all packets that are not plain: tagged frames, ARP, IPv6, IP options, packets to local addresses, and malformed packets.

use super::path_rules::PathChoice;
use super::{Classifier, Exception, Finding, Outcome, REFUSED, REPLICATED, TUNNELLED, Target, Witness, refuse};
use crate::multicast::{REPLICA, SEVERAL_INTERFACES};
use crate::punt::{is_routed_group, protocol_of};
use crate::snapshot::{PathSpec, PortView, Snapshot};
use packet::segment::TO_FRAGMENT;
use packet::wire::{
    Ethernet, Family, Ipv4, Ipv4Error, Ipv4Header, Ipv6, Ipv6Error, LengthOrType, PacketFields, ethertype, ipv6,
    protocol,
};
use packet::{DropReason, Meta, Packet, segment};
use plan::PuntedProtocol;
use stack::Interface;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use units::{AdjacencyId, InterfaceId};

/// In `rounds`: the options were processed already, the packet returns from the general path.
pub(crate) const OPTIONS_DONE: u8 = 0x80;

type Verdict = Result<Target, DropReason>;

impl<W: Witness> Classifier<'_, W> {
    /// Classifies one packet of any kind.
    #[inline(never)]
    pub(super) fn classify_general(&self, view: &PortView, packet: &mut Packet) -> Target {
        if packet.meta().refused != 0 {
            return super::REFUSED;
        }
        let verdict = match self.classify_frame(view, packet) {
            Err(reason) if is_for_program(self.snapshot, packet, reason) => Ok(self.punt(packet, Exception::Kernel)),
            verdict => verdict,
        };
        self.finish_general(packet, verdict)
    }

    /// Prepares offloaded packets for slow-path code, which reads their bytes and knows nothing of pending offloads.
    fn finish_general(&self, packet: &mut Packet, verdict: Verdict) -> Target {
        if packet.is_offloaded() {
            packet.meta_mut().flags |= Meta::OFFLOAD;
            if !segment::complete_for_local(packet) {
                return refuse(packet, DropReason::BadOffload);
            }
        }
        verdict.unwrap_or_else(|reason| refuse(packet, reason))
    }

    /// Classifies a packet again whose link header was removed before: after its options, or when its next hop is resolved. `meta.l3` and
    /// `meta.in_interface` are valid.
    pub fn classify_again(&self, packet: &mut Packet) -> Target {
        self.dispatch.refresh_rules();
        let meta = packet.meta_mut();
        let exception = std::mem::take(&mut meta.exception);
        if exception == Exception::Dispatched as u8 {
            return self.dispatched_path(packet);
        }
        // The new route may have another MTU: decide about fragmentation again.
        meta.rounds = meta.rounds & !TO_FRAGMENT | OPTIONS_DONE;
        let verdict = self.classify_ip(packet).map(|target| match target {
            // Only a packet just received ends where it would be put on its path. This one may be anywhere.
            TUNNELLED => self.punt(packet, Exception::Tunnel),
            target => target,
        });
        let target = self.finish_general(packet, verdict);
        if exception == Exception::Originated as u8 { self.originated_path(packet, target) } else { target }
    }

    /// The path of a packet that a service has made for its function. On any other path it would be an ordinary packet, which nobody has sent.
    fn originated_path(&self, packet: &mut Packet, target: Target) -> Target {
        let meta = packet.meta_mut();
        let of_packet = |path: &&PathSpec| path.id == meta.path && path.receives_local;
        let is_local = meta.exception == 0 && meta.flags & Meta::LOCAL != 0;
        if !is_local || !self.snapshot.paths.iter().any(|path| of_packet(&path)) {
            return refuse(packet, DropReason::SlicePort);
        }
        meta.exception = Exception::Originated as u8;
        target
    }

    /// The path that a function has selected for the packet, at its previous output port.
    fn dispatched_path(&self, packet: &mut Packet) -> Target {
        let meta = packet.meta_mut();
        let Some(position) = self.snapshot.paths.iter().position(|path| path.id == meta.path) else {
            return refuse(packet, DropReason::PortRemoved);
        };
        self.witness.observe(|| Finding::Path(position));
        let path = &self.snapshot.paths[position];
        meta.class = path.class;
        let out = meta.out_interface;
        self.apply_path_objective(path, packet);
        let target = self.dispatch.instance(position, self.snapshot.egress(out).port);
        if target == REFUSED { refuse(packet, DropReason::PortRemoved) } else { target }
    }

    fn classify_frame(&self, view: &PortView, packet: &mut Packet) -> Verdict {
        let frame = Ethernet::parse(packet.bytes()).map_err(|_| DropReason::FrameTooShort)?;
        self.witness.observe(|| Finding::LinkDestination { destination: frame.destination, own: view.mac });
        let is_ours = frame.destination == view.mac;
        if frame.destination.is_group() {
            packet.meta_mut().flags |= Meta::GROUP;
        } else if !is_ours && !view.has_stations {
            return Err(DropReason::OtherStation);
        }
        let interface = match frame.vlan {
            None => view.untagged,
            Some(vlan) if vlan.service => return Err(DropReason::VlanStacked),
            // A priority tag names no VLAN (IEEE 802.1Q 6.9).
            Some(vlan) if vlan.id == 0 => view.untagged,
            Some(vlan) => {
                let known = view.vlans.iter().find(|(id, _)| *id == vlan.id);
                let known = known.map(|&(_, interface)| interface);
                let id = vlan.id;
                if known.is_none() {
                    self.witness.observe(|| Finding::Interface { vlan: Some(id), interface: None });
                }
                known.ok_or(DropReason::UnknownVlan)?
            }
        };
        let known = self.snapshot.interface(interface);
        self.witness.observe(|| Finding::Interface {
            vlan: frame.vlan.map(|vlan| vlan.id),
            interface: known.map(|known| known.id),
        });
        let known = known.ok_or(DropReason::UnknownVlan)?;
        if !is_ours && !frame.destination.is_group() && !known.stations.contains(&frame.destination) {
            return Err(DropReason::OtherStation);
        }
        packet.meta_mut().in_interface = interface;
        let kind = match frame.length_or_type {
            LengthOrType::Ethertype(kind) => kind,
            LengthOrType::Length(_) => return Err(DropReason::UnknownEthertype),
            LengthOrType::SecondTag(_) => return Err(DropReason::VlanStacked),
        };
        let enabled = match kind {
            ethertype::ARP | ethertype::IPV4 => known.carries_ipv4,
            ethertype::IPV6 => !known.ipv6.is_empty(),
            _ => return Err(DropReason::UnknownEthertype),
        };
        self.witness.observe(|| Finding::Protocol { ethertype: kind, enabled });
        let meta = packet.meta_mut();
        meta.l3 = frame.payload as u16;
        meta.flags |= if kind == ethertype::IPV6 { Meta::IPV6 } else { 0 };
        if !enabled {
            return Err(DropReason::FamilyDisabled);
        }
        if kind == ethertype::ARP { Ok(self.punt(packet, Exception::Arp)) } else { self.classify_ip(packet) }
    }

    fn classify_ip(&self, packet: &mut Packet) -> Verdict {
        if packet.meta().flags & Meta::IPV6 == 0 {
            self.classify_ipv4(packet, None)
        } else {
            self.classify_ipv6(packet)
        }
    }

    /// RFC 1812 5.2.2 to 5.2.4 and 5.3.7.
    fn classify_ipv4(&self, packet: &mut Packet, known: Option<PathChoice>) -> Verdict {
        let l3 = usize::from(packet.meta().l3);
        let parsed = Ipv4::parse(packet.bytes().get(l3..).unwrap_or_default()).map_err(reason4)?;
        let (source, destination) = (parsed.header.source(), parsed.header.destination());
        let (length, options, ecn) = (parsed.bytes.len(), !parsed.options.is_empty(), parsed.header.ecn());
        let tos = parsed.header.dscp() << 2 | ecn;
        // Cuts off the padding of short Ethernet frames.
        packet.resize(l3 + length);
        packet.meta_mut().ecn = ecn;
        self.report_header(Family::V4, source.into(), destination.into(), length);
        self.set_objective(packet, tos);
        if source.is_multicast()
            || source.is_broadcast()
            || source.is_loopback()
            || self.has_own_source4(packet, source)
        {
            return Err(DropReason::MartianSource);
        }
        if destination.is_broadcast() {
            return Err(DropReason::Broadcast);
        }
        // After the broadcast: a DHCP client sends from 0.0.0.0 to 255.255.255.255, which is no martian.
        if source.octets()[0] == 0 || source.octets()[0] >= 240 {
            return Err(DropReason::MartianSource);
        }
        if destination.octets()[0] == 0 || destination.is_loopback() || destination.octets()[0] >= 240 {
            return Err(DropReason::MartianDestination);
        }
        self.witness.observe(|| Finding::Addresses);
        self.check_source(packet, source.into())?;
        if destination.is_multicast() {
            // All systems and all routers of the link.
            let ours = [Ipv4Addr::new(224, 0, 0, 1), Ipv4Addr::new(224, 0, 0, 2)].contains(&destination);
            if ours {
                return Ok(self.punt(packet, Exception::Local));
            }
            let ttl = packet.bytes().get(l3 + 8).copied().unwrap_or(0);
            return self.route_multicast(packet, (source.into(), destination.into()), (ttl, options), known);
        }
        // Unicast in a link-layer broadcast must not be forwarded (RFC 1812 5.3.4).
        if packet.meta().flags & Meta::GROUP != 0 {
            return Err(DropReason::LinkBroadcast);
        }
        if options && packet.meta().rounds & OPTIONS_DONE == 0 {
            return Ok(self.punt(packet, Exception::Options));
        }
        let word = self.tables.lookup4(packet.meta().in_interface, u32::from(destination));
        let outcome = Outcome::decode(word);
        let vrf = self.tables.vrf_of(packet.meta().in_interface);
        self.witness.observe(|| Finding::Lookup { vrf, destination: destination.into(), outcome });
        // To the router itself, and no further (RFC 3927 2.7).
        if (source.is_link_local() || destination.is_link_local()) && !matches!(outcome, Outcome::Local(_)) {
            return Err(DropReason::LinkLocal);
        }
        let outcome = self.route_by_rules(packet, outcome, destination.into())?;
        Ok(self.slow_path_route4(packet, outcome, known))
    }

    /// Acts on a route that the fast path cannot follow. `known` is the packet's path if the rules were looked up already.
    #[inline(never)]
    pub(super) fn slow_path_route4(&self, packet: &mut Packet, outcome: Outcome, known: Option<PathChoice>) -> Target {
        let l3 = usize::from(packet.meta().l3);
        let ttl = packet.bytes().get(l3 + 8).copied().unwrap_or(0);
        let destination = packet.bytes().get(l3 + 16..).and_then(|d| d.first_chunk::<4>().copied()).unwrap_or_default();
        match outcome {
            Outcome::Special if Ipv4Addr::from(destination).is_multicast() || destination[0] >= 240 => {
                // The fast path passes these to the slow path. A packet that returns from there has been processed.
                self.classify_ipv4(packet, known).unwrap_or_else(|reason| refuse(packet, reason))
            }
            Outcome::Special => refuse(packet, DropReason::MartianDestination),
            other => self.route_unicast(packet, other, ttl, known),
        }
    }

    /// RFC 8200 3 and 4, RFC 4291 2.5.
    fn classify_ipv6(&self, packet: &mut Packet) -> Verdict {
        let l3 = usize::from(packet.meta().l3);
        let parsed = Ipv6::parse(packet.bytes().get(l3..).unwrap_or_default()).map_err(reason6)?;
        let (source, destination) = (parsed.header.source(), parsed.header.destination());
        let (length, next, ecn) = (parsed.bytes.len(), parsed.header.next_header(), parsed.header.ecn());
        let tos = parsed.header.dscp() << 2 | ecn;
        // Cuts off the padding of short Ethernet frames.
        packet.resize(l3 + length);
        packet.meta_mut().ecn = ecn;
        self.report_header(Family::V6, source.into(), destination.into(), length);
        self.set_objective(packet, tos);
        // A mapped address represents an IPv4 address, and never appears on a link (RFC 4291 2.5.5.2, RFC 6890 2.2.3).
        if source.is_multicast() || source.is_loopback() || source.to_ipv4_mapped().is_some() {
            return Err(DropReason::MartianSource);
        }
        if destination.is_loopback() || destination.to_ipv4_mapped().is_some() {
            return Err(DropReason::MartianDestination);
        }
        if packet.meta().flags & Meta::GROUP != 0 && !destination.is_multicast() {
            return Err(DropReason::LinkBroadcast);
        }
        if destination.is_multicast() && destination.octets()[1] & 0xf < 2 {
            // A scope that no link carries (RFC 4291 2.7).
            return Err(DropReason::Multicast);
        }
        self.witness.observe(|| Finding::Addresses);
        self.check_source(packet, source.into())?;
        let interface = packet.meta().in_interface;
        // An option may request an error report even for a packet to another host (RFC 8200 4.2).
        let hop_by_hop = next == protocol::HOP_BY_HOP && packet.meta().rounds & OPTIONS_DONE == 0;
        if hop_by_hop {
            return Ok(self.punt(packet, Exception::Options));
        }
        if destination.is_multicast() {
            if self.is_member6(interface, destination) {
                return Ok(self.punt(packet, Exception::Local));
            }
            let hops = packet.bytes().get(l3 + 7).copied().unwrap_or(0);
            return self.route_multicast(packet, (source.into(), destination.into()), (hops, false), None);
        }
        if destination.is_unspecified() {
            // Never a valid destination (RFC 4291 2.5.2): no route leads there, and the sender receives an ICMP error.
            return Ok(self.punt(packet, Exception::NoRoute));
        }
        if destination.is_unicast_link_local() {
            let ours = self.snapshot.is_own6_on(interface, destination);
            return if ours { Ok(self.punt(packet, Exception::Local)) } else { Err(DropReason::LinkLocal) };
        }
        let outcome = Outcome::decode(self.tables.lookup6(interface, u128::from(destination)));
        let vrf = self.tables.vrf_of(interface);
        self.witness.observe(|| Finding::Lookup { vrf, destination: destination.into(), outcome });
        self.route6(packet, (source, destination), outcome)
    }

    /// Sets the packet's objective, by its input interface and type of service.
    pub(super) fn set_objective(&self, packet: &mut Packet, tos: u8) {
        let Some(interface) = self.snapshot.interface(packet.meta().in_interface) else { return };
        packet.meta_mut().objective = interface.objectives.get(tos);
        if interface.objectives.matters() {
            let dscp = tos >> 2;
            let (objective, because) = interface.objectives.objective_and_source(dscp);
            self.witness.observe(|| Finding::Objective { dscp, objective, origin: because });
        }
    }

    fn report_header(&self, family: Family, source: IpAddr, destination: IpAddr, length: usize) {
        self.witness.observe(|| Finding::Header { family, source, destination, length });
    }

    /// For a packet to the router itself: the path whose functions translate it, or process it as a service. The packet takes the path's instance at
    /// its input port. The functions decide whether it is classified again by a new destination.
    fn local_path(&self, packet: &mut Packet, known: Option<PathChoice>) -> Option<Target> {
        // Most routers have no such path, so most local packets end here, before the rules.
        let may_translate = self.is_translated_address(packet);
        if !may_translate && !self.snapshot.receives_local {
            return None;
        }
        let (position, marks) = known.or_else(|| self.match_rule(packet))?;
        let path = self.snapshot.paths.get(position)?;
        if !(path.receives_local || path.translates && may_translate) {
            return None;
        }
        // The output port follows from the new destination, which is not known yet.
        let target = self.dispatch.instance(position, packet.meta().in_port);
        if target == super::REFUSED {
            return None;
        }
        self.witness.observe(|| Finding::Path(position));
        let meta = packet.meta_mut();
        (meta.path, meta.class) = (path.id, path.class);
        marks.mark(meta);
        meta.flags |= Meta::LOCAL;
        Some(target)
    }

    /// True if the packet is for an address of the router that is translated, and was not translated yet.
    fn is_translated_address(&self, packet: &Packet) -> bool {
        let rules = self.snapshot.nat.as_ref().filter(|_| packet.meta().flags & (Meta::IPV6 | Meta::TRANSLATED) == 0);
        let destination = packet.bytes().get(usize::from(packet.meta().l3) + 16..).and_then(|at| at.first_chunk::<4>());
        rules.zip(destination).is_some_and(|(rules, address)| rules.is_ours(u32::from_be_bytes(*address)))
    }

    fn route6(&self, packet: &mut Packet, (source, destination): (Ipv6Addr, Ipv6Addr), outcome: Outcome) -> Verdict {
        if let Outcome::Local(owner) = outcome {
            let end = tunnel_end(self.snapshot, packet, owner).or_else(|| self.local_path(packet, None));
            return Ok(end.unwrap_or_else(|| self.punt(packet, Exception::Local)));
        }
        if source.is_unspecified() || self.has_own_source6(packet, source) {
            return Err(DropReason::MartianSource);
        }
        if outcome == Outcome::Special {
            return Err(DropReason::MartianDestination);
        }
        let outcome = self.route_by_rules(packet, outcome, destination.into())?;
        let l3 = usize::from(packet.meta().l3);
        let hops = packet.bytes().get(l3 + 7).copied().unwrap_or(0);
        let outcome = self.resolve_group(packet, outcome);
        let out = match outcome {
            Outcome::Via(adjacency) => self.tables.adjacencies().interface(adjacency),
            Outcome::Connected(interface) => interface,
            other => return Ok(self.route_unicast(packet, other, hops, None)),
        };
        // It may return to its own link, but not leave by another (RFC 4291 2.5.6). An expired hop limit is reported first, below.
        if source.is_unicast_link_local() && out != packet.meta().in_interface && hops > 1 {
            return Ok(self.punt(packet, Exception::BeyondScope));
        }
        Ok(self.route_unicast(packet, outcome, hops, None))
    }

    /// A packet to a multicast group that the router itself does not serve. It is replicated to the interfaces of its route if it arrived on the
    /// right one (RFC 7761 4.2). Otherwise it is dropped without an ICMP error (RFC 1812 4.3.2.7, RFC 4443 2.4).
    #[cold]
    fn route_multicast(
        &self,
        packet: &mut Packet,
        (source, group): (IpAddr, IpAddr),
        (ttl, options): (u8, bool),
        known: Option<PathChoice>,
    ) -> Verdict {
        if packet.meta().adjacency == REPLICA {
            // A replica that a function has sent back.
            return self.replica_target(packet);
        }
        // A host reports its membership to the group itself (RFC 2236 9), and such a message is for the routers of its link.
        let l3 = usize::from(packet.meta().l3);
        if source.is_ipv4() && packet.bytes().get(l3 + 9) == Some(&protocol::IGMP) {
            return Err(DropReason::Multicast);
        }
        let came = packet.meta().in_interface;
        let (vrf, groups) = (self.tables.vrf_of(came), self.dispatch.groups.borrow());
        let (configured, of_kernel) = (&self.snapshot.multicast, groups.get());
        let position = configured.find(vrf, source, group).or_else(|| of_kernel.find(vrf, source, group));
        self.witness.observe(|| Finding::Group { route: position });
        let route = position.and_then(|position| configured.get(position).or_else(|| of_kernel.get(position)));
        let (Some(position), Some(route)) = (position, route) else { return Err(DropReason::Multicast) };
        match source {
            IpAddr::V6(source) if source.is_unspecified() || self.has_own_source6(packet, source) => {
                return Err(DropReason::MartianSource);
            }
            IpAddr::V6(source) if source.is_unicast_link_local() => return Err(DropReason::LinkLocal),
            IpAddr::V4(source) if source.is_link_local() => return Err(DropReason::LinkLocal),
            _ => {}
        }
        if route.from != came {
            let is_of_kernel = configured.get(position).is_none();
            let routes_groups = self.snapshot.interface(came).is_some_and(|interface| interface.routes_groups);
            // PIM selects the router of a link by such packets (RFC 7761 4.6).
            return if is_of_kernel && routes_groups {
                Ok(self.punt(packet, Exception::Kernel))
            } else {
                Err(DropReason::ReversePath)
            };
        }
        if route.to.is_empty() {
            // Not an error: a program of the machine would get these packets for ever.
            return Ok(refuse(packet, DropReason::Multicast));
        }
        self.witness.observe(|| Finding::HopLimit { left: ttl });
        if ttl <= 1 {
            // A drop and no exception: no ICMP error answers multicast.
            return Err(DropReason::TtlExpired);
        }
        if options && packet.meta().rounds & OPTIONS_DONE == 0 {
            return Ok(self.punt(packet, Exception::Options));
        }
        let (path, marks) = self.path_choice(packet, known);
        self.witness.observe(|| Finding::Path(path));
        let spec = &self.snapshot.paths[path];
        let meta = packet.meta_mut();
        (meta.path, meta.class) = (spec.id, spec.class);
        marks.mark(meta);
        // Not routed by an adjacency, so replication finds the positions of route and path in these fields.
        (meta.adjacency, meta.version) = (AdjacencyId::at(position), path as u16);
        meta.out_interface = SEVERAL_INTERFACES;
        self.apply_path_objective(spec, packet);
        Ok(REPLICATED)
    }

    /// The previous path and port of a replica.
    fn replica_target(&self, packet: &Packet) -> Verdict {
        let meta = packet.meta();
        let path = self.snapshot.paths.iter().position(|path| path.id == meta.path);
        // A replica must not be replicated again: it stays at its port.
        let port = self.snapshot.egress(meta.out_interface).port;
        let target = path.map_or(REFUSED, |path| self.dispatch.instance(path, port));
        if target == REFUSED { Err(DropReason::PortRemoved) } else { Ok(target) }
    }

    /// True if the router listens to `group` on `interface`: all nodes, all routers, the solicited-node groups of its addresses (RFC 4291 2.8).
    fn is_member6(&self, interface: InterfaceId, group: Ipv6Addr) -> bool {
        if [ipv6::ALL_NODES, ipv6::ALL_ROUTERS, ipv6::ALL_SITE_ROUTERS].contains(&group) {
            return true;
        }
        let own = self.snapshot.interface(interface).map(|i| i.ipv6.as_slice()).unwrap_or_default();
        let solicits = |address| ipv6::solicited_node(address) == group;
        own.iter().any(|attached| solicits(attached.address) || attached.subnet_router().is_some_and(solicits))
    }

    /// Acts on a unicast route: RFC 1812 5.2.1.2, in its order.
    fn route_unicast(&self, packet: &mut Packet, outcome: Outcome, ttl: u8, known: Option<PathChoice>) -> Target {
        let adjacencies = self.tables.adjacencies();
        let outcome = self.resolve_group(packet, outcome);
        let out = match outcome {
            Outcome::NoRoute | Outcome::Group(_) => return self.punt(packet, Exception::NoRoute),
            Outcome::Unreachable => return self.punt(packet, Exception::Unreachable),
            Outcome::Local(owner) => {
                // Before the translation: only packets of tunnels have these protocols.
                let end = tunnel_end(self.snapshot, packet, owner);
                let end = end.or_else(|| self.local_path(packet, known));
                return end.unwrap_or_else(|| self.punt(packet, Exception::Local));
            }
            Outcome::Blackhole => return refuse(packet, DropReason::Blackhole),
            Outcome::Broadcast(interface) => {
                // A directed broadcast reaches its own link only (RFC 2644).
                let here = interface == packet.meta().in_interface;
                if here && is_for_program(self.snapshot, packet, DropReason::Broadcast) {
                    return self.punt(packet, Exception::Kernel);
                }
                return refuse(packet, DropReason::Broadcast);
            }
            Outcome::Special => return refuse(packet, DropReason::MartianDestination),
            Outcome::Via(adjacency) => adjacencies.interface(adjacency),
            Outcome::Connected(interface) => interface,
        };
        let egress = self.snapshot.egress(out);
        let mtu = self.tables.mtu(out, egress.mtu);
        packet.meta_mut().out_interface = out;
        let Some(length) = segment::network_length(packet) else { return refuse(packet, DropReason::BadOffload) };
        self.witness.observe(|| Finding::HopLimit { left: ttl });
        self.witness.observe(|| Finding::Mtu { interface: out, length, mtu });
        if egress.mtu == 0 {
            // The route's interface is being removed or added.
            return self.punt(packet, Exception::NoRoute);
        }
        if ttl <= 1 {
            return self.punt(packet, Exception::Expired);
        }
        if length > usize::from(mtu) && !try_smaller_segments(packet, mtu) {
            if !may_be_fragmented(packet) {
                return self.punt(packet, Exception::TooBig);
            }
            packet.meta_mut().rounds |= TO_FRAGMENT;
            // Only the complete packet has all bytes of its checksum. Each segment of a super-frame gets its own checksum.
            if packet.is_offloaded() && !packet.offload().is_super_frame() && !segment::complete(packet) {
                return refuse(packet, DropReason::BadOffload);
            }
        }
        let Outcome::Via(adjacency) = outcome else {
            self.witness.observe(|| Finding::NextHop { adjacency: None, mac: None });
            return self.punt(packet, Exception::Resolve);
        };
        // Read once: another thread may lose the neighbour meanwhile, and the packet must carry the version that was found resolved.
        let link = adjacencies.load(adjacency);
        self.witness.observe(|| {
            let mac = link.is_resolved().then(|| link.mac());
            Finding::NextHop { adjacency: Some(adjacency), mac }
        });
        if !link.is_resolved() {
            return self.punt(packet, Exception::Resolve);
        }
        // A packet that returns from the host has caused its redirect already.
        if egress.redirects && out == packet.meta().in_interface && packet.meta().rounds & OPTIONS_DONE == 0 {
            return self.punt(packet, Exception::Redirect);
        }
        let (position, marks) = self.path_choice(packet, known);
        let target = self.select_path(packet, position, (adjacency, link, out), egress);
        marks.mark(packet.meta_mut());
        target
    }
}

/// The target of a packet for the router's address on `owner`, if it is an outer packet of a tunnel.
fn tunnel_end(snapshot: &Snapshot, packet: &mut Packet, owner: InterfaceId) -> Option<Target> {
    if snapshot.tunnels.is_empty() || !snapshot.tunnels.may_end(owner, packet) {
        return None;
    }
    packet.meta_mut().out_interface = owner;
    Some(TUNNELLED)
}

/// True if a program of the machine may handle a packet that the router would drop for this reason. Such packets are broadcasts, multicast on the link,
/// other protocols than IP, and all packets of interfaces without an address, which a DHCP client configures.
#[cold]
fn is_for_program(snapshot: &Snapshot, packet: &Packet, reason: DropReason) -> bool {
    let interface = snapshot.interface(packet.meta().in_interface).filter(|interface| interface.kernel.is_some());
    interface.is_some_and(|interface| match reason {
        DropReason::Broadcast | DropReason::FamilyDisabled | DropReason::UnknownEthertype => true,
        DropReason::Multicast => interface.routes_groups || is_for_link(packet.bytes()),
        DropReason::LinkBroadcast => is_directed_broadcast(packet.bytes(), interface),
        _ => false,
    })
}

/// True for a packet to the broadcast address of a prefix of the interface (RFC 919).
fn is_directed_broadcast(frame: &[u8], interface: &Interface) -> bool {
    let destination = PacketFields::of(frame).map(|fields| fields.destination);
    interface.ipv4.iter().any(|attached| attached.broadcast().map(IpAddr::V4) == destination && destination.is_some())
}

/// True for a multicast packet that stays on its link, or whose protocol manages groups of any scope (RFC 5771 4, RFC 4291 2.7).
fn is_for_link(frame: &[u8]) -> bool {
    let of_groups = |kind| matches!(kind, PuntedProtocol::Membership | PuntedProtocol::Pim);
    PacketFields::of(frame).is_some_and(|fields| !is_routed_group(fields.destination)) || of_groups(protocol_of(frame))
}

/// Cuts a super-frame of TCP over IPv4 into smaller segments if its sender permits fragmentation. The receiver gets the same data, and needs no
/// reassembly.
fn try_smaller_segments(packet: &mut Packet, mtu: u16) -> bool {
    may_be_fragmented(packet) && segment::reduce_segment_size(packet, mtu.into())
}

/// True if a router may fragment the packet: IPv4 without DF (RFC 791 2.3, RFC 8200 5).
fn may_be_fragmented(packet: &Packet) -> bool {
    let l3 = packet.bytes().get(usize::from(packet.meta().l3)..).unwrap_or_default();
    packet.meta().flags & Meta::IPV6 == 0 && Ipv4Header::of(l3).is_some_and(|header| !header.dont_fragment())
}

fn reason4(error: Ipv4Error) -> DropReason {
    match error {
        Ipv4Error::Truncated | Ipv4Error::HeaderTruncated => DropReason::HeaderTruncated,
        Ipv4Error::Version => DropReason::WrongVersion,
        Ipv4Error::HeaderLength => DropReason::HeaderLength,
        Ipv4Error::TotalLengthBelowHeader | Ipv4Error::TotalLengthBeyondFrame => DropReason::TotalLength,
        Ipv4Error::Checksum => DropReason::HeaderChecksum,
    }
}

fn reason6(error: Ipv6Error) -> DropReason {
    match error {
        Ipv6Error::Truncated => DropReason::HeaderTruncated,
        Ipv6Error::Version => DropReason::WrongVersion,
        Ipv6Error::PayloadLengthBeyondFrame => DropReason::TotalLength,
    }
}
