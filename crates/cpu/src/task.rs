//! A task as the agenda knows it: what it was promised, what it may do next, what it has done.

use super::Verdict;
use units::{Nanos, Share, TaskId};

/// What a task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Receives and classifies.
    Input,
    /// Runs functions.
    Forwarding,
    /// Offers to a link.
    Output,
}

/// Whether a task may run (spec Q-45).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum State {
    /// It has nothing to do, or no room; an input task sleeps or its port waits.
    #[default]
    Idle,
    /// It has something to do, and waits for more or for its time.
    Eligible,
    /// It may be picked.
    Active,
    /// It was picked and is not charged yet.
    Running,
}

impl State {
    /// As people read it.
    pub const fn name(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Eligible => "eligible",
            State::Active => "active",
            State::Running => "running",
        }
    }
}

/// What a task was promised, and what is known of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Its part of the core.
    pub share: Share,
    /// Under the throttle: how long it may be eligible; none: for ever.
    pub max_wait: Option<Nanos>,
    /// Packets its queues hold on each side: it cannot wait for more.
    pub capacity: u32,
    /// What a packet is said to cost.
    pub cost: Option<Nanos>,
    /// Whether it runs as soon as it has something to do whatever the batching is: the router's own protocols.
    pub prompt: bool,
}

impl Terms {
    /// Another path has the same task: it gets what both have, and keeps what the stricter asks for.
    pub fn join(&mut self, other: Terms) {
        self.share = self.share.plus(other.share);
        self.max_wait = [self.max_wait, other.max_wait].into_iter().flatten().min();
        self.capacity = self.capacity.min(other.capacity);
        self.cost = self.cost.or(other.cost);
        self.prompt |= other.prompt;
    }
}

/// What the next run of a task may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The task.
    pub task: TaskId,
    /// At most so many packets.
    pub packets: u32,
    /// No new packet after so long.
    pub slice: Nanos,
    /// Packets at once: between two looks at the meter.
    pub vector: u32,
}

/// What a run did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Run {
    /// Time it took, without the switch.
    pub used: Nanos,
    /// Packets it moved.
    pub packets: u32,
    /// Packets that wait for the task now.
    pub waiting: u32,
    /// Packets there is room for behind it now.
    pub room: u32,
    /// Whether somebody else works on packets of it: it goes on whatever waits, when its turn comes.
    pub away: bool,
}

/// Where the time of a core went, since it began. The rest is idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// Moving packets.
    pub useful: Nanos,
    /// Looking at ports that had nothing, or at work that was none.
    pub polling: Nanos,
    /// Choosing tasks and changing to them.
    pub switching: Nanos,
}

impl Times {
    /// The efficiency index E (section 4): time that moved packets, of all time that was spent. One where nothing was.
    pub fn efficiency(&self) -> f64 {
        let all = (self.useful + self.polling + self.switching).get();
        if all == 0 { 1.0 } else { self.useful.get() as f64 / all as f64 }
    }

    /// The same as the paper words it: polls that find nothing count as work of the input task.
    pub fn efficiency_literal(&self) -> f64 {
        let all = (self.useful + self.polling + self.switching).get();
        if all == 0 { 1.0 } else { (self.useful + self.polling).get() as f64 / all as f64 }
    }
}

/// What is known of a task, for people.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TaskView {
    /// What it does.
    pub kind: Kind,
    /// Its state now.
    pub state: State,
    /// Its part of the core.
    pub share: Share,
    /// Packets it waits for before it runs (B); one where it is not throttled.
    pub threshold: u32,
    /// Packets its queues hold.
    pub capacity: u32,
    /// How long it may wait for them (D).
    pub max_wait: Option<Nanos>,
    /// Mean cost of a packet, and its variance in ns².
    pub cost: (Nanos, u64),
    /// What a packet has cost since the task began, where enough came to say so.
    pub long_cost: Option<Nanos>,
    /// Whether it costs what was declared.
    pub verdict: Verdict,
    /// What the port's estimator says: packets a run in thousandths, and how long the task sleeps.
    pub estimator: Option<(u64, Nanos)>,
    /// What it has done.
    pub account: Account,
}

/// What a task has done since it was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// Dispatches.
    pub runs: u64,
    /// Packets moved.
    pub packets: u64,
    /// Time charged.
    pub used: Nanos,
    /// Times it became active only because it had waited long enough.
    pub timeouts: u64,
    /// Times it ran because nothing else would have.
    pub harvested: u64,
    /// The longest it was active before it ran.
    pub lag: Nanos,
    /// Packets an input task received, and those of them that took longer than the budget of classification, vector by
    /// vector. Counted only while there is a budget.
    pub weighed: (u64, u64),
    /// Time it was idle, eligible, active and running.
    pub residency: [Nanos; 4],
}
