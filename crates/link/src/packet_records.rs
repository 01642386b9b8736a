//! Packets as a scheme sees them: wire lengths, records, queue lengths and sojourn times.

use super::{LinkWires, share_of};
use packet::accounting::Accounting;
use packet::port::Offloads;
use packet::segment::wire_size;
use packet::{DropReason, Packet, wire};
use schemes::{Record, Size, Wires as _};
use units::{Bytes, Instant, Nanos, QueueId};

#[inline(always)]
pub(super) fn size(super_frames: bool, packet: &Packet) -> Size {
    if super_frames { wire_size(packet) } else { Size { packets: 1, bytes: Bytes::new(packet.len() as u64) } }
}

/// The sojourn time of a packet that arrived at `came` and was processed for `worked` nanoseconds.
#[inline(always)]
pub(super) fn sojourn_time(now: Instant, (came, worked): (Instant, u32)) -> Nanos {
    // A processing time that exceeds 32 bits of nanoseconds (4.3 s) was recorded as the maximum.
    now.since(came).saturating_sub(Nanos::new(worked.into()))
}

/// A run of equal keys. Packets that arrived together and were processed together have equal times and are recorded at once.
#[derive(Default)]
pub(super) struct KeyRun<K> {
    key: K,
    packets: u64,
}

impl<K: PartialEq> KeyRun<K> {
    /// Adds a packet. If its key differs, returns the key and count of the run before it.
    #[inline(always)]
    pub fn next(&mut self, of: K) -> Option<(K, u64)> {
        if self.key == of {
            self.packets += 1;
            return None;
        }
        // The initial run has no packets, so `finish` returns none for it.
        let before = std::mem::replace(self, KeyRun { key: of, packets: 1 });
        before.finish()
    }

    /// The last run.
    #[inline(always)]
    pub fn finish(self) -> Option<(K, u64)> {
        (self.packets > 0).then_some((self.key, self.packets))
    }
}

impl LinkWires {
    /// The wire bytes of a packet.
    #[inline(always)]
    pub(super) fn length(&self, packet: &Packet) -> u64 {
        size(self.super_frames, packet).bytes.get()
    }

    /// The wire bytes of all packets of `batch`.
    #[inline(always)]
    pub(super) fn bytes(&self, packets: &[Packet]) -> u64 {
        // The common case: every packet is as long on the wire as in its buffer.
        if !self.super_frames {
            return packets.iter().map(|packet| packet.len() as u64).sum();
        }
        packets.iter().map(|packet| self.length(packet)).sum()
    }

    /// Makes the waiting packets fit a port with fewer offloads: segments replace their super-frame.
    pub(super) fn refit(&mut self, can: Offloads, fates: &mut Accounting) {
        let LinkWires { queues, backlog, counters, stats: books, .. } = self;
        // The backlog counted a super-frame as one packet, and each of its segments is one too: count anew.
        *backlog = Size::default();
        for queue in 0..queues.len() {
            let before = queues.packets(queue);
            let done = queues.refit(queue, can, fates);
            (0..done.dropped).for_each(|_| books.record_drop(queue, DropReason::BadOffload));
            let packets = queues.packets(queue);
            counters.dropped += done.dropped;
            // Segments count as packets of their own: raise `offered`, so that the counters balance.
            counters.offered += (packets as u64 + done.dropped).saturating_sub(before as u64);
            backlog.packets += packets as u32;
            backlog.bytes += queues.size(queue).bytes;
        }
    }

    /// The record of a packet for its scheme.
    #[inline(always)]
    pub(super) fn record(&self, packet: &Packet) -> Record {
        self.record_of(packet, size(self.super_frames, packet))
    }

    /// The record of a packet of known size. The compiler drops the reads of fields that the caller does not use.
    #[inline(always)]
    pub(super) fn record_of(&self, packet: &Packet, size: Size) -> Record {
        let meta = packet.meta();
        Record {
            length: size.bytes.get() as u32,
            more: size.packets - 1,
            timestamp: meta.timestamp,
            queue: QueueId(meta.share().0),
            class: meta.class,
            ecn: meta.ecn,
            ..Record::default()
        }
    }

    /// The record of an arriving packet, with the fields that come from its bytes.
    #[inline(always)]
    pub(super) fn arrival(&self, packet: &Packet) -> Record {
        let l3 = packet.meta().l3 as usize;
        let flow_hash = self.hash_key.map_or(0, |key| wire::flow_hash(packet.bytes(), l3, key));
        let mut record = Record { flow_hash, ..self.record(packet) };
        if self.needs_hosts {
            let wire::HostHashes { source, destination, dscp } = wire::hosts(packet.bytes(), l3, self.key);
            record = Record { source, destination, dscp, ..record };
        }
        record
    }

    /// Drops the arriving packet, which was not enqueued.
    #[cold]
    pub(super) fn drop_arriving(&mut self) {
        self.arriving_marked = false;
        self.dropped.extend(self.arriving.take().map(|packet| (packet, DropReason::SchemeArrival)));
    }

    /// Removes the first packet of a queue and returns it with its size.
    #[inline(always)]
    pub(super) fn take(&mut self, queue: usize) -> Option<(Packet, Size)> {
        let super_frames = self.super_frames;
        let (packet, size) = self.queues.pop(queue, |packet| size(super_frames, packet))?;
        self.backlog.packets -= 1;
        self.backlog.bytes = Bytes::new(self.backlog.bytes.get() - size.bytes.get());
        Some((packet, size))
    }

    /// Counts the packets that left since the last call in the statistics. With many queues a packet's metadata is rarely in the cache. It is
    /// prefetched at dequeue and read only now, just before the transmission reads it too.
    #[inline]
    pub(super) fn record_departures(&mut self) {
        self.transmit();
        let LinkWires { now, out, leaving, stats: books, shares, super_frames, .. } = self;
        // `leaving` holds the groups of the last packets in `out`. Those before were counted already.
        let left = &out.as_slice()[out.len() - leaving.len()..];
        let mut alike = KeyRun::default();
        let mut enter =
            |((came, group), packets)| books.record_group_departure(group, sojourn_time(*now, came), packets);
        for (packet, group) in left.iter().zip(leaving.drain(..)) {
            let came = (packet.meta().timestamp, packet.meta().function_time);
            if let Some(shares) = shares {
                let bytes = size(*super_frames, packet).bytes.get();
                shares.record_departure(share_of(packet), bytes, sojourn_time(*now, came));
            }
            if let Some(before) = alike.next((came, group)) {
                enter(before);
            }
        }
        if let Some(last) = alike.finish() {
            enter(last);
        }
    }
}
