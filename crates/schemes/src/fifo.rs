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
        cost: units::declare::DeclaredCost::None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Fate, Model};
    use crate::{DECLARATIONS, build};
    use Fate::{Refused, Sent};
    use alloc::vec::Vec;

    #[test]
    fn packets_leave_in_the_order_they_came_as_the_link_takes_them() {
        let (mut fifo, mut model) = (Fifo::new(10, Bytes::new(10_000)), Model::default());
        model.arrive(&mut fifo, &[100; 4]);
        assert_eq!(Scheme::<Model>::next(&fifo, &model), Next::Ready);
        model.ready(&mut fifo, 3);
        model.arrive(&mut fifo, &[100]);
        model.ready(&mut fifo, 9);
        assert_eq!(model.fates, [Sent(0), Sent(1), Sent(2), Sent(3), Sent(4)]);
        assert_eq!(Scheme::<Model>::next(&fifo, &model), Next::Idle);
    }

    #[test]
    fn a_packet_that_finds_the_queue_full_is_refused_and_those_waiting_stay() {
        let (mut fifo, mut model) = (Fifo::new(2, Bytes::new(10_000)), Model::default());
        model.arrive(&mut fifo, &[100; 4]);
        model.ready(&mut fifo, 1);
        model.arrive(&mut fifo, &[100; 2]);
        model.ready(&mut fifo, 9);
        assert_eq!(model.fates, [Refused(2), Refused(3), Sent(0), Refused(5), Sent(1), Sent(4)]);
    }

    #[test]
    fn bytes_are_bounded_too_and_a_small_packet_may_fit_where_a_large_one_did_not() {
        let (mut fifo, mut model) = (Fifo::new(10, Bytes::new(1000)), Model::default());
        model.arrive(&mut fifo, &[600, 600, 400, 1]);
        model.ready(&mut fifo, 9);
        assert_eq!(model.fates, [Refused(1), Refused(3), Sent(0), Sent(2)]);
    }

    #[test]
    fn every_declared_scheme_can_be_built_with_its_defaults_and_nothing_else() {
        for declaration in DECLARATIONS {
            let default = |o: &OptionDeclaration| (o.name, o.unit.read(o.default).unwrap());
            let options: Vec<_> = declaration.options.iter().map(default).collect();
            assert!(options.iter().zip(declaration.options).all(|((_, v), o)| (o.least..=o.most).contains(v)));
            assert!(build::<Model>(declaration.name, &options).is_ok());
            assert!(build::<Model>(declaration.name, &[]).is_err());
        }
        assert!(build::<Model>("none", &[]).is_err());
    }
}
