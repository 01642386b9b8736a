//! The plan: what a checked configuration says, with every default filled in.
//!
//! Two configurations that mean the same give equal plans: ports are sorted by name, interfaces by VLAN, routes and
//! neighbours by address, and texts are canonical. Only the order of paths has a meaning.

use crate::address::{mac_text, optional_mac_text};
use crate::state::{PortStatePlan, StatePlan};
use crate::{
    Call, CodePoints, Cores, CpuPlan, DispatchRule, FilterRule, Layout, LinkPlan, Match, NatPlan, Objective, PathCpu,
};
use crate::{MulticastPlan, PassThroughPlan, PolicyPlan, PortCpu, Prefix, RaPlan, ReversePath};
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use units::{Bytes, Mac, Nanos, Rate};

/// The name of a port or an interface: `lan`, or `lan.20` for its VLAN 20. Shared, because a million routes name few.
pub type Name = Arc<str>;

/// A whole configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Plan {
    /// The router's name.
    pub name: String,
    /// Worker threads, 1 to 64.
    pub workers: u16,
    /// The core of each worker, in order; none where the system chooses.
    pub cores: Cores,
    /// How long a worker without work looks for some before it sleeps.
    #[serde(serialize_with = "nanoseconds")]
    pub spin: Nanos,
    /// How each worker divides its processor.
    pub cpu: CpuPlan,
    /// Frames of the pool.
    pub frames: u32,
    /// Super-frames of the pool.
    pub super_frames: u32,
    /// ICMP errors a second.
    pub icmp_rate: u32,
    /// ICMP errors at once.
    pub icmp_burst: u32,
    /// The ports, sorted by name; at least one.
    pub ports: Vec<PortPlan>,
    /// The configured routes, sorted by destination; connected routes follow from the interfaces.
    pub routes: Vec<RoutePlan>,
    /// The static neighbours, sorted by interface and address.
    pub neighbours: Vec<NeighbourPlan>,
    /// The multicast groups that are forwarded, sorted by VRF, group and source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub multicast: Vec<MulticastPlan>,
    /// The pairs of ports that are a piece of cable, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passthrough: Vec<PassThroughPlan>,
    /// The paths in the order they are matched; the built-in path `best-effort` comes after them and is not listed.
    pub paths: Vec<PathPlan>,
    /// How hosts inside reach the outside; none where nothing is translated.
    pub nat: Option<NatPlan>,
    /// What packets may leave in the router for a while; none where they may not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StatePlan>,
    /// What code points ask for where they are trusted.
    #[serde(skip_serializing_if = "CodePoints::is_empty")]
    pub objectives: CodePoints,
    /// Which schemes serve what is asked for, sorted by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyPlan>,
}

pub(crate) fn nanoseconds<S: Serializer>(time: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.get())
}

impl Plan {
    /// Every interface of every port, in order.
    pub fn interfaces(&self) -> impl Iterator<Item = (&PortPlan, &InterfacePlan)> {
        self.ports.iter().flat_map(|port| port.interfaces.iter().map(move |interface| (port, interface)))
    }

    /// The policy of a port; none where it has none.
    pub fn policy(&self, port: &PortPlan) -> Option<&PolicyPlan> {
        self.policies.iter().find(|policy| Some(&policy.name) == port.policy.as_ref())
    }

    /// What serves an objective at a port: as its policy says, else its own scheme.
    pub fn scheme<'p>(&'p self, port: &'p PortPlan, objective: Objective) -> &'p Call {
        self.policy(port).and_then(|policy| policy.schemes.get(&objective)).unwrap_or(&port.scheme)
    }
}

/// A place packets come from and go to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PortPlan {
    /// Its name.
    pub name: Name,
    /// What is behind it.
    pub device: DevicePlan,
    /// Its MAC address; where none is given the device has or makes one.
    #[serde(serialize_with = "optional_mac_text")]
    pub mac: Option<Mac>,
    /// Its interfaces: the untagged one first (it may have no address), then its VLANs by id.
    pub interfaces: Vec<InterfacePlan>,
    /// The queueing scheme of its link.
    pub scheme: Call,
    /// What becomes of the packets that wait where that takes the place of another.
    pub scheme_change: SchemeChange,
    /// The policy that may give it another scheme.
    pub policy: Option<Name>,
    /// The file that all of its frames are captured to.
    pub capture: Option<String>,
    /// Faults put upon its frames.
    pub faults: Option<FaultsPlan>,
    /// What it does with ephemeral state.
    #[serde(skip_serializing_if = "PortStatePlan::is_default")]
    pub state: PortStatePlan,
    /// The link that it pretends to have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkPlan>,
    /// What it means to the processor.
    pub cpu: PortCpu,
}

