//! Workers and the tasks they run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The workers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Workers {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// How long a worker without work looks for some before it sleeps.
    pub spin_ns: u64,
    /// The workers, in order.
    pub workers: Vec<Worker>,
}

/// What a worker is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    /// Forwarding.
    Working,
    /// Looking for work, for a moment.
    Spinning,
    /// Waiting for a port, another worker or a time.
    Asleep,
    /// It has not moved for a second, and answers nobody.
    Stuck,
    /// It has failed for good, and its ports are closed.
    Failed,
    /// It has ended in good order.
    Ended,
}

/// A worker: a thread that forwards.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Worker {
    /// Its number.
    pub worker: u16,
    /// The core it is pinned to; null where it runs on any.
    pub core: Option<u16>,
    /// What it is doing.
    pub state: WorkerState,
    /// The share of the last second in which it moved packets, in millionths.
    pub busy_ppm: u64,
    /// Packets moved in the last second: each task that moves a packet counts it.
    pub packets_per_second: u64,
    /// Time in which it moved packets.
    pub busy_ns: u64,
    /// Packets moved.
    pub packets: u64,
    /// How often a port or another thread has ended its sleep.
    pub wakeups: u64,
    /// How often it has failed and begun anew.
    pub restarts: u64,
    /// Since when it has not moved; at most some 100 ms where it has nothing to do.
    pub heartbeat_age_ns: u64,
    /// Packets handed over to other workers.
    pub handed_over_packets: u64,
    /// Packets taken over from other workers.
    pub taken_over_packets: u64,
    /// Packets in its queues.
    pub held_packets: u64,
}

/// The tasks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Tasks {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// Where the time of each worker went; the rest of it is idle.
    pub cores: Vec<Core>,
    /// The tasks, worker by worker.
    pub tasks: Vec<Task>,
}

/// Where the time of a worker went.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Core {
    /// The worker.
    pub worker: u16,
    /// Moving packets.
    pub useful_ns: u64,
    /// Looking at ports that had nothing.
    pub polling_ns: u64,
    /// Choosing tasks and switching to them.
    pub switching_ns: u64,
    /// How packets are received: `polling`, by tasks that the scheduler gives their time, or `interrupt`, before anything else goes on.
    #[serde(default)]
    pub receive: String,
    /// What one switch costs, as measured or configured.
    pub switch_cost_ns: u64,
    /// Where forwarding is throttled: the part of the work that switching may cost (T), in millionths, as it is now.
    #[serde(default)]
    pub overhead_ppm: Option<u32>,
    /// Where forwarding is throttled: how long a task may run (G), as it is now.
    #[serde(default)]
    pub slice_ns: Option<u64>,
}

impl Core {
    /// The efficiency index: time that moved packets, of all that was spent; none where nothing was.
    pub fn efficiency(&self) -> Option<f64> {
        let all = self.useful_ns + self.polling_ns + self.switching_ns;
        (all > 0).then(|| self.useful_ns as f64 / all as f64)
    }

    /// The same with polls that find nothing as work (Qie et al. 2001, section 4).
    pub fn efficiency_literal(&self) -> Option<f64> {
        let all = self.useful_ns + self.polling_ns + self.switching_ns;
        (all > 0).then(|| (self.useful_ns + self.polling_ns) as f64 / all as f64)
    }
}

/// A task: what the CPU scheduler of a worker picks and charges.
// Large: a field for each value of the answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// Its worker.
    pub worker: u16,
    /// Its number on that worker.
    pub task: u32,
    /// `input`, `forwarding` or `output`.
    pub kind: String,
    /// Its port, where it has one.
    pub port: Option<String>,
    /// Its path, for forwarding; several with commas where they share a task.
    pub path: Option<String>,
    /// The part of the core it was promised, in millionths.
    pub share_ppm: u32,
    /// The part of its worker's time that it has had, since it was added, in millionths.
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
    /// What a packet costs on average.
    pub cost_ns: u64,
    /// The standard deviation of that.
    pub deviation_ns: u64,
    /// Whether a packet costs over a tenth more than was declared.
    pub exceeds_declared_cost: bool,
    /// Under the throttle: packets it waits for before it runs (B); else 1.
    pub batch: u32,
    /// Packets its queues hold on each side; none where there is no such bound.
    #[serde(default)]
    pub capacity_packets: Option<u32>,
    /// Under the throttle: how long it waits for them (D); none: for ever.
    pub max_wait_ns: Option<u64>,
    /// Times it ran because it had waited so long.
    pub timeouts: u64,
    /// Times it ran because nothing else would have.
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
    /// Of an input task with an estimator: thousandths of a packet that a run finds on average.
    pub polls_find_milli: Option<u64>,
    /// Of an input task with an estimator: how long it sleeps between runs.
    pub sleeps_ns: Option<u64>,
}
