//! The limits of a run.

use super::configuration::BatchingRule;
use plan::{Batching, Charge};
use units::Nanos;

/// The limits of a run, as configured.
pub(super) struct RunLimits {
    pub rules: [BatchingRule; 3],
    pub strict: bool,
    pub work_conserving: bool,
    /// The classification budget: the time to receive and classify a packet.
    pub budget: Option<Nanos>,
    pub max_wait: Option<Nanos>,
    pub vector: Option<u32>,
    /// True if functions have tasks of their own, in which no port is called.
    pub separate_forwarding: bool,
    pub charge: Charge,
}

impl Default for RunLimits {
    fn default() -> RunLimits {
        RunLimits {
            rules: [BatchingRule::of(Batching::default()); 3],
            strict: false,
            work_conserving: true,
            budget: None,
            max_wait: None,
            vector: None,
            separate_forwarding: true,
            charge: Charge::None,
        }
    }
}
