//! A fluid server of one flow: the reference that the lag of `dfq` is measured against (spec P-31, P-38).

use crate::ShareParameters;
use units::{Instant, Rate};

/// A server of a flow's own, which sends any part of a byte: at the peak rate while the service cycle has credit.
#[derive(Clone, Debug)]
pub struct FluidServer {
    /// In bytes a nanosecond.
    peak: f64,
    burst: f64,
    period: f64,
    now: f64,
    credit: f64,
    ends: f64,
}

impl FluidServer {
    /// The server of a flow with these parameters: its rate, burst and delay.
    pub fn new(parameters: &ShareParameters) -> FluidServer {
        let of = |rate: Rate| rate.get() as f64 / 8e9;
        let burst = parameters.burst.get() as f64;
        let (peak, period) = (of(parameters.peak()), burst / of(parameters.rate));
        FluidServer { peak, burst, period, now: 0.0, credit: 0.0, ends: 0.0 }
    }

    /// The time in nanoseconds at which the last of the next `length` bytes of the flow has left, which arrive together.
    pub fn departure(&mut self, arrived: Instant, length: u32) -> f64 {
        self.now = self.now.max(arrived.get() as f64);
        let mut left = f64::from(length);
        while left > 1e-6 {
            if self.now >= self.ends - 1e-3 {
                (self.credit, self.ends) = (self.burst, self.now.max(self.ends) + self.period);
            }
            let bytes = left.min(self.credit).min((self.ends - self.now) * self.peak);
            (self.credit, left) = (self.credit - bytes, left - bytes);
            self.now =
                if left > 1e-6 { self.ends.max(self.now + bytes / self.peak) } else { self.now + bytes / self.peak };
        }
        self.now
    }
}
