//! The tasks of a run queue, and the number of them in each state.

use super::entry::Entry;
use crate::task::State;
use units::TaskId;

/// The tasks, and the number of them in each state.
#[derive(Default)]
pub(super) struct States {
    pub entries: Vec<Entry>,
    /// Ids of removed tasks.
    pub spare: Vec<TaskId>,
    /// Tasks that are eligible.
    pub eligible: usize,
    /// Tasks that are active, without those whose last poll was empty.
    pub busy: usize,
}

impl States {
    /// A task has left state `was`. `dry`: its last poll was empty.
    pub fn left(&mut self, was: State, dry: bool) {
        match was {
            State::Eligible => self.eligible -= 1,
            State::Active => self.busy -= usize::from(!dry),
            State::Idle | State::Running => {}
        }
    }
}
