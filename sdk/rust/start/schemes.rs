//! What a queueing scheme sees of a link, and a link in a few lines to try one on: files of the router's own.

#![no_std]
#![forbid(unsafe_code)]
// The router's built-in schemes need more of them than a guest does.
#![allow(dead_code)]

extern crate alloc;

pub mod model;
mod seen;
pub mod trial;
mod wires;

pub use seen::{Group, Tell};
pub use units::{SEGMENTS, Size};
pub use wires::{Ahead, Next, Progress, Record, Scheme, Trouble, Wires};
