//! The round-trip times of timestamps by definition, with unbounded memory.

use std::collections::HashMap;
use subscribers::RttSide;
use units::{Instant, Nanos};

/// A segment with timestamps.
pub struct Observed {
    /// The connection, the same in both directions.
    pub flow: String,
    pub time: Instant,
    pub value: u32,
    pub echo: Option<u32>,
    /// It has data, SYN or FIN.
    pub data: bool,
}

#[derive(Clone, Copy)]
struct Seen {
    first: Instant,
    data: bool,
    returned: bool,
}

/// All timestamps so far.
#[derive(Default)]
pub struct Definition(HashMap<(RttSide, String, u32), Seen>);

const MOST: Nanos = Nanos::secs(10);

impl Definition {
    /// Observes a segment from a side, and returns the sample that it ends.
    pub fn observe(&mut self, from: RttSide, segment: &Observed) -> Option<Nanos> {
        let other = if from == RttSide::Subscriber { RttSide::Internet } else { RttSide::Subscriber };
        let is_fresh = |seen: &Seen| segment.time.since(seen.first) <= MOST;
        let returned = segment.echo.and_then(|echo| self.0.get_mut(&(other, segment.flow.clone(), echo)));
        let sample = returned.filter(|seen| is_fresh(seen) && !seen.returned).and_then(|seen| {
            seen.returned = true;
            seen.data.then(|| segment.time.since(seen.first))
        });
        let first = Seen { first: segment.time, data: segment.data, returned: false };
        let own = self.0.entry((from, segment.flow.clone(), segment.value)).or_insert(first);
        if is_fresh(own) {
            own.data |= segment.data;
        } else {
            *own = first;
        }
        sample
    }
}

/// True if a time is the exact one, as far as the clock of the table resolves it.
pub fn is_near(time: Nanos, exact: Nanos) -> bool {
    time.get().abs_diff(exact.get()) <= 1 << 13
}
