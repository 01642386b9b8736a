//! One queue of a device for several workers: its owner receives and transmits, and each of the others has a relay to it.
//!
//! What is received is spread by the hash of its flow, so that a flow is always on one worker; what is not IP stays with
//! the owner. What the others want transmitted goes out in turns, beside what the owner's own link sends.

use crate::fates::Fates;
use crate::port::{Lane, Port};
use packet::wire::{ethertype, flow_hash};
use packet::{Batch, DropReason, Packet};

/// Keys the hash by which flows are spread. Another than the schemes', so that their queues are not filled unevenly; fixed,
/// so that a flow stays on its worker for as long as the number of workers is the same.
const KEY: u64 = 0x8c3f_0e61_d7a5_492b;

/// The owner's side of what a queue of a device is to other workers.
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    /// Packets for each of the lanes, while a batch is spread.
    sorted: Vec<Batch>,
    own: Batch,
    out: Batch,
    /// The lane that transmits first next time.
    turn: usize,
    /// Whether the odd packet is the owner's this time.
    odd: bool,
    attached: bool,
}

/// What became of a batch that was spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Spread {
    /// Packets handed over.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Lanes {
    pub fn new(lanes: Vec<Lane>) -> Lanes {
        let sorted = lanes.iter().map(|_| Batch::new()).collect();
        Lanes { lanes, sorted, own: Batch::new(), out: Batch::new(), turn: 0, odd: false, attached: false }
    }

    /// Whether every other worker receives by now: nothing is received for one that does not yet.
    #[inline]
    pub fn is_attached(&mut self) -> bool {
        if !self.attached {
            self.attached = self.lanes.iter().all(Lane::is_attached);
        }
        self.attached
    }

    /// Hands the packets of other workers over; in `batch` stay the owner's, and those that found no room: they are
    /// refused. All keep their order.
    #[inline]
    pub fn spread(&mut self, batch: &mut Batch, stamped: bool, fates: &mut Fates) -> Spread {
        batch.as_slice().iter().for_each(Packet::prefetch_bytes);
        let workers = self.lanes.len() as u64 + 1;
        for packet in batch.drain() {
            match member(&packet, workers) {
                0 => self.own.push(packet),
                other => self.sorted[other - 1].push(packet),
            }
        }
        std::mem::swap(batch, &mut self.own);
        let mut spread = Spread::default();
        for (lane, sorted) in self.lanes.iter_mut().zip(&mut self.sorted) {
            if sorted.is_empty() {
                continue;
            }
            if !stamped {
                // Where it is received next, nobody knows when it came.
                sorted.as_mut_slice().iter_mut().for_each(|packet| packet.meta_mut().timestamp = fates.now);
            }
            let bytes = sorted.bytes();
            let handed = lane.hand_over(sorted, &mut fates.pool);
            fates.ledger.hand_over(handed as u64);
            spread.packets += handed as u64;
            spread.bytes += bytes - sorted.bytes();
            refuse(lane, sorted, batch);
        }
        spread
    }

    /// Transmits what other workers want transmitted, as far as `port` has room. Answers how many packets.
    #[inline]
    pub fn drain(&mut self, port: &mut dyn Port, fates: &mut Fates) -> usize {
        let mut drained = 0;
        let mut active = self.active();
        while active > 0 {
            let room = port.room();
            if room == 0 {
                return drained;
            }
            let share = (room / active).max(1);
            let (count, mut left) = (self.lanes.len(), room);
            for i in 0..count {
                let lane = &mut self.lanes[(self.turn + i) % count];
                left -= lane.take_over(&mut self.out, share.min(left), &mut fates.pool);
            }
            self.turn = (self.turn + 1) % count;
            self.odd = !self.odd;
            let packets = self.out.len();
            if packets == 0 {
                return drained;
            }
            fates.ledger.take_over(packets as u64);
            fates.ledger.send(packets as u64);
            port.transmit(fates.now, &mut self.out, &mut fates.pool);
            drained += packets;
            active = self.active();
        }
        drained
    }

    /// Lanes with something to transmit.
    #[inline]
    fn active(&self) -> usize {
        self.lanes.iter().filter(|lane| !lane.from.is_empty()).count()
    }

    /// How much of `room` the owner's own link leaves to the others.
    #[inline]
    pub fn reserve(&self, room: usize) -> usize {
        match self.active() {
            0 => 0,
            active if self.odd => room * active / (active + 1),
            active => (room * active).div_ceil(active + 1),
        }
    }

    /// Whether something waits to be transmitted.
    pub fn is_waiting(&self) -> bool {
        self.active() > 0
    }

    /// Whether nothing is to be transmitted, nor will be.
    pub fn is_finished(&self) -> bool {
        self.lanes.iter().all(|lane| lane.is_abandoned() && lane.from.is_empty())
    }

    /// Lets the other workers know what `port` is like now.
    pub fn reflect(&self, port: &dyn Port) {
        self.lanes.iter().for_each(|lane| lane.reflect(port));
    }

    /// Nothing is handed over any more.
    pub fn stop(&mut self) {
        self.lanes.iter_mut().for_each(Lane::stop);
    }

    /// Drops what other workers wanted transmitted. Answers whether they will want nothing more.
    pub fn discard(&mut self, reason: DropReason, fates: &mut Fates) -> bool {
        for lane in &mut self.lanes {
            while lane.take_over(&mut self.out, packet::BATCH, &mut fates.pool) > 0 {
                fates.ledger.take_over(self.out.len() as u64);
                self.out.drain().for_each(|packet| fates.drop(packet, reason));
            }
        }
        self.is_finished()
    }
}

/// Packets that found no room go back to the owner's, marked.
#[inline]
fn refuse(lane: &Lane, sorted: &mut Batch, own: &mut Batch) {
    if sorted.is_empty() {
        return;
    }
    let reason = if lane.is_abandoned() { DropReason::WorkerFailed } else { DropReason::HandOverFull };
    for mut packet in sorted.drain() {
        packet.meta_mut().refused = reason as u8 + 1;
        own.push(packet);
    }
}

/// Which of `workers` a packet belongs to; the owner of the queue is 0. Fragments are told apart by their addresses only,
/// so those of one packet stay together.
#[inline]
fn member(packet: &Packet, workers: u64) -> usize {
    let frame = packet.bytes();
    let Some(at) = network_header(frame) else { return 0 };
    if packet.meta().refused != 0 {
        return 0;
    }
    // Lemire 2019: the high bits of a product, instead of a division.
    ((u64::from(flow_hash(frame, at, KEY)) * workers) >> 32) as usize
}

/// Where the IP header begins; nothing in frames that carry something else.
#[inline]
fn network_header(frame: &[u8]) -> Option<usize> {
    const VLAN: u16 = 0x8100;
    let kind = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    let at = if kind(12)? == VLAN { 16 } else { 12 };
    matches!(kind(at)?, ethertype::IPV4 | ethertype::IPV6).then_some(at + 2)
}
