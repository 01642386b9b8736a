//! Guests: WebAssembly queueing schemes, packet functions, instructions and code options, with faults of every kind, and beside the same schemes in Rust.

#![allow(clippy::print_stdout)]

mod built;
mod conformance;
mod containment;
#[path = "../../../schemes/tests/described/mod.rs"]
mod described;
mod faults;
mod functions;
mod instructions;
mod invariants;
mod isolation;
mod replacement;
mod slices;
