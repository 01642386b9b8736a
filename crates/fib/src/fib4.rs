//! Longest-prefix match for IPv4: DIR-24-8 (Gupta, Lin, McKeown, "Routing lookups in hardware at memory access speeds",
//! INFOCOM 1998).
//!
//! One word for each of the 2^24 /24 networks answers in one access; where routes are longer than 24 bits it points to a
//! group of 256 words, one an address. Most lookups do not come so far: a byte for each network, [`super::digest`], tells
//! them. Changes are made in place, word by word: a reader sees each word before or after
//! a change, never between. A group is filled before it is pointed to, and [`super::blocks`] says how one is reused.

use super::blocks::{Blocks, Spare};
use super::digest::{Digest, Users};
use super::entry::{self, EMPTY, POINTER, Paint};
use super::sequence::Sequence;
use super::short::{self, Short};
use super::sync::{AtomicU8, AtomicU32, Ordering};
use packet::pool::{Huge, prefetch};
use parking_lot::Mutex;
use zerocopy::FromZeros;

const NETWORKS: usize = 1 << 24;
const NETWORK_BITS: u8 = 24;
/// The shortest prefix with words of its own in the table.
const TABLE_BITS: u8 = short::LONGEST + 1;
/// Lookups whose memory is fetched at once.
const BULK: usize = 32;
/// Lookups between two looks at the sequence.
const MOST: usize = 256;

#[derive(FromZeros)]
#[repr(C, align(64))]
struct Group([AtomicU32; 256]);

/// The IPv4 forwarding table: encoded outcomes by prefix. Readers share it without a lock; writers exclude each other.
///
/// It reserves 80 MB of address space. Memory is used where routes were written: five bytes for each /24, one kilobyte
/// for each /24 that has longer prefixes in it.
pub struct Fib4 {
    short: Short,
    /// A byte for each network, and what bytes stand for.
    bytes: Huge<AtomicU8>,
    digest: Digest,
    networks: Huge<AtomicU32>,
    groups: Blocks<Group>,
    sequence: Sequence,
    writer: Mutex<Writer>,
}

/// What only the writer needs.
struct Writer {
    spare: Spare,
    users: Users,
}

impl Default for Fib4 {
    fn default() -> Self {
        Self::new()
    }
}

impl Fib4 {
    /// A table without routes.
    pub fn new() -> Self {
        Fib4 {
            short: Short::new(),
            bytes: Huge::zeroed(NETWORKS),
            digest: Digest::new(),
            networks: Huge::zeroed(NETWORKS),
            groups: Blocks::new(),
            sequence: Sequence::default(),
            writer: Mutex::new(Writer { spare: Spare::default(), users: Users::new(NETWORKS as u32) }),
        }
    }

    /// The encoded outcome for packets to `address`; 0 (`NoRoute`) where no route leads there.
    #[inline]
    pub fn lookup(&self, address: u32) -> u32 {
        self.read(|| {
            let found = self.digest.get(&self.bytes[(address >> 8) as usize]).unwrap_or_else(|| {
                let found = self.network(address).load(Ordering::Acquire);
                if entry::is_pointer(found) { self.host(found, address) } else { found }
            });
            self.or_short(found, address)
        })
    }

    /// Fetches what a lookup of this address reads first.
    #[inline(always)]
    pub fn prefetch(&self, address: u32) {
        prefetch(&raw const self.bytes[(address >> 8) as usize]);
    }

    /// Looks many addresses up, fetching their memory at once. Panics where the slices are of different lengths.
    #[inline]
    pub fn lookup_bulk(&self, addresses: &[u32], words: &mut [u32]) {
        assert_eq!(addresses.len(), words.len(), "one answer for each address");
        for (addresses, words) in addresses.chunks(MOST).zip(words.chunks_mut(MOST)) {
            self.read(|| self.lookup_some(addresses, words));
        }
    }

    #[inline(always)]
    fn read<R>(&self, look: impl FnMut() -> R) -> R {
        self.sequence.read(|| self.writer.lock(), look)
    }

