//! Tests of the laboratory through `switchpath`: guest kits, worlds in virtual time, measurements.

mod examples;
mod guest_kits;
mod measurements;
#[allow(dead_code, reason = "the tests of the router use the rest")]
#[path = "../../../cli/tests/binary/rig.rs"]
mod rig;
mod worlds;
