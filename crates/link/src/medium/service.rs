//! The gate of a link: when it accepts a packet, and how long the packet occupies it.

use super::Opportunities;
use super::opportunities::TraceService;
use super::trace::Trace;
use crate::RandomStream;
use plan::{BrownianPlan, LinkService};
use std::sync::Arc;
use units::{Bytes, ExactTime, Instant, Nanos, Pace, PacketRate, Rate};

const SECOND: u64 = 1_000_000_000;
/// The assumed packet size of a link whose rate is in packets, to convert it to bits.
const MTU: u64 = 1500;
/// The most seconds for which a Brownian rate is followed while it is zero. With steps of one packet it is above zero in half of all seconds.
const MOST_SECONDS: u64 = 1_000_000;

/// The gate of a link, by kind of service.
#[derive(Clone, Debug)]
pub(super) enum ServiceModel {
    Constant(ConstantRate),
    Bucket(TokenBucket),
    Recorded(TraceService),
    Poisson(Box<Poisson>),
    Brownian(Box<Brownian>),
}

impl ServiceModel {
    pub fn new(service: &LinkService, trace: Option<Arc<Trace>>, start: Instant, chance: RandomStream) -> ServiceModel {
        match service {
            LinkService::Constant(rate) => {
                ServiceModel::Constant(ConstantRate { rate: *rate, free: ExactTime::new(Instant::START) })
            }
            LinkService::Bucket(rate, burst) => ServiceModel::Bucket(TokenBucket::new(*rate, *burst, start)),
            LinkService::Trace(plan) => {
                let trace = trace.expect("a link with a trace is given it");
                ServiceModel::Recorded(TraceService::new(trace, plan.mode, plan.end, start))
            }
            LinkService::Poisson(pace) => {
                ServiceModel::Poisson(Box::new(Poisson { pace: *pace, free: Instant::START, chance }))
            }
            LinkService::Brownian(plan) => ServiceModel::Brownian(Box::new(Brownian::new(*plan, start, chance))),
        }
    }

    /// See [`super::Medium::ready`].
    #[inline]
    pub fn ready(&mut self, now: Instant) -> Option<Instant> {
        match self {
            ServiceModel::Recorded(recorded) => recorded.ready(now),
            other => Some(other.free()),
        }
    }

    /// When the last packet has left.
    #[inline]
    pub fn free(&self) -> Instant {
        match self {
            ServiceModel::Constant(constant) => constant.free.at(),
            ServiceModel::Bucket(bucket) => bucket.free,
            ServiceModel::Recorded(recorded) => recorded.free(),
            ServiceModel::Poisson(poisson) => poisson.free,
            ServiceModel::Brownian(brownian) => brownian.free,
        }
    }

    /// Accepts no packet before `time`.
    pub fn hold(&mut self, time: Instant) {
        match self {
            ServiceModel::Constant(constant) => constant.free = ExactTime::new(constant.free.at().max(time)),
            ServiceModel::Bucket(bucket) => bucket.free = bucket.free.max(time),
            ServiceModel::Recorded(recorded) => recorded.hold(time),
            ServiceModel::Poisson(poisson) => poisson.free = poisson.free.max(time),
            ServiceModel::Brownian(brownian) => brownian.free = brownian.free.max(time),
        }
    }

    /// Sends a packet of `length` bytes on the link. Returns when it has left.
    #[inline]
    pub fn send(&mut self, now: Instant, length: u64) -> Instant {
        match self {
            ServiceModel::Constant(constant) => constant.send(now, length),
            ServiceModel::Bucket(bucket) => bucket.send(now, length),
            ServiceModel::Recorded(recorded) => recorded.send(now, length),
            ServiceModel::Poisson(poisson) => poisson.send(now, length),
            ServiceModel::Brownian(brownian) => brownian.send(now),
        }
    }

    pub fn rate(&self, now: Instant) -> Rate {
        match self {
            ServiceModel::Constant(constant) => constant.rate,
            ServiceModel::Bucket(bucket) => bucket.rate,
            ServiceModel::Recorded(recorded) => recorded.rate(now),
            ServiceModel::Poisson(poisson) => match poisson.pace {
                Pace::Bits(rate) => rate,
                Pace::Packets(rate) => in_bits(rate),
            },
            ServiceModel::Brownian(brownian) => in_bits(PacketRate::pps(brownian.rate as u64)),
        }
    }

    pub fn opportunities(&self) -> Opportunities {
        match self {
            ServiceModel::Recorded(recorded) => recorded.passed(),
            _ => Opportunities::default(),
        }
    }

    pub fn has_failed(&self) -> bool {
        matches!(self, ServiceModel::Recorded(recorded) if recorded.has_failed())
    }
}

/// The bit rate of packets of 1500 bytes.
fn in_bits(rate: PacketRate) -> Rate {
    Rate::bits(rate.get().saturating_mul(8 * MTU))
}