/// What becomes of the packets that wait at a queueing scheme when another takes its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SchemeChange {
    /// They come to the new one, in the order in which they came to the router.
    #[default]
    Migrate,
    /// The old one serves them to the end, before any packet that comes later.
    Drain,
    /// They are dropped.
    Flush,
}

crate::cpu::named! {
    SchemeChange { Migrate "migrate", Drain "drain", Flush "flush" }
}

/// What is behind a port: `kind:target`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DevicePlan {
    /// A kind of the catalogue: `memory`, `pcap`, `packet`, `xdp`.
    pub kind: String,
    /// What the kind opens: a name, a file, an interface of the kernel. Empty for a `pcap` port that only writes.
    pub target: String,
    /// `pcap`: the file that transmitted frames go to.
    pub write: Option<String>,
    /// `pcap`: how fast frames are read; [`Pace::Recorded`] for the other kinds.
    pub pace: Pace,
    /// `xdp`: what to make of checksums, where it is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksums: Option<Checksums>,
    /// `packet` and `tap`: whether super-frames and partial checksums are taken and handed over as they are.
    pub offloads: bool,
}

impl fmt::Display for DevicePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.target)
    }
}

/// How fast a capture is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pace {
    /// With the gaps it was recorded with.
    #[default]
    Recorded,
    /// As fast as the router takes it.
    Fast,
    /// At a rate of bits; more than zero.
    Bits(Rate),
    /// At a rate of packets a second; more than zero.
    Packets(u64),
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pace::Recorded => f.write_str("recorded"),
            Pace::Fast => f.write_str("fast"),
            Pace::Bits(rate) => rate.fmt(f),
            Pace::Packets(rate) => write!(f, "{rate}pps"),
        }
    }
}

impl FromStr for Pace {
    type Err = units::UnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hint = || "write 'recorded', 'fast', a rate like '10mbit', '1000pps' or '100kpps'".to_string();
        let zero = || units::UnitError { reason: format!("a pace of {text} never sends"), hint: hint() };
        match text {
            "recorded" => return Ok(Pace::Recorded),
            "fast" => return Ok(Pace::Fast),
            _ => {}
        }
        if text.trim_end().to_ascii_lowercase().ends_with("pps") {
            let rate: units::PacketRate =
                text.parse().map_err(|error: units::UnitError| units::UnitError { hint: hint(), ..error })?;
            return if rate.get() == 0 { Err(zero()) } else { Ok(Pace::Packets(rate.get())) };
        }
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(units::UnitError { reason: format!("{} is no pace", crate::text::quote(text)), hint: hint() });
        }
        match text.parse::<Rate>()? {
            Rate::ZERO => Err(zero()),
            rate => Ok(Pace::Bits(rate)),
        }
    }
}

impl Serialize for Pace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What to make of transport checksums of received frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksums {
    /// A sender on this machine may have left them to a network card: those that look like it are filled in.
    Complete,
    /// They came over a wire, and are as their sender wants them.
    Trust,
}

impl fmt::Display for Checksums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Checksums::Complete { "complete" } else { "trust" })
    }
}

impl FromStr for Checksums {
    type Err = units::UnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "complete" => Ok(Checksums::Complete),
            "trust" => Ok(Checksums::Trust),
            _ => {
                let reason = format!("{} says not what to make of checksums", crate::text::quote(text));
                Err(units::UnitError { reason, hint: "write 'complete' or 'trust'".to_string() })
            }
        }
    }
}

impl Serialize for Checksums {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A layer 3 attachment of the router.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct InterfacePlan {
    /// `lan`, or `lan.20`.
    pub name: Name,
    /// The 802.1Q id, 1 to 4094; none for the untagged interface.
    pub vlan: Option<u16>,
    /// Its own addresses with the lengths of their subnets, in the order of the file.
    pub addresses: Vec<Prefix>,
    /// Its VRF; none for the main one.
    pub vrf: Option<Name>,
    /// The largest IP packet in bytes.
    pub mtu: u16,
    /// Whether senders on its link are told of a better first hop there.
    pub redirects: bool,
    /// How the sources of what comes in are checked.
    pub reverse_path: ReversePath,
    /// What it advertises to IPv6 hosts; nothing where it does not.
    pub ra: Option<RaPlan>,
    /// Whether the code points of what comes in say what it wants.
    pub trust: bool,
    /// What everything else that comes in wants.
    pub objective: Objective,
}

/// Faults put upon the frames of a port. Probabilities are in parts per million.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct FaultsPlan {
    /// Frames lost, ppm.
    pub loss: u32,
    /// Frames with a bit turned, ppm.
    pub corrupt: u32,
    /// Frames sent twice, ppm.
    pub duplicate: u32,
    /// Frames cut short, ppm.
    pub truncate: u32,
    /// The seed of the random choices.
    pub seed: u64,
}

