//! Longest-prefix match for IPv4: DIR-24-8 (Gupta, Lin, McKeown, "Routing lookups in hardware at memory access speeds",
//! INFOCOM 1998).
//!
//! One word for each of the 2^24 /24 networks answers in one access. A network with routes longer than 24 bits has a group of 256 words, one for each
//! address; its word points to the group. Most lookups need neither: one byte for each network ([`super::digest`]) gives the outcome. The writer
//! changes words in place. A reader sees each word before or after a change, never in between. The writer fills a group before a word points to it;
//! [`super::blocks`] describes how groups are reused.

use super::blocks::{BlockAllocator, Blocks};
use super::digest::{Digest, Users};
use super::entry::{self, EMPTY, POINTER, Paint};
use super::sequence::Sequence;
use super::short::{self, Short};
use super::sync::{AtomicU8, AtomicU32, Ordering};
use packet::pool::{HugeTable, prefetch};
use parking_lot::Mutex;
use zerocopy::FromZeros;

const NETWORKS: usize = 1 << 24;
const NETWORK_BITS: u8 = 24;
/// The shortest prefix with words in the table.
const TABLE_BITS: u8 = short::LONGEST + 1;
/// Lookups whose memory is prefetched together.
const BULK: usize = 32;
/// The maximum number of lookups between two reads of the sequence count.
const MOST: usize = 256;

#[derive(FromZeros)]
#[repr(C, align(64))]
struct Group([AtomicU32; 256]);

/// The IPv4 forwarding table: encoded outcomes by prefix. Readers share it without a lock; writers exclude each other.
///
/// It reserves 80 MB of address space and uses memory only where routes were written: five bytes for each /24, and one kilobyte for each /24 with
/// longer prefixes in it.
pub struct Fib4 {
    short: Short,
    /// One byte for each network.
    bytes: HugeTable<AtomicU8>,
    digest: Digest,
    networks: HugeTable<AtomicU32>,
    groups: Blocks<Group>,
    sequence: Sequence,
    writer: Mutex<Writer>,
}

