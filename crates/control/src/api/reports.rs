//! Reports about the router.

use super::{CounterFields, DfqWireReply, LatencyReply};
use fib::route_cache::RouteCacheCounters;
use packet::{DfqWireCounters, LinkCounters, PortCounters};
use plane::PathCounters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of the router.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RouterState {
    /// It forwards.
    Running,
    /// It forwards, except on a worker that is stuck or has failed for good: see `/v1/workers`.
    Degraded,
    /// It is shutting down.
    Stopping,
    /// The first worker has failed; the process is about to end.
    Failed,
}

/// The router as a whole.
// Large: a field for each value of the answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The version of Switchpath.
    pub version: String,
    /// The router's name, as configured.
    pub name: String,
    /// Its state.
    pub state: RouterState,
    /// The generation of the running configuration. It increases with each applied configuration, also across restarts if the history is kept on
    /// disk.
    pub generation: u64,
    /// The origin of the configuration: a file name.
    pub config: String,
    /// The process id.
    pub pid: u32,
    /// The start time, since 1970-01-01 UTC.
    pub started_ns: u64,
    /// The time since the start.
    pub uptime_ns: u64,
    /// The number of worker threads.
    pub workers: u16,
    /// Frames of the pool.
    pub frames: u64,
    /// Free frames that no worker has reserved.
    pub frames_spare: u64,
    /// Packets in queues.
    pub held_packets: u64,
    /// Routes of both families, including host routes of neighbours.
    pub routes: u64,
    /// Neighbours, including unresolved ones.
    pub neighbours: u64,
    /// True if the packet ledgers of all workers balance.
    pub balanced: bool,
    /// The trial of the running configuration; null if it is not on trial.
    #[serde(default)]
    pub pending: Option<super::Pending>,
    /// The privileges that the process has dropped; null if it has kept them all.
    #[serde(default)]
    pub confinement: Option<Confinement>,
    /// Captures in progress.
    pub captures: Vec<Capture>,
    /// Traces in progress.
    #[serde(default)]
    pub traces: Vec<Capture>,
}

/// The privileges that the router has dropped after its ports were opened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Confinement {
    /// The user it runs as.
    pub user: String,
    /// The remaining capabilities.
    pub capabilities: Vec<String>,
    /// True if it can open only permitted files (Landlock).
    pub landlock: bool,
    /// True if it can make only permitted system calls (seccomp).
    pub seccomp: bool,
    /// True if later configurations can open devices.
    pub new_ports: bool,
}

/// A capture or a trace in progress.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Capture {
    /// The packets it matches.
    #[serde(rename = "match")]
    pub matching: String,
    /// Packets captured so far.
    pub captured_packets: u64,
    /// Packets missed because its reader was too slow.
    pub missed_packets: u64,
}

/// The ports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ports {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The ports in the order of their names.
    pub ports: Vec<PortReply>,
}

/// A port with its link.
// Large: a field for each value of the answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PortReply {
    /// Its name.
    pub name: String,
    /// Its device, as configured: `packet:eth0`.
    pub device: String,
    /// Its MAC address.
    pub mac: String,
    /// True if its medium is connected.
    pub up: bool,
    /// True if it was removed and is draining its queue.
    pub closing: bool,
    /// The rate of its medium; null without a fixed rate.
    pub link_rate_bps: Option<u64>,
    /// The longest IP packet that its device accepts now; null without a limit.
    #[serde(default)]
    pub device_mtu_bytes: Option<u16>,
    /// Its layer 3 interfaces.
    pub interfaces: Vec<InterfaceReply>,
    /// The queueing scheme of its link.
    pub scheme: String,
    /// Its counters.
    #[serde(flatten)]
    pub counters: CounterFields<PortCounters>,
    /// The counters of its route cache; zero without one.
    #[serde(flatten)]
    pub route_cache: CounterFields<RouteCacheCounters>,
    /// The counters of its link.
    #[serde(flatten)]
    pub link: CounterFields<LinkCounters>,
    /// The counters of its wire that multiplexes quanta; zero without one.
    #[serde(flatten)]
    pub dfq_counters: CounterFields<DfqWireCounters>,
    /// Its wire that multiplexes quanta; null without one.
    #[serde(default)]
    pub dfq_wire: Option<DfqWireReply>,
    /// Packets queued at the link.
    pub backlog_packets: u64,
    /// Bytes queued at the link.
    pub backlog_bytes: u64,
    /// Packets dropped, by reason: at this ingress port, or by the scheme of this egress port.
    pub drops: Vec<DropAt>,
}

