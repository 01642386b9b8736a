//! Acceptance of reservations on real packets: daemons between network namespaces, driven by their API, with the kernel's sockets at the senders.
//!
//! The machine is shared with other programs. So the watch of a worker records when it was kept from its processor, and senders count the packets that
//! they could not send in time. A run that breaks a reservation while the machine ran everything counts against the router at once. One that breaks it while
//! the machine did not is repeated, a few times.

mod bounded_flow;
mod control_load;
mod hosts;
mod processors;
mod router;
mod row;
mod sets;
mod steady;
mod traffic;
mod verdict;
mod worker_watch;

use super::super::{BenchFigure, Progress};
use anyhow::Result;
use processors::{ProcessorSplit, SessionPriority};
use units::Nanos;
use verdict::Verdict;

/// The length of the run without reservations.
const WITHOUT: Nanos = Nanos::secs(3);
/// The random sets, the length of the run of each, and how often a set that the machine has disturbed is run.
const SETS: u64 = 20;
const SET: Nanos = Nanos::millis(2500);
const ATTEMPTS: usize = 3;
/// The length of the run through three routers.
const ROW: Nanos = Nanos::secs(10);

/// Runs two reserved flows for `span`, random sets of flows, and a flow through three routers, on real packets.
///
/// # Errors
///
/// Why this machine cannot do it.
pub fn measure(span: Nanos, progress: &Progress) -> Result<Vec<BenchFigure>> {
    progress.say(&format!(
        "promises: reserved flows beside a flood for {span}, while guests, routes and reservations change ..."
    ));
    let (processors, _session) = (ProcessorSplit::divide()?, SessionPriority::acquire());
    let result = steady::run(processors, span)?;
    match result.verdict() {
        Verdict::Kept => {}
        Verdict::Disturbed(why) => progress.note(&format!("promises: the machine was busy, run it again: {why}")),
        Verdict::Broken(why) => progress.note(&format!("promises: not kept: {why}")),
    }
    let mut figures = result.figures();
    progress.say("promises: the same flows without reservations ...");
    for (flow, arrived) in result.flows.iter().zip(steady::run_without(processors, WITHOUT)?) {
        let name = format!("{}: arrived without a reservation", flow.name);
        // If nothing were lost here, the run above would prove nothing.
        figures.push(BenchFigure::alone("promises", name, arrived, "%", Some(99.0)));
    }
    let slower = sets::slower(processors)?;
    progress.say(&format!("promises: {SETS} random sets of flows, {slower} times slower than simulated ..."));
    let sets = (0..SETS).map(|seed| run_set(processors, (seed, slower), progress)).collect::<Result<Vec<_>>>()?;
    figures.extend(sets_figures(&sets, slower));
    progress.say("promises: a flow through three routers ...");
    figures.extend(row_figures(&run_row(processors, progress)?.0));
    Ok(figures)
}

/// Repeats a run while it is disturbed by the machine, a few times. Returns the last result and the number of runs.
fn repeat<T>(
    (what, progress): (&str, &Progress),
    verdict: impl Fn(&T) -> Verdict,
    mut run: impl FnMut() -> Result<T>,
) -> Result<(T, usize)> {
    let mut runs = 0;
    loop {
        runs += 1;
        let result = run()?;
        match verdict(&result) {
            Verdict::Kept => return Ok((result, runs)),
            Verdict::Broken(why) => {
                progress.note(&format!("promises: {what}, run {runs}, not kept: {why}"));
                return Ok((result, runs));
            }
            Verdict::Disturbed(why) => {
                progress.note(&format!("promises: {what}, run {runs}, disturbed: {why}"));
                if runs == ATTEMPTS {
                    return Ok((result, runs));
                }
            }
        }
    }
}

/// A set, and how often it was run.
type SetRuns = (sets::SetResult, usize);

fn run_set(processors: ProcessorSplit, (seed, slower): (u64, u64), progress: &Progress) -> Result<SetRuns> {
    let run = || sets::run(processors, (seed, slower), SET);
    repeat((&format!("set {seed}"), progress), sets::SetResult::verdict, run)
}

fn sets_figures(sets: &[SetRuns], slower: u64) -> Vec<BenchFigure> {
    let count = |of: fn(&SetRuns) -> usize| sets.iter().map(of).sum::<usize>() as f64;
    let figure = |name: &str, value, unit, budget| {
        BenchFigure::alone("promises", format!("{} random sets: {name}", sets.len()), value, unit, budget)
    };
    let at_first = |(set, _): &SetRuns| set.admitted.iter().map(|flow| flow.at_first as usize).sum::<usize>();
    let used = sets.iter().map(|(set, _)| set.most_used()).fold(0.0, f64::max);
    vec![
        figure("admitted flows", count(|(set, _)| set.admitted.len()), "flows", None),
        figure("refused flows", count(|(set, _)| set.refused), "flows", None),
        figure(
            "admitted flows that lost a packet or exceeded the bound",
            count(|(set, _)| set.broken().len()),
            "flows",
            Some(0.0),
        ),
        figure("longest delay of any packet, of its bound", used * 100.0, "%", None),
        figure(
            "lost or late just after the reservations",
            sets.iter().map(at_first).sum::<usize>() as f64,
            "packets",
            None,
        ),
        figure(
            "sets judged in spite of stalls of the machine",
            count(|(set, _)| usize::from(set.disturbance.is_some())),
            "sets",
            None,
        ),
        figure("runs repeated because the machine stalled", count(|(_, runs)| runs - 1), "runs", None),
        figure("slower than the simulated machine", slower as f64, "times", None),
    ]
}

