//! The tasks of an agenda, and how many are in which state.

use super::entry::Entry;
use crate::task::State;
use units::TaskId;

/// The tasks, and how many are in which state.
#[derive(Default)]
pub(super) struct States {
    pub entries: Vec<Entry>,
    /// Ids of tasks that are gone.
    pub spare: Vec<TaskId>,
    /// Tasks that are eligible.
    pub eligible: usize,
    /// Tasks that are active, without those that are dry.
    pub busy: usize,
}

impl States {
    /// A task has left state `was`; it was `dry` where it had found nothing.
    pub fn left(&mut self, was: State, dry: bool) {
        match was {
            State::Eligible => self.eligible -= 1,
            State::Active => self.busy -= usize::from(!dry),
            State::Idle | State::Running => {}
        }
    }
}
