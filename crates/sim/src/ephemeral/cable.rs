//! A bump in the wire that executes instructions, between two hosts whose kernels talk by TCP (spec E-40, E-X16). Only in a laboratory: what is asked is whether
//! the kernels notice.

use super::quantity;
use serde::Deserialize;
use units::{Nanos, Rate};

/// What goes over the cable.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Whether there is anything between the hosts but a cable.
    pub bump: bool,
    /// What the TCP sender has to send.
    #[serde(deserialize_with = "quantity")]
    pub rate: Rate,
    /// Of a hundred packets so many with instructions.
    pub load: u64,
    /// Tells this run from others that are like it.
    pub seed: u64,
    /// For how long.
    #[serde(deserialize_with = "quantity")]
    pub duration: Nanos,
}
