//! The ways by which packets come from the worker that received them to the one they belong to (adr 0040): a ring for each pair of workers, whose room
//! is divided into queues, so that what is too much of one takes no room from the others.

use crate::bell::Bell;
use crate::hook::{MOST_QUEUES, Owner};
use crate::relay::stranded;
use packet::{Batch, Packet};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Packets on their way from one worker to another.
const RING: usize = 1024;

/// How many packets of each queue have been taken, by the worker at the end of a way.
type Taken = Arc<[AtomicU32; MOST_QUEUES]>;

/// A worker's ends of all ways: made with the first station and kept from then on.
pub(crate) struct OwnerRings {
    /// By worker; none to itself.
    to: Vec<Option<Outgoing>>,
    from: Vec<Option<Incoming>>,
    /// What finds room, while it is handed over.
    fitting: Batch,
    /// What stays of a batch, while it is sorted.
    pub kept: Batch,
    /// What found no room on its way.
    pub late: Batch,
    /// What of that passes here unexecuted.
    pub passing: Batch,
    /// Packets handed over.
    pub handed: u64,
}

/// The beginning of a way.
struct Outgoing {
    ring: Producer<Packet>,
    bell: Arc<Bell>,
    /// What is to go it, while a batch is sorted.
    sorted: Batch,
    /// Packets of each queue that have been put into the ring.
    put: [u32; MOST_QUEUES],
    taken: Taken,
    /// Whether its packets were counted when the other worker had gone.
    mourned: bool,
}

/// The end of a way.
struct Incoming {
    ring: Consumer<Packet>,
    taken: Taken,
}

impl OwnerRings {
    /// The ends of all workers, in their order.
    pub fn of(bells: &[Arc<Bell>]) -> Vec<OwnerRings> {
        let count = bells.len();
        let mesh = |_| OwnerRings {
            to: (0..count).map(|_| None).collect(),
            from: (0..count).map(|_| None).collect(),
            fitting: Batch::new(),
            kept: Batch::new(),
            late: Batch::new(),
            passing: Batch::new(),
            handed: 0,
        };
        let mut all: Vec<OwnerRings> = (0..count).map(mesh).collect();
        for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))).filter(|(f, t)| f != t) {
            let (producer, consumer) = RingBuffer::new(RING);
            let (bell, taken) = (bells[to].clone(), Taken::default());
            all[to].from[from] = Some(Incoming { ring: consumer, taken: taken.clone() });
            let (sorted, put) = (Batch::new(), [0; MOST_QUEUES]);
            all[from].to[to] = Some(Outgoing { ring: producer, bell, sorted, put, taken, mourned: false });
        }
        all
    }

    /// Workers there may be ways from.
    pub fn sources(&self) -> usize {
        self.from.len()
    }

    /// Packets that wait for this worker.
    pub fn waiting(&self) -> u64 {
        self.from.iter().flatten().map(|way| way.ring.slots() as u64).sum()
    }

    pub fn has_mail(&self) -> bool {
        self.from.iter().flatten().any(|way| !way.ring.is_empty())
    }

    /// Packets handed to workers that are gone, counted once each.
    pub fn forsaken(&mut self) -> usize {
        let gone = |way: &&mut Outgoing| way.ring.is_abandoned() && !way.mourned;
        let mourn = |way: &mut Outgoing| {
            way.mourned = true;
            stranded(&way.ring)
        };
        self.to.iter_mut().flatten().filter(gone).map(mourn).sum()
    }

    /// Whether there is a worker at the end of the way to this one.
    #[inline]
    pub fn leads_to(&self, worker: usize) -> bool {
        self.to.get(worker).and_then(Option::as_ref).is_some_and(|way| !way.ring.is_abandoned())
    }

    /// Puts a packet aside that belongs to a worker [at the end of a way](OwnerRings::leads_to).
    #[inline]
    pub fn sort(&mut self, owner: Owner, mut packet: Packet) {
        // Nobody asks for its rounds until it is classified.
        packet.meta_mut().rounds = owner.queue;
        match self.to.get_mut(owner.worker).and_then(Option::as_mut) {
            Some(way) => way.sorted.push(packet),
            None => self.late.push(packet),
        }
    }

    /// Hands over what was put aside, where each of so many queues has its share of the room. The rest is [late](OwnerRings::late). Answers how many packets, and their bytes.
    pub fn hand_over(&mut self, queues: usize) -> (usize, u64) {
        let OwnerRings { to, fitting, late, handed, .. } = self;
        let (mut packets, mut bytes, share) = (0, 0, RING / queues.clamp(1, MOST_QUEUES));
        for way in to.iter_mut().flatten().filter(|way| !way.sorted.is_empty()) {
            // The queues that were full for one packet are for all behind it, whatever is taken meanwhile: it would be overtaken.
            let (mut free, mut full) = (way.ring.slots(), 0u16);
            const { assert!(MOST_QUEUES <= u16::BITS as usize) };
            for packet in way.sorted.drain() {
                let queue = queue_of(&packet);
                let waits = way.put[queue].wrapping_sub(way.taken[queue].load(Ordering::Relaxed)) as usize;
                if free == 0 || waits >= share || full >> queue & 1 != 0 {
                    full |= 1 << queue;
                    late.push(packet);
                    continue;
                }
                free -= 1;
                way.put[queue] = way.put[queue].wrapping_add(1);
                fitting.push(packet);
            }
            (packets, bytes) = (packets + fitting.len(), bytes + fitting.bytes());
            if let Ok(chunk) = way.ring.write_chunk_uninit(fitting.len()) {
                chunk.fill_from_iter(fitting.drain());
                way.bell.ring();
            }
        }
        *handed += packets as u64;
        (packets, bytes)
    }

    /// The packet that worker `from` brings next.
    pub fn peek(&self, from: usize) -> Option<&Packet> {
        self.from.get(from)?.as_ref()?.ring.peek().ok()
    }

    /// Takes it.
    pub fn take(&mut self, from: usize) -> Option<Packet> {
        let Incoming { ring, taken } = self.from.get_mut(from)?.as_mut()?;
        let packet = ring.pop().ok()?;
        let taken = &taken[queue_of(&packet)];
        // Nobody else writes to it.
        taken.store(taken.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        Some(packet)
    }

    /// Drops what is in hand, uncounted: the worker has failed.
    pub fn clear(&mut self) {
        self.to.iter_mut().flatten().for_each(|way| way.sorted = Batch::new());
        let OwnerRings { fitting, kept, late, passing, .. } = self;
        [fitting, kept, late, passing].into_iter().for_each(|batch| *batch = Batch::new());
    }
}

/// The queue of a packet on its way.
fn queue_of(packet: &Packet) -> usize {
    usize::from(packet.meta().rounds) % MOST_QUEUES
}
