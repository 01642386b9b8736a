//! What waits in the queues of the link, as the guest knows it: it has put it there itself.

use crate::block::Shown;
use crate::lists::Lists;
use crate::ring::Ring;
use schemes::{Record, Size};
use units::QueueId;

/// Packets that all queues of a guest hold at most.
pub const MOST: u32 = 16384;

/// See the [module](self).
pub enum Mirror {
    /// A queue alone.
    One(Ring),
    /// Several.
    Many(Lists),
}

use Mirror::{Many, One};

impl Mirror {
    /// So many queues that hold so many packets together, at most [`MOST`].
    pub fn new(queues: usize, holds: u32) -> Mirror {
        let holds = holds.min(MOST);
        if queues == 1 { One(Ring::new(holds)) } else { Many(Lists::new(queues, holds)) }
    }

    /// Nothing waits.
    pub fn clear(&mut self) {
        match self {
            One(ring) => ring.clear(),
            Many(lists) => lists.clear(),
        }
    }

    /// What waits in a queue.
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

    /// A packet comes to the end of a queue. False where there is no room, or no such queue.
    #[inline(always)]
    pub fn push(&mut self, queue: QueueId, shown: &Shown) -> bool {
        match self {
            One(ring) => queue.index() == 0 && ring.push(shown),
            Many(lists) => lists.push(queue, shown),
        }
    }

    /// The first packet of a queue goes.
    #[inline(always)]
    pub fn pop(&mut self, queue: QueueId) -> Option<Record> {
        match self {
            One(ring) if queue.index() == 0 => ring.pop(),
            One(_) => None,
            Many(lists) => lists.pop(queue),
        }
    }

    /// The last one goes.
    pub fn pop_back(&mut self, queue: QueueId) -> Option<Record> {
        match self {
            One(ring) if queue.index() == 0 => ring.pop_back(),
            One(_) => None,
            Many(lists) => lists.pop_back(queue),
        }
    }
}
