//! Reports about links: backlogs, sojourn times, drops, and the state of the schemes.

use super::{CounterFields, LatencyReply};
use packet::LinkCounters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The egress links.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Links {
    /// The time of the report, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// In the order of their ports. With several workers each has a link of its own.
    pub links: Vec<LinkReply>,
}

/// The queues before a port at one worker, and their queueing scheme. `offered = sent + dropped + backlog`.
// Large: a field for each value of the answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LinkReply {
    /// The port.
    pub port: String,
    /// Its worker.
    pub worker: u16,
    /// The queueing scheme, as configured.
    pub scheme: String,
    /// The version of the scheme on this link, from 1. A new scheme or new parameters make a new version; events report each.
    pub version: u32,
    /// The panic message of the scheme; null without a panic. After a panic the link uses drop tail with a thousand packets.
    pub put_aside: Option<String>,
    /// Its counters.
    #[serde(flatten)]
    pub counters: CounterFields<LinkCounters>,
    /// Packets queued.
    pub backlog_packets: u64,
    /// Bytes queued.
    pub backlog_bytes: u64,
    /// The time that the output task has used to run the scheme and to transmit.
    pub handler_ns: u64,
    /// Packets it moved in that time.
    pub handler_packets: u64,
    /// Sojourn times of sent packets since the link was made, from the end of their functions; null if none was sent.
    pub sojourn: Option<LatencyReply>,
    /// Packets dropped since the link was made, by reason.
    pub drops: Vec<LinkDrop>,
    /// The queue groups of the scheme. While a previous scheme drains, its groups come first.
    pub groups: Vec<QueueGroup>,
    /// The longest queues by bytes, at most eight.
    pub longest: Vec<LongQueue>,
    /// Its recent history.
    pub series: LinkSeries,
    /// The emulated link of the port; null without one.
    pub emulated: Option<EmulatedLink>,
}

/// An emulated link and its accuracy, since it was made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EmulatedLink {
    /// Its description.
    pub link: String,
    /// Packets on the link.
    pub under_way_packets: u64,
    /// Packets that arrived at the far end.
    pub arrived_packets: u64,
    /// Packets lost on the link, or dropped because the link was full.
    pub lost_packets: u64,
    /// Packets delivered twice.
    pub doubled_packets: u64,
    /// Packets that arrived more than 0.3 ms late because the machine was busy.
    pub late_packets: u64,
    /// The 99th percentile of the lateness.
    pub late_p99_ns: u64,
    /// The largest lateness.
    pub late_max_ns: u64,
    /// Packets that were sent late, so that the link was idle despite a backlog and slower than configured.
    pub missed_packets: u64,
    /// The total time of this idleness.
    pub missed_ns: u64,
    /// Opportunities of its trace that were used.
    pub opportunities_used: u64,
    /// Opportunities of its trace without a packet to send.
    pub opportunities_unused: u64,
    /// True if its trace has ended, with `end = "error"`.
    pub trace_ended: bool,
}

/// Packets that a link dropped for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LinkDrop {
    /// The reason's name.
    pub reason: String,
    /// The number of packets.
    pub packets: u64,
}

/// A group of queues that a scheme reports together, with counters since the scheme was built. `arrived = sent + dropped + backlog`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QueueGroup {
    /// Its name: `all`, `flows`, `class 2`, `voice`, `branch 1 flows`.
    pub name: String,
    /// The number of queues.
    pub queues: u32,
    /// Packets enqueued.
    pub arrived_packets: u64,
    /// Packets dequeued for transmission.
    pub sent_packets: u64,
    /// Packets dropped.
    pub dropped_packets: u64,
    /// Packets dropped, by reason.
    pub drops: Vec<LinkDrop>,
    /// Packets marked (ECN).
    pub marked_packets: u64,
    /// Packets enqueued behind another flow in a queue meant for a single flow.
    #[serde(default)]
    pub collided_packets: u64,
    /// Packets queued.
    pub backlog_packets: u64,
    /// Bytes queued.
    pub backlog_bytes: u64,
    /// Sojourn times of dequeued packets, from the end of their functions; null if none was dequeued.
    pub sojourn: Option<LatencyReply>,
    /// The scheme's state for the longest of these queues.
    pub state: Vec<StateValue>,
}

/// A state variable of a scheme for a queue.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StateValue {
    /// Its name in the literature: `avg`, `p`, `count`, `dropping`, `drop_next`, `qdelay`, `burst_allowance`, `doomed`, `marking`.
    pub name: String,
    /// Its value: times in seconds, probabilities from 0 to 1, conditions as 0 or 1.
    pub value: f64,
}

/// One of the longest queues.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LongQueue {
    /// Its number on the link, from 0.
    pub queue: u32,
    /// Its queue group.
    pub group: String,
    /// Packets queued.
    pub packets: u64,
    /// Bytes queued.
    pub bytes: u64,
}

/// The history of a link over the last half minute, with ten samples a second: lists of equal length, the latest last.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LinkSeries {
    /// The times of the samples, since 1970-01-01 UTC.
    pub time_ns: Vec<u64>,
    /// Packets queued.
    pub backlog_packets: Vec<u64>,
    /// Bytes queued.
    pub backlog_bytes: Vec<u64>,
    /// The most packets queued since the previous sample.
    pub most_packets: Vec<u64>,
    /// Packets sent since the previous sample.
    pub sent_packets: Vec<u64>,
    /// Their mean sojourn time.
    pub mean_sojourn_ns: Vec<u64>,
    /// Their longest sojourn time.
    pub max_sojourn_ns: Vec<u64>,
    /// The scheme's state for groups of a single queue.
    pub state: Vec<StateSeriesReply>,
}

/// The history of a state variable. It is shorter than the other lists if the scheme is younger.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StateSeriesReply {
    /// The queue group.
    pub group: String,
    /// As in [`StateValue`].
    pub name: String,
    /// The values, the latest last; null for samples without a value.
    pub values: Vec<Option<f64>>,
}
