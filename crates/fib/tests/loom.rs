//! The protocols for changing tables during reads, in every interleaving that the memory model allows: `make loom`. The tests compile the crate's own
//! files with the model checker's atomics; only the tables are smaller.

#![cfg(loom)]
// The files are compiled whole; a model uses only a part of each.
#![allow(dead_code, missing_docs)]

mod sync {
    pub use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
}
#[path = "../src/adjacency.rs"]
mod adjacency;
#[path = "../src/digest.rs"]
mod digest;
#[path = "../src/entry.rs"]
mod entry;
#[path = "../src/outcome.rs"]
mod outcome;
#[path = "../src/sequence.rs"]
mod sequence;
#[path = "../src/short.rs"]
mod short;

use adjacency::{Adjacencies, Hops};
use digest::{Digest, Users};
use entry::{POINTER, Paint};
use loom::sync::Arc;
use loom::thread;
use outcome::Outcome;
use sequence::Sequence;
use short::Short;
use std::net::IpAddr;
use sync::{AtomicU8, AtomicU32, Ordering};
use units::{InterfaceId, Mac};

/// A DIR-24-8 of two networks, of which one at a time has a group of two hosts.
struct Table {
    short: Short,
    bytes: [AtomicU8; 2],
    digest: Digest,
    networks: [AtomicU32; 2],
    group: [AtomicU32; 2],
    sequence: Sequence,
}

impl Table {
    fn new() -> Table {
        Table {
            short: Short::new(),
            bytes: [AtomicU8::new(0), AtomicU8::new(0)],
            digest: Digest::new(),
            networks: [AtomicU32::new(0), AtomicU32::new(0)],
            group: [AtomicU32::new(0), AtomicU32::new(0)],
            sequence: Sequence::default(),
        }
    }

    /// Like `Fib4::lookup`, for the first host of a network.
    fn lookup(&self, network: usize) -> u32 {
        entry::word(self.sequence.read(|| (), || self.look(network)))
    }

    /// Like `Fib4::lookup_bulk`.
    fn lookup_both(&self) -> [u32; 2] {
        self.sequence.read(|| (), || [self.look(0), self.look(1)]).map(entry::word)
    }

    fn look(&self, network: usize) -> u32 {
        let found = self.digest.get(&self.bytes[network]).unwrap_or_else(|| {
            let found = self.networks[network].load(Ordering::Acquire);
            if entry::is_pointer(found) { self.group[0].load(Ordering::Acquire) } else { found }
        });
        let short = self.short.get(0);
        if found == 0 { short } else { found }
    }

    /// Like `Fib4::insert` and `Fib4::remove` for a whole network's route.
    fn paint(&self, network: usize, paint: Paint, users: &mut Users) {
        let byte = self.digest.byte(entry::word(paint.leaf), users, &self.sequence);
        if paint.apply(&self.networks[network]) {
            self.digest.set(&self.bytes[network], byte, users);
        }
    }

    /// Like `Fib4::insert` for a host route, into a released block.
    fn take_group(&self, network: usize, host: u32, users: &mut Users) {
        let before = self.networks[network].load(Ordering::Relaxed);
        self.sequence.step();
        self.group.iter().for_each(|word| word.store(before, Ordering::Release));
        Paint::insert(32, host).apply(&self.group[0]);
        self.networks[network].store(POINTER, Ordering::Release);
        self.digest.ask(&self.bytes[network], users);
    }

    /// Like `Fib4::remove` for the only host route.
    fn leave_group(&self, network: usize, covering: u32, users: &mut Users) {
        Paint::remove(32, (24, covering)).apply(&self.group[0]);
        let common = self.group[0].load(Ordering::Relaxed);
        self.networks[network].store(common, Ordering::Release);
        let byte = self.digest.byte(entry::word(common), users, &self.sequence);
        self.digest.set(&self.bytes[network], byte, users);
    }
}

