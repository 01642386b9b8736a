//! The wires of a link: the scheme's view of it and its actions on it.

use super::packet_records::{KeyRun, size, sojourn_time};
use super::{LinkWires, share_of};
use packet::pool::prefetch;
use packet::{DropReason, Packet, wire};
use schemes::{Record, Size, Wires};
use units::{Bytes, Instant, QueueId, Rate, ShareId};

impl Wires for LinkWires {
    #[inline(always)]
    fn now(&self) -> Instant {
        self.now
    }

    #[inline(always)]
    fn size(&self, queue: QueueId) -> Size {
        self.queues.size(queue.index())
    }

    #[inline(always)]
    fn head(&self, queue: QueueId) -> Option<Record> {
        self.queues.front(queue.index()).map(|packet| self.record(packet))
    }

    #[inline(always)]
    fn head_length(&self, queue: QueueId) -> Option<u32> {
        self.queues.front_bytes(queue.index(), |packet| self.length(packet)).map(|bytes| bytes as u32)
    }

    #[inline(always)]
    fn arriving(&mut self) -> Option<Record> {
        if self.arriving.is_some() {
            self.drop_arriving();
        }
        let packet = self.offered.pop_front()?;
        // Hashes are computed ahead in the order of `offered`, so the first hash is that of this packet.
        let record = match self.peeked.pop() {
            Some(flow_hash) => Record { flow_hash, ..self.record(&packet) },
            None => self.arrival(&packet),
        };
        self.flow = record.flow_hash;
        self.arriving = Some(packet);
        Some(record)
    }

    #[inline(always)]
    fn enqueue(&mut self, queue: QueueId) -> bool {
        let Some(packet) = self.arriving.take() else { return false };
        let size = size(self.super_frames, &packet);
        // The packet was marked before its queue was known: count the mark now.
        if self.arriving_marked {
            self.arriving_marked = false;
            self.stats.record_mark(queue.index());
        }
        // Orders choose a queue by the upper bits of the hash. Flows that share a queue differ in the lower bits.
        if self.isolates && self.queues.joins_another(queue.index(), self.flow as u16) {
            self.stats.record_collision(queue.index());
        }
        let share = share_of(&packet);
        if let Some(packet) = self.queues.push(queue.index(), packet, size) {
            self.stats.record_drop(queue.index(), DropReason::BufferFull);
            self.dropped.push((packet, DropReason::BufferFull));
            return false;
        }
        // The backlog counts a super-frame as one packet, like `offered` and `sent`. Only the lengths of single queues count its segments.
        self.backlog.packets += 1;
        self.backlog.bytes += size.bytes;
        if let Some(shares) = &self.shares {
            shares.record_enqueue(share, size.bytes.get());
        }
        true
    }

    fn drop_front(&mut self, queue: QueueId) -> Option<Record> {
        let (packet, size) = self.take(queue.index())?;
        let record = self.record_of(&packet, size);
        self.stats.record_drop(queue.index(), DropReason::SchemeFront);
        self.dropped.push((packet, DropReason::SchemeFront));
        Some(record)
    }

    fn drop_tail(&mut self, queue: QueueId) -> Option<Record> {
        let super_frames = self.super_frames;
        let (packet, size) = self.queues.pop_back(queue.index(), |packet| size(super_frames, packet))?;
        self.backlog.packets -= 1;
        self.backlog.bytes = Bytes::new(self.backlog.bytes.get() - size.bytes.get());
        let record = self.record_of(&packet, size);
        self.stats.record_drop(queue.index(), DropReason::SchemeTail);
        self.dropped.push((packet, DropReason::SchemeTail));
        Some(record)
    }

    #[inline(always)]
    fn dequeue(&mut self, queue: QueueId) -> Option<Record> {
        // The scheme has not transmitted the previous packet: it leaves now.
        if self.dequeued.is_some() {
            self.transmit();
        }
        if self.room == 0 {
            return None;
        }
        let (packet, size) = self.take(queue.index())?;
        let record = self.record_of(&packet, size);
        if self.queues.are_many() {
            // With many queues the metadata is rarely cached. It is read later, before the transmission.
            packet.prefetch_meta();
            self.leaving.push(self.stats.group(queue.index()));
        } else {
            let (came, worked) = (packet.meta().timestamp, packet.meta().function_time);
            self.stats.record_departure(queue.index(), sojourn_time(self.now, (came, worked)), 1);
        }
        self.room -= 1;
        // Counted here, where the size is known. A refusal of the port subtracts the bytes again.
        self.counters.sent_bytes += size.bytes.get();
        self.dequeued_from = queue.index();
        self.dequeued = Some(packet);
        Some(record)
    }

