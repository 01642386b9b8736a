//! The links: what waits before each port, how long, what becomes of it, and what its scheme remembers.

use super::{Counted, Latency};
use packet::LinkCounters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The links.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Links {
    /// When they were looked at, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// In the order of their ports; where there are several workers each has one of its own.
    pub links: Vec<Link>,
}

/// What is before a port at one worker: queues, and the scheme that decides over them. `offered = sent + dropped + backlog`.
// Large: a field for each value of the answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// The port.
    pub port: String,
    /// The worker it belongs to.
    pub worker: u16,
    /// The scheme, as configured.
    pub scheme: String,
    /// Which it is of those that the link has had, or sets of parameters: the first is 1. Events tell of each.
    pub version: u32,
    /// What it said as it panicked; null where it did not. Drop tail with a thousand packets is in its place.
    pub put_aside: Option<String>,
    /// What it has counted.
    #[serde(flatten)]
    pub counters: Counted<LinkCounters>,
    /// Packets that wait.
    pub backlog_packets: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// Time that the task before the link has used, to ask the scheme and to transmit.
    pub handler_ns: u64,
    /// Packets it moved in that time.
    pub handler_packets: u64,
    /// How long packets waited that were sent since the link was made, from when their functions were done; null where none was sent.
    pub sojourn: Option<Latency>,
    /// Packets dropped since then, by reason.
    pub drops: Vec<LinkDrop>,
    /// The queues of the scheme in groups; while packets drain from another scheme, that one's first.
    pub groups: Vec<QueueGroup>,
    /// The queues with the most bytes, at most eight.
    pub longest: Vec<LongQueue>,
    /// How it was lately.
    pub series: LinkSeries,
    /// The link that the port pretends to have; null where it has its own.
    pub emulated: Option<EmulatedLink>,
}

/// A link that is emulated, and how well, since it was made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EmulatedLink {
    /// What it is like.
    pub link: String,
    /// Packets under way.
    pub under_way_packets: u64,
    /// Packets that arrived at the far end.
    pub arrived_packets: u64,
    /// Packets lost on the way, or for which there was no room under way.
    pub lost_packets: u64,
    /// Packets that came twice.
    pub doubled_packets: u64,
    /// Packets that arrived more than 0.3 ms late: the machine was busy.
    pub late_packets: u64,
    /// How late 99 of 100 packets arrived at most.
    pub late_p99_ns: u64,
    /// The latest.
    pub late_max_ns: u64,
    /// Packets that the link got too late, so that it was idle though they waited: it was slower than it is said to be.
    pub missed_packets: u64,
    /// How long it was idle for that.
    pub missed_ns: u64,
    /// Opportunities of its trace that were used.
    pub opportunities_used: u64,
    /// Opportunities of its trace that found nothing to send.
    pub opportunities_unused: u64,
    /// Its trace has ended, and had to go on: `end = "error"`.
    pub trace_ended: bool,
}

/// Packets that a link dropped for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LinkDrop {
    /// The reason's name.
    pub reason: String,
    /// How many.
    pub packets: u64,
}

/// Queues of a scheme that are told of together, and what became of their packets since the scheme is there. `arrived = sent + dropped +
/// backlog`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QueueGroup {
    /// What is in them: `all`, `flows`, `class 2`, `voice`, `branch 1 flows`.
    pub name: String,
    /// How many queues they are.
    pub queues: u32,
    /// Packets that came.
    pub arrived_packets: u64,
    /// Packets that left, to be transmitted.
    pub sent_packets: u64,
    /// Packets dropped.
    pub dropped_packets: u64,
    /// The same by reason.
    pub drops: Vec<LinkDrop>,
    /// Packets marked (ECN).
    pub marked_packets: u64,
    /// Packets that joined a queue in which another flow waited, though each of these queues is for one flow.
    #[serde(default)]
    pub collided_packets: u64,
    /// Packets that wait.
    pub backlog_packets: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// How long those waited that left, from when their functions were done; null where none did.
    pub sojourn: Option<Latency>,
    /// What the scheme remembers of the longest of these queues.
    pub state: Vec<StateValue>,
}

/// Something that a scheme remembers of a queue.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StateValue {
    /// Its name in the literature: `avg`, `p`, `count`, `dropping`, `drop_next`, `qdelay`, `burst_allowance`, `doomed`, `marking`.
    pub name: String,
    /// Times are in seconds, probabilities parts of one; what is true or not is one or zero.
    pub value: f64,
}

/// A queue with many bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LongQueue {
    /// Its number on the link, from 0.
    pub queue: u32,
    /// The group it is in.
    pub group: String,
    /// Packets that wait in it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// How a link was each time it was looked at, ten times a second, for the last half minute: lists as long as each other, the latest last.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LinkSeries {
    /// When, since 1970-01-01 UTC.
    pub time_ns: Vec<u64>,
    /// Packets that waited then.
    pub backlog_packets: Vec<u64>,
    /// Their bytes.
    pub backlog_bytes: Vec<u64>,
    /// The most packets that waited since the time before.
    pub most_packets: Vec<u64>,
    /// Packets sent since then.
    pub sent_packets: Vec<u64>,
    /// How long those had waited on average.
    pub mean_sojourn_ns: Vec<u64>,
    /// The longest that one of them had.
    pub max_sojourn_ns: Vec<u64>,
    /// What the scheme remembered of groups of one queue.
    pub state: Vec<StateSeries>,
}

/// What a scheme remembered, time by time; shorter than the rest where the scheme is newer than that.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StateSeries {
    /// The group of the queue.
    pub group: String,
    /// As in [`StateValue`].
    pub name: String,
    /// The values, the latest last; null where it was not told.
    pub values: Vec<Option<f64>>,
}
