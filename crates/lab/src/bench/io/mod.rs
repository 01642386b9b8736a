//! The cost of ports, beside the kernel's own forwarding of the same packets between the same hosts.
//!
//! Every router has a lane of its own between two network namespaces ([`lane`]). Each round measures every lane in turn, and the ratio to the kernel
//! is computed within the round. One processor generates the packets and runs the driver at the other end of the first cable. The rest is left to the
//! router. Throughput measurements run at a higher priority than other programs.
//!
//! For small packets the figure is the highest forwarding rate over many loads, the same loads for every lane ([`loads`]).

pub mod echo;
pub mod filters;
pub mod lane;
mod loads;
pub mod packets;
pub mod processors;
mod stream;

use super::{BenchFigure, Progress, Rounds, medians};
use anyhow::{Context, Result};
use io::bpf::instruction::{action, exit, set};
use io::bpf::{self, BpfProgram};
use io::netns::Lab;
use io::thread_priority::RealtimePriority;
use lane::{HostOffloads, Lane, LaneKind};
use loads::LaneComparison;
use packets::{LossCounts, Packets};
use processors::Processors;
use std::fmt::Write as _;
use stream::Stream;
use units::Nanos;

/// The most rounds: each takes a second or two.
const ROUNDS: usize = 9;
/// Budgets for the ratio to the kernel: of `xdp` with small packets, and of the better of `tap` and `packet` with TCP.
const SMALL: f64 = 0.95;
const BULK: f64 = 0.9;
/// Budgets for a sleeping router: the round trip of a ping in microseconds, and the router's processor time in percent.
const PING: f64 = 60.0;
const IDLE: f64 = 2.0;
/// The fraction of the maximum rate at which no packet may be lost.
const BELOW: f64 = 0.4;
/// How long that rate is offered, for each round of the others.
const GENTLY: Nanos = Nanos::millis(100);

/// Measures all figures. Needs root.
pub fn measure(Rounds(rounds): Rounds, progress: &Progress) -> Result<Vec<BenchFigure>> {
    require_kernel("bench io")?;
    let lab = Lab::new()?;
    let rounds = rounds.min(ROUNDS);
    let precedence = RealtimePriority::acquire().inspect_err(|error| {
        progress.note(&format!("io: no real-time priority ({error}): the figures include the load of other programs"));
    });
    let mut figures = small(&lab, rounds, progress)?;
    figures.extend(bulk(&lab, rounds, progress)?);
    // The idle measurement includes the time until the scheduler gives a sleeping router the processor. So drop the high priority here.
    drop(precedence);
    figures.extend(idle(&lab, rounds, progress)?);
    Ok(figures)
}

/// An error if this process may not load the programs that send and count packets. `command` is the subcommand that needs them.
pub fn require_kernel(command: &str) -> Result<()> {
    // A user namespace would provide hosts, but no way to send packets fast enough.
    BpfProgram::load(bpf::BpfProgramKind::Xdp, "switchpath_try", &[set(0, action::DROP), exit()])
        .with_context(|| {
            format!("it needs root, and no user namespace (`sudo switchpath {command}`); loading a BPF program failed")
        })
        .map(drop)
}

/// The values of a router and of the kernel in each round.
type Pairs = Vec<(f64, f64)>;

/// One lane for the kernel and one for each kind of port that this machine supports.
fn lanes<T>(
    progress: &Progress,
    kinds: &[LaneKind],
    make: impl Fn(LaneKind) -> Result<T>,
) -> Result<Vec<(LaneKind, T)>> {
    let mut lanes = vec![(LaneKind::Kernel, make(LaneKind::Kernel).context("the kernel's router")?)];
    for &kind in kinds {
        match make(kind) {
            Ok(lane) => lanes.push((kind, lane)),
            Err(error) => progress.note(&format!("io: {} is left out: {error:#}", kind.name())),
        }
    }
    Ok(lanes)
}

/// Measures every lane in turn in each round. Returns the values of each lane but the kernel's (the first) beside the kernel's.
fn measure_in_turn<T>(
    lanes: &[(LaneKind, T)],
    rounds: usize,
    (progress, what, unit): (&Progress, &str, f64),
    measure: impl Fn(&T) -> Result<f64>,
) -> Result<Vec<(LaneKind, Pairs)>> {
    let mut values: Vec<(LaneKind, Pairs)> = lanes[1..].iter().map(|(kind, _)| (*kind, Vec::new())).collect();
    for round in 0..rounds {
        let kernel = measure(&lanes[0].1).context("the kernel's router")?;
        let mut said = format!("io: {what}, round {} of {rounds}: kernel {:.2}", round + 1, kernel / unit);
        for ((kind, values), (_, lane)) in values.iter_mut().zip(&lanes[1..]) {
            let ours = measure(lane).with_context(|| kind.name())?;
            values.push((ours, kernel));
            // Writing to a string cannot fail.
            let _ = write!(said, ", {} {:.2} ({:.2})", kind.name(), ours / unit, ours / kernel);
        }
        progress.say(&said);
    }
    Ok(values)
}

