//! Tasks that poll again later.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use units::{Instant, TaskId};

/// Tasks that poll again later: by a timer, or after dispatches of others.
#[derive(Default)]
pub(super) struct TaskTimers {
    pub timers: BinaryHeap<Reverse<(Instant, TaskId)>>,
    /// Input tasks that have stepped back after an empty poll, the next to poll first.
    pub stepped_back: VecDeque<TaskId>,
    /// Dispatches since one of them last polled.
    pub since_poll: u32,
    /// The queues are being drained: no input task keeps its turns for polling.
    pub draining: bool,
}
