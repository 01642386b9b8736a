//! A generation that is ready to be published, or the reason why it is not.

use super::Names;
use super::config_routes::{Gateways, Routes};
use super::flow_plans::FlowPlans;
use super::opener::ApplyError;
use super::sets::SetChanges;
use super::shares::SharePlans;
use crate::snapshot::Snapshot;
use crate::worker::WorkerChange;
use plan::Plan;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use units::{InterfaceId, Mac};

/// A generation ready to be published.
pub struct Prepared {
    pub(super) plan: Arc<Plan>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) changes: Vec<WorkerChange>,
    pub(super) names: Names,
    pub(super) routes: Routes,
    pub(super) gateways: Gateways,
    pub(super) statics: HashMap<(InterfaceId, IpAddr), Mac>,
    pub(super) sets: SetChanges,
    pub(super) shares: SharePlans,
    pub(super) flows: FlowPlans,
    /// Ports whose devices can overflow their stores.
    pub(super) overflowing: Vec<ApplyError>,
    /// True if these ports or their numbers differ from those of the running generation.
    pub(super) overflow_changed: bool,
}

impl Prepared {
    /// Warnings about a configuration that can run nevertheless.
    pub fn advisories(&self) -> impl Iterator<Item = String> + '_ {
        let ports = if self.overflow_changed { &self.overflowing[..] } else { &[] };
        // One warning for all ports, because on a router with many ports it mostly concerns all.
        let (first, more) = (ports.first(), ports.len().saturating_sub(1));
        let sets = self.sets.warnings.iter().chain(&self.shares.warnings).chain(&self.flows.warnings).cloned();
        let overflow = first.into_iter().map(move |first| match more {
            0 => first.to_string(),
            1 => format!("{first} (and the same for another port)"),
            _ => format!("{first} (and the same for {more} other ports)"),
        });
        overflow.chain(sets)
    }

    /// Refuses the generation if a store may overflow and the configuration is strict.
    pub(super) fn refuse_overflow(self) -> Result<Prepared, Vec<ApplyError>> {
        let strict = self.plan.state.as_ref().is_some_and(|state| state.strict);
        if strict && !self.overflowing.is_empty() { Err(self.overflowing) } else { Ok(self) }
    }
}
