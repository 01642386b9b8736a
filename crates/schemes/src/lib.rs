//! Queueing schemes: which packets wait on a link, which are dropped, which leave next.
//!
//! A scheme is written once against [`Wires`], its only interface, and has no access to packets, ports or clocks. The same source serves the router,
//! simulations and, compiled to WebAssembly, guests.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod aqm;
mod build;
mod cake;
#[cfg(test)]
mod complexity;
pub mod conformance;
pub mod dfq;
mod disciplines;
mod fifo;
mod inspect;
#[cfg(test)]
mod invariants;
mod lfsr;
pub mod model;
mod options;
pub mod recordings;
mod sched;
#[cfg(test)]
mod segments;
mod shape;
mod share;
mod share_memory;
mod sharing;
mod single;
mod stage;
mod tree;
mod wires;

pub use build::{DECLARATIONS, build, build_for};
pub use disciplines::ORDERS;
pub use inspect::{Group, Tell};
pub use options::{BuildError, Layer, OptionValues};
pub use share::{ShareEdit, ShareEdits, ShareParameters};
pub use share_memory::share_memory;
pub use sharing::Sharing;
pub use units::{SEGMENTS, Size};
pub use wires::{Ahead, Next, Progress, Record, Scheme, Trouble, Wires};
