//! Several frames one after the other through a router in memory that advertises, redirects and reassembles: each has one
//! fate, and no state remains.
//! corpus: crates/plane/corpus/trains

#![no_main]

use plane::rig::{Rig, train};
use plane::snapshot::Layout;
use std::cell::RefCell;
use units::Nanos;

const CONFIG: &str = include_str!("../../crates/plane/tests/trains.toml");

// One router for all inputs, because building its tables costs more than a thousand frames. After each input enough time
// passes for all queues and timers to end, so that inputs hardly depend on each other.
thread_local! {
    static RIG: RefCell<Rig> = RefCell::new(Rig::running(1024, Layout::Three, CONFIG));
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    RIG.with_borrow_mut(|rig| {
        for (tenths, frame) in train::frames(bytes).take(16) {
            rig.advance(Nanos::millis(u64::from(tenths) * 100));
            rig.send("lan", &frame[..frame.len().min(packet::pool::FRAME)]);
            rig.settle();
        }
        rig.advance(Nanos::secs(70));
        rig.report();
        rig.received("lan");
        rig.received("wan");
    });
});
