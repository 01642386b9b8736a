//! Strict priority between classes: a packet leaves before all that wait with a lower class; of one class, first in, first out.
//!
//! What SELECT is where flows were promised something (Qie et al. 2001, section 3.1): the paths with a reservation are a class
//! above the others (`class` of a path), so that what best effort has queued before the link is never before them. Each class has
//! a queue with bounds of its own, for a full one must not take the room of another. Nothing bounds how long a lower class
//! waits: that is admission's to see to.

use crate::aqm::{BYTES, LIMIT};
use crate::options::{Unknown, Values};
use crate::{Next, Progress, Scheme, Wires};
use units::declare::{Declaration, OptionDeclaration, Unit};
use units::{Bytes, QueueId};

/// A queue for each class, served from the highest down.
#[derive(Clone, Copy, Debug)]
pub struct Priority {
    levels: u16,
    limit: u32,
    bytes: Bytes,
}

/// The most classes that are told apart.
const MOST_LEVELS: u64 = 8;

impl Priority {
    /// As the configuration names it.
    pub const DECLARATION: Declaration = Declaration {
        name: "priority",
        summary: "the highest class first; within one first in, first out, and a packet that finds its queue full is dropped",
        cost: units::declare::DeclaredCost::None,
        source: "RFC 2475, section 2.3.3.3; Qie et al. 2001, section 3.1",
        options: &[
            OptionDeclaration {
                name: "levels",
                unit: Unit::Count,
                default: "2",
                least: 2,
                most: MOST_LEVELS,
                doc: "how many classes are told apart, from 0; those above share the highest",
            },
            OptionDeclaration { doc: "the most packets of a class that wait", ..LIMIT },
            OptionDeclaration { doc: "the most bytes of a class that wait", ..BYTES },
        ],
    };

    /// So many classes, of each of which at most `limit` packets and `bytes` bytes wait.
    pub fn new(levels: u16, limit: u32, bytes: Bytes) -> Priority {
        Priority { levels: levels.max(1), limit, bytes }
    }

    /// With the values of its options.
    pub(crate) fn of(options: &Values<'_>) -> Result<Priority, Unknown> {
        let levels = u16::try_from(options.count("levels")?).unwrap_or(u16::MAX);
        Ok(Priority::new(levels, options.count("limit")?, options.bytes("bytes")?))
    }

    /// The queue of a class: the first is served first.
    #[inline(always)]
    fn queue(&self, class: u8) -> QueueId {
        let highest = self.levels - 1;
        QueueId(highest - u16::from(class).min(highest))
    }
}

impl<W: Wires> Scheme<W> for Priority {
    #[inline]
    fn arrival(&mut self, wires: &mut W) {
        while let Some(packet) = wires.arriving() {
            let queue = self.queue(packet.class);
            let size = wires.size(queue);
            if size.packets < self.limit && size.bytes + Bytes::new(packet.length.into()) <= self.bytes {
                wires.enqueue(queue);
            }
        }
    }

    #[inline(always)]
    fn link_ready(&mut self, wires: &mut W) -> Progress {
        for queue in 0..self.levels {
            if wires.dequeue(QueueId(queue)).is_some() {
                wires.transmit();
                return Progress::Made;
            }
        }
        Progress::None
    }

    fn passes_when_idle(&self) -> bool {
        true
    }

    fn queues(&self) -> u16 {
        self.levels
    }

    fn ranks_classes(&self) -> bool {
        true
    }

    fn next(&self, wires: &W) -> Next {
        let waits = (0..self.levels).any(|queue| wires.size(QueueId(queue)).packets > 0);
        if waits { Next::Ready } else { Next::Idle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Fate, Model};
    use Fate::{Refused, Sent};
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn the_highest_class_leaves_first_and_within_one_who_came_first() {
        let (mut scheme, mut model) = (Priority::new(2, 10, Bytes::new(10_000)), Model::default());
        model.arrive_as(&mut scheme, &[(100, 0), (100, 0), (100, 1), (100, 7), (100, 0)]);
        assert_eq!(Scheme::<Model>::next(&scheme, &model), Next::Ready);
        model.ready(&mut scheme, 3);
        model.arrive_as(&mut scheme, &[(100, 1)]);
        model.ready(&mut scheme, 9);
        assert_eq!(model.fates, [Sent(2), Sent(3), Sent(0), Sent(5), Sent(1), Sent(4)]);
        assert_eq!(Scheme::<Model>::next(&scheme, &model), Next::Idle);
    }

    #[test]
    fn a_class_whose_queue_is_full_takes_no_room_of_another() {
        let (mut scheme, mut model) = (Priority::new(2, 2, Bytes::new(150)), Model::default());
        model.arrive_as(&mut scheme, &[(50, 0), (50, 0), (50, 0), (100, 1), (100, 1), (50, 1)]);
        model.ready(&mut scheme, 9);
        assert_eq!(model.fates, [Refused(2), Refused(4), Sent(3), Sent(5), Sent(0), Sent(1)]);
    }

    /// What a list of packets with their classes, searched anew for each departure, would do.
    fn naive(steps: &[(Vec<(u32, u8)>, usize)], levels: u16, limit: usize) -> Vec<Fate> {
        let (mut waiting, mut number, mut fates): (VecDeque<(usize, u16)>, _, _) = (VecDeque::new(), 0, Vec::new());
        for (arrivals, room) in steps {
            for (_, class) in arrivals {
                let level = u16::from(*class).min(levels - 1);
                match waiting.iter().filter(|(_, l)| *l == level).count() < limit {
                    true => waiting.push_back((number, level)),
                    false => fates.push(Refused(number)),
                }
                number += 1;
            }
            for _ in 0..*room {
                let Some(highest) = waiting.iter().map(|(_, level)| *level).max() else { break };
                let at = waiting.iter().position(|(_, level)| *level == highest).unwrap();
                fates.push(Sent(waiting.remove(at).unwrap().0));
            }
        }
        fates
    }

    proptest! {
        #[test]
        fn it_does_what_a_search_through_all_that_waits_would(
            steps in prop::collection::vec((prop::collection::vec((1u32..100, 0u8..9), 0..20), 0usize..20), 0..12),
            levels in 2u16..=8,
            limit in 1usize..8,
        ) {
            let (mut scheme, mut model) = (Priority::new(levels, limit as u32, Bytes::new(1 << 30)), Model::default());
            for (arrivals, room) in &steps {
                model.arrive_as(&mut scheme, arrivals);
                model.ready(&mut scheme, *room);
            }
            prop_assert_eq!(model.fates, naive(&steps, levels, limit));
        }
    }
}
