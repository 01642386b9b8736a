//! What a queueing scheme sees of a link, and a link in a few lines to try one on: three files of the router's own.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod model;
pub mod trial;
mod wires;

pub use wires::{Ahead, Next, Progress, Record, Scheme, Size, Trouble, Wires};
