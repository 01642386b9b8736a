//! Priority over other programs of the machine, so that they do not disturb measurements.

use rustix::process::{getpriority_process, setpriority_process};
use std::io;
use std::marker::PhantomData;

/// While this value lives, the calling thread and every thread that it starts have priority over all ordinary threads (SCHED_RR, sched(7)).
#[derive(Debug)]
pub struct RealtimePriority {
    /// It belongs to the thread that created it.
    _not_send: PhantomData<*const ()>,
}

impl RealtimePriority {
    /// Needs CAP_SYS_NICE.
    pub fn acquire() -> io::Result<RealtimePriority> {
        schedule(libc::SCHED_RR, 1)?;
        Ok(RealtimePriority { _not_send: PhantomData })
    }
}

impl Drop for RealtimePriority {
    fn drop(&mut self) {
        // Lowering a priority needs no privilege.
        let _ = schedule(libc::SCHED_OTHER, 0);
    }
}

/// While this value lives, the calling thread and every thread that it starts have nearly all of a processor shared with ordinary threads (a nice
/// value of -20, sched(7)). Unlike with [`RealtimePriority`], the others continue to run, and a thread that never sleeps is not throttled.
#[derive(Debug)]
pub struct NicePriority {
    /// The previous nice value. It belongs to the thread that created this value.
    previous_nice: i32,
    _not_send: PhantomData<*const ()>,
}

impl NicePriority {
    /// Needs CAP_SYS_NICE.
    ///
    /// # Errors
    ///
    /// Fails without that capability.
    pub fn acquire() -> io::Result<NicePriority> {
        let before = getpriority_process(None)?;
        setpriority_process(None, -20)?;
        Ok(NicePriority { previous_nice: before, _not_send: PhantomData })
    }
}

impl Drop for NicePriority {
    fn drop(&mut self) {
        // Lowering a priority needs no privilege.
        let _ = setpriority_process(None, self.previous_nice);
    }
}

fn schedule(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    // SAFETY: all zeros is a valid `sched_param`, which has more fields with some C libraries.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    // SAFETY: zero is the calling thread; the kernel only reads the parameters.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn policy() -> libc::c_int {
        // SAFETY: the call only reads; zero is the calling thread.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn realtime_priority_is_inherited_and_ends_with_the_guard() {
        let before = policy();
        let Ok(precedence) = RealtimePriority::acquire() else {
            assert_eq!(policy(), before, "nothing is changed without the right to");
            return;
        };
        assert_eq!((policy(), thread::spawn(policy).join().unwrap()), (libc::SCHED_RR, libc::SCHED_RR));
        drop(precedence);
        assert_eq!(policy(), libc::SCHED_OTHER);
    }

    #[test]
    fn nice_priority_is_inherited_and_ends_with_the_guard() {
        let nice = || getpriority_process(None).unwrap();
        let before = nice();
        let Ok(favour) = NicePriority::acquire() else {
            assert_eq!(nice(), before, "nothing is changed without the right to");
            return;
        };
        assert_eq!((nice(), thread::spawn(nice).join().unwrap()), (-20, -20));
        drop(favour);
        assert_eq!(nice(), before);
    }
}
