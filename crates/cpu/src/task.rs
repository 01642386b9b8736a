//! A task of the run queue: its terms, the limits of its next run and its accounting.

use super::CostVerdict;
use units::{Nanos, Share, TaskId};

/// The kind of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskKind {
    /// Receives and classifies.
    Input,
    /// Runs functions.
    Forwarding,
    /// Offers packets to a link.
    Output,
}

/// The state of a task (spec Q-45).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TaskState {
    /// It has no work or no room. An input task sleeps, or its port is stalled.
    #[default]
    Idle,
    /// It has work, and waits for more or for its timer.
    Eligible,
    /// It may be picked.
    Active,
    /// It was picked, and is not charged yet.
    Running,
}

impl TaskState {
    /// The state as shown to the operator.
    pub const fn name(self) -> &'static str {
        match self {
            TaskState::Idle => "idle",
            TaskState::Eligible => "eligible",
            TaskState::Active => "active",
            TaskState::Running => "running",
        }
    }
}

/// The guarantees and the declared properties of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskTerms {
    /// Its share of the core.
    pub share: Share,
    /// Under the throttle: the longest time it may be eligible; none: unlimited.
    pub max_wait: Option<Nanos>,
    /// The capacity of its queues on each side: it cannot wait for more packets.
    pub capacity: u32,
    /// The declared cost of a packet.
    pub cost: Option<Nanos>,
    /// True if the task runs as soon as it has work, without batching: the router's own protocols.
    pub prompt: bool,
}

impl TaskTerms {
    /// Another path shares the task. It gets the sum of both shares and the stricter of both limits.
    pub fn join(&mut self, other: TaskTerms) {
        self.share = self.share.plus(other.share);
        self.max_wait = [self.max_wait, other.max_wait].into_iter().flatten().min();
        // The smaller queue decides how many packets the task can wait for.
        self.capacity = self.capacity.min(other.capacity);
        self.cost = self.cost.or(other.cost);
        // A path of the protocols must not wait, also if it shares its task.
        self.prompt |= other.prompt;
    }
}

/// The limits of the next run of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The task.
    pub task: TaskId,
    /// The most packets of the run.
    pub packets: u32,
    /// The run starts no new packet after this time.
    pub slice: Nanos,
    /// The packets of a vector: between two reads of the meter.
    pub vector: u32,
    /// The measured cost of a packet whose vector is shorter than its slice permits, because it is expensive.
    pub expensive: Option<Nanos>,
}

/// The most time of a vector of expensive packets.
const EXPENSIVE_VECTOR: Nanos = Nanos::micros(16);

impl Grant {
    /// The grant on a processor. There a packet alone waits for memory, and is expensive for that reason: one by one, such packets would stay expensive.
    /// A vector of them takes [`EXPENSIVE_VECTOR`], so that the run still stops close to the end of its slice.
    #[must_use]
    pub fn on_processor(self) -> Grant {
        let within = |cost: Nanos| (EXPENSIVE_VECTOR.get().min(self.slice.get()) / cost.get().max(1)).max(1) as u32;
        Grant { vector: self.expensive.map_or(self.vector, within), ..self }
    }
}

/// The result of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunOutcome {
    /// The time it took, without the switch.
    pub used: Nanos,
    /// Packets it moved.
    pub packets: u32,
    /// Packets that now wait for the task.
    pub waiting: u32,
    /// The room for its results now.
    pub room: u32,
    /// True if a preemptible function thread still works on its packets: the task stays active even with an empty queue.
    pub in_function_thread: bool,
}

/// The time of a core by use since it began. The rest is idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreTimes {
    /// Time spent on moving packets.
    pub useful: Nanos,
    /// Time spent on polling empty ports, or on runs without packets.
    pub polling: Nanos,
    /// Time spent on choosing tasks and switching to them.
    pub switching: Nanos,
}

impl CoreTimes {
    /// The efficiency index E (section 4): the time that moved packets, as a part of all time spent. One if no time was spent.
    pub fn efficiency(&self) -> f64 {
        let all = (self.useful + self.polling + self.switching).get();
        if all == 0 { 1.0 } else { self.useful.get() as f64 / all as f64 }
    }

    /// The index as the paper words it: empty polls count as work of the input task.
    pub fn efficiency_literal(&self) -> f64 {
        let all = (self.useful + self.polling + self.switching).get();
        if all == 0 { 1.0 } else { (self.useful + self.polling).get() as f64 / all as f64 }
    }
}

/// The status of a task, for the operator.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TaskView {
    /// Its kind.
    pub kind: TaskKind,
    /// Its state.
    pub state: TaskState,
    /// Its share of the core.
    pub share: Share,
    /// The batching threshold in packets (B); one if it is not throttled.
    pub threshold: u32,
    /// The capacity of its queues in packets.
    pub capacity: u32,
    /// The longest time that it may wait for a full batch (D).
    pub max_wait: Option<Nanos>,
    /// The mean cost of a packet, and its variance in ns².
    pub cost: (Nanos, u64),
    /// The mean cost of a packet since the task began, once enough were measured.
    pub long_cost: Option<Nanos>,
    /// The measured cost compared with the declared one.
    pub verdict: CostVerdict,
    /// The estimator of its port: the mean packets of a run in thousandths, and the current sleep.
    pub estimator: Option<(u64, Nanos)>,
    /// Its accounting.
    pub account: TaskAccount,
}

/// The accounting of a task since it was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskAccount {
    /// Dispatches.
    pub runs: u64,
    /// Packets moved.
    pub packets: u64,
    /// Time charged.
    pub used: Nanos,
    /// Activations by its timer, before the batch was full.
    pub timeouts: u64,
    /// Activations because no other task had work.
    pub harvested: u64,
    /// The longest time it was active before it ran.
    pub lag: Nanos,
    /// Packets an input task received, and those of them over the classification budget, vector by vector. Counted only while a budget is configured.
    pub weighed: (u64, u64),
    /// Time spent idle, eligible, active and running.
    pub residency: [Nanos; 4],
}
