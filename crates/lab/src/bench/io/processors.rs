//! Which processors do what.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors of a thread, parted in two.
#[derive(Clone, Debug)]
pub struct Processors {
    all: CpuSet,
    first: CpuSet,
    /// None where there is but one.
    others: Option<CpuSet>,
}

/// Keeps the calling thread, and every thread it starts, to some processors.
fn keep_to(processors: &CpuSet) -> Result<()> {
    sched_setaffinity(None, processors).context("a thread cannot be kept to a processor")
}

impl Processors {
    /// Those of the calling thread.
    pub fn here() -> Result<Processors> {
        let all = sched_getaffinity(None)?;
        let number = (0..CpuSet::MAX_CPU).find(|&number| all.is_set(number)).context("there is a processor")?;
        let (mut first, mut others) = (CpuSet::new(), all);
        first.set(number);
        others.unset(number);
        Ok(Processors { all, first, others: Some(others).filter(|others| others.count() > 0) })
    }

    /// Keeps the calling thread, and every thread it starts, to the first.
    pub fn keep_to_first(&self) -> Result<()> {
        keep_to(&self.first)
    }

    /// Runs `work` with the calling thread, and every thread it starts, kept to the first.
    pub fn on_first<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.on(&self.first, work)
    }

    /// As [`Processors::on_first`], for all but the first; nothing where there is none.
    pub fn on_others<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        self.others.as_ref().map(|others| self.on(others, work)).transpose()
    }

    fn on<T>(&self, processors: &CpuSet, work: impl FnOnce() -> Result<T>) -> Result<T> {
        keep_to(processors)?;
        let done = work();
        keep_to(&self.all)?;
        done
    }
}
