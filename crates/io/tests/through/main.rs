//! Hosts of the kernel on both sides of a router of ours that runs in a thread of its own: what they say to each other
//! arrives, whatever the ports are and whatever happens to the interfaces.

#![allow(clippy::print_stdout)]

mod flooded;
mod mtu;
mod multicast;
mod passthrough;
mod queues;
mod reserved;
mod revival;
mod rig;
mod taps;
mod transfers;

use io::netns::Lab;

/// A laboratory, or a word on why the test is skipped.
fn lab() -> Option<Lab> {
    Lab::new().inspect_err(|forbidden| println!("skipped: {forbidden}")).ok()
}
