//! The side of end systems for programs in C, and everything that can call C: `include/switchpath-state.h` says what each function
//! does, and a test holds it to what is here (adr/0048).
//!
//! Where C has a pointer that may be NULL there is an `Option` of a reference or a box here, which the language lays out alike; so only
//! bytes with a length are raw pointers, and [`bytes`] is the one place that looks at them.

mod bytes;
mod part;
mod rounds;
mod sealed;

pub use part::CPart;
pub use rounds::{COutcome, CSchedule};
