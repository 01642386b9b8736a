//! Checks an implementation against the test vectors. A vector gives the entries of a store, a packet and its arrival time, the expected fate of the
//! packet, and the expected entries afterwards. `conformance/vectors.txt` describes the format.

use crate::isa::StateInstruction;
use crate::seal::OperatorKey;
use crate::site::{ExecutionRules, InstructionFate, Location, Site};
use crate::store::{Grace, Inspector, Store, StoreSpec, WorkerEpochs};
use crate::wire::{Addresses, Carriages, Locations, Part, dedicated};
use std::net::Ipv4Addr;
use std::sync::Arc;
use units::{Instant, Nanos};

/// The vectors of this build.
pub const VECTORS: &str = include_str!("../conformance/vectors.txt");

/// The router's number in the vectors, and the capacity of its store. Entries live for [`LIFETIME`](crate::store::LIFETIME).
const NODE: u64 = 7;
const CAPACITY: u64 = 8;
/// Bytes of an IPv4 header.
const HEADER: usize = 20;
/// The time at which the initial entries are created.
const BEGIN: Instant = Instant::new(1_000_000_000);

/// The implementation under test: router number 7 with an empty store of eight entries and a lifetime of ten seconds.
pub trait Implementation {
    /// Executes the part `part` at `now`. Returns the packet's fate and the part as forwarded.
    fn execute(&mut self, now: Instant, part: &[u8]) -> (InstructionFate, Vec<u8>);

    /// The live entries at `now`: tags and values, in any order.
    fn entries(&self, now: Instant) -> Vec<(u64, u64)>;
}

/// The result of one vector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VectorResult {
    /// The instruction with its operator, like `collect max`.
    pub instruction: String,
    /// `absent`, `present`, `expired`, `full`, or `present in full`.
    pub condition: String,
    /// The difference between expectation and result; `None` if there is none.
    pub difference: Option<String>,
}

/// A syntax error in a text of vectors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MalformedVector {
    /// The line number, from 1.
    pub line: usize,
    /// The error.
    pub reason: &'static str,
}

impl std::fmt::Display for MalformedVector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for MalformedVector {}

/// Checks this build against every vector of a text.
///
/// # Errors
/// Those of [`check_implementation`].
pub fn check(text: &str) -> Result<Vec<VectorResult>, MalformedVector> {
    check_implementation(text, Build::new)
}

/// Checks an implementation against every vector of a text. `make` creates a fresh implementation for each vector. If the vector names a key, the
/// implementation must execute only parts sealed with that key. No call sleeps: the vector supplies the time.
///
/// # Errors
/// The text is not a list of vectors.
pub fn check_implementation<I: Implementation>(
    text: &str,
    mut make: impl FnMut(Option<OperatorKey>) -> I,
) -> Result<Vec<VectorResult>, MalformedVector> {
    let lines: Vec<(usize, &str)> =
        text.lines().enumerate().map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.starts_with('#')).collect();
    let blocks = lines.split(|(_, line)| line.trim().is_empty()).filter(|block| !block.is_empty());
    blocks.map(|block| check_vector(block, &mut make)).collect()
}

