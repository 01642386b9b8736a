//! What the router tells of itself.

use super::{Counted, Latency};
use packet::{LinkCounters, PortCounters};
use plane::PathCounters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the router forwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It forwards.
    Running,
    /// It forwards, but for a worker that is stuck or has failed for good: see `/v1/workers`.
    Degraded,
    /// It is ending in good order.
    Stopping,
    /// The first worker has failed; the process is about to end.
    Failed,
}

/// The router as a whole.
// Large: a field for each value of the answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The version of Switchpath that runs.
    pub version: String,
    /// The router's name, as configured.
    pub name: String,
    /// Whether it forwards.
    pub state: State,
    /// The number of the configuration that runs: one more with each that is applied, counted on across restarts where the
    /// history is kept on disk.
    pub generation: u64,
    /// Where the configuration came from: a file name.
    pub config: String,
    /// The process.
    pub pid: u32,
    /// When it was started, since 1970-01-01 UTC.
    pub started_ns: u64,
    /// How long it has run.
    pub uptime_ns: u64,
    /// Worker threads.
    pub workers: u16,
    /// Frames of the pool.
    pub frames: u64,
    /// Frames nobody uses and no worker keeps for itself.
    pub frames_spare: u64,
    /// Packets in queues now.
    pub held_packets: u64,
    /// Routes of both families, the neighbours' host routes included.
    pub routes: u64,
    /// Neighbours known or asked for.
    pub neighbours: u64,
    /// Whether the packet ledger of every worker balances.
    pub balanced: bool,
    /// Until when the configuration is to be confirmed; null where it is there to stay.
    #[serde(default)]
    pub pending: Option<super::Pending>,
    /// What the process has given away; null where it has kept everything.
    #[serde(default)]
    pub confinement: Option<Confinement>,
    /// Live captures that are being taken.
    pub captures: Vec<Capture>,
    /// Packets that are being followed.
    #[serde(default)]
    pub traces: Vec<Capture>,
}

/// What a router's process has given away since its ports are open.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Confinement {
    /// The user it runs as.
    pub user: String,
    /// The capabilities it has left.
    pub capabilities: Vec<String>,
    /// Whether it can open only the files it was allowed (Landlock).
    pub landlock: bool,
    /// Whether it can make only the system calls it was allowed (seccomp).
    pub seccomp: bool,
    /// Whether later configurations can open devices.
    pub new_ports: bool,
}

/// A live capture that is being taken, or a trace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Capture {
    /// The packets it takes.
    #[serde(rename = "match")]
    pub matching: String,
    /// Packets taken so far.
    pub captured_packets: u64,
    /// Packets it would have taken, had its reader been faster.
    pub missed_packets: u64,
}

/// The ports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ports {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The ports in the order of their names.
    pub ports: Vec<Port>,
}

/// A place packets come from and go to, with its link.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// What is behind it, as configured: `packet:eth0`.
    pub device: String,
    /// Its MAC address.
    pub mac: String,
    /// Whether its medium is connected.
    pub up: bool,
    /// Whether it was removed and only waits for its queue to empty.
    pub closing: bool,
    /// What its medium carries; null where it has no rate of its own.
    pub link_rate_bps: Option<u64>,
    /// The longest IP packet its device accepts now; null where the device has no bound.
    #[serde(default)]
    pub device_mtu_bytes: Option<u16>,
    /// Its layer 3 attachments.
    pub interfaces: Vec<Interface>,
    /// The queueing scheme of its link.
    pub scheme: String,
    /// What it has counted.
    #[serde(flatten)]
    pub counters: Counted<PortCounters>,
    /// What its link has counted.
    #[serde(flatten)]
    pub link: Counted<LinkCounters>,
    /// Packets waiting for the link.
    pub backlog_packets: u64,
    /// Bytes waiting for the link.
    pub backlog_bytes: u64,
    /// Packets dropped, by reason: at the port they came in by, or by the scheme of the link they should leave by.
    pub drops: Vec<DropAt>,
}

/// A layer 3 attachment of a port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Interface {
    /// Its name: `lan`, or `lan.20`.
    pub name: String,
    /// Its 802.1Q id; null where untagged.
    pub vlan: Option<u16>,
    /// Its VRF; null for the main one.
    pub vrf: Option<String>,
    /// Its own addresses with the lengths of their subnets.
    pub addresses: Vec<String>,
    /// The longest IP packet that leaves by it now: the smaller of its configuration's MTU and that of the device.
    pub mtu_bytes: u16,
    /// The MTU of its configuration.
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
    /// How many.
    pub packets: u64,
}

/// The switching paths.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Paths {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The built-in paths, then the configured ones in the order they are matched.
    pub paths: Vec<Path>,
}

