//! One generation of the configuration, as workers read it: immutable, shared, swapped whole.

use crate::function::Ip;
use crate::hook::{Marks, Stations};
use crate::multicast::MulticastRoutes;
use nat::Nat;
pub use plan::Layout;
use plan::{Call, CpuPlan, DispatchRule, FilterRule, Match, Objective, PathCpu, PortCpu};
use stack::{HostLimits, Interface};
use std::net::Ipv6Addr;
use std::sync::Arc;
use units::{Generation, InterfaceId, Mac, Nanos, PathId, PortId, Share};

/// The path of what concerns the router itself: ARP, neighbour discovery, its own addresses, unresolved next hops.
pub const CONTROL: PathId = PathId(0);
/// The path of what the fast path cannot do: IP options, errors to report.
pub const GENERAL: PathId = PathId(1);
/// The path of everything no configured path matches.
pub const BEST_EFFORT: PathId = PathId(2);
/// How many of these there are: configured paths come after them.
pub const BUILT_IN: usize = 3;

/// The parts of a core that the tasks of a port get.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortShares {
    /// Receiving and classifying.
    pub input: Share,
    /// Sending what reservations have ready.
    pub reserved: Share,
    /// Sending everything else.
    pub output: Share,
}

/// A port as the classifier sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortView {
    /// Its name.
    pub name: Arc<str>,
    /// Its link-layer address.
    pub mac: Mac,
    /// The queueing scheme of its link, as things stand.
    pub scheme: Call,
    /// The objective in force; none where it has no policy, and nothing is counted.
    pub objective: Option<Objective>,
    /// What it means to the processor.
    pub cpu: PortCpu,
    /// The parts of each core that its tasks get.
    pub shares: PortShares,
    /// The port that all its frames leave by, as they are: the other end of a piece of cable.
    pub through: Option<PortId>,
    /// The interface of frames without a VLAN tag.
    pub untagged: InterfaceId,
    /// The interfaces of VLANs, by VLAN.
    pub vlans: Vec<(u16, InterfaceId)>,
}

/// What leaving by an interface takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Egress {
    /// The interface's link-layer address as a number.
    pub mac: u64,
    /// Its 802.1Q tag.
    pub vlan: Option<u16>,
    /// The longest IP packet of its configuration, in bytes; zero where the interface is gone. Its medium may carry less:
    /// [`Tables::mtu`](fib::Tables::mtu).
    pub mtu: u16,
    /// Length of the link header, in bytes.
    pub header_length: u16,
    /// The port below.
    pub port: PortId,
    /// Whether senders are told of a better first hop where their packets leave by the interface they came by.
    pub redirects: bool,
}

const GONE: Egress = Egress { mac: 0, vlan: None, mtu: 0, header_length: 14, port: PortId(u16::MAX), redirects: false };

/// A switching path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathSpec {
    /// Its id; the same from generation to generation as long as the name is.
    pub id: PathId,
    /// Its name.
    pub name: Arc<str>,
    /// What is done to its packets.
    pub functions: Vec<Call>,
    /// The rules of its function `filter`, each with the interface its packets are to have come in by.
    pub filter: Vec<(FilterRule, Option<InterfaceId>)>,
    /// The rules of its function `dispatch`, each with the path it leads to.
    pub dispatch: Vec<(DispatchRule, PathId)>,
    /// Packets that wait at most before its functions.
    pub capacity: usize,
    /// Packets that wait at most behind them.
    pub output_capacity: usize,
    /// The class a queueing scheme sees.
    pub class: u8,
    /// What its packets want, where it knows better than they.
    pub objective: Option<Objective>,
    /// What it means to the processor.
    pub cpu: PathCpu,
    /// The part of each core that its task gets.
    pub share: Share,
    /// What a packet is said to cost.
    pub cost: Option<Nanos>,
    /// Whether its functions have to see what comes to addresses of ours on the outside.
    pub translates: bool,
}

impl PathSpec {
    /// Whether its functions work on the heads of packets: copies need not be in one piece for them.
    pub(crate) fn takes_heads(&self) -> bool {
        self.functions.iter().all(|call| call.name == Ip::DECLARATION.name)
    }
}

/// Which packets take a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// What they look like.
    pub matching: Match,
    /// Where they come in, if that matters.
    pub interface: Option<InterfaceId>,
    /// Position in [`Snapshot::paths`].
    pub path: usize,
}

/// One generation.
// Large: a field for each part of a generation, which is published as a whole.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its number.
    pub generation: Generation,
    /// How many tasks a packet passes.
    pub layout: Layout,
    /// How each worker divides its processor.
    pub cpu: CpuPlan,
    /// By port id; holes where ports were.
    pub ports: Vec<Option<PortView>>,
    /// In the order of their ids.
    pub interfaces: Vec<Interface>,
    /// The built-in paths, then the configured ones in the order they are matched.
    pub paths: Vec<PathSpec>,
    /// In the order they are tried.
    pub rules: Vec<Rule>,
    /// How much the router's own protocols do for others.
    pub limits: HostLimits,
    /// How addresses are translated; none where none are.
    pub nat: Option<nat::Rules>,
    /// Translated connections, which outlive generations.
    pub translations: Arc<Nat>,
    /// Where packets to multicast groups go.
    pub multicast: MulticastRoutes,
    /// Where instructions are executed; none where they are not.
    pub stations: Option<Arc<Stations>>,
    /// How packets that carry one are known.
    pub(crate) marks: Marks,
    egress: Vec<Egress>,
    positions: Vec<Option<u16>>,
    own4_filter: Filter,
    own6_filter: Filter,
}

