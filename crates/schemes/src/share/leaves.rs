//! The schemes at the leaves: made when first needed, lent to a leaf while it has packets, and given to another leaf when it is idle.

use super::node::{NONE, Node};
use crate::options::BuildError;
use crate::stage::{self, Stage};
use crate::{Layer, Wires};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;
use units::declare::OptionValue;
use units::{Bytes, QueueId};

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

/// The queues and the scheme that a leaf has while it has packets. The scheme is made when the leaf first has two packets: most leaves of a link that is
/// not full have one at a time, which needs no scheme.
struct LeafScheme<W> {
    stage: Option<Box<dyn Stage<W>>>,
    /// The node of the leaf.
    node: u32,
}

/// See the [module](self).
pub(super) struct LeafSchemes<W> {
    layer: OwnedLayer,
    make: MakeStage<W>,
    schemes: Vec<LeafScheme<W>>,
    /// The most schemes, and the queues of each. The queues of lone packets come before those of all schemes, side by side.
    most: u32,
    queues: u32,
    /// A lone packet may leave without the scheme.
    passes_lone: bool,
    /// By node: the bytes of a leaf that has one queue instead of a scheme. Only as long as such leaves need it.
    limits: Vec<u32>,
    /// The leaves that have packets.
    busy: u32,
    /// The position at which the next search for an idle scheme begins.
    hand: usize,
}

/// True if a packet that arrives at an idle scheme, and leaves before any other arrives, needs no scheme.
fn passes_lone<W: Wires>(stage: &dyn Stage<W>) -> bool {
    // Otherwise a later packet of a higher class would wait for the first one.
    stage.passes_when_idle() && !stage.ranks_classes()
}

#[cold]
fn made<W: Wires>(make: MakeStage<W>, layer: &OwnedLayer, first: u32) -> Option<Box<dyn Stage<W>>> {
    let mut stage = make(&layer.layer()).ok()?;
    stage.begin_at(first);
    Some(stage)
}