/// A switching path. `entered + generated = left + dropped + consumed + diverted + queued`, but for packets that the two
/// built-in paths `control` and `general` hold back together for neighbours that have not answered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Path {
    /// Its name; `control`, `general` and `best-effort` are built in.
    pub name: String,
    /// The packets that take it; null for the built-in ones.
    #[serde(rename = "match")]
    pub matching: Option<String>,
    /// What is done to each packet, in order.
    pub functions: Vec<String>,
    /// The class a queueing scheme sees.
    pub class: u8,
    /// What it has counted.
    #[serde(flatten)]
    pub counters: Counted<PathCounters>,
    /// Packets in its queues now.
    pub queued_packets: u64,
    /// How long its packets waited for its functions, from coming in; null where none did.
    #[serde(default)]
    pub waited_before: Option<Latency>,
    /// How long they waited behind them, until transmission.
    #[serde(default)]
    pub waited_behind: Option<Latency>,
    /// How long they took altogether, from coming in to transmission.
    #[serde(default)]
    pub latency: Option<Latency>,
    /// How long a packet was promised to take at most; null where nothing was.
    #[serde(default)]
    pub promised_delay_ns: Option<u64>,
    /// Packets that took longer than that.
    #[serde(default)]
    pub late_packets: u64,
}

/// Where on a packet's way a queue is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueStage {
    /// Of a path, before its functions.
    Input,
    /// Of a path, behind its functions.
    Output,
    /// Before a link: what its scheme decides over.
    Link,
}

/// The queues.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Queues {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The queues of the paths, then those of the links.
    pub queues: Vec<Queue>,
}

/// A queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    /// The worker it belongs to.
    pub worker: u16,
    /// Where it is.
    pub stage: QueueStage,
    /// Its path; null for a link's.
    pub path: Option<String>,
    /// The port its packets leave by; null for the queue the router's own protocols read.
    pub port: Option<String>,
    /// Packets in it.
    pub packets: u64,
    /// Bytes in it; null for a path's, which count packets only.
    pub bytes: Option<u64>,
    /// Packets it holds at most; null for a link's, which its scheme bounds.
    pub capacity_packets: Option<u64>,
    /// Of the queue before the functions of a path: the most packets there were when its task began to work on them.
    #[serde(default)]
    pub most_packets: Option<u64>,
    /// The same summed over all those times: divided by `looks`, the mean.
    #[serde(default)]
    pub seen_packets: Option<u64>,
    /// How often that was.
    #[serde(default)]
    pub looks: Option<u64>,
}

/// Routes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Routes {
    /// Routes of both families that there are, shown or not.
    pub total: u64,
    /// Whether there are more of those asked for than `limit` allowed.
    pub truncated: bool,
    /// The routes in order of family, address and length.
    pub routes: Vec<Route>,
}

/// A route.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Route {
    /// The VRF whose packets go by it; null for the main one.
    pub vrf: Option<String>,
    /// The destinations.
    pub prefix: String,
    /// Who says so: `local`, `broadcast`, `static`, `api`, `connected`, `neighbour`.
    pub origin: String,
    /// What becomes of packets to it: `via`, `connected`, `local`, `broadcast`, `blackhole`, `unreachable`, `special`.
    pub action: String,
    /// The next hop, for `via`; null where there are several.
    pub gateway: Option<String>,
    /// The next hops, for `via` with several.
    pub gateways: Vec<Gateway>,
    /// The interface it leads out of or belongs to.
    pub interface: Option<String>,
    /// Whether packets go by it: no route to the same prefix comes before it.
    pub active: bool,
}

/// One of the next hops of a route.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Gateway {
    /// Its address.
    pub address: String,
    /// The interface it is on.
    pub interface: String,
    /// Its share of the flows, compared to the others'.
    pub weight: u16,
    /// Whether packets may reach it: it has not failed to answer, and its port is not down.
    pub usable: bool,
    /// The part of the flows that goes by it now, from 0 to 1.
    pub share: f64,
}

/// The neighbours.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Neighbours {
    /// The neighbours by interface and address.
    pub neighbours: Vec<Neighbour>,
}

/// A neighbour (ARP, neighbour discovery).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Neighbour {
    /// The interface it is on.
    pub interface: String,
    /// Its address.
    pub address: String,
    /// Its MAC address; null where not known.
    pub mac: Option<String>,
    /// `incomplete`, `reachable`, `stale`, `delay`, `probe`, `failed` or `static`.
    pub state: String,
    /// How long it has been in this state.
    pub age_ns: u64,
    /// Packets that wait for it.
    pub pending_packets: u64,
}

/// Drops.
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
    /// What it means, and its source.
    pub explanation: String,
    /// How many since the start.
    pub packets: u64,
    /// Where, for the ports that there are now.
    pub ports: Vec<DropAt>,
}

