//! Nodes of the tree behind a set.
//!
//! A node holds up to [`CAPACITY`] entries in the order of their first values. Entries of a leaf are elements; entries of an inner node are nodes. A
//! search reads the node's index.

use super::index::{CAPACITY, Index, Indexed};
use std::sync::Arc;
use units::Instant;

/// Entries of a node that is built with many others: room for some more before it splits.
const FILL: usize = 112;
/// A node with fewer entries joins its neighbour, if both fit into one of `FILL`.
const SPARSE: usize = 32;

/// An element as the tree stores it. The order is that of the tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Item<K: Indexed> {
    /// The first value.
    pub start: K,
    /// Gives the last value, see [`Key::end`](super::key::Key::end).
    pub tail: K::Tail,
    /// When the element leaves the set; `NEVER` for one that stays.
    pub expires: Instant,
}

impl<K: Indexed> Item<K> {
    /// The identity of the element in its set.
    pub fn key(&self) -> (K, K::Tail) {
        (self.start, self.tail)
    }
}

/// A node that never changes.
pub(super) struct Node<K: Indexed> {
    entries: Entries<K>,
    /// The largest last value below this node.
    reach: K,
    /// The number of elements below this node.
    count: usize,
    /// The first expiry below this node.
    next: Instant,
    index: K::Index,
}

/// The entries of a node, beside the arrays that a search reads.
pub(super) enum Entries<K: Indexed> {
    /// The elements' tails. The index's reach is the largest last value of the element and those before it in the leaf.
    Leaf {
        tails: Box<[K::Tail]>,
        /// Only if an element of the leaf expires.
        expiries: Option<Box<[Instant]>>,
    },
    /// The nodes below. The index's reach is the largest last value of all nodes before this one in the parent.
    Inner(Box<[Arc<Node<K>>]>),
}

impl<K: Indexed> Node<K> {
    fn build(entries: Entries<K>, starts: &[(K, K)], (reach, count, next): (K, usize, Instant)) -> Arc<Node<K>> {
        assert!((1..=CAPACITY).contains(&starts.len()), "a node has from 1 to {CAPACITY} entries");
        Arc::new(Node { entries, reach, count, next, index: K::Index::of(starts) })
    }

    fn leaf(items: &[Item<K>]) -> Arc<Node<K>> {
        let mut reach = K::MIN;
        let starts = items.iter().map(|item| {
            reach = reach.max(K::end(item.start, item.tail));
            (item.start, reach)
        });
        let starts: Vec<_> = starts.collect();
        let next = items.iter().map(|item| item.expires).min().unwrap_or(Instant::NEVER);
        let expiries = (next != Instant::NEVER).then(|| items.iter().map(|item| item.expires).collect());
        let entries = Entries::Leaf { tails: items.iter().map(|item| item.tail).collect(), expiries };
        Node::build(entries, &starts, (reach, items.len(), next))
    }

    fn inner(nodes: &[Arc<Node<K>>]) -> Arc<Node<K>> {
        let mut reach = K::MIN;
        let starts = nodes.iter().map(|node| {
            let before = reach;
            reach = reach.max(node.reach);
            (node.start(0), before)
        });
        let starts: Vec<_> = starts.collect();
        let count = nodes.iter().map(|node| node.count).sum();
        let next = nodes.iter().map(|node| node.next).min().unwrap_or(Instant::NEVER);
        Node::build(Entries::Inner(nodes.into()), &starts, (reach, count, next))
    }

    /// Leaves of these elements, which ascend.
    pub fn leaves(items: &[Item<K>]) -> Vec<Arc<Node<K>>> {
        pieces(items).map(Node::leaf).collect()
    }

    /// Joins sparse nodes of one level with their neighbours, and builds the nodes of the level above.
    pub fn parents(nodes: Vec<Arc<Node<K>>>) -> Vec<Arc<Node<K>>> {
        pieces(&joined(nodes)).map(Node::inner).collect()
    }

    /// Entries of this node.
    pub fn len(&self) -> usize {
        match &self.entries {
            Entries::Leaf { tails, .. } => tails.len(),
            Entries::Inner(nodes) => nodes.len(),
        }
    }

