//! The rules of `[routing]`, as a list that workers look up before they look up routes.

use crate::filter::{OWN_SHIFT, RuleEffect, RuleOrigin, limit_of};
use classifier::{ListedRule, RuleHold, RuleResult};
use fib::{Outcome, Tables};
use plan::{FilterVerdict, RoutingRule, RoutingVerdict};
use std::net::IpAddr;
use std::sync::Arc;
use units::{AdjacencyId, InterfaceId, VrfId};

/// The target of packets that a rule accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RoutingTarget {
    /// The route to their destination in the VRF of their input interface.
    Usual,
    /// The route to their destination in this VRF.
    Vrf(VrfId),
    /// This next hop.
    Via(AdjacencyId),
}

const VRF: u32 = 1 << OWN_SHIFT;
const VIA: u32 = 2 << OWN_SHIFT;

impl RoutingTarget {
    /// The target of a rule.
    #[inline]
    pub fn of(result: RuleResult) -> RoutingTarget {
        match result.action & (VRF | VIA) {
            VRF => RoutingTarget::Vrf(VrfId(result.queue as u16)),
            VIA => RoutingTarget::Via(AdjacencyId(result.queue)),
            _ => RoutingTarget::Usual,
        }
    }

    /// The bits of an action, and the number of the target.
    fn encode(self) -> (u32, u32) {
        match self {
            RoutingTarget::Usual => (0, 0),
            RoutingTarget::Vrf(vrf) => (VRF, vrf.0.into()),
            RoutingTarget::Via(adjacency) => (VIA, adjacency.0),
        }
    }
}

/// The next hop of a rule, which has an adjacency as long as the rule exists.
pub(crate) struct HeldHop {
    tables: Arc<Tables>,
    adjacency: AdjacencyId,
    /// Its interface.
    pub interface: InterfaceId,
    /// Its address.
    pub address: IpAddr,
}

impl HeldHop {
    /// Holds a next hop. `None` if the tables have no room for one more.
    pub fn new(tables: &Arc<Tables>, interface: InterfaceId, address: IpAddr) -> Option<HeldHop> {
        let adjacency = tables.adjacency_for(interface, address)?;
        Some(HeldHop { tables: tables.clone(), adjacency, interface, address })
    }
}

impl Drop for HeldHop {
    fn drop(&mut self) {
        self.tables.release(self.adjacency);
    }
}

/// True if packets with this route are forwarded, or would be. Packets for the router itself and broadcasts are not, and no rule concerns them.
#[inline]
pub(crate) fn is_forwarded(usual: Outcome) -> bool {
    !matches!(usual, Outcome::Local(_) | Outcome::Broadcast(_) | Outcome::Special)
}

/// A rule for the list. `vrf_named` and `interface_named` give ids of this generation.
///
/// # Errors
///
/// The reason and a hint if the rule names a VRF or an interface that does not exist, or if there is no room for its next hop.
pub(crate) fn routing_rule(
    rule: &RoutingRule,
    (interface, vrf): RuleOrigin,
    tables: &Arc<Tables>,
    vrf_named: impl Fn(&str) -> Option<VrfId>,
    interface_named: impl Fn(&str) -> Option<InterfaceId>,
) -> Result<ListedRule, (String, String)> {
    let RoutingRule { matching, statements, verdict, .. } = rule;
    let gone = |what: &str, name: &str| (format!("there is no {what} {name}"), format!("name a {what} that exists"));
    let mut held = RuleHold::default();
    let (action, target) = match verdict {
        RoutingVerdict::Accept => (FilterVerdict::Accept, RoutingTarget::Usual),
        RoutingVerdict::Drop => (FilterVerdict::Drop, RoutingTarget::Usual),
        RoutingVerdict::Unreachable => (FilterVerdict::Reject, RoutingTarget::Usual),
        RoutingVerdict::Vrf(name) => {
            let vrf = vrf_named(name).ok_or_else(|| gone("VRF", name))?;
            (FilterVerdict::Accept, RoutingTarget::Vrf(vrf))
        }
        RoutingVerdict::Via { address, interface } => {
            let name = interface.as_deref().unwrap_or_default();
            let on = interface_named(name).ok_or_else(|| gone("port", name))?;
            let hop = HeldHop::new(tables, on, *address).ok_or_else(|| {
                let reason = "there is no room for more gateways and neighbours".to_string();
                (reason, "remove routes or rules that name other next hops".to_string())
            })?;
            let target = RoutingTarget::Via(hop.adjacency);
            held = RuleHold::new(hop);
            (FilterVerdict::Accept, target)
        }
    };
    let (own, queue) = target.encode();
    let action = RuleEffect::new(action, matching, statements).action() | own;
    let result = RuleResult { action, queue, ..RuleResult::default() };
    let (limit, text) = (limit_of(statements), rule.to_string().into());
    Ok(ListedRule { matching: matching.clone(), interface, vrf, text, result, limit, held })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_of_a_rule_has_its_target_and_its_effect() {
        let targets =
            [RoutingTarget::Usual, RoutingTarget::Vrf(VrfId(4095)), RoutingTarget::Via(AdjacencyId((1 << 20) - 1))];
        let rule = RoutingRule::parse("fib saddr . iif oif missing log ip dscp set ef drop").expect("it is a rule");
        let effect = RuleEffect::new(FilterVerdict::Drop, &rule.matching, &rule.statements);
        for target in targets {
            let (own, queue) = target.encode();
            let result = RuleResult { action: effect.action() | own, queue, ..RuleResult::default() };
            assert!(result.action < 1 << 16);
            assert_eq!((RoutingTarget::of(result), RuleEffect::of_action(result.action)), (target, effect));
        }
    }

    #[test]
    fn rule_holds_its_next_hop_as_long_as_it_exists() {
        let tables = Arc::new(Tables::new());
        let (vrf, on) = (|_: &str| Some(VrfId::MAIN), |_: &str| Some(InterfaceId(3)));
        let rule = RoutingRule::parse("via 192.0.2.9 dev wan").expect("it is a rule");
        let listed = routing_rule(&rule, (None, None), &tables, vrf, on).expect("there is room");
        let more = routing_rule(&rule, (None, None), &tables, vrf, on).expect("there is room");
        assert_eq!(listed, more);
        drop(more);
        let hop = "192.0.2.9".parse().expect("it is an address");
        let adjacency = tables.adjacency_of(InterfaceId(3), hop).expect("the first rule holds it");
        assert_eq!(RoutingTarget::of(listed.result), RoutingTarget::Via(adjacency));
        drop(listed);
        assert_eq!(tables.adjacency_of(InterfaceId(3), hop), None);
        let none = routing_rule(&rule, (None, None), &tables, vrf, |_: &str| None).expect_err("there is no port");
        assert_eq!(none.0, "there is no port wan");
    }
}
