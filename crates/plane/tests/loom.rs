//! The wakeup protocol of a sleeping worker, in every interleaving that the memory model allows: `make loom`. The test
//! includes the plane's own source file, with the model checker's atomics.

#![cfg(loom)]
// The model uses only a part of the included file.
#![allow(dead_code, missing_docs)]

mod sync {
    pub use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
}
#[path = "../src/parker.rs"]
mod parker;

use loom::sync::Arc;
use loom::thread;
use parker::Parker;
use sync::{AtomicU32, Ordering};

/// Workers hand work to one that is about to sleep. It finds all of it when it looks once more, or is woken; and once is
/// enough, however many there are.
fn hand_over_to_a_sleeper(colleagues: u32) {
    loom::model(move || {
        let parker = Arc::new(Parker::default());
        let (work, woken) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let counter = woken.clone();
        parker.set_wake(Box::new(move || _ = counter.fetch_add(1, Ordering::Relaxed)));
        let colleague = |_| {
            let (parker, work) = (parker.clone(), work.clone());
            thread::spawn(move || {
                work.fetch_add(1, Ordering::Relaxed);
                parker.unpark();
            })
        };
        let colleagues_at_work: Vec<_> = (0..colleagues).map(colleague).collect();
        parker.prepare_park();
        let found = work.load(Ordering::Relaxed);
        if found > 0 {
            parker.end_park();
        }
        colleagues_at_work.into_iter().for_each(|colleague| colleague.join().unwrap());
        let woken = woken.load(Ordering::Relaxed);
        assert!(found > 0 || woken == 1, "asleep, with work to do: woken {woken} times");
        assert!(woken <= 1, "woken {woken} times in one sleep");
    });
}

#[test]
fn no_wakeup_is_lost() {
    hand_over_to_a_sleeper(1);
}

#[test]
fn one_of_two_senders_wakes_a_sleeping_worker() {
    hand_over_to_a_sleeper(2);
}
