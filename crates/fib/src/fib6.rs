//! Longest-prefix match for IPv6, and for small tables of either family.
//!
//! A first table covers the leading 24 or 8 bits. Below it is a tree of groups of 256 words, one octet a level. A path without a branch is a single
//! step, a [`Stretch`].
//!
//! This is the path compression of Morrison's PATRICIA (J. ACM 15(4), 1968). Without it a host route would need 13 groups of a kilobyte each and as
//! many accesses. A stretch holds the bits that must match, the word for addresses that match, and the word for the others. Any word of the tree is a
//! leaf, a pointer to a group or a pointer to a stretch. Every change of the tree becomes visible by one store of one word. The writer completes a
//! node before a word points to it; [`super::blocks`] describes how nodes are reused.

mod change;

use super::blocks::{BlockAllocator, Blocks};
use super::entry::{self, EMPTY};
use super::sequence::Sequence;
use super::short::Short;
use super::sync::{AtomicU32, AtomicU64, Ordering};
use packet::pool::prefetch;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use zerocopy::FromZeros;

/// Lookups whose memory is prefetched together.
const BULK: usize = 32;
/// A bound no lookup reaches: each octet after the root can be a stretch and a group.
const STEPS: usize = 32;

/// Set in pointers to a stretch, clear in pointers to a group.
const STRETCH: u32 = 1 << 30;
/// The position, in pointers to a group, of the number of the indexing octet, counted from the last.
const OCTET: u32 = 26;
/// Indexes of the counts of nodes in a tree.
const GROUPS: usize = 0;
const STRETCHES: usize = 1;
const INDEX: u32 = (1 << super::blocks::INDEX_BITS) - 1;

#[derive(FromZeros)]
#[repr(C, align(64))]
struct Group([AtomicU32; 256]);

/// Addresses that begin with `length` bits of the key continue at `hit`, the others of this part of the tree at `miss`.
#[derive(FromZeros)]
#[repr(C, align(32))]
struct Stretch {
    high: AtomicU64,
    low: AtomicU64,
    length: AtomicU32,
    hit: AtomicU32,
    miss: AtomicU32,
}

