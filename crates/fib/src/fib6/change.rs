//! Insertion and removal of routes in the tree.
//!
//! A route below a leaf begins as a stretch. At the first octet in which two routes differ the tree gets a group. A route that ends within an octet
//! fills the slots that it covers, and all shorter words below. A removal shortens the tree on its way back to the root: it removes groups with a
//! single path and stretches with equal branches. A tree without routes is therefore empty.

use super::super::entry::{self, POINTER, Paint};
use super::super::short;
use super::super::sync::{AtomicU32, Ordering};
use super::{GROUPS, Group, INDEX, Node, OCTET, STRETCH, STRETCHES, Stretch, Trie, Writer};
use std::ops::Range;

/// A route to insert or remove.
#[derive(Clone, Copy)]
struct Change {
    prefix: u128,
    length: u8,
    paint: Paint,
}

impl<const ROOT: u8> Trie<ROOT> {
    /// Adds or changes the route of a prefix. `word` is an encoded outcome other than `NoRoute`. Bits of `prefix` after `length` (at most 128) are
    /// ignored. Takes time in proportion to the part of the tree that the prefix covers, at least its /24 networks.
    pub fn insert(&self, prefix: u128, length: u8, word: u32) {
        let mut writer = self.nodes.writer.lock();
        if length <= short::LONGEST {
            return self.short.insert((prefix >> 120) as u8, length, word, &self.nodes.sequence);
        }
        let change = Change { prefix, length, paint: Paint::insert(length, word) };
        match self.painted_roots(prefix, length) {
            Some(roots) => roots.iter().for_each(|root| self.paint(root, change.paint)),
            None => self.insert_below(self.root(prefix), ROOT, change, &mut writer),
        }
    }

    /// Removes the route of a prefix. `covering` is the longest shorter prefix that covers it, as (length, word), or (0, 0) if there is none.
    pub fn remove(&self, prefix: u128, length: u8, covering: (u8, u32)) {
        let mut writer = self.nodes.writer.lock();
        if length <= short::LONGEST {
            return self.short.remove((prefix >> 120) as u8, length, covering, &self.nodes.sequence);
        }
        let change = Change { prefix, length, paint: Paint::remove(length, covering) };
        match self.painted_roots(prefix, length) {
            Some(roots) => roots.iter().for_each(|root| self.paint(root, change.paint)),
            None => self.remove_below(self.root(prefix), ROOT, change, &mut writer),
        }
    }

    /// The roots that a prefix covers, if it is not longer than theirs.
    fn painted_roots(&self, prefix: u128, length: u8) -> Option<&[AtomicU32]> {
        // With roots of 8 bits there is no such prefix: those of at most 8 bits are in `Short`.
        let count = 1 << ROOT.checked_sub(length)?;
        let start = (prefix >> (128 - ROOT)) as usize & !(count - 1);
        Some(&self.roots[start..start + count])
    }

    /// Changes the leaves below `slot`. The changed prefix covers all of its addresses.
    fn paint(&self, slot: &AtomicU32, paint: Paint) {
        match self.node(slot.load(Ordering::Relaxed)) {
            Node::Leaf => _ = paint.apply(slot),
            Node::Group(group) => group.0.iter().for_each(|slot| self.paint(slot, paint)),
            Node::Stretch(stretch) => {
                // The prefix covers the addresses that match and those that do not.
                self.paint(&stretch.hit, paint);
                self.paint(&stretch.miss, paint);
            }
        }
    }

