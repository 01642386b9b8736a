//! Puts the plane's warnings about tasks and links into words, with remedies.

use packet::event::{FunctionFailure, SchemeTransition};
use packet::port::{DfqFallback, DfqWireState};
use packet::{Advisory, LinkCounters};
use units::{Mac, Nanos, WorkerId};

/// Rounds a time up to whole units, fit for a configuration.
fn at_least(time: Nanos) -> Nanos {
    let unit = if time >= Nanos::micros(10) { 1000 } else { 10 };
    Nanos::new(time.get().next_multiple_of(unit))
}

/// Returns a warning in one sentence.
pub(crate) fn text(warning: &Advisory) -> String {
    match warning {
        Advisory::TimeoutsOnly { runs, batch } => {
            format!(
                "runs only by time-outs: {runs} times in a second, never with the {batch} packets that it waits for"
            )
        }
        Advisory::NearCapacity { batch, capacity } => {
            format!("waits for {batch} packets before it runs, but its queues hold only {capacity}")
        }
        Advisory::OverCost { cost, declared } => {
            format!("a packet costs {}, but the declared cost is {}", cost.rounded(), declared.rounded())
        }
        Advisory::SleepsTooLong { sleep, lasts } => {
            let (sleep, lasts) = (sleep.rounded(), lasts.rounded());
            format!("may sleep for {sleep}, but at line rate its receive ring is full after {lasts}")
        }
        Advisory::Lags { lag, lasts } => {
            let (lag, lasts) = (lag.rounded(), lasts.rounded());
            format!("waited {lag} for the processor, but at its reserved rate its queue is full after {lasts}")
        }
        Advisory::Late { packets, promised, most } => {
            let (promised, most) = (promised.rounded(), most.rounded());
            format!("{packets} packets exceeded their max_delay of {promised}, one with {most}")
        }
        Advisory::OverBudget { packets, of, budget } => {
            format!("{packets} of {of} packets took longer than {} to receive and classify", budget.rounded())
        }
    }
}

/// Describes the new state of a wire that multiplexes quanta.
pub(crate) fn dfq_wire(state: DfqWireState, peer: Option<Mac>) -> String {
    match (state, peer) {
        (DfqWireState::Plain(reason), _) => format!("frames leave plain: {reason}"),
        (DfqWireState::Searching, _) => "the port searches the other end of its wire".into(),
        (DfqWireState::Multiplexed, Some(peer)) => format!("frames to {peer} leave in batches of quanta"),
        (DfqWireState::Multiplexed, None) => "frames leave in batches of quanta".into(),
    }
}

/// The remedy, if frames leave plain for a reason that the operator can change.
pub(crate) fn dfq_wire_hint(state: DfqWireState) -> Option<String> {
    let DfqWireState::Plain(reason) = state else { return None };
    let hint = match reason {
        DfqFallback::NoAnswer | DfqFallback::Lost | DfqFallback::Left => {
            "the port at the other end needs `dfq_wire` too; without a Switchpath there, remove the key here"
        }
        DfqFallback::Bitmap { .. } => "write the same `bitmap` in `dfq_wire` of both ports",
        DfqFallback::Version(_) => "use the same version of Switchpath at both ends",
        DfqFallback::FrameTooShort(_) | DfqFallback::Refused => "compare `mtu` and `dfq_wire` of both ports",
        DfqFallback::PortDown => return None,
    };
    Some(hint.into())
}

/// Describes a failure of functions, and its effect on their path.
pub(crate) fn function_failure(misdeed: FunctionFailure<'_>) -> String {
    let what = match misdeed {
        FunctionFailure::Panicked(words) => format!("its functions panicked: {words}"),
        FunctionFailure::OverLimit(used) => {
            format!("its functions were stopped after {}, which exceeds their limit", used.rounded())
        }
        FunctionFailure::DidNotReturn(time) => {
            format!("its functions delayed a new configuration: they had not returned after {}", time.rounded())
        }
        FunctionFailure::TooManyStuck => {
            return "its packets are dropped until earlier functions return".into();
        }
        FunctionFailure::Disabled { function, failure, drops } => {
            let packets = if drops { "the path drops its packets" } else { "packets bypass it" };
            return format!("'{function}' is off until the next configuration, and {packets}: {failure}");
        }
    };
    format!("{what}; it continues with new functions")
}

