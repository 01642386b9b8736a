//! A recorded link: its opportunities come whether somebody uses them or not (spec N-31).

use super::Opportunities;
use super::trace::Trace;
use plan::{TraceEnd, TraceMode};
use std::sync::Arc;
use units::{Instant, Nanos, Rate};

/// What is looked back upon for the rate of a link.
const WINDOW: Nanos = Nanos::millis(100);
/// What an opportunity is reckoned to carry where it carries any packet.
const PACKET: u64 = 1500;

/// A link that goes by a trace. Opportunities are numbered over all repetitions.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
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
    /// Bytes that it has left of its opportunity, which is at `free`, for those behind it.
    credit: u64,
}

impl Recorded {
    pub fn new(trace: Arc<Trace>, mode: TraceMode, end: TraceEnd, start: Instant) -> Recorded {
        let passed = Opportunities::default();
        Recorded { trace, mode, end, start, next: 0, passed, free: Instant::START, credit: 0 }
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

    /// When an opportunity comes; none behind the end of a trace that is not repeated. With each repetition the time of the last
    /// is added: it and a first one of 0 come together, as in mahimahi.
    fn time(&self, number: u64) -> Option<Instant> {
        let (round, index) = (number / self.trace.len(), number % self.trace.len());
        if round > 0 && self.end != TraceEnd::Repeat {
            return None;
        }
        let millis = round.saturating_mul(self.trace.length()) + self.trace.at(index);
        Some(self.start + Nanos::millis(millis))
    }

    /// The first opportunity at `time` or later, or one behind the last. With `after`, the first later than it.
    fn first(&self, time: Instant, after: bool) -> u64 {
        let since = time.since(self.start).get();
        let millis = if after && time >= self.start { since / 1_000_000 + 1 } else { since.div_ceil(1_000_000) };
        let (length, lines) = (self.trace.length(), self.trace.len());
        if self.end != TraceEnd::Repeat {
            return self.trace.first(millis);
        }
        let (round, rest) = (millis / length, millis % length);
        // Those at the end of a repetition come before those of 0 of the next.
        if rest == 0 && round > 0 {
            return (round - 1) * lines + self.trace.first(length);
        }
        round * lines + self.trace.first(rest)
    }

    /// Lets go by what comes before `time`.
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
        self.free = took.unwrap_or(Instant::FAR);
        self.free
    }

    /// Uses the opportunities that a packet takes. Answers the last of them, where there are so many.
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
        let used = if last.is_some() { count } else { self.trace.len() - self.next };
        self.next += used;
        self.passed.used += used;
        // Nothing is left of a trace that has ended in the middle of a packet.
        self.credit = if last.is_some() { credit } else { 0 };
        last
    }

    /// What came in the window before `now`, by what each opportunity carries.
    pub fn rate(&self, now: Instant) -> Rate {
        let from = Instant::new(now.get().saturating_sub(WINDOW.get()));
        let came = self.first(now, true) - if from > self.start { self.first(from, true) } else { 0 };
        let each = match self.mode {
            TraceMode::Packet => PACKET,
            TraceMode::Bytes(bytes) => bytes.into(),
        };
        Rate::bits(came * each * 8 * (1_000_000_000 / WINDOW.get()))
    }
}
