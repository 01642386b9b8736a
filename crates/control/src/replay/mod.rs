//! `replay`: replays a capture through a configuration in virtual time, and reports the fate of each packet; with two configurations, it also reports
//! the packets whose fates differ.
//!
//! It uses no clock, no device and no other router: the same capture and the same configuration give the same result, byte for byte.

mod report;
mod router;
mod source;

pub use report::{ChangedPacket, Comparison, DropCount, FateChange, ReplayReport};
pub use router::Departure;
pub use source::{RecordedPacket, ReplaySource};

use crate::api::{ApiError, ErrorKind};
use io::advisories::OpenError;
use plan::Plan;
use report::FateCounters;
use router::{ReplayOutcome, ReplayRouter};
use units::Nanos;

/// The most packets for which two configurations are compared.
const MOST_COMPARED: u64 = 20_000_000;
/// The number of packets injected between two checks of their fates.
const FATE_CHECK_INTERVAL: u64 = 256;

/// The speed of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speed {
    /// Thousandths of the recorded speed.
    Thousandths(u64),
    /// Without pauses.
    Max,
}

impl Speed {
    /// The recorded speed.
    pub const RECORDED: Speed = Speed::Thousandths(1000);

    /// Returns when a packet is due that was recorded `after` the first one.
    pub fn due(self, after: Nanos) -> Nanos {
        match self {
            Speed::Max => Nanos::ZERO,
            Speed::Thousandths(speed) => {
                let scaled = u128::from(after.get()) * 1000 / u128::from(speed.max(1));
                Nanos::new(u64::try_from(scaled).unwrap_or(u64::MAX / 2))
            }
        }
    }
}

impl std::str::FromStr for Speed {
    type Err = String;

    /// Parses `10x`, `0.5x` or `max`.
    fn from_str(text: &str) -> Result<Speed, String> {
        let number = || text.strip_suffix('x')?.parse::<f64>().ok();
        match text {
            "max" => Ok(Speed::Max),
            _ => match number() {
                Some(speed) if (0.001..=1_000_000.0).contains(&speed) => {
                    Ok(Speed::Thousandths((speed * 1000.0).round() as u64))
                }
                _ => Err("write a speed as 10x or 0.5x, from 0.001x to 1000000x, or max".to_owned()),
            },
        }
    }
}

/// The options of a replay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplayOptions {
    /// The ingress port of the packets; by default the port with the name of each packet's interface.
    pub port: Option<String>,
    /// True to treat packets as addressed to that port, despite their destination MAC addresses.
    pub ours: bool,
    /// The speed.
    pub speed: Speed,
    /// The number of rounds.
    pub times: u64,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        ReplayOptions { port: None, ours: false, speed: Speed::RECORDED, times: 1 }
    }
}

/// A configuration and its name.
#[derive(Clone, Copy, Debug)]
pub struct NamedPlan<'a> {
    /// The name, for the report.
    pub name: &'a str,
    /// The configuration.
    pub plan: &'a Plan,
}