fn run_row(processors: ProcessorSplit, progress: &Progress) -> Result<(row::RowResult, usize)> {
    repeat(("three routers", progress), row::RowResult::verdict, || row::run(processors, ROW))
}

fn row_figures(row: &row::RowResult) -> Vec<BenchFigure> {
    let millis = |time: Nanos| time.get() as f64 / 1e6;
    let figure = |name: &str, value, unit, budget| {
        BenchFigure::alone("promises", format!("three routers: {name}"), value, unit, budget)
    };
    let flow = &row.flow;
    let kept_from: Nanos = row.stalls.iter().fold(Nanos::ZERO, |sum, stalls| sum + stalls.total());
    vec![
        figure("lost packets", flow.result.lost() as f64, "packets", Some(0.0)),
        figure(
            "longest delay, within the concatenated bound",
            millis(flow.result.longest()),
            "ms",
            Some(millis(flow.bound)),
        ),
        figure("p99 of the delay", millis(flow.result.quantile(990)), "ms", None),
        figure("lost or late just after the reservation", flow.at_first as f64, "packets", None),
        figure("sum of their bounds", millis(row.sum), "ms", None),
        figure("sent by the floods", row.floods as f64 / row.span.as_secs_f64() / 1000.0, "kpps", None),
        figure("workers kept from their processor", millis(kept_from) / row.span.as_secs_f64() / 10.0, "%", None),
        figure("in time without a reservation", row.plain, "%", Some(99.0)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::netns::Lab;
    use std::sync::RwLockWriteGuard;

    /// The turn of the test that has the machine, and its processors; none where real packets are impossible.
    fn turn() -> Option<(RwLockWriteGuard<'static, ()>, SessionPriority, ProcessorSplit)> {
        let turn = crate::machine_lock::whole_machine();
        let processors = ProcessorSplit::divide().inspect_err(|one| println!("skipped: {one}")).ok()?;
        Lab::new().inspect_err(|forbidden| println!("skipped: {forbidden}")).ok()?;
        Some((turn, SessionPriority::acquire(), processors))
    }

    const PROGRESS: Progress = Progress { quiet: true };

    /// Fails if a reservation was broken. Runs that the machine has disturbed prove nothing, so the test says so.
    fn judge(verdict: Verdict) {
        match verdict {
            Verdict::Kept => {}
            Verdict::Disturbed(why) => println!("not judged after {ATTEMPTS} disturbed runs: {why}"),
            Verdict::Broken(why) => panic!("{why}"),
        }
    }

    #[test]
    fn reserved_flows_are_kept_while_guests_routes_and_reservations_change() {
        let Some((_turn, _session, processors)) = turn() else { return };
        let run = || steady::run(processors, Nanos::secs(4));
        let (result, _) = repeat(("reserved flows", &PROGRESS), steady::SteadyResult::verdict, run).unwrap();
        result.flows.iter().for_each(|flow| println!("{flow}"));
        let control = &result.control;
        println!("{control:?}, flood {} of {} packets", result.flood.received, result.flood.sent);
        assert!(control.builds.changes >= 4 && control.routes.changes >= 1000, "{control:?}");
        assert!(control.reservations.changes + control.refused >= 100, "{control:?}");
        judge(result.verdict());
    }

    /// Without reservations the flood takes the processor, so the other test can fail.
    #[test]
    fn flows_without_reservations_are_not_kept() {
        let Some((_turn, _session, processors)) = turn() else { return };
        let arrived = steady::run_without(processors, Nanos::secs(2)).unwrap();
        println!("{arrived:?} %");
        assert!(arrived.iter().all(|part| *part < 99.0), "{arrived:?}");
    }

    #[test]
    fn admitted_flows_of_random_sets_are_kept_on_real_packets() {
        let Some((_turn, _session, processors)) = turn() else { return };
        let slower = sets::slower(processors).unwrap();
        for seed in 0..2 {
            let (result, runs) = run_set(processors, (seed, slower), &PROGRESS).unwrap();
            println!("set {seed}, {slower} times slower, {runs} runs, {} refused", result.refused);
            result.admitted.iter().for_each(|flow| println!("{flow}"));
            assert!(!result.admitted.is_empty());
            judge(result.verdict());
        }
    }

    #[test]
    fn flow_through_three_routers_is_within_the_concatenated_bound() {
        let Some((_turn, _session, processors)) = turn() else { return };
        let (result, _) = run_row(processors, &PROGRESS).unwrap();
        println!(
            "{}; sum of bounds {}, {:.1} % without a reservation in time, floods sent {} packets",
            result.flow,
            result.sum.rounded(),
            result.plain,
            result.floods
        );
        assert!(result.flow.bound < result.sum && result.plain < 99.0);
        judge(result.verdict());
    }
}
