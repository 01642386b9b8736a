//! The cycles of the scheme `dfq`: the settings that shares may have, and the admission of their quanta.
//!
//! In a cycle of length *T* a share of rate *r*, burst *s* and delay *D* sends up to `w = R * T` bytes, rounded up, with `R = max(r, s / D)`. A share is
//! admitted if all quanta fit what a cycle of the port's rate leaves beside best effort. A burst leaves within *D* and at most two cycles more, so a
//! delay is more than two cycles (spec P-32 and P-33).

use crate::Call;
use crate::share::{CYCLE_SCHEME, SHARE_SCHEME, ShareName, ShareSettings};
use units::{Nanos, Parts, Rate};

/// The reason why a share cannot be as it is written, and a correction.
type Refused = (String, String);

/// Bit-nanoseconds of a byte.
const BYTE: u128 = 8_000_000_000;
/// Delays in errors are rounded up to this.
const STEP: u64 = 1000;

/// The cycles of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ShareCycles {
    cycle: Nanos,
    best_effort: Parts,
    /// The queues, one for packets without a share included.
    flows: u64,
}

impl ShareCycles {
    /// The cycles of a scheme. `None` if it has none.
    pub fn of(scheme: &Call) -> Option<ShareCycles> {
        if scheme.name != CYCLE_SCHEME {
            return None;
        }
        let part = u32::try_from(scheme.option("best_effort")?).unwrap_or(u32::MAX);
        let (cycle, flows) = (Nanos::new(scheme.option("cycle")?), scheme.option("flows")?);
        Some(ShareCycles { cycle, best_effort: Parts::millionths(part), flows })
    }

    /// The part of a port's rate that shares can reserve.
    pub fn reservable(&self, rate: Rate) -> Rate {
        let kept = 1_000_000 - u128::from(self.best_effort.get().min(1_000_000));
        Rate::bits((u128::from(rate.get()) * kept / 1_000_000) as u64)
    }

    /// The rate of the quantum of a share with this peak: the bytes of a cycle are rounded up.
    pub fn quantum_rate(&self, peak: Rate) -> Rate {
        let bytes = (u128::from(peak.get()) * u128::from(self.cycle.get())).div_ceil(BYTE).max(1);
        Rate::bits((bytes * BYTE).div_ceil(u128::from(self.cycle.get())).min(u64::MAX.into()) as u64)
    }

    /// Checks the place of a new share, of which there are `count` already.
    pub fn check_place(&self, name: &ShareName, parent: Option<&ShareName>, count: usize) -> Result<(), Refused> {
        if let Some(parent) = parent {
            let reason = format!(
                "the share '{}' is below '{}', but shares of '{CYCLE_SCHEME}' have no levels",
                name.as_str(),
                parent.as_str()
            );
            return Err((reason, format!("remove 'in {parent}', or give the port the scheme '{SHARE_SCHEME}'")));
        }
        if count as u64 + 1 >= self.flows {
            let reason = format!("the port has {count} shares, and its scheme has {} queues", self.flows);
            return Err((reason, format!("write {CYCLE_SCHEME}(flows={})", count + 2)));
        }
        Ok(())
    }

    /// Checks the settings of a share, apart from the room in a cycle.
    pub fn check_settings(&self, name: &ShareName, settings: &ShareSettings) -> Result<(), Refused> {
        let ShareSettings { rate, ceiling, weight, delay, priority, .. } = *settings;
        if rate.is_none() {
            let reason = format!("the share '{}' has no rate, which a share of '{CYCLE_SCHEME}' needs", name.as_str());
            return Err((reason, format!("write '{name} rate 1mbit', or leave its packets to best effort")));
        }
        let unused = [("ceiling", ceiling.is_some()), ("weight", weight.is_some()), ("priority", priority.is_some())];
        if let Some((setting, _)) = unused.into_iter().find(|(_, is_set)| *is_set) {
            let reason = format!("a share of '{CYCLE_SCHEME}' has no {setting}");
            return Err((reason, format!("remove it, or give the port the scheme '{SHARE_SCHEME}'")));
        }
        match delay {
            Some(delay) if delay <= self.shortest() => {
                let reason = format!(
                    "the delay {delay} of '{}' is not more than two cycles of {}, by which packets may be late",
                    name.as_str(),
                    self.cycle
                );
                let least = rounded(self.shortest() + Nanos::new(1));
                Err((reason, format!("give a delay of at least {least}, or the scheme a shorter 'cycle'")))
            }
            _ => Ok(()),
        }
    }

    fn shortest(&self) -> Nanos {
        self.cycle + self.cycle
    }

    /// Checks that the quantum of a share fits the room that the other shares leave.
    pub fn check_room(&self, name: &ShareName, settings: &ShareSettings, room: Rate) -> Result<(), Refused> {
        let (Some(rate), Some(peak)) = (settings.rate, settings.peak()) else { return Ok(()) };
        let needed = self.quantum_rate(peak);
        if needed <= room {
            return Ok(());
        }
        let bytes = |rate: Rate| (u128::from(rate.get()) * u128::from(self.cycle.get()) / BYTE) as u64;
        let reason = format!(
            "the share '{}' needs {} bytes in each cycle ({needed}), and the other shares and best effort leave {} ({room})",
            name.as_str(),
            bytes(needed),
            bytes(room)
        );
        if self.quantum_rate(rate) > room {
            return Err((reason, format!("give it a rate of at most {room}, or others less")));
        }
        // The whole bytes of a cycle that are left.
        let whole = (u128::from(bytes(room)) * BYTE / u128::from(self.cycle.get())).max(1);
        let burst = u128::from(settings.burst_at(rate).get());
        let least = u64::try_from((burst * BYTE).div_ceil(whole)).unwrap_or(u64::MAX);
        let least = rounded(Nanos::new(least).max(self.shortest() + Nanos::new(1)));
        Err((reason, format!("give it a delay of at least {least}, or a smaller burst")))
    }
}

/// A delay rounded up to a whole number of microseconds.
fn rounded(delay: Nanos) -> Nanos {
    Nanos::new(delay.get().div_ceil(STEP).saturating_mul(STEP))
}