impl Snapshot {
    /// Puts a generation together from its parts.
    pub fn new(
        generation: Generation,
        cpu: CpuPlan,
        ports: Vec<Option<PortView>>,
        mut interfaces: Vec<Interface>,
        paths: Vec<PathSpec>,
        rules: Vec<Rule>,
        limits: HostLimits,
    ) -> Snapshot {
        interfaces.sort_by_key(|interface| interface.id);
        let slots = interfaces.last().map_or(0, |interface| interface.id.index() + 1);
        let (mut egress, mut positions) = (vec![GONE; slots], vec![None; slots]);
        let (mut own4_filter, mut own6_filter) = (Filter::EMPTY, Filter::EMPTY);
        for (position, interface) in interfaces.iter().enumerate() {
            positions[interface.id.index()] = Some(position as u16);
            egress[interface.id.index()] = Egress {
                mac: interface.mac.number(),
                vlan: interface.vlan,
                mtu: interface.mtu,
                header_length: if interface.vlan.is_some() { 18 } else { 14 },
                port: interface.port,
                redirects: interface.redirects,
            };
            for attached in &interface.ipv4 {
                let nobodys = [attached.broadcast(), attached.network()].into_iter().flatten();
                nobodys.chain([attached.address]).for_each(|address| own4_filter.add(u32::from(address)));
            }
            interface.ipv6.iter().for_each(|attached| own6_filter.add(folded(attached.address)));
        }
        let layout = cpu.layout;
        Snapshot {
            generation,
            layout,
            cpu,
            ports,
            interfaces,
            paths,
            rules,
            limits,
            nat: None,
            translations: Arc::default(),
            multicast: MulticastRoutes::default(),
            stations: None,
            marks: Marks::NONE,
            egress,
            positions,
            own4_filter,
            own6_filter,
        }
    }

    /// The generation before the first: nothing is configured.
    pub fn empty() -> Snapshot {
        let limits = HostLimits::default();
        Snapshot::new(Generation(0), CpuPlan::default(), Vec::new(), Vec::new(), Vec::new(), Vec::new(), limits)
    }

    /// The same where instructions are executed.
    pub fn executing(self, stations: Option<Arc<Stations>>) -> Snapshot {
        let marks = stations.as_ref().map_or(Marks::NONE, |stations| stations.marks);
        Snapshot { stations, marks, ..self }
    }

    /// What leaving by `interface` takes; an MTU of zero where it is gone.
    #[inline(always)]
    pub fn egress(&self, interface: InterfaceId) -> &Egress {
        self.egress.get(interface.index()).unwrap_or(&GONE)
    }

    /// An interface, where it exists in this generation.
    pub fn interface(&self, id: InterfaceId) -> Option<&Interface> {
        let position = self.positions.get(id.index()).copied().flatten()?;
        self.interfaces.get(usize::from(position))
    }

    /// The interface of a name.
    pub fn interface_named(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    /// A port, where it exists in this generation.
    pub fn port(&self, id: PortId) -> Option<&PortView> {
        self.ports.get(id.index())?.as_ref()
    }

    /// Whether `address` may be one of the router's own or the broadcast address of one of its prefixes, in any VRF; no
    /// false negatives.
    #[inline(always)]
    pub fn may_be_own4(&self, address: u32) -> bool {
        self.own4_filter.has(address)
    }

    /// Whether `address` may be one of the router's own, in any VRF; no false negatives.
    #[inline(always)]
    pub fn may_be_own6(&self, address: Ipv6Addr) -> bool {
        self.own6_filter.has(folded(address))
    }

    /// Whether `address` is one of the router's own on `interface`.
    pub fn is_own6_on(&self, interface: InterfaceId, address: Ipv6Addr) -> bool {
        self.interface(interface).is_some_and(|i| i.ipv6.iter().any(|a| a.address == address))
    }
}

/// A set of addresses that may say yes to others too: of 4096 bits, few are set by the addresses of some hundred interfaces.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Filter([u64; 64]);

impl Filter {
    const EMPTY: Filter = Filter([0; 64]);

    /// A word and a bit of it, by a multiplicative hash (Knuth, TAOCP 3, 6.4).
    #[inline(always)]
    fn place(key: u32) -> (usize, u64) {
        let hash = key.wrapping_mul(0x9e37_79b1);
        ((hash >> 26) as usize, 1 << (hash >> 20 & 63))
    }

    fn add(&mut self, key: u32) {
        let (word, bit) = Filter::place(key);
        self.0[word] |= bit;
    }

    #[inline(always)]
    fn has(&self, key: u32) -> bool {
        let (word, bit) = Filter::place(key);
        self.0[word] & bit != 0
    }
}

/// Every bit of an address has a part in it.
#[inline(always)]
fn folded(address: Ipv6Addr) -> u32 {
    let bits = address.to_bits();
    let half = (bits >> 64) as u64 ^ (bits as u64).rotate_left(17);
    (half >> 32) as u32 ^ half as u32
}
