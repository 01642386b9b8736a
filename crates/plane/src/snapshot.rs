//! One generation of the configuration, as workers read it: immutable, shared, replaced as a whole.

use crate::flow_rates::FlowRates;
use crate::function::Ip;
use crate::hook::{HookConfig, Marks};
use crate::multicast::{KernelGroups, MulticastRoutes};
use crate::packet_log::PacketLog;
use crate::punt::Punt;
use crate::tunnel::Tunnels;
use classifier::{Published, RuleList, SetStore};
use nat::Nat;
pub use plan::Layout;
use plan::{Call, CpuPlan, DispatchRule, GuestRule, Objective, PathCpu, PortCpu, PuntLimits};
use stack::{Interface, LocalProtocolLimits};
use std::net::Ipv6Addr;
use std::sync::Arc;
use subscribers::{CircuitTable, RoundTrips};
use units::{Generation, InterfaceId, Mac, Nanos, PathId, PortId, Share};

/// The path of packets that concern the router itself: ARP, neighbour discovery, packets to local addresses, unresolved next hops.
pub const CONTROL: PathId = PathId(0);
/// The path of packets that the fast path cannot process: IP options, packets that cause an ICMP error.
pub const GENERAL: PathId = PathId(1);
/// The path of packets that match no configured path.
pub const BEST_EFFORT: PathId = PathId(2);
/// The id under which rules of `[routing]` log packets. No path has it.
pub const ROUTING: PathId = PathId(u16::MAX);
/// The maximum length of each queue of the path `best-effort`, in packets: a full batch of each of sixteen ports that run before the path does.
pub const BEST_EFFORT_CAPACITY: usize = 4096;
/// The number of built-in paths: configured paths come after them.
pub const BUILT_IN: usize = 3;

/// The CPU shares of the tasks of a port, on each core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortShares {
    /// Receiving and classifying.
    pub input: Share,
    /// Transmitting packets with a reservation.
    pub reserved: Share,
    /// Transmitting all other packets.
    pub output: Share,
}

/// A port as the classifier sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortView {
    /// Its name.
    pub name: Arc<str>,
    /// Its link-layer address.
    pub mac: Mac,
    /// True if one of its interfaces has further link-layer addresses: [`Interface::stations`].
    pub has_stations: bool,
    /// The queueing scheme of its link at present.
    pub scheme: Call,
    /// The objective in force. `None` if the port has no policy, and objectives are not counted.
    pub objective: Option<Objective>,
    /// Its CPU settings.
    pub cpu: PortCpu,
    /// The CPU shares of its tasks on each core.
    pub shares: PortShares,
    /// The pass-through port by which all its frames leave unchanged: the other end of a cable.
    pub passthrough: Option<PortId>,
    /// True if subscribers of an access network are behind the port.
    pub toward_subscribers: bool,
    /// The interface of frames without a VLAN tag.
    pub untagged: InterfaceId,
    /// The interfaces of VLANs, by VLAN.
    pub vlans: Vec<(u16, InterfaceId)>,
}

/// The properties of an interface for packets that leave by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Egress {
    /// The interface's link-layer address as a number.
    pub mac: u64,
    /// Its 802.1Q tag.
    pub vlan: Option<u16>,
    /// The configured MTU of the interface, in bytes. Zero if the interface no longer exists. The medium may have a lower one:
    /// [`Tables::mtu`](fib::Tables::mtu).
    pub mtu: u16,
    /// Length of the link header, in bytes.
    pub header_length: u16,
    /// The port of the interface.
    pub port: PortId,
    /// True if senders get an ICMP redirect when their packets leave by their input interface.
    pub redirects: bool,
}

// The port has no path instances, so `Dispatch::instance` refuses packets to it.
const REMOVED_EGRESS: Egress =
    Egress { mac: 0, vlan: None, mtu: 0, header_length: 14, port: PortId(u16::MAX), redirects: false };

/// A path.
#[derive(Clone, Debug)]
pub struct PathSpec {
    /// Its id. It stays the same across generations as long as the name does.
    pub id: PathId,
    /// Its name.
    pub name: Arc<str>,
    /// Its functions.
    pub functions: Vec<Call>,
    /// The rules of its function `filter`.
    pub filter: Arc<RuleList>,
    /// The rules of its function `dispatch`, each with its target path.
    pub dispatch: Vec<(DispatchRule, PathId)>,
    /// The rules of its guest functions, each with the treatment of its packets.
    pub guest_rules: Vec<(GuestRule, RuleTreatment)>,
    /// The maximum length of the input queue, in packets.
    pub capacity: usize,
    /// The maximum length of the output queue, in packets.
    pub output_capacity: usize,
    /// The class for the queueing scheme.
    pub class: u8,
    /// The objective of its packets, which overrides theirs.
    pub objective: Option<Objective>,
    /// Its CPU settings.
    pub cpu: PathCpu,
    /// The CPU share of its task on each core.
    pub share: Share,
    /// The declared cost of a packet.
    pub cost: Option<Nanos>,
    /// True if its functions translate addresses, and so must see packets to the router's outside addresses.
    pub translates: bool,
    /// True if its functions process packets to the router's own addresses.
    pub receives_local: bool,
}

