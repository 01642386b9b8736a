//! The end systems: sources and sinks at the far ends of the cables. They have a thread and counters of their own.

use super::pacer::{EndNotice, WorldClock};
use crate::describe::{LinkEnd, WorldPlan};
use crate::frame::Tag;
use crate::net::{Fates, Net, TrafficSource};
use packet::port::{Port, discard_refused};
use packet::{Batch, Pool, Region};
use std::sync::Arc;
use units::Instant;

/// The frames of their pool.
const FRAMES: usize = 4096;
/// The most packets that one card sends before the next card's turn.
const TURN: usize = 32;
/// When no frame has arrived for so many nanoseconds of machine time, none is in flight any more.
const QUIET: u64 = 20_000_000;

/// The end systems of a world.
pub struct EndSystems {
    common: Arc<WorldClock>,
    pub(crate) net: Net,
    /// The far end of each card's cable.
    ports: Vec<Box<dyn Port>>,
    pool: Pool,
    batch: Batch,
    /// The end of the world, and the sampling interval.
    end: u64,
    width: u64,
    /// For each source, packets by send time, one count per interval.
    pub(crate) sent: Vec<Vec<u64>>,
    /// The longest delay of a packet behind its schedule, in world time.
    pub(crate) max_send_delay: u64,
    /// Frames that the kernel refused.
    refused: u64,
}

impl EndSystems {
    pub(crate) fn new(
        world: &WorldPlan,
        flows: Vec<TrafficSource>,
        common: Arc<WorldClock>,
        ports: Vec<Box<dyn Port>>,
    ) -> EndSystems {
        let sent = vec![Vec::new(); flows.len()];
        let net = Net::new(world, flows, &vec![None; world.cards.len()]);
        let (end, width) = (world.duration.get(), world.sample.get());
        let pool = Pool::new(Region::new(FRAMES));
        EndSystems { common, net, ports, pool, batch: Batch::new(), end, width, sent, max_send_delay: 0, refused: 0 }
    }

    /// Sends and receives until the router has reached the end of the world and no frame is in flight.
    pub fn run(&mut self) {
        let leaves = EndNotice::end_systems(&self.common);
        while !self.common.is_router_done() {
            let now = self.common.read().min(self.end);
            self.exchange(now);
        }
        let mut since = self.common.clock.now();
        while self.common.clock.now() < since + QUIET {
            if self.exchange(self.end) > 0 {
                since = self.common.clock.now();
            }
        }
        drop(leaves);
    }

    /// Sends packets that are due, and receives frames. Returns the number of both.
    fn exchange(&mut self, now: u64) -> usize {
        let sent: usize = (0..self.ports.len()).map(|card| self.send(card, now)).sum();
        let taken: usize = (0..self.ports.len()).map(|card| self.receive(card, now)).sum();
        sent + taken
    }

    fn send(&mut self, card: usize, now: u64) -> usize {
        let room = self.ports[card].room().min(TURN);
        // Packets due exactly at the end of the world are not sent.
        while self.batch.len() < room && self.net.cards[card].next <= now && self.net.cards[card].next < self.end {
            let Some(mut packet) = self.pool.take() else { break };
            let (at, source, sequence) = self.net.next_packet(card);
            self.net.write_frame(card, &mut packet, Tag { sent_at: at, sequence, source });
            let bucket = (at / self.width) as usize;
            let buckets = &mut self.sent[source];
            if bucket >= buckets.len() {
                buckets.resize(bucket + 1, 0);
            }
            buckets[bucket] += 1;
            self.max_send_delay = self.max_send_delay.max(now - at);
            self.batch.push(packet);
        }
        let sent = self.batch.len();
        if sent > 0 {
            let port = &mut self.ports[card];
            port.transmit(Instant::new(now), &mut self.batch, &mut self.pool);
            self.refused += discard_refused(&mut self.batch, &mut self.pool) + port.take_late_refusals().packets;
        }
        sent
    }

    fn receive(&mut self, card: usize, now: u64) -> usize {
        let EndSystems { net, ports, pool, batch, .. } = self;
        ports[card].receive(Instant::new(now), batch, pool);
        let taken = batch.len();
        for packet in batch.drain() {
            let (tag, length) = (Tag::read(packet.bytes()), packet.len());
            match net.cards[card].end {
                LinkEnd::Sink(sink) => net.deliver(sink, now, length, tag, None),
                LinkEnd::Card(_) | LinkEnd::Nothing => net.count_fate(tag, |fates: &mut Fates| fates.no_link += 1),
            }
            pool.give(packet);
        }
        taken
    }

    /// Frames that the kernel lost between end systems and router: it refused them, or had no room for them.
    pub(crate) fn lost(&self) -> u64 {
        let counted = self.ports.iter().map(|port| port.statistics());
        counted.map(|counted| counted.lost_before_receive + counted.lost_after_transmit).sum::<u64>() + self.refused
    }
}