impl Stretch {
    #[inline(always)]
    fn key(&self) -> u128 {
        u128::from(self.high.load(Ordering::Acquire)) << 64 | u128::from(self.low.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn next(&self, address: u128) -> u32 {
        let behind = 128u32.wrapping_sub(self.length.load(Ordering::Acquire)) & 127;
        // The key is two loads. If the writer reuses the stretch in between, the sequence count makes the reader repeat.
        let slot = if (address ^ self.key()) >> behind == 0 { &self.hit } else { &self.miss };
        slot.load(Ordering::Acquire)
    }

    fn len(&self) -> u8 {
        self.length.load(Ordering::Relaxed) as u8
    }

    fn fill(&self, prefix: u128, length: u8, hit: u32, miss: u32) {
        self.high.store((prefix >> 64) as u64, Ordering::Release);
        self.low.store(prefix as u64, Ordering::Release);
        self.length.store(length.into(), Ordering::Release);
        self.hit.store(hit, Ordering::Release);
        self.miss.store(miss, Ordering::Release);
    }
}

/// The memory of the nodes of one or more trees.
pub(super) struct Nodes {
    groups: Blocks<Group>,
    stretches: Blocks<Stretch>,
    sequence: Sequence,
    writer: Mutex<Writer>,
}

impl Nodes {
    pub fn new() -> Arc<Nodes> {
        Arc::new(Nodes {
            groups: Blocks::new(),
            stretches: Blocks::new(),
            sequence: Sequence::default(),
            writer: Mutex::default(),
        })
    }
}

/// A forwarding table as a tree: encoded outcomes by prefix. Readers share it without a lock; writers exclude each other.
///
/// Its first table covers `ROOT` bits, 8 or 24. With 24 bits it reserves 64 MB of address space and uses memory only where routes were written.
/// Shorter addresses than IPv6's are the leading bits of one.
pub struct Trie<const ROOT: u8> {
    short: Short,
    roots: Box<[AtomicU32]>,
    nodes: Arc<Nodes>,
    /// The number of groups and stretches of this tree.
    node_counts: [AtomicUsize; 2],
}

/// The IPv6 forwarding table of the main VRF.
pub type Fib6 = Trie<24>;

#[derive(Default)]
struct Writer {
    groups: BlockAllocator,
    stretches: BlockAllocator,
}

/// The kind of a word of the tree.
#[derive(Clone, Copy)]
enum Node<'a> {
    Leaf,
    Group(&'a Group),
    Stretch(&'a Stretch),
}

impl Default for Fib6 {
    fn default() -> Self {
        Self::new()
    }
}

impl Fib6 {
    /// A table without routes.
    pub fn new() -> Self {
        Self::within(Nodes::new())
    }
}

impl<const ROOT: u8> Trie<ROOT> {
    /// A tree without routes that allocates its nodes from `nodes`.
    pub(super) fn within(nodes: Arc<Nodes>) -> Self {
        const { assert!(ROOT == 8 || ROOT == 24) };
        Trie {
            short: Short::new(),
            // Zeroed by the kernel, page by page as it is touched.
            roots: <[AtomicU32]>::new_box_zeroed_with_elems(1 << ROOT).expect("64 MB of address space"),
            nodes,
            node_counts: Default::default(),
        }
    }

    /// The encoded outcome for packets to `address`, 0 (`NoRoute`) without a route.
    #[inline]
    pub fn lookup(&self, address: u128) -> u32 {
        entry::word(self.read(|| {
            // The bound ends walks through nodes that are being reused; the sequence count then makes the reader repeat.
            let mut found = self.root(address).load(Ordering::Acquire);
            for _ in 0..STEPS {
                if !entry::is_pointer(found) {
                    break;
                }
                found = self.step(found, address);
            }
            self.or_short(found, address)
        }))
    }

    /// Looks up many addresses and prefetches their memory together. Panics if the slices differ in length.
    pub fn lookup_bulk(&self, addresses: &[u128], words: &mut [u32]) {
        assert_eq!(addresses.len(), words.len(), "one answer for each address");
        for (addresses, words) in addresses.chunks(BULK).zip(words.chunks_mut(BULK)) {
            self.read(|| self.lookup_some(addresses, words));
        }
    }

    #[inline(always)]
    fn read<R>(&self, look: impl FnMut() -> R) -> R {
        self.nodes.sequence.read(|| self.nodes.writer.lock(), look)
    }

    fn lookup_some(&self, addresses: &[u128], words: &mut [u32]) {
        let mut pointers = EMPTY;
        for (&address, word) in addresses.iter().zip(&mut *words) {
            // A pointer has its highest bit set, so the union of all words shows if any lookup is unfinished.
            *word = self.root(address).load(Ordering::Acquire);
            self.fetch(*word, address);
            pointers |= *word;
        }
        // All addresses take their first step, then all their second. The prefetches of one round arrive while it handles the other addresses.
        for _ in 0..STEPS {
            if !entry::is_pointer(pointers) {
                break;
            }
            pointers = EMPTY;
            for (&address, word) in addresses.iter().zip(&mut *words) {
                if entry::is_pointer(*word) {
                    *word = self.step(*word, address);
                    self.fetch(*word, address);
                    pointers |= *word;
                }
            }
        }
        for (&address, word) in addresses.iter().zip(words) {
            *word = entry::word(self.or_short(*word, address));
        }
    }

    /// The word found in the tree. If it is empty, that of the short prefixes.
    #[inline(always)]
    fn or_short(&self, found: u32, address: u128) -> u32 {
        let short = self.short.get((address >> 120) as u8);
        if found == EMPTY { short } else { found }
    }

    #[inline(always)]
    fn root(&self, address: u128) -> &AtomicU32 {
        &self.roots[(address >> (128 - ROOT)) as usize]
    }

    #[inline(always)]
    fn node(&self, word: u32) -> Node<'_> {
        if !entry::is_pointer(word) {
            Node::Leaf
        } else if word & STRETCH == 0 {
            self.nodes.groups.get(word & INDEX).map_or(Node::Leaf, Node::Group)
        } else {
            self.nodes.stretches.get(word & INDEX).map_or(Node::Leaf, Node::Stretch)
        }
    }

    #[inline(always)]
    fn step(&self, pointer: u32, address: u128) -> u32 {
        match self.node(pointer) {
            Node::Group(group) => group.0[octet(pointer, address)].load(Ordering::Acquire),
            Node::Stretch(stretch) => stretch.next(address),
            Node::Leaf => EMPTY,
        }
    }

    #[inline(always)]
    fn fetch(&self, word: u32, address: u128) {
        match self.node(word) {
            Node::Group(group) => prefetch(&raw const group.0[octet(word, address)]),
            Node::Stretch(stretch) => prefetch(stretch),
            Node::Leaf => {}
        }
    }

    /// The number of groups and stretches in use.
    pub fn nodes(&self) -> (usize, usize) {
        (self.node_counts[GROUPS].load(Ordering::Relaxed), self.node_counts[STRETCHES].load(Ordering::Relaxed))
    }

    /// Bytes of memory used by its nodes, and of address space by its first tables.
    pub fn bytes(&self) -> usize {
        let (groups, stretches) = self.nodes();
        let first = size_of_val(&*self.roots) + size_of::<Self>();
        first + groups * size_of::<Group>() + stretches * size_of::<Stretch>()
    }
}

/// The slot of an address in the group that a pointer leads to.
#[inline(always)]
fn octet(pointer: u32, address: u128) -> usize {
    // The pointer holds the position, because stretches skip octets. It counts from the last octet, as the little-endian bytes do.
    usize::from(address.to_le_bytes()[(pointer >> OCTET & 15) as usize])
}

#[cfg(test)]
mod tests {
    use super::super::oracle::{Naive, Step, TableChange, steps};
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicBool;

    fn step(fib: &Fib6, naive: &mut Naive, step: Step) {
        let ((prefix, length), word) = step;
        match naive.apply(step) {
            TableChange::Insert => fib.insert(prefix, length, word),
            TableChange::Remove(covering) => fib.remove(prefix, length, covering),
            TableChange::Nothing => {}
        }
    }

    fn agree(fib: &Fib6, naive: &Naive) {
        let addresses = naive.edges();
        let mut words = vec![0; addresses.len()];
        fib.lookup_bulk(&addresses, &mut words);
        for (&address, &word) in addresses.iter().zip(&words) {
            assert_eq!(word, naive.lookup(address), "in bulk: {address:032x}");
            assert_eq!(fib.lookup(address), word, "alone: {address:032x}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_naive_table_after_every_change(steps in steps(128)) {
            let (fib, mut naive) = (Fib6::new(), Naive::new(128));
            for change in steps {
                step(&fib, &mut naive, change);
                agree(&fib, &naive);
            }
            while let Some((&(length, prefix), _)) = naive.routes.iter().next() {
                step(&fib, &mut naive, ((prefix, length), 0));
                agree(&fib, &naive);
            }
            prop_assert_eq!(fib.nodes(), (0, 0), "nodes without routes were given back");
        }
    }

    #[test]
    fn shortest_and_longest_prefixes_match_exactly_their_addresses() {
        let (fib, mut naive) = (Fib6::new(), Naive::new(128));
        let prefixes = [(0, 0), (0, 1), (1 << 127, 1), (0x20 << 120, 3), (0, 128), (u128::MAX, 128), (1, 128)];
        for (word, (prefix, length)) in (1..).zip(prefixes) {
            step(&fib, &mut naive, ((prefix, length), word));
            agree(&fib, &naive);
        }
        for (prefix, length) in prefixes {
            step(&fib, &mut naive, ((prefix, length), 0));
            agree(&fib, &naive);
        }
        assert_eq!(fib.lookup(1), 0);
    }

    #[test]
    fn host_route_allocates_no_group() {
        let fib = Fib6::new();
        fib.insert(0x2001_0db8 << 96, 64, 1);
        fib.insert(0x2001_0db8 << 96 | 1, 128, 2);
        assert_eq!(fib.nodes(), (0, 2));
        fib.insert(0x2001_0db8 << 96 | 2, 128, 3);
        assert_eq!(fib.nodes().0, 1, "they part in the last octet");
    }

    #[test]
    fn replacing_route_of_other_length_is_atomic() {
        let fib = Fib6::new();
        fib.insert(0, 8, 1);
        // The other addresses of the batch take many steps, which leaves time for several changes in between.
        (4..=16).for_each(|octets| fib.insert(u128::MAX, octets * 8, 3));
        let mut addresses = [u128::MAX; BULK];
        addresses[0] = 1;
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..100_000 {
                    fib.insert(0, 24, 2);
                    fib.remove(0, 8, (0, 0));
                    fib.insert(0, 8, 1);
                    fib.remove(0, 24, (8, 1));
                }
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                let mut words = [0; BULK];
                fib.lookup_bulk(&addresses, &mut words);
                for word in [words[0], fib.lookup(1)] {
                    assert!([1, 2].contains(&word), "led to {word}");
                }
                assert_eq!(words[1..], [3; BULK - 1]);
            }
        });
    }

