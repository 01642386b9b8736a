//! Checks a guest against the laws of schemes before it is put on a port. The traffic is seeded and runs in virtual time: with all the memory a link
//! may have, with little memory, and in batches compared with single packets. The same code always gets the same verdict.

use crate::guest::Guest;
use crate::module::LoadError;
use crate::program::GuestProgram;
use schemes::conformance::{InvariantViolation, Load, Round, Rounds, SchemeInvariant, Trial};
use schemes::model::{Model, ModelFate};
use schemes::{Progress, Record, Scheme};
use std::fmt;
use units::Nanos;

/// Rounds of a run.
const ROUNDS: usize = 150;
/// Every `BURST` rounds many packets arrive at once: more than a guest gets in one call.
const BURST: usize = 30;
/// Packets that a link with little memory can hold.
const LITTLE: usize = 12;

/// Load in thousandths of the link rate, and its duration: a slight overload, and a flood.
const OVERLOADS: &[(Load, Nanos)] = &[(Load(1_500), Nanos::millis(1000)), (Load(20_000), Nanos::millis(100))];

/// The laws, each with its explanation.
pub const LAWS: &[(&str, &str)] = &[
    (DECISIONS, "it does not trap, returns in time, and makes valid decisions"),
    ("conservation", "each packet is sent or dropped, once"),
    ("one at a time", "one call sends or drops one packet"),
    ("work conservation", "the link is not idle while packets may leave"),
    ("asking", "it asks to be called again exactly while packets are queued"),
    ("order", "no packet overtakes another of its flow"),
    ("passing", "packets that bypass it on an idle link would be sent at once, unmarked"),
    ("marking", "it marks only ECN-capable packets"),
    (ADMISSION, "after an overload, a queue that was empty for a second accepts a packet, and a light load passes"),
    (BATCHES, "packets in one call have the same fates as one at a time"),
];
const DECISIONS: &str = "sound decisions";
const BATCHES: &str = "batches";
const ADMISSION: &str = "admission";

fn name(law: SchemeInvariant) -> &'static str {
    match law {
        SchemeInvariant::Conservation => "conservation",
        SchemeInvariant::OneAtATime => "one at a time",
        SchemeInvariant::WorkConservation => "work conservation",
        SchemeInvariant::NextEvaluation => "asking",
        SchemeInvariant::Order => "order",
        SchemeInvariant::IdleBypass => "passing",
        SchemeInvariant::Marking => "marking",
        SchemeInvariant::Admission => ADMISSION,
    }
}

/// A case in which a law was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LawViolation {
    /// How it was broken.
    pub reason: String,
    /// The traffic's seed.
    pub seed: u64,
    /// The round, counted from 0; none if it was found after the last round.
    pub round: Option<usize>,
    /// The kind of run.
    pub circumstance: &'static str,
}

impl fmt::Display for LawViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LawViolation { reason: how, seed, round, circumstance } = self;
        match round {
            Some(round) => write!(f, "{how} ({circumstance}, seed {seed}, round {round})"),
            None => write!(f, "{how} ({circumstance}, seed {seed}, when all was over)"),
        }
    }
}

/// The verdict on one law.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LawVerdict {
    /// Its name, as in [`LAWS`].
    pub law: &'static str,
    /// Runs with a result for this law. A run ends at the first broken law.
    pub runs: u32,
    /// The first run in which it was broken.
    pub broken: Option<LawViolation>,
}