fn check_vector<I: Implementation>(
    block: &[(usize, &str)],
    make: impl FnOnce(Option<OperatorKey>) -> I,
) -> Result<VectorResult, MalformedVector> {
    let at = block.first().map_or(0, |(line, _)| *line);
    let wrong = |reason| MalformedVector { line: at, reason };
    let [head, fields @ ..] = block else { return Err(wrong("an empty vector")) };
    let (instruction, condition) =
        head.1.split_once(", ").ok_or(wrong("the heading lacks 'instruction, condition'"))?;
    let field = |name: &str| {
        let found = fields.iter().find_map(|(_, line)| line.trim_start().strip_prefix(name));
        found.map(str::trim).ok_or(wrong("a field is missing"))
    };
    let initial = entries(field("there ")?).ok_or(wrong("cannot read the entries of 'there'"))?;
    let later = field("later ").ok().map(|text| text.parse::<Nanos>()).transpose();
    let later = later.map_err(|_| wrong("cannot read the time of 'later'"))?.unwrap_or(Nanos::ZERO);
    let packet = bytes(field("packet ")?).ok_or(wrong("cannot read the packet"))?;
    let then = match field("then ")? {
        "the same" => packet.clone(),
        other => bytes(other).ok_or(wrong("cannot read the packet of 'then'"))?,
    };
    let (fate, leaves) = (field("fate ")?, field("leaves ")?);
    let expected = entries(leaves).ok_or(wrong("cannot read the entries of 'leaves'"))?;
    let key = field("key ").ok().map(|text| text.parse::<OperatorKey>()).transpose();
    let key = key.map_err(|_| wrong("cannot read the key"))?;
    let (found_fate, found_then, found) = run(&mut make(key), (&initial, later), &packet, key);
    let difference = if found_fate != fate {
        Some(format!("its fate is {found_fate} instead of {fate}"))
    } else if found_then != then {
        Some("the forwarded packet differs".to_owned())
    } else if found != expected {
        Some(format!("it leaves {} instead of {leaves}", text_of(&found)))
    } else {
        None
    };
    Ok(VectorResult { instruction: instruction.to_owned(), condition: condition.to_owned(), difference })
}

type Entries = Vec<(u64, u64)>;

fn entries(text: &str) -> Option<Entries> {
    if text == "nothing" {
        return Some(Vec::new());
    }
    let entry = |word: &str| {
        let (tag, value) = word.split_once('=')?;
        Some((u64::from_str_radix(tag, 16).ok()?, u64::from_str_radix(value, 16).ok()?))
    };
    let mut entries: Entries = text.split_ascii_whitespace().map(entry).collect::<Option<_>>()?;
    entries.sort_unstable();
    Some(entries)
}

fn text_of(entries: &Entries) -> String {
    let all: Vec<String> = entries.iter().map(|(tag, value)| format!("{tag:x}={value:x}")).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(" ") }
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits: String = text.split_ascii_whitespace().collect();
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(pair).collect()
}

/// Runs one vector: creates the initial entries, executes the packet `later`, and returns its fate, the forwarded part and the entries left.
fn run(
    implementation: &mut impl Implementation,
    (there, later): (&Entries, Nanos),
    packet: &[u8],
    key: Option<OperatorKey>,
) -> (String, Vec<u8>, Entries) {
    // A PUT creates each initial entry, so the interface needs no second way to fill a store.
    for &(tag, value) in there {
        let (locations, computation) = (Locations::INPUT, 1);
        let instruction = StateInstruction::Put { tag, value };
        let put = Part { locations, error: false, piggybacked: false, trace: false, computation, instruction };
        implementation.execute(BEGIN, &key.map_or_else(|| put.to_bytes(), |key| key.seal(&put)));
    }
    let now = BEGIN + later;
    let (fate, then) = implementation.execute(now, packet);
    let fate = match fate {
        InstructionFate::Forwarded => "forwarded".to_owned(),
        InstructionFate::Dropped => "dropped".to_owned(),
        InstructionFate::Aborted(why) => format!("aborted {why}"),
        InstructionFate::PassedThrough => "passed".to_owned(),
    };
    let mut entries = implementation.entries(now);
    entries.sort_unstable();
    (fate, then, entries)
}

/// This build as an implementation.
struct Build {
    site: Site,
    inspector: Inspector,
    rules: ExecutionRules,
}

impl Build {
    fn new(key: Option<OperatorKey>) -> Build {
        let Store { inspector, mut shards, .. } =
            Store::new(StoreSpec::of(CAPACITY), &Arc::new(WorkerEpochs::new(1)), Grace::Counters);
        let open = ExecutionRules::of(NODE);
        let rules = key.map_or(open, |key| ExecutionRules { allowed: 0, sealed: Some((key, u16::MAX)), ..open });
        Build { site: Site::new(shards.remove(0)), inspector, rules }
    }
}

impl Implementation for Build {
    fn execute(&mut self, now: Instant, part: &[u8]) -> (InstructionFate, Vec<u8>) {
        let (mut packet, mut fates) = (carrying(part), [InstructionFate::PassedThrough]);
        self.site.process((&self.rules, Location::Input), now, std::slice::from_mut(&mut packet), &mut fates);
        (fates[0], packet.split_off(HEADER))
    }

