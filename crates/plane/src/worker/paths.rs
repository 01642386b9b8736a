//! The paths of a worker: an instance of each at each port.

use super::adoption::Common;
use crate::aside::{Asides, Virtual};
use crate::classify::{Dispatch, Target};
use crate::multicast::GroupCounters;
use crate::path::Instance;
use std::collections::BTreeMap;
use units::TaskId;

/// The instances, by target.
#[derive(Default)]
pub(super) struct Instances(Vec<Instance>);

impl Instances {
    /// The instance `target`; nothing where there is none, as for packets that are refused.
    #[inline(always)]
    pub fn get(&self, target: Target) -> Option<&Instance> {
        self.0.get(usize::from(target))
    }

    #[inline(always)]
    pub fn get_mut(&mut self, target: Target) -> Option<&mut Instance> {
        self.0.get_mut(usize::from(target))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Instance> {
        self.0.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Instance> {
        self.0.iter_mut()
    }

    /// The target of the instance that is added next.
    pub fn next_target(&self) -> Target {
        self.0.len() as Target
    }

    pub fn targets(&self) -> std::ops::Range<Target> {
        0..self.next_target()
    }

    pub fn push(&mut self, instance: Instance) {
        self.0.push(instance);
    }

    pub fn drain(&mut self) -> impl Iterator<Item = Instance> + '_ {
        self.0.drain(..)
    }
}

/// See the [module](self).
pub(super) struct Paths {
    /// By target.
    pub instances: Instances,
    pub dispatch: Dispatch,
    /// The tasks that run functions, by what they have in common.
    pub forwarders: BTreeMap<Common, TaskId>,
    /// What came to the groups of the snapshot, in the order of their routes.
    pub groups: Vec<GroupCounters>,
    /// The instances that have got packets in this vector.
    pub touched: Vec<Target>,
    /// Who makes those who run functions that are interrupted when their slice is over.
    pub asides: Box<dyn Asides>,
}

impl Default for Paths {
    fn default() -> Paths {
        Paths {
            instances: Instances::default(),
            dispatch: Dispatch::default(),
            forwarders: BTreeMap::new(),
            groups: Vec::new(),
            touched: Vec::with_capacity(16),
            asides: Box::new(Virtual),
        }
    }
}
