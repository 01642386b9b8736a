//! Changes of a link-sharing tree. No packet is lost or overtakes another of its share.

use super::node::{DEFAULT, NONE, Node, ROOT, ShareParameters};
use super::{ShareTree, Turn};
use crate::{Next, Wires};
use units::{Instant, ShareId};

impl<W: Wires + 'static> ShareTree<W> {
    /// Finds the leaf of a share's packets anew.
    fn find_leaf(&mut self, share: ShareId, wires: &W) {
        let before = self.nodes.leaf_of(share);
        self.nodes.find_leaf(share);
        let leaf = self.nodes.leaf_of(share);
        if before == DEFAULT && leaf != before && self.present_backlog(before, wires) != Next::Idle {
            self.nodes.all[leaf as usize].follows = wires.now();
            // The default leaf may have got packets since the last check at the same time.
            self.default_arrival = (Instant::START, Instant::START);
        }
    }

    /// Frees a leaf that was removed, once it is empty, and the branches above it that were removed too.
    pub(super) fn finish_closing(&mut self, leaf: u32, wires: &W) {
        let node = &self.nodes.all[leaf as usize];
        if !node.closing || node.busy {
            return;
        }
        let mut place = leaf;
        loop {
            let Node { scheme, share, parent, .. } = self.nodes.all[place as usize];
            self.withdraw(place, wires.now());
            self.nodes.all[place as usize].closing = false;
            self.leaves.free(scheme);
            self.nodes.free(place);
            self.find_leaf(share, wires);
            self.release(parent, wires);
            let above = &self.nodes.all[parent as usize];
            if !above.closing || above.branch != NONE {
                return;
            }
            place = parent;
        }
    }

    /// A node loses a child. Without any it is a leaf again.
    fn release(&mut self, parent: u32, wires: &W) {
        self.nodes.release(parent);
        let share = self.nodes.all[parent as usize].share;
        self.find_leaf(share, wires);
    }

    /// Ends the present turns early, before a change.
    pub(super) fn interrupt(&mut self, wires: &W) {
        while let Some(&Turn { node, .. }) = self.turns.last() {
            let backlog = self.backlog(node, wires);
            self.end_turn(backlog, wires);
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
                self.leaves.set_queue_limit(place, settings.queue);
                self.update(place, backlog, now);
            }
            None if share == ShareId(0) => {}
            None => {
                let place = self.nodes.add(Node::new(parent, share, settings));
                self.wheel.grow(self.nodes.all.len());
                self.leaves.set_queue_limit(place, settings.queue);
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
        if node.branch != NONE {
            return;
        }
        let (scheme, share, busy) = (node.scheme, node.share, node.busy);
        self.withdraw(place, now);
        self.nodes.all[place as usize].scheme = NONE;
        if !busy {
            self.leaves.free(scheme);
            return;
        }
        let mut rest = Node::new(place, share, &ShareParameters::default());
        let node = &mut self.nodes.all[place as usize];
        (rest.scheme, rest.closing) = (scheme, true);
        rest.follows = core::mem::replace(&mut node.follows, Instant::NEVER);
        rest.has_lone_packet = core::mem::take(&mut node.has_lone_packet);
        rest.uses_scheme = core::mem::take(&mut node.uses_scheme);
        let rest = self.nodes.add(rest);
        self.wheel.grow(self.nodes.all.len());
        self.nodes.adopt(place);
        self.leaves.hand_over(scheme, rest);
        self.nodes.set_leaf(share, rest);
        let backlog = self.backlog(rest, wires);
        self.update(rest, backlog, now);
    }

    pub(super) fn remove(&mut self, share: ShareId, wires: &W) {
        let now = wires.now();
        let Some(place) = self.nodes.node_of(share).filter(|node| *node != ROOT) else { return };
        let branch = self.nodes.all[place as usize].branch;
        self.nodes.set_node(share, None);
        // Its packets leave without its ceiling. Below a branch only leaves that are closing are left.
        let backlog = self.backlog(place, wires);
        let node = &mut self.nodes.all[place as usize];
        (node.closing, node.has_ceiling) = (true, false);
        self.update(place, backlog, now);
        if branch == NONE && !self.nodes.all[place as usize].busy {
            self.finish_closing(place, wires);
        } else if branch != NONE {
            self.nodes.find_leaf(share);
        }
    }
}
