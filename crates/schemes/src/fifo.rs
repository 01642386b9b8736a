//! First in, first out, with tail drop: packets leave in the order they came; one that finds the queue full is dropped.
//!
//! The queue holds at most `limit` packets and `bytes` bytes. What every router does that was told nothing else.

use crate::{Next, Progress, Scheme, Wires};
use units::declare::{Declaration, OptionDeclaration, Unit};
use units::{Bytes, QueueId};

/// One queue, tail drop.
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    limit: u32,
    bytes: Bytes,
}

const QUEUE: QueueId = QueueId(0);

impl Fifo {
    /// As the configuration names it.
    pub const DECLARATION: Declaration = Declaration {
        name: "fifo",
        summary: "first in, first out; a packet that finds the queue full is dropped",
        source: "RFC 7567, section 2: tail drop",
        options: &[
            OptionDeclaration {
                name: "limit",
                unit: Unit::Count,
                default: "1000",
                least: 1,
                most: 65536,
                doc: "the most packets that wait",
            },
            OptionDeclaration {
                name: "bytes",
                unit: Unit::Size,
                default: "1gb",
                least: 1,
                most: 1 << 40,
                doc: "the most bytes that wait",
            },
        ],
    };

    /// At most `limit` packets and `bytes` bytes wait.
    pub fn new(limit: u32, bytes: Bytes) -> Fifo {
        Fifo { limit, bytes }
    }
}

impl<W: Wires> Scheme<W> for Fifo {
    #[inline]
    fn arrival(&mut self, wires: &mut W) {
        while let Some(packet) = wires.arriving() {
            let size = wires.size(QUEUE);
            if size.packets < self.limit && size.bytes + Bytes::new(packet.length.into()) <= self.bytes {
                wires.enqueue(QUEUE);
            }
        }
    }

    #[inline(always)]
    fn link_ready(&mut self, wires: &mut W) -> Progress {
        if wires.dequeue(QUEUE).is_none() {
            return Progress::None;
        }
        wires.transmit();
        Progress::Made
    }

    fn passes_when_idle(&self) -> bool {
        true
    }

    fn next(&self, wires: &W) -> Next {
        if wires.size(QUEUE).packets == 0 { Next::Idle } else { Next::Ready }
    }
}
