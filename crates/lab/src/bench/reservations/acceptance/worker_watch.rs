//! Records when this machine kept a worker from its processor: other threads had it, or the hypervisor took it away. The kernel's threads that carry packets
//! between the cables (`ksoftirqd`) count too: packets that they hold reach no router.

use super::processors::ProcessorSplit;
use anyhow::{Context, Error, Result, anyhow};
use io::clock;
use io::cores::pin;
use io::thread_priority::RealtimePriority;
use io::wait::{Sleeper, Waker};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use units::Nanos;

/// The interval of samples.
const LOOK: Nanos = Nanos::millis(1);
/// A sample that is later than this has met a processor without time for its thread, which has the highest priority: the hypervisor took it away.
const LATE: Nanos = Nanos::micros(200);
/// The machine has disturbed a run if the worker was kept from its processor for more than this part of the time, or for longer than this at once.
const MOST_KEPT_FROM: f64 = 0.05;
const LONGEST_STALL: Nanos = Nanos::millis(5);

/// A thread that samples a worker's time in the kernel's run queue.
pub struct WorkerWatch {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<WorkerStalls>>,
}

/// How long the worker was kept from its processor in each interval between samples.
#[derive(Clone, Debug, Default)]
pub struct WorkerStalls(Vec<Nanos>);

impl WorkerWatch {
    /// Watches the worker with this directory in /proc.
    pub fn begin(worker: &Path, processors: ProcessorSplit) -> WorkerWatch {
        let over = Arc::new(AtomicBool::new(false));
        let (stop, worker) = (over.clone(), worker.to_owned());
        WorkerWatch { over, thread: spawn(move || watch(worker, processors, &stop)) }
    }

    /// Ends the watch.
    ///
    /// # Errors
    ///
    /// The kernel's error. The watch needs a real-time priority.
    pub fn end(self) -> Result<WorkerStalls> {
        self.over.store(true, Ordering::Release);
        self.thread.join().map_err(|_| anyhow!("the watch of a worker panicked"))?
    }
}

fn watch(worker: PathBuf, processors: ProcessorSplit, over: &AtomicBool) -> Result<WorkerStalls> {
    let mut threads = kernel_threads(processors)?;
    threads.push(worker);
    pin(processors.router).context("pinning the watch to the worker's processor")?;
    let _first =
        RealtimePriority::acquire().context("the watch of a worker needs real-time priority (CAP_SYS_NICE)")?;
    let queue_time =
        || threads.iter().try_fold(Nanos::ZERO, |sum, thread| Ok::<_, Error>(sum + run_queue_time(thread)?));
    let mut sleeper = Sleeper::new(Waker::new()?);
    let (mut stalls, mut before, mut waited) = (Vec::new(), clock::now(), queue_time()?);
    while !over.load(Ordering::Acquire) {
        sleeper.sleep([], LOOK)?;
        let (now, queued) = (clock::now(), queue_time()?);
        let late = now.since(before).saturating_sub(LOOK);
        let stolen = if late > LATE { late } else { Nanos::ZERO };
        stalls.push(queued.saturating_sub(waited) + stolen);
        (before, waited) = (now, queued);
    }
    Ok(WorkerStalls(stalls))
}

/// The kernel's threads that carry packets on these processors.
fn kernel_threads(processors: ProcessorSplit) -> Result<Vec<PathBuf>> {
    let names = [processors.router, processors.others].map(|core| format!("ksoftirqd/{core}"));
    let is_one = |name: String| names.iter().any(|known| *known == name.trim());
    let all = fs::read_dir("/proc")?.filter_map(|entry| Some(entry.ok()?.path()));
    // A process may end meanwhile, and a container does not show the kernel's threads.
    Ok(all.filter(|process| fs::read_to_string(process.join("comm")).is_ok_and(is_one)).collect())
}

/// The time for which a thread was ready to run, and others ran (proc_pid_schedstat(5)).
fn run_queue_time(thread: &Path) -> Result<Nanos> {
    let file: PathBuf = thread.join("schedstat");
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let time = text.split_whitespace().nth(1).and_then(|field| field.parse().ok());
    Ok(Nanos::new(time.with_context(|| format!("{} has another form", file.display()))?))
}

impl WorkerStalls {
    /// The longest stall: a row of intervals in each of which the worker was kept from its processor for more than half of the time.
    pub fn longest(&self) -> Nanos {
        let mut longest = Nanos::ZERO;
        let mut row = Nanos::ZERO;
        for kept in &self.0 {
            row = if *kept * 2 > LOOK { row + *kept } else { Nanos::ZERO };
            longest = longest.max(row);
        }
        longest
    }

    /// All stalls together.
    pub fn total(&self) -> Nanos {
        self.0.iter().fold(Nanos::ZERO, |sum, kept| sum + *kept)
    }

    /// The disturbance of a run of this length by the machine, if it was too large.
    pub fn disturbance(&self, span: Nanos) -> Option<String> {
        let (total, longest) = (self.total(), self.longest());
        let part = total.get() as f64 / span.get() as f64;
        (part > MOST_KEPT_FROM || longest > LONGEST_STALL).then(|| {
            let longest = longest.rounded();
            format!(
                "the machine kept the worker from its processor for {:.1} % of the time, {longest} at once",
                part * 100.0
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_in_a_row_are_one() {
        let stalls = |micros: &[u64]| WorkerStalls(micros.iter().map(|&kept| Nanos::micros(kept)).collect());
        let few = stalls(&[100, 900, 800, 0, 600, 200]);
        assert_eq!((few.longest(), few.total()), (Nanos::micros(1700), Nanos::micros(2600)));
        assert_eq!(few.disturbance(Nanos::secs(1)), None);
        let said = few.disturbance(Nanos::millis(50)).unwrap();
        assert!(said.ends_with("for 5.2 % of the time, 1.70 ms at once"), "{said}");
        assert!(stalls(&[1000; 6]).disturbance(Nanos::secs(60)).is_some());
    }
}
