//! A queueing scheme's view of a link, and a small model of a link for tests. The files are those of the router.

#![no_std]
#![forbid(unsafe_code)]
// The built-in schemes use more of these files than a guest does.
#![allow(dead_code)]

extern crate alloc;

pub mod conformance;
mod inspect;
pub mod model;
mod wires;

pub use inspect::{Group, Tell};
pub use units::{SEGMENTS, Size};
pub use wires::{Ahead, Next, Progress, Record, Scheme, Trouble, Wires};