    /// The first value of an entry.
    pub fn start(&self, entry: usize) -> K {
        self.index.start(entry)
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn next_expiry(&self) -> Instant {
        self.next
    }

    /// The nodes below, none for a leaf.
    pub fn nodes(&self) -> &[Arc<Node<K>>] {
        match &self.entries {
            Entries::Leaf { .. } => &[],
            Entries::Inner(nodes) => nodes,
        }
    }

    /// The elements of a leaf, none for an inner node.
    pub fn items(&self) -> impl Iterator<Item = Item<K>> + '_ {
        let (tails, expiries): (&[K::Tail], _) = match &self.entries {
            Entries::Leaf { tails, expiries } => (tails, expiries.as_deref()),
            Entries::Inner(_) => (&[], None),
        };
        tails.iter().enumerate().map(move |(i, tail)| Item {
            start: self.start(i),
            tail: *tail,
            expires: expiries.map_or(Instant::NEVER, |expiries| expiries[i]),
        })
    }

    /// The first element below this node.
    pub fn first(&self) -> (K, K::Tail) {
        match &self.entries {
            Entries::Leaf { tails, .. } => (self.start(0), tails[0]),
            Entries::Inner(nodes) => nodes[0].first(),
        }
    }

    /// Bytes of memory of this node alone.
    pub fn bytes(&self) -> usize {
        // The counters of an `Arc` take the space of one alignment.
        let node = size_of::<Node<K>>() + align_of::<Node<K>>();
        node + self.index.bytes()
            + match &self.entries {
                Entries::Leaf { tails, expiries } => size_of_val(&**tails) + expiries.as_deref().map_or(0, size_of_val),
                Entries::Inner(nodes) => size_of_val(&**nodes),
            }
    }

    /// Prefetches what [`Node::block`] reads.
    #[inline(always)]
    pub fn prefetch(&self) {
        self.index.prefetch();
    }

    /// See [`Index::block`].
    #[inline(always)]
    pub fn block(&self, value: K) -> u64 {
        self.index.block(value)
    }

    /// In an inner node: the node that may hold `value`, and true if an element of the nodes before it does.
    #[inline(always)]
    pub fn descend(&self, block: u64, value: K) -> Option<(&Arc<Node<K>>, bool)> {
        let nodes = self.nodes();
        let (entry, is_before) = self.index.descend(block, value);
        // The largest value of all is not below the places without an entry.
        Some((&nodes[entry.min(nodes.len().checked_sub(1)?)], is_before))
    }

    /// See [`Index::covers`].
    #[inline(always)]
    pub fn covers(&self, block: u64, value: K) -> Result<bool, usize> {
        self.index.covers(block, value)
    }

    /// See [`Index::decide`].
    #[inline(always)]
    pub fn decide(&self, entry: usize, value: K) -> bool {
        self.index.decide(entry, value)
    }
}

/// Divides entries evenly into pieces for nodes.
fn pieces<T>(entries: &[T]) -> impl Iterator<Item = &[T]> {
    let pieces = if entries.len() <= CAPACITY { 1 } else { entries.len().div_ceil(FILL) };
    // No entries have no piece.
    let size = entries.len().div_ceil(pieces).max(1);
    entries.chunks(size)
}

/// Joins each sparse node with the one before or behind it if both fit into one. Nodes are of one level.
fn joined<K: Indexed>(nodes: Vec<Arc<Node<K>>>) -> Vec<Arc<Node<K>>> {
    let mut joined: Vec<Arc<Node<K>>> = Vec::with_capacity(nodes.len());
    for node in nodes {
        match joined.last_mut() {
            Some(last) if last.len().min(node.len()) < SPARSE && last.len() + node.len() <= FILL => {
                *last = match (&last.entries, &node.entries) {
                    (Entries::Inner(some), Entries::Inner(more)) => Node::inner(&[&**some, &**more].concat()),
                    _ => Node::leaf(&last.items().chain(node.items()).collect::<Vec<_>>()),
                };
            }
            _ => joined.push(node),
        }
    }
    joined
}