    /// At most 256 of them.
    #[inline(always)]
    fn lookup_some(&self, addresses: &[u32], words: &mut [u32]) {
        let bytes: &[AtomicU8; NETWORKS] = (&*self.bytes).try_into().expect("it has a byte for each");
        // What is made of a byte waits for it in the processor's queues, which hold fewer of them than it can fetch at
        // once. Prefetches wait for nothing: those of the next are under way while these are looked at.
        let fetch = |some: &[u32]| some.iter().for_each(|address| prefetch(&raw const bytes[(address >> 8) as usize]));
        let mut ahead = addresses.chunks(BULK);
        ahead.next().into_iter().for_each(fetch);
        let mut asking = [0; MOST / BULK];
        let chunks = addresses.chunks(BULK).zip(words.chunks_mut(BULK));
        for ((addresses, words), asking) in chunks.zip(&mut asking) {
            ahead.next().into_iter().for_each(fetch);
            let mut one = |i: usize, address: u32| {
                let found = self.digest.get(&bytes[(address >> 8) as usize]).unwrap_or_else(|| {
                    prefetch(self.network(address));
                    *asking |= 1 << i;
                    EMPTY
                });
                self.or_short(found, address)
            };
            // Written out by eights, for there is little to do for each.
            let ((eights, others), (answers, rest)) = (addresses.as_chunks::<8>(), words.as_chunks_mut::<8>());
            for (n, (addresses, words)) in eights.iter().zip(answers).enumerate() {
                *words = std::array::from_fn(|i| one(n * 8 + i, addresses[i]));
            }
            for (i, (&address, word)) in others.iter().zip(rest).enumerate() {
                *word = one(eights.len() * 8 + i, address);
            }
        }
        if asking != [0; MOST / BULK] {
            self.ask(asking, addresses, words);
        }
    }

    /// Looks those up of which the digest does not tell, a bit each, in the table itself.
    #[inline(never)]
    fn ask(&self, asking: [u32; MOST / BULK], addresses: &[u32], words: &mut [u32]) {
        let asking = || asking.into_iter().zip((0..).step_by(BULK)).flat_map(|(bits, first)| places(bits, first));
        for i in asking() {
            words[i] = self.network(addresses[i]).load(Ordering::Acquire);
            if let Some(group) = self.group(words[i]) {
                prefetch(&raw const group.0[(addresses[i] & 255) as usize]);
            }
        }
        for i in asking() {
            let found = if entry::is_pointer(words[i]) { self.host(words[i], addresses[i]) } else { words[i] };
            words[i] = self.or_short(found, addresses[i]);
        }
    }

    /// The outcome that was found or, where none was, what the short prefixes say.
    #[inline(always)]
    fn or_short(&self, found: u32, address: u32) -> u32 {
        let short = self.short.get((address >> 24) as u8);
        entry::word(if found == EMPTY { short } else { found })
    }

    #[inline(always)]
    fn network(&self, address: u32) -> &AtomicU32 {
        &self.networks[(address >> 8) as usize]
    }

    /// The group a word points to, if it does.
    #[inline(always)]
    fn group(&self, pointer: u32) -> Option<&Group> {
        if entry::is_pointer(pointer) { self.groups.get(pointer & !POINTER) } else { None }
    }

    #[inline(always)]
    fn host(&self, pointer: u32, address: u32) -> u32 {
        let group = self.group(pointer);
        group.map_or(EMPTY, |group| group.0[(address & 255) as usize].load(Ordering::Acquire))
    }

    /// Adds the route of a prefix or changes it: `word` is an encoded outcome other than `NoRoute`, bits of `prefix`
    /// behind `length` (at most 32) are ignored. Takes time in proportion to the /24 networks the
    /// prefix covers, at most 2^15 of them.
    pub fn insert(&self, prefix: u32, length: u8, word: u32) {
        let Writer { spare, users } = &mut *self.writer.lock();
        match length {
            0..=short::LONGEST => self.short.insert((prefix >> 24) as u8, length, word, &self.sequence),
            TABLE_BITS..=NETWORK_BITS => self.paint_networks(prefix, length, Paint::insert(length, word), users),
            _ => {
                let slot = self.network(prefix);
                let before = slot.load(Ordering::Relaxed);
                if let Some(group) = self.group(before) {
                    return paint_hosts(group, prefix, length, Paint::insert(length, word));
                }
                let (index, group) = self.groups.take(spare, &self.sequence);
                group.0.iter().for_each(|host| host.store(before, Ordering::Release));
                paint_hosts(group, prefix, length, Paint::insert(length, word));
                slot.store(POINTER | index, Ordering::Release);
                self.digest.ask(&self.bytes[(prefix >> 8) as usize], users);
            }
        }
    }

