//! Queueing schemes: which packets wait on a link, which are dropped, which leaves next.
//!
//! A scheme is written once against [`Wires`], its only window on the world, and knows neither packets nor ports nor
//! clocks. The same source serves the plane, a simulation and, compiled to WebAssembly, a guest.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod build;
mod fifo;
#[cfg(test)]
mod model;
mod priority;
mod wires;

pub use build::{DECLARATIONS, Options, Unknown, build};
pub use fifo::Fifo;
pub use priority::Priority;
pub use wires::{Next, Progress, Record, Scheme, Size, Wires};