/// A constant rate.
#[derive(Clone, Debug)]
pub(super) struct ConstantRate {
    rate: Rate,
    /// When the last packet has left, with the fraction of a nanosecond.
    free: ExactTime,
}

impl ConstantRate {
    #[inline]
    fn send(&mut self, now: Instant, length: u64) -> Instant {
        // If the last packet left within this nanosecond, the link was not idle: keep the fraction.
        if self.free.at() < now {
            self.free = ExactTime::new(now);
        }
        if self.rate != Rate::MAX {
            // No overflow: the product fits 64 bits for packets of less than 2^31 bytes.
            self.free.advance_fraction((length * 8 * SECOND, self.rate.get().max(1)));
        }
        self.free.at()
    }
}

/// A token bucket. A packet waits on the link until there are tokens for it. The bytes that leave in any interval are bounded by the rate times its
/// length plus the burst, or one packet if that is larger.
#[derive(Clone, Debug)]
pub(super) struct TokenBucket {
    rate: Rate,
    /// In bits times nanoseconds, like `tokens`.
    depth: u128,
    tokens: u128,
    /// The time at which `tokens` was computed.
    at: Instant,
    free: Instant,
}

impl TokenBucket {
    fn new(rate: Rate, burst: Bytes, start: Instant) -> TokenBucket {
        let depth = u128::from(burst.get()) * 8 * u128::from(SECOND);
        TokenBucket { rate, depth, tokens: depth, at: start, free: Instant::START }
    }

    fn send(&mut self, now: Instant, length: u64) -> Instant {
        let start = now.max(self.free);
        let rate = u128::from(self.rate.get().max(1));
        // In bits times nanoseconds per second, the product of time and rate needs no rounding.
        let earned = |from: Instant, to: Instant| u128::from(to.since(from).get()) * rate;
        let saved = self.tokens + earned(self.at, start);
        // Keep the fraction of the nanosecond in which the bucket became full.
        self.tokens = if saved >= self.depth + rate { self.depth } else { saved };
        self.at = self.at.max(start);
        // Not limited to the depth: a packet longer than the burst waits for all its tokens.
        let needed = u128::from(length) * 8 * u128::from(SECOND);
        let wait = needed.saturating_sub(self.tokens).div_ceil(rate);
        // The wait is rounded up. The tokens of the fraction stay in the bucket.
        let left = start + Nanos::new(u64::try_from(wait).unwrap_or(u64::MAX));
        self.tokens = (self.tokens + earned(self.at, left)).saturating_sub(needed);
        self.at = self.at.max(left);
        self.free = left;
        left
    }
}

/// A link whose packets take exponentially distributed times.
#[derive(Clone, Debug)]
pub(super) struct Poisson {
    pace: Pace,
    free: Instant,
    chance: RandomStream,
}

impl Poisson {
    fn send(&mut self, now: Instant, length: u64) -> Instant {
        let (part, whole) = self.pace.gap(length);
        let mean = part as f64 / whole as f64;
        let span = libm::round(self.chance.exponential() * mean);
        self.free = now.max(self.free) + Nanos::new(span as u64);
        self.free
    }
}

/// A link with random opportunities, whose rate changes every second.
#[derive(Clone, Debug)]
pub(super) struct Brownian {
    plan: BrownianPlan,
    /// Packets a second.
    rate: f64,
    /// The beginning of the next second, when the rate changes.
    turn: Instant,
    free: Instant,
    steps: RandomStream,
    gaps: RandomStream,
}

impl Brownian {
    fn new(plan: BrownianPlan, start: Instant, gaps: RandomStream) -> Brownian {
        let mut steps = gaps.clone();
        // The rate has a stream of its own: it does not depend on the number of packets.
        steps.branch();
        let rate = plan.start.get() as f64;
        Brownian { plan, rate, turn: start + Nanos::new(SECOND), free: Instant::START, steps, gaps }
    }

    fn step(&mut self) {
        let step = self.steps.normal() * self.plan.sigma.get() as f64;
        self.rate = (self.rate + step).clamp(0.0, self.plan.most.get() as f64);
        self.turn += Nanos::new(SECOND);
    }

    /// The next opportunity of a Poisson process whose rate changes every second: each second uses up a part of an exponential draw.
    fn send(&mut self, now: Instant) -> Instant {
        let mut at = now.max(self.free);
        // The rate also changes in seconds without packets, so it does not depend on the load.
        while self.turn <= at {
            self.step();
        }
        let mut left = self.gaps.exponential();
        for _ in 0..MOST_SECONDS {
            let until = self.turn.since(at);
            let comes = self.rate * until.as_secs_f64();
            // The opportunity is within this second. At a rate of zero `comes` is zero, so there is no division by zero.
            if left < comes {
                let span = libm::round(left / self.rate * SECOND as f64) as u64;
                // Rounding must not move it to the next second, which has another rate.
                self.free = at + Nanos::new(span.min(until.get()));
                return self.free;
            }
            left -= comes;
            at = self.turn;
            self.step();
        }
        self.free = Instant::NEVER;
        self.free
    }
}
