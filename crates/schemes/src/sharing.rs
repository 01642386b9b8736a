//! Rates that the schemes of several workers at one port share.

use alloc::vec::Vec;
use units::{Bytes, Instant, Meter, Rate, SharedMeter};

/// The meter of a rate: the scheme's own, or its part of a shared one. Packets that wait for it lose no rate if they are served late.
#[derive(Clone, Debug)]
pub(crate) struct RateMeter {
    part: MeterPart,
    /// It has refused a packet, which waits.
    waits: bool,
}

#[derive(Clone, Debug)]
enum MeterPart {
    Own(Meter),
    Shared(SharedMeter),
}

impl RateMeter {
    fn own(rate: Rate, burst: Bytes) -> RateMeter {
        RateMeter { part: MeterPart::Own(Meter::new(rate, burst)), waits: false }
    }

    /// True if a waiting packet may leave.
    #[inline]
    pub fn allows(&mut self, now: Instant) -> bool {
        let waited = self.waits;
        let allowed = match &mut self.part {
            MeterPart::Own(meter) => {
                if waited {
                    meter.catch_up(now);
                }
                meter.allows(now)
            }
            MeterPart::Shared(part) => {
                if waited {
                    part.catch_up(now);
                }
                part.allows(now)
            }
        };
        self.waits = !allowed;
        allowed
    }

    /// Charges a packet of `size` bytes.
    #[inline]
    pub fn charge(&mut self, size: Bytes, now: Instant) {
        // A tin of `cake` may send although it was refused.
        self.waits = false;
        match &mut self.part {
            MeterPart::Own(meter) => meter.charge(size),
            MeterPart::Shared(part) => part.charge(size, now),
        }
    }

    /// Changes rate and burst to those of `other`. Debts are kept, unless the meter is shared.
    pub fn tune(&mut self, other: &RateMeter, now: Instant) {
        match (&mut self.part, &other.part) {
            (MeterPart::Own(meter), MeterPart::Own(other)) => meter.reconfigure(other, now),
            (part, other) => *part = other.clone(),
        }
    }

    /// The rate, which is the same for all members that share it.
    pub fn rate(&self) -> Rate {
        match &self.part {
            MeterPart::Own(meter) => meter.rate(),
            MeterPart::Shared(part) => part.rate(),
        }
    }

    /// When the next packet may leave, as far as known.
    #[inline]
    pub fn ready(&self) -> Instant {
        match &self.part {
            MeterPart::Own(meter) => meter.ready(),
            MeterPart::Shared(part) => part.ready(),
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
            return RateMeter::own(rate, burst);
        }
        // The first member makes the parts of all members. The others request theirs in the same order.
        if self.shared_meters.len() <= self.next {
            self.shared_meters.push(SharedMeter::parts(rate, burst, self.members).collect());
        }
        self.next += 1;
        match self.shared_meters[self.next - 1].get(self.member) {
            Some(part) => RateMeter { part: MeterPart::Shared(part.clone()), waits: false },
            None => RateMeter::own(rate, burst),
        }
    }
}