/// The treatment of the packets that a guest assigns to a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleTreatment {
    /// They continue on the path.
    Pass,
    /// They are dropped.
    Drop,
    /// They continue on another path.
    Path(PathId),
}

impl PathSpec {
    /// True if its functions read only the heads of packets: replicas need not be contiguous for them.
    pub(crate) fn reads_only_headers(&self) -> bool {
        self.functions.iter().all(|call| call.name == Ip::DECLARATION.name)
    }
}

/// One generation.
// Large: a field for each part of a generation, which is published as a whole.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its number.
    pub generation: Generation,
    /// The number of tasks for each packet.
    pub layout: Layout,
    /// The CPU settings of each worker.
    pub cpu: CpuPlan,
    /// By port id. `None` for removed ports.
    pub ports: Vec<Option<PortView>>,
    /// In the order of their ids.
    pub interfaces: Vec<Interface>,
    /// The built-in paths, then the configured ones in the order of matching.
    pub paths: Vec<PathSpec>,
    /// The rules that select paths: the result has the position of the path. They can change beside the generations.
    pub rules: Arc<RuleList>,
    /// The rules that select routes. They can change beside the generations.
    pub routing: Arc<RuleList>,
    /// The rates of reserved flows. They change beside the generations.
    pub flow_rates: Arc<FlowRates>,
    /// The named sets that rules use. They change beside the generations.
    pub sets: Arc<SetStore>,
    /// The circuits of subscribers. They change beside the generations.
    pub circuits: Arc<Published<CircuitTable>>,
    /// The round-trip times of subscribers' connections, which outlive generations. `None` if they are not measured.
    pub round_trips: Option<Arc<RoundTrips>>,
    /// The packets that rules log.
    pub log: Arc<PacketLog>,
    /// The limits of the local protocols.
    pub limits: LocalProtocolLimits,
    /// The rules of address translation. `None` without it.
    pub nat: Option<nat::NatRules>,
    /// Translated connections, which outlive generations.
    pub translations: Arc<Nat>,
    /// The routes of multicast groups.
    pub multicast: MulticastRoutes,
    /// The multicast routes of programs of the machine. They change beside the generations.
    pub kernel_groups: Arc<Published<KernelGroups>>,
    /// The packets for programs of the machine and from them, which outlive generations.
    pub punt: Arc<Punt>,
    /// The limits of packets for programs of the machine.
    pub punt_limits: PuntLimits,
    /// The tunnels.
    pub tunnels: Arc<Tunnels>,
    /// True if ports look up IPv4 routes in route caches first.
    pub route_cache: bool,
    /// The packet hooks. `None` without ephemeral state.
    pub hooks: Option<Arc<HookConfig>>,
    /// True if a path [receives packets](PathSpec::receives_local) to the router's own addresses.
    pub(crate) receives_local: bool,
    /// The marks of packets that may carry an instruction.
    pub(crate) marks: Marks,
    egress: Vec<Egress>,
    positions: Vec<Option<u16>>,
    own4_filter: Filter,
    own6_filter: Filter,
}