/// Why a capture was not replayed.
#[derive(Debug)]
pub enum ReplayError {
    /// The capture is invalid.
    Capture(OpenError),
    /// A configuration cannot run, or has no such port.
    Router(ApiError),
}

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReplayError::Capture(error) => error.fmt(f),
            ReplayError::Router(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReplayError {}

/// Receives the progress and the packets of a replay.
pub trait ReplayListener {
    /// `done` of `all` packets have been injected.
    fn progress(&mut self, _done: u64, _all: u64) {}
    /// These packets have left the router with the first configuration.
    fn departed(&mut self, _departures: Vec<Departure>) {}
    /// Returns whether it wants the packets that leave.
    fn wants_departures(&self) -> bool {
        false
    }
}

/// Ignores everything.
impl ReplayListener for () {}

/// Replays a capture through one or two configurations.
pub fn replay(
    source: &ReplaySource,
    options: &ReplayOptions,
    (new, old): (NamedPlan<'_>, Option<NamedPlan<'_>>),
    audience: &mut dyn ReplayListener,
) -> Result<ReplayReport, ReplayError> {
    let all = source.packets.saturating_mul(options.times);
    if old.is_some() && all > MOST_COMPARED {
        let reason = format!("{all} packets are more than can be compared, {MOST_COMPARED}");
        return Err(ReplayError::Router(ApiError::new(ErrorKind::BadRequest, reason, "replay a part of them")));
    }
    let start = |named: NamedPlan<'_>, keeps| ReplayRouter::start(named.plan, keeps).map_err(ReplayError::Router);
    let mut run = ReplayRun {
        new: ReplaySide {
            world: start(new, audience.wants_departures())?,
            tally: FateCounters::new(new.name, old.is_some()),
        },
        old: match old {
            Some(old) => Some(ReplaySide { world: start(old, false)?, tally: FateCounters::new(old.name, true) }),
            None => None,
        },
    };
    run.new.has_ports(source, options)?;
    run.old.iter().try_for_each(|side| side.has_ports(source, options))?;
    let (mut done, mut lap) = (0, Nanos::ZERO);
    for number in 0..options.times {
        let mut latest = Nanos::ZERO;
        source
            .for_each_packet(|recorded| {
                // If the times of a capture go back, packets still keep their order.
                latest = latest.max(recorded.after);
                let after = options.speed.due(lap + latest);
                let port = options.port.as_deref().unwrap_or(recorded.interface);
                let packet = source.replay_number(number, recorded.number);
                for side in run.sides() {
                    side.world.inject(after, packet, port, options.ours, &recorded);
                }
                done += 1;
                if done % FATE_CHECK_INTERVAL == 0 {
                    run.collect_fates(source, audience);
                    audience.progress(done, all);
                }
            })
            .map_err(ReplayError::Capture)?;
        lap += source.round_time();
    }
    run.sides().for_each(|side| side.world.finish());
    run.collect_fates(source, audience);
    audience.progress(done, all);
    run.report(source, options, done)
}

/// A router and the fates of its packets.
struct ReplaySide {
    world: ReplayRouter,
    tally: FateCounters,
}

struct ReplayRun {
    new: ReplaySide,
    old: Option<ReplaySide>,
}

impl ReplayRun {
    fn sides(&mut self) -> impl Iterator<Item = &mut ReplaySide> {
        std::iter::once(&mut self.new).chain(&mut self.old)
    }

    /// Records the fates since the previous call.
    fn collect_fates(&mut self, source: &ReplaySource, audience: &mut dyn ReplayListener) {
        for side in self.sides() {
            for (packet, outcome) in side.world.take_outcomes() {
                side.tally.record_outcome(packet, outcome);
            }
            for fate in side.world.take_own_fates() {
                side.tally.record_own_fate(fate);
            }
        }
        let mut left = self.new.world.take_departures();
        if !left.is_empty() {
            left.iter_mut()
                .for_each(|departure| departure.packet = departure.packet.map(|name| source.capture_number(name)));
            audience.departed(left);
        }
    }

    fn report(self, source: &ReplaySource, options: &ReplayOptions, done: u64) -> Result<ReplayReport, ReplayError> {
        let mut report = self.new.tally.report(&self.new.world, source, done);
        report.duration_ns = options.speed.due(source.span).get();
        if let Some(old) = self.old {
            let comparison = Comparison::of(
                source,
                options.times,
                (&old.tally, old.world.names()),
                (&self.new.tally, self.new.world.names()),
            );
            report.against = Some(comparison.map_err(ReplayError::Capture)?);
        }
        Ok(report)
    }
}

impl ReplaySide {
    /// Checks that every packet has an ingress port.
    fn has_ports(&self, source: &ReplaySource, options: &ReplayOptions) -> Result<(), ReplayError> {
        let ports: Vec<&str> = self.world.ports().collect();
        let wanted = options.port.as_ref().map_or(&source.interfaces[..], std::slice::from_ref);
        let Some(missing) = wanted.iter().find(|name| !ports.contains(&name.as_str())) else { return Ok(()) };
        let (config, has) = (self.tally.name(), ports.join(", "));
        let reason = match &options.port {
            Some(_) => format!("{config} has no port {}", plan::quote(missing)),
            None => {
                format!(
                    "the capture has packets of the interface {}, but {config} has no such port",
                    plan::quote(missing)
                )
            }
        };
        let hint = format!("give their input port with --port: {has}");
        Err(ReplayError::Router(ApiError::new(ErrorKind::BadRequest, reason, hint)))
    }
}
