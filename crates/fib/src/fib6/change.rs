//! How routes come into the tree and leave it.
//!
//! A route longer than what its word stands for begins as a stretch. Where two routes part a group is put at the octet
//! that tells them apart. A route that ends within an octet fills the slots it covers, and all shorter words below. What
//! a removal leaves over, groups with one way through and stretches without a difference, is shortened on the way back,
//! so that a tree without routes is empty.

use super::super::entry::{self, POINTER, Paint};
use super::super::short;
use super::super::sync::{AtomicU32, Ordering};
use super::{GROUPS, Group, INDEX, Node, OCTET, STRETCH, STRETCHES, Stretch, Trie, Writer};
use std::ops::Range;

/// A route that comes or goes.
#[derive(Clone, Copy)]
struct Change {
    prefix: u128,
    length: u8,
    paint: Paint,
}

impl<const ROOT: u8> Trie<ROOT> {
    /// Adds the route of a prefix or changes it: `word` is an encoded outcome other than `NoRoute`, bits of `prefix`
    /// behind `length` (at most 128) are ignored. Takes time in proportion to the part of the tree the prefix covers,
    /// at least its /24 networks.
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

    /// Takes the route of a prefix away; its addresses go where `covering`, the longest prefix that covers it, says:
    /// (length, word), or (0, 0) where there is none.
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

    /// The roots a prefix covers, where it is not longer than theirs.
    fn painted_roots(&self, prefix: u128, length: u8) -> Option<&[AtomicU32]> {
        let count = 1 << ROOT.checked_sub(length)?;
        let start = (prefix >> (128 - ROOT)) as usize & !(count - 1);
        Some(&self.roots[start..start + count])
    }

    /// Changes the leaves below `slot`, all of whose addresses the changed prefix covers.
    fn paint(&self, slot: &AtomicU32, paint: Paint) {
        match self.node(slot.load(Ordering::Relaxed)) {
            Node::Leaf => _ = paint.apply(slot),
            Node::Group(group) => group.0.iter().for_each(|slot| self.paint(slot, paint)),
            Node::Stretch(stretch) => {
                self.paint(&stretch.hit, paint);
                self.paint(&stretch.miss, paint);
            }
        }
    }

    /// Puts a route below `slot`, whose addresses have their first `bits` bits in common with it; it is longer.
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
                if inside && change.length == stretch.len() {
                    self.paint(&stretch.hit, change.paint);
                } else if inside && change.length > stretch.len() && stretch.len() % 8 == 0 {
                    self.insert_below(&stretch.hit, stretch.len(), change, writer);
                } else {
                    let split = self.split(stretch, bits, change, writer);
                    slot.store(split, Ordering::Release);
                    self.give_back_stretch(word, writer);
                }
            }
        }
    }

    /// Puts a route into a group whose addresses have `bits` bits in common with it; it is longer.
    fn insert_into(&self, group: &Group, bits: u8, change: Change, writer: &mut Writer) {
        let slots = slots(bits, change.prefix, change.length);
        if change.length <= bits + 8 {
            group.0[slots].iter().for_each(|slot| self.paint(slot, change.paint));
        } else {
            self.insert_below(&group.0[slots.start], bits + 8, change, writer);
        }
    }

    /// What takes the place of a stretch to which `change` does not conform: a group at the octet where they part, with
    /// both in it, behind a shorter stretch where that octet is further on. The stretch itself stays as it is.
    fn split(&self, stretch: &Stretch, bits: u8, change: Change, writer: &mut Writer) -> u32 {
        let (key, length) = (stretch.key(), stretch.len());
        let (hit, miss) = (stretch.hit.load(Ordering::Relaxed), stretch.miss.load(Ordering::Relaxed));
        let shared = common(key, change.prefix).min(change.length - 1).min(length - 1) / 8 * 8;
        let (index, group) = self.nodes.groups.take(&mut writer.groups, &self.nodes.sequence);
        self.held[GROUPS].fetch_add(1, Ordering::Relaxed);
        group.0.iter().for_each(|slot| slot.store(miss, Ordering::Release));
        let places = slots(shared, key, length);
        if length <= shared + 8 {
            group.0[places].iter().for_each(|slot| slot.store(hit, Ordering::Release));
        } else {
            let rest = self.stretch(key, length, hit, miss, writer);
            group.0[places.start].store(rest, Ordering::Release);
        }
        self.insert_into(group, shared, change, writer);
        let group = group_pointer(index, shared);
        if shared > bits { self.stretch(key, shared, group, miss, writer) } else { group }
    }

    /// A new stretch; the pointer to it.
    fn stretch(&self, prefix: u128, length: u8, hit: u32, miss: u32, writer: &mut Writer) -> u32 {
        let (index, stretch) = self.nodes.stretches.take(&mut writer.stretches, &self.nodes.sequence);
        self.held[STRETCHES].fetch_add(1, Ordering::Relaxed);
        stretch.fill(prefix, length, hit, miss);
        POINTER | STRETCH | index
    }

    fn give_back_group(&self, pointer: u32, writer: &mut Writer) {
        self.held[GROUPS].fetch_sub(1, Ordering::Relaxed);
        writer.groups.give_back(pointer & INDEX);
    }

    fn give_back_stretch(&self, pointer: u32, writer: &mut Writer) {
        self.held[STRETCHES].fetch_sub(1, Ordering::Relaxed);
        writer.stretches.give_back(pointer & INDEX);
    }

    /// Takes a route away below `slot`, and what is not needed without it.
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
                if common(stretch.key(), change.prefix) < length || change.length < length {
                    return;
                } else if change.length == length {
                    self.paint(&stretch.hit, change.paint);
                } else {
                    self.remove_below(&stretch.hit, length, change, writer);
                }
                let (hit, miss) = (stretch.hit.load(Ordering::Relaxed), stretch.miss.load(Ordering::Relaxed));
                if hit == miss || self.misses(hit) == Some(miss) {
                    slot.store(hit, Ordering::Release);
                    self.give_back_stretch(word, writer);
                }
            }
        }
    }

    /// What holds behind a stretch that does not match.
    fn misses(&self, word: u32) -> Option<u32> {
        match self.node(word) {
            Node::Stretch(stretch) => Some(stretch.miss.load(Ordering::Relaxed)),
            _ => None,
        }
    }

    /// What can stand for a group whose addresses begin with `bits` bits of `prefix`: a leaf or a stretch, where at most
    /// one way leads further.
    fn shortened(&self, group: &Group, bits: u8, prefix: u128, writer: &mut Writer) -> Option<u32> {
        // Words from prefixes not longer than `bits` are all the same: those of the route that covers the group.
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
        let covering = covering?;
        let Some((octet, word)) = special else { return Some(covering) };
        let prefix = prefix & !(u128::MAX >> bits) | (octet as u128) << (120 - bits);
        match self.node(word) {
            Node::Stretch(_) => (self.misses(word) == Some(covering)).then_some(word),
            Node::Group(_) => Some(self.stretch(prefix, bits + 8, word, covering, writer)),
            Node::Leaf => {
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

/// Leading bits two addresses have in common: 0 to 128.
fn common(a: u128, b: u128) -> u8 {
    (a ^ b).leading_zeros() as u8
}

/// The slots of a group behind `bits` bits that a prefix covers, or the one it is in.
fn slots(bits: u8, prefix: u128, length: u8) -> Range<usize> {
    let count = 1usize << (bits + 8).saturating_sub(length);
    let octet = usize::from((prefix >> (120 - bits)) as u8);
    let start = octet & !(count - 1);
    start..start + count
}
