//! Wakeup of a sleeping worker. A worker or thread that hands something to it unparks it. If the worker is awake, this costs no system call.
//!
//! The protocol: the sleeper announces that it sleeps, then checks once more for work. The other side hands over, then checks whether the
//! sleeper sleeps. Both sides have a full fence between the two halves, so at least one of them sees the other (Dekker 1965): either the work is
//! found, or the sleeper is woken. `make loom` tries every interleaving.

use super::sync::{AtomicBool, Ordering, fence};
use std::fmt;
use std::sync::OnceLock;

/// Wakes a sleeping worker.
pub type WakeFn = Box<dyn Fn() + Send + Sync>;

/// The parking place of one worker.
#[derive(Default)]
pub(crate) struct Parker {
    asleep: AtomicBool,
    wake: OnceLock<WakeFn>,
}

impl Parker {
    /// Sets how to wake the worker. Only the first call counts.
    pub fn set_wake(&self, wake: WakeFn) {
        let _ = self.wake.set(wake);
    }

    /// Wakes the worker even if it does not sleep yet: it may be about to.
    pub fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    /// Something was handed over. Costs only a fence if the worker is awake.
    #[inline]
    pub fn unpark(&self) {
        // Orders the caller's hand-over before the load. Without it both sides could miss each other.
        fence(Ordering::SeqCst);
        // The load keeps the common case free of atomic writes. The swap lets only one of several threads wake the worker.
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.wake();
        }
    }

    /// The worker is about to sleep. It must check for work once more after this.
    pub fn prepare_park(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        // Orders the announcement before the last check for work: the counterpart of the fence in `unpark`.
        fence(Ordering::SeqCst);
    }

    /// The worker is awake.
    pub fn end_park(&self) {
        // Without a fence: if another thread still reads true, it wakes the worker in vain.
        self.asleep.store(false, Ordering::Relaxed);
    }
}

impl fmt::Debug for Parker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.asleep.load(Ordering::Relaxed) { "Parker of a sleeper" } else { "Parker" })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    #[test]
    fn sleeping_worker_is_woken_exactly_once() {
        let (bell, rung) = (Parker::default(), Arc::new(AtomicUsize::new(0)));
        let counter = rung.clone();
        bell.set_wake(Box::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        }));
        bell.unpark();
        assert_eq!(rung.load(Ordering::Relaxed), 0);
        bell.prepare_park();
        bell.unpark();
        bell.unpark();
        assert_eq!(rung.load(Ordering::Relaxed), 1);
        bell.prepare_park();
        bell.end_park();
        bell.unpark();
        assert_eq!(rung.load(Ordering::Relaxed), 1);
    }

    /// One thread hands over numbers, the other sleeps when it finds none. If a wakeup were lost, it would sleep for ever.
    #[test]
    fn no_wakeup_is_lost() {
        const ROUNDS: usize = 20_000;
        let (bell, work) = (Arc::new(Parker::default()), Arc::new(AtomicUsize::new(0)));
        let sleeper = {
            let (bell, work) = (bell.clone(), work.clone());
            thread::spawn(move || {
                let mut done = 0;
                while done < ROUNDS {
                    bell.prepare_park();
                    if work.load(Ordering::Relaxed) > done {
                        bell.end_park();
                    } else {
                        thread::park();
                        bell.end_park();
                    }
                    done = work.load(Ordering::Relaxed);
                }
            })
        };
        let thread = sleeper.thread().clone();
        bell.set_wake(Box::new(move || thread.unpark()));
        for _ in 0..ROUNDS {
            work.fetch_add(1, Ordering::Relaxed);
            bell.unpark();
        }
        sleeper.join().unwrap();
        assert_eq!(work.load(Ordering::Relaxed), ROUNDS);
    }
}