/// The writer's state.
struct Writer {
    spare: BlockAllocator,
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
            bytes: HugeTable::zeroed(NETWORKS),
            digest: Digest::new(),
            networks: HugeTable::zeroed(NETWORKS),
            groups: Blocks::new(),
            sequence: Sequence::default(),
            writer: Mutex::new(Writer { spare: BlockAllocator::default(), users: Users::new(NETWORKS as u32) }),
        }
    }

    /// The encoded outcome for packets to `address`, 0 (`NoRoute`) without a route.
    #[inline]
    pub fn lookup(&self, address: u32) -> u32 {
        self.read(|| {
            let found = self.digest.get(&self.bytes[(address >> 8) as usize]).unwrap_or_else(|| {
                let found = self.network(address).load(Ordering::Acquire);
                // The pointer may be stale by now: then the sequence count has changed, and the lookup repeats.
                if entry::is_pointer(found) { self.host(found, address) } else { found }
            });
            self.or_short(found, address)
        })
    }

    /// Prefetches the first word that a lookup of this address reads.
    #[inline(always)]
    pub fn prefetch(&self, address: u32) {
        self.prefetcher()(address);
    }

    /// The same for many addresses, without the steps that all have in common.
    #[inline(always)]
    pub fn prefetcher(&self) -> impl Fn(u32) + '_ {
        let bytes = self.network_bytes();
        move |address| prefetch(&raw const bytes[(address >> 8) as usize])
    }

    /// Looks up many addresses and prefetches their memory together. Panics if the slices differ in length.
    #[inline]
    pub fn lookup_bulk(&self, addresses: &[u32], words: &mut [u32]) {
        assert_eq!(addresses.len(), words.len(), "one answer for each address");
        for (addresses, words) in addresses.chunks(MOST).zip(words.chunks_mut(MOST)) {
            self.read(|| self.lookup_some(addresses, words));
        }
    }

    /// The same for at most 256 addresses, each of which the caller has [prefetched](Fib4::prefetch).
    #[inline]
    pub fn lookup_prefetched(&self, addresses: &[u32], words: &mut [u32]) {
        assert!(addresses.len() == words.len() && words.len() <= MOST, "one answer for each address");
        self.read(|| {
            let mut asking = [0; MOST / BULK];
            for (n, asking) in asking.iter_mut().enumerate().take(addresses.len().div_ceil(BULK)) {
                let chunk = n * BULK..addresses.len().min((n + 1) * BULK);
                *asking = self.read_bytes(&addresses[chunk.clone()], &mut words[chunk]);
            }
            if asking != [0; MOST / BULK] {
                self.ask(asking, addresses, words);
            }
        });
    }

    #[inline(always)]
    fn read<R>(&self, look: impl FnMut() -> R) -> R {
        self.sequence.read(|| self.writer.lock(), look)
    }

    /// Looks up at most 256 addresses.
    #[inline(always)]
    fn lookup_some(&self, addresses: &[u32], words: &mut [u32]) {
        // Instructions that use a loaded byte occupy the processor's reorder window until the byte arrives. The window holds fewer of them than the
        // memory system can have loads in flight. Prefetches do not wait, so those of the next chunk run while this one is evaluated.
        let prefetch = self.prefetcher();
        let fetch = |some: &[u32]| some.iter().for_each(|&address| prefetch(address));
        let mut ahead = addresses.chunks(BULK);
        ahead.next().into_iter().for_each(fetch);
        // One bit for each address of a chunk: `BULK` is the number of bits.
        let mut asking = [0; MOST / BULK];
        let chunks = addresses.chunks(BULK).zip(words.chunks_mut(BULK));
        for ((addresses, words), asking) in chunks.zip(&mut asking) {
            ahead.next().into_iter().for_each(fetch);
            *asking = self.read_bytes(addresses, words);
        }
        // The common case with few next hops is that every byte decides.
        if asking != [0; MOST / BULK] {
            self.ask(asking, addresses, words);
        }
    }

    /// Looks up at most [`BULK`] addresses by their bytes. Returns a bit for each address whose byte is `ASK`.
    #[inline(always)]
    fn read_bytes(&self, addresses: &[u32], words: &mut [u32]) -> u32 {
        let mut asking = 0;
        // Unrolled by eight: there is little work for each address. Loops and not iterators, which the compiler left as a call for each address.
        let ((eights, others), (answers, rest)) = (addresses.as_chunks::<8>(), words.as_chunks_mut::<8>());
        for (n, (addresses, words)) in eights.iter().zip(answers).enumerate() {
            for i in 0..8 {
                words[i] = self.read_byte(addresses[i], &mut asking, n * 8 + i);
            }
        }
        for (i, (&address, word)) in others.iter().zip(rest).enumerate() {
            *word = self.read_byte(address, &mut asking, eights.len() * 8 + i);
        }
        asking
    }

    /// Looks up an address by its byte, or sets bit `i` of `asking` and prefetches the word of its network.
    #[inline(always)]
    fn read_byte(&self, address: u32, asking: &mut u32, i: usize) -> u32 {
        let found = match self.digest.get(&self.network_bytes()[(address >> 8) as usize]) {
            Some(found) => found,
            None => {
                prefetch(self.network(address));
                *asking |= 1 << i;
                EMPTY
            }
        };
        self.or_short(found, address)
    }

    /// As an array: a number of 24 bits is always below its length, so lookups have no bounds checks.
    #[inline(always)]
    fn network_bytes(&self) -> &[AtomicU8; NETWORKS] {
        (&*self.bytes).try_into().expect("it has a byte for each")
    }

    /// Looks up in the table itself the addresses whose byte is `ASK`. `asking` has a bit for each.
    #[inline(never)]
    fn ask(&self, asking: [u32; MOST / BULK], addresses: &[u32], words: &mut [u32]) {
        let asking = || asking.into_iter().zip((0..).step_by(BULK)).flat_map(|(bits, first)| places(bits, first));
        // Two passes: the first prefetches the words of all groups, the second reads them.
        // Most packets in a row to an address of the router, such as the end of a tunnel, are for the same one.
        let mut last = None;
        for i in asking() {
            if last.replace(addresses[i]) == Some(addresses[i]) {
                continue;
            }
            words[i] = self.network(addresses[i]).load(Ordering::Acquire);
            if let Some(group) = self.group(words[i]) {
                prefetch(&raw const group.0[(addresses[i] & 255) as usize]);
            }
        }
        let mut last = None;
        for i in asking() {
            words[i] = match last {
                Some((address, word)) if address == addresses[i] => word,
                _ => {
                    let found = if entry::is_pointer(words[i]) { self.host(words[i], addresses[i]) } else { words[i] };
                    self.or_short(found, addresses[i])
                }
            };
            last = Some((addresses[i], words[i]));
        }
    }

    /// The outcome found in the table. If there is none, that of the short prefixes.
    #[inline(always)]
    fn or_short(&self, found: u32, address: u32) -> u32 {
        let short = self.short.get((address >> 24) as u8);
        entry::word(if found == EMPTY { short } else { found })
    }

    #[inline(always)]
    fn network(&self, address: u32) -> &AtomicU32 {
        &self.networks[(address >> 8) as usize]
    }

    /// The group that a word points to, if it is a pointer.
    #[inline(always)]
    fn group(&self, pointer: u32) -> Option<&Group> {
        if entry::is_pointer(pointer) { self.groups.get(pointer & !POINTER) } else { None }
    }

    #[inline(always)]
    fn host(&self, pointer: u32, address: u32) -> u32 {
        let group = self.group(pointer);
        // A pointer names an allocated group, so this default is never used. It spares the lookup a panic.
        group.map_or(EMPTY, |group| group.0[(address & 255) as usize].load(Ordering::Acquire))
    }

    /// Adds or changes the route of a prefix. `word` is an encoded outcome other than `NoRoute`, or the call panics. Bits of `prefix` after `length`
    /// (at most 32) are ignored. Takes time in proportion to the number of /24 networks in the prefix, at most 2^15.
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
                // The group is complete before the word points to it, and the word changes before its byte says `ASK`: a lookup at any moment finds
                // the old or the new outcome.
                let (index, group) = self.groups.allocate(spare, &self.sequence);
                // The stores are releases although no word points to the group yet: a reader may still follow it from its earlier use.
                group.0.iter().for_each(|host| host.store(before, Ordering::Release));
                paint_hosts(group, prefix, length, Paint::insert(length, word));
                slot.store(POINTER | index, Ordering::Release);
                self.digest.ask(&self.bytes[(prefix >> 8) as usize], users);
            }
        }
    }

    /// Removes the route of a prefix. `covering` is the longest shorter prefix that covers it, as (length, word), or (0, 0) if there is none.
    pub fn remove(&self, prefix: u32, length: u8, covering: (u8, u32)) {
        let Writer { spare, users } = &mut *self.writer.lock();
        match length {
            0..=short::LONGEST => self.short.remove((prefix >> 24) as u8, length, covering, &self.sequence),
            TABLE_BITS..=NETWORK_BITS => self.paint_networks(prefix, length, Paint::remove(length, covering), users),
            _ => {
                let slot = self.network(prefix);
                let pointer = slot.load(Ordering::Relaxed);
                // Without a group the network has no route longer than 24 bits.
                let Some(group) = self.group(pointer) else { return };
                paint_hosts(group, prefix, length, Paint::remove(length, covering));
                // All hosts have the same outcome again and no longer prefix is left: the network goes back to one word.
                if let Some(common) = uniform(group) {
                    slot.store(common, Ordering::Release);
                    let byte = self.digest.byte(entry::word(common), users, &self.sequence);
                    self.digest.set(&self.bytes[(prefix >> 8) as usize], byte, users);
                    // Last, when neither word nor byte lead to the group any more.
                    spare.release(pointer & !POINTER);
                }
            }
        }
    }

    fn paint_networks(&self, prefix: u32, length: u8, paint: Paint, users: &mut Users) {
        let count = 1 << (NETWORK_BITS - length);
        let start = (prefix >> 8) as usize & !(count - 1);
        // Once for all networks: the search reads up to 254 words.
        let byte = self.digest.byte(entry::word(paint.leaf), users, &self.sequence);
        for (slot, digest) in self.networks[start..start + count].iter().zip(&self.bytes[start..start + count]) {
            match self.group(slot.load(Ordering::Relaxed)) {
                // The byte stays `ASK`: the longer routes of this network remain.
                Some(group) => group.0.iter().for_each(|host| _ = paint.apply(host)),
                // The table changes before its digest, so that a byte never promises an outcome that the table does not have yet.
                None if paint.apply(slot) => self.digest.set(digest, byte, users),
                None => {}
            }
        }
    }

    /// Puts huge pages behind the table. Useful when most of its memory is used.
    pub fn use_huge_pages(&self) {
        self.bytes.collapse_pages();
        self.networks.collapse_pages();
    }

    /// Groups in use: the number of /24 networks with longer prefixes in them.
    pub fn groups(&self) -> usize {
        self.writer.lock().spare.used()
    }

    /// Bytes of address space reserved.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.bytes) + size_of_val(&*self.networks) + self.groups.bytes(&self.writer.lock().spare)
    }
}

