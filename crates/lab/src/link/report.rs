//! The statistics of a link, printed at the end.

use super::capacity::{Capacity, link_of};
use super::configuration::LinkDirection;
use super::stats::{DelayHistogram, LinkStats, Point, WIDTH};
use anyhow::Result;
use cli::output::{Rows, brief, print_json, rate};
use control::FinalReport;
use packet::DropReason;
use plan::{LinkPlan, LinkService, Plan};
use serde_json::{Value, json};
use sim::experiment::Curve;
use std::io::{Write, stderr, stdout};
use std::sync::{Mutex, PoisonError};
use units::{Instant, Nanos, Rate};

/// Width of the terminal charts in columns.
const COLUMNS: usize = 60;
/// Their block characters.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// If one packet in a hundred is at least this late, the machine was busy.
const LATE: Nanos = Nanos::micros(300);
/// The reported percentiles, in thousandths.
const PARTS: [(&str, u64); 3] = [("p50", 500), ("p95", 950), ("p99", 990)];
/// Drops because the router lacked a resource, not because of the link.
const RESOURCE_DROPS: [DropReason; 5] = [
    DropReason::PoolEmpty,
    DropReason::PathQueue,
    DropReason::BufferFull,
    DropReason::NoSuperFrame,
    DropReason::DeviceRefused,
];

/// One direction.
pub struct DirectionReport {
    /// Its direction.
    pub side: LinkDirection,
    /// The description of its link.
    pub link: Option<LinkPlan>,
    /// The capacity of its trace, if it has one.
    pub capacity: Option<Capacity>,
    tally: LinkStats,
    /// Packets lost outside of the router, before it received them and after it sent them.
    lost_outside: u64,
    ended: Instant,
}

/// The report.
pub struct EmulationReport {
    /// Down, and up.
    pub directions: [DirectionReport; 2],
    /// How long the command ran.
    pub duration: Nanos,
    /// Lines lost from the logs.
    pub lost: u64,
    /// All drops of the router, by reason.
    drops: Vec<(String, u64)>,
    balanced: bool,
}

impl DirectionReport {
    /// The duration of the traffic on the link.
    fn duration(&self) -> Nanos {
        self.tally.began.map_or(Nanos::ZERO, |began| self.ended.since(began))
    }

    fn throughput(&self) -> f64 {
        self.tally.throughput()
    }

    /// The capacity in bits a second; `None` if it is unlimited.
    fn limit(&self) -> Option<f64> {
        let service = &self.link.as_ref()?.medium.service;
        match (service, &self.capacity) {
            (LinkService::Constant(Rate::MAX), _) => None,
            (LinkService::Constant(rate) | LinkService::Bucket(rate, _), _) => Some(rate.get() as f64),
            (_, Some(capacity)) => {
                let span = self.duration();
                Some(capacity.bytes(span) as f64 * 8.0 / span.as_secs_f64().max(1e-9))
            }
            _ => None,
        }
    }

    /// The 99th percentile of how much later packets arrived than the link's description says.
    pub fn late(&self) -> Nanos {
        self.tally.late.per_mille(990)
    }

    /// The distortions by this machine, one sentence each. Empty if there were none.
    pub fn distortions(&self) -> Vec<String> {
        let (late, (missed, time)) = (self.late(), self.tally.idle_backlogged);
        let mut said = Vec::new();
        if late > LATE {
            said.push(format!("one packet in a hundred arrived more than {} late", brief(late.get())));
        }
        if missed > 0 {
            let part = time as f64 / 1e7 / self.duration().as_secs_f64().max(1e-9);
            said.push(format!("the link was idle {missed} times with a backlog, {part:.2} % of the time"));
        }
        if self.lost_outside > 0 {
            said.push(format!(
                "{} packets were lost before the router could receive or transmit them",
                self.lost_outside
            ));
        }
        let full = self.dropped(DropReason::BufferFull.name());
        if full > 0 {
            said.push(format!("{full} packets exceeded the memory of the link: raise --packets"));
        }
        if self.capacity.as_ref().is_some_and(|capacity| capacity.is_missed(self.duration())) {
            said.push("its trace ended before the end of the run".into());
        }
        said
    }

