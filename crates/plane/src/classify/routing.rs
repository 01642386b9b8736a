//! The rules of `[routing]`: they change the route of packets that are to be forwarded.
//!
//! The usual route is looked up first, because it tells which packets are for the router itself. Rules do not concern those (Linux: the table `local`
//! comes before all rules). The rules of a chunk are looked up together, like those of paths. Conditions on routes, ports that are down and VRFs
//! without a route are tested for the rule that matches, and never cached; a packet that fails looks on behind the rule.
//!
//! A packet whose next hop is not resolved is classified again later, and its rules with it. So it is not changed before.

use super::general::OPTIONS_DONE;
use super::path_rules::unmet;
use super::scratch::CHUNK;
use super::{Classifier, ETHERNET, Finding, Outcome, Scratch, UNDECIDED, Witness, refuse, reset_meta};
use crate::fields::{match_fields, push_key};
use crate::filter::RuleEffect;
use crate::packet_log::LoggedPacket;
use crate::reverse_path;
use crate::routing::{HeldHop, RoutingTarget, is_forwarded};
use crate::snapshot::ROUTING;
use classifier::{RuleReader, RuleResult, RuleStatus};
use packet::wire::{PacketFields, flow_hash, set_dscp};
use packet::{DropReason, Packet};
use plan::{Condition, FilterVerdict, MatchFields};
use std::net::{IpAddr, Ipv4Addr};
use units::{AdjacencyId, Instant, InterfaceId, PortId, VrfId};

/// The input interface of a packet, and its VRF.
type Arrival = (InterfaceId, VrfId);

/// The rule that decides about a packet, and the route that it selects; `None` for the usual one.
type Decision = (RuleResult, Option<Outcome>);

/// True if a rule has selected the route.
fn is_selected(decision: Option<Decision>) -> bool {
    matches!(decision, Some((_, Some(_))))
}

/// The initial value of `Meta::rounds`. A packet whose route a rule has selected causes no redirect: the local protocols know only the usual routes.
#[inline]
pub(super) fn rounds_of(is_selected: bool) -> u8 {
    if is_selected { OPTIONS_DONE } else { 0 }
}