/// A layer 3 interface of a port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceReply {
    /// Its name: `lan`, or `lan.20`.
    pub name: String,
    /// Its 802.1Q id; null for an untagged interface.
    pub vlan: Option<u16>,
    /// Its VRF; null for the default one.
    pub vrf: Option<String>,
    /// Its own addresses with their prefix lengths.
    pub addresses: Vec<String>,
    /// The longest IP packet it sends now: the smaller of the configured MTU and that of the device.
    pub mtu_bytes: u16,
    /// The configured MTU.
    #[serde(default)]
    pub configured_mtu_bytes: u16,
}

/// Packets dropped for one reason at one port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DropAt {
    /// The port.
    pub port: String,
    /// The reason's name.
    pub reason: String,
    /// The number of packets.
    pub packets: u64,
}

/// The paths.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Paths {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The built-in paths, then the configured ones in matching order.
    pub paths: Vec<Path>,
}

/// A path. `entered + generated = left + dropped + consumed + diverted + queued`. Packets that wait for unresolved neighbours are missing in the
/// equation of the two built-in paths `control` and `general`, which hold them together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Path {
    /// Its name; `control`, `general` and `best-effort` are built in.
    pub name: String,
    /// The packets that match it; null for the built-in ones.
    #[serde(rename = "match")]
    pub matching: Option<String>,
    /// Its functions, in order.
    pub functions: Vec<String>,
    /// The class that its packets have in queueing schemes.
    pub class: u8,
    /// Its counters.
    #[serde(flatten)]
    pub counters: CounterFields<PathCounters>,
    /// Packets in its queues.
    pub queued_packets: u64,
    /// The latency from the arrival of packets to their functions; null without packets.
    #[serde(default)]
    pub waited_before: Option<LatencyReply>,
    /// The latency from the functions to transmission; null without packets.
    #[serde(default)]
    pub waited_behind: Option<LatencyReply>,
    /// The total latency from arrival to transmission; null without packets.
    #[serde(default)]
    pub latency: Option<LatencyReply>,
    /// The promised latency bound; null without a reservation.
    #[serde(default)]
    pub promised_delay_ns: Option<u64>,
    /// Packets that exceeded the bound.
    #[serde(default)]
    pub late_packets: u64,
}

/// The place of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueStage {
    /// The input queue of a path, before its functions.
    Input,
    /// The output queue of a path, after its functions.
    Output,
    /// The queues of a link, under its queueing scheme.
    Link,
}

/// The queues.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QueuesReply {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The queues of the paths, then those of the links.
    pub queues: Vec<QueueReply>,
}

/// A queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QueueReply {
    /// Its worker.
    pub worker: u16,
    /// Its place.
    pub stage: QueueStage,
    /// Its path; null for a link's queue.
    pub path: Option<String>,
    /// The egress port of its packets; null for the queue of the local protocols.
    pub port: Option<String>,
    /// Packets in it.
    pub packets: u64,
    /// Bytes in it; null for a path's queue, which counts packets only.
    pub bytes: Option<u64>,
    /// The most packets it can hold; null for a link's queue, which its scheme limits.
    pub capacity_packets: Option<u64>,
    /// For an input queue: the largest number of packets at the start of a run of its task.
    #[serde(default)]
    pub most_packets: Option<u64>,
    /// The sum of these numbers; divided by `looks`, it is the mean.
    #[serde(default)]
    pub seen_packets: Option<u64>,
    /// How many runs have been counted.
    #[serde(default)]
    pub looks: Option<u64>,
}

/// Routes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Routes {
    /// Routes of both families, shown or not.
    pub total: u64,
    /// True if more routes match than `limit` allows.
    pub truncated: bool,
    /// The routes in order of family, address and length.
    pub routes: Vec<RouteReply>,
}

