//! Processor cores: the cores that this process may use, and pinning threads to them.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use std::io;
use std::num::NonZeroU64;

/// The cores that the calling thread may use, in order: those of the machine without those excluded by a cpuset or `taskset`.
pub fn allowed() -> io::Result<Vec<u16>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).map(|core| core as u16).collect())
}

/// Pins the calling thread to `core`. `InvalidInput` for a number that no set of cores can hold.
pub fn pin(core: u16) -> io::Result<()> {
    let mut set = CpuSet::new();
    if usize::from(core) >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    set.set(usize::from(core));
    Ok(sched_setaffinity(None, &set)?)
}

/// Lets the calling thread wake up within a microsecond of its timeout. By default the kernel delays it by up to 50 us to wake several threads at
/// once (PR_SET_TIMERSLACK).
pub fn sleep_exactly() -> io::Result<()> {
    Ok(set_current_timer_slack(NonZeroU64::new(1000))?)
}

/// Lets the calling thread run only on otherwise idle time and yield to every other thread (SCHED_IDLE, sched(7)).
pub fn yield_to_all() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters outlive the call; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_runs_on_its_core_and_no_other() {
        let before = allowed().unwrap();
        assert!(!before.is_empty());
        for &core in &before {
            let pinned = std::thread::spawn(move || pin(core).and_then(|()| allowed())).join().unwrap();
            assert_eq!(pinned.unwrap(), [core]);
        }
        assert_eq!(allowed().unwrap(), before, "other threads are where they were");
        assert!(pin(u16::MAX).is_err());
    }
}
