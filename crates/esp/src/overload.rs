//! Overload detection: whether a worker keeps up with arriving packets (spec E-40). With `overload = "pass"` an overloaded worker passes packets
//! unexecuted instead of losing them.
//!
//! A worker that keeps up finds its queues empty again and again. A worker that has received more than [`OVERLOAD_BURST`] packets for one place without
//! finding the queue empty is overloaded, until it finds it empty. The test uses no clock and no load average, so it behaves the same in virtual
//! time. Rings of a few thousand frames do not overflow before it triggers.

use plane::hook::HookPoint;
use units::{Instant, Nanos};

/// The longest burst that does not count as overload.
pub(crate) const OVERLOAD_BURST: usize = 512;
/// A place not polled for this long is ignored: its port is gone or idle.
const STALE: Nanos = Nanos::millis(100);

/// The overload state of a worker.
#[derive(Debug, Default)]
pub(crate) struct OverloadDetector {
    /// By place.
    streaks: Vec<Streak>,
    /// Places at which the worker is overloaded.
    overloaded_places: usize,
}

/// Packets received for a place since its queue was last empty.
#[derive(Clone, Copy, Debug, Default)]
struct Streak {
    packets: usize,
    last: Instant,
}

impl OverloadDetector {
    fn index(place: HookPoint) -> usize {
        match place {
            HookPoint::Central => 0,
            HookPoint::Input(port) => 1 + 2 * port.index(),
            HookPoint::Output(port) => 2 + 2 * port.index(),
        }
    }

    /// Records a poll that returned `packets` packets. `more` says that the queue may hold more.
    pub fn record_poll(&mut self, place: HookPoint, now: Instant, packets: usize, more: bool) {
        let index = OverloadDetector::index(place);
        if index >= self.streaks.len() {
            if !more {
                return;
            }
            self.streaks.resize(index + 1, Streak::default());
        }
        let streak = &mut self.streaks[index];
        let was_overloaded = streak.packets > OVERLOAD_BURST;
        let before = if now.since(streak.last) < STALE { streak.packets } else { 0 };
        *streak = Streak { packets: if more { before.saturating_add(packets) } else { 0 }, last: now };
        let is_overloaded = streak.packets > OVERLOAD_BURST;
        self.overloaded_places = self.overloaded_places + usize::from(is_overloaded) - usize::from(was_overloaded);
    }

    /// True if the worker is overloaded at `now`.
    #[inline(always)]
    pub fn is_overloaded(&mut self, now: Instant) -> bool {
        self.overloaded_places > 0 && self.forget_stale_streaks(now)
    }

    #[cold]
    fn forget_stale_streaks(&mut self, now: Instant) -> bool {
        for streak in self.streaks.iter_mut().filter(|streak| streak.packets > OVERLOAD_BURST) {
            if now.since(streak.last) >= STALE {
                streak.packets = 0;
                self.overloaded_places -= 1;
            }
        }
        self.overloaded_places > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::PortId;

    #[test]
    fn worker_is_overloaded_after_512_packets_until_its_queue_is_empty() {
        let (one, other) = (HookPoint::Input(PortId(0)), HookPoint::Output(PortId(3)));
        let mut detector = OverloadDetector::default();
        let mut now = Instant::new(1_000_000_000);
        for (packets, more, overloaded) in [
            (256, true, false),
            (256, true, false),
            (1, true, true),
            (256, true, true),
            (100, false, false),
            (256, true, false),
        ] {
            now += Nanos::micros(100);
            detector.record_poll(one, now, packets, more);
            detector.record_poll(other, now, 10, false);
            assert_eq!(detector.is_overloaded(now), overloaded, "{packets} {more}");
        }
        detector.record_poll(one, now, 1, false);
        detector.record_poll(other, now, 600, true);
        detector.record_poll(one, now, 600, true);
        detector.record_poll(one, now, 0, false);
        assert!(detector.is_overloaded(now), "the other place has more yet");
        assert!(!detector.is_overloaded(now + STALE), "nobody looks there any more");
        detector.record_poll(other, now + STALE, 100, true);
        assert!(!detector.is_overloaded(now + STALE), "it begins anew");
    }
}
