//! `replay`: a capture put through a configuration alone, in virtual time, and what became of each packet; or through
//! two of them, and which packets meet another fate.
//!
//! No clock, no device and no other router is involved: the same capture and the same configuration give the same
//! answer, byte for byte.

mod report;
mod source;
mod world;

pub use report::{Changed, Comparison, DropCount, Group, Report};
pub use source::{Recorded, Source};
pub use world::Departure;

use crate::api::{ApiError, ErrorKind};
use io::remarks::OpenError;
use plan::Plan;
use report::Tally;
use units::Nanos;
use world::{Outcome, World};

/// Packets of which two configurations are compared at most.
const MOST_COMPARED: u64 = 20_000_000;
/// Packets that come in between two looks at what became of them.
const TOGETHER: u64 = 256;

/// How fast a capture is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speed {
    /// So many thousandths of the speed it was recorded with.
    Thousandths(u64),
    /// Without a pause.
    Max,
}

impl Speed {
    /// As it was recorded.
    pub const RECORDED: Speed = Speed::Thousandths(1000);

    /// How long after the beginning a packet comes that was recorded `after` it.
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

    /// `10x`, `0.5x` or `max`.
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

/// What to do with a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The port its packets come in by; where none is given, each by the port that has the name of its interface.
    pub port: Option<String>,
    /// Packets are for that port, whatever station they name.
    pub ours: bool,
    /// How fast.
    pub speed: Speed,
    /// How often.
    pub times: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { port: None, ours: false, speed: Speed::RECORDED, times: 1 }
    }
}

/// A configuration and what it is called.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// The name, for the report.
    pub name: &'a str,
    /// What it says.
    pub plan: &'a Plan,
}

/// Why a capture was not replayed.
#[derive(Debug)]
pub enum ReplayError {
    /// There is something wrong with the capture.
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

/// Who is told while a capture is replayed.
pub trait Audience {
    /// So many of all packets have come in.
    fn progress(&mut self, _done: u64, _all: u64) {}
    /// These have left the router that has the first configuration.
    fn left(&mut self, _departures: Vec<Departure>) {}
    /// Whether it wants to be told what leaves.
    fn wants_departures(&self) -> bool {
        false
    }
}

/// Nobody is told.
impl Audience for () {}

/// Replays a capture through one configuration, or through another as well.
pub fn replay(
    source: &Source,
    options: &Options,
    (new, old): (Named<'_>, Option<Named<'_>>),
    audience: &mut dyn Audience,
) -> Result<Report, ReplayError> {
    let all = source.packets.saturating_mul(options.times);
    if old.is_some() && all > MOST_COMPARED {
        let reason = format!("{all} packets are more than are compared, {MOST_COMPARED}");
        return Err(ReplayError::Router(ApiError::new(ErrorKind::BadRequest, reason, "replay a part of them")));
    }
    let start = |named: Named<'_>, keeps| World::start(named.plan, keeps).map_err(ReplayError::Router);
    let mut run = Run {
        new: Side { world: start(new, audience.wants_departures())?, tally: Tally::new(new.name, old.is_some()) },
        old: match old {
            Some(old) => Some(Side { world: start(old, false)?, tally: Tally::new(old.name, true) }),
            None => None,
        },
    };
    run.new.has_ports(source, options)?;
    run.old.iter().try_for_each(|side| side.has_ports(source, options))?;
    let (mut done, mut lap) = (0, Nanos::ZERO);
    for number in 0..options.times {
        let mut latest = Nanos::ZERO;
        source
            .each(|recorded| {
                // Where a capture's times go back, no packet overtakes another.
                latest = latest.max(recorded.after);
                let after = options.speed.due(lap + latest);
                let port = options.port.as_deref().unwrap_or(recorded.interface);
                let packet = source.packet(number, recorded.number);
                for side in run.sides() {
                    side.world.arrive(after, packet, port, options.ours, &recorded);
                }
                done += 1;
                if done % TOGETHER == 0 {
                    run.look(source, audience);
                    audience.progress(done, all);
                }
            })
            .map_err(ReplayError::Capture)?;
        lap += source.round();
    }
    run.sides().for_each(|side| side.world.finish());
    run.look(source, audience);
    audience.progress(done, all);
    run.report(source, options, done)
}

/// A router and what became of packets in it.
struct Side {
    world: World,
    tally: Tally,
}

struct Run {
    new: Side,
    old: Option<Side>,
}

impl Run {
    fn sides(&mut self) -> impl Iterator<Item = &mut Side> {
        std::iter::once(&mut self.new).chain(&mut self.old)
    }

    /// Takes note of what has happened.
    fn look(&mut self, source: &Source, audience: &mut dyn Audience) {
        for side in self.sides() {
            for (packet, outcome) in side.world.met() {
                side.tally.met(packet, outcome);
            }
            for fate in side.world.made() {
                side.tally.made(fate);
            }
        }
        let mut left = self.new.world.left();
        if !left.is_empty() {
            left.iter_mut().for_each(|departure| departure.packet = departure.packet.map(|name| source.number(name)));
            audience.left(left);
        }
    }

    fn report(self, source: &Source, options: &Options, done: u64) -> Result<Report, ReplayError> {
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

impl Side {
    /// Whether every packet has a port to come in by.
    fn has_ports(&self, source: &Source, options: &Options) -> Result<(), ReplayError> {
        let ports: Vec<&str> = self.world.ports().collect();
        let wanted = options.port.as_ref().map_or(&source.interfaces[..], std::slice::from_ref);
        let Some(missing) = wanted.iter().find(|name| !ports.contains(&name.as_str())) else { return Ok(()) };
        let (config, has) = (self.tally.name(), ports.join(", "));
        let reason = match &options.port {
            Some(_) => format!("{config} has no port {}", plan::quote(missing)),
            None => {
                format!("the capture has packets of the interface {}, and {config} no such port", plan::quote(missing))
            }
        };
        let hint = format!("say by which port they come in with --port: {has}");
        Err(ReplayError::Router(ApiError::new(ErrorKind::BadRequest, reason, hint)))
    }
}