    /// Inserts a route below `slot`. Its first `bits` bits are common to all addresses of `slot`; the route is longer.
    fn insert_below(&self, slot: &AtomicU32, bits: u8, change: Change, writer: &mut Writer) {
        let word = slot.load(Ordering::Relaxed);
        match self.node(word) {
            Node::Leaf => {
                let route = self.stretch(change.prefix, change.length, change.paint.leaf, word, writer);
                slot.store(route, Ordering::Release);
            }
            Node::Group(group) => self.insert_into(group, bits, change, writer),
            Node::Stretch(stretch) => {
                let inside = common(stretch.key(), change.prefix) >= stretch.len();
                // A group indexes whole octets, so the tree can only branch behind a stretch that ends at an octet boundary.
                if inside && change.length == stretch.len() {
                    self.paint(&stretch.hit, change.paint);
                } else if inside && change.length > stretch.len() && stretch.len() % 8 == 0 {
                    self.insert_below(&stretch.hit, stretch.len(), change, writer);
                } else {
                    let split = self.split(stretch, bits, change, writer);
                    slot.store(split, Ordering::Release);
                    // Last, when no word points to the old stretch any more.
                    self.give_back_stretch(word, writer);
                }
            }
        }
    }

    /// Inserts a route into a group. Its first `bits` bits are common to all addresses of the group; the route is longer.
    fn insert_into(&self, group: &Group, bits: u8, change: Change, writer: &mut Writer) {
        let slots = slots(bits, change.prefix, change.length);
        if change.length <= bits + 8 {
            group.0[slots].iter().for_each(|slot| self.paint(slot, change.paint));
        } else {
            self.insert_below(&group.0[slots.start], bits + 8, change, writer);
        }
    }

    /// The replacement of a stretch that `change` does not fit into: a group at the octet where they differ, with both in it. If that octet is
    /// further on, a shorter stretch leads to the group. The old stretch is left unchanged for its readers.
    fn split(&self, stretch: &Stretch, bits: u8, change: Change, writer: &mut Writer) -> u32 {
        let (key, length) = (stretch.key(), stretch.len());
        let (hit, miss) = (stretch.hit.load(Ordering::Relaxed), stretch.miss.load(Ordering::Relaxed));
        // At least one bit of both must be left for the group, hence the two `- 1`; the group begins at an octet boundary.
        let shared = common(key, change.prefix).min(change.length - 1).min(length - 1) / 8 * 8;
        let (index, group) = self.nodes.groups.allocate(&mut writer.groups, &self.nodes.sequence);
        self.node_counts[GROUPS].fetch_add(1, Ordering::Relaxed);
        // No word points to the group yet, but a reader may still follow it from its earlier use: hence releases.
        group.0.iter().for_each(|slot| slot.store(miss, Ordering::Release));
        let places = slots(shared, key, length);
        if length <= shared + 8 {
            // The old stretch ends within this octet, so its prefix fills whole slots.
            group.0[places].iter().for_each(|slot| slot.store(hit, Ordering::Release));
        } else {
            let rest = self.stretch(key, length, hit, miss, writer);
            group.0[places.start].store(rest, Ordering::Release);
        }
        // Before a word points to the group, so that readers see both routes at once.
        self.insert_into(group, shared, change, writer);
        let group = group_pointer(index, shared);
        if shared > bits { self.stretch(key, shared, group, miss, writer) } else { group }
    }

    /// Allocates a stretch and returns the pointer to it.
    fn stretch(&self, prefix: u128, length: u8, hit: u32, miss: u32, writer: &mut Writer) -> u32 {
        let (index, stretch) = self.nodes.stretches.allocate(&mut writer.stretches, &self.nodes.sequence);
        self.node_counts[STRETCHES].fetch_add(1, Ordering::Relaxed);
        stretch.fill(prefix, length, hit, miss);
        POINTER | STRETCH | index
    }

    fn give_back_group(&self, pointer: u32, writer: &mut Writer) {
        self.node_counts[GROUPS].fetch_sub(1, Ordering::Relaxed);
        writer.groups.release(pointer & INDEX);
    }

    fn give_back_stretch(&self, pointer: u32, writer: &mut Writer) {
        self.node_counts[STRETCHES].fetch_sub(1, Ordering::Relaxed);
        writer.stretches.release(pointer & INDEX);
    }

