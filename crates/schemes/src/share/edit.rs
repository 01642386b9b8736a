//! Changes of a link-sharing tree. No packet is lost or overtakes another of its share.

use super::ShareTree;
use super::node::{DEFAULT, NONE, Node, ROOT, ShareParameters};
use crate::{Next, Wires};
use units::{Instant, ShareId};

impl<W: Wires + 'static> ShareTree<W> {
    /// Finds the leaf of a share's packets anew.
    fn find_leaf(&mut self, share: ShareId, wires: &W) {
        let before = self.nodes.leaf_of(share);
        self.nodes.find_leaf(share);
        let leaf = self.nodes.leaf_of(share);
        if before == DEFAULT && leaf != before && self.present_backlog(before, wires) != Next::Idle {
            self.nodes.all[leaf as usize].follows = Some(wires.now());
            // The default leaf may have got packets since the last check at the same time.
            self.default_arrival = (Instant::START, Instant::START);
        }
    }

    /// Frees a leaf that was removed, once it is empty.
    pub(super) fn finish_closing(&mut self, leaf: u32, wires: &W) {
        let node = &self.nodes.all[leaf as usize];
        let (scheme, share, parent) = (node.scheme, node.share, node.parent);
        if !node.closing || self.leaves.get(scheme).is_some_and(|scheme| scheme.busy) {
            return;
        }
        self.nodes.all[leaf as usize].closing = false;
        self.leaves.free(scheme);
        self.wheel.stop(leaf);
        self.nodes.free(leaf);
        self.release(parent, wires);
        self.find_leaf(share, wires);
    }

    /// A node loses a child. Without any it is a leaf again.
    fn release(&mut self, parent: u32, wires: &W) {
        self.nodes.release(parent);
        let share = self.nodes.all[parent as usize].share;
        self.find_leaf(share, wires);
    }

    /// Ends the present turn early, before a change.
    pub(super) fn interrupt(&mut self, wires: &W) {
        if let Some(turn) = self.turn.take() {
            let backlog = self.backlog(turn.leaf, wires);
            self.end_turn(turn, backlog, wires);
        }
    }

    /// Takes a node out of the order, so that it can be moved or removed.
    fn withdraw(&mut self, place: u32, now: Instant) {
        self.update(place, Next::Idle, now);
        let node = &mut self.nodes.all[place as usize];
        (node.in_excess, node.in_guaranteed) = (false, false);
    }

    pub(super) fn put(&mut self, share: ShareId, settings: &ShareParameters, wires: &W) {
        let now = wires.now();
        let Some(parent) = self.nodes.node_of(settings.parent) else { return };
        self.make_branch(parent, wires);
        match self.nodes.node_of(share).filter(|node| *node != ROOT) {
            Some(place) => {
                let backlog = self.backlog(place, wires);
                let before = self.nodes.all[place as usize].parent;
                self.withdraw(place, now);
                if before != parent {
                    self.nodes.adopt(parent);
                    self.nodes.all[place as usize].parent = parent;
                    self.find_leaf(settings.parent, wires);
                    self.release(before, wires);
                }
                self.nodes.all[place as usize].set(settings, now);
                self.update(place, backlog, now);
            }
            None if share == ShareId(0) => {}
            None => {
                let place = self.nodes.add(Node::new(parent, share, settings));
                self.wheel.grow(self.nodes.all.len());
                self.nodes.adopt(parent);
                self.find_leaf(settings.parent, wires);
                self.nodes.set_node(share, Some(place));
                self.find_leaf(share, wires);
            }
        }
    }

    /// Prepares a node for its first child. If it has packets, they stay in a leaf below it until they have left.
    fn make_branch(&mut self, place: u32, wires: &W) {
        let now = wires.now();
        let node = &self.nodes.all[place as usize];
        if node.children > 0 || place == ROOT {
            return;
        }
        let (scheme, share) = (node.scheme, node.share);
        let held = self.leaves.get(scheme).is_some_and(|scheme| scheme.busy);
        self.withdraw(place, now);
        self.nodes.all[place as usize].scheme = NONE;
        if !held {
            self.leaves.free(scheme);
            return;
        }
        let mut rest = Node::new(place, share, &ShareParameters::default());
        let follows = self.nodes.all[place as usize].follows.take();
        (rest.scheme, rest.closing, rest.follows) = (scheme, true, follows);
        let rest = self.nodes.add(rest);
        self.wheel.grow(self.nodes.all.len());
        self.nodes.adopt(place);
        if let Some(scheme) = self.leaves.get_mut(scheme) {
            scheme.node = rest;
        }
        self.nodes.set_leaf(share, rest);
        let backlog = self.backlog(rest, wires);
        self.update(rest, backlog, now);
    }

    pub(super) fn remove(&mut self, share: ShareId, wires: &W) {
        let now = wires.now();
        let Some(place) = self.nodes.node_of(share).filter(|node| *node != ROOT) else { return };
        let Node { parent, children, scheme, .. } = self.nodes.all[place as usize];
        self.nodes.set_node(share, None);
        if children > 0 {
            // Only leaves that are closing are left: they leave below the parent.
            self.withdraw(place, now);
            for leaf in self.nodes.children_of(place) {
                let backlog = self.backlog(leaf, wires);
                self.withdraw(leaf, now);
                self.nodes.adopt(parent);
                self.nodes.all[leaf as usize].parent = parent;
                self.nodes.release(place);
                self.update(leaf, backlog, now);
            }
        } else if self.leaves.get(scheme).is_some_and(|scheme| scheme.busy) {
            // Its packets leave without its ceiling.
            let backlog = self.backlog(place, wires);
            self.nodes.all[place as usize].has_ceiling = false;
            self.nodes.all[place as usize].closing = true;
            self.update(place, backlog, now);
            return;
        } else {
            self.leaves.free(scheme);
        }
        self.withdraw(place, now);
        self.wheel.stop(place);
        self.nodes.free(place);
        self.nodes.release(parent);
        self.nodes.find_leaf(share);
        let share = self.nodes.all[parent as usize].share;
        self.find_leaf(share, wires);
    }
}
