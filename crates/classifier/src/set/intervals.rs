//! Elements of one kind in a tree that never changes: a B+ tree over the first values, with the largest last value of all that come before.
//!
//! Elements may overlap. A value is in the set if the largest end of all elements that start at or before it is not less than the value. Each node has
//! these maxima of its own entries, so an element changes one path of nodes, however many others it overlaps. The idea is that of interval trees
//! (Cormen, Leiserson, Rivest, Stein, "Introduction to Algorithms", 14.3).

use super::index::Indexed;
use super::node::{Item, Node};
use std::sync::Arc;
use units::Instant;

/// Look-ups whose memory is prefetched together.
const GROUP: usize = 64;

/// A change of one element.
#[derive(Clone, Copy, Debug)]
pub(super) enum Edit<K: Indexed> {
    /// Adds the element, or sets its expiry if the set has it.
    Add(Item<K>),
    /// Removes the element with this start and tail.
    Remove((K, K::Tail)),
}

impl<K: Indexed> Edit<K> {
    fn key(&self) -> (K, K::Tail) {
        match self {
            Edit::Add(item) => item.key(),
            Edit::Remove(key) => *key,
        }
    }
}

/// The effect of edits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Effect {
    pub added: usize,
    pub renewed: usize,
    pub removed: usize,
}

/// Elements of one kind.
#[derive(Clone)]
pub(super) struct Intervals<K: Indexed> {
    root: Option<Arc<Node<K>>>,
}

impl<K: Indexed> Default for Intervals<K> {
    fn default() -> Self {
        Intervals { root: None }
    }
}

impl<K: Indexed> Intervals<K> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.root.as_ref().map_or(0, |root| root.count())
    }

    /// The first expiry of an element.
    pub fn next_expiry(&self) -> Instant {
        self.root.as_ref().map_or(Instant::NEVER, |root| root.next_expiry())
    }

    /// Bytes of memory, parts that other sets share included.
    pub fn bytes(&self) -> usize {
        fn below<K: Indexed>(node: &Node<K>) -> usize {
            node.bytes() + node.nodes().iter().map(|node| below(node)).sum::<usize>()
        }
        self.root.as_ref().map_or(0, |root| below(root))
    }

    /// ORs `bit` into the marks of the values that an element holds. Panics if the slices differ in length.
    #[inline(always)]
    pub fn mark(&self, values: &[K], marks: &mut [u64], bit: u64) {
        assert_eq!(values.len(), marks.len(), "one mark for each value");
        let Some(root) = &self.root else { return };
        for (values, marks) in values.chunks(GROUP).zip(marks.chunks_mut(GROUP)) {
            mark_group(root, values, marks, bit);
        }
    }

    /// The elements from the first on that is not before `from`.
    pub fn iter_from(&self, from: Option<(K, K::Tail)>) -> Iter<'_, K> {
        let mut iter = Iter { stack: Vec::new(), leaf: Vec::new().into_iter() };
        let mut node = self.root.as_deref();
        while let Some(parent) = node {
            let nodes = parent.nodes();
            // The child before the first that begins behind `from` may hold it.
            let at = from.map_or(0, |from| nodes.partition_point(|child| child.first() <= from).saturating_sub(1));
            if nodes.is_empty() {
                iter.leaf = parent
                    .items()
                    .filter(|item| from.is_none_or(|from| item.key() >= from))
                    .collect::<Vec<_>>()
                    .into_iter();
                break;
            }
            iter.stack.push(nodes[at + 1..].iter());
            node = Some(&nodes[at]);
        }
        iter
    }

    /// The elements after edits. Of several edits of one element the last counts.
    pub fn edited(&self, mut edits: Vec<Edit<K>>) -> (Intervals<K>, Effect) {
        // The sort is stable: the last of equal edits stays behind the others, and `dedup_by` keeps it in the place of the first.
        edits.sort_by_key(Edit::key);
        edits.dedup_by(|later, kept| {
            let same = later.key() == kept.key();
            if same {
                *kept = *later;
            }
            same
        });
        let mut effect = Effect::default();
        let nodes = match &self.root {
            _ if edits.is_empty() => return (self.clone(), effect),
            None => Node::leaves(&merged(std::iter::empty(), &edits, &mut effect)),
            Some(root) => edited(root, &edits, &mut effect),
        };
        if effect == Effect::default() {
            return (self.clone(), effect);
        }
        (Intervals::over(nodes), effect)
    }

    /// The elements without those that expired at `now`, which go to `expired`.
    pub fn unexpired(&self, now: Instant, expired: &mut Vec<Item<K>>) -> Intervals<K> {
        match &self.root {
            Some(root) if root.next_expiry() <= now => Intervals::over(unexpired(root, now, expired)),
            _ => self.clone(),
        }
    }

    /// The tree over nodes of one level.
    fn over(mut nodes: Vec<Arc<Node<K>>>) -> Intervals<K> {
        while nodes.len() > 1 {
            nodes = Node::parents(nodes);
        }
        let mut root = nodes.pop();
        // A root with one node below it only adds a step.
        while let Some([only]) = root.as_deref().map(Node::nodes) {
            root = Some(only.clone());
        }
        Intervals { root }
    }
}

