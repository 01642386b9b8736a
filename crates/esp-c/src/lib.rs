//! The C interface for end systems. `include/switchpath-state.h` describes each function, and a test compares it with this crate (adr/0048).
//!
//! A pointer that may be NULL in C is an `Option` of a reference or a box here: Rust guarantees the same layout. So only byte buffers are raw
//! pointers, and only [`bytes`] dereferences them.

mod bytes;
mod part;
mod rounds;
mod sealed;

pub use part::CPart;
pub use rounds::{COutcome, CSchedule};
