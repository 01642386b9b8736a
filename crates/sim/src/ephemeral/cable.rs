//! A pass-through port that executes instructions, between two hosts whose kernels speak TCP (spec E-40, E-X16). It runs only in a laboratory: the
//! experiment asks if the kernels notice.

use super::quantity;
use serde::Deserialize;
use units::{Nanos, Rate};

/// The traffic over the cable.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct CablePlan {
    /// True if a router with pass-through ports is between the hosts, false for a plain cable.
    pub bump: bool,
    /// The sending rate of the TCP sender.
    #[serde(deserialize_with = "quantity")]
    pub rate: Rate,
    /// The percentage of packets with instructions.
    pub load: u64,
    /// Distinguishes this run from repetitions.
    pub seed: u64,
    /// How long it runs.
    #[serde(deserialize_with = "quantity")]
    pub duration: Nanos,
}