/// A route.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RouteReply {
    /// Its VRF; null for the default one.
    pub vrf: Option<String>,
    /// The destinations.
    pub prefix: String,
    /// Its origin: `local`, `broadcast`, `static`, `api`, `connected`, `kernel`, `neighbour`.
    pub origin: String,
    /// The program that added a route of the kernel, such as `bgp`, `ospf`, `bird`, `static`, or its number; null for other origins.
    #[serde(default)]
    pub protocol: Option<String>,
    /// Its action: `via`, `connected`, `local`, `broadcast`, `blackhole`, `unreachable`, `special`.
    pub action: String,
    /// The next hop, for `via`; null if there are several.
    pub gateway: Option<String>,
    /// The next hops, for `via` with several.
    pub gateways: Vec<Gateway>,
    /// Its egress interface, or the interface it belongs to.
    pub interface: Option<String>,
    /// True if packets use it: no route to the same prefix has precedence.
    pub active: bool,
}

/// A next hop of a route.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Gateway {
    /// Its address.
    pub address: String,
    /// Its interface.
    pub interface: String,
    /// Its weight among the next hops.
    pub weight: u16,
    /// True if packets may use it: it has not failed to answer, and its port is up.
    pub usable: bool,
    /// Its present share of the flows, from 0 to 1.
    pub share: f64,
}

/// The neighbours.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Neighbours {
    /// The neighbours by interface and address.
    pub neighbours: Vec<NeighbourReply>,
}

/// A neighbour (ARP, neighbour discovery).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NeighbourReply {
    /// Its interface.
    pub interface: String,
    /// Its address.
    pub address: String,
    /// Its MAC address; null if unresolved.
    pub mac: Option<String>,
    /// `incomplete`, `reachable`, `stale`, `delay`, `probe`, `failed` or `static`.
    pub state: String,
    /// The time it has been in this state.
    pub age_ns: u64,
    /// Packets that wait for its MAC address.
    pub pending_packets: u64,
}

/// Dropped packets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Drops {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The reasons that have occurred, the most frequent first.
    pub drops: Vec<Drop>,
}

/// Packets dropped for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Drop {
    /// The reason's name, the same in metrics and captures.
    pub reason: String,
    /// Its meaning, and its source.
    pub explanation: String,
    /// The number of packets since the start.
    pub packets: u64,
    /// The drops at present ports.
    pub ports: Vec<DropAt>,
}

/// The kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The router forwards.
    Started,
    /// The router is shutting down.
    Stopping,
    /// A configuration was applied.
    Applied,
    /// A configuration is on trial and will be rolled back unless confirmed in time.
    Pending,
    /// A configuration was confirmed.
    Confirmed,
    /// An earlier configuration was restored.
    RolledBack,
    /// A configuration, or a batch of routes and neighbours, was refused. The previous state remains.
    Refused,
    /// A batch of routes and neighbours was applied.
    Edited,
    /// Elements of a set were changed.
    SetEdited,
    /// Rules of a list were changed.
    RulesEdited,
    /// Shares of a port were changed.
    SharesEdited,
    /// Slices were changed.
    SlicesEdited,
    /// The lease of a share has ended, and the share was removed.
    ShareExpired,
    /// Flows were reserved, renewed or ended.
    FlowsEdited,
    /// The lease of a reserved flow has ended.
    FlowExpired,
    /// The packets of a reserved flow need more processor time than its reservation relies on.
    FlowCostly,
    /// The files of subscribers were read again.
    SubscribersReloaded,
    /// A rule has logged a packet.
    PacketLogged,
    /// A worker uses a new configuration.
    Adopted,
    /// A port's medium was connected or disconnected.
    PortLink,
    /// The MTU of a port's device has changed, and is or was below the configured one.
    PortMtu,
    /// A port exchanges batches of quanta with the other end of its wire from now on, or sends plain frames again.
    DfqWire,
    /// A removed port has sent its last packet and is closed.
    PortDrained,
    /// A removed path has processed its last packet.
    PathDrained,
    /// A neighbour has changed its state.
    Neighbour,
    /// Another host answers for an address of the router.
    AddressConflict,
    /// Another router on a link advertises contradictory values.
    RouterContradicts,
    /// A worker has failed for good; its ports are closed.
    WorkerFailed,
    /// A worker has failed and was restarted; its packets are lost.
    WorkerRestarted,
    /// A worker is stuck.
    WorkerStuck,
    /// A stuck worker has recovered.
    WorkerRecovered,
    /// A port has another queueing scheme, or new parameters. The event reports the backlog, the packets dropped for the change, the version of the
    /// scheme, and the counters of the previous version.
    SchemeChanged,
    /// A port has another objective, because most bytes of a window had it.
    PolicyChanged,
    /// The scheme for a new objective could not be built. The port keeps its scheme, and the policy tries again after its `dwell`.
    PolicyFailed,
    /// A warning of the CPU scheduler about a task, reported once when its cause begins. The task runs on time-outs only, its batches nearly fill
    /// its queues, or it waited too long for the processor. Or its packets cost more than declared, or its port sleeps too long.
    Scheduling,
    /// The code option of a slice panicked, trapped, or made an invalid decision. The slice loses its packets until it is resumed or gets another code
    /// option.
    SliceFailed,
    /// A guest function trapped, did not return in time, or made an invalid decision. It is off until the next configuration, and its packets bypass
    /// it or are dropped. Or functions of a preemptible path panicked, exceeded the path's limit, or did not return. They are restarted; reported at
    /// most once a minute.
    FunctionFailed,
    /// The queueing scheme of a port panicked. Until there is another scheme, the port uses FIFO with at most a thousand packets. The queued packets
    /// stay.
    SchemeFailed,
    /// The guest scheme of a port trapped, did not return, or made an invalid decision. Its queues are served by FIFO for a second, and after the
    /// third failure until the next configuration.
    GuestFailed,
    /// The guest scheme of a port, or a guest function of a path, has logged a line. Of several lines within a tenth of a second, only the last is reported.
    GuestSaid,
    /// An instruction registered in `[state]` trapped, did not return, or returned an invalid result. Its packet was not executed. After the third
    /// failure it is disabled until the next configuration.
    InstructionFailed,
    /// A warning about a port: a feature it could not get, or a capture that could not be written. Packets are forwarded all the same.
    Warning,
}

