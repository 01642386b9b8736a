//! A scheme with the queues it decides over, made where memory may be taken, to be put on a link where it may not.

use crate::link::Lines;
use packet::{Queue, Region};
use schemes::Scheme;
use std::fmt;

/// Packets that a physical queue holds at most.
const LONGEST: usize = 65536;

/// A queueing scheme and as many empty queues as it wants, ready for a link.
pub struct Queueing {
    pub(crate) scheme: Box<dyn Scheme<Lines>>,
    pub(crate) queues: Vec<Waiting>,
}

/// A physical queue.
pub(crate) struct Waiting {
    pub packets: Queue,
    /// Bytes of its packets on the wire.
    pub bytes: u64,
}

impl Waiting {
    pub fn new(capacity: usize) -> Waiting {
        Waiting { packets: Queue::new(capacity), bytes: 0 }
    }
}

impl Queueing {
    /// `scheme` with its queues, each of which holds at most `capacity` packets, or what the scheme lets in.
    pub fn new(scheme: Box<dyn Scheme<Lines>>, capacity: usize) -> Queueing {
        let most = usize::try_from(scheme.most_in_a_queue());
        let most = most.map_or(capacity, |most| most.saturating_add(1).min(capacity));
        let queues = (0..scheme.queues().max(1)).map(|_| Waiting::new(most)).collect();
        Queueing { scheme, queues }
    }

    /// `scheme` with queues of which each could hold every packet of `region`, or as many as a queue ever does.
    pub(crate) fn of(scheme: Box<dyn Scheme<Lines>>, region: &Region) -> Queueing {
        Queueing::new(scheme, region.frames().min(LONGEST))
    }

    /// Whether it has a single queue, and `other` one that holds as much.
    pub(crate) fn may_keep(&self, other: &[Waiting]) -> bool {
        let of = |queues: &[Waiting]| match queues {
            [one] => Some(one.packets.capacity()),
            _ => None,
        };
        of(&self.queues).is_some() && of(&self.queues) == of(other)
    }
}

impl fmt::Debug for Queueing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queueing with {} queues", self.queues.len())
    }
}
