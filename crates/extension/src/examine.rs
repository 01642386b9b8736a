//! A guest held to the laws of schemes before it is put on a port: seeded traffic in virtual time, with all the memory a link may have,
//! with little, and in batches beside the same one by one. The same code gives the same verdict.

use crate::guest::Guest;
use crate::module::LoadError;
use crate::program::Program;
use schemes::model::{Fate, Model};
use schemes::trial::{Broken, Law, Load, Round, Rounds, Trial};
use schemes::{Progress, Record, Scheme};
use std::fmt;
use units::Nanos;

/// Rounds of a run.
const ROUNDS: usize = 150;
/// Every so often many packets come at once: more than a guest is shown in one call.
const BURST: usize = 30;
/// Packets that a link with little memory has room for.
const LITTLE: usize = 12;

/// Thousandths of the link, and for how long: a little, and a flood.
const OVERLOADS: &[(Load, Nanos)] = &[(Load(1_500), Nanos::millis(1000)), (Load(20_000), Nanos::millis(100))];

/// What a guest is held to, and what that means.
pub const LAWS: &[(&str, &str)] = &[
    (DECISIONS, "it does not trap, returns in time, and decides what can be done"),
    ("conservation", "each packet is sent or dropped, once"),
    ("one at a time", "asked once, it sends or drops one packet"),
    ("work conservation", "the link is not idle while packets may leave"),
    ("asking", "it is to be asked again as long as packets wait, and not longer"),
    ("order", "no packet overtakes another of its flow"),
    ("passing", "what passes an idle link would be sent at once, unmarked"),
    ("marking", "only packets are marked whose senders understand it"),
    (
        ADMISSION,
        "behind an overload a queue that was empty for a second lets a packet in, and a light load gets through",
    ),
    (BATCHES, "many packets in one call have the fates that they have one by one"),
];
const DECISIONS: &str = "sound decisions";
const BATCHES: &str = "batches";
const ADMISSION: &str = "admission";

fn name(law: Law) -> &'static str {
    match law {
        Law::Conservation => "conservation",
        Law::OneAtATime => "one at a time",
        Law::WorkConservation => "work conservation",
        Law::Asking => "asking",
        Law::Order => "order",
        Law::Passing => "passing",
        Law::Marking => "marking",
        Law::Admission => ADMISSION,
    }
}

/// Where a law was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// How.
    pub how: String,
    /// The traffic's seed.
    pub seed: u64,
    /// The round of it, from 0; none at its end.
    pub round: Option<usize>,
    /// The circumstance.
    pub circumstance: &'static str,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { how, seed, round, circumstance } = self;
        match round {
            Some(round) => write!(f, "{how} ({circumstance}, seed {seed}, round {round})"),
            None => write!(f, "{how} ({circumstance}, seed {seed}, when all was over)"),
        }
    }
}

/// How a law was kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Its name, as in [`LAWS`].
    pub law: &'static str,
    /// Runs in which it was seen to be kept or broken: one ends where a law is broken.
    pub tried: u32,
    /// The first run in which it was broken.
    pub broken: Option<Case>,
}

impl Verdict {
    /// Of laws that nobody has looked at yet.
    pub(crate) fn of(laws: &[(&'static str, &str)]) -> Vec<Verdict> {
        laws.iter().map(|&(law, _)| Verdict { law, tried: 0, broken: None }).collect()
    }

    /// Whether none was broken.
    pub(crate) fn are_good(all: &[Verdict]) -> bool {
        all.iter().all(|verdict| verdict.broken.is_none())
    }

    /// A law was seen to be kept, or broken.
    pub(crate) fn judge(all: &mut [Verdict], law: &str, case: Option<Case>) {
        if let Some(verdict) = all.iter_mut().find(|verdict| verdict.law == law) {
            verdict.tried += 1;
            verdict.broken = verdict.broken.take().or(case);
        }
    }
}

/// What came of it all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Examination {
    /// One for each of [`LAWS`].
    pub verdicts: Vec<Verdict>,
    /// Runs.
    pub runs: u32,
    /// Packets that were sent, refused, dropped and marked in all of them.
    pub sent: u64,
    /// Not let in.
    pub refused: u64,
    /// Let in, and dropped.
    pub dropped: u64,
    /// Sent or waiting with congestion experienced.
    pub marked: u64,
    /// What the guest counted in all runs together.
    pub counters: [u64; 8],
    /// What it logged last; empty where it did not.
    pub line: String,
}

impl Examination {
    /// Whether no law was broken.
    pub fn is_good(&self) -> bool {
        Verdict::are_good(&self.verdicts)
    }

    fn judge(&mut self, law: &str, case: Option<Case>) {
        Verdict::judge(&mut self.verdicts, law, case);
    }

    fn add(&mut self, model: &Model, guest: &Guest) {
        self.sent += model.fated(|fate| matches!(fate, Fate::Sent(_))) as u64;
        self.refused += model.fated(|fate| matches!(fate, Fate::Refused(_))) as u64;
        self.dropped += model.fated(|fate| matches!(fate, Fate::Dropped(_))) as u64;
        self.marked += model.marked.len() as u64;
        for (sum, more) in self.counters.iter_mut().zip(guest.counters()) {
            *sum = sum.wrapping_add(more);
        }
        if !guest.line().is_empty() {
            guest.line().clone_into(&mut self.line);
        }
    }

