//! Overload detection: whether a worker keeps up with arriving packets (spec E-40). With `overload = "pass"` an overloaded worker passes packets
//! unexecuted instead of losing them.
//!
//! A worker that keeps up finds its queues empty again and again. A worker that has received more than [`PATIENCE`] packets for one place without
//! finding the queue empty is overloaded, until it finds it empty. The test uses no clock and no load average, so it behaves the same in virtual
//! time. Rings of a few thousand frames do not overflow before it triggers.

use plane::hook::Place;
use units::{Instant, Nanos};

/// The longest burst that does not count as overload.
pub(crate) const PATIENCE: usize = 512;
/// A place not polled for this long is ignored: its port is gone or idle.
const STALE: Nanos = Nanos::millis(100);

/// The overload state of a worker.
#[derive(Debug, Default)]
pub(crate) struct Strain {
    /// By place.
    streaks: Vec<Streak>,
    /// Places at which the worker is overloaded.
    short: usize,
}

/// Packets received for a place since its queue was last empty.
#[derive(Clone, Copy, Debug, Default)]
struct Streak {
    packets: usize,
    last: Instant,
}

impl Strain {
    fn index(place: Place) -> usize {
        match place {
            Place::Central => 0,
            Place::Input(port) => 1 + 2 * port.index(),
            Place::Output(port) => 2 + 2 * port.index(),
        }
    }

    /// Records a poll that returned `packets` packets. `more` says that the queue may hold more.
    pub fn looked(&mut self, place: Place, now: Instant, packets: usize, more: bool) {
        let index = Strain::index(place);
        if index >= self.streaks.len() {
            if !more {
                return;
            }
            self.streaks.resize(index + 1, Streak::default());
        }
        let streak = &mut self.streaks[index];
        let was = streak.packets > PATIENCE;
        let before = if now.since(streak.last) < STALE { streak.packets } else { 0 };
        *streak = Streak { packets: if more { before.saturating_add(packets) } else { 0 }, last: now };
        let is = streak.packets > PATIENCE;
        self.short = self.short + usize::from(is) - usize::from(was);
    }

    /// True if the worker is overloaded at `now`.
    #[inline(always)]
    pub fn is_short(&mut self, now: Instant) -> bool {
        self.short > 0 && self.is_short_yet(now)
    }

    #[cold]
    fn is_short_yet(&mut self, now: Instant) -> bool {
        for streak in self.streaks.iter_mut().filter(|streak| streak.packets > PATIENCE) {
            if now.since(streak.last) >= STALE {
                streak.packets = 0;
                self.short -= 1;
            }
        }
        self.short > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::PortId;

    #[test]
    fn worker_is_overloaded_after_512_packets_until_its_queue_is_empty() {
        let (one, other) = (Place::Input(PortId(0)), Place::Output(PortId(3)));
        let mut strain = Strain::default();
        let mut now = Instant::new(1_000_000_000);
        for (packets, more, short) in [
            (256, true, false),
            (256, true, false),
            (1, true, true),
            (256, true, true),
            (100, false, false),
            (256, true, false),
        ] {
            now += Nanos::micros(100);
            strain.looked(one, now, packets, more);
            strain.looked(other, now, 10, false);
            assert_eq!(strain.is_short(now), short, "{packets} {more}");
        }
        strain.looked(one, now, 1, false);
        strain.looked(other, now, 600, true);
        strain.looked(one, now, 600, true);
        strain.looked(one, now, 0, false);
        assert!(strain.is_short(now), "the other place has more yet");
        assert!(!strain.is_short(now + STALE), "nobody looks there any more");
        strain.looked(other, now + STALE, 100, true);
        assert!(!strain.is_short(now + STALE), "it begins anew");
    }
}