/// 64-byte packets: the maximum over many loads ([`loads`]), then a lower rate without loss.
fn small(lab: &Lab, rounds: usize, progress: &Progress) -> Result<Vec<BenchFigure>> {
    let lanes = lanes(progress, &[LaneKind::Xdp, LaneKind::Packet, LaneKind::Tap], |kind| Packets::new(lab, kind))?;
    let mut figures = Vec::new();
    for (LaneComparison { kind, ours, kernel, ratio, flooded }, (_, lane)) in
        loads::compare(&lanes, rounds, progress)?.into_iter().zip(&lanes[1..])
    {
        let name = |what| format!("{}, 64 B, {what}", kind.name());
        let least = (kind == LaneKind::Xdp).then_some(SMALL);
        let most = (ours.rate / 1e6, kernel.rate / 1e6, ratio);
        figures.push(BenchFigure::at_least(
            "io",
            name("the most that comes out, beside the kernel"),
            most,
            "Mpps",
            least,
        ));
        let offered = (ours.offered / 1e6, kernel.offered / 1e6, ours.offered / kernel.offered);
        figures.push(BenchFigure::against("io", name("offered then"), offered, "Mpps", None));
        let flood = (ours.flooded / 1e6, kernel.flooded / 1e6, flooded);
        figures.push(BenchFigure::against("io", name("what comes out of a flood"), flood, "Mpps", None));
        progress.say(&format!("io: {} below capacity", kind.name()));
        let LossCounts { sent, lost, late } = lane.send_at_rate(ours.rate * BELOW, GENTLY * rounds as u64)?;
        let name = |what| format!("{}, {what} of {sent} at {:.0} % of the most", kind.name(), BELOW * 100.0);
        figures.push(BenchFigure::alone("io", name("lost"), lost as f64, "packets", Some(0.0)));
        figures.push(BenchFigure::alone("io", name("overtaken"), late as f64, "packets", Some(0.0)));
    }
    Ok(figures)
}

/// One TCP connection. The budget applies to the better of the kinds of port that carry super-frames.
fn bulk(lab: &Lab, rounds: usize, progress: &Progress) -> Result<Vec<BenchFigure>> {
    let lanes = lanes(progress, &[LaneKind::Tap, LaneKind::Packet, LaneKind::Xdp], |kind| Stream::new(lab, kind))?;
    let values = measure_in_turn(&lanes, rounds, (progress, "Gbit/s of one TCP connection", 1e9), Stream::rate)?;
    let medians: Vec<(LaneKind, (f64, f64, f64))> =
        values.iter().map(|(kind, pairs)| (*kind, medians(pairs))).collect();
    let best = medians.iter().map(|(_, (_, _, ratio))| *ratio).fold(0.0, f64::max);
    let figure = |(kind, (ours, kernel, ratio)): &(LaneKind, (f64, f64, f64))| {
        let name = format!("{}, one TCP connection, beside the kernel", kind.name());
        let least = (*ratio == best).then_some(BULK);
        BenchFigure::at_least("io", name, (ours / 1e9, kernel / 1e9, *ratio), "Gbit/s", least)
    };
    Ok(medians.iter().map(figure).collect())
}

/// A sleeping router: on the processor of the pinging host, as the kernel's router, and on another one. The difference is the time that this machine
/// takes to wake up a processor.
fn idle(lab: &Lab, rounds: usize, progress: &Progress) -> Result<Vec<BenchFigure>> {
    let mut figures = Vec::new();
    let processors = Processors::of_thread()?;
    for kind in [LaneKind::Kernel, LaneKind::Xdp, LaneKind::Packet, LaneKind::Tap] {
        progress.say(&format!("io: {} with nothing to do", kind.name()));
        let ours = kind != LaneKind::Kernel;
        let make = || Lane::new(lab, kind, HostOffloads::Plain);
        let ping = |lane: &Lane| processors.on_first(|| echo::round_trip(lane, 50 * rounds));
        let name = |what| format!("{}, {what}", kind.name());
        let lane = match processors.on_first(make) {
            Ok(lane) => lane,
            Err(error) => {
                progress.note(&format!("io: {} is left out: {error:#}", kind.name()));
                continue;
            }
        };
        let budget = ours.then_some(PING);
        figures.push(BenchFigure::alone("io", name("ping through a router that sleeps"), ping(&lane)?, "us", budget));
        if !ours {
            continue;
        }
        let used = echo::idle(Nanos::millis(300 * rounds as u64))?;
        figures.push(BenchFigure::alone("io", name("of a processor with nothing to do"), used, "%", Some(IDLE)));
        lane.enable_estimators()?;
        let used = echo::idle(Nanos::millis(300 * rounds as u64))?;
        let name_estimated = name("of a processor with nothing to do, its ports estimated");
        figures.push(BenchFigure::alone("io", name_estimated, used, "%", Some(IDLE)));
        drop(lane);
        if let Some(lane) = processors.on_others(make)? {
            let name = name("ping, the router on another processor");
            figures.push(BenchFigure::alone("io", name, ping(&lane)?, "us", None));
        }
    }
    Ok(figures)
}