    fn entries(&self, now: Instant) -> Vec<(u64, u64)> {
        self.inspector.entries(now).map(|entry| (entry.tag, entry.value)).collect()
    }
}

/// An IP packet with these bytes as its part.
fn carrying(part: &[u8]) -> Vec<u8> {
    let (from, to) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
    let (locations, computation) = (Locations::INPUT, 1);
    let nop = Part {
        locations,
        error: false,
        piggybacked: false,
        trace: false,
        computation,
        instruction: StateInstruction::Nop,
    };
    let mut packet = dedicated(&Carriages::default(), Addresses::V4(from, to), &nop);
    packet.truncate(HEADER);
    packet.extend_from_slice(part);
    let length = (packet.len() as u16).to_be_bytes();
    packet[2..4].copy_from_slice(&length);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Abort;

    #[test]
    fn build_passes_its_vectors_and_changed_vectors_fail() {
        let verdicts = check(VECTORS).unwrap();
        assert!(verdicts.len() > 100 && verdicts.iter().all(|verdict| verdict.difference.is_none()), "{verdicts:?}");
        for (from, to) in
            [("fate   dropped", "fate   forwarded"), ("leaves 11=4", "leaves 11=5"), ("leaves nothing", "leaves 1=1")]
        {
            let wrong = check(&VECTORS.replacen(from, to, 1)).unwrap();
            assert_eq!(wrong.iter().filter(|verdict| verdict.difference.is_some()).count(), 1, "{to}");
        }
    }

    /// An implementation whose clock stops after the first packet: its entries never expire.
    struct Timeless(Build);

    impl Implementation for Timeless {
        fn execute(&mut self, _: Instant, part: &[u8]) -> (InstructionFate, Vec<u8>) {
            self.0.execute(BEGIN, part)
        }

        fn entries(&self, _: Instant) -> Vec<(u64, u64)> {
            self.0.entries(BEGIN)
        }
    }

    #[test]
    fn implementation_without_expiry_fails_the_expired_vectors() {
        let verdicts = check_implementation(VECTORS, |key| Timeless(Build::new(key))).unwrap();
        for verdict in verdicts {
            assert_eq!(verdict.difference.is_some(), verdict.condition == "expired", "{verdict:?}");
        }
    }

    /// An implementation that aborts every creating instruction at a full store, even if all its tags exist.
    struct Closed(Build);

    impl Implementation for Closed {
        fn execute(&mut self, now: Instant, part: &[u8]) -> (InstructionFate, Vec<u8>) {
            let creates = Part::read(part).is_ok_and(|part| part.instruction.opcode().creates() > 0);
            if creates && self.0.entries(now).len() as u64 == CAPACITY {
                return (InstructionFate::Aborted(Abort::Full), part.to_vec());
            }
            self.0.execute(now, part)
        }

        fn entries(&self, now: Instant) -> Vec<(u64, u64)> {
            self.0.entries(now)
        }
    }

    #[test]
    fn implementation_that_ignores_entries_of_a_full_store_fails() {
        let verdicts = check_implementation(VECTORS, |key| Closed(Build::new(key))).unwrap();
        let of = |condition: &str| {
            let differs = |verdict: &&VectorResult| verdict.condition == condition && verdict.difference.is_some();
            verdicts.iter().filter(differs).count()
        };
        assert!(of("present in full") > 20 && of("present") == 0, "{verdicts:?}");
    }

    /// An unknown unit of time.
    const UNKNOWN_UNIT: &str =
        "nop, expired\n  there nothing\n  later 3 moons\n  packet 00\n  fate x\n  then the same\n  leaves nothing\n";

    #[test]
    fn malformed_vectors_are_reported_with_their_line() {
        for (text, line) in
            [("x", 1), ("# c\n\nnop, absent\n  there 1\n", 3), ("nop, absent\n  there zz=1\n", 1), (UNKNOWN_UNIT, 1)]
        {
            assert_eq!(check(text).unwrap_err().line, line, "{text}");
        }
    }
}