impl Snapshot {
    /// Builds a generation from its parts.
    pub fn new(
        generation: Generation,
        cpu: CpuPlan,
        ports: Vec<Option<PortView>>,
        mut interfaces: Vec<Interface>,
        paths: Vec<PathSpec>,
        (rules, sets): (Arc<RuleList>, Arc<SetStore>),
        limits: LocalProtocolLimits,
    ) -> Snapshot {
        interfaces.sort_by_key(|interface| interface.id);
        // Both tables are indexed by id. Ids are never reused, so the tables have holes.
        let slots = interfaces.last().map_or(0, |interface| interface.id.index() + 1);
        let (mut egress, mut positions) = (vec![REMOVED_EGRESS; slots], vec![None; slots]);
        let (mut own4_filter, mut own6_filter) = (Filter::EMPTY, Filter::EMPTY);
        for (position, interface) in interfaces.iter().enumerate() {
            // Ids have 16 bits and are distinct, so a position fits into 16 bits.
            positions[interface.id.index()] = Some(position as u16);
            egress[interface.id.index()] = Egress {
                mac: interface.mac.number(),
                vlan: interface.vlan,
                mtu: interface.mtu,
                // An Ethernet header, with 4 bytes more for an 802.1Q tag.
                header_length: if interface.vlan.is_some() { 18 } else { 14 },
                port: interface.port,
                redirects: interface.redirects,
            };
            for attached in &interface.ipv4 {
                // Broadcast and network addresses are no valid sources either, so the filter has them too.
                let nobodys = [attached.broadcast(), attached.network()].into_iter().flatten();
                nobodys.chain([attached.address]).for_each(|address| own4_filter.add(u32::from(address)));
            }
            interface.ipv6.iter().for_each(|attached| own6_filter.add(fold_address(attached.address)));
        }
        let layout = cpu.layout;
        let receives_local = paths.iter().any(|path| path.receives_local);
        Snapshot {
            generation,
            layout,
            cpu,
            ports,
            interfaces,
            paths,
            rules,
            sets,
            routing: Arc::default(),
            flow_rates: Arc::default(),
            limits,
            nat: None,
            circuits: Arc::new(Published::new(CircuitTable::default())),
            round_trips: None,
            log: Arc::default(),
            translations: Arc::default(),
            multicast: MulticastRoutes::default(),
            kernel_groups: Arc::new(Published::new(KernelGroups::default())),
            punt: Arc::default(),
            punt_limits: PuntLimits::default(),
            tunnels: Arc::default(),
            route_cache: false,
            hooks: None,
            receives_local,
            marks: Marks::NONE,
            egress,
            positions,
            own4_filter,
            own6_filter,
        }
    }

    /// The generation before the first: nothing is configured.
    pub fn empty() -> Snapshot {
        let limits = LocalProtocolLimits::default();
        Snapshot::new(Generation(0), CpuPlan::default(), Vec::new(), Vec::new(), Vec::new(), Default::default(), limits)
    }

    /// The same generation with packet hooks.
    pub fn with_hooks(self, stations: Option<Arc<HookConfig>>) -> Snapshot {
        let marks = stations.as_ref().map_or(Marks::NONE, |stations| stations.marks);
        Snapshot { hooks: stations, marks, ..self }
    }

    /// The egress properties of `interface`. The MTU is zero if it no longer exists.
    #[inline(always)]
    pub fn egress(&self, interface: InterfaceId) -> &Egress {
        self.egress.get(interface.index()).unwrap_or(&REMOVED_EGRESS)
    }

    /// An interface of this generation.
    pub fn interface(&self, id: InterfaceId) -> Option<&Interface> {
        let position = self.positions.get(id.index()).copied().flatten()?;
        self.interfaces.get(usize::from(position))
    }

    /// The interface with this name.
    pub fn interface_named(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    /// A port of this generation.
    pub fn port(&self, id: PortId) -> Option<&PortView> {
        self.ports.get(id.index())?.as_ref()
    }

    /// True if `address` may be one of the router's own or the broadcast address of one of its prefixes, in any VRF. No false negatives.
    #[inline(always)]
    pub fn may_be_own4(&self, address: u32) -> bool {
        self.own4_filter.has(address)
    }

    /// True if `address` may be one of the router's own, in any VRF. No false negatives.
    #[inline(always)]
    pub fn may_be_own6(&self, address: Ipv6Addr) -> bool {
        self.own6_filter.has(fold_address(address))
    }

    /// True if `address` is one of the router's own on `interface`.
    pub fn is_own6_on(&self, interface: InterfaceId, address: Ipv6Addr) -> bool {
        self.interface(interface).is_some_and(|i| i.ipv6.iter().any(|a| a.address == address))
    }
}

/// A Bloom filter of addresses with 4096 bits and one hash. The addresses of some hundred interfaces set few bits.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Filter([u64; 64]);

impl Filter {
    const EMPTY: Filter = Filter([0; 64]);

    /// A word and a bit of it, by a multiplicative hash (Knuth, TAOCP 3, 6.4).
    #[inline(always)]
    fn place(key: u32) -> (usize, u64) {
        // The highest bits of the product are mixed best: six of them select the word, the next six the bit.
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

/// Folds an IPv6 address into 32 bits. Every bit of the address contributes.
#[inline(always)]
fn fold_address(address: Ipv6Addr) -> u32 {
    let bits = address.to_bits();
    // Rotated, because two equal halves of an address would cancel each other.
    let half = (bits >> 64) as u64 ^ (bits as u64).rotate_left(17);
    (half >> 32) as u32 ^ half as u32
}
