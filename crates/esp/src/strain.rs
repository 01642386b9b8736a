//! Whether a worker keeps up with what comes (spec E-40): where it does not, an operator may want packets to pass unexecuted, and not be lost.
//!
//! A worker that keeps up finds, again and again, that nothing more waits. One that has taken more than [`PATIENCE`] packets from one place
//! without ever having found that is short of the processor, and is so until it has. No clock and no load is looked at, so it is the same in virtual
//! time, and rings of a few thousand frames do not overflow meanwhile.

use plane::hook::Place;
use units::{Instant, Nanos};

/// Packets that may come at once to a worker that keeps up.
pub(crate) const PATIENCE: usize = 512;
/// What was not looked at for so long is not waited for: its port is gone, or rests.
const STALE: Nanos = Nanos::millis(100);

/// What waits for a worker.
#[derive(Debug, Default)]
pub(crate) struct Strain {
    /// By place.
    streaks: Vec<Streak>,
    /// Places at which it does not keep up.
    short: usize,
}

/// Packets that were taken from a place while more waited.
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

    /// So many packets were taken from where they wait for a place, and there may be more.
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

    /// Whether the worker does not keep up at `now`.
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
    fn who_takes_more_than_it_may_without_an_end_is_short_until_it_finds_one() {
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