    /// Takes the route of a prefix away; its addresses go where `covering`, the longest prefix that covers it, says:
    /// (length, word), or (0, 0) where there is none.
    pub fn remove(&self, prefix: u32, length: u8, covering: (u8, u32)) {
        let Writer { spare, users } = &mut *self.writer.lock();
        match length {
            0..=short::LONGEST => self.short.remove((prefix >> 24) as u8, length, covering, &self.sequence),
            TABLE_BITS..=NETWORK_BITS => self.paint_networks(prefix, length, Paint::remove(length, covering), users),
            _ => {
                let slot = self.network(prefix);
                let pointer = slot.load(Ordering::Relaxed);
                let Some(group) = self.group(pointer) else { return };
                paint_hosts(group, prefix, length, Paint::remove(length, covering));
                if let Some(common) = uniform(group) {
                    slot.store(common, Ordering::Release);
                    let byte = self.digest.byte(entry::word(common), users, &self.sequence);
                    self.digest.set(&self.bytes[(prefix >> 8) as usize], byte, users);
                    spare.give_back(pointer & !POINTER);
                }
            }
        }
    }

    fn paint_networks(&self, prefix: u32, length: u8, paint: Paint, users: &mut Users) {
        let count = 1 << (NETWORK_BITS - length);
        let start = (prefix >> 8) as usize & !(count - 1);
        let byte = self.digest.byte(entry::word(paint.leaf), users, &self.sequence);
        for (slot, digest) in self.networks[start..start + count].iter().zip(&self.bytes[start..start + count]) {
            match self.group(slot.load(Ordering::Relaxed)) {
                Some(group) => group.0.iter().for_each(|host| _ = paint.apply(host)),
                None if paint.apply(slot) => self.digest.set(digest, byte, users),
                None => {}
            }
        }
    }

    /// Has large pages behind the table: worth it when most of its memory is used.
    pub fn thicken(&self) {
        self.bytes.thicken();
        self.networks.thicken();
    }

    /// Groups in use: /24 networks with longer prefixes in them.
    pub fn groups(&self) -> usize {
        self.writer.lock().spare.used()
    }

    /// Bytes of address space held.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.bytes) + size_of_val(&*self.networks) + self.groups.bytes(&self.writer.lock().spare)
    }
}

/// Where bits are set, the lowest at `first`.
fn places(mut bits: u32, first: usize) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = bits.trailing_zeros() as usize;
        bits &= bits.checked_sub(1)?;
        Some(first + place)
    })
}

fn paint_hosts(group: &Group, prefix: u32, length: u8, paint: Paint) {
    let count = 1 << (32 - length);
    let start = (prefix & 255) as usize & !(count - 1);
    group.0[start..start + count].iter().for_each(|host| _ = paint.apply(host));
}

/// The word all of a group's hosts have in common, where no longer prefix is left in it.
fn uniform(group: &Group) -> Option<u32> {
    let common = group.0[0].load(Ordering::Relaxed);
    let same = entry::length(common) <= NETWORK_BITS && group.0.iter().all(|h| h.load(Ordering::Relaxed) == common);
    same.then_some(common)
}

#[cfg(test)]
mod tests {
    use super::super::oracle::{Naive, Step, Told, steps};
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicBool;

    fn step(fib: &Fib4, naive: &mut Naive, step: Step) {
        let ((prefix, length), word) = step;
        match naive.take(step) {
            Told::Insert => fib.insert(prefix as u32, length, word),
            Told::Remove(covering) => fib.remove(prefix as u32, length, covering),
            Told::Nothing => {}
        }
    }