    /// A run against the laws of [`Trial`].
    fn run(&mut self, program: &Program, options: &[u64], seed: u64, memory: usize) -> Result<(), LoadError> {
        let circumstance = if memory == usize::MAX { "usual traffic" } else { "little memory" };
        let mut trial = Trial::new(Box::new(program.guest(options)?)).with_memory_for(memory);
        let mut wrong = None;
        for (number, round) in rounds(seed).enumerate() {
            let broken = trial.try_round(&round).err();
            wrong = wrong_of(trial.scheme(), broken).map(|wrong| (wrong, Some(number)));
            if wrong.is_some() {
                break;
            }
        }
        if wrong.is_none() {
            let broken = trial.try_end().err();
            wrong = wrong_of(trial.scheme(), broken).map(|wrong| (wrong, None));
        }
        let (guest, model) = trial.apart();
        self.add(&model, &guest);
        self.runs += 1;
        match wrong {
            Some(((law, how), round)) => self.judge(law, Some(Case { how, seed, round, circumstance })),
            None => {
                LAWS.iter().filter(|(law, _)| *law != BATCHES).for_each(|(law, _)| self.judge(law, None));
            }
        }
        Ok(())
    }

    /// Overloads, and what they leave behind.
    fn overload(&mut self, program: &Program, options: &[u64]) -> Result<(), LoadError> {
        for (load, length) in OVERLOADS {
            let mut trial = Trial::new(Box::new(program.guest(options)?));
            let broken = trial.try_overload(*load, *length).err();
            let wrong = wrong_of(trial.scheme(), broken);
            let (guest, model) = trial.apart();
            self.add(&model, &guest);
            self.runs += 1;
            match wrong {
                Some((law, how)) => {
                    self.judge(law, Some(Case { how, seed: 0, round: None, circumstance: "an overload" }));
                }
                None => self.judge(ADMISSION, None),
            }
        }
        Ok(())
    }

    /// The same packets in batches and one by one.
    fn compare(&mut self, program: &Program, options: &[u64], seed: u64) -> Result<(), LoadError> {
        let circumstance = "batches beside one by one";
        let mut guests = [program.guest(options)?, program.guest(options)?];
        let mut models = [0, 1].map(|_| Model::with(guests[0].queues()));
        self.runs += 1;
        let mut compared = 0;
        for (round, Round { packets, pause, room }) in rounds(seed).enumerate() {
            for (one_by_one, (guest, model)) in guests.iter_mut().zip(&mut models).enumerate() {
                if one_by_one == 1 {
                    singly(guest, model, &packets);
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
                if let Some((law, how)) = wrong_of(guest, None) {
                    self.judge(law, Some(Case { how, seed, round: Some(round), circumstance }));
                    return Ok(());
                }
            }
            if let Some(how) = difference(&models, compared) {
                self.judge(BATCHES, Some(Case { how, seed, round: Some(round), circumstance }));
                return Ok(());
            }
            compared = models[0].fates.len();
        }
        self.add(&models[0], &guests[0]);
        self.judge(BATCHES, None);
        Ok(())
    }
}

fn singly(guest: &mut Guest, model: &mut Model, packets: &[Record]) {
    for packet in packets {
        model.arrive_all(guest, std::iter::once(*packet));
    }
}

/// How the fates behind the first so many differ. In which order packets are dropped, among those that are not sent, is not looked at.
fn difference([many, single]: &[Model; 2], from: usize) -> Option<String> {
    if many.fates.len() != single.fates.len() {
        return Some(format!("{} packets have ended in batches, {} one by one", many.fates.len(), single.fates.len()));
    }
    let ordered = |model: &Model| {
        let mut fates = model.fates[from..].to_vec();
        fates.sort_by_key(|fate| match fate {
            Fate::Sent(_) => (true, 0),
            Fate::Refused(number) | Fate::Dropped(number) => (false, *number),
        });
        fates
    };
    let (many_fates, single_fates) = (ordered(many), ordered(single));
    let other = many_fates.iter().zip(&single_fates).find(|(one, other)| one != other);
    let fates = other.map(|(one, other)| format!("in batches it is {one:?}, one by one {other:?}"));
    fates.or_else(|| (many.marked != single.marked).then(|| "it marks other packets in batches than one by one".into()))
}

/// What went wrong: what the guest itself did, before what came of it.
fn wrong_of(guest: &mut Guest, broken: Option<Broken>) -> Option<(&'static str, String)> {
    match Scheme::<Model>::trouble(guest) {
        Some(trouble) => Some((DECISIONS, trouble.what)),
        None => broken.map(|Broken { law, how }| (name(law), how)),
    }
}

/// The traffic of a seed.
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

/// Holds a guest with these options to [`LAWS`], in so many runs of each circumstance.
///
/// # Errors
///
/// The guest does not start with these options.
pub fn examine(program: &Program, options: &[u64], seeds: u64) -> Result<Examination, LoadError> {
    let mut examination = Examination {
        verdicts: Verdict::of(LAWS),
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
    /// How many queues it has.
    fn queues(&self) -> usize {
        Scheme::<Model>::queues(self) as usize
    }
}
