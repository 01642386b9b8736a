//! A link with a recorded trace: an unused opportunity is lost (spec N-31).

use super::Opportunities;
use super::trace::Trace;
use plan::{TraceEnd, TraceMode};
use std::sync::Arc;
use units::{Instant, Nanos, Rate};

/// The window over which the rate is computed.
const WINDOW: Nanos = Nanos::millis(100);
/// The assumed size of an opportunity that carries a packet of any size.
const PACKET: u64 = 1500;

/// A link with a trace. Opportunities are numbered over all repetitions.
#[derive(Clone, Debug)]
pub(super) struct TraceService {
    trace: Arc<Trace>,
    mode: TraceMode,
    end: TraceEnd,
    /// The trace's time zero.
    start: Instant,
    /// The first opportunity that is neither used nor wasted.
    next: u64,
    passed: Opportunities,
    /// When the last packet has left.
    free: Instant,
    /// Bytes that are left of the opportunity at `free`, for the packets behind.
    credit: u64,
}

impl TraceService {
    pub fn new(trace: Arc<Trace>, mode: TraceMode, end: TraceEnd, start: Instant) -> TraceService {
        let passed = Opportunities::default();
        TraceService { trace, mode, end, start, next: 0, passed, free: Instant::START, credit: 0 }
    }

    pub fn free(&self) -> Instant {
        self.free
    }

    pub fn hold(&mut self, time: Instant) {
        if time > self.free {
            (self.free, self.credit) = (time, 0);
        }
    }

    pub fn passed(&self) -> Opportunities {
        self.passed
    }

    pub fn has_failed(&self) -> bool {
        self.end == TraceEnd::Error && self.next >= self.trace.len()
    }

    /// The time of an opportunity; none behind the end of a trace that is not repeated. A repetition begins at the time of the last line. The last
    /// line and a first one of 0 therefore coincide, as in mahimahi.
    fn time(&self, number: u64) -> Option<Instant> {
        let (round, index) = (number / self.trace.len(), number % self.trace.len());
        if round > 0 && self.end != TraceEnd::Repeat {
            return None;
        }
        let millis = round.saturating_mul(self.trace.length()) + self.trace.at(index);
        Some(self.start + Nanos::millis(millis))
    }

    /// The number of the first opportunity at `time` or later, or one behind the last. With `after`, later than `time`.
    fn first(&self, time: Instant, after: bool) -> u64 {
        let since = time.since(self.start).get();
        let millis = if after && time >= self.start { since / 1_000_000 + 1 } else { since.div_ceil(1_000_000) };
        let (length, lines) = (self.trace.length(), self.trace.len());
        if self.end != TraceEnd::Repeat {
            return self.trace.first(millis);
        }
        let (round, rest) = (millis / length, millis % length);
        // The last opportunities of a repetition precede those at 0 of the next.
        if rest == 0 && round > 0 {
            return (round - 1) * lines + self.trace.first(length);
        }
        round * lines + self.trace.first(rest)
    }

    /// Skips the opportunities before `time`.
    fn pass(&mut self, time: Instant) {
        if self.time(self.next).is_some_and(|next| next < time) {
            let first = self.first(time, false);
            self.passed.wasted += first.saturating_sub(self.next);
            self.next = self.next.max(first);
        }
    }

    pub fn ready(&mut self, now: Instant) -> Option<Instant> {
        if self.credit > 0 && now <= self.free {
            return Some(self.free);
        }
        self.credit = 0;
        // Opportunities before that found no packet: they are wasted.
        self.pass(now.max(self.free));
        let next = self.time(self.next)?;
        Some(match self.mode {
            TraceMode::Packet => self.free,
            TraceMode::Bytes(_) => next,
        })
    }

    pub fn send(&mut self, now: Instant, length: u64) -> Instant {
        let took = match self.ready(now) {
            None => None,
            Some(_) => self.take(length),
        };
        self.free = took.unwrap_or(Instant::NEVER);
        self.free
    }

    /// Uses the opportunities that a packet needs. Returns the time of the last of them; none if the trace ends before.
    fn take(&mut self, length: u64) -> Option<Instant> {
        let (count, credit) = match self.mode {
            TraceMode::Packet => (1, 0),
            TraceMode::Bytes(_) if length <= self.credit => {
                self.credit -= length;
                return Some(self.free);
            }
            TraceMode::Bytes(each) => {
                let (rest, each) = (length - self.credit, u64::from(each));
                let count = rest.div_ceil(each);
                (count, count * each - rest)
            }
        };
        let last = self.time(self.next + count - 1);
        // If the trace ends within the packet, it uses up all that is left.
        let used = if last.is_some() { count } else { self.trace.len() - self.next };
        self.next += used;
        self.passed.used += used;
        // A trace that ended within a packet leaves no credit.
        self.credit = if last.is_some() { credit } else { 0 };
        last
    }

    /// The capacity of the opportunities in the window before `now`.
    pub fn rate(&self, now: Instant) -> Rate {
        let from = Instant::new(now.get().saturating_sub(WINDOW.get()));
        // Opportunities after `from`, up to and including `now`.
        let came = self.first(now, true) - if from > self.start { self.first(from, true) } else { 0 };
        let each = match self.mode {
            TraceMode::Packet => PACKET,
            TraceMode::Bytes(bytes) => bytes.into(),
        };
        Rate::bits(came * each * 8 * (1_000_000_000 / WINDOW.get()))
    }
}
