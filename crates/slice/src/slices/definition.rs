//! The changes that make a slice as it is: to make it again after a restart, or on another router.

use super::Slices;
use crate::command::SliceCommand;
use crate::spec::{FilterEdit, SliceError};
use plane::Router;

/// Bytes of memory in one change.
const PIECE: usize = 256;

impl Slices {
    /// The changes that make a slice as it is now, in their order. Counters, staged changes of the memory and packets for the slow path are left out.
    ///
    /// # Errors
    /// There is no such slice.
    pub fn definition(&self, router: &Router, name: &str) -> Result<Vec<SliceCommand>, SliceError> {
        let (report, memory) = (self.report(router, name)?, self.memory(name)?);
        let own = || name.to_owned();
        let mut changes = vec![SliceCommand::Create(Box::new(report.spec))];
        changes
            .extend(report.interfaces.iter().map(|(number, place)| SliceCommand::AddInterface(own(), *number, *place)));
        let reserve = |one: &super::ReservationReport| SliceCommand::Reserve(own(), one.scheduler.clone(), one.rates);
        changes.extend(report.reservations.iter().map(reserve));
        let queue = |one: &super::SliceQueueReport| SliceCommand::SetQueue(own(), one.queue, one.spec.clone());
        changes.extend(report.queues.iter().map(queue));
        let filters = self.filters(name, 0, usize::MAX)?;
        let insert = |filter: super::FilterReport| FilterEdit::Insert(filter.position, filter.spec);
        changes.extend(filters.into_iter().map(|filter| SliceCommand::Filter(own(), insert(filter))));
        for offset in (0..memory.size()).step_by(PIECE) {
            let bytes = memory.read(offset, PIECE.min(memory.size() - offset)).unwrap_or_default();
            // New memory is zero.
            if bytes.iter().any(|byte| *byte != 0) {
                changes.push(SliceCommand::Write(own(), offset, bytes));
            }
        }
        if report.is_suspended && report.failure.is_none() {
            changes.push(SliceCommand::Suspend(own(), true));
        }
        Ok(changes)
    }
}
