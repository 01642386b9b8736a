//! RED as in hardware: an average with 32 fractional bits in a multiply-accumulate unit, and a shift [register](crate::register) for randomness.
//! Source: Floyd and Jacobson, IEEE/ACM Transactions on Networking 1(4), 1993, figure 2; `gentle` as described in `docs/reference/schemes.md`.

use crate::ReferenceScheme;
use crate::register::Register;
use schemes::Record;
use schemes::model::ModelFate;
use std::collections::VecDeque;
use units::Instant;

/// One, with 32 fractional bits.
const ONE: u128 = 1 << 32;
/// The time of the model's link for 500 bytes at 10 Mbit/s, in nanoseconds.
const PACKET: u64 = 400_000;

/// Truncated to 32 fractional bits.
fn product(a: u128, b: u128) -> u128 {
    (a * b) >> 32
}

pub struct Red {
    least: u128,
    most: u128,
    /// The probability just below `most`: 10 %.
    probability: u128,
    weight: u128,
    /// True if the probability rises on beyond `most`, instead of being one at once.
    gentle: bool,
    limit: usize,
    average: u128,
    /// Packets since the last drop; -1 while the average is low.
    count: i64,
    /// When packets last waited, the time up to which idle time was counted, and its remainder below one packet time.
    busy: Instant,
    counted: Instant,
    rest: u64,
    waiting: VecDeque<usize>,
    register: Register,
}

impl Red {
    /// `weight` is in millionths.
    pub fn new(least: u128, most: u128, weight: u128, limit: usize, seed: u32) -> Red {
        Red {
            least,
            most,
            probability: ONE / 10,
            weight: ONE * weight / 1_000_000,
            gentle: true,
            limit,
            average: 0,
            count: -1,
            busy: Instant::START,
            counted: Instant::START,
            rest: 0,
            waiting: VecDeque::new(),
            register: Register::new(seed),
        }
    }

    /// As in the paper: all packets are dropped from `most` on.
    pub fn sharp(self) -> Red {
        Red { gentle: false, ..self }
    }

    pub fn is_above_least(&self) -> bool {
        self.average >> 16 >= self.least << 16
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Figure 2: "calculate the new average queue size".
    pub fn average(&mut self, waiting: usize, now: Instant) {
        if waiting > 0 {
            // avg + w (q - avg) as one sum, truncated downwards in both directions.
            let new = (waiting as u128 * self.weight) << 32;
            self.average = (self.average * (ONE - self.weight) + new) >> 32;
            self.busy = now;
        } else if self.average > 0 {
            self.rest += now.since(self.counted.max(self.busy)).get();
            let mut packets = self.rest / PACKET;
            self.rest %= PACKET;
            let (mut factor, mut square) = (ONE, ONE - self.weight);
            while packets > 0 {
                factor = if packets % 2 == 1 { product(factor, square) } else { factor };
                square = product(square, square);
                packets /= 2;
            }
            self.average = product(self.average, factor);
            // A second without packets resets the average, as in docs/reference/schemes.md.
            if now.since(self.busy).get() >= 1_000_000_000 {
                self.average = 0;
            }
        }
        self.counted = now;
    }

    /// Figure 2: decides whether the arriving packet is marked, which here means dropped.
    pub fn hits(&mut self) -> bool {
        let (least, most) = (self.least * ONE, self.most * ONE);
        if self.average < least {
            self.count = -1;
            return false;
        }
        let base = if self.average < most {
            product(self.probability, (self.average - least) / (self.most - self.least))
        } else if self.gentle && self.average < 2 * most {
            self.probability + product(ONE - self.probability, (self.average - most) / self.most)
        } else {
            ONE
        };
        if base >= ONE {
            self.count = 0;
            return true;
        }
        self.count += 1;
        let spent = self.count as u128 * base;
        let hit = spent >= ONE || {
            let left = ONE - spent;
            let odds = if base < left { (base << 32) / left } else { ONE };
            self.register.happens(odds as u64)
        };
        if hit {
            self.count = 0;
        }
        hit
    }

    /// A packet was enqueued or left.
    pub fn busy(&mut self, now: Instant) {
        self.busy = now;
    }
}

impl ReferenceScheme for Red {
    fn arrive(&mut self, number: usize, packet: &Record, fates: &mut Vec<ModelFate>) {
        self.average(self.waiting.len(), packet.timestamp);
        if self.waiting.len() >= self.limit || self.hits() {
            fates.push(ModelFate::Refused(number));
        } else {
            self.waiting.push_back(number);
            self.busy(packet.timestamp);
        }
    }

    fn dequeue(&mut self, now: Instant, fates: &mut Vec<ModelFate>) {
        if let Some(number) = self.waiting.pop_front() {
            fates.push(ModelFate::Sent(number));
            self.busy(now);
        }
    }
}
