//! Queueing schemes: which packets wait on a link, which are dropped, which leave next.
//!
//! A scheme is written once against [`Wires`], its only interface, and has no access to packets, ports or clocks. The same source serves the router,
//! simulations and, compiled to WebAssembly, guests.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod aqm;
mod bins;
mod build;
mod cake;
mod chance;
pub mod conformance;
mod fifo;
#[cfg(test)]
mod growth;
#[cfg(test)]
mod laws;
pub mod model;
mod options;
mod orders;
mod seen;
#[cfg(test)]
mod segments;
mod shape;
mod sharing;
mod single;
mod stage;
mod tree;
pub mod trial;
mod wires;

pub use build::{DECLARATIONS, build, build_for};
pub use options::{BuildError, Layer, Options};
pub use orders::ORDERS;
pub use seen::{Group, Tell};
pub use sharing::Sharing;
pub use units::{SEGMENTS, Size};
pub use wires::{Ahead, Next, Progress, Record, Scheme, Trouble, Wires};