    /// Removes a route below `slot`, and the nodes that become superfluous.
    fn remove_below(&self, slot: &AtomicU32, bits: u8, change: Change, writer: &mut Writer) {
        let word = slot.load(Ordering::Relaxed);
        match self.node(word) {
            Node::Leaf => {}
            Node::Group(group) => {
                let slots = slots(bits, change.prefix, change.length);
                if change.length <= bits + 8 {
                    group.0[slots].iter().for_each(|slot| self.paint(slot, change.paint));
                } else {
                    self.remove_below(&group.0[slots.start], bits + 8, change, writer);
                }
                if let Some(shorter) = self.shortened(group, bits, change.prefix, writer) {
                    slot.store(shorter, Ordering::Release);
                    self.give_back_group(word, writer);
                }
            }
            Node::Stretch(stretch) => {
                let length = stretch.len();
                // A route that is not below this stretch is not in the tree.
                if common(stretch.key(), change.prefix) < length || change.length < length {
                    return;
                } else if change.length == length {
                    self.paint(&stretch.hit, change.paint);
                } else {
                    self.remove_below(&stretch.hit, length, change, writer);
                }
                let (hit, miss) = (stretch.hit.load(Ordering::Relaxed), stretch.miss.load(Ordering::Relaxed));
                // With equal branches the stretch distinguishes nothing. If its hit branch is a longer stretch with the same miss word, that one
                // covers both.
                if hit == miss || self.misses(hit) == Some(miss) {
                    slot.store(hit, Ordering::Release);
                    self.give_back_stretch(word, writer);
                }
            }
        }
    }

    /// The miss word, if `word` points to a stretch.
    fn misses(&self, word: u32) -> Option<u32> {
        match self.node(word) {
            Node::Stretch(stretch) => Some(stretch.miss.load(Ordering::Relaxed)),
            _ => None,
        }
    }

    /// The word that can replace a group whose addresses begin with `bits` bits of `prefix`: a leaf or a stretch, if at most one path leads further.
    fn shortened(&self, group: &Group, bits: u8, prefix: u128, writer: &mut Writer) -> Option<u32> {
        // Words of prefixes not longer than `bits` are all equal: they come from the route that covers the group.
        let mut covering = None;
        let mut special: Option<(usize, u32)> = None;
        let mut times = 0;
        for (octet, slot) in group.0.iter().enumerate() {
            let word = slot.load(Ordering::Relaxed);
            if !entry::is_pointer(word) && entry::length(word) <= bits {
                covering = Some(word);
            } else if special.is_none_or(|(_, other)| other == word) {
                special.get_or_insert((octet, word));
                times += 1;
            } else {
                return None;
            }
        }
        // A longer route in every slot leaves no word for the addresses beside a path.
        let covering = covering?;
        let Some((octet, word)) = special else { return Some(covering) };
        let prefix = prefix & !(u128::MAX >> bits) | (octet as u128) << (120 - bits);
        match self.node(word) {
            // The key of a stretch holds all bits from the beginning, so it can move up as it is.
            Node::Stretch(_) => (self.misses(word) == Some(covering)).then_some(word),
            Node::Group(_) => Some(self.stretch(prefix, bits + 8, word, covering, writer)),
            Node::Leaf => {
                // The word must fill exactly the slots of one prefix: two routes of the same length and outcome have equal words.
                let length = entry::length(word);
                let whole = length <= bits + 8 && times == 1 << (bits + 8 - length);
                whole.then(|| self.stretch(prefix, length, word, covering, writer))
            }
        }
    }
}

fn group_pointer(index: u32, bits: u8) -> u32 {
    POINTER | u32::from(15 - bits / 8) << OCTET | index
}

/// The number of leading bits that two addresses have in common, 0 to 128.
fn common(a: u128, b: u128) -> u8 {
    (a ^ b).leading_zeros() as u8
}

/// The slots of a group after `bits` bits that a prefix covers, or the slot that contains it.
fn slots(bits: u8, prefix: u128, length: u8) -> Range<usize> {
    let count = 1usize << (bits + 8).saturating_sub(length);
    let octet = usize::from((prefix >> (120 - bits)) as u8);
    let start = octet & !(count - 1);
    start..start + count
}
