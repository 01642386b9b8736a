//! Rates that the schemes of several workers at one port share.

use alloc::vec::Vec;
use units::{Bytes, CommonMeter, Instant, Meter, Rate};

/// The meter of a rate: the scheme's own, or its part of a shared one.
#[derive(Clone, Debug)]
pub(crate) enum Metering {
    /// A meter of its own.
    Own(Meter),
    /// A part of a shared meter.
    Common(CommonMeter),
}

impl Metering {
    /// True if a waiting packet may leave.
    #[inline]
    pub fn allows(&mut self, now: Instant) -> bool {
        match self {
            Metering::Own(meter) => meter.allows(now),
            Metering::Common(part) => part.allows(now),
        }
    }

    /// Charges a packet of `size` bytes.
    #[inline]
    pub fn charge(&mut self, size: Bytes, now: Instant) {
        match self {
            Metering::Own(meter) => meter.charge(size),
            Metering::Common(part) => part.charge(size, now),
        }
    }

    /// Changes rate and burst to those of `other`. Debts are kept, unless the meter is shared.
    pub fn tune(&mut self, other: &Metering, now: Instant) {
        match (self, other) {
            (Metering::Own(meter), Metering::Own(other)) => meter.tune(other, now),
            (meter, other) => *meter = other.clone(),
        }
    }

    /// The rate, which is the same for all members that share it.
    pub fn rate(&self) -> Rate {
        match self {
            Metering::Own(meter) => meter.rate(),
            Metering::Common(part) => part.rate(),
        }
    }

    /// When the next packet may leave, as far as known.
    #[inline]
    pub fn ready(&self) -> Instant {
        match self {
            Metering::Own(meter) => meter.ready(),
            Metering::Common(part) => part.ready(),
        }
    }
}

/// The schemes of one port, one for each worker, that are built from the same description. The members share each rate in it.
#[derive(Clone, Debug)]
pub struct Sharing {
    members: usize,
    member: usize,
    /// The meters made for all members, in the order in which a scheme requests them.
    made: Vec<Vec<CommonMeter>>,
    next: usize,
}

impl Sharing {
    /// Sharing among `members` workers. The first scheme is built for the first of them.
    pub fn among(members: usize) -> Sharing {
        Sharing { members, member: 0, made: Vec::new(), next: 0 }
    }

    /// A scheme without sharing.
    pub fn alone() -> Sharing {
        Sharing::among(1)
    }

    /// The sharing for the scheme of this worker.
    pub fn of(&self, member: usize) -> Sharing {
        Sharing { member, next: 0, ..self.clone() }
    }

    /// The sharing to build the same scheme once more.
    pub fn again(&self) -> Sharing {
        self.of(self.member)
    }

    /// The next meter of the scheme that is being built.
    pub(crate) fn meter(&mut self, rate: Rate, burst: Bytes) -> Metering {
        if self.members <= 1 {
            return Metering::Own(Meter::new(rate, burst));
        }
        // The first member makes the parts of all members. The others request theirs in the same order.
        if self.made.len() <= self.next {
            self.made.push(CommonMeter::parts(rate, burst, self.members).collect());
        }
        self.next += 1;
        match self.made[self.next - 1].get(self.member) {
            Some(part) => Metering::Common(part.clone()),
            None => Metering::Own(Meter::new(rate, burst)),
        }
    }
}
