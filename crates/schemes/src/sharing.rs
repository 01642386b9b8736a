//! Rates that the schemes of several workers at one port share.

use alloc::vec::Vec;
use units::{Bytes, Instant, Meter, Rate, SharedMeter};

/// The meter of a rate: the scheme's own, or its part of a shared one.
#[derive(Clone, Debug)]
pub(crate) enum RateMeter {
    /// A meter of its own.
    Own {
        /// The meter.
        meter: Meter,
        /// It has refused a packet, which waits.
        waits: bool,
    },
    /// A part of a shared meter.
    Shared(SharedMeter),
}

impl RateMeter {
    /// True if a waiting packet may leave.
    #[inline]
    pub fn allows(&mut self, now: Instant) -> bool {
        match self {
            RateMeter::Own { meter, waits } => {
                if *waits {
                    meter.catch_up(now);
                }
                let allowed = meter.allows(now);
                *waits = !allowed;
                allowed
            }
            RateMeter::Shared(part) => part.allows(now),
        }
    }

    /// Charges a packet of `size` bytes.
    #[inline]
    pub fn charge(&mut self, size: Bytes, now: Instant) {
        match self {
            RateMeter::Own { meter, waits } => {
                // A class of `cake` may send although it was refused.
                *waits = false;
                meter.charge(size);
            }
            RateMeter::Shared(part) => part.charge(size, now),
        }
    }

    /// Changes rate and burst to those of `other`. Debts are kept, unless the meter is shared.
    pub fn tune(&mut self, other: &RateMeter, now: Instant) {
        match (self, other) {
            (RateMeter::Own { meter, .. }, RateMeter::Own { meter: other, .. }) => meter.reconfigure(other, now),
            (meter, other) => *meter = other.clone(),
        }
    }

    /// The rate, which is the same for all members that share it.
    pub fn rate(&self) -> Rate {
        match self {
            RateMeter::Own { meter, .. } => meter.rate(),
            RateMeter::Shared(part) => part.rate(),
        }
    }

    /// When the next packet may leave, as far as known.
    #[inline]
    pub fn ready(&self) -> Instant {
        match self {
            RateMeter::Own { meter, .. } => meter.ready(),
            RateMeter::Shared(part) => part.ready(),
        }
    }
}

/// The schemes of one port, one for each worker, that are built from the same description. The members share each rate in it.
#[derive(Clone, Debug)]
pub struct Sharing {
    members: usize,
    member: usize,
    /// The meters made for all members, in the order in which a scheme requests them.
    shared_meters: Vec<Vec<SharedMeter>>,
    next: usize,
}

impl Sharing {
    /// Sharing among `members` workers. The first scheme is built for the first of them.
    pub fn among(members: usize) -> Sharing {
        Sharing { members, member: 0, shared_meters: Vec::new(), next: 0 }
    }

    /// A scheme without sharing.
    pub fn alone() -> Sharing {
        Sharing::among(1)
    }

    /// The sharing for the scheme of this worker.
    pub fn of(&self, member: usize) -> Sharing {
        // Each build requests its meters from the first on.
        Sharing { member, next: 0, ..self.clone() }
    }

    /// The sharing to build the same scheme once more.
    pub fn again(&self) -> Sharing {
        self.of(self.member)
    }

    /// The next meter of the scheme that is being built.
    pub(crate) fn meter(&mut self, rate: Rate, burst: Bytes) -> RateMeter {
        if self.members <= 1 {
            // A single member needs no atomic operations.
            return RateMeter::Own { meter: Meter::new(rate, burst), waits: false };
        }
        // The first member makes the parts of all members. The others request theirs in the same order.
        if self.shared_meters.len() <= self.next {
            self.shared_meters.push(SharedMeter::parts(rate, burst, self.members).collect());
        }
        self.next += 1;
        match self.shared_meters[self.next - 1].get(self.member) {
            Some(part) => RateMeter::Shared(part.clone()),
            None => RateMeter::Own { meter: Meter::new(rate, burst), waits: false },
        }
    }
}