    #[inline(always)]
    fn transmit(&mut self) {
        if let Some(packet) = self.dequeued.take() {
            self.out.push(packet);
        }
    }

    fn mark(&mut self) -> bool {
        let Some(packet) = self.dequeued.as_mut().or(self.arriving.as_mut()) else { return false };
        let l3 = packet.meta().l3 as usize;
        if !wire::set_congestion_experienced(packet.bytes_mut(), l3) {
            return false;
        }
        // The metadata holds a copy of the field (RFC 3168: 3 is congestion experienced), from which records are made.
        packet.meta_mut().ecn = 3;
        self.counters.marked += 1;
        if let (Some(shares), Some(packet)) = (&self.shares, self.dequeued.as_ref().or(self.arriving.as_ref())) {
            shares.record_mark(share_of(packet));
        }
        match self.dequeued {
            Some(_) => self.stats.record_mark(self.dequeued_from),
            None => self.arriving_marked = true,
        }
        true
    }

    #[inline(always)]
    fn link_ready(&self) -> bool {
        self.room > 0
    }

    fn link_rate(&self) -> Rate {
        self.rate
    }

    #[inline(always)]
    fn enqueue_while(&mut self, queue: QueueId, bounds: Size) -> u32 {
        // Moving several packets would have to move their precomputed hashes too.
        if self.peeked.len() > 0 {
            return 0;
        }
        // The scheme did not enqueue the packet in the register, so it is dropped, as by `arriving`.
        if self.arriving.is_some() {
            self.drop_arriving();
        }
        let taken = self.queues.append(queue.index(), &mut self.offered, bounds, self.super_frames);
        self.backlog.packets += taken.packets;
        self.backlog.bytes += taken.bytes;
        taken.packets
    }

    #[inline(always)]
    fn send_while(&mut self, queue: QueueId, since: Instant) -> u32 {
        // The packet in the register was dequeued first, so it leaves first.
        self.transmit();
        let LinkWires { now, queues, out, stats: books, super_frames, .. } = self;
        let mut waited = KeyRun::default();
        let see = |packet: &Packet| {
            let (came, worked) = (packet.meta().timestamp, packet.meta().function_time);
            // `see` is also called for the packet that ends the run. It stays, so it must not be counted.
            let go = came >= since;
            if go && let Some((alike, packets)) = waited.next((came, worked)) {
                books.record_departure(queue.index(), sojourn_time(*now, alike), packets);
            }
            go
        };
        let sent = queues.pop_while((queue.index(), self.room), out, see, *super_frames);
        if let Some((alike, packets)) = waited.finish() {
            books.record_departure(queue.index(), sojourn_time(*now, alike), packets);
        }
        self.room -= sent.packets as usize;
        self.backlog.packets -= sent.packets;
        self.backlog.bytes = Bytes::new(self.backlog.bytes.get() - sent.bytes.get());
        self.counters.sent_bytes += sent.bytes.get();
        sent.packets
    }

    #[inline(always)]
    fn peek_arriving(&mut self) -> Option<Record> {
        // Only flow hashes are kept. A scheme that uses hosts needs more of the record.
        if self.needs_hosts || self.peeked.is_full() {
            return None;
        }
        let record = self.arrival(self.offered.as_slice().get(self.peeked.len())?);
        if let Some(shares) = &self.shares {
            shares.prefetch(ShareId(record.queue.0));
        }
        self.peeked.add(record.flow_hash);
        Some(record)
    }

    #[inline(always)]
    fn prefetch_queue(&self, queue: QueueId) {
        self.queues.prefetch(queue.index());
    }

    #[inline(always)]
    fn prefetch_head(&self, queue: QueueId, bytes: u32) {
        self.queues.heads(queue.index(), bytes, Packet::prefetch_meta);
    }

    #[inline(always)]
    fn prefetch<T>(&self, kept: &T) {
        prefetch(kept);
    }
}
