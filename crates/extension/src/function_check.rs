//! Checks a packet function against its laws before packets use it: seeded packets of many kinds, whole, truncated and corrupt, in batches and one at a
//! time.

use crate::examine::{LawVerdict, LawViolation};
use crate::function::GuestFunction;
use crate::module::LoadError;
use crate::random_numbers::RandomNumbers;
use fib::{TableLimits, Tables};
use packet::wire::checksum;
use packet::{Packet, Pool, Region};
use plan::{Call, GuestRule};
use plane::function::{Context, Function, FunctionMaker, FunctionReport};
use plane::snapshot::{BEST_EFFORT, PathSpec, RuleTreatment, Snapshot};
use std::cell::Cell;
use std::sync::Arc;
use units::{Instant, Nanos, Share};

/// Batches of a run, and the most packets of a batch.
const BATCHES: usize = 40;
const MOST: usize = 100;
/// Rules of the path. A function that refuses them is checked without rules.
const RULES: [&str; 2] = ["*.example drop", "example.org pass"];
/// Ports at which functions look for protocols, and any other.
const PORTS: [u16; 8] = [53, 80, 443, 123, 3322, 5004, 5060, 40_000];
/// An Ethernet header.
const LINK: usize = 14;

/// The laws of packet functions, each with its explanation.
pub const FUNCTION_LAWS: &[(&str, &str)] = &[
    (
        DECISIONS,
        "it does not trap, returns in time, applies only rules of its path, and changes no length, protocol or time to live",
    ),
    (SINGLY, "packets in one call have the same fates and bytes as one at a time"),
];
const DECISIONS: &str = "sound decisions";
const SINGLY: &str = "batches";

/// The result of the trial.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionExamination {
    /// One for each of [`FUNCTION_LAWS`].
    pub verdicts: Vec<LawVerdict>,
    /// Packets offered in batches.
    pub packets: u64,
    /// Dropped packets.
    pub dropped: u64,
    /// Packets with changed bytes.
    pub changed: u64,
    /// Bytes of its memory.
    pub memory: usize,
    /// True if it was tried with rules.
    pub has_rules: bool,
}

impl FunctionExamination {
    /// True if no law was broken.
    pub fn is_good(&self) -> bool {
        LawVerdict::hold(&self.verdicts)
    }
}

/// Random frames.
struct Traffic(RandomNumbers);

impl Traffic {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next() % bound as u64) as usize
    }

    /// A frame with an IPv4 or IPv6 packet: UDP, TCP, ICMP or any other protocol. Every fourth has some random bytes behind its IP header.
    fn frame(&mut self) -> Vec<u8> {
        let protocol = [17, 17, 6, 6, 1, 58, 50][self.below(7)];
        let length = if self.below(8) == 0 { 0 } else { self.below(1200) };
        let mut upper: Vec<u8> = (0..20 + length)
            .map(|at| match self.0.next() {
                number if number >> 20 & 3 == 0 => at as u8,
                number => number as u8,
            })
            .collect();
        for at in [0, 2] {
            upper[at..at + 2].copy_from_slice(&PORTS[self.below(PORTS.len())].to_be_bytes());
        }
        if protocol == 6 {
            upper[12] = 0x50;
        }
        let keep = if self.below(4) == 0 { self.below(upper.len()) } else { upper.len() };
        upper.truncate(keep);
        let mut frame = vec![0; 12];
        if self.below(3) == 0 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((upper.len() as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend((0..32).map(|_| self.0.next() as u8));
        } else {
            let mut header =
                [0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0, 192, 0, 2, self.0.next() as u8, 198, 51, 100, 9];
            header[2..4].copy_from_slice(&(20 + upper.len() as u16).to_be_bytes());
            let sum = checksum::checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend([8, 0]);
            frame.extend(header);
        }
        frame.extend(upper);
        frame
    }
}

/// The router around a function that is tried.
struct World {
    tables: Arc<Tables>,
    snapshot: Snapshot,
    pool: Pool,
    now: Instant,
}

impl World {
    fn packets(&mut self, frames: &[Vec<u8>]) -> Vec<Packet> {
        let packet = |frame: &Vec<u8>| {
            let mut packet = self.pool.take().expect("there are more frames than packets");
            packet.fill(frame);
            (packet.meta_mut().l3, packet.meta_mut().timestamp) = (LINK as u16, self.now);
            packet
        };
        frames.iter().map(packet).collect()
    }

