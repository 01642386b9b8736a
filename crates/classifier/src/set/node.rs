//! Nodes of the tree behind a set.
//!
//! A node holds up to [`CAPACITY`] entries in the order of their first values. Entries of a leaf are elements; entries of an inner node are nodes. A
//! search reads two short arrays, each a cache line long for IPv4: the first values of all blocks, then those of one block.

use super::key::Key;
use packet::pool::prefetch;
use std::sync::Arc;
use units::Instant;

/// Blocks of a node.
const BLOCKS: usize = 16;
/// Entries of a block.
const BLOCK: usize = 8;
/// The largest number of entries of a node.
pub(super) const CAPACITY: usize = BLOCKS * BLOCK;
/// Entries of a node that is built with many others: room for some more before it splits.
const FILL: usize = 112;
/// A node with fewer entries joins its neighbour, if both fit into one of `FILL`.
const SPARSE: usize = 32;

/// An element as the tree stores it. The order is that of the tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Item<K: Key> {
    /// The first value.
    pub start: K,
    /// Gives the last value, see [`Key::end`].
    pub tail: K::Tail,
    /// When the element leaves the set; `NEVER` for one that stays.
    pub expires: Instant,
}

impl<K: Key> Item<K> {
    /// The identity of the element in its set.
    pub fn key(&self) -> (K, K::Tail) {
        (self.start, self.tail)
    }
}

#[derive(Clone)]
#[repr(C, align(64))]
struct Block<K> {
    starts: [K; BLOCK],
    reach: [K; BLOCK],
}

/// A node that never changes.
#[repr(C, align(64))]
pub(super) struct Node<K: Key> {
    /// The first value of each block.
    pivots: [K; BLOCKS],
    entries: Entries<K>,
    /// The largest last value below this node.
    reach: K,
    /// The number of elements below this node.
    count: usize,
    /// The first expiry below this node.
    next: Instant,
    /// Places without an entry hold the largest value as start, and the reach of all entries.
    blocks: [Block<K>; BLOCKS],
}

/// The entries of a node, beside the arrays that a search reads.
pub(super) enum Entries<K: Key> {
    /// The elements' tails. The block's `reach` is the largest last value of the element and those before it in the leaf.
    Leaf {
        tails: Box<[K::Tail]>,
        /// Only if an element of the leaf expires.
        expiries: Option<Box<[Instant]>>,
    },
    /// The nodes below. The block's `reach` is the largest last value of all nodes before this one in the parent.
    Inner(Box<[Arc<Node<K>>]>),
}

impl<K: Key> Node<K> {
    fn build(
        entries: Entries<K>,
        starts: impl ExactSizeIterator<Item = (K, K)>,
        (reach, count, next): (K, usize, Instant),
    ) -> Arc<Node<K>> {
        assert!((1..=CAPACITY).contains(&starts.len()), "a node has from 1 to {CAPACITY} entries");
        let empty = Block { starts: [K::MAX; BLOCK], reach: [reach; BLOCK] };
        let mut node = Node {
            pivots: [K::MAX; BLOCKS],
            entries,
            reach,
            count,
            next,
            blocks: std::array::from_fn(|_| empty.clone()),
        };
        for (i, (start, reach)) in starts.enumerate() {
            let (block, place) = (&mut node.blocks[i / BLOCK], i % BLOCK);
            (block.starts[place], block.reach[place]) = (start, reach);
            if place == 0 {
                node.pivots[i / BLOCK] = start;
            }
        }
        Arc::new(node)
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
        Node::build(entries, starts.into_iter(), (reach, items.len(), next))
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
        Node::build(Entries::Inner(nodes.into()), starts.into_iter(), (reach, count, next))
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
        self.blocks[entry / BLOCK].starts[entry % BLOCK]
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
        node + match &self.entries {
            Entries::Leaf { tails, expiries } => size_of_val(&**tails) + expiries.as_deref().map_or(0, size_of_val),
            Entries::Inner(nodes) => size_of_val(&**nodes),
        }
    }

    /// Prefetches what [`Node::block`] reads.
    #[inline(always)]
    pub fn prefetch(&self) {
        for line in self.pivots.chunks(64 / size_of::<K>()) {
            prefetch(line.as_ptr());
        }
    }

    /// The block that has the last entry which starts at or before `value`; the first block if none does. Prefetches the block.
    #[inline(always)]
    pub fn block(&self, value: K) -> usize {
        let block = K::rank(&self.pivots, value).saturating_sub(1);
        let block_lines = size_of::<Block<K>>() / 64;
        for line in 0..block_lines {
            prefetch((&raw const self.blocks[block % BLOCKS]).cast::<[u8; 64]>().wrapping_add(line));
        }
        block
    }

    /// In an inner node: the node that may hold `value`, and the largest last value of all nodes before it.
    #[inline(always)]
    pub fn descend(&self, block: usize, value: K) -> Option<(&Arc<Node<K>>, K)> {
        let nodes = self.nodes();
        let place = K::rank(&self.blocks[block % BLOCKS].starts, value).saturating_sub(1);
        // The largest value of all is not below the places without an entry.
        let entry = (block * BLOCK + place).min(nodes.len().checked_sub(1)?);
        let before = self.blocks[entry / BLOCK].reach[entry % BLOCK];
        Some((&nodes[entry], before))
    }

    /// In a leaf: true if an element holds `value`. `before` is the largest last value of all leaves before this one.
    #[inline(always)]
    pub fn covers(&self, block: usize, value: K, before: K) -> bool {
        let block = &self.blocks[block % BLOCKS];
        let place = K::rank(&block.starts, value).saturating_sub(1) % BLOCK;
        // An element that starts at or before the value holds it if it ends at or behind it. So only the largest end of all those counts. The
        // comparison of the start excludes a value before the first element of the set: the search then stops at that element.
        (block.starts[place] <= value) & (block.reach[place].max(before) >= value)
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
fn joined<K: Key>(nodes: Vec<Arc<Node<K>>>) -> Vec<Arc<Node<K>>> {
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
