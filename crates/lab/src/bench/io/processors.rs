//! The processors that measurements run on.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors of a thread, divided in two sets.
#[derive(Clone, Debug)]
pub struct Processors {
    all: CpuSet,
    first: CpuSet,
    /// `None` if there is only one.
    others: Option<CpuSet>,
}

/// Restricts the calling thread, and every thread it starts, to these processors.
fn pin_to(processors: &CpuSet) -> Result<()> {
    sched_setaffinity(None, processors).context("cannot pin a thread to a processor")
}

impl Processors {
    /// The processors of the calling thread.
    pub fn of_thread() -> Result<Processors> {
        let all = sched_getaffinity(None)?;
        let number = (0..CpuSet::MAX_CPU).find(|&number| all.is_set(number)).context("there is a processor")?;
        let (mut first, mut others) = (CpuSet::new(), all);
        first.set(number);
        others.unset(number);
        Ok(Processors { all, first, others: Some(others).filter(|others| others.count() > 0) })
    }

    /// Restricts the calling thread, and every thread it starts, to the first.
    pub fn pin_to_first(&self) -> Result<()> {
        pin_to(&self.first)
    }

    /// Runs `work` with the calling thread, and every thread it starts, on the first.
    pub fn on_first<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.on(&self.first, work)
    }

    /// As [`Processors::on_first`], for all but the first. Returns `None` if there is only one.
    pub fn on_others<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        self.others.as_ref().map(|others| self.on(others, work)).transpose()
    }

    fn on<T>(&self, processors: &CpuSet, work: impl FnOnce() -> Result<T>) -> Result<T> {
        pin_to(processors)?;
        let done = work();
        pin_to(&self.all)?;
        done
    }
}
