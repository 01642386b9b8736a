//! The findings of the classifier, passed to a witness: the interface to [`crate::explain`].
//!
//! A worker's classifier has no witness, and the calls compile to nothing. There is only one classifier, so that an explanation agrees with what
//! a worker does.

use super::{Exception, Outcome};
use classifier::ListedRule;
use packet::wire::Family;
use plan::{Condition, Objective, ReversePath};
use stack::ObjectiveSource;
use std::net::IpAddr;
use std::sync::Arc;
use units::{AdjacencyId, GroupId, InterfaceId, Mac, PortId, VrfId};

/// A finding of the classifier, in the order of its checks. The reason of a drop is not here but in the verdict.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// The link-layer destination of the frame.
    LinkDestination {
        /// The frame's destination address.
        destination: Mac,
        /// The port's own address.
        own: Mac,
    },
    /// The input interface; `None` if no interface has the frame's VLAN.
    Interface {
        /// The VLAN of its tag.
        vlan: Option<u16>,
        /// The interface.
        interface: Option<InterfaceId>,
    },
    /// The protocol of the frame, and whether the interface takes part in it.
    Protocol {
        /// The ethertype.
        ethertype: u16,
        /// True if the interface has an address of this protocol.
        enabled: bool,
    },
    /// The IP header is valid: version, lengths, checksum.
    Header {
        /// Its version.
        family: Family,
        /// Source address.
        source: IpAddr,
        /// Destination address.
        destination: IpAddr,
        /// Length of the IP packet, in bytes.
        length: usize,
    },
    /// The objective of the packet at its egress link. Only reported if the configuration names objectives.
    Objective {
        /// Its code point.
        dscp: u8,
        /// The objective.
        objective: Objective,
        /// The source of the objective.
        origin: ObjectiveSource,
    },
    /// The addresses are valid as a source and a destination.
    Addresses,
    /// The result of the reverse-path check, if the interface has one.
    ReversePath {
        /// The source.
        source: IpAddr,
        /// The route to the source.
        outcome: Outcome,
        /// The configured check.
        check: ReversePath,
        /// True if the packet passes the check.
        passed: bool,
    },
    /// The result of a route lookup.
    Lookup {
        /// The VRF.
        vrf: VrfId,
        /// The destination.
        destination: IpAddr,
        /// The result.
        outcome: Outcome,
    },
    /// The result of the lookup in the VRF that a routing rule names.
    RuleLookup {
        /// The VRF.
        vrf: VrfId,
        /// The destination.
        destination: IpAddr,
        /// The result.
        outcome: Outcome,
    },
    /// The next hop that a routing rule names.
    Gateway {
        /// The interface of its link.
        interface: InterfaceId,
        /// Its address.
        address: IpAddr,
    },
    /// The route leads to a group of next hops. This member is selected for the packet's flow.
    Member {
        /// The group.
        group: GroupId,
        /// The hash of the flow, which selects the member.
        flow: u32,
        /// The member.
        adjacency: AdjacencyId,
    },
    /// A pass-through port: all frames leave unchanged by this port.
    PassThrough(PortId),
    /// The multicast route of its group and source.
    Group {
        /// The position of the multicast route; `None` if there is none.
        route: Option<usize>,
    },
    /// Time to live or hop limit.
    HopLimit {
        /// The packet's value.
        left: u8,
    },
    /// The comparison of the packet's length with the MTU of its egress link.
    Mtu {
        /// The output interface. Its MTU is zero if it no longer exists.
        interface: InterfaceId,
        /// Length of the IP packet, in bytes.
        length: usize,
        /// The MTU, in bytes.
        mtu: u16,
    },
    /// The link-layer address of the next hop.
    NextHop {
        /// The adjacency, if the route names one.
        adjacency: Option<AdjacencyId>,
        /// Its link-layer address, if resolved.
        mac: Option<Mac>,
    },
    /// A rule was tried.
    Rule {
        /// Its id in the list of the snapshot's rules.
        id: u32,
        /// The rule.
        rule: Arc<ListedRule>,
        /// The first condition that does not hold. `None`: the rule matches.
        unmet: Option<Condition>,
    },
    /// The packet takes the path at this position in the snapshot.
    Path(usize),
    /// The packet goes to the router's own protocols.
    Exception(Exception),
}

/// Receives the findings of the classifier.
pub trait Witness: Copy {
    /// True if it wants to know of each rule that is tried: then rules are tried one by one.
    const WANTS_RULES: bool = true;

    /// Called for each finding.
    fn observe(self, finding: impl FnOnce() -> Finding);
}

/// Ignores all findings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwitnessed;

impl Witness for Unwitnessed {
    const WANTS_RULES: bool = false;

    #[inline(always)]
    fn observe(self, _finding: impl FnOnce() -> Finding) {}
}
