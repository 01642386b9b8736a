//! Checks an instruction against its laws before packets use it: seeded calls, with absent tags and with arbitrary values.

use crate::examine::{LawVerdict, LawViolation};
use crate::instruction::GuestInstruction;
use crate::module::LoadError;
use crate::random_numbers::RandomNumbers;
use plane::instructions::{CustomInstruction, InstructionCall, InstructionOutcome, TAGS};
use units::Instant;

/// Calls of a run.
const CALLS: usize = 400;
/// Every `AGAIN`th call is repeated by a fresh instance.
const AGAIN: usize = 8;

/// The laws of instructions, each with its explanation.
pub const INSTRUCTION_LAWS: &[(&str, &str)] = &[
    (DECISIONS, "it does not trap, returns in time, and returns a valid result"),
    (BOUND, "it writes only its own tags, and creates at most the declared entries"),
    (FORGETTING, "equal inputs give equal results: it has no state except the values of tags"),
];
const DECISIONS: &str = "sound decisions";
const BOUND: &str = "bound";
const FORGETTING: &str = "forgetting";

/// The result of the trial.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InstructionExamination {
    /// One for each of [`INSTRUCTION_LAWS`].
    pub verdicts: Vec<LawVerdict>,
    /// Calls after which the packet was forwarded.
    pub forwarded: u64,
    /// Calls after which it was dropped.
    pub dropped: u64,
    /// Calls that aborted: a tag was absent, or a value underflowed.
    pub aborted: u64,
    /// Calls after which it was forwarded with another value.
    pub rewritten: u64,
    /// Entries created.
    pub created: u64,
}

impl InstructionExamination {
    /// True if no law was broken.
    pub fn is_good(&self) -> bool {
        LawVerdict::hold(&self.verdicts)
    }
}

/// Random calls.
struct Chance(RandomNumbers);

impl Chance {
    /// Any value; extreme ones are the most likely.
    fn value(&mut self) -> u64 {
        match self.0.next() % 8 {
            0 => 0,
            1 => 1,
            2 => u64::MAX,
            3 => 1 << 63,
            4 | 5 => self.0.next() % 100,
            _ => self.0.next(),
        }
    }

    fn call(&mut self, tags: u8) -> InstructionCall {
        let now = Instant::new(self.0.next() >> 1);
        let (operator, value) = ((self.0.next() % 16) as u8, self.value());
        let mut there = [None; TAGS];
        for tag in there.iter_mut().take(tags.into()) {
            *tag = (!self.0.next().is_multiple_of(3)).then(|| self.value());
        }
        InstructionCall { now, node: 7, operator, value, entries: there, written: [None; TAGS] }
    }
}

/// Checks an instruction against [`INSTRUCTION_LAWS`], in `seeds` runs.
///
/// # Errors
///
/// It does not start.
pub fn examine_instruction(instruction: &GuestInstruction, seeds: u64) -> Result<InstructionExamination, LoadError> {
    let start = || instruction.start().map_err(|reason| LoadError::new(reason, "mend it"));
    let verdicts = LawVerdict::of(INSTRUCTION_LAWS);
    let mut tried = InstructionExamination { verdicts, forwarded: 0, dropped: 0, aborted: 0, rewritten: 0, created: 0 };
    for seed in 1..=seeds {
        let mut at_work = start()?;
        let broken = run(instruction, &mut *at_work, seed, &mut tried, &start)?;
        let (law, case) = broken.unzip();
        for &(each, _) in INSTRUCTION_LAWS {
            // A run ends at the first broken law and has no result for the others.
            if law.is_none_or(|law| law == each) {
                LawVerdict::judge(&mut tried.verdicts, each, case.clone());
            }
        }
    }
    Ok(tried)
}

fn run(
    instruction: &GuestInstruction,
    at_work: &mut dyn CustomInstruction,
    seed: u64,
    tried: &mut InstructionExamination,
    start: &dyn Fn() -> Result<Box<dyn CustomInstruction>, LoadError>,
) -> Result<Option<(&'static str, LawViolation)>, LoadError> {
    let (mut chance, text) = (Chance(RandomNumbers(seed)), instruction.text());
    for round in 0..CALLS {
        let question = chance.call(text.tags);
        let mut call = question;
        let case = |how| LawViolation { reason: how, seed, round: Some(round), circumstance: "any call" };
        let outcome = match at_work.execute(&mut call) {
            Ok(outcome) => outcome,
            Err(how) => return Ok(Some((DECISIONS, case(how)))),
        };
        if let Err(how) = call.check_writes(text.tags, text.creates) {
            return Ok(Some((BOUND, case(how))));
        }
        // A fresh instance has seen no earlier call. If it answers differently, the instruction keeps state outside of tags.
        if round % AGAIN == AGAIN - 1 {
            let mut again = question;
            let other = start()?.execute(&mut again);
            if other != Ok(outcome) || again != call {
                let how = format!("{question:?}: at first {other:?} and {again:?}, later {outcome:?} and {call:?}");
                return Ok(Some((FORGETTING, case(how))));
            }
        }
        match outcome {
            InstructionOutcome::Forward => {
                tried.forwarded += 1;
                tried.rewritten += u64::from(call.value != question.value);
                tried.created += call.created_entries() as u64;
            }
            InstructionOutcome::Drop => {
                tried.dropped += 1;
                tried.created += call.created_entries() as u64;
            }
            InstructionOutcome::Absent | InstructionOutcome::Underflow => tried.aborted += 1,
        }
    }
    Ok(None)
}
