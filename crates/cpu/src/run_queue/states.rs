//! The tasks of a run queue, and the number of them in each state.

use super::task_entry::TaskEntry;
use crate::task::TaskState;
use units::TaskId;

/// The tasks, and the number of them in each state.
#[derive(Default)]
pub(super) struct TaskStates {
    pub entries: Vec<TaskEntry>,
    /// Ids of removed tasks.
    pub spare: Vec<TaskId>,
    /// Tasks that are eligible.
    pub eligible: usize,
    /// Tasks that are active, without those whose last poll was empty.
    pub busy: usize,
}

impl TaskStates {
    /// A task has left state `was`. `dry`: its last poll was empty.
    pub fn left(&mut self, was: TaskState, dry: bool) {
        match was {
            TaskState::Eligible => self.eligible -= 1,
            TaskState::Active => self.busy -= usize::from(!dry),
            // `pick` has subtracted a running task from `busy` already.
            TaskState::Idle | TaskState::Running => {}
        }
    }
}
