//! The path instances of a worker: one for each path at each port.

use crate::classify::Target;
use crate::path::Instance;

/// The instances, by target.
#[derive(Default)]
pub(super) struct Instances(Vec<Instance>);

impl Instances {
    /// The instance `target`. None for a target without an instance, such as [`REFUSED`](crate::classify::REFUSED).
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
        // Never truncated: `add_instance` panics before the number of instances reaches the reserved targets.
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
