//! Longest-prefix match for IPv4: DIR-24-8 (Gupta, Lin, McKeown, "Routing lookups in hardware at memory access speeds",
//! INFOCOM 1998).
//!
//! One word for each of the 2^24 /24 networks answers in one access; where routes are longer than 24 bits it points to a
//! group of 256 words, one an address. Changes are made in place, word by word: a reader sees each word before or after
//! a change, never between. A group is filled before it is pointed to, and [`super::blocks`] says how one is reused.

use super::blocks::{Blocks, Spare};
use super::entry::{self, EMPTY, POINTER, Paint};
use super::sequence::Sequence;
use super::short::{self, Short};
use super::sync::{AtomicU32, Ordering};
use packet::pool::{Huge, prefetch};
use parking_lot::Mutex;
use zerocopy::FromZeros;

const NETWORKS: usize = 1 << 24;
const NETWORK_BITS: u8 = 24;
/// The shortest prefix with words of its own in the table.
const TABLE_BITS: u8 = short::LONGEST + 1;
/// Lookups whose memory is fetched at once.
const BULK: usize = 32;

#[derive(FromZeros)]
#[repr(C, align(64))]
struct Group([AtomicU32; 256]);

/// The IPv4 forwarding table: encoded outcomes by prefix. Readers share it without a lock; writers exclude each other.
///
/// It reserves 64 MB of address space. Memory is used where routes were written: four bytes for each /24, one kilobyte
/// for each /24 that has longer prefixes in it.
pub struct Fib4 {
    short: Short,
    networks: Huge<AtomicU32>,
    groups: Blocks<Group>,
    sequence: Sequence,
    spare: Mutex<Spare>,
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
            networks: Huge::zeroed(NETWORKS),
            groups: Blocks::new(),
            sequence: Sequence::default(),
            spare: Mutex::default(),
        }
    }

    /// The encoded outcome for packets to `address`; 0 (`NoRoute`) where no route leads there.
    #[inline]
    pub fn lookup(&self, address: u32) -> u32 {
        entry::word(self.read(|| {
            let found = self.network(address).load(Ordering::Acquire);
            let found = if entry::is_pointer(found) { self.host(found, address) } else { found };
            self.or_short(found, address)
        }))
    }

    /// Looks many addresses up, fetching their memory at once. Panics where the slices are of different lengths.
    #[inline]
    pub fn lookup_bulk(&self, addresses: &[u32], words: &mut [u32]) {
        assert_eq!(addresses.len(), words.len(), "one answer for each address");
        let networks: &[AtomicU32; NETWORKS] = (&*self.networks).try_into().expect("it has a word for each");
        // What is made of a word waits for it in the processor's queues, which hold fewer of them than it can fetch at
        // once. Prefetches wait for nothing: those of the next are under way while these are looked at.
        let fetch =
            |some: &[u32]| some.iter().for_each(|address| prefetch(&raw const networks[(address >> 8) as usize]));
        let mut ahead = addresses.chunks(BULK);
        ahead.next().into_iter().for_each(fetch);
        for (addresses, words) in addresses.chunks(BULK).zip(words.chunks_mut(BULK)) {
            ahead.next().into_iter().for_each(fetch);
            self.read(|| self.lookup_some(networks, addresses, words));
        }
    }

    #[inline(always)]
    fn read<R>(&self, look: impl FnMut() -> R) -> R {
        self.sequence.read(|| self.spare.lock(), look)
    }

    #[inline(always)]
    fn lookup_some(&self, networks: &[AtomicU32; NETWORKS], addresses: &[u32], words: &mut [u32]) {
        let mut pointers = EMPTY;
        for (&address, word) in addresses.iter().zip(&mut *words) {
            let found = networks[(address >> 8) as usize].load(Ordering::Acquire);
            pointers |= found;
            *word = self.or_short(found, address);
        }
        if entry::is_pointer(pointers) {
            self.lookup_hosts(addresses, words);
        }
        words.iter_mut().for_each(|word| *word = entry::word(*word));
    }

    fn lookup_hosts(&self, addresses: &[u32], words: &mut [u32]) {
        for (&address, word) in addresses.iter().zip(&*words) {
            if let Some(group) = self.group(*word) {
                prefetch(&raw const group.0[(address & 255) as usize]);
            }
        }
        for (&address, word) in addresses.iter().zip(&mut *words) {
            if entry::is_pointer(*word) {
                let found = self.host(*word, address);
                *word = self.or_short(found, address);
            }
        }
    }

    /// What was found or, where nothing was, what the short prefixes say.
    #[inline(always)]
    fn or_short(&self, found: u32, address: u32) -> u32 {
        let short = self.short.get((address >> 24) as u8);
        if found == EMPTY { short } else { found }
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
        let mut spare = self.spare.lock();
        match length {
            0..=short::LONGEST => self.short.insert((prefix >> 24) as u8, length, word, &self.sequence),
            TABLE_BITS..=NETWORK_BITS => self.paint_networks(prefix, length, Paint::insert(length, word)),
            _ => {
                let slot = self.network(prefix);
                let before = slot.load(Ordering::Relaxed);
                if let Some(group) = self.group(before) {
                    return paint_hosts(group, prefix, length, Paint::insert(length, word));
                }
                let (index, group) = self.groups.take(&mut spare, &self.sequence);
                group.0.iter().for_each(|host| host.store(before, Ordering::Release));
                paint_hosts(group, prefix, length, Paint::insert(length, word));
                slot.store(POINTER | index, Ordering::Release);
            }
        }
    }

    /// Takes the route of a prefix away; its addresses go where `covering`, the longest prefix that covers it, says:
    /// (length, word), or (0, 0) where there is none.
    pub fn remove(&self, prefix: u32, length: u8, covering: (u8, u32)) {
        let mut spare = self.spare.lock();
        match length {
            0..=short::LONGEST => self.short.remove((prefix >> 24) as u8, length, covering, &self.sequence),
            TABLE_BITS..=NETWORK_BITS => self.paint_networks(prefix, length, Paint::remove(length, covering)),
            _ => {
                let slot = self.network(prefix);
                let pointer = slot.load(Ordering::Relaxed);
                let Some(group) = self.group(pointer) else { return };
                paint_hosts(group, prefix, length, Paint::remove(length, covering));
                if let Some(common) = uniform(group) {
                    slot.store(common, Ordering::Release);
                    spare.give_back(pointer & !POINTER);
                }
            }
        }
    }

    fn paint_networks(&self, prefix: u32, length: u8, paint: Paint) {
        let count = 1 << (NETWORK_BITS - length);
        let start = (prefix >> 8) as usize & !(count - 1);
        for slot in &self.networks[start..start + count] {
            match self.group(slot.load(Ordering::Relaxed)) {
                Some(group) => group.0.iter().for_each(|host| paint.apply(host)),
                None => paint.apply(slot),
            }
        }
    }

    /// Has large pages behind the table: worth it when most of its memory is used.
    pub fn thicken(&self) {
        self.networks.thicken();
    }

    /// Groups in use: /24 networks with longer prefixes in them.
    pub fn groups(&self) -> usize {
        self.spare.lock().used()
    }

    /// Bytes of address space held.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.networks) + self.groups.bytes(&self.spare.lock())
    }
}

fn paint_hosts(group: &Group, prefix: u32, length: u8, paint: Paint) {
    let count = 1 << (32 - length);
    let start = (prefix & 255) as usize & !(count - 1);
    group.0[start..start + count].iter().for_each(|host| paint.apply(host));
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
