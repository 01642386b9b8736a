//! The tree of shares of a running port: its changes, which can be undone until they are committed.

use super::opener::ApplyError;
use super::share_ids::ShareIds;
use link::{LinkShares, MOST_SHARES};
use plan::{ShareChange, ShareName, ShareNode, ShareOrigin, ShareTree};
use schemes::{ShareEdit, ShareParameters};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::{Bytes, Instant, ShareId};

/// The shares of a port.
pub(super) struct PortTree {
    pub tree: ShareTree,
    /// When leases end.
    pub leases: BTreeMap<ShareName, Instant>,
    pub shared: Arc<LinkShares>,
}

/// The result of a batch of changes.
#[derive(Clone, Debug)]
pub struct SharesChanged {
    /// Shares that were added, changed, moved or removed, with those above them whose guarantee changed.
    pub shares: usize,
    /// Shares of the port afterwards.
    pub total: usize,
    shared: Arc<LinkShares>,
    number: u64,
}

impl SharesChanged {
    /// True if the worker has carried it out.
    pub fn is_done(&self) -> bool {
        self.shared.is_done(self.number)
    }
}

/// Changes of a port's tree that can still be undone.
#[derive(Default)]
pub(super) struct StagedShares {
    /// The changed shares.
    changed: Vec<ShareName>,
    /// The removed ones, with their levels.
    removed: Vec<(usize, ShareName)>,
    /// Shares that have lost one below them.
    losing: Vec<ShareName>,
}

impl PortTree {
    /// Makes a change in the tree, which can be undone until the commit.
    pub fn stage(
        &mut self,
        change: &ShareChange,
        origin: ShareOrigin,
        ids: &mut ShareIds,
        staged: &mut StagedShares,
    ) -> Result<(), (String, String)> {
        let tree = &mut self.tree;
        // Before the change: afterwards the shares below a removed one are unknown.
        if let ShareChange::Remove { name, .. } = change {
            staged.removed.extend(tree.subtree(name.as_str()).map(|node| (node.level, node.name.clone())));
        }
        if let ShareChange::Remove { name, .. } | ShareChange::Move { name, .. } = change {
            staged.losing.extend(tree.get(name.as_str()).and_then(|node| node.parent.cloned()));
        }
        tree.apply(change, origin)?;
        staged.changed.push(change.name().clone());
        match change {
            ShareChange::Add { name, .. } if ids.number(name).is_none() => {
                let ApplyError { reason, hint, .. } = ids_used_up(String::new());
                Err((reason, hint))
            }
            _ => Ok(()),
        }
    }

    /// Publishes the staged changes to the worker of the port.
    pub fn commit(&mut self, staged: StagedShares, ids: &ShareIds) -> SharesChanged {
        let PortTree { tree, leases, shared } = self;
        let StagedShares { changed, mut removed, losing } = staged;
        tree.commit();
        // The changed shares and all above them, whose guarantees may have changed: the upper levels first.
        let mut touched: BTreeSet<(usize, ShareName)> = BTreeSet::new();
        for name in changed.iter().chain(&losing) {
            let mut next = tree.get(name.as_str());
            while let Some(node) = next {
                if !touched.insert((node.level, node.name.clone())) {
                    break;
                }
                next = node.parent.and_then(|parent| tree.get(parent.as_str()));
            }
        }
        let mut edits: Vec<ShareEdit> =
            touched.iter().filter_map(|(_, name)| put(&tree.get(name.as_str())?, ids)).collect();
        removed.retain(|(_, name)| tree.get(name.as_str()).is_none());
        removed.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
        edits.extend(removed.iter().filter_map(|(_, name)| Some(ShareEdit::Remove(ids.get(name)?))));
        leases.retain(|name, _| tree.get(name.as_str()).is_some());
        let number = shared.change(&edits);
        SharesChanged { shares: edits.len(), total: tree.len(), shared: shared.clone(), number }
    }
}

/// The settings of a share as the scheme needs them.
fn settings(node: &ShareNode<'_>, ids: &ShareIds) -> Option<ShareParameters> {
    let parent = node.parent.map_or(Some(ShareId(0)), |parent| ids.get(parent))?;
    let plan::ShareSettings { rate, ceiling, weight, delay, priority, queue, turn, .. } = *node.settings;
    // Its guarantee may be more: a delay asks for a higher one.
    let rate = rate.unwrap_or(node.guarantee);
    Some(ShareParameters {
        parent,
        rate,
        ceiling,
        weight: weight.unwrap_or(1),
        burst: node.settings.burst_at(rate),
        delay: delay.unwrap_or_default(),
        priority: priority.unwrap_or(0),
        queue: queue.unwrap_or(Bytes::ZERO),
        turn: turn.unwrap_or(ShareParameters::default().turn),
    })
}

pub(super) fn put(node: &ShareNode<'_>, ids: &ShareIds) -> Option<ShareEdit> {
    Some(ShareEdit::Put(ids.get(node.name)?, settings(node, ids)?))
}

pub(super) fn ids_used_up(place: String) -> ApplyError {
    let reason = format!("more than {} names of shares were in use since the start", MOST_SHARES - 1);
    ApplyError { place, reason, hint: "restart the router".to_string() }
}