impl LawVerdict {
    /// Verdicts on laws that have not been tried yet.
    pub(crate) fn of(laws: &[(&'static str, &str)]) -> Vec<LawVerdict> {
        laws.iter().map(|&(law, _)| LawVerdict { law, runs: 0, broken: None }).collect()
    }

    /// True if no law was broken.
    pub fn hold(all: &[LawVerdict]) -> bool {
        all.iter().all(|verdict| verdict.broken.is_none())
    }

    /// Records a run in which a law was kept, or the case in which it was broken.
    pub(crate) fn judge(all: &mut [LawVerdict], law: &str, case: Option<LawViolation>) {
        if let Some(verdict) = all.iter_mut().find(|verdict| verdict.law == law) {
            verdict.runs += 1;
            verdict.broken = verdict.broken.take().or(case);
        }
    }
}

/// The result of an examination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Examination {
    /// One for each of [`LAWS`].
    pub verdicts: Vec<LawVerdict>,
    /// The number of runs.
    pub runs: u32,
    /// Packets sent, in all runs.
    pub sent: u64,
    /// Packets not admitted.
    pub refused: u64,
    /// Packets admitted and dropped later.
    pub dropped: u64,
    /// Packets marked with congestion experienced, sent or still queued.
    pub marked: u64,
    /// The guest's counters, summed over all runs.
    pub counters: [u64; 8],
    /// The last line that the guest logged; empty if it logged none.
    pub line: String,
}

impl Examination {
    /// True if no law was broken.
    pub fn is_good(&self) -> bool {
        LawVerdict::hold(&self.verdicts)
    }

    fn judge(&mut self, law: &str, case: Option<LawViolation>) {
        LawVerdict::judge(&mut self.verdicts, law, case);
    }

    fn add(&mut self, model: &Model, guest: &Guest) {
        self.sent += model.count_fates(|fate| matches!(fate, ModelFate::Sent(_))) as u64;
        self.refused += model.count_fates(|fate| matches!(fate, ModelFate::Refused(_))) as u64;
        self.dropped += model.count_fates(|fate| matches!(fate, ModelFate::Dropped(_))) as u64;
        self.marked += model.marked.len() as u64;
        for (sum, more) in self.counters.iter_mut().zip(guest.counters()) {
            *sum = sum.wrapping_add(more);
        }
        if !guest.line().is_empty() {
            guest.line().clone_into(&mut self.line);
        }
    }

    /// One run against the laws of [`Trial`].
    fn run(&mut self, program: &GuestProgram, options: &[u64], seed: u64, memory: usize) -> Result<(), LoadError> {
        let circumstance = if memory == usize::MAX { "usual traffic" } else { "little memory" };
        let mut trial = Trial::new(Box::new(program.guest(options)?)).with_memory(memory);
        let mut wrong = None;
        for (number, round) in rounds(seed).enumerate() {
            let broken = trial.try_round(&round).err();
            wrong = violation_of(trial.scheme(), broken).map(|wrong| (wrong, Some(number)));
            if wrong.is_some() {
                break;
            }
        }
        if wrong.is_none() {
            let broken = trial.try_end().err();
            wrong = violation_of(trial.scheme(), broken).map(|wrong| (wrong, None));
        }
        let (guest, model) = trial.into_parts();
        self.add(&model, &guest);
        self.runs += 1;
        match wrong {
            Some(((law, how), round)) => self.judge(law, Some(LawViolation { reason: how, seed, round, circumstance })),
            None => {
                LAWS.iter().filter(|(law, _)| *law != BATCHES).for_each(|(law, _)| self.judge(law, None));
            }
        }
        Ok(())
    }

    /// Checks recovery after overloads.
    fn overload(&mut self, program: &GuestProgram, options: &[u64]) -> Result<(), LoadError> {
        for (load, length) in OVERLOADS {
            let mut trial = Trial::new(Box::new(program.guest(options)?));
            let broken = trial.try_overload(*load, *length).err();
            let wrong = violation_of(trial.scheme(), broken);
            let (guest, model) = trial.into_parts();
            self.add(&model, &guest);
            self.runs += 1;
            match wrong {
                Some((law, how)) => {
                    self.judge(
                        law,
                        Some(LawViolation { reason: how, seed: 0, round: None, circumstance: "an overload" }),
                    );
                }
                None => self.judge(ADMISSION, None),
            }
        }
        Ok(())
    }