/// Describes a decision of a policy, and its result.
pub(crate) fn policy_decision(choice: &plane::PolicyChange) -> String {
    let plane::policy::Decision { from, to, share } = choice.decision;
    let what = format!("{share} of the bytes have the objective {to}");
    match (&choice.failed, &choice.scheme) {
        (Some(error), _) => format!("{what}, but the port keeps the scheme for {from}: {}", error.reason),
        (None, Some(scheme)) => format!("{what}, which replaces {from}: the scheme is now {scheme}"),
        (None, None) => format!("{what}, which replaces {from}: the scheme stays"),
    }
}

/// Describes a change of the scheme or its parameters at a link: the backlog, the packets dropped for the change, and the counters since the previous
/// change.
pub(crate) fn scheme_changed(
    worker: WorkerId,
    (way, (waited, dropped)): (SchemeTransition, (u32, u32)),
    version: u32,
    before: &LinkCounters,
) -> String {
    let plural = if waited == 1 { "" } else { "s" };
    let then = match way {
        SchemeTransition::Tuned => "its queueing scheme has new parameters",
        SchemeTransition::Migrated => "a new queueing scheme has the queued packets",
        SchemeTransition::Draining => "a new queueing scheme begins after the previous one has sent its queued packets",
        SchemeTransition::Flushed => "a new queueing scheme begins without packets",
    };
    let LinkCounters { offered, sent, dropped: lost, marked, .. } = before;
    format!(
        "{then}: {waited} packet{plural}, {dropped} dropped (worker {worker}). It is version {version}; the previous one \
         received {offered}, sent {sent}, dropped {lost} and marked {marked}"
    )
}

/// Returns the remedy.
pub(crate) fn hint(warning: &Advisory) -> String {
    match warning {
        Advisory::TimeoutsOnly { .. } => {
            "each such run costs a switch for few packets: give a larger `overhead` to `forwarding`, \
                                        or a longer `max_wait` to the path"
                .into()
        }
        Advisory::NearCapacity { batch, .. } => {
            format!(
                "a burst can overflow the queue: give the path `queue = {}` or more, or a larger `overhead`",
                batch * 4
            )
        }
        Advisory::OverCost { cost, .. } => {
            let cost = at_least(*cost);
            format!(
                "its share follows from the declared cost: give the path `cost = \"{cost}\"`, or make its functions cheaper"
            )
        }
        Advisory::SleepsTooLong { lasts, .. } => {
            format!(
                "a burst after an idle time overflows the ring: give the estimator `sleep_max = \"{lasts}\"` or less"
            )
        }
        Advisory::Lags { lag, lasts } => {
            let times = lag.get().div_ceil(lasts.get().max(1)).max(2);
            format!(
                "reserved packets may be lost: give the path a `queue` {times} times as long, or `forwarding` a shorter \
                 `slice`; `switchpath trace --cpu` shows which tasks ran meanwhile"
            )
        }
        Advisory::Late { .. } => {
            "`switchpath show latency` shows where they waited. Before their functions: give shorter slices or a larger share. \
             After them: give the port `scheme = \"priority\"`"
                .into()
        }
        Advisory::OverBudget { .. } => {
            "packets may arrive faster than they are classified: use fewer or shorter matches, the most frequent first, use the \
             function `dispatch` for payloads, or raise `classify_budget`"
                .into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_advisory_has_cause_and_remedy() {
        let (short, long) = (Nanos::micros(10), Nanos::micros(25));
        let warnings = [
            (Advisory::TimeoutsOnly { runs: 40, batch: 30 }, "40 times", "max_wait"),
            (Advisory::NearCapacity { batch: 100, capacity: 128 }, "100 packets", "queue = 400"),
            (
                Advisory::OverCost { cost: long, declared: short },
                "costs 25 us, but the declared cost is 10 us",
                "cost = \"25us\"",
            ),
            (Advisory::SleepsTooLong { sleep: long, lasts: short }, "for 25 us", "sleep_max = \"10us\""),
            (Advisory::Lags { lag: long, lasts: short }, "waited 25 us", "3 times as long"),
            (Advisory::Late { packets: 3, promised: short, most: long }, "max_delay of 10 us", "show latency"),
            (Advisory::OverBudget { packets: 7, of: 9, budget: short }, "7 of 9 packets", "classify_budget"),
        ];
        assert_eq!([552_365, 9_991, 7].map(|ns| at_least(Nanos::new(ns)).get()), [553_000, 10_000, 10]);
        for (warning, said, advised) in warnings {
            assert!(text(&warning).contains(said), "{}", text(&warning));
            assert!(hint(&warning).contains(advised), "{}", hint(&warning));
        }
    }
}
