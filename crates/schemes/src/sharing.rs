//! Rates that the schemes of several workers on one port share.

use alloc::vec::Vec;
use units::{Bytes, CommonMeter, Instant, Meter, Rate};

/// What limits a rate: a meter of the scheme's own, or its part in one that others have parts in.
#[derive(Clone, Debug)]
pub(crate) enum Metering {
    /// Its own.
    Own(Meter),
    /// Its part.
    Common(CommonMeter),
}

impl Metering {
    /// Whether a packet, which is there, may go.
    #[inline]
    pub fn allows(&mut self, now: Instant) -> bool {
        match self {
            Metering::Own(meter) => meter.allows(now),
            Metering::Common(part) => part.allows(now),
        }
    }

    /// A packet of so many bytes goes.
    #[inline]
    pub fn charge(&mut self, size: Bytes, now: Instant) {
        match self {
            Metering::Own(meter) => meter.charge(size),
            Metering::Common(part) => part.charge(size, now),
        }
    }

    /// The rate and the burst of another from now on: what is owed stays owed, unless others share it.
    pub fn tune(&mut self, other: &Metering, now: Instant) {
        match (self, other) {
            (Metering::Own(meter), Metering::Own(other)) => meter.tune(other, now),
            (meter, other) => *meter = other.clone(),
        }
    }

    /// The rate, the same for all members that share it.
    pub fn rate(&self) -> Rate {
        match self {
            Metering::Own(meter) => meter.rate(),
            Metering::Common(part) => part.rate(),
        }
    }

    /// From when on one may go, as far as is known.
    #[inline]
    pub fn ready(&self) -> Instant {
        match self {
            Metering::Own(meter) => meter.ready(),
            Metering::Common(part) => part.ready(),
        }
    }
}

/// The schemes of one port, one for each of its workers, that are built from the same description: what rates they have in it they
/// have together.
#[derive(Clone, Debug)]
pub struct Sharing {
    members: usize,
    member: usize,
    /// The meters made for all members, in the order in which a scheme asks for them.
    made: Vec<Vec<CommonMeter>>,
    next: usize,
}

impl Sharing {
    /// Of so many workers; the first scheme is for the first of them.
    pub fn among(members: usize) -> Sharing {
        Sharing { members, member: 0, made: Vec::new(), next: 0 }
    }

    /// A scheme that shares with nobody.
    pub fn alone() -> Sharing {
        Sharing::among(1)
    }

    /// The next scheme is for this worker.
    pub fn of(&self, member: usize) -> Sharing {
        Sharing { member, next: 0, ..self.clone() }
    }

    /// The same scheme is built once more.
    pub fn again(&self) -> Sharing {
        self.of(self.member)
    }

    /// The next meter of the scheme that is being built.
    pub(crate) fn meter(&mut self, rate: Rate, burst: Bytes) -> Metering {
        if self.members <= 1 {
            return Metering::Own(Meter::new(rate, burst));
        }
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
