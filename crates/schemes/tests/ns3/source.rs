//! Packets of four flows: Poisson, or in bursts at three times the link rate.

use crate::link::slot;
use schemes::Record;
use std::fmt::Write;
use units::{Instant, Nanos};

/// Packets in order of arrival.
pub struct Source(Vec<Record>);

const PACKETS: usize = 30_000;
pub const LENGTH: u32 = 1500;
const FLOWS: u64 = 4;
/// The mean length of a burst, in seconds.
const BURST: f64 = 0.2;

/// A seeded generator. Source: Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003.
pub struct Chance(u64);

impl Chance {
    pub fn of(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    /// Above zero, and at most one.
    pub fn uniform(&mut self) -> f64 {
        (self.draw() + 1) as f64 / (1u64 << 53) as f64
    }

    /// Exponentially distributed, with this mean in seconds.
    fn exponential(&mut self, mean: f64) -> Nanos {
        Nanos::new((-self.uniform().ln() * mean * 1e9) as u64)
    }
}

impl Source {
    /// Poisson arrivals at `load` times the link rate.
    pub fn poisson(seed: u64, load: f64) -> Source {
        let mut chance = Chance::of(seed);
        Source::with(|_| chance.exponential(slot().as_secs_f64() / load), seed)
    }

    /// Bursts at three times the link rate, with a mean of `load` times the link rate.
    pub fn bursts(seed: u64, load: f64) -> Source {
        let (mut chance, mut end) = (Chance::of(seed), Instant::START);
        let pause = |now: Instant| {
            let mut pause = chance.exponential(slot().as_secs_f64() / 3.0);
            if now + pause > end {
                pause += chance.exponential(BURST * (3.0 / load - 1.0));
                end = now + pause + chance.exponential(BURST);
            }
            pause
        };
        Source::with(pause, seed)
    }

    /// Arrivals with these pauses before each.
    fn with(mut pause: impl FnMut(Instant) -> Nanos, seed: u64) -> Source {
        let (mut now, mut flows) = (Instant::START, Chance::of(seed + 100));
        let packet = |_| {
            now += pause(now);
            let flow = 1 + (flows.draw() % FLOWS) as u32;
            // Each flow has a quarter of the hash space.
            Record { length: LENGTH, timestamp: now, flow_hash: (flow - 1) << 30, ..Record::default() }
        };
        Source((0..PACKETS).map(packet).collect())
    }

    /// All packets; the timestamp is the arrival time.
    pub fn packets(&self) -> &[Record] {
        &self.0
    }

    /// In the format of docs/internals/conformance.md.
    pub fn text(&self) -> String {
        let (mut text, mut last) = ("switchpath arrivals 1\n".to_string(), Instant::START);
        for packet in &self.0 {
            let (pause, flow) = (packet.timestamp.since(last).get(), 1 + (packet.flow_hash >> 30));
            writeln!(text, "{pause} a {} {flow}", packet.length).expect("it is a string");
            last = packet.timestamp;
        }
        text
    }
}