/// Looks up at most `GROUP` values.
#[inline(always)]
fn mark_group<K: Indexed>(root: &Arc<Node<K>>, values: &[K], marks: &mut [u64], bit: u64) {
    let mut nodes: [&Node<K>; GROUP] = [root; GROUP];
    let mut blocks = [0; GROUP];
    let n = values.len().min(GROUP);
    let (nodes, blocks) = (&mut nodes[..n], &mut blocks[..n]);
    // All values take one step, then all the next. The prefetches of one round arrive while it handles the other values.
    loop {
        for ((node, block), value) in nodes.iter().zip(&mut *blocks).zip(values) {
            *block = node.block(*value);
        }
        // All leaves are at one depth.
        if nodes.first().is_none_or(|node| node.nodes().is_empty()) {
            break;
        }
        for (((node, block), mark), value) in nodes.iter_mut().zip(&*blocks).zip(&mut *marks).zip(values) {
            let Some((below, is_before)) = node.descend(*block, *value) else { continue };
            below.prefetch();
            *mark |= if is_before { bit } else { 0 };
            *node = below;
        }
    }
    let (mut open, mut count) = ([(0, 0); GROUP], 0);
    for (i, (((node, block), value), mark)) in nodes.iter().zip(&*blocks).zip(values).zip(&mut *marks).enumerate() {
        let covers = node.covers(*block, *value);
        *mark |= if covers == Ok(true) { bit } else { 0 };
        // Without a branch: it would be mispredicted for many values.
        open[count] = (i, covers.err().unwrap_or_default());
        count += usize::from(covers.is_err());
    }
    for (i, entry) in &open[..count] {
        marks[*i] |= if nodes[*i].decide(*entry, values[*i]) { bit } else { 0 };
    }
}

/// Nodes of the level of `node` with its elements after `edits`, which ascend.
fn edited<K: Indexed>(node: &Node<K>, mut edits: &[Edit<K>], effect: &mut Effect) -> Vec<Arc<Node<K>>> {
    let nodes = node.nodes();
    if nodes.is_empty() {
        return Node::leaves(&merged(node.items(), edits, effect));
    }
    let mut below = Vec::with_capacity(nodes.len() + 1);
    for (i, child) in nodes.iter().enumerate() {
        // Only an edit that starts where the next child does needs the whole key of that child, which lies in a leaf.
        let belongs = |edit: &Edit<K>| {
            let key = edit.key();
            i + 1 == nodes.len()
                || key.0 < node.start(i + 1)
                || (key.0 == node.start(i + 1) && key < nodes[i + 1].first())
        };
        let (own, rest) = edits.split_at(edits.partition_point(belongs));
        if own.is_empty() {
            below.push(child.clone());
        } else {
            below.extend(edited(child, own, effect));
        }
        edits = rest;
    }
    Node::parents(below)
}

/// The elements of a leaf after edits. Both ascend.
fn merged<K: Indexed>(items: impl Iterator<Item = Item<K>>, edits: &[Edit<K>], effect: &mut Effect) -> Vec<Item<K>> {
    let mut items = items.peekable();
    let mut merged = Vec::with_capacity(items.size_hint().0 + edits.len());
    for edit in edits {
        merged.extend(std::iter::from_fn(|| items.next_if(|item| item.key() < edit.key())));
        let old = items.next_if(|item| item.key() == edit.key());
        match edit {
            Edit::Add(item) => {
                effect.added += usize::from(old.is_none());
                effect.renewed += usize::from(old.is_some_and(|old| old.expires != item.expires));
                merged.push(*item);
            }
            Edit::Remove(_) => effect.removed += usize::from(old.is_some()),
        }
    }
    merged.extend(items);
    merged
}

/// Nodes of the level of `node` without the elements that expired.
fn unexpired<K: Indexed>(node: &Node<K>, now: Instant, expired: &mut Vec<Item<K>>) -> Vec<Arc<Node<K>>> {
    let nodes = node.nodes();
    if nodes.is_empty() {
        let (gone, left): (Vec<_>, Vec<_>) = node.items().partition(|item| item.expires <= now);
        expired.extend(gone);
        return Node::leaves(&left);
    }
    let mut below = Vec::with_capacity(nodes.len());
    for child in nodes {
        if child.next_expiry() <= now {
            below.extend(unexpired(child, now, expired));
        } else {
            below.push(child.clone());
        }
    }
    Node::parents(below)
}

/// Elements in ascending order.
pub(super) struct Iter<'a, K: Indexed> {
    /// For each level, from the root on, the nodes that follow.
    stack: Vec<std::slice::Iter<'a, Arc<Node<K>>>>,
    leaf: std::vec::IntoIter<Item<K>>,
}

impl<K: Indexed> Iterator for Iter<'_, K> {
    type Item = Item<K>;

    fn next(&mut self) -> Option<Item<K>> {
        loop {
            if let Some(item) = self.leaf.next() {
                return Some(item);
            }
            match self.stack.last_mut()?.next() {
                Some(node) if node.nodes().is_empty() => self.leaf = node.items().collect::<Vec<_>>().into_iter(),
                Some(node) => self.stack.push(node.nodes().iter()),
                None => _ = self.stack.pop(),
            }
        }
    }
}
