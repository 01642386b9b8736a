//! Tests of the crate, one file per subject. They share a processing place with a store, and packets to send through it.

mod bound;
mod cleaner;
mod conformance;
mod corpus;
mod dissect;
mod elements;
mod epochs;
mod exchange;
mod fast_path;
mod hook;
mod host;
mod instructions;
mod model;
mod packets;
mod registered;
mod repair;
mod seal;
mod store;
mod survey;
mod workers;

use crate::isa::StateInstruction;
use crate::site::{ExecutionRules, InstructionFate, Location, Site};
use crate::store::{Cleaner, Grace, Inspector, Store, StoreSpec, WorkerEpochs};
use crate::variables::Readings;
use crate::wire::{Addresses, Carriages, Locations, Part, dedicated};
use std::net::Ipv4Addr;
use std::sync::Arc;
use units::{Instant, Nanos};

pub const NODE: u64 = 7;
pub const COMPUTATION: u64 = 0x1122_3344_5566_7788;
pub const V4: Addresses = Addresses::V4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 9, 9, 9));

pub fn part(instruction: StateInstruction) -> Part {
    let (locations, computation) = (Locations::INPUT, COMPUTATION);
    Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
}

/// A dedicated IPv4 packet with this part.
pub fn packet(part: &Part) -> Vec<u8> {
    dedicated(&Carriages::default(), V4, part)
}

/// The part of a packet, in any carriage.
pub fn part_of(packet: &[u8]) -> Part {
    let (range, _) = Carriages::default().find(packet).expect("it carries one");
    Part::read(&packet[range]).expect("it is sound")
}

/// A processing place with a clock.
pub struct Place {
    pub site: Site,
    pub cleaner: Option<Cleaner>,
    pub inspector: Inspector,
    pub rules: ExecutionRules,
    pub now: Instant,
}

impl Place {
    pub fn new(spec: StoreSpec) -> Place {
        Place::with(spec, Grace::Counters)
    }

    pub fn with(spec: StoreSpec, grace: Grace) -> Place {
        let Store { mut shards, cleaner, inspector } = Store::new(spec, &Arc::new(WorkerEpochs::new(1)), grace);
        let site = Site::new(shards.remove(0));
        Place { site, cleaner, inspector, rules: ExecutionRules::of(NODE), now: Instant::new(1_000_000_000) }
    }

    /// A place with a store of a hundred entries.
    pub fn small() -> Place {
        Place::new(StoreSpec::of(100))
    }

    /// The fate of a packet at `location`.
    pub fn pass(&mut self, location: Location, packet: &mut Vec<u8>) -> InstructionFate {
        let mut fates = [InstructionFate::PassedThrough];
        self.site.process((&self.rules, location), self.now, std::slice::from_mut(packet), &mut fates);
        fates[0]
    }

    /// The fate of an instruction at the input, and the instruction afterwards.
    pub fn run(&mut self, instruction: StateInstruction) -> (InstructionFate, StateInstruction) {
        let mut packet = packet(&part(instruction));
        let fate = self.pass(Location::Input, &mut packet);
        (fate, part_of(&packet).instruction)
    }

    pub fn fate(&mut self, instruction: StateInstruction) -> InstructionFate {
        self.run(instruction).0
    }

    /// The value of a tag; `None` if absent.
    pub fn value(&self, tag: u64) -> Option<u64> {
        self.inspector.entries(self.now).find(|entry| entry.tag == tag).map(|entry| entry.value)
    }

    /// No router variables.
    pub fn readings(&self) -> Readings {
        Readings { permitted: Default::default(), of_port: Default::default(), node: self.rules.node, now: self.now }
    }

    /// Runs the cleaner until nothing is left to clean.
    pub fn clean(&mut self) {
        while self.cleaner.as_mut().map_or(0, |cleaner| cleaner.step(self.now)) > 0 {}
    }

    pub fn wait(&mut self, span: Nanos) {
        self.now += span;
    }
}

pub fn put(tag: u64, value: u64) -> StateInstruction {
    StateInstruction::Put { tag, value }
}

pub fn count(counter: u64, threshold: u32) -> StateInstruction {
    StateInstruction::Count { counter, threshold, inclusive: false }
}
