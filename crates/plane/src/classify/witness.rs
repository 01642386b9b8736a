//! What the classifier finds on its way, told to whoever asks why: the seam of [`crate::explain`].
//!
//! A worker's classifier has no witness, and the calls compile to nothing: there is one classifier, and what is explained
//! is what happens.

use super::{Exception, Outcome};
use packet::wire::Family;
use plan::{Condition, Objective, ReversePath};
use stack::Because;
use std::net::IpAddr;
use units::{AdjacencyId, GroupId, InterfaceId, Mac, PortId, VrfId};

/// Something the classifier has found, in the order in which it looks. What it was found wanting for is not here but in
/// the verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finding {
    /// Whom the frame is for.
    Station {
        /// As the frame says.
        destination: Mac,
        /// The port's own.
        own: Mac,
    },
    /// By which interface it comes in; nothing where no interface has its VLAN.
    Interface {
        /// The VLAN of its tag.
        vlan: Option<u16>,
        /// The interface.
        interface: Option<InterfaceId>,
    },
    /// What the frame carries, and whether the interface takes part in that protocol.
    Carries {
        /// The ethertype.
        ethertype: u16,
        /// Whether the interface has an address of it.
        enabled: bool,
    },
    /// The IP header stands: version, lengths, checksum.
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
    /// What it wants of the link it leaves by. Not told where nothing is said of objectives.
    Wants {
        /// Its code point.
        dscp: u8,
        /// What.
        objective: Objective,
        /// Why.
        because: Because,
    },
    /// The addresses are those of a sender and of somebody to send to.
    Addresses,
    /// What the routes say of its source, where the interface checks that.
    ReversePath {
        /// The source.
        source: IpAddr,
        /// What they say.
        outcome: Outcome,
        /// What is asked for.
        check: ReversePath,
        /// Whether it is that.
        passed: bool,
    },
    /// What the routes say.
    Lookup {
        /// In this VRF.
        vrf: VrfId,
        /// Of this destination.
        destination: IpAddr,
        /// This.
        outcome: Outcome,
    },
    /// The route leads to a group of next hops, and this is the one for the packet's flow.
    Member {
        /// The group.
        group: GroupId,
        /// The hash of the flow, which picks the member.
        flow: u32,
        /// The member.
        adjacency: AdjacencyId,
    },
    /// All that comes by the port leaves by this one, as it is.
    Through(PortId),
    /// What is said of its group; its source is among those it is said for.
    Group {
        /// The position of the multicast route; nothing where there is none.
        route: Option<usize>,
    },
    /// Time to live or hop limit.
    Hops {
        /// As the packet says.
        left: u8,
    },
    /// Whether it fits the link it would leave by.
    Fits {
        /// That interface; its MTU is zero where it is gone.
        interface: InterfaceId,
        /// Length of the IP packet, in bytes.
        length: usize,
        /// The longest it takes, in bytes.
        mtu: u16,
    },
    /// Whether the link-layer address of the next hop is known.
    NextHop {
        /// The adjacency, where the route names one.
        adjacency: Option<AdjacencyId>,
        /// Its link-layer address, where known.
        mac: Option<Mac>,
    },
    /// A rule was tried.
    Rule {
        /// Position among the rules of the snapshot.
        rule: usize,
        /// The first condition that does not hold; the rule matches where there is none.
        unmet: Option<Condition>,
    },
    /// It takes this path: a position in the snapshot.
    Path(usize),
    /// It is one for the router's own protocols.
    Exception(Exception),
}

/// Somebody the classifier tells what it finds.
pub trait Witness: Copy {
    /// The classifier has found something.
    fn saw(self, finding: impl FnOnce() -> Finding);
}

/// Nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwitnessed;

impl Witness for Unwitnessed {
    #[inline(always)]
    fn saw(self, _finding: impl FnOnce() -> Finding) {}
}
