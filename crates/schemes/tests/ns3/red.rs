//! RED in floating point by Floyd and Jacobson (IEEE/ACM Transactions on Networking 1(4), 1993, figure 2), and with each departure of ns-3 from that.

use crate::link::{RATE, slot};
use crate::source::{Chance, Source};
use std::collections::VecDeque;
use units::{Bytes, Instant};

/// The departures.
#[derive(Clone, Copy, Default)]
pub struct Departures {
    /// With at most one packet waiting no packet is dropped at any average; nor is the first packet that finds more.
    pub spares_short_queues: bool,
    /// After a drop 1/p packets pass, and the next drop is one of as many packets behind them.
    pub waits: bool,
}

const WEIGHT: f64 = 0.002;
const MOST_LIKELY: f64 = 0.1;
const LEAST: f64 = 5.0;
const MOST: f64 = 15.0;
const LIMIT: usize = 1000;

struct Red {
    departures: Departures,
    average: f64,
    count: f64,
    idle: Option<Instant>,
    above: bool,
    chance: Chance,
}

impl Red {
    fn average(&mut self, waiting: usize, now: Instant) {
        if waiting > 0 {
            self.average += WEIGHT * (waiting as f64 - self.average);
        } else if let Some(idle) = self.idle {
            let packet = RATE.time_for(Bytes::new(500)).as_secs_f64();
            self.average *= (1.0 - WEIGHT).powf((now.since(idle).as_secs_f64() / packet).floor());
        }
        self.idle = None;
    }

    fn drops(&mut self, waiting: usize) -> bool {
        self.count += 1.0;
        let spared = self.departures.spares_short_queues && waiting <= 1;
        if self.average < LEAST || spared {
            (self.count, self.above) = (-1.0, false);
            return false;
        }
        if self.average >= 2.0 * MOST {
            self.count = 0.0;
            return true;
        }
        if !std::mem::replace(&mut self.above, true) && self.departures.spares_short_queues {
            self.count = 1.0;
            return false;
        }
        let p = match self.average {
            average if average < MOST => MOST_LIKELY * (average - LEAST) / (MOST - LEAST),
            average => MOST_LIKELY + (1.0 - MOST_LIKELY) * (average - MOST) / MOST,
        };
        let drop = self.chance.uniform() < self.likely(p);
        if drop {
            self.count = 0.0;
        }
        drop
    }

    /// p_a from p_b, which makes gaps uniform.
    fn likely(&self, p: f64) -> f64 {
        let passed = self.count * p;
        let end = if self.departures.waits { 2.0 } else { 1.0 };
        match passed {
            passed if passed >= end => 1.0,
            passed if self.departures.waits && passed < 1.0 => 0.0,
            passed => p / (end - passed),
        }
    }
}

/// The part of the packets that is dropped before a link.
pub fn lost(source: &Source, departures: Departures) -> f64 {
    let (mut waiting, mut busy, mut lost) = (VecDeque::new(), Instant::START, 0);
    let (average, count, idle, above, chance) = (0.0, -1.0, None, false, Chance::of(77));
    let mut red = Red { departures, average, count, idle, above, chance };
    for packet in source.packets() {
        let now = packet.timestamp;
        while busy <= now && waiting.pop_front().is_some() {
            if waiting.is_empty() {
                red.idle = Some(busy);
            }
            busy += slot();
        }
        red.average(waiting.len(), now);
        if waiting.len() >= LIMIT || red.drops(waiting.len()) {
            lost += 1;
        } else {
            waiting.push_back(());
        }
        // An idle link accepts the packet at once.
        if busy <= now {
            if waiting.pop_front().is_some() {
                busy = now + slot();
            }
            if waiting.is_empty() {
                red.idle = Some(now);
            }
        }
    }
    f64::from(lost) / source.packets().len() as f64
}
