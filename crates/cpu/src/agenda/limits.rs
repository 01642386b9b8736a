//! How much a run may do.

use super::rules::Rule;
use plan::{Batching, Charge};
use units::Nanos;

/// How much a run may do, as the configuration says.
pub(super) struct Limits {
    pub rules: [Rule; 3],
    pub strict: bool,
    pub harvest: bool,
    /// The time that receiving and classifying a packet may take.
    pub budget: Option<Nanos>,
    pub max_wait: Option<Nanos>,
    pub vector: Option<u32>,
    /// Functions have tasks of their own, in which no port is called on.
    pub apart: bool,
    pub charge: Charge,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            rules: [Rule::of(Batching::default()); 3],
            strict: false,
            harvest: true,
            budget: None,
            max_wait: None,
            vector: None,
            apart: true,
            charge: Charge::None,
        }
    }
}
