//! The schemes at the leaves: made when first needed, lent to a leaf while it has packets, and given to another leaf when it is idle.

use super::node::NONE;
use crate::options::BuildError;
use crate::stage::{self, Stage};
use crate::{Layer, Wires};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;
use units::declare::OptionValue;

/// The steps of one search for an idle scheme, which bound the time of a packet.
const STEPS: usize = 64;

/// A layer that owns its names and options: each leaf's scheme is built from it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct OwnedLayer {
    name: String,
    options: Vec<OptionValue>,
    inside: Vec<OwnedLayer>,
}

impl OwnedLayer {
    pub fn of(layer: &Layer<'_>) -> OwnedLayer {
        OwnedLayer {
            name: layer.name.to_string(),
            options: layer.options.to_vec(),
            inside: layer.inside.iter().map(OwnedLayer::of).collect(),
        }
    }

    fn layer(&self) -> Layer<'_> {
        Layer { name: &self.name, options: &self.options, inside: self.inside.iter().map(OwnedLayer::layer).collect() }
    }
}

/// Builds the scheme of a leaf.
pub(crate) type MakeStage<W> = fn(&Layer<'_>) -> Result<Box<dyn Stage<W>>, BuildError>;

/// A scheme, and the leaf that has it.
pub(super) struct LeafScheme<W> {
    pub stage: Box<dyn Stage<W>>,
    /// The node of the leaf.
    pub node: u32,
    /// It holds packets.
    pub busy: bool,
    /// It held packets since the search came by.
    used: bool,
}

/// See the [module](self).
pub(super) struct LeafSchemes<W> {
    layer: OwnedLayer,
    make: MakeStage<W>,
    schemes: Vec<LeafScheme<W>>,
    /// The most schemes, and the queues of each.
    most: u32,
    queues: u32,
    /// The schemes that hold packets.
    busy: u32,
    /// The position at which the next search for an idle scheme begins.
    hand: usize,
}

impl<W: Wires + 'static> LeafSchemes<W> {
    pub fn new(layer: &Layer<'_>, most: u32, make: MakeStage<W>) -> Result<LeafSchemes<W>, BuildError> {
        let queues = make(layer)?.queues();
        let layer = OwnedLayer::of(layer);
        Ok(LeafSchemes { layer, make, schemes: Vec::new(), most, queues, busy: 0, hand: 0 })
    }

    pub fn queues(&self) -> u32 {
        self.queues.saturating_mul(self.most)
    }

    pub fn layer(&self) -> &OwnedLayer {
        &self.layer
    }

    pub fn most(&self) -> u32 {
        self.most
    }

    /// The scheme that has this queue.
    pub fn of_queue(&self, queue: u32) -> Option<&LeafScheme<W>> {
        self.schemes.get((queue / self.queues.max(1)) as usize)
    }

    /// The queues of a scheme.
    pub fn range(&self, number: u32) -> Range<u32> {
        self.get(number).map_or(0..0, |_| number * self.queues..(number + 1) * self.queues)
    }

    #[inline(always)]
    pub fn get(&self, number: u32) -> Option<&LeafScheme<W>> {
        self.schemes.get(number as usize)
    }

    #[inline(always)]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut LeafScheme<W>> {
        self.schemes.get_mut(number as usize)
    }

    /// The number of schemes made so far.
    pub fn made(&self) -> usize {
        self.schemes.len()
    }

    /// Sets whether a scheme holds packets.
    #[inline(always)]
    pub fn set_busy(&mut self, number: u32, busy: bool) {
        if let Some(scheme) = self.schemes.get_mut(number as usize) {
            self.busy = self.busy + u32::from(busy) - u32::from(scheme.busy);
            scheme.busy = busy;
            scheme.used |= busy;
        }
    }

    /// True if no scheme holds packets.
    #[inline(always)]
    pub fn are_idle(&self) -> bool {
        self.busy == 0
    }

    /// A scheme for a leaf: one that was idle for some time, or a new one. Returns its number, and the node that had it before. None if all hold packets.
    #[cold]
    pub fn lend(&mut self, node: u32) -> Option<(u32, u32)> {
        let may_grow = self.schemes.len() < self.most as usize;
        // While new ones may be made, only a few steps: a leaf that has just become idle keeps the state of its scheme.
        for _ in 0..if may_grow { 4 } else { STEPS }.min(2 * self.schemes.len()) {
            let number = self.hand;
            self.hand = if self.hand + 1 < self.schemes.len() { self.hand + 1 } else { 0 };
            let scheme = &mut self.schemes[number];
            if scheme.busy || core::mem::take(&mut scheme.used) {
                continue;
            }
            let before = core::mem::replace(&mut scheme.node, node);
            scheme.stage.reset();
            return Some((number as u32, before));
        }
        let number = self.schemes.len() as u32;
        let mut stage = (self.make)(&self.layer.layer()).ok().filter(|_| may_grow)?;
        stage.begin_at(number * self.queues);
        self.schemes.push(LeafScheme { stage, node, busy: false, used: false });
        Some((number, NONE))
    }

    /// True if the schemes need hashes of flows, and true if they need hashes of hosts.
    pub fn wants(&self) -> (bool, bool) {
        let stage = (self.make)(&self.layer.layer());
        stage.map_or((false, false), |stage| (stage.wants_flow_hash(), stage.wants_hosts()))
    }

    /// Gives all schemes the parameters of another of the same kind. False if they differ in more.
    pub fn tune(&mut self, layer: &OwnedLayer, wires: &W) -> bool {
        let Ok(other) = (self.make)(&layer.layer()) else { return false };
        let tuned = self.schemes.iter_mut().all(|scheme| stage::tune(&mut *scheme.stage, &*other, wires));
        // Schemes made later must be of the same kind as well, also if there is none yet.
        let mut fresh = (self.make)(&self.layer.layer());
        let like = fresh.as_mut().is_ok_and(|fresh| stage::tune(&mut **fresh, &*other, wires));
        if tuned && like {
            self.layer = layer.clone();
        }
        tuned && like
    }

    /// The leaf of a scheme was removed. It holds no packets.
    pub fn free(&mut self, number: u32) {
        if let Some(scheme) = self.schemes.get_mut(number as usize) {
            self.busy -= u32::from(scheme.busy);
            (scheme.node, scheme.busy, scheme.used) = (NONE, false, false);
        }
    }
}
