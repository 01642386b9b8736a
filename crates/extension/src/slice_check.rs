//! Checks a code option against its laws before a slice uses it: seeded packets of many kinds, whole, truncated and random, in batches and one at a time.

use crate::examine::{LawVerdict, LawViolation};
use crate::module::LoadError;
use crate::random_numbers::RandomNumbers;
use crate::slice_guest::GuestSlice;
use packet::{Packet, Pool, Region};
use slice::SliceMemory;
use slice::code::{
    BatchPacket, CodeEnv, CodeOption, CodeStage, Diversion, Formatted, GuestCodeOption, InnerEdit, LookupKey,
    LookupResult,
};
use units::Instant;

/// Batches of a run, and the most packets of a batch.
const BATCHES: usize = 40;
const MOST: usize = 100;
/// The memory of a slice by default.
const MEMORY: usize = 64 << 10;

/// The laws of code options, each with its explanation.
pub const SLICE_LAWS: &[(&str, &str)] = &[
    (
        DECISIONS,
        "it does not trap, returns in time, accesses only the memory of its slice, and returns valid verdicts and changes",
    ),
    (SINGLY, "packets in one call have the same keys, fates and bytes as one at a time"),
];
const DECISIONS: &str = "sound decisions";
const SINGLY: &str = "batches";

/// The result of the trial.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SliceExamination {
    /// One for each of [`SLICE_LAWS`].
    pub verdicts: Vec<LawVerdict>,
    /// Packets offered in batches.
    pub packets: u64,
    /// Packets with a key.
    pub keys: u64,
    /// Packets that were sent after the look-up.
    pub sent: u64,
    /// Sent packets with changed bytes.
    pub changed: u64,
    /// Packets for the slow path, of both stages.
    pub exceptions: u64,
    /// Dropped packets, of both stages.
    pub dropped: u64,
    /// Bytes of its memory.
    pub memory: usize,
}

impl SliceExamination {
    /// True if no law was broken.
    pub fn is_good(&self) -> bool {
        LawVerdict::hold(&self.verdicts)
    }
}

/// Random packets, as they are behind the outer headers.
struct Payloads(RandomNumbers);

impl Payloads {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next() % bound as u64) as usize
    }

    /// A half of the packets begin like IP packets; of the others, some bytes are small.
    fn payload(&mut self) -> Vec<u8> {
        let length = if self.below(4) == 0 { self.below(24) } else { self.below(1400) };
        let mut bytes: Vec<u8> = (0..length)
            .map(|_| match self.0.next() {
                number if number >> 20 & 1 == 0 => (number % 4) as u8,
                number => number as u8,
            })
            .collect();
        let start = [0x45, 0x60, 0x83, 0][self.below(4)];
        bytes.first_mut().into_iter().for_each(|first| *first = start);
        bytes
    }

    fn result(&mut self) -> LookupResult {
        let data = std::array::from_fn(|_| if self.below(2) == 0 { 0 } else { self.0.next() as u8 });
        LookupResult { queue: self.below(16) as u16, interface: self.below(4) as u16, data }
    }
}

/// A packet of a round, with the fate of each stage.
struct Offered {
    interface: u16,
    result: LookupResult,
    packet: Packet,
    parsed: Result<LookupKey, Diversion>,
    formatted: Option<Result<Formatted, Diversion>>,
}

impl Offered {
    fn has_fate_of(&self, other: &Offered) -> bool {
        (self.parsed, self.formatted) == (other.parsed, other.formatted) && self.packet.bytes() == other.packet.bytes()
    }

    fn fault(&self) -> Option<Diversion> {
        let diversion = self.formatted.and_then(Result::err).or(self.parsed.err());
        let is_fault = |diversion: &Diversion| {
            let over = Diversion::Exception(slice::code::ExceptionCode::OverBudget);
            matches!(diversion, Diversion::Failed | Diversion::OutOfMemory) || *diversion == over
        };
        diversion.filter(is_fault)
    }
}

/// Both stages for the packets of a round. `together` says that the guest gets them in one batch.
fn run_stages(code: &mut dyn CodeOption, memory: &SliceMemory, offered: &mut [Offered], together: bool) {
    for stage in [CodeStage::Parse, CodeStage::Format] {
        let is_due = |offered: &Offered| stage == CodeStage::Parse || offered.parsed.is_ok();
        if together {
            let due = offered.iter().enumerate().filter(|(_, offered)| is_due(offered));
            let mut packets = due.map(|(position, offered)| BatchPacket {
                position,
                interface: offered.interface,
                bytes: offered.packet.bytes(),
                result: if stage == CodeStage::Parse { LookupResult::default() } else { offered.result },
            });
            code.begin(stage, &mut packets);
        }
        for (position, offered) in offered.iter_mut().enumerate().filter(|(_, offered)| is_due(offered)) {
            let env = CodeEnv::new(memory, offered.interface, 0);
            let mut env = if together { env.at(position, Instant::default()) } else { env };
            match stage {
                CodeStage::Parse => offered.parsed = code.parse(offered.packet.bytes(), &mut env),
                CodeStage::Format => {
                    let mut edit = InnerEdit::new(&mut offered.packet);
                    offered.formatted = Some(code.format(&mut edit, &offered.result, &mut env));
                }
            }
        }
    }
}

