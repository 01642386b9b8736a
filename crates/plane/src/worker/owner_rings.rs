//! The rings that carry packets from the worker that received them to their owner (adr 0040). There is a ring for each pair of workers. Its room
//! is divided into queues, so that an overload of one takes no room from the others.

use crate::hook::{MOST_QUEUES, Owner};
use crate::parker::Parker;
use crate::relay::count_stranded;
use packet::spsc::{Consumer, Producer, RingConsumer, RingProducer, ring};
use packet::{Batch, Packet, StallCounters, StallMeter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use units::Instant;

/// The capacity of a ring, in packets.
const RING: usize = 1024;

/// The number of packets of each queue that the reader of a ring has dequeued.
type DequeueCounts = Arc<[AtomicU32; MOST_QUEUES]>;

/// A worker's ends of all rings: made with the first hook and kept from then on.
pub(crate) struct OwnerRings {
    /// By worker. `None` for itself.
    to: Vec<Option<RingWriter>>,
    from: Vec<Option<RingReader>>,
    /// Packets that fit, while they are handed over.
    fitting: Batch,
    /// Packets of a batch that stay, while it is sorted.
    pub kept: Batch,
    /// Packets that did not fit.
    pub overflow: Batch,
    /// Packets of the overflow that continue here unexecuted.
    pub passing: Batch,
    /// Packets handed over.
    pub handed: u64,
}

/// The writer's end of a ring.
struct RingWriter {
    ring: RingProducer<Packet>,
    parker: Arc<Parker>,
    /// Packets for it, while a batch is sorted.
    sorted: Batch,
    /// The number of packets of each queue that were put into the ring.
    enqueued: [u32; MOST_QUEUES],
    dequeued: DequeueCounts,
    /// True if its packets were counted when the reader had ended.
    stranded_counted: bool,
    /// Stalls: a packet found the ring, or its queue's share of it, full.
    stall: StallMeter,
}

/// The reader's end of a ring.
struct RingReader {
    ring: RingConsumer<Packet>,
    dequeued: DequeueCounts,
}

impl OwnerRings {
    /// The ends of all workers, in the order of workers.
    pub fn of(bells: &[Arc<Parker>]) -> Vec<OwnerRings> {
        let count = bells.len();
        let mesh = |_| OwnerRings {
            to: (0..count).map(|_| None).collect(),
            from: (0..count).map(|_| None).collect(),
            fitting: Batch::new(),
            kept: Batch::new(),
            overflow: Batch::new(),
            passing: Batch::new(),
            handed: 0,
        };
        let mut all: Vec<OwnerRings> = (0..count).map(mesh).collect();
        for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))).filter(|(f, t)| f != t) {
            let (producer, consumer) = ring(RING);
            let (bell, taken) = (bells[to].clone(), DequeueCounts::default());
            all[to].from[from] = Some(RingReader { ring: consumer, dequeued: taken.clone() });
            let (sorted, put) = (Batch::new(), [0; MOST_QUEUES]);
            all[from].to[to] = Some(RingWriter {
                ring: producer,
                parker: bell,
                sorted,
                enqueued: put,
                dequeued: taken,
                stranded_counted: false,
                stall: StallMeter::default(),
            });
        }
        all
    }

    /// The number of workers that may hand packets to this one.
    pub fn sources(&self) -> usize {
        self.from.len()
    }

    /// Packets queued for this worker.
    pub fn waiting(&self) -> u64 {
        self.from.iter().flatten().map(|way| way.ring.queued() as u64).sum()
    }

    pub fn has_mail(&self) -> bool {
        self.from.iter().flatten().any(|way| !way.ring.is_empty())
    }

    /// Packets handed to workers that have ended, counted once each.
    pub fn take_stranded(&mut self) -> usize {
        let gone = |way: &&mut RingWriter| way.ring.is_abandoned() && !way.stranded_counted;
        let mourn = |way: &mut RingWriter| {
            way.stranded_counted = true;
            count_stranded(&way.ring)
        };
        self.to.iter_mut().flatten().filter(gone).map(mourn).sum()
    }

    /// True if there is a ring to this worker.
    #[inline]
    pub fn leads_to(&self, worker: usize) -> bool {
        self.to.get(worker).and_then(Option::as_ref).is_some_and(|way| !way.ring.is_abandoned())
    }

    /// Sorts a packet for a worker [with a ring](OwnerRings::leads_to).
    #[inline]
    pub fn sort(&mut self, owner: Owner, mut packet: Packet) {
        // `rounds` is free until classification: it carries the queue.
        packet.meta_mut().rounds = owner.queue;
        match self.to.get_mut(owner.worker).and_then(Option::as_mut) {
            Some(way) => way.sorted.push(packet),
            None => self.overflow.push(packet),
        }
    }

    /// Counts the stalls of rings, until they have room again.
    #[inline]
    pub fn count_stalls(&mut self, now: Instant, stalls: &mut StallCounters) {
        for way in self.to.iter_mut().flatten().filter(|way| way.stall.is_stalled()) {
            // The share of a queue may still be used up. The next packet that finds it so begins another stall.
            way.stall.observe(way.ring.room() == 0 && !way.ring.is_abandoned(), now, stalls.handoff());
        }
    }

    /// Hands over the sorted packets. Each of `queues` queues has its share of the room. The rest is put into [`OwnerRings::overflow`].
    /// Returns the number of packets, and their bytes.
    pub fn hand_over(&mut self, queues: usize, now: Instant, stalls: &mut StallCounters) -> (usize, u64) {
        let OwnerRings { to, fitting, overflow: late, handed, .. } = self;
        let (mut packets, mut bytes, share) = (0, 0, RING / queues.clamp(1, MOST_QUEUES));
        for way in to.iter_mut().flatten().filter(|way| !way.sorted.is_empty()) {
            // A queue that was full for one packet is full for all behind it, even if the reader makes room meanwhile. Otherwise they would
            // overtake it.
            let (mut free, mut full) = (way.ring.room(), 0u16);
            const { assert!(MOST_QUEUES <= u16::BITS as usize) };
            for packet in way.sorted.drain() {
                let queue = queue_of(&packet);
                // Both counters wrap. `dequeued` may be stale, which only overestimates the queue.
                let waits = way.enqueued[queue].wrapping_sub(way.dequeued[queue].load(Ordering::Relaxed)) as usize;
                if free == 0 || waits >= share || full >> queue & 1 != 0 {
                    full |= 1 << queue;
                    late.push(packet);
                    continue;
                }
                free -= 1;
                way.enqueued[queue] = way.enqueued[queue].wrapping_add(1);
                fitting.push(packet);
            }
            (packets, bytes) = (packets + fitting.len(), bytes + fitting.bytes());
            way.stall.observe(full != 0 && !way.ring.is_abandoned(), now, stalls.handoff());
            way.ring.push_many(fitting.len(), fitting.drain());
            // After the packets are published: the woken worker must see them.
            way.parker.unpark();
        }
        *handed += packets as u64;
        (packets, bytes)
    }

    /// The next packet from worker `from`.
    pub fn peek(&self, from: usize) -> Option<&Packet> {
        self.from.get(from)?.as_ref()?.ring.peek()
    }

    /// Dequeues it.
    pub fn take(&mut self, from: usize) -> Option<Packet> {
        let RingReader { ring, dequeued: taken } = self.from.get_mut(from)?.as_mut()?;
        let packet = ring.pop()?;
        let taken = &taken[queue_of(&packet)];
        // Only this worker writes the counter, so a plain load and store suffice.
        taken.store(taken.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        Some(packet)
    }

    /// Drops the packets being handled, uncounted: the worker has failed.
    pub fn clear(&mut self) {
        self.to.iter_mut().flatten().for_each(|way| way.sorted = Batch::new());
        let OwnerRings { fitting, kept, overflow: late, passing, .. } = self;
        [fitting, kept, late, passing].into_iter().for_each(|batch| *batch = Batch::new());
    }
}

/// The queue of a packet on a ring.
fn queue_of(packet: &Packet) -> usize {
    usize::from(packet.meta().rounds) % MOST_QUEUES
}