    /// Compares the same packets in batches and one at a time.
    fn compare(&mut self, program: &GuestProgram, options: &[u64], seed: u64) -> Result<(), LoadError> {
        let circumstance = "batches beside one by one";
        let mut guests = [program.guest(options)?, program.guest(options)?];
        let mut models = [0, 1].map(|_| Model::with_queues(guests[0].queues()));
        self.runs += 1;
        // The fates up to here are equal in both models, so each round compares only the new ones.
        let mut compared = 0;
        for (round, Round { packets, pause, room }) in rounds(seed).enumerate() {
            for (one_by_one, (guest, model)) in guests.iter_mut().zip(&mut models).enumerate() {
                if one_by_one == 1 {
                    arrive_singly(guest, model, &packets);
                } else {
                    model.arrive_all(guest, packets.iter().copied());
                }
                model.now += pause;
                model.room = room;
                if one_by_one == 1 {
                    while model.room > 0 && Scheme::link_ready(guest, model) == Progress::Made {}
                } else {
                    guest.serve(model);
                }
                model.room = 0;
                if let Some((law, how)) = violation_of(guest, None) {
                    self.judge(law, Some(LawViolation { reason: how, seed, round: Some(round), circumstance }));
                    return Ok(());
                }
            }
            if let Some(how) = difference(&models, compared) {
                self.judge(BATCHES, Some(LawViolation { reason: how, seed, round: Some(round), circumstance }));
                return Ok(());
            }
            compared = models[0].fates.len();
        }
        self.add(&models[0], &guests[0]);
        self.judge(BATCHES, None);
        Ok(())
    }
}

fn arrive_singly(guest: &mut Guest, model: &mut Model, packets: &[Record]) {
    for packet in packets {
        model.arrive_all(guest, std::iter::once(*packet));
    }
}

/// How the fates after the first `from` differ. The order among packets that are not sent does not matter.
fn difference([many, single]: &[Model; 2], from: usize) -> Option<String> {
    if many.fates.len() != single.fates.len() {
        return Some(format!("{} packets have ended in batches, {} one by one", many.fates.len(), single.fates.len()));
    }
    let ordered = |model: &Model| {
        let mut fates = model.fates[from..].to_vec();
        fates.sort_by_key(|fate| match fate {
            ModelFate::Sent(_) => (true, 0),
            ModelFate::Refused(number) | ModelFate::Dropped(number) => (false, *number),
        });
        fates
    };
    let (many_fates, single_fates) = (ordered(many), ordered(single));
    let other = many_fates.iter().zip(&single_fates).find(|(one, other)| one != other);
    let fates = other.map(|(one, other)| format!("in batches it is {one:?}, one by one {other:?}"));
    fates.or_else(|| (many.marked != single.marked).then(|| "it marks other packets in batches than one by one".into()))
}

/// The law that was broken, and how. A fault of the guest itself comes before its consequences.
fn violation_of(guest: &mut Guest, broken: Option<InvariantViolation>) -> Option<(&'static str, String)> {
    match Scheme::<Model>::next_fault(guest) {
        Some(trouble) => Some((DECISIONS, trouble.description)),
        None => broken.map(|InvariantViolation { invariant: law, detail: how }| (name(law), how)),
    }
}

/// The traffic of a seed. Every `BURST`th round also contains the packets of `BURST` further rounds.
fn rounds(seed: u64) -> impl Iterator<Item = Round> {
    let mut all = Rounds::seeded(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), ROUNDS + ROUNDS / BURST * BURST);
    (0..ROUNDS).map_while(move |number| {
        let mut round = all.next()?;
        if number % BURST == BURST - 1 {
            all.by_ref().take(BURST).for_each(|more| round.packets.extend(more.packets));
        }
        Some(round)
    })
}

/// Checks a guest with these options against [`LAWS`], with `seeds` runs of each kind.
///
/// # Errors
///
/// The guest does not start with these options.
pub fn examine(program: &GuestProgram, options: &[u64], seeds: u64) -> Result<Examination, LoadError> {
    let mut examination = Examination {
        verdicts: LawVerdict::of(LAWS),
        runs: 0,
        sent: 0,
        refused: 0,
        dropped: 0,
        marked: 0,
        counters: [0; 8],
        line: String::new(),
    };
    examination.overload(program, options)?;
    for seed in 1..=seeds {
        examination.run(program, options, seed, usize::MAX)?;
        examination.run(program, options, seed, LITTLE)?;
        examination.compare(program, options, seed)?;
    }
    Ok(examination)
}

impl Guest {
    /// The number of its queues.
    fn queues(&self) -> usize {
        Scheme::<Model>::queues(self) as usize
    }
}