    /// Lets a function process packets. Returns its fault, if it has one.
    fn run(&self, function: &mut dyn Function, packets: &mut [Packet]) -> Option<String> {
        let (now, snapshot, tables, asked) = (self.now, &self.snapshot, &self.tables, Cell::default());
        let nat = &snapshot.translations;
        let context = Context { now, snapshot, tables, nat, limit: None, dry_run: false, extra_time: &asked };
        if !function.process(context, packets) {
            function.take_emitted(&mut |_| {});
        }
        while let Some(report) = function.next_report() {
            if let FunctionReport::Failed { failure, .. } = report {
                return Some(failure);
            }
        }
        None
    }
}

/// A path with these rules.
fn path(rules: &[&str]) -> PathSpec {
    let rule = |text: &&str| {
        let rule = GuestRule::parse(text).expect("it is a rule");
        let treatment = if text.ends_with("drop") { RuleTreatment::Drop } else { RuleTreatment::Pass };
        (rule, treatment)
    };
    PathSpec {
        id: BEST_EFFORT,
        name: "trial".into(),
        functions: Vec::new(),
        filter: Arc::default(),
        dispatch: Vec::new(),
        guest_rules: rules.iter().map(rule).collect(),
        capacity: 1,
        output_capacity: 1,
        class: 0,
        objective: None,
        cpu: plan::PathCpu::default(),
        share: Share::default(),
        cost: None,
        translates: false,
        receives_local: false,
    }
}

/// Checks a packet function with these options against [`FUNCTION_LAWS`], with a run for each of `seeds` seeds.
///
/// # Errors
///
/// The function does not start with these options, neither with rules of its path nor without.
pub fn examine_function(function: &GuestFunction, call: &Call, seeds: u64) -> Result<FunctionExamination, LoadError> {
    let (mut path, mut has_rules) = (path(&RULES), true);
    let memory = function.memory(call, &path).or_else(|_| {
        (path.guest_rules, has_rules) = (Vec::new(), false);
        function.memory(call, &path)
    });
    let refused = |why: String| LoadError::new(why, "give it other options, or correct it");
    let mut examination = FunctionExamination {
        verdicts: LawVerdict::of(FUNCTION_LAWS),
        packets: 0,
        dropped: 0,
        changed: 0,
        memory: memory.map_err(refused)?,
        has_rules,
    };
    let tables = Arc::new(Tables::with_limits(TableLimits { adjacencies: 16, routes: 16 }));
    let pool = Pool::new(Region::new(2 * MOST));
    let mut world = World { tables, snapshot: Snapshot::empty(), pool, now: Instant::new(1_000_000_000) };
    for seed in 1..=seeds {
        let made = || function.make(call, &path).map_err(refused);
        run(&mut examination, &mut world, [made()?, made()?], seed);
    }
    Ok(examination)
}

/// One run: the same packets to one function in batches, and to the other one at a time.
fn run(examination: &mut FunctionExamination, world: &mut World, functions: [Box<dyn Function>; 2], seed: u64) {
    let [mut many, mut single] = functions;
    let mut traffic = Traffic(RandomNumbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let case =
        |reason, round| Some(LawViolation { reason, seed, round: Some(round), circumstance: "many kinds of packets" });
    for round in 0..BATCHES {
        world.now += Nanos::micros(traffic.0.next() % 5000);
        let frames: Vec<Vec<u8>> = (0..1 + traffic.below(MOST - 1)).map(|_| traffic.frame()).collect();
        let (mut batch, mut alone) = (world.packets(&frames), world.packets(&frames));
        let fault = world.run(&mut *many, &mut batch);
        let fault = fault.or_else(|| alone.chunks_mut(1).find_map(|one| world.run(&mut *single, one)));
        let fate = |packet: &Packet| (packet.meta().refused, packet.meta().exception, packet.bytes().to_vec());
        let other = batch.iter().zip(&alone).position(|(one, other)| fate(one) != fate(other));
        examination.packets += frames.len() as u64;
        examination.dropped += batch.iter().filter(|packet| packet.meta().refused != 0).count() as u64;
        examination.changed +=
            batch.iter().zip(&frames).filter(|(packet, frame)| packet.bytes() != &frame[..]).count() as u64;
        batch.into_iter().chain(alone).for_each(|packet| world.pool.give(packet));
        if let Some(fault) = fault {
            return LawVerdict::judge(&mut examination.verdicts, DECISIONS, case(fault, round));
        }
        if let Some(which) = other {
            let reason = format!("packet {which} of {} has another fate or other bytes in a batch", frames.len());
            return LawVerdict::judge(&mut examination.verdicts, SINGLY, case(reason, round));
        }
    }
    FUNCTION_LAWS.iter().for_each(|(law, _)| LawVerdict::judge(&mut examination.verdicts, law, None));
}
