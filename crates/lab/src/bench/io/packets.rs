//! Small packets: how many of those offered come out, and whether any is lost or overtaken where they are few.

use super::lane::{Kind, Lane, Side, Wire, poll_in_driver};
use super::processors::Processors;
use anyhow::{Context, Result};
use io::bpf::Hook;
use io::clock;
use io::netns::Lab;
use io::traffic::{Counted, Passage, Sink, Source};
use io::wait::{Sleeper, Waker};
use units::Nanos;

/// Packets made by one call.
const CALL: u32 = 4096;
/// Packets sent at once where there is room for more.
const GENTLE: u32 = 128;
/// How long the last packets may take.
const SETTLE: Nanos = Nanos::millis(200);

/// A lane with a source at its left and a sink at its right.
pub struct Packets {
    /// The lane.
    pub lane: Lane,
    source: Source,
    sink: Sink,
    _passage: Option<Passage>,
}

/// What came of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fared {
    /// Packets sent.
    pub sent: u64,
    /// Those that did not arrive.
    pub lost: u64,
    /// Those that arrived after one sent later.
    pub late: u64,
}

/// How many packets are sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Load {
    /// So many a second, or as many of them as can be made.
    Rate(f64),
    /// As many as can be made.
    Flood,
}

/// Packets a second while a load was offered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Passed {
    /// Those that were sent: what was asked for at most (RFC 2285, 3.5.2: the offered load, not the intended).
    pub offered: f64,
    /// Those that arrived.
    pub out: f64,
}

impl Packets {
    /// A lane of that kind.
    pub fn new(lab: &Lab, kind: Kind) -> Result<Packets> {
        let lane = Lane::new(lab, kind, Wire::Plain)?;
        let (from, to) = (lane.station(Side::Left), lane.station(Side::Right));
        let index = Lane::index(from, Side::Left)?;
        let source = from.run(|| Source::new(&Lane::journey(), index))?.context("a source of packets")?;
        let index = Lane::index(to, Side::Right)?;
        let sink = to.run(|| Sink::attach(index, Hook::TcxIngress))?.context("a sink of packets")?;
        let mut passage = None;
        match kind {
            Kind::Kernel => poll_in_driver(&lane)?,
            Kind::Packet => {
                let index = Lane::index(lane.router(), Side::Left)?;
                passage = Some(lane.router().run(|| Passage::attach(index))??);
            }
            Kind::Xdp | Kind::Tap => {}
        }
        Ok(Packets { lane, source, sink, _passage: passage })
    }

    /// Offers packets; those of the time after `warmup` are counted.
    pub fn offer(&self, load: Load, warmup: Nanos, span: Nanos) -> Result<Passed> {
        self.lane.station(Side::Left).run(|| -> Result<Passed> {
            Processors::here()?.keep_to_first()?;
            self.send(load, warmup)?;
            let (begun, sent, arrived) = (clock::now(), self.source.sent()?, self.sink.counted()?.packets);
            self.send(load, span)?;
            let (ended, sent) = (clock::now(), self.source.sent()? - sent);
            let arrived = self.sink.counted()?.packets - arrived;
            anyhow::ensure!(arrived > 0, "no packet comes through");
            let rate = |packets: u64| packets as f64 * 1e9 / ended.since(begun).get() as f64;
            Ok(Passed { offered: rate(sent), out: rate(arrived) })
        })?
    }

    /// Sends `rate` packets a second for a span.
    pub fn gently(&self, rate: f64, span: Nanos) -> Result<Fared> {
        self.settle()?;
        let (sent, arrived) = (self.source.sent()?, self.sink.counted()?);
        self.lane.station(Side::Left).run(|| -> Result<()> {
            Processors::here()?.keep_to_first()?;
            self.send(Load::Rate(rate), span)
        })??;
        let counted = self.settle()?;
        let sent = self.source.sent()? - sent;
        Ok(Fared { sent, lost: sent - (counted.packets - arrived.packets), late: counted.late - arrived.late })
    }

    /// Sends for a span, from a thread in the station's namespace.
    fn send(&self, load: Load, span: Nanos) -> Result<()> {
        let begun = clock::now();
        let Load::Rate(rate) = load else {
            while clock::now() < begun + span {
                self.source.send(CALL)?;
            }
            return Ok(());
        };
        let mut sleeper = Sleeper::new(Waker::new()?);
        let gap = Nanos::new((1e9 * f64::from(GENTLE) / rate) as u64);
        let mut due = begun;
        while due < begun + span {
            self.source.send(GENTLE)?;
            // What comes too late is not made up for: that would be more than was asked for.
            due = (due + gap).max(clock::now());
            sleeper.sleep([], due.since(clock::now()))?;
        }
        Ok(())
    }

    /// Waits until nothing arrives any more.
    fn settle(&self) -> Result<Counted> {
        let mut sleeper = Sleeper::new(Waker::new()?);
        let mut before = self.sink.counted()?;
        loop {
            sleeper.sleep([], SETTLE)?;
            let now = self.sink.counted()?;
            if now == before {
                return Ok(now);
            }
            before = now;
        }
    }
}
