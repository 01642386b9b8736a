//! The code options of slices on the data of a filter and a packet.
//! corpus: crates/slice/corpus/code

#![no_main]

use std::cell::RefCell;

thread_local! {
    static EXERCISE: RefCell<slice::code::CodeExercise> = RefCell::default();
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    EXERCISE.with_borrow_mut(|exercise| exercise.run(input));
});
