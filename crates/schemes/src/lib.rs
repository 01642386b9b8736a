//! Queueing schemes: which packets wait on a link, which are dropped, which leaves next.
//!
//! A scheme is written once against [`Wires`], its only window on the world, and knows neither packets nor ports nor
//! clocks. The same source serves the plane, a simulation and, compiled to WebAssembly, a guest.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod aqm;
mod bins;
mod build;
mod chance;
mod fifo;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod model;
mod options;
mod orders;
mod single;
mod wires;

pub use build::{DECLARATIONS, build};
pub use options::{Options, Unknown};
pub use orders::ORDERS;
pub use wires::{Next, Progress, Record, Scheme, Size, Wires};
