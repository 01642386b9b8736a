//! A batch of changes to a router in memory. An error names its line and changes nothing. Otherwise the routes and neighbours are those
//! of the lines, and removing them leaves none.
//! corpus: crates/plane/corpus/batches

#![no_main]

use fib::TableLimits;
use libfuzzer_sys::Corpus;
use packet::event::Silent;
use plane::rig::{Rig, edits};
use plane::snapshot::Layout;
use std::cell::RefCell;

const CONFIG: &str = include_str!("../../crates/plane/tests/batches.toml");

// One router for all inputs, because building its tables costs more than a thousand batches. Its tables are small, so
// that they sometimes fill up.
fn router() -> Rig {
    let limits = TableLimits { routes: 64, ..TableLimits::default() };
    let mut rig = Rig::with_limits(64, Layout::Three, limits, Box::new(Silent));
    rig.apply(CONFIG).unwrap_or_else(|errors| panic!("{errors:?}"));
    rig.settle();
    rig
}

thread_local! {
    static RIG: RefCell<Rig> = RefCell::new(router());
}

libfuzzer_sys::fuzz_target!(|file: &[u8]| -> Corpus {
    let Ok(source) = std::str::from_utf8(file) else { return Corpus::Reject };
    RIG.with_borrow_mut(|rig| edits::exercise(rig, source));
    Corpus::Keep
});
