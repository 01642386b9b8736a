//! Pairs of ports that are a piece of cable.

use crate::Name;
use serde::Serialize;
use std::fmt;

/// Two ports: every frame that comes by one leaves by the other.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PassThroughPlan {
    /// Their names, sorted.
    pub ports: [Name; 2],
}

impl fmt::Display for PassThroughPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {}", self.ports[0], self.ports[1])
    }
}
