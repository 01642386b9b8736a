//! Shares and subscribers on real interfaces, with the kernel's TCP at both ends.
//!
//! The router runs in this process between two network namespaces. The machine is shared with other programs, so each measurement is repeated up to
//! three times when the host did not let the router or the hosts run. The tests skip where network namespaces are forbidden.
//!
//! `SWITCHPATH_SUBSCRIBERS` is the number of measured subscribers: 20 by default, 100 in `make soak`.

#![allow(clippy::print_stdout)]

mod access;
mod bridge;
mod nat;
mod plans;
mod super_frames;
mod traffic;