impl fmt::Display for FaultsPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |ppm: u32| f64::from(ppm) / 1e6;
        write!(f, "loss {} corrupt {} ", part(self.loss), part(self.corrupt))?;
        write!(f, "duplicate {} truncate {} seed {}", part(self.duplicate), part(self.truncate), self.seed)
    }
}

/// A configured route.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RoutePlan {
    /// The VRF whose packets go by it; none for the main one.
    pub vrf: Option<Name>,
    /// The destination; no bit behind its length is set.
    pub to: Prefix,
    /// What becomes of packets to it.
    pub action: RouteAction,
}

impl fmt::Display for RoutePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(vrf) = &self.vrf {
            write!(f, "vrf {vrf} ")?;
        }
        write!(f, "{} {}", self.to, self.action)
    }
}

/// What becomes of the packets a route matches.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteAction {
    /// To a next router.
    Via {
        /// Its address, of the destination's family.
        gateway: IpAddr,
        /// The interface whose subnet it is on.
        interface: Name,
    },
    /// To one of several next routers, by the packet's flow; at least two.
    Group(Arc<[NextHopPlan]>),
    /// Dropped in silence.
    Blackhole,
    /// Dropped, and the sender is told by ICMP.
    Unreachable,
}

impl fmt::Display for RouteAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteAction::Via { gateway, interface } => write!(f, "via {gateway} port {interface}"),
            RouteAction::Group(hops) => {
                let text: Vec<String> = hops.iter().map(|hop| format!("via {hop}")).collect();
                f.write_str(&text.join(" "))
            }
            RouteAction::Blackhole => f.write_str("blackhole"),
            RouteAction::Unreachable => f.write_str("unreachable"),
        }
    }
}

/// One of several next routers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct NextHopPlan {
    /// The interface whose subnet it is on.
    pub interface: Name,
    /// Its address.
    pub gateway: IpAddr,
    /// Its share of the flows, compared to the others'; at least 1.
    pub weight: u16,
}

impl fmt::Display for NextHopPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.gateway, self.interface)?;
        if self.weight == 1 { Ok(()) } else { write!(f, " weight {}", self.weight) }
    }
}

/// A neighbour whose MAC address is known beforehand.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NeighbourPlan {
    /// Its address, on a subnet of the interface or IPv6 link-local.
    pub address: IpAddr,
    /// Its MAC address; never a group's.
    #[serde(serialize_with = "mac_text")]
    pub mac: Mac,
    /// The interface it is on.
    pub interface: Name,
}

/// A switching path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PathPlan {
    /// Its name.
    pub name: String,
    /// The packets that take it, unless a path before it takes them.
    #[serde(rename = "match")]
    pub matching: Match,
    /// What is done to each packet, in order.
    pub functions: Vec<Call>,
    /// The rules of its function `filter`, in order; empty without it.
    pub filter: Vec<FilterRule>,
    /// The rules of its function `dispatch`, in order; empty without it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dispatch: Vec<DispatchRule>,
    /// Packets that wait at most for its functions.
    pub input_queue: u32,
    /// Packets that wait at most for its port.
    pub output_queue: u32,
    /// The class a queueing scheme sees.
    pub class: u8,
    /// What its packets want, whatever they say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// What it means to the processor.
    pub cpu: PathCpu,
}

impl PathPlan {
    /// The size of a packet that its costs are reckoned with: as promised, or the smallest frame of Ethernet.
    pub fn packet_size(&self) -> Bytes {
        self.cpu.reservation.map_or(Bytes::new(64), |reservation| reservation.packet_size())
    }

    /// How many packets can wait before and behind its functions: where there is no output task, only before.
    pub fn waiting_room(&self, layout: Layout) -> u32 {
        if layout == Layout::Three { self.input_queue.min(self.output_queue) } else { self.input_queue }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_read_back_as_printed() {
        for (text, pace) in [
            ("recorded", Pace::Recorded),
            ("fast", Pace::Fast),
            ("10mbit", Pace::Bits(Rate::mbit(10))),
            ("1000pps", Pace::Packets(1000)),
        ] {
            assert_eq!(text.parse(), Ok(pace));
            assert_eq!(pace.to_string(), text);
        }
        for (text, packets) in
            [("100kpps", 100_000), ("1.5mpps", 1_500_000), ("100 kpps", 100_000), ("2MPPS", 2_000_000)]
        {
            assert_eq!(text.parse(), Ok(Pace::Packets(packets)), "{text}");
            assert_eq!(Pace::Packets(packets).to_string().parse(), Ok(Pace::Packets(packets)));
        }
        for text in ["", "0pps", "0kpps", "kpps", "1kkpps", "0bit", "slow", "10mbps", "10", "-1pps", "10ps"] {
            assert!(text.parse::<Pace>().is_err(), "{text}");
        }
    }
}
