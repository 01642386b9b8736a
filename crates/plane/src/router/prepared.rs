//! A generation that is ready to be published, and why one is not.

use super::Names;
use super::desired::{Gateways, Routes};
use crate::snapshot::Snapshot;
use crate::worker::Change;
use plan::Plan;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use units::{InterfaceId, Mac};

/// Why a configuration cannot run here and now. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApplyError {
    /// What of the configuration: `port lan`.
    pub place: String,
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub hint: String,
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.reason, self.hint)
    }
}

impl std::error::Error for ApplyError {}

/// A generation ready to be published.
pub struct Prepared {
    pub(super) plan: Arc<Plan>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) changes: Vec<Change>,
    pub(super) names: Names,
    pub(super) routes: Routes,
    pub(super) gateways: Gateways,
    pub(super) statics: HashMap<(InterfaceId, IpAddr), Mac>,
    /// Ports whose devices can overflow their stores.
    pub(super) overflowing: Vec<ApplyError>,
    /// Whether these are others than before, or by other numbers.
    pub(super) overflow_anew: bool,
}

impl Prepared {
    /// What whoever wants it should know, and that it can run all the same.
    pub fn remarks(&self) -> impl Iterator<Item = String> + '_ {
        let ports = if self.overflow_anew { &self.overflowing[..] } else { &[] };
        // One for all: on a router of many ports it is mostly true of all.
        let (first, more) = (ports.first(), ports.len().saturating_sub(1));
        first.into_iter().map(move |first| match more {
            0 => first.to_string(),
            1 => format!("{first} (so it is with another port)"),
            _ => format!("{first} (so it is with {more} other ports)"),
        })
    }

    /// Refused where a store may overflow, and the plan says that none is to.
    pub(super) fn strictly(self) -> Result<Prepared, Vec<ApplyError>> {
        let strict = self.plan.state.as_ref().is_some_and(|state| state.strict);
        if strict && !self.overflowing.is_empty() { Err(self.overflowing) } else { Ok(self) }
    }
}