impl<W: Wires + 'static> LeafSchemes<W> {
    pub fn new(layer: &Layer<'_>, most: u32, make: MakeStage<W>) -> Result<LeafSchemes<W>, BuildError> {
        let stage = make(layer)?;
        let (queues, passes_lone) = (stage.queues(), passes_lone(&*stage));
        let layer = OwnedLayer::of(layer);
        Ok(LeafSchemes {
            layer,
            make,
            schemes: Vec::new(),
            most,
            queues,
            passes_lone,
            limits: Vec::new(),
            busy: 0,
            hand: 0,
        })
    }

    pub fn queues(&self) -> u32 {
        self.queues.saturating_add(1).saturating_mul(self.most)
    }

    pub fn layer(&self) -> &OwnedLayer {
        &self.layer
    }

    pub fn most(&self) -> u32 {
        self.most
    }

    /// True if a lone packet of a leaf may leave without the leaf's scheme.
    #[inline(always)]
    pub fn passes_lone(&self) -> bool {
        self.passes_lone
    }

    /// The bytes that the own queue of a leaf holds.
    #[inline(always)]
    pub fn queue_limit(&self, leaf: u32) -> u64 {
        self.limits.get(leaf as usize).copied().unwrap_or(0).into()
    }

    /// Sets how many bytes the own queue of a leaf holds.
    pub fn set_queue_limit(&mut self, leaf: u32, limit: Bytes) {
        if limit == Bytes::ZERO {
            return;
        }
        if self.limits.len() <= leaf as usize {
            self.limits.resize(leaf as usize + 1, 0);
        }
        self.limits[leaf as usize] = u32::try_from(limit.get()).unwrap_or(u32::MAX);
    }

    /// The queue of the lone packet of a leaf with this scheme, or of all packets of a leaf with its own queue.
    #[inline(always)]
    pub fn lone_queue(&self, number: u32) -> QueueId {
        QueueId(number)
    }

    /// The scheme that has this queue.
    pub fn of_queue(&self, queue: u32) -> Option<&dyn Stage<W>> {
        self.get(queue.checked_sub(self.most)? / self.queues.max(1))
    }

    /// The queues of a scheme, without that of the lone packet.
    fn range(&self, number: u32) -> Range<u32> {
        let first = self.most + number * self.queues;
        first..first + self.queues
    }

    /// The queues of a leaf with this scheme.
    pub fn queues_of(&self, number: u32) -> impl Iterator<Item = QueueId> {
        let lent = self
            .schemes
            .get(number as usize)
            .map(|_| [self.lone_queue(number)].into_iter().chain(self.range(number).map(QueueId)));
        lent.into_iter().flatten()
    }

    /// A scheme, if it was made.
    #[inline(always)]
    pub fn get(&self, number: u32) -> Option<&dyn Stage<W>> {
        self.schemes.get(number as usize)?.stage.as_deref()
    }

    /// The node of the leaf that has a scheme.
    #[cfg(test)]
    pub fn node_of(&self, number: u32) -> u32 {
        self.schemes[number as usize].node
    }

    /// A leaf gives its scheme, with the packets, to another one.
    pub fn hand_over(&mut self, number: u32, leaf: u32) {
        if let Some(scheme) = self.schemes.get_mut(number as usize) {
            scheme.node = leaf;
        }
    }

    /// Counts the packets of a scheme anew. Returns the node of its leaf.
    pub fn recount(&mut self, number: u32, wires: &W) -> u32 {
        // The link may have put packets into the queues of a scheme that was not made yet.
        if self.range(number).any(|queue| wires.size(QueueId(queue)).packets > 0) {
            self.stage(number);
        }
        let Some(LeafScheme { stage, node }) = self.schemes.get_mut(number as usize) else { return NONE };
        stage.iter_mut().for_each(|stage| stage.recount(wires));
        *node
    }

    /// A scheme, made if it was not.
    #[inline(always)]
    pub fn stage(&mut self, number: u32) -> Option<&mut dyn Stage<W>> {
        let LeafSchemes { schemes, make, layer, most, queues, .. } = self;
        let scheme = schemes.get_mut(number as usize)?;
        if scheme.stage.is_none() {
            scheme.stage = made(*make, layer, *most + number * *queues);
        }
        scheme.stage.as_deref_mut().map(|stage| stage as _)
    }

    /// Prefetches the record of a scheme.
    #[inline(always)]
    pub fn fetch(&self, number: u32, wires: &W) {
        if let Some(scheme) = self.schemes.get(number as usize) {
            wires.prefetch(scheme);
        }
    }

    /// The number of schemes lent so far.
    pub fn lent(&self) -> usize {
        self.schemes.len()
    }

    /// Sets whether a leaf has packets.
    #[inline(always)]
    pub fn set_busy(&mut self, leaf: &mut Node, busy: bool) {
        self.busy = self.busy + u32::from(busy) - u32::from(leaf.busy);
        leaf.busy = busy;
        leaf.used |= busy;
    }

    /// True if no leaf has packets.
    #[inline(always)]
    pub fn are_idle(&self) -> bool {
        self.busy == 0
    }

    /// A scheme for a leaf: one that was idle for some time, or another one. Returns its number. None if all leaves that have one have packets.
    #[cold]
    pub fn lend(&mut self, nodes: &mut [Node], leaf: u32) -> Option<u32> {
        let may_grow = self.schemes.len() < self.most as usize;
        // While there may be more, only a few steps: a leaf that has just become idle keeps the state of its scheme.
        for _ in 0..if may_grow { 4 } else { STEPS }.min(2 * self.schemes.len()) {
            let number = self.hand;
            self.hand = if self.hand + 1 < self.schemes.len() { self.hand + 1 } else { 0 };
            let scheme = &mut self.schemes[number];
            if let Some(before) = nodes.get_mut(scheme.node as usize) {
                if before.busy || core::mem::take(&mut before.used) {
                    continue;
                }
                before.scheme = NONE;
            }
            scheme.node = leaf;
            if let Some(stage) = &mut scheme.stage {
                stage.reset();
            }
            return Some(number as u32);
        }
        if !may_grow {
            return None;
        }
        self.schemes.push(LeafScheme { stage: None, node: leaf });
        Some(self.schemes.len() as u32 - 1)
    }

    /// True if the schemes need hashes of flows, and true if they need hashes of hosts.
    pub fn wants(&self) -> (bool, bool) {
        let stage = (self.make)(&self.layer.layer());
        stage.map_or((false, false), |stage| (stage.wants_flow_hash(), stage.wants_hosts()))
    }

    /// Gives all schemes the parameters of another of the same kind. False if they differ in more.
    pub fn tune(&mut self, layer: &OwnedLayer, wires: &W) -> bool {
        let Ok(other) = (self.make)(&layer.layer()) else { return false };
        let mut made = self.schemes.iter_mut().filter_map(|scheme| scheme.stage.as_deref_mut());
        let tuned = made.all(|made| stage::tune(made, &*other, wires));
        // Schemes made later must be of the same kind as well, also if there is none yet.
        let mut fresh = (self.make)(&self.layer.layer());
        let like = fresh.as_mut().is_ok_and(|fresh| stage::tune(&mut **fresh, &*other, wires));
        if tuned && like {
            self.layer = layer.clone();
            self.passes_lone = passes_lone(&*other);
        }
        tuned && like
    }

    /// The leaf of a scheme was removed, or has children now. It has no packets.
    pub fn free(&mut self, number: u32) {
        self.hand_over(number, NONE);
    }
}