/// The positions of the set bits. The lowest bit has position `first`.
fn places(mut bits: u32, first: usize) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = bits.trailing_zeros() as usize;
        // Clears the lowest bit. With no bit left the subtraction fails and ends the iteration.
        bits &= bits.checked_sub(1)?;
        Some(first + place)
    })
}

fn paint_hosts(group: &Group, prefix: u32, length: u8, paint: Paint) {
    let count = 1 << (32 - length);
    let start = (prefix & 255) as usize & !(count - 1);
    group.0[start..start + count].iter().for_each(|host| _ = paint.apply(host));
}

/// The word that all hosts of a group share, if no longer prefix is left in it.
fn uniform(group: &Group) -> Option<u32> {
    // Two /25 routes with one outcome also give equal words, but both routes remain: their length exceeds 24.
    let common = group.0[0].load(Ordering::Relaxed);
    let same = entry::length(common) <= NETWORK_BITS && group.0.iter().all(|h| h.load(Ordering::Relaxed) == common);
    same.then_some(common)
}

#[cfg(test)]
mod tests {
    use super::super::oracle::{Naive, Step, TableChange, steps};
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicBool;

    fn step(fib: &Fib4, naive: &mut Naive, step: Step) {
        let ((prefix, length), word) = step;
        match naive.apply(step) {
            TableChange::Insert => fib.insert(prefix as u32, length, word),
            TableChange::Remove(covering) => fib.remove(prefix as u32, length, covering),
            TableChange::Nothing => {}
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
    fn shortest_and_longest_prefixes_match_exactly_their_addresses() {
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
    fn lookup_is_exact_with_more_outcomes_than_digest_bytes() {
        let (fib, mut naive) = (Fib4::new(), Naive::new(32));
        // Routes are added, replaced by as many others, and removed in the order of their arrival.
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
    fn reused_digest_byte_never_returns_previous_outcome() {
        const OUTCOMES: u32 = 1000;
        let fib = Fib4::new();
        fib.insert(0x0a00_0000, 24, 1);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The first network alternates between two outcomes, the others use all outcomes: each byte is soon reused.
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
    fn replacing_route_of_other_length_is_atomic() {
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
    fn concurrent_lookup_returns_a_valid_outcome() {
        const NETWORKS: u32 = 4;
        let network = |n: u32| 0x0a00_0000 | n << 8;
        let fib = Fib4::new();
        (0..NETWORKS).for_each(|n| fib.insert(network(n), 24, 100 + n));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Groups are continually released and reused for another network.
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