    fn agree(fib: &Fib4, naive: &Naive) {
        let addresses: Vec<u32> = naive.edges().iter().map(|address| *address as u32).collect();
        let mut words = vec![0; addresses.len()];
        fib.lookup_bulk(&addresses, &mut words);
        for (&address, &word) in addresses.iter().zip(&words) {
            assert_eq!(word, naive.lookup(address.into()), "in bulk: {address:08x}");
            assert_eq!(fib.lookup(address), word, "alone: {address:08x}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_naive_table_after_every_change(steps in steps(32)) {
            let (fib, mut naive) = (Fib4::new(), Naive::new(32));
            for change in steps {
                step(&fib, &mut naive, change);
                agree(&fib, &naive);
            }
            while let Some((&(length, prefix), _)) = naive.routes.iter().next() {
                step(&fib, &mut naive, ((prefix, length), 0));
            }
            prop_assert_eq!(fib.groups(), 0, "groups without routes were given back");
        }
    }

    #[test]
    fn the_shortest_and_the_longest_prefixes_hold_exactly_their_addresses() {
        let (fib, mut naive) = (Fib4::new(), Naive::new(32));
        let prefixes =
            [(0, 0), (0, 1), (1 << 31, 1), (0, 2), (0x0a00_0000, 8), (0x0a0b_0c0d, 32), (u32::MAX, 32), (0, 32)];
        for (word, (prefix, length)) in (1..).zip(prefixes) {
            step(&fib, &mut naive, ((u128::from(prefix), length), word));
            agree(&fib, &naive);
        }
        for (prefix, length) in prefixes {
            step(&fib, &mut naive, ((u128::from(prefix), length), 0));
            agree(&fib, &naive);
        }
        assert_eq!(fib.lookup(0x0a0b_0c0d), 0);
    }

    #[test]
    fn more_outcomes_than_a_byte_can_tell_are_told_all_the_same() {
        let (fib, mut naive) = (Fib4::new(), Naive::new(32));
        // They come, are replaced by as many others, and go in the order in which they came.
        for round in 0..3 {
            for n in 0..700 {
                step(&fib, &mut naive, ((0x0a00_0000 + (n << 8), 24), 1 + (n as u32 + 350 * round) % 1000));
            }
            agree(&fib, &naive);
        }
        for n in 0..700 {
            step(&fib, &mut naive, ((0x0a00_0000 + (n << 8), 24), 0));
            step(&fib, &mut naive, ((0x0b00_0000 + (n << 8), 24), 2000 + n as u32));
        }
        agree(&fib, &naive);
    }

    #[test]
    fn a_byte_taken_for_another_outcome_is_told_from_the_one_before() {
        const OUTCOMES: u32 = 1000;
        let fib = Fib4::new();
        fib.insert(0x0a00_0000, 24, 1);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The first network has one of two outcomes, others all there are: each byte soon stands for another.
                for round in 0..100_000 {
                    fib.insert(0x0a00_0000, 24, 1 + round % 2);
                    fib.insert(0x0b00_0000, 24, 3 + round % OUTCOMES);
                }
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                let mut words = [0; BULK];
                fib.lookup_bulk(&[0x0a00_0001; BULK], &mut words);
                let seen = words.into_iter().chain([fib.lookup(0x0a00_0001)]);
                seen.for_each(|word| assert!([1, 2].contains(&word), "led to {word}"));
            }
        });
    }

    #[test]
    fn a_route_that_replaces_another_of_other_length_leaves_no_gap() {
        let fib = Fib4::new();
        fib.insert(0, 8, 1);
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
                fib.lookup_bulk(&[1; BULK], &mut words);
                let seen = words.into_iter().chain([fib.lookup(1)]);
                seen.for_each(|word| assert!([1, 2].contains(&word), "led to {word}"));
            }
        });
    }

    #[test]
    fn every_answer_while_routes_change_is_one_that_held_at_some_time() {
        const NETWORKS: u32 = 4;
        let network = |n: u32| 0x0a00_0000 | n << 8;
        let fib = Fib4::new();
        (0..NETWORKS).for_each(|n| fib.insert(network(n), 24, 100 + n));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Groups are given back and taken again for another network all the time.
                for round in 0..100_000 {
                    let n = round % NETWORKS;
                    fib.insert(network(n) | 1, 32, 200 + n);
                    fib.remove(network(n) | 1, 32, (24, 100 + n));
                }
                done.store(true, Ordering::Release);
            });
            let addresses: Vec<u32> = (0..NETWORKS).flat_map(|n| [network(n) | 1, network(n) | 2]).collect();
            let mut words = vec![0; addresses.len()];
            while !done.load(Ordering::Acquire) {
                fib.lookup_bulk(&addresses, &mut words);
                for (&address, &word) in addresses.iter().zip(&words) {
                    for word in [word, fib.lookup(address)] {
                        let n = address >> 8 & 255;
                        let changed = address & 255 == 1 && word == 200 + n;
                        assert!(word == 100 + n || changed, "{address:08x} led to {word}");
                    }
                }
            }
        });
        assert_eq!(fib.groups(), 0);
    }
}
