//! Slices on real packets.

#![allow(clippy::print_stdout)]

mod forward;
mod isolation;
mod site;
