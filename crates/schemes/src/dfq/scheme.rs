//! The scheme as the link calls it.

use super::grants::BEST_EFFORT;
use super::{ARRIVALS, DiscretizedFairQueueing, NEAR, queue};
use crate::aqm::Evaluation;
use crate::{Group, Next, Progress, Record, Scheme, ShareEdit, ShareEdits, Size, Tell, Wires};
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;
use units::{Instant, QueueId, Rate, ShareId};

impl<W: Wires + 'static> Scheme<W> for DiscretizedFairQueueing {
    fn arrival(&mut self, wires: &mut W) {
        if self.places.len() > NEAR {
            // While the packets of one half arrive, the flows of the other half are on their way to the cache.
            let mut flows = [[BEST_EFFORT; ARRIVALS]; 2];
            let mut counts = [self.prefetch_arrivals(wires, &mut flows[0]), 0];
            for half in [0, 1].into_iter().cycle() {
                counts[1 - half] = self.prefetch_arrivals(wires, &mut flows[1 - half]);
                for flow in &flows[half][..counts[half]] {
                    let Some(packet) = wires.arriving() else { return };
                    debug_assert_eq!(
                        *flow,
                        self.flow_of(ShareId(packet.queue.0)),
                        "packets arrive as they were foreseen"
                    );
                    self.arrive(wires, *flow, &packet);
                }
                if counts[1 - half] == 0 {
                    break;
                }
            }
        }
        while let Some(packet) = wires.arriving() {
            self.arrive(wires, self.flow_of(ShareId(packet.queue.0)), &packet);
        }
    }

    fn link_ready(&mut self, wires: &mut W) -> Progress {
        self.evaluate(wires).progress()
    }

    fn next(&self, wires: &W) -> Next {
        if self.bytes == 0 {
            return Next::Idle;
        }
        // All packets outside of the cycle wait for its end, or for room in it.
        if self.sending.is_some() || self.allocation.is_in_cycle() || self.has_room() || self.is_due(wires.now()) {
            return Next::Ready;
        }
        let behind = Instant::new(self.busy.ready().get().saturating_sub(self.link.cycle.get()));
        Next::At(self.ends.max(behind))
    }

    /// Always: a share's quantum may be less than a packet.
    fn splits_super_frames(&self, _: Rate) -> bool {
        true
    }

    fn wants_flow_hash(&self) -> bool {
        self.aqm.wants_flow_hash()
    }

    fn queues(&self) -> u32 {
        self.count
    }

    fn groups(&self) -> Vec<Group> {
        [Group::new("best effort", 1), Group::new("shares", self.count - 1)].into()
    }

    fn queue_of(&self, packet: &Record) -> Option<QueueId> {
        Some(queue(self.flow_of(ShareId(packet.queue.0))))
    }

    fn state(&self, queue: QueueId, now: Instant, waiting: Size, tell: &mut Tell<'_>) {
        if queue.0 >= self.count {
            return;
        }
        let (credit, quanta, misses) = self.allocation.state(queue.0);
        for (name, value) in [("cycles", self.allocation.counts.cycles), ("stalls", self.stalls), ("quanta", quanta)] {
            tell(name, value as f64);
        }
        tell("misses", f64::from(misses));
        tell("credit", f64::from(credit));
        self.aqm.state(queue.index(), now, waiting, tell);
    }

    fn recount(&mut self, wires: &W) {
        (self.bytes, self.sending) = (0, None);
        // Queues without a flow never had packets.
        for flow in 0..self.places.len() as u32 {
            let size = wires.size(queue(flow));
            self.bytes += size.bytes.get();
            if size.packets == 0 {
                // The state of an empty queue must not refuse its next packet.
                self.aqm.emptied(flow as usize);
            }
            self.refresh(flow, wires);
            if size.packets == 0 && self.places[flow as usize].is_closing {
                self.finish_closing(flow);
            }
        }
    }

    fn tune(&mut self, other: &dyn Any, wires: &W) -> bool {
        let Some(other) = other.downcast_ref::<Self>() else { return false };
        if self.count != other.count || !self.aqm.tune(&other.aqm, |flow| wires.size(queue(flow as u32))) {
            return false;
        }
        let now = wires.now();
        self.link = other.link;
        self.allocation.set_cycle(self.link.cycle);
        for flow in 1..self.places.len() as u32 {
            if self.places[flow as usize].share != ShareId(0) {
                self.reserve(flow, now);
            }
        }
        // The next cycle begins within its own length, also if the former one was longer.
        self.ends = self.ends.min(now + self.link.cycle);
        true
    }

    fn tunable(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn next_message(&mut self) -> Option<String> {
        if self.refused == 0 || core::mem::replace(&mut self.told, true) {
            return None;
        }
        Some(alloc::format!(
            "all {} queues of the scheme 'dfq' are in use: packets of other shares are best effort; raise 'flows'",
            self.count
        ))
    }

    fn has_shares(&self) -> bool {
        true
    }

    fn edit_shares(&mut self, edits: &dyn Any, wires: &W) {
        let Some(ShareEdits(edits)) = edits.downcast_ref() else { return };
        for edit in edits.iter() {
            match edit {
                ShareEdit::Put(share, parameters) => self.put(*share, parameters, wires),
                ShareEdit::Remove(share) => self.remove(*share, wires),
            }
        }
    }

    fn serve(&mut self, wires: &mut W) {
        // The evaluation is inlined into this loop: it is most of the cost of a packet.
        while wires.link_ready() && self.evaluate(wires) != Evaluation::Nothing {}
    }
}