    fn json(&self) -> Value {
        let times = |times: &DelayHistogram| {
            let milli = |part| times.per_mille(part).as_secs_f64() * 1e3;
            json!({ "p50_ms": milli(500), "p95_ms": milli(950), "p99_ms": milli(990), "max_ms": times.most as f64 / 1e6 })
        };
        let tally = &self.tally;
        let drops = tally
            .drops
            .iter()
            .map(|(why, (packets, bytes))| json!({ "reason": why, "packets": packets, "bytes": bytes }));
        json!({
            "direction": self.side.name(),
            "link": self.link.as_ref().map(|link| link.medium.to_string()),
            "throughput_bps": self.throughput(),
            "limit_bps": self.limit(),
            "packets": { "came": tally.offered.0, "left": tally.sent.0, "arrived": tally.delivered },
            "bytes": { "came": tally.offered.1, "left": tally.sent.1 },
            "queue_delay": times(&tally.queue),
            "delay": times(&tally.whole),
            "drops": drops.collect::<Vec<Value>>(),
            "machine": {
                "late_p50_us": tally.late.per_mille(500).get() as f64 / 1e3,
                "late_p99_us": tally.late.per_mille(990).get() as f64 / 1e3,
                "late_max_us": tally.late.most as f64 / 1e3,
                "missed": tally.idle_backlogged.0,
                "missed_ms": tally.idle_backlogged.1 as f64 / 1e6,
                "lost_packets": self.lost_outside,
                "bottleneck": !self.distortions().is_empty(),
            },
        })
    }

    fn curve(&self, of: impl Fn(&Point) -> f64) -> Curve {
        let seconds = |place: usize| (place as f64 + 0.5) * WIDTH.as_secs_f64();
        let points = self.tally.series.iter().enumerate().map(|(place, point)| (seconds(place), of(point)));
        Curve { label: self.side.name().into(), points: points.collect() }
    }

    /// Throughput in Mbit/s, for each interval.
    pub fn throughputs(&self) -> Curve {
        self.curve(|point| point.bytes as f64 * 8.0 / WIDTH.as_secs_f64() / 1e6)
    }

    /// The trace's capacity in Mbit/s, for each interval; `None` without a trace.
    pub fn limits(&self) -> Option<Curve> {
        let capacity = self.capacity.as_ref()?;
        let width = WIDTH.get() / 1_000_000;
        let mut curve = self.curve(|_| 0.0);
        let each = f64::from(capacity.size) * 8.0 / WIDTH.as_secs_f64() / 1e6;
        let places = capacity.clone().millis().map(|at| (at / width) as usize);
        places.take_while(|place| *place < self.tally.series.len()).for_each(|place| curve.points[place].1 += each);
        Some(Curve { label: format!("{}, the trace", self.side.name()), ..curve })
    }

    /// Average queueing delay in milliseconds, for each interval.
    pub fn delays(&self) -> Curve {
        self.curve(|point| point.delay as f64 / point.packets.max(1) as f64 / 1e6)
    }

    /// Cumulative distribution of the one-way delay in milliseconds.
    pub fn distribution(&self) -> Curve {
        Curve { label: self.side.name().into(), points: self.tally.whole.distribution() }
    }

    fn dropped(&self, reason: &str) -> u64 {
        self.tally.drops.get(reason).map_or(0, |drops| drops.0)
    }
}

/// A curve as a row of blocks, and its maximum.
fn blocks(curve: &Curve) -> (String, f64) {
    let most = curve.points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
    let each = curve.points.len().div_ceil(COLUMNS).max(1);
    let block = |points: &[(f64, f64)]| {
        let mean = points.iter().map(|(_, y)| *y).sum::<f64>() / points.len().max(1) as f64;
        BLOCKS[((mean / most.max(f64::MIN_POSITIVE) * 8.0) as usize).min(7)]
    };
    (curve.points.chunks(each).map(block).collect(), most)
}

impl EmulationReport {
    /// The report of the counters from `start` to `end`; the tallies are those of [`LinkDirection::BOTH`].
    pub fn new(
        plan: &Plan,
        tallies: [&Mutex<LinkStats>; 2],
        (start, end): (Instant, Instant),
        closing: &FinalReport,
    ) -> EmulationReport {
        let port = |side: LinkDirection| closing.ports.ports.iter().find(move |port| port.name == side.port());
        let direction = |(side, tally): (LinkDirection, &Mutex<LinkStats>)| DirectionReport {
            side,
            link: link_of(plan, side).cloned(),
            capacity: Capacity::of(plan, side),
            tally: tally.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            // Packets to the command arrive at the port of the far side.
            lost_outside: port(side.other()).map_or(0, |port| port.counters.lost_before_receive)
                + port(side).map_or(0, |port| port.counters.lost_after_transmit),
            ended: end,
        };
        let [down, up] = tallies;
        EmulationReport {
            directions: [(LinkDirection::Down, down), (LinkDirection::Up, up)].map(direction),
            duration: end.since(start),
            lost: 0,
            drops: closing.drops.drops.iter().map(|drop| (drop.reason.clone(), drop.packets)).collect(),
            balanced: closing.ledgers.balanced,
        }
    }

