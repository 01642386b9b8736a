//! The part of a processor that a slice may use in its fast path (spec S-25). A slice that has used it up is stopped until it has credit again, so that an
//! expensive code option takes no time from the other slices of the path.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use units::{Instant, Nanos, Parts};

/// The time whose credit an idle slice may use at once.
const BURST: Nanos = Nanos::millis(10);
/// The processor time of a packet where no clock is given: in virtual time.
const PACKET: Nanos = Nanos::new(150);

/// The time of a processed packet, in that of one that was dropped because its slice was stopped.
pub(crate) const PROCESSED: u64 = 8;

/// The use of a slice on all workers.
#[derive(Debug)]
pub(crate) struct CpuShare {
    share: Option<Parts>,
    /// Nanoseconds up to which its time is paid for.
    paid: AtomicU64,
    used: AtomicU64,
}

impl CpuShare {
    /// A part of one processor; `None`: unlimited and not measured.
    pub fn new(share: Option<Parts>) -> CpuShare {
        CpuShare { share, paid: AtomicU64::new(0), used: AtomicU64::new(0) }
    }

    /// True if it has used more than its part.
    pub fn is_exhausted(&self, now: Instant) -> bool {
        self.share.is_some() && self.paid.load(Relaxed) > now.get()
    }

    /// Counts the processor time `spent`.
    pub fn charge(&self, now: Instant, spent: Nanos) {
        let Some(share) = self.share else { return };
        self.used.fetch_add(spent.get(), Relaxed);
        let (one, part) = (u128::from(Parts::ONE.get()), u128::from(share.get().max(1)));
        let step = u64::try_from(u128::from(spent.get()) * one / part).unwrap_or(u64::MAX);
        let least = now.get().saturating_sub(BURST.get());
        self.paid.update(Relaxed, Relaxed, |paid| paid.max(least).saturating_add(step));
    }

    /// Its processor time until now.
    pub fn used(&self) -> Nanos {
        Nanos::new(self.used.load(Relaxed))
    }
}

/// The processor time of a batch, which its slices share.
pub(crate) struct BatchTime {
    clock: Option<fn() -> Nanos>,
    begun: Nanos,
}

impl BatchTime {
    pub fn begin(clock: Option<fn() -> Nanos>) -> BatchTime {
        BatchTime { clock, begun: clock.map_or(Nanos::ZERO, |clock| clock()) }
    }

    /// The time since its begin. Without a clock it is that of packets with this [weight](Self::weight).
    pub fn end(self, weight: u64) -> Nanos {
        match self.clock {
            Some(clock) => Nanos::new(clock().get().saturating_sub(self.begun.get())),
            None => Nanos::new(PACKET.get() * weight / PROCESSED),
        }
    }

    /// The part of packets in the time of a batch. Packets of a stopped slice take little of it.
    pub fn weight(processed: u64, stopped: u64) -> u64 {
        processed * PROCESSED + stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_holds_over_time_and_credit_is_bounded() {
        let cpu = CpuShare::new(Some(Parts::percent(10)));
        let (mut now, step) = (Instant::START + Nanos::secs(5), Nanos::micros(50));
        let (mut ran, mut stopped) = (0u64, 0u64);
        for _ in 0..200_000 {
            if cpu.is_exhausted(now) {
                stopped += 1;
            } else {
                cpu.charge(now, step);
                ran += 1;
            }
            now += step;
        }
        // Ten seconds: one second, and a tenth of the burst.
        assert!((20_000..=20_025).contains(&ran) && stopped > 0, "{ran} steps of 50 us");
        assert_eq!(cpu.used(), Nanos::new(ran * step.get()));
        // After a pause it has no more credit than after the first moment.
        now += Nanos::secs(100);
        let burst = std::iter::from_fn(|| (!cpu.is_exhausted(now)).then(|| cpu.charge(now, step))).count();
        assert!(burst <= 21, "{burst}");
        let free = CpuShare::new(None);
        free.charge(now, Nanos::secs(1000));
        assert!(!free.is_exhausted(now));
    }
}
