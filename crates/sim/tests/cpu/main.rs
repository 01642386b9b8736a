//! How the processor is divided, in whole worlds: what Qie, Bavier, Peterson and Karlin ask of a scheduler (section 3.2 of
//! their paper) and of the batching throttle, for work that chance has made.
//!
//! Conservation, order, work conservation and fairness are checked by every run itself.

// What was found is printed, for `--nocapture`.
#![allow(clippy::print_stdout)]

#[path = "../world/common.rs"]
mod common;

mod contract;
mod costs;
mod estimator;
mod kept;
mod preempted;
mod stages;
mod switching;
mod throttle;
mod worlds;
