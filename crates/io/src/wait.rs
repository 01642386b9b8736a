//! Sleeps until there is work: a readable port, a wakeup by another thread, or a time.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use rustix::thread::set_current_timer_slack;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::Arc;
use units::Nanos;

/// Wakes a sleeping worker from another thread (eventfd(2)). Clones wake the same worker.
#[derive(Clone, Debug)]
pub struct Waker {
    event: Arc<OwnedFd>,
}

impl Waker {
    /// A waker that is not signalled.
    pub fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker { event: Arc::new(bell) })
    }

    /// Wakes the sleeper, or keeps it from falling asleep at its next attempt. Never blocks.
    pub fn wake(&self) {
        // EAGAIN: the counter is at its maximum of 2^64 - 2, so the waker is signalled.
        let _ = write(&self.event, &1u64.to_ne_bytes());
    }

    /// Resets the signal; true if it was set. A [`Sleeper`] resets it by itself.
    pub(crate) fn reset(&self) -> bool {
        read(&self.event, &mut [0u8; 8]).is_ok()
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Makes sleeps of the calling thread end on time, as exactly as the machine can. By default the kernel delays them by up to 50 us to wake several
/// threads at once (PR_SET_TIMERSLACK, prctl(2)).
pub fn sleep_exactly() {
    // If this fails, sleeps take a little longer, as by default.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// The reason why a sleep ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeReason {
    /// Another thread woke it; the signal is reset.
    Signalled,
    /// A descriptor is readable or has failed.
    Ready,
    /// The time-out expired, or a signal arrived.
    Timeout,
}

/// Sleeps for one worker. Keeps its memory, so that a sleep does not allocate.
#[derive(Debug)]
pub struct Sleeper {
    waker: Waker,
    polled: Vec<libc::pollfd>,
}

impl Sleeper {
    /// A sleeper for `waker`.
    pub fn new(waker: Waker) -> Self {
        Sleeper { waker, polled: Vec::new() }
    }

    /// Sleeps until a descriptor is readable, the waker is signalled, or `timeout` expires (never for [`Nanos::MAX`]). Descriptors that cannot be
    /// polled (regular files) count as readable.
    pub fn sleep<'fd>(
        &mut self,
        descriptors: impl IntoIterator<Item = BorrowedFd<'fd>>,
        timeout: Nanos,
    ) -> io::Result<WakeReason> {
        self.sleep_on(descriptors.into_iter().map(|fd| fd.as_raw_fd()), timeout)
    }

    /// Like [`Sleeper::sleep`], by the numbers of descriptors, as a worker's ports provide them. A closed descriptor counts as readable.
    pub fn sleep_on(&mut self, descriptors: impl IntoIterator<Item = RawFd>, timeout: Nanos) -> io::Result<WakeReason> {
        let entry = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        self.polled.clear();
        self.polled.push(entry(self.waker.as_fd().as_raw_fd()));
        self.polled.extend(descriptors.into_iter().map(entry));
        let limit = libc::timespec {
            tv_sec: (timeout.get() / 1_000_000_000) as libc::time_t,
            tv_nsec: (timeout.get() % 1_000_000_000) as libc::c_long,
        };
        let limit = if timeout == Nanos::MAX { ptr::null() } else { &raw const limit };
        // SAFETY: `polled` holds as many initialised entries as stated; `limit` is null or points to a timespec that outlives the call; a null signal
        // mask is allowed.
        let ready =
            unsafe { libc::ppoll(self.polled.as_mut_ptr(), self.polled.len() as libc::nfds_t, limit, ptr::null()) };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(WakeReason::Timeout) } else { Err(error) };
        }
        Ok(if self.polled[0].revents != 0 && self.waker.reset() {
            WakeReason::Signalled
        } else if ready == 0 {
            WakeReason::Timeout
        } else {
            WakeReason::Ready
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn wakeup_before_sleep_is_not_lost_and_counts_once() {
        let waker = Waker::new().unwrap();
        let mut sleeper = Sleeper::new(waker.clone());
        waker.wake();
        waker.wake();
        assert_eq!(sleeper.sleep([], Nanos::MAX).unwrap(), WakeReason::Signalled);
        assert_eq!(sleeper.sleep([], Nanos::ZERO).unwrap(), WakeReason::Timeout);
    }

    #[test]
    fn another_thread_wakes_a_sleeper_without_a_timeout() {
        let waker = Waker::new().unwrap();
        let mut sleeper = Sleeper::new(waker.clone());
        let ringer = thread::spawn(move || waker.wake());
        assert_eq!(sleeper.sleep([], Nanos::MAX).unwrap(), WakeReason::Signalled);
        ringer.join().unwrap();
    }

    #[test]
    fn a_readable_descriptor_ends_the_sleep() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut sleeper = Sleeper::new(Waker::new().unwrap());
        assert_eq!(sleeper.sleep([reader.as_fd()], Nanos::micros(10)).unwrap(), WakeReason::Timeout);
        write(&writer, b"x").unwrap();
        assert_eq!(sleeper.sleep([reader.as_fd()], Nanos::MAX).unwrap(), WakeReason::Ready);
    }
}
