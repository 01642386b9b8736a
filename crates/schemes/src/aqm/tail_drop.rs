//! Drop tail and drop head: a full queue refuses the arriving packet, or drops the oldest.

use super::{Manage, QueueContext};
use crate::{Record, Size, Wires};
use units::{Bytes, Instant};

/// A full queue refuses the arriving packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    /// The most packets that wait.
    pub limit: u32,
    /// The most bytes that wait.
    pub bytes: Bytes,
}

/// A full queue drops from the front to make room for the arriving packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head(pub Tail);

impl Tail {
    /// The bounds of the queue.
    fn bounds(&self) -> Size {
        Size { packets: self.limit, bytes: self.bytes }
    }

    /// True if this packet fits into a queue of this size.
    #[inline(always)]
    fn fits(&self, size: Size, packet: &Record) -> bool {
        size.packets.saturating_add(packet.more) < self.limit
            && size.bytes + Bytes::new(packet.length.into()) <= self.bytes
    }
}

impl Manage for Tail {
    type Memory = ();

    #[inline(always)]
    fn arrive<W: Wires>(&mut self, (): &mut (), at: &mut QueueContext<'_, W>, packet: &Record) -> bool {
        self.fits(at.waiting, packet) && at.wires.enqueue(at.queue)
    }

    fn unconditional_bounds(&self) -> Option<Size> {
        Some(self.bounds())
    }

    #[inline(always)]
    fn send_unconditionally<W: Wires>(&mut self, (): &mut (), at: &mut QueueContext<'_, W>) {
        // No decision depends on the waiting time: any first packet may leave.
        at.wires.send_while(at.queue, Instant::START);
    }

    fn passes_when_idle(&self) -> bool {
        true
    }
}

impl Manage for Head {
    type Memory = ();
    const PUSHES_OUT: bool = true;

    fn arrive<W: Wires>(&mut self, (): &mut (), at: &mut QueueContext<'_, W>, packet: &Record) -> bool {
        // It does not fit an empty queue. Without this check the loop would first drop all waiting packets.
        if u64::from(packet.length) > self.0.bytes.get() || packet.packets() > self.0.limit {
            return false;
        }
        // Several small packets may have to make room for a large one. The loop is bounded by the largest packet length.
        while !self.0.fits(at.size(), packet) {
            if at.wires.drop_front(at.queue).is_none() {
                return false;
            }
        }
        at.wires.enqueue(at.queue)
    }

    fn unconditional_bounds(&self) -> Option<Size> {
        Some(self.0.bounds())
    }

    #[inline(always)]
    fn send_unconditionally<W: Wires>(&mut self, (): &mut (), at: &mut QueueContext<'_, W>) {
        at.wires.send_while(at.queue, Instant::START);
    }

    fn passes_when_idle(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::model::{Model, ModelFate};
    use crate::single::Single;
    use ModelFate::{Dropped, Refused, Sent};

    const SMALL: Tail = Tail { limit: 2, bytes: Bytes::new(1000) };

    #[test]
    fn full_queue_drops_the_arriving_or_the_oldest_packet() {
        let mut model = Model::default();
        let mut tail = Single::new(SMALL);
        model.arrive(&mut tail, &[100; 3]);
        model.ready(&mut tail, 9);
        assert_eq!(model.fates, [Refused(2), Sent(0), Sent(1)]);
        let mut model = Model::default();
        let mut head = Single::new(Head(SMALL));
        model.arrive(&mut head, &[100; 3]);
        model.ready(&mut head, 9);
        assert_eq!(model.fates, [Dropped(0), Sent(1), Sent(2)]);
    }

    #[test]
    fn head_drop_makes_room_for_a_long_packet_unless_it_never_fits() {
        let mut model = Model::default();
        let mut head = Single::new(Head(Tail { limit: 10, ..SMALL }));
        model.arrive(&mut head, &[300, 300, 300, 1001, 700]);
        model.ready(&mut head, 9);
        assert_eq!(model.fates, [Refused(3), Dropped(0), Dropped(1), Sent(2), Sent(4)]);
    }
}
