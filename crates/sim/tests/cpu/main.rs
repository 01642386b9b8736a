//! The division of the processor, in whole worlds with random loads: the requirements of Qie, Bavier, Peterson and Karlin for a scheduler (section
//! 3.2 of their paper) and for the batching throttle.
//!
//! Every run checks conservation, order, work conservation and fairness by itself.

// Results are printed, for `--nocapture`.
#![allow(clippy::print_stdout)]

#[path = "../world/common.rs"]
mod common;

mod contract;
mod costs;
mod estimator;
mod preemption;
mod reservations;
mod stages;
mod switching;
mod throttle;
mod worlds;
