//! Computations, and the members and roots of their rounds.

use crate::part::CPart;
use esp::host::{Action, Attempts, Computation, ComputationRound, Reporter, RoundController, RoundOutcome, Schedule};
use esp::isa::Operator;
use esp::wire::Locations;
use units::{Instant, Nanos};

const SEND: u32 = 0;
const WAIT: u32 = 1;
const OVER: u32 = 2;

/// `switchpath_schedule`, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct CSchedule {
    /// Members begin to register.
    pub start: u64,
    /// Members begin to report.
    pub collect: u64,
    /// The round is over.
    pub end: u64,
    /// The time between two transmissions.
    pub retry: u64,
}

impl From<&CSchedule> for Schedule {
    fn from(schedule: &CSchedule) -> Schedule {
        let CSchedule { start, collect, end, retry } = *schedule;
        let [start, collect, end] = [start, collect, end].map(Instant::new);
        // With an interval of zero a member would transmit without end.
        Schedule { start, collect, end, retry: Nanos::new(retry.max(1)) }
    }
}

/// `switchpath_outcome`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct COutcome {
    /// The result of the children that have reported.
    pub result: u64,
    /// The number of children that have not reported.
    pub missing: u64,
    /// Packets received.
    pub packets: u64,
    /// The kind of outcome.
    pub ending: u32,
    /// 1 if there is a result, else 0.
    pub has_result: u32,
}

/// A computation from the caller's random numbers, or the system's.
fn new_computation(randomness: Option<&[u64; 2]>) -> Option<Computation> {
    randomness.map_or_else(|| Computation::new().ok(), |randomness| Some(Computation::seeded(*randomness)))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_computation_new(randomness: Option<&[u64; 2]>) -> Option<Box<Computation>> {
    new_computation(randomness).map(Box::new)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_computation_joined_new(
    number: u64,
    randomness: Option<&[u64; 2]>,
) -> Option<Box<Computation>> {
    new_computation(randomness).map(|computation| Box::new(computation.joined(number)))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_computation_number(computation: Option<&Computation>) -> u64 {
    computation.map_or(0, Computation::id)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_computation_tag(computation: Option<&mut Computation>) -> u64 {
    computation.map_or(0, Computation::tag)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_computation_free(computation: Option<Box<Computation>>) {
    drop(computation);
}

/// See the header.
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

fn round(computation: u64, attempt: u32, operation: u32) -> Option<ComputationRound> {
    let operator = u8::try_from(operation).ok().and_then(Operator::of).filter(|operator| operator.combines())?;
    // At the output, members that arrive at several ports of a router share a store (spec E-38).
    Some(Computation::seeded([0; 2]).joined(computation).at(Locations::OUTPUT).round(attempt, operator))
}

/// See the header.
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

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_reporter_repeat(reporter: Option<&mut Reporter>, most: u16, every: u64) {
    if let Some(reporter) = reporter {
        *reporter = reporter.clone().repeated(Attempts { most, every: Nanos::new(every) });
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_controller_repeat(controller: Option<&mut RoundController>, most: u16, every: u64) {
    if let Some(controller) = controller {
        *controller = controller.clone().repeated(Attempts { most, every: Nanos::new(every) });
    }
}

/// See the header.
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

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_reporter_free(reporter: Option<Box<Reporter>>) {
    drop(reporter);
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_controller_new(
    computation: u64,
    attempt: u32,
    operation: u32,
    schedule: Option<&CSchedule>,
) -> Option<Box<RoundController>> {
    let (round, schedule) = (round(computation, attempt, operation)?, schedule?.into());
    Some(Box::new(RoundController::new(round, schedule)))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_controller_received(controller: Option<&mut RoundController>, part: Option<&CPart>) {
    if let (Some(controller), Some(part)) = (controller, part.and_then(CPart::part)) {
        controller.received(&part);
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_controller_poll(
    controller: Option<&mut RoundController>,
    now: u64,
    outcome: Option<&mut COutcome>,
    until: Option<&mut u64>,
) -> u32 {
    let Some(controller) = controller else { return OVER };
    let over = match controller.poll(Instant::new(now)) {
        Action::Over(over) => over,
        Action::Wait(time) => return wait(time, until),
        // A root never sends.
        Action::Send(_) => return WAIT,
    };
    let (ending, result, missing) = match over {
        RoundOutcome::Complete(result) => (0, Some(result), 0),
        RoundOutcome::Incomplete { result, missing } => (1, result, missing),
        RoundOutcome::Failed => (2, None, 0),
        RoundOutcome::NoMembers => (3, None, 0),
    };
    if let Some(outcome) = outcome {
        let (has_result, packets) = (result.is_some().into(), controller.packets());
        *outcome = COutcome { result: result.unwrap_or(0), missing: missing as u64, packets, ending, has_result };
    }
    OVER
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_controller_free(controller: Option<Box<RoundController>>) {
    drop(controller);
}
