//! Computations, and both ends of their rounds.

use crate::part::CPart;
use esp::host::{Action, Attempts, Computation, Controller, Outcome, Reporter, Round, Schedule};
use esp::isa::Operator;
use esp::wire::Locations;
use units::{Instant, Nanos};

const SEND: u32 = 0;
const WAIT: u32 = 1;
const OVER: u32 = 2;

/// `switchpath_schedule`: nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct CSchedule {
    /// When members begin to make themselves known.
    pub start: u64,
    /// When they begin to report.
    pub collect: u64,
    /// When it is over.
    pub end: u64,
    /// The time until something is sent again.
    pub retry: u64,
}

impl From<&CSchedule> for Schedule {
    fn from(schedule: &CSchedule) -> Schedule {
        let CSchedule { start, collect, end, retry } = *schedule;
        let [start, collect, end] = [start, collect, end].map(Instant::new);
        // Who sends again at once would do nothing else.
        Schedule { start, collect, end, retry: Nanos::new(retry.max(1)) }
    }
}

/// `switchpath_outcome`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct COutcome {
    /// Of those who have reported.
    pub result: u64,
    /// How many have not.
    pub missing: u64,
    /// Packets that have come.
    pub packets: u64,
    /// How it ended.
    pub ending: u32,
    /// Whether there is a result.
    pub has_result: u32,
}

/// From randomness that the caller gives, or the system.
fn drawn(randomness: Option<&[u64; 2]>) -> Option<Computation> {
    randomness.map_or_else(|| Computation::new().ok(), |randomness| Some(Computation::seeded(*randomness)))
}

/// The header says it.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_computation_new(randomness: Option<&[u64; 2]>) -> Option<Box<Computation>> {
    drawn(randomness).map(Box::new)
}

/// The header says it.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_computation_joined_new(
    number: u64,
    randomness: Option<&[u64; 2]>,
) -> Option<Box<Computation>> {
    drawn(randomness).map(|computation| Box::new(computation.joined(number)))
}

/// The header says it.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_computation_number(computation: Option<&Computation>) -> u64 {
    computation.map_or(0, Computation::id)
}

/// The header says it.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_computation_tag(computation: Option<&mut Computation>) -> u64 {
    computation.map_or(0, Computation::tag)
}

/// The header says it.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_computation_free(computation: Option<Box<Computation>>) {
    drop(computation);
}

/// The header says it.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_plan(
    into: Option<&mut CSchedule>,
    start: u64,
    lifetime: u64,
    delay: u64,
    skew: u64,
    tries: u32,
) -> u64 {
    let [lifetime, delay, skew] = [lifetime, delay, skew].map(Nanos::new);
    match (Schedule::plan(Instant::new(start), lifetime, (delay, skew), tries), into) {
        (Ok(Schedule { start, collect, end, retry }), Some(into)) => {
            *into = CSchedule { start: start.get(), collect: collect.get(), end: end.get(), retry: retry.get() };
            0
        }
        (Ok(_), None) => 0,
        (Err(short), _) => short.needed.get(),
    }
}

fn round(computation: u64, attempt: u32, operation: u32) -> Option<Round> {
    let operator = u8::try_from(operation).ok().and_then(Operator::of).filter(|operator| operator.combines())?;
    // Where members that come in by several ports of a router meet (spec E-38).
    Some(Computation::seeded([0; 2]).joined(computation).at(Locations::OUTPUT).round(attempt, operator))
}

/// The header says it.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_reporter_new(
    computation: u64,
    attempt: u32,
    operation: u32,
    schedule: Option<&CSchedule>,
    child: u64,
    value: u64,
) -> Option<Box<Reporter>> {
    let (round, schedule) = (round(computation, attempt, operation)?, schedule?.into());
    Some(Box::new(Reporter::new(round, schedule, child, value)))
}

/// The header says it.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_reporter_repeat(reporter: Option<&mut Reporter>, most: u16, every: u64) {
    if let Some(reporter) = reporter {
        *reporter = reporter.clone().repeated(Attempts { most, every: Nanos::new(every) });
    }
}

/// The header says it.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_controller_repeat(controller: Option<&mut Controller>, most: u16, every: u64) {
    if let Some(controller) = controller {
        *controller = controller.clone().repeated(Attempts { most, every: Nanos::new(every) });
    }
}

/// The header says it.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_reporter_poll(
    reporter: Option<&mut Reporter>,
    now: u64,
    part: Option<&mut CPart>,
    until: Option<&mut u64>,
) -> u32 {
    let Some(reporter) = reporter else { return OVER };
    match reporter.poll(Instant::new(now)) {
        Action::Send(send) => {
            if let Some(part) = part {
                *part = CPart::from(&send);
            }
            SEND
        }
        Action::Wait(time) => wait(time, until),
        Action::Over(()) => OVER,
    }
}

fn wait(time: Instant, until: Option<&mut u64>) -> u32 {
    if let Some(until) = until {
        *until = time.get();
    }
    WAIT
}

/// The header says it.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_reporter_free(reporter: Option<Box<Reporter>>) {
    drop(reporter);
}

/// The header says it.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_controller_new(
    computation: u64,
    attempt: u32,
    operation: u32,
    schedule: Option<&CSchedule>,
) -> Option<Box<Controller>> {
    let (round, schedule) = (round(computation, attempt, operation)?, schedule?.into());
    Some(Box::new(Controller::new(round, schedule)))
}

/// The header says it.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_controller_received(controller: Option<&mut Controller>, part: Option<&CPart>) {
    if let (Some(controller), Some(part)) = (controller, part.and_then(CPart::part)) {
        controller.received(&part);
    }
}

/// The header says it.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_controller_poll(
    controller: Option<&mut Controller>,
    now: u64,
    outcome: Option<&mut COutcome>,
    until: Option<&mut u64>,
) -> u32 {
    let Some(controller) = controller else { return OVER };
    let over = match controller.poll(Instant::new(now)) {
        Action::Over(over) => over,
        Action::Wait(time) => return wait(time, until),
        // A root sends nothing.
        Action::Send(_) => return WAIT,
    };
    let (ending, result, missing) = match over {
        Outcome::Complete(result) => (0, Some(result), 0),
        Outcome::Incomplete { result, missing } => (1, result, missing),
        Outcome::Failed => (2, None, 0),
        Outcome::Nobody => (3, None, 0),
    };
    if let Some(outcome) = outcome {
        let (has_result, packets) = (result.is_some().into(), controller.packets());
        *outcome = COutcome { result: result.unwrap_or(0), missing: missing as u64, packets, ending, has_result };
    }
    OVER
}

/// The header says it.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_controller_free(controller: Option<Box<Controller>>) {
    drop(controller);
}
