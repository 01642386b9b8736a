//! The limits of a run.

use super::rules::Rule;
use plan::{Batching, Charge};
use units::Nanos;

/// The limits of a run, as configured.
pub(super) struct Limits {
    pub rules: [Rule; 3],
    pub strict: bool,
    pub work_conserving: bool,
    /// The classification budget: the time to receive and classify a packet.
    pub budget: Option<Nanos>,
    pub max_wait: Option<Nanos>,
    pub vector: Option<u32>,
    /// True if functions have tasks of their own, in which no port is called.
    pub apart: bool,
    pub charge: Charge,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            rules: [Rule::of(Batching::default()); 3],
            strict: false,
            work_conserving: true,
            budget: None,
            max_wait: None,
            vector: None,
            apart: true,
            charge: Charge::None,
        }
    }
}