#[test]
fn reused_block_never_answers_for_previous_network() {
    loom::model(|| {
        let (table, mut users) = (Arc::new(Table::new()), Users::new(2));
        for network in 0..2 {
            table.paint(network, Paint::insert(24, 100 + network as u32), &mut users);
        }
        table.take_group(0, 200, &mut users);
        let reader = table.clone();
        let reader = thread::spawn(move || reader.lookup(0));
        table.leave_group(0, 100, &mut users);
        table.take_group(1, 201, &mut users);
        let seen = reader.join().unwrap();
        assert!([200, 100].contains(&seen), "{seen}");
        assert_eq!((table.lookup(0), table.lookup(1)), (100, 201));
    });
}

#[test]
fn bulk_lookup_is_as_consistent_as_single_lookup() {
    loom::model(|| {
        let (table, mut users) = (Arc::new(Table::new()), Users::new(2));
        for network in 0..2 {
            table.paint(network, Paint::insert(24, 100 + network as u32), &mut users);
        }
        table.take_group(1, 201, &mut users);
        let reader = table.clone();
        let reader = thread::spawn(move || reader.lookup_both());
        table.leave_group(1, 101, &mut users);
        table.take_group(0, 200, &mut users);
        let [zero, one] = reader.join().unwrap();
        assert!([200, 100].contains(&zero) && [201, 101].contains(&one), "{zero} {one}");
    });
}

#[test]
fn reused_digest_byte_never_answers_for_previous_network() {
    loom::model(|| {
        let (table, mut users) = (Arc::new(Table::new()), Users::new(2));
        table.paint(0, Paint::insert(24, 100), &mut users);
        let reader = table.clone();
        let reader = thread::spawn(move || reader.lookup(0));
        table.paint(0, Paint::insert(24, 101), &mut users);
        // There are two bytes and one is in use: this reuses the byte of the outcome that no network has any more.
        table.paint(1, Paint::insert(24, 102), &mut users);
        let seen = reader.join().unwrap();
        assert!([100, 101].contains(&seen), "{seen}");
        assert_eq!((table.lookup(0), table.lookup(1)), (101, 102));
    });
}

#[test]
fn replacing_short_route_is_atomic() {
    loom::model(|| {
        let (table, mut users) = (Arc::new(Table::new()), Users::new(2));
        table.short.insert(0, 8, 1, &table.sequence);
        let reader = table.clone();
        let reader = thread::spawn(move || reader.lookup(0));
        table.paint(0, Paint::insert(24, 2), &mut users);
        table.short.remove(0, 8, (0, 0), &table.sequence);
        let seen = reader.join().unwrap();
        assert!([1, 2].contains(&seen), "{seen}");
    });
}

#[test]
fn replacing_short_route_by_short_route_is_atomic() {
    loom::model(|| {
        let (table, mut users) = (Arc::new(Table::new()), Users::new(2));
        table.paint(0, Paint::insert(24, 2), &mut users);
        let reader = table.clone();
        let reader = thread::spawn(move || reader.lookup(0));
        table.short.insert(0, 8, 1, &table.sequence);
        table.paint(0, Paint::remove(24, (8, 1)), &mut users);
        let seen = reader.join().unwrap();
        assert!([1, 2].contains(&seen), "{seen}");
    });
}

#[test]
fn reused_adjacency_never_mixes_next_hops() {
    const OLD: (InterfaceId, Mac) = (InterfaceId(1), Mac([2, 0, 0, 0, 0, 1]));
    const NEW: (InterfaceId, Mac) = (InterfaceId(2), Mac([2, 0, 0, 0, 0, 2]));
    loom::model(|| {
        let address = IpAddr::from([192, 0, 2, 9]);
        let links = Arc::new(Adjacencies::new(1));
        let mut hops = Hops::new(1);
        let id = hops.hold(OLD.0, address, &links).unwrap();
        hops.link(id, Some(OLD.1), &links);
        let reader = links.clone();
        let reader = thread::spawn(move || reader.hop(id));
        hops.release(id, &links);
        assert_eq!(hops.hold(NEW.0, address, &links), Some(id));
        hops.link(id, Some(NEW.1), &links);
        let (link, interface) = reader.join().unwrap();
        assert!(!link.is_resolved() || [OLD, NEW].contains(&(interface, link.mac())), "{interface} {}", link.mac());
    });
}
