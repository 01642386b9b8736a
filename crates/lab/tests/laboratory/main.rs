//! The laboratory as a user has it, by way of `switchpath`: kits of guests, worlds in virtual time, measurements.

mod examples;
mod kits;
mod measured;
#[allow(dead_code, reason = "the tests of the router use the rest")]
#[path = "../../../cli/tests/binary/rig.rs"]
mod rig;
mod worlds;
