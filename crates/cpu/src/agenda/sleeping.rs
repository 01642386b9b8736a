//! Tasks that look again later.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use units::{Instant, TaskId};

/// Tasks that look again later: by a time, or after others.
#[derive(Default)]
pub(super) struct Sleeping {
    pub timers: BinaryHeap<Reverse<(Instant, TaskId)>>,
    /// Input tasks that found nothing and have stepped back, the next to look first.
    pub back: VecDeque<TaskId>,
    /// Dispatches since one of them was allowed a look.
    pub since_look: u32,
    /// Waiting packets are to leave: no input task keeps its turns for polling.
    pub hurried: bool,
}
