//! Wakeup of a sleeping worker. A worker or thread that hands something to it rings its bell. If the worker is awake, this costs no system call.
//!
//! The protocol: the sleeper announces that it sleeps, then checks once more for work. The other side hands over, then checks whether the
//! sleeper sleeps. Both sides have a full fence between the two halves, so at least one of them sees the other (Dekker 1965): either the work is
//! found, or the bell is rung. `make loom` tries every interleaving.

use super::sync::{AtomicBool, Ordering, fence};
use std::fmt;
use std::sync::OnceLock;

/// Wakes a sleeping worker.
pub type Nudge = Box<dyn Fn() + Send + Sync>;

/// The bell of one worker.
#[derive(Default)]
pub(crate) struct Bell {
    asleep: AtomicBool,
    nudge: OnceLock<Nudge>,
}

impl Bell {
    /// Sets how to wake the worker. Only the first call counts.
    pub fn hang(&self, nudge: Nudge) {
        let _ = self.nudge.set(nudge);
    }

    /// Wakes the worker even if it does not sleep yet: it may be about to.
    pub fn nudge(&self) {
        if let Some(nudge) = self.nudge.get() {
            nudge();
        }
    }

    /// Something was handed over. Costs only a fence if the worker is awake.
    #[inline]
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        // The load keeps the common case free of atomic writes. The swap lets only one of several ringers wake the worker.
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.nudge();
        }
    }

    /// The worker is about to sleep. It must check for work once more after this.
    pub fn lie_down(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The worker is awake.
    pub fn get_up(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.asleep.load(Ordering::Relaxed) { "Bell of a sleeper" } else { "Bell" })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    #[test]
    fn only_a_sleeper_is_woken_and_only_once() {
        let (bell, rung) = (Bell::default(), Arc::new(AtomicUsize::new(0)));
        let counter = rung.clone();
        bell.hang(Box::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        }));
        bell.ring();
        assert_eq!(rung.load(Ordering::Relaxed), 0);
        bell.lie_down();
        bell.ring();
        bell.ring();
        assert_eq!(rung.load(Ordering::Relaxed), 1);
        bell.lie_down();
        bell.get_up();
        bell.ring();
        assert_eq!(rung.load(Ordering::Relaxed), 1);
    }

    /// One thread hands over numbers, the other sleeps when it finds none. If a wakeup were lost, it would sleep for ever.
    #[test]
    fn no_work_is_slept_through() {
        const ROUNDS: usize = 20_000;
        let (bell, work) = (Arc::new(Bell::default()), Arc::new(AtomicUsize::new(0)));
        let sleeper = {
            let (bell, work) = (bell.clone(), work.clone());
            thread::spawn(move || {
                let mut done = 0;
                while done < ROUNDS {
                    bell.lie_down();
                    if work.load(Ordering::Relaxed) > done {
                        bell.get_up();
                    } else {
                        thread::park();
                        bell.get_up();
                    }
                    done = work.load(Ordering::Relaxed);
                }
            })
        };
        let thread = sleeper.thread().clone();
        bell.hang(Box::new(move || thread.unpark()));
        for _ in 0..ROUNDS {
            work.fetch_add(1, Ordering::Relaxed);
            bell.ring();
        }
        sleeper.join().unwrap();
        assert_eq!(work.load(Ordering::Relaxed), ROUNDS);
    }
}