    /// Events in the router that belong to no description of a link, of both directions.
    fn other_events(&self) -> Vec<String> {
        let wanting = self.drops.iter().filter(|(reason, _)| {
            let at_links = self.directions.iter().any(|direction| direction.dropped(reason) > 0);
            !at_links && RESOURCE_DROPS.iter().any(|want| want.name() == reason)
        });
        wanting.map(|(reason, packets)| format!("{packets} packets were dropped by the router: {reason}")).collect()
    }

    /// The reasons why this machine, and not the links alone, limited the measurement.
    pub fn bottleneck(&self) -> Vec<String> {
        let of = |direction: &DirectionReport| {
            let name = direction.side.name();
            direction.distortions().into_iter().map(move |said| format!("{name}: {said}"))
        };
        self.directions.iter().flat_map(of).chain(self.other_events()).collect()
    }

    /// The whole report as JSON.
    pub fn full_json(&self) -> Value {
        let drops = self.drops.iter().map(|(reason, packets)| json!({ "reason": reason, "packets": packets }));
        json!({
            "seconds": self.duration.as_secs_f64(),
            "directions": self.directions.iter().map(DirectionReport::json).collect::<Vec<Value>>(),
            "dropped_by_the_router": drops.collect::<Vec<Value>>(),
            "bottleneck": self.bottleneck(),
            "log_lines_lost": self.lost,
            "balanced": self.balanced,
        })
    }

    /// The rows of the table: a name, and a cell for each direction.
    pub fn rows(&self) -> Vec<[String; 3]> {
        let [down, up] = &self.directions;
        let mut rows = Vec::new();
        let mut add =
            |name: &str, of: &dyn Fn(&DirectionReport) -> String| rows.push([name.to_owned(), of(down), of(up)]);
        add("link", &|direction| {
            let medium = direction.link.as_ref().map(|link| &link.medium);
            medium.map_or(String::new(), |medium| format!("{}, {} away", medium.service, medium.delay))
        });
        add("throughput", &|direction| rate(direction.throughput()));
        if self.directions.iter().any(|direction| direction.limit().is_some()) {
            add("part of the capacity", &|direction| {
                let part = direction.limit().map(|limit| direction.throughput() / limit * 100.0);
                part.map_or("-".into(), |part| format!("{part:.1} %"))
            });
        }
        add("packets", &|direction| direction.tally.sent.0.to_string());
        for (name, part) in PARTS {
            add(&format!("in the queue, {name}"), &|direction| brief(direction.tally.queue.per_mille(part).get()));
        }
        for (name, part) in PARTS {
            add(&format!("to the far end, {name}"), &|direction| brief(direction.tally.whole.per_mille(part).get()));
        }
        let mut reasons: Vec<&str> =
            self.directions.iter().flat_map(|direction| direction.tally.drops.keys().copied()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        for reason in reasons {
            add(&format!("dropped, {reason}"), &|direction| direction.dropped(reason).to_string());
        }
        add("lateness, p99", &|direction| brief(direction.late().get()));
        rows
    }

    /// Prints the report.
    ///
    /// # Errors
    ///
    /// It cannot be printed.
    pub fn print(&self, json: bool) -> Result<()> {
        if json {
            return print_json(&mut stdout(), &self.full_json());
        }
        // Standard output belongs to the command.
        let mut out = stderr();
        let mut rows = Rows::new(&["", ">DOWN", ">UP"]);
        self.rows().into_iter().for_each(|row| rows.add(row));
        rows.print(&mut out)?;
        for direction in &self.directions {
            for (what, curve, unit) in
                [("throughput", direction.throughputs(), "mbit"), ("queue", direction.delays(), "ms")]
            {
                let (row, most) = blocks(&curve);
                writeln!(out, "{:<4} {what:<10} {row} up to {most:.1} {unit}", direction.side.name())?;
            }
        }
        let told = self.bottleneck();
        if !told.is_empty() {
            writeln!(out, "This machine was a bottleneck, in addition to the links:")?;
            told.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
        }
        if self.lost > 0 {
            writeln!(out, "{} lines of the logs are missing: the disk was too slow", self.lost)?;
        }
        if !self.balanced {
            writeln!(out, "THE LEDGER DOES NOT BALANCE")?;
        }
        Ok(())
    }
}
