//! Reports about workers and their tasks.

use super::CounterFields;
use packet::StallCounters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The workers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Workers {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// How long an idle worker polls before it sleeps.
    pub spin_ns: u64,
    /// The workers, in order.
    pub workers: Vec<WorkerReply>,
}

/// The state of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    /// Forwarding.
    Working,
    /// Polling for packets for a moment.
    Spinning,
    /// Asleep until a port, another worker or a timer wakes it.
    Asleep,
    /// Without progress for a second; it answers no request.
    Stuck,
    /// Failed for good; its ports are closed.
    Failed,
    /// Ended regularly.
    Ended,
}

/// A worker: a thread that forwards.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorkerReply {
    /// Its number.
    pub worker: u16,
    /// The core it is pinned to; null if it may run on any.
    pub core: Option<u16>,
    /// Its state.
    pub state: WorkerState,
    /// The share of the last second in which it moved packets, in millionths.
    pub busy_ppm: u64,
    /// Packets moved in the last second. Each task that moves a packet counts it.
    pub packets_per_second: u64,
    /// The time in which it moved packets.
    pub busy_ns: u64,
    /// Packets moved.
    pub packets: u64,
    /// How often a port or another thread has woken it.
    pub wakeups: u64,
    /// How often it has failed and was restarted.
    pub restarts: u64,
    /// The time since its last progress; about 100 ms at most if it is idle.
    pub heartbeat_age_ns: u64,
    /// Packets handed off to other workers.
    pub handed_over_packets: u64,
    /// Packets handed off by other workers to this one.
    pub taken_over_packets: u64,
    /// Packets in its queues.
    pub held_packets: u64,
    /// Its stalls: queues to other workers, the pool, and the media of ports.
    #[serde(flatten)]
    pub stalls: CounterFields<StallCounters>,
}

/// The tasks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TasksReply {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The use of each worker's time; the rest is idle time.
    pub cores: Vec<CoreReply>,
    /// The tasks, worker by worker.
    pub tasks: Vec<Task>,
}

/// The use of a worker's time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CoreReply {
    /// The worker.
    pub worker: u16,
    /// Time in which it moved packets.
    pub useful_ns: u64,
    /// Time spent polling ports without packets.
    pub polling_ns: u64,
    /// Time spent selecting tasks and switching between them.
    pub switching_ns: u64,
    /// How it receives: `polling`, by scheduled tasks, or `interrupt`, before all other work.
    #[serde(default)]
    pub receive: String,
    /// The cost of a switch, measured or configured.
    pub switch_cost_ns: u64,
    /// With the throttle: the present bound of switching overhead relative to the work (T), in millionths.
    #[serde(default)]
    pub overhead_ppm: Option<u32>,
    /// With the throttle: the present longest run of a task (G).
    #[serde(default)]
    pub slice_ns: Option<u64>,
}

impl CoreReply {
    /// Returns the efficiency index: the part of the spent time in which it moved packets; none if it did nothing.
    pub fn efficiency(&self) -> Option<f64> {
        let all = self.useful_ns + self.polling_ns + self.switching_ns;
        (all > 0).then(|| self.useful_ns as f64 / all as f64)
    }

    /// Returns the efficiency index with empty polls counted as work (Qie et al. 2001, section 4).
    pub fn efficiency_literal(&self) -> Option<f64> {
        let all = self.useful_ns + self.polling_ns + self.switching_ns;
        (all > 0).then(|| (self.useful_ns + self.polling_ns) as f64 / all as f64)
    }
}

/// A task: the unit that the CPU scheduler of a worker dispatches and charges.
// Large: a field for each value of the answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// Its worker.
    pub worker: u16,
    /// Its number on that worker.
    pub task: u32,
    /// `input`, `forwarding` or `output`.
    pub kind: String,
    /// Its port, if it has one.
    pub port: Option<String>,
    /// Its path, for a forwarding task; several with commas if they share the task.
    pub path: Option<String>,
    /// Its promised share of the core, in millionths.
    pub share_ppm: u32,
    /// Its share of the worker's time since it was added, in millionths.
    #[serde(default)]
    pub received_ppm: u32,
    /// `idle`, `eligible`, `active` or `running`.
    pub state: String,
    /// Dispatches.
    pub runs: u64,
    /// Packets moved.
    pub packets: u64,
    /// Time charged.
    pub used_ns: u64,
    /// The mean cost of a packet.
    pub cost_ns: u64,
    /// The standard deviation of that cost.
    pub deviation_ns: u64,
    /// True if a packet costs over a tenth more than declared.
    pub exceeds_declared_cost: bool,
    /// With the throttle: the packets it waits for before it runs (B); otherwise 1.
    pub batch: u32,
    /// The capacity of its queues on each side; null without a bound.
    #[serde(default)]
    pub capacity_packets: Option<u32>,
    /// With the throttle: the longest wait for these packets (D); null for no limit.
    pub max_wait_ns: Option<u64>,
    /// Runs started by that time-out.
    pub timeouts: u64,
    /// Runs started because the core was idle otherwise.
    pub harvested: u64,
    /// The longest it could have run and did not.
    pub lag_ns: u64,
    /// Time with nothing to do.
    pub idle_ns: u64,
    /// Time it waited for more packets.
    pub eligible_ns: u64,
    /// Time it waited for the processor.
    pub active_ns: u64,
    /// Time it ran.
    pub running_ns: u64,
    /// For an input task with an estimator: the mean number of packets per run, in thousandths.
    pub polls_find_milli: Option<u64>,
    /// For an input task with an estimator: the sleep between runs.
    pub sleeps_ns: Option<u64>,
}