/// Checks a code option with these values of its options against [`SLICE_LAWS`], with a run for each of `seeds` seeds.
///
/// # Errors
///
/// It does not start with these options.
pub fn examine_slice(guest: &GuestSlice, options: &[u64], seeds: u64) -> Result<SliceExamination, LoadError> {
    let refused = |why: String| LoadError::new(why, "give it other options, or correct it");
    let memory = || SliceMemory::new(guest.memory().max(MEMORY));
    let mut examination = SliceExamination {
        verdicts: LawVerdict::of(SLICE_LAWS),
        packets: 0,
        keys: 0,
        sent: 0,
        changed: 0,
        exceptions: 0,
        dropped: 0,
        memory: guest.own_memory(options, &memory()).map_err(refused)?,
    };
    for seed in 1..=seeds {
        let started = || {
            let memory = memory();
            Ok::<_, LoadError>((guest.make(options, &memory).map_err(refused)?, memory))
        };
        run(&mut examination, [started()?, started()?], seed);
    }
    Ok(examination)
}

/// One run: the same packets to one instance in batches, and to the other one at a time.
fn run(examination: &mut SliceExamination, instances: [(Box<dyn CodeOption>, SliceMemory); 2], seed: u64) {
    let mut instances = instances;
    let mut traffic = Payloads(RandomNumbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let mut pool = Pool::new(Region::new(2 * MOST));
    let case =
        |reason, round| Some(LawViolation { reason, seed, round: Some(round), circumstance: "many kinds of packets" });
    for round in 0..BATCHES {
        let count = 1 + traffic.below(MOST - 1);
        let payloads: Vec<_> =
            (0..count).map(|_| (traffic.payload(), traffic.below(4) as u16, traffic.result())).collect();
        let [together, singly] = [0, 1].map(|which| {
            let (code, memory) = &mut instances[which];
            let offer = |(bytes, interface, result): &(Vec<u8>, u16, LookupResult)| {
                let mut packet = pool.take().expect("there are more frames than packets");
                packet.fill(bytes);
                let parsed = Err(Diversion::Malformed);
                Offered { interface: *interface, result: *result, packet, parsed, formatted: None }
            };
            let mut offered: Vec<Offered> = payloads.iter().map(offer).collect();
            run_stages(&mut **code, memory, &mut offered, which == 0);
            offered
        });
        for (offered, (bytes, ..)) in together.iter().zip(&payloads) {
            let is_exception = |diversion: &Diversion| matches!(diversion, Diversion::Exception(_));
            let diverted = offered.formatted.and_then(Result::err).or(offered.parsed.err());
            examination.packets += 1;
            examination.keys += u64::from(offered.parsed.is_ok());
            examination.exceptions += u64::from(diverted.as_ref().is_some_and(is_exception));
            examination.dropped += u64::from(diverted.is_some_and(|diverted| !is_exception(&diverted)));
            let is_sent = offered.formatted == Some(Ok(Formatted::Send));
            examination.sent += u64::from(is_sent);
            examination.changed += u64::from(is_sent && offered.packet.bytes() != &bytes[..]);
        }
        let fault = together.iter().chain(&singly).find_map(Offered::fault).map(|fault| {
            let failures = instances.iter().find_map(|(code, _)| code.failure());
            failures.unwrap_or_else(|| match fault {
                Diversion::OutOfMemory => "it accesses memory beyond that of its slice".into(),
                _ => "it did not return in time".into(),
            })
        });
        let other = together.iter().zip(&singly).position(|(one, other)| !one.has_fate_of(other));
        together.into_iter().chain(singly).for_each(|offered| pool.give(offered.packet));
        if let Some(fault) = fault {
            return LawVerdict::judge(&mut examination.verdicts, DECISIONS, case(fault, round));
        }
        if let Some(which) = other {
            let reason = format!("packet {which} of {count} has another key, fate or other bytes in a batch");
            return LawVerdict::judge(&mut examination.verdicts, SINGLY, case(reason, round));
        }
    }
    SLICE_LAWS.iter().for_each(|(law, _)| LawVerdict::judge(&mut examination.verdicts, law, None));
}
