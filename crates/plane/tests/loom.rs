//! The wakeup protocol of a sleeping worker, in every interleaving that the memory model allows: `make loom`. The test
//! includes the plane's own source file, with the model checker's atomics.

#![cfg(loom)]
// The model uses only a part of the included file.
#![allow(dead_code, missing_docs)]

mod sync {
    pub use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
}
#[path = "../src/bell.rs"]
mod bell;

use bell::Bell;
use loom::sync::Arc;
use loom::thread;
use sync::{AtomicU32, Ordering};

/// Workers hand work to one that is about to sleep. It finds all of it when it looks once more, or is woken; and once is
/// enough, however many there are.
fn hand_over_to_a_sleeper(colleagues: u32) {
    loom::model(move || {
        let bell = Arc::new(Bell::default());
        let (work, rung) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let counter = rung.clone();
        bell.hang(Box::new(move || _ = counter.fetch_add(1, Ordering::Relaxed)));
        let colleague = |_| {
            let (bell, work) = (bell.clone(), work.clone());
            thread::spawn(move || {
                work.fetch_add(1, Ordering::Relaxed);
                bell.ring();
            })
        };
        let colleagues_at_work: Vec<_> = (0..colleagues).map(colleague).collect();
        bell.lie_down();
        let found = work.load(Ordering::Relaxed);
        if found > 0 {
            bell.get_up();
        }
        colleagues_at_work.into_iter().for_each(|colleague| colleague.join().unwrap());
        let rung = rung.load(Ordering::Relaxed);
        assert!(found > 0 || rung == 1, "asleep, with work to do: rung {rung} times");
        assert!(rung <= 1, "rung {rung} times in one sleep");
    });
}

#[test]
fn no_work_is_slept_through() {
    hand_over_to_a_sleeper(1);
}

#[test]
fn of_two_who_hand_over_to_a_sleeper_one_wakes_it() {
    hand_over_to_a_sleeper(2);
}
