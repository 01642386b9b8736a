//! Up to a thousand tasks: a tournament tree, in which the better of two neighbours meets that of the next two (tree selection: Knuth, "The Art of
//! Computer Programming" 3, 5.2.3). Each node holds two winners: the least finish of the tasks that may run, and the least start of those ahead.
//!
//! A changed task is compared again on its whole path to the root: ten comparisons for a thousand tasks in every case, and without a branch
//! on them. A heap takes fewer steps, but its loop ends at an unpredictable step, which costs a branch misprediction.
//!
//! A run of a task that continues changes two leaves: its own, and on average one task whose start has come. A picked task therefore stays in the
//! tree until it is charged.

use super::{Task, Virtual};
use std::hint::select_unpredictable;

/// The tag of a task that cannot win: later than all others, and one can still be added without overflow.
const NEVER: Virtual = Virtual::MAX - 1;
const NOBODY: Node = Node { start: NEVER, finish: NEVER, first: 0, best: 0 };

/// The waiting tasks.
#[derive(Debug, Default)]
pub struct Tournament {
    /// The children of node n are the nodes 2n and 2n + 1, and node 1 is the root. The leaves in the upper half are the tasks by id, so that of equal
    /// tags the left one has the lower id.
    pairs: Vec<[Node; 2]>,
    /// The picked task, which is still in the tree.
    picked: Option<u32>,
}

/// The winners of a subtree.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// S of the first task with S > V.
    start: Virtual,
    /// F of the best task with S <= V.
    finish: Virtual,
    first: u32,
    best: u32,
}

impl Node {
    /// The winners of two nodes. `right` breaks ties by id: one if `self` is the right node, which loses a tie, else zero.
    #[inline]
    fn combine(self, other: Node, right: u64) -> Node {
        // The results are unpredictable: select without branches.
        let earlier = other.start < self.start + right;
        let better = other.finish < self.finish + right;
        Node {
            start: select_unpredictable(earlier, other.start, self.start),
            finish: select_unpredictable(better, other.finish, self.finish),
            first: select_unpredictable(earlier, other.first, self.first),
            best: select_unpredictable(better, other.best, self.best),
        }
    }

    const fn waits(&self) -> bool {
        self.start != NEVER || self.finish != NEVER
    }
}

impl Tournament {
    /// Makes room for tasks below `tasks`.
    pub fn grow(&mut self, tasks: usize) {
        let old = self.pairs.len();
        if tasks <= old {
            return;
        }
        let places = tasks.next_power_of_two().max(2);
        let mut pairs = vec![[NOBODY; 2]; places];
        // The leaves keep their ids. The inner nodes are computed anew.
        pairs[places / 2..][..old / 2].copy_from_slice(&self.pairs[old / 2..]);
        // From the leaves up: the children of a node have higher numbers. The winners of the root are stored as the second child of node 0.
        for node in (1..places).rev() {
            let [left, right] = pairs[node];
            pairs[node / 2][node % 2] = left.combine(right, 0);
        }
        self.pairs = pairs;
    }

    /// The root; none before the first `grow`.
    #[inline]
    fn winners(&self) -> Option<&Node> {
        self.pairs.first().map(|[_, winners]| winners)
    }

    /// Sets the tags of a task and updates its path to the root.
    #[inline]
    fn enter(&mut self, task: usize, start: Virtual, finish: Virtual) {
        let mut place = self.pairs.len() + task;
        let mut node = Node { start, finish, first: task as u32, best: task as u32 };
        while let Some(pair) = self.pairs.get_mut(place / 2) {
            let side = place % 2;
            pair[side] = node;
            // Node 1 is the root and has no sibling.
            if place == 1 {
                break;
            }
            node = node.combine(pair[1 - side], side as u64);
            place /= 2;
        }
    }

    #[inline]
    pub fn insert(&mut self, tasks: &[Task], task: usize, now: Virtual) {
        // A picked task that is inserted again has new tags in its leaf, so `dismiss` must not clear it.
        self.picked = self.picked.filter(|&picked| picked != task as u32);
        let (start, finish) = (tasks[task].start, tasks[task].finish());
        // Each task takes part in one of the two contests: by F if it may run, else by S.
        let may = start <= now;
        self.enter(task, select_unpredictable(may, NEVER, start), select_unpredictable(may, finish, NEVER));
    }

    pub fn remove(&mut self, task: usize) {
        self.enter(task, NEVER, NEVER);
    }

    /// Removes the picked task if it was not inserted again.
    #[inline]
    fn dismiss(&mut self) {
        if let Some(picked) = self.picked.take() {
            self.remove(picked as usize);
        }
    }

    #[inline]
    pub fn advance(&mut self, tasks: &[Task], mut now: Virtual) -> Option<Virtual> {
        self.dismiss();
        loop {
            let Node { start, finish, first, .. } = *self.winners()?;
            // No further task becomes eligible. If none is eligible at all, V jumps to the least start.
            if start > now {
                if finish != NEVER {
                    return Some(now);
                }
                if start == NEVER {
                    return None;
                }
                now = start;
            }
            self.enter(first as usize, NEVER, tasks[first as usize].finish());
        }
    }

    #[inline]
    pub fn pick(&mut self) -> Option<usize> {
        let Node { finish, best, .. } = *self.winners()?;
        self.picked = (finish != NEVER).then_some(best);
        self.picked.map(|task| task as usize)
    }

    pub fn drain(&mut self) -> Vec<usize> {
        self.dismiss();
        let tasks = self.pairs[self.pairs.len() / 2..].iter().flatten().enumerate();
        let waiting = tasks.filter(|(_, node)| node.waits()).map(|(task, _)| task).collect();
        self.pairs.fill([NOBODY; 2]);
        waiting
    }
}
