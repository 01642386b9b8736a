//! Kernel hosts on both sides of a router that runs in its own thread. Their traffic arrives, with every kind of port and through all changes of the
//! interfaces.

#![allow(clippy::print_stdout)]

mod bridge;
mod dfq_wires;
mod hotplug;
mod mtu;
mod multicast;
mod passthrough;
mod queues;
mod removal_under_load;
mod reservation;
mod rig;
mod taps;
mod transfers;
mod tunnels;

use io::netns::Lab;

/// A laboratory, or a message that the test is skipped.
fn lab() -> Option<Lab> {
    Lab::new().inspect_err(|forbidden| println!("skipped: {forbidden}")).ok()
}
