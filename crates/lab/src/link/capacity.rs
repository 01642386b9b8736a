//! The capacity of a link's trace over time.

use super::configuration::LinkDirection;
use link::medium::{Medium, Trace};
use plan::{LinkPlan, LinkService, Plan, TraceEnd, TraceMode, TracePlan};
use std::sync::Arc;
use units::Nanos;

/// Packet size in bytes for traces whose opportunities carry no size.
const PACKET: u32 = 1500;

/// The delivery opportunities of a trace.
#[derive(Clone, Debug)]
pub struct Capacity {
    trace: Arc<Trace>,
    end: TraceEnd,
    /// Bytes per opportunity.
    pub size: u32,
}

/// The link of one direction.
pub fn link_of(plan: &Plan, side: LinkDirection) -> Option<&LinkPlan> {
    plan.ports.iter().find(|port| &*port.name == side.port())?.link.as_ref()
}

impl Capacity {
    /// The capacity of one direction. `None` if it has no trace.
    pub fn of(plan: &Plan, side: LinkDirection) -> Option<Capacity> {
        let medium = &link_of(plan, side)?.medium;
        let LinkService::Trace(TracePlan { mode, end, .. }) = medium.service else { return None };
        let read = |file: &str| std::fs::read(file).map_err(|error| error.to_string());
        // If the trace cannot be read, the router has not created the link either.
        let trace = Medium::trace(medium, read).ok()??;
        let size = match mode {
            TraceMode::Packet => PACKET,
            TraceMode::Bytes(bytes) => bytes,
        };
        Some(Capacity { trace, end, size })
    }

    /// The times of its opportunities in milliseconds, in order. Endless if the trace repeats.
    pub fn millis(self) -> impl Iterator<Item = u64> {
        let Capacity { trace, end, .. } = self;
        let lines = trace.millis().len();
        let last = trace.millis().last().copied().map_or(1, u64::from);
        (0usize..).map_while(move |number| {
            let (round, place) = (number / lines, number % lines);
            (round == 0 || end == TraceEnd::Repeat).then(|| round as u64 * last + u64::from(trace.millis()[place]))
        })
    }

    /// True if the trace ends before `span` and its mode makes that an error.
    pub fn is_missed(&self, span: Nanos) -> bool {
        let last = self.trace.millis().last().copied().map_or(0, u64::from);
        self.end == TraceEnd::Error && span > Nanos::millis(last)
    }

    /// Bytes that it can carry within `span`.
    pub fn bytes(&self, span: Nanos) -> u64 {
        let most = span.get() / 1_000_000;
        self.clone().millis().take_while(|at| *at <= most).count() as u64 * u64::from(self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeating_trace_continues_from_its_last_line() {
        let trace = Arc::new(Trace::from_millis(vec![0, 3, 5]).expect("it is in order"));
        let once = Capacity { trace, end: TraceEnd::Error, size: 1504 };
        assert_eq!(once.clone().millis().collect::<Vec<u64>>(), [0, 3, 5]);
        assert_eq!(once.bytes(Nanos::secs(9)), 3 * 1504);
        assert!(once.is_missed(Nanos::millis(6)) && !once.is_missed(Nanos::millis(5)));
        let again = Capacity { end: TraceEnd::Repeat, ..once };
        assert_eq!(again.clone().millis().take(7).collect::<Vec<u64>>(), [0, 3, 5, 5, 8, 10, 10]);
        assert_eq!(again.bytes(Nanos::millis(8)), 5 * 1504);
    }
}
