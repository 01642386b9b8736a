//! Computes a value of a host group: each member reports, routers combine the reports, and the root receives only a few packets.

use super::transport::PartTransport;
use crate::arguments::MemberArguments;
use crate::output::print_json;
use anyhow::{Result, bail};
use esp::host::{Action, Attempts, Computation, Reporter, RoundController, RoundOutcome, Schedule};
use esp::isa::Operator;
use esp::wire::Locations;
use io::clock;
use io::wait::{Sleeper, Waker};
use serde::Serialize;
use std::hash::{BuildHasher, RandomState};
use std::io::{Write, stdout};
use std::net::IpAddr;
use std::process::ExitCode;
use units::{Instant, Nanos};

/// The result of a round.
#[derive(Serialize)]
struct Collected {
    result: Option<u64>,
    complete: bool,
    missing: usize,
    packets: u64,
    attempts: u16,
}

/// `switchpath state group-size`
pub fn size(computation: u64, member: &MemberArguments, how: (PartTransport, bool)) -> Result<ExitCode> {
    collect(computation, Operator::Add, &MemberArguments { value: vec![1], ..*member }, how)
}

/// `switchpath state collect`
pub fn collect(
    computation: u64,
    operator: Operator,
    member: &MemberArguments,
    (line, json): (PartTransport, bool),
) -> Result<ExitCode> {
    if !operator.combines() {
        bail!(crate::arguments::UsageError(format!(
            "'{operator}' compares values; combine them with add, min, max, and, or, xor"
        )));
    }
    // All hosts with a correct clock begin a round at the same time. Each round has its own tags.
    let period = member.lifetime * 2;
    let (now, epoch) = (clock::now(), clock::epoch());
    let today = (now + epoch).get();
    let attempt = today / period.get() + 1;
    let start = now + Nanos::new(attempt * period.get() - today);
    let schedule = Schedule::plan(start, member.lifetime, (member.delay, member.delay), member.tries)?;
    let random = RandomState::new();
    // Reports enter a router on several ports and leave on the one towards the root. There they meet in one store (spec E-38).
    let computation = Computation::new()?.joined(computation).at(Locations::OUTPUT);
    let round = computation.round(attempt as u32, operator);
    // The next round is that of the next period, also for a member that joins only then.
    let attempts = Attempts { most: member.attempts, every: period };
    match member.to {
        Some(root) => {
            let values = member.value.iter().cycle().zip(0..member.members);
            let reporter = |(value, n): (&u64, u64)| Reporter::new(round, schedule, random.hash_one(n), *value);
            report(values.map(|member| reporter(member).repeated(attempts)), root, line)
        }
        None => collect_at_root((RoundController::new(round, schedule).repeated(attempts), attempts), line, json),
    }
}

fn report(reporters: impl Iterator<Item = Reporter>, root: IpAddr, line: PartTransport) -> Result<ExitCode> {
    let mut members = reporters.map(|one| Ok((one, line.connect(root)?))).collect::<Result<Vec<_>>>()?;
    let mut sleeper = Sleeper::new(Waker::new()?);
    while !members.is_empty() {
        let (now, mut next) = (clock::now(), Instant::NEVER);
        members.retain_mut(|(reporter, socket)| {
            loop {
                match reporter.poll(now) {
                    // The part is not acknowledged. If this host cannot send it, a later attempt may.
                    Action::Send(part) => drop(socket.send(&line.bytes(&part))),
                    Action::Wait(until) => {
                        next = next.min(until);
                        return true;
                    }
                    Action::Over(()) => return false,
                }
            }
        });
        if !members.is_empty() {
            sleeper.sleep([], next.since(clock::now()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn collect_at_root((mut root, of): (RoundController, Attempts), line: PartTransport, json: bool) -> Result<ExitCode> {
    let mut inlet = line.listen_on(None)?;
    let outcome = loop {
        let until: Instant = match root.poll(clock::now()) {
            Action::Over(outcome) => break outcome,
            Action::Wait(until) => until,
            Action::Send(_) => bail!("a root sends nothing"),
        };
        if let Some(came) = inlet.next(until)? {
            root.received(&came.part);
        }
    };
    let (result, complete, missing) = match outcome {
        RoundOutcome::Complete(result) => (Some(result), true, 0),
        RoundOutcome::Incomplete { result, missing } => (result, false, missing),
        RoundOutcome::Failed | RoundOutcome::NoMembers => (None, false, 0),
    };
    let mut out = stdout().lock();
    if json {
        let (packets, attempts) = (root.packets(), of.most - root.attempts_left());
        print_json(&mut out, &Collected { result, complete, missing, packets, attempts })?;
    } else {
        match outcome {
            RoundOutcome::Complete(result) => writeln!(out, "{result}, from {} packets", root.packets())?,
            RoundOutcome::Incomplete { result: Some(result), missing } => {
                writeln!(out, "{result} without {missing} members that have not reported")?;
            }
            RoundOutcome::Incomplete { result: None, missing } => {
                writeln!(out, "none of {missing} members has reported")?
            }
            RoundOutcome::Failed => writeln!(out, "a router on the path could not execute the instruction")?,
            RoundOutcome::NoMembers => writeln!(out, "no member has registered")?,
        }
    }
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