    #[test]
    fn concurrent_lookup_returns_a_valid_outcome() {
        const NETWORKS: u128 = 4;
        let network = |n: u128| 0x2001_0db8 << 96 | n << 64;
        let fib = Fib6::new();
        (0..NETWORKS).for_each(|n| fib.insert(network(n), 64, 100 + n as u32));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Groups and stretches are continually released and reused for another network.
                for round in 0..100_000 {
                    let n = round % NETWORKS;
                    fib.insert(network(n) | 1, 128, 200 + n as u32);
                    fib.insert(network(n) | 3, 128, 200 + n as u32);
                    fib.remove(network(n) | 1, 128, (64, 100 + n as u32));
                    fib.remove(network(n) | 3, 128, (64, 100 + n as u32));
                }
                done.store(true, Ordering::Release);
            });
            let addresses: Vec<u128> = (0..NETWORKS).flat_map(|n| [1, 2, 3, 4].map(|host| network(n) | host)).collect();
            let mut words = vec![0; addresses.len()];
            while !done.load(Ordering::Acquire) {
                fib.lookup_bulk(&addresses, &mut words);
                for (&address, &word) in addresses.iter().zip(&words) {
                    for word in [word, fib.lookup(address)] {
                        let n = (address >> 64) as u32 & 0xffff;
                        let changed = address & 1 == 1 && word == 200 + n;
                        assert!(word == 100 + n || changed, "{address:032x} led to {word}");
                    }
                }
            }
        });
    }
}