impl<W: Witness> Classifier<'_, W> {
    /// Replaces the routes of the plain packets of a chunk by those that the rules select.
    // Not inlined: a router without rules has one branch for each chunk.
    #[inline(never)]
    pub(super) fn match_routing(
        &self,
        (id, interface): (PortId, InterfaceId),
        arrival: Option<Instant>,
        packets: &mut [Packet],
        (from, scratch): (usize, &mut Scratch),
    ) {
        let Scratch { rule_keys, fields, selected, targets, .. } = scratch;
        *selected = 0;
        let mut rules = self.dispatch.routing.borrow_mut();
        let came = (interface, self.tables.vrf_of(interface));
        rule_keys.clear();
        for (i, packet) in packets.iter().enumerate().take(CHUNK) {
            if targets[from + i] == UNDECIDED && is_forwarded(Outcome::decode(fields.words[i])) {
                push_key(rule_keys, i, packet.bytes(), 0, came);
            }
        }
        let mut matched = [None; CHUNK];
        rules.look_up(rule_keys, |i, result| matched[i] = Some(result));
        for i in rule_keys.positions() {
            let packet = &mut packets[i];
            let now = arrival.unwrap_or(packet.meta().timestamp);
            let destination = IpAddr::V4(Ipv4Addr::from_bits(fields.keys[i]));
            let decision =
                matched[i].and_then(|first| self.decide(&rules, first, packet, (came, destination), (now, false)));
            let usual = Outcome::decode(fields.words[i]);
            *selected |= u64::from(is_selected(decision)) << i;
            match self.carry_out(&mut rules, decision, packet, (usual, interface), (ETHERNET, now)) {
                Ok(outcome) => fields.words[i] = outcome.encode(),
                Err(reason) => {
                    reset_meta(packet, arrival, id, interface);
                    packet.meta_mut().l3 = ETHERNET as u16;
                    targets[from + i] = refuse(packet, reason);
                    // As for a refused source: neither this packet nor a memo uses the route.
                    fields.words[i] = Outcome::Special.encode();
                }
            }
            // The byte behind version and header length, which a rule may have changed.
            fields.tos[i] = packet.bytes().get(ETHERNET + 1).copied().unwrap_or(fields.tos[i]);
        }
    }

    /// The route of one packet whose destination has the route `usual`, by the rules.
    #[inline]
    pub(super) fn route_by_rules(
        &self,
        packet: &mut Packet,
        usual: Outcome,
        destination: IpAddr,
    ) -> Result<Outcome, DropReason> {
        if self.dispatch.routing.borrow().is_empty() || !is_forwarded(usual) {
            return Ok(usual);
        }
        self.match_routing_one(packet, usual, destination)
    }

    #[inline(never)]
    fn match_routing_one(
        &self,
        packet: &mut Packet,
        usual: Outcome,
        destination: IpAddr,
    ) -> Result<Outcome, DropReason> {
        let mut rules = self.dispatch.routing.borrow_mut();
        let (interface, now) = (packet.meta().in_interface, packet.meta().timestamp);
        let came = (interface, self.tables.vrf_of(interface));
        let Some(fields) = match_fields(packet.bytes(), 0) else { return Ok(usual) };
        let decision = rules
            .find(&fields, came)
            .and_then(|first| self.decide(&rules, first, packet, (came, destination), (now, W::WANTS_RULES)));
        if W::WANTS_RULES {
            self.report_rules(&rules, decision, &fields, (came, destination));
        }
        let l3 = usize::from(packet.meta().l3);
        let outcome = self.carry_out(&mut rules, decision, packet, (usual, interface), (l3, now))?;
        packet.meta_mut().rounds |= rounds_of(is_selected(decision));
        if let Some(found) = PacketFields::of(packet.bytes()).filter(|found| found.dscp != fields.dscp) {
            self.set_objective(packet, found.dscp << 2 | packet.meta().ecn);
        }
        Ok(outcome)
    }

    /// The route of a packet by the present routes and rules, and whether a rule has selected it. It has no effect on the packet, on counters or limits.
    pub(crate) fn preview_route(&self, packet: &Packet, destination: IpAddr) -> (Outcome, bool) {
        let interface = packet.meta().in_interface;
        let usual = self.tables.lookup_from(interface, destination);
        let rules = self.dispatch.routing.borrow();
        if rules.is_empty() || !is_forwarded(usual) {
            return (usual, false);
        }
        let came = (interface, self.tables.vrf_of(interface));
        let first = match_fields(packet.bytes(), 0).and_then(|fields| rules.find(&fields, came));
        let now = packet.meta().timestamp;
        let decision = first.and_then(|first| self.decide(&rules, first, packet, (came, destination), (now, true)));
        let Some((result, outcome)) = decision else { return (usual, false) };
        match RuleEffect::of_action(result.action).verdict {
            FilterVerdict::Accept => (outcome.unwrap_or(usual), outcome.is_some()),
            FilterVerdict::Drop => (Outcome::Blackhole, true),
            FilterVerdict::Reject => (Outcome::Unreachable, true),
        }
    }

    /// The next hop of a packet to be forwarded by the present routes and rules. `None` without one, and for a group of next hops that no rule selects.
    pub(crate) fn next_hop(&self, packet: &Packet, destination: IpAddr) -> Option<(InterfaceId, IpAddr)> {
        let (outcome, is_selected) = self.preview_route(packet, destination);
        match outcome {
            Outcome::Via(adjacency) => self.tables.next_hop(adjacency),
            Outcome::Connected(interface) => Some((interface, destination)),
            // The local protocols select the member of a usual route.
            Outcome::Group(group) if is_selected => {
                let flow = flow_hash(packet.bytes(), packet.meta().l3.into(), self.tables.flow_key());
                self.tables.next_hop(self.tables.groups().pick(group, flow))
            }
            _ => None,
        }
    }

    /// The rule that decides about a packet whose first matching rule has the result `first`.
    #[inline]
    fn decide(
        &self,
        rules: &RuleReader,
        first: RuleResult,
        packet: &Packet,
        (came, destination): (Arrival, IpAddr),
        (now, dry_run): (Instant, bool),
    ) -> Option<Decision> {
        if !rules.is_limited(first)
            && RuleEffect::fib_of(first.action).is_none()
            && let Some(outcome) = self.outcome_of(rules, first, destination)
        {
            return Some((first, outcome));
        }
        let fields = match_fields(packet.bytes(), 0)?;
        let mut selected = None;
        let holds = |result: RuleResult| {
            let fib = RuleEffect::fib_of(result.action);
            if fib.is_some_and(|fib| !reverse_path::holds(self.tables, fib, came.0, fields.source)) {
                return false;
            }
            let outcome = self.outcome_of(rules, result, destination);
            selected = outcome.flatten();
            outcome.is_some()
        };
        let found = rules.decide(first, (&fields, came), (now, fields.length.into(), dry_run), holds)?;
        Some((found, selected))
    }

    /// The route that a rule selects: the inner `None` is the usual one. `None` if the rule's target is not usable: the port of its next hop is down,
    /// or its VRF has no route to the destination.
    #[inline]
    fn outcome_of(&self, rules: &RuleReader, result: RuleResult, destination: IpAddr) -> Option<Option<Outcome>> {
        match RoutingTarget::of(result) {
            RoutingTarget::Usual => Some(None),
            RoutingTarget::Via(adjacency) => {
                let adjacency = if W::WANTS_RULES { self.adjacency_here(rules, result)? } else { adjacency };
                self.tables.adjacencies().is_up(adjacency).then_some(Some(Outcome::Via(adjacency)))
            }
            RoutingTarget::Vrf(vrf) => {
                let outcome = self.tables.lookup_in(vrf, destination);
                // The router's own addresses of that VRF are no routes either: the packet came by another VRF.
                (outcome != Outcome::NoRoute && is_forwarded(outcome)).then_some(Some(outcome))
            }
        }
    }

    /// The adjacency of a rule's next hop in the tables of this classifier. In a dry run they are a copy, with numbers of its own.
    #[cold]
    fn adjacency_here(&self, rules: &RuleReader, result: RuleResult) -> Option<AdjacencyId> {
        let (_, rule) = rules.list().rule_of(result.counter)?;
        let hop = rule.held.get::<HeldHop>()?;
        self.tables.adjacency_of(hop.interface, hop.address)
    }

    /// Counts and logs a packet, and changes it as its rule says. Returns its route.
    #[inline]
    fn carry_out(
        &self,
        rules: &mut RuleReader,
        decision: Option<Decision>,
        packet: &mut Packet,
        (usual, interface): (Outcome, InterfaceId),
        (l3, now): (usize, Instant),
    ) -> Result<Outcome, DropReason> {
        let result = decision.map(|(result, _)| result);
        if !W::WANTS_RULES {
            rules.count(result, packet.len(), now);
        }
        let Some((result, outcome)) = decision else { return Ok(usual) };
        let effect = RuleEffect::of_action(result.action);
        if effect.logs && !W::WANTS_RULES {
            packet.meta_mut().in_interface = interface;
            self.snapshot.log.add(now, || LoggedPacket::new(ROUTING, result.counter, now, packet));
        }
        let outcome = match effect.verdict {
            FilterVerdict::Accept => outcome.unwrap_or(usual),
            FilterVerdict::Drop => return Err(DropReason::RoutingRule),
            FilterVerdict::Reject => Outcome::Unreachable,
        };
        if let Some(dscp) = effect.dscp
            && self.is_sent_now(outcome, packet, l3)
            && (is_selected(decision) || !self.causes_redirect(outcome, packet, interface))
        {
            set_dscp(packet.bytes_mut(), l3, dscp);
        }
        Ok(outcome)
    }

    /// True if a packet with this route is not classified again because its next hop is unresolved.
    #[cold]
    fn is_sent_now(&self, outcome: Outcome, packet: &Packet, l3: usize) -> bool {
        let adjacency = match outcome {
            Outcome::Via(adjacency) => adjacency,
            Outcome::Group(group) => {
                self.tables.groups().pick(group, flow_hash(packet.bytes(), l3, self.tables.flow_key()))
            }
            _ => return false,
        };
        self.tables.adjacencies().load(adjacency).is_resolved()
    }

    /// True if a packet returns by its input interface, so that the local protocols get it first and send a redirect.
    fn causes_redirect(&self, outcome: Outcome, packet: &Packet, arrival: InterfaceId) -> bool {
        let returns = match outcome {
            Outcome::Via(adjacency) => self.tables.adjacencies().interface(adjacency) == arrival,
            // One of its members may.
            _ => true,
        };
        returns && self.snapshot.egress(arrival).redirects && packet.meta().rounds & OPTIONS_DONE == 0
    }

    /// Reports the rules up to the one that decides, and the route that it selects.
    #[cold]
    fn report_rules(
        &self,
        rules: &RuleReader,
        decision: Option<Decision>,
        fields: &MatchFields,
        (came, destination): (Arrival, IpAddr),
    ) {
        let deciding = decision.and_then(|(result, _)| Some(rules.list().rule_of(result.counter)?.0));
        let sets = self.snapshot.sets.latest();
        for RuleStatus { id, rule, .. } in rules.list().rules() {
            let is_deciding = deciding == Some(id);
            let fails = |fib| !reverse_path::holds(self.tables, fib, came.0, fields.source);
            let why = unmet(&rule, fields, came, &*sets)
                .or_else(|| rule.matching.fib.filter(|fib| fails(*fib)).map(|_| Condition::Fib))
                .or((!is_deciding && rule.limit.is_some()).then_some(Condition::Limit))
                .or((!is_deciding).then_some(Condition::Target));
            self.witness.observe(|| Finding::Rule { id, rule, unmet: why.filter(|_| !is_deciding) });
            if is_deciding {
                break;
            }
        }
        let Some((result, Some(outcome))) = decision else { return };
        match RoutingTarget::of(result) {
            RoutingTarget::Vrf(vrf) => self.witness.observe(|| Finding::RuleLookup { vrf, destination, outcome }),
            RoutingTarget::Via(_) => {
                let rule = rules.list().rule_of(result.counter).map(|(_, rule)| rule);
                let hop = rule.as_ref().and_then(|rule| rule.held.get::<HeldHop>());
                if let Some(&HeldHop { interface, address, .. }) = hop {
                    self.witness.observe(|| Finding::Gateway { interface, address });
                }
            }
            RoutingTarget::Usual => {}
        }
    }
}