/// What an event is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The router forwards.
    Started,
    /// The router is ending.
    Stopping,
    /// A configuration was applied.
    Applied,
    /// A configuration is left again unless somebody confirms it in time.
    Pending,
    /// A configuration was confirmed.
    Confirmed,
    /// An earlier configuration runs again.
    RolledBack,
    /// A configuration was refused; the one before it runs on. Or a batch of routes and neighbours was.
    Refused,
    /// A batch of routes and neighbours was made.
    Edited,
    /// A worker runs a new configuration.
    Adopted,
    /// A port's medium was connected or disconnected.
    PortLink,
    /// The longest packet that a port's interface accepts has changed, to or from less than the configuration says.
    PortMtu,
    /// A removed port has no packets left and is closed.
    PortDrained,
    /// A removed path has no packets left.
    PathDrained,
    /// A neighbour has another state.
    Neighbour,
    /// Somebody else answers for an address of the router.
    AddressConflict,
    /// Another router of a link advertises something else than this one.
    RouterContradicts,
    /// A worker has failed for good; its ports are closed.
    WorkerFailed,
    /// A worker has failed and begun anew; what it held is lost.
    WorkerRestarted,
    /// A worker does not move.
    WorkerStuck,
    /// A worker that was stuck moves again.
    WorkerRecovered,
    /// Another queueing scheme decides over the link of a port, or the same one with other parameters: how many packets waited then,
    /// and how many of them were dropped for it; which version of the link's scheme it is, and what the one before came to.
    SchemeChanged,
    /// Another objective is in force at a port, because most bytes of a window wanted it.
    PolicyChanged,
    /// Another objective should be in force at a port, and the scheme that serves it could not be built: the port keeps what it
    /// has, and it is tried again when the policy's `dwell` is over.
    PolicyFailed,
    /// The CPU scheduler has something to say of a task: it runs on time-outs only, its batches are near what its queues
    /// hold, a packet costs more than was declared, a port sleeps too long, or it waited too long for the processor. Each is
    /// told when it begins.
    Scheduling,
    /// Functions of a preemptible path panicked, were stopped at the path's limit, or did not return. They begin anew; it is
    /// told once a minute.
    FunctionFailed,
    /// The queueing scheme of a port panicked: until there is another, packets leave first come, first served, and no more than a thousand
    /// wait. What waited stays.
    SchemeFailed,
    /// The guest that decides over the queues of a port trapped, did not return, or decided nonsense. Its queues are served first
    /// come, first served, for a second, after the third time until there is another configuration.
    GuestFailed,
    /// The guest that decides over the queues of a port has logged a line: the last one, where it was more than one within a tenth of a second.
    GuestSaid,
    /// An instruction of ephemeral state that `[state]` registers trapped, did not return, or answered nonsense: its packet was not
    /// executed. After the third time none is until there is another configuration.
    InstructionFailed,
    /// Something the operator should know of a port: what it could not have, or a capture that could not be written. The
    /// packets are forwarded all the same.
    Remark,
}

/// Recent events.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// What to give as `since` to have what comes after these.
    pub next: u64,
    /// Events after `since` that were forgotten before they were asked for.
    pub missed: u64,
    /// The events in their order.
    pub events: Vec<Event>,
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number; counts up from 1.
    pub sequence: u64,
    /// When, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// What it is about.
    pub kind: EventKind,
    /// What it is about: the name of a port, an interface, a path or a file; null for the router as a whole.
    pub subject: Option<String>,
    /// One sentence.
    pub text: String,
    /// What to do about it, where there is something.
    #[serde(default)]
    pub hint: Option<String>,
    /// Events of this kind about the same thing that are not listed, because they came too fast. Most events have 0 here.
    #[serde(default)]
    pub left_out: u64,
}

/// The packet ledgers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ledgers {
    /// Whether every worker's ledger balances.
    pub balanced: bool,
    /// All workers together.
    pub total: Ledger,
    /// Worker by worker.
    pub workers: Vec<Ledger>,
}

/// What became of every packet: `received + generated + taken_over = sent + consumed + dropped + handed_over + held`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// The worker; null for all of them together.
    pub worker: Option<u16>,
    /// Packets that came in by a port.
    pub received_packets: u64,
    /// Packets the router made.
    pub generated_packets: u64,
    /// Packets taken over from other workers.
    pub taken_over_packets: u64,
    /// Packets that went out by a port.
    pub sent_packets: u64,
    /// Packets that were for the router itself, or have become others.
    pub consumed_packets: u64,
    /// Of those consumed: packets of which copies were made, for the interfaces of a multicast group.
    #[serde(default)]
    pub replicated_packets: u64,
    /// Of those generated: the copies.
    #[serde(default)]
    pub copies_packets: u64,
    /// Packets dropped for any reason.
    pub dropped_packets: u64,
    /// Packets handed over to other workers.
    pub handed_over_packets: u64,
    /// Packets in queues, counted by frames and so independently of the rest.
    pub held_packets: u64,
}

impl Ledger {
    /// Whether the law holds.
    pub fn is_balanced(&self) -> bool {
        let came = self.received_packets + self.generated_packets + self.taken_over_packets;
        let gone = self.sent_packets + self.consumed_packets + self.dropped_packets + self.handed_over_packets;
        came == gone + self.held_packets
    }
}
