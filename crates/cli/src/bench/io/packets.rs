//! Small packets: how many a second, and whether any is lost or overtaken where there are fewer than that.

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
/// How long a measurement runs, and how long before it begins.
const SPAN: Nanos = Nanos::millis(200);
const WARMUP: Nanos = Nanos::millis(30);
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

    /// Packets a second that arrive when far more are sent.
    pub fn rate(&self) -> Result<f64> {
        self.lane.station(Side::Left).run(|| -> Result<f64> {
            Processors::here()?.keep_to_first()?;
            let flood = |span| -> Result<()> {
                let end = clock::now() + span;
                while clock::now() < end {
                    self.source.send(CALL)?;
                }
                Ok(())
            };
            flood(WARMUP)?;
            let (begun, before) = (clock::now(), self.sink.counted()?.packets);
            flood(SPAN)?;
            let (ended, after) = (clock::now(), self.sink.counted()?.packets);
            anyhow::ensure!(after > before, "no packet comes through");
            Ok((after - before) as f64 * 1e9 / ended.since(begun).get() as f64)
        })?
    }

    /// Sends `rate` packets a second for a span.
    pub fn gently(&self, rate: f64, span: Nanos) -> Result<Fared> {
        self.settle()?;
        let (sent, arrived) = (self.source.sent()?, self.sink.counted()?);
        self.lane.station(Side::Left).run(|| -> Result<()> {
            Processors::here()?.keep_to_first()?;
            let mut sleeper = Sleeper::new(Waker::new()?);
            let begun = clock::now();
            let gap = Nanos::new((1e9 * f64::from(GENTLE) / rate) as u64);
            let mut due = begun;
            while due < begun + span {
                self.source.send(GENTLE)?;
                // What comes too late is not made up for: that would be more than was asked for.
                due = (due + gap).max(clock::now());
                sleeper.sleep([], due.since(clock::now()))?;
            }
            Ok(())
        })??;
        let counted = self.settle()?;
        let sent = self.source.sent()? - sent;
        Ok(Fared { sent, lost: sent - (counted.packets - arrived.packets), late: counted.late - arrived.late })
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
