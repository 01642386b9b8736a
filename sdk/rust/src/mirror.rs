//! The guest's copy of the link's queues. The guest keeps it current, because only its own decisions change the queues.

use crate::block::Shown;
use crate::lists::Lists;
use crate::ring::Ring;
use schemes::{Record, Size};
use units::QueueId;

/// Maximum number of packets in all queues of a guest.
pub const MOST: u32 = 16384;

/// See the [module](self).
pub enum Mirror {
    /// A single queue.
    One(Ring),
    /// Several queues.
    Many(Lists),
}

use Mirror::{Many, One};

impl Mirror {
    /// Makes the given number of queues, with a shared limit on packets of at most [`MOST`].
    pub fn new(queues: usize, holds: u32) -> Mirror {
        let holds = holds.min(MOST);
        if queues == 1 { One(Ring::new(holds)) } else { Many(Lists::new(queues, holds)) }
    }

    /// Empties all queues.
    pub fn clear(&mut self) {
        match self {
            One(ring) => ring.clear(),
            Many(lists) => lists.clear(),
        }
    }

    /// The length of a queue.
    #[inline(always)]
    pub fn size(&self, queue: QueueId) -> Size {
        match self {
            One(ring) if queue.index() == 0 => ring.size(),
            One(_) => Size::default(),
            Many(lists) => lists.size(queue),
        }
    }

    /// The first packet of a queue.
    #[inline(always)]
    pub fn head(&self, queue: QueueId) -> Option<Record> {
        match self {
            One(ring) if queue.index() == 0 => ring.head(),
            One(_) => None,
            Many(lists) => lists.head(queue),
        }
    }

    /// Appends a packet to a queue. False if there is no room or no such queue.
    #[inline(always)]
    pub fn push(&mut self, queue: QueueId, shown: &Shown) -> bool {
        match self {
            One(ring) => queue.index() == 0 && ring.push(shown),
            Many(lists) => lists.push(queue, shown),
        }
    }

    /// Removes the first packet of a queue.
    #[inline(always)]
    pub fn pop(&mut self, queue: QueueId) -> Option<Record> {
        match self {
            One(ring) if queue.index() == 0 => ring.pop(),
            One(_) => None,
            Many(lists) => lists.pop(queue),
        }
    }

    /// Removes the last packet of a queue.
    pub fn pop_back(&mut self, queue: QueueId) -> Option<Record> {
        match self {
            One(ring) if queue.index() == 0 => ring.pop_back(),
            One(_) => None,
            Many(lists) => lists.pop_back(queue),
        }
    }
}