/// Recent events.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// The value of `since` for the next request.
    pub next: u64,
    /// Events after `since` that are no longer stored.
    pub missed: u64,
    /// The events in order.
    pub events: Vec<EventReply>,
}

/// An event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EventReply {
    /// Its number, counted from 1.
    pub sequence: u64,
    /// Its time, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// Its kind.
    pub kind: EventKind,
    /// Its subject: the name of a port, an interface, a path or a file; null for the router as a whole.
    pub subject: Option<String>,
    /// Its description in one sentence.
    pub text: String,
    /// The remedy, if there is one.
    #[serde(default)]
    pub hint: Option<String>,
    /// Events of this kind and subject that are not listed because of their rate; usually 0.
    #[serde(default)]
    pub left_out: u64,
}

/// The packet ledgers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ledgers {
    /// True if the ledgers of all workers balance.
    pub balanced: bool,
    /// The sum over all workers.
    pub total: LedgerReply,
    /// The ledger of each worker.
    pub workers: Vec<LedgerReply>,
}

/// The fates of all packets: `received + generated + taken_over = sent + consumed + dropped + handed_over + held`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LedgerReply {
    /// The worker; null for the sum.
    pub worker: Option<u16>,
    /// Packets received on ports.
    pub received_packets: u64,
    /// Packets generated by the router.
    pub generated_packets: u64,
    /// Packets handed off by other workers to this one.
    pub taken_over_packets: u64,
    /// Packets sent on ports.
    pub sent_packets: u64,
    /// Packets addressed to the router itself, or replaced by others.
    pub consumed_packets: u64,
    /// Consumed packets that were replicated to the interfaces of a multicast group.
    #[serde(default)]
    pub replicated_packets: u64,
    /// Generated packets that are such copies.
    #[serde(default)]
    pub copies_packets: u64,
    /// Packets dropped for any reason.
    pub dropped_packets: u64,
    /// Packets handed off to other workers.
    pub handed_over_packets: u64,
    /// Packets in queues, counted by frames and so independently of the other counters.
    pub held_packets: u64,
}

impl LedgerReply {
    /// Returns whether the ledger balances.
    pub fn is_balanced(&self) -> bool {
        let came = self.received_packets + self.generated_packets + self.taken_over_packets;
        let gone = self.sent_packets + self.consumed_packets + self.dropped_packets + self.handed_over_packets;
        came == gone + self.held_packets
    }
}
