//! The stations: sources and sinks at the far ends of the cables, in a thread of their own with counts of their own.

use super::pacer::{Common, Leaves};
use crate::describe::{End, World};
use crate::frame::Tag;
use crate::net::{Fates, Flow, Net};
use packet::port::{Port, discard_refused};
use packet::{Batch, Pool, Region};
use std::sync::Arc;
use units::Instant;

/// Frames of the stations' pool.
const FRAMES: usize = 4096;
/// Packets of a card that are sent before other cards are looked at.
const TURN: usize = 32;
/// Once nothing has come for so long, in nanoseconds of the machine, nothing is under way any more.
const QUIET: u64 = 20_000_000;

/// The stations of a world.
pub struct Stations {
    common: Arc<Common>,
    pub(crate) net: Net,
    /// The far end of each card's cable.
    ports: Vec<Box<dyn Port>>,
    pool: Pool,
    batch: Batch,
    /// When the world ends, and the interval of a series.
    end: u64,
    width: u64,
    /// Of each source, packets by when they were sent, an interval each.
    pub(crate) sent: Vec<Vec<u64>>,
    /// The most that a packet was sent late, in the time of the world.
    pub(crate) late: u64,
    /// Frames that the kernel refused.
    refused: u64,
}

impl Stations {
    pub(crate) fn new(world: &World, flows: Vec<Flow>, common: Arc<Common>, ports: Vec<Box<dyn Port>>) -> Stations {
        let sent = vec![Vec::new(); flows.len()];
        let net = Net::new(world, flows, &vec![None; world.cards.len()]);
        let (end, width) = (world.duration.get(), world.sample.get());
        let pool = Pool::new(Region::new(FRAMES));
        Stations { common, net, ports, pool, batch: Batch::new(), end, width, sent, late: 0, refused: 0 }
    }

    /// Sends and takes in until the router has come to the end of the world and nothing is under way any more.
    pub fn run(&mut self) {
        let leaves = Leaves::stations(&self.common);
        while !self.common.is_router_over() {
            let now = self.common.look().min(self.end);
            self.go_on(now);
        }
        let mut since = self.common.clock.now();
        while self.common.clock.now() < since + QUIET {
            if self.go_on(self.end) > 0 {
                since = self.common.clock.now();
            }
        }
        drop(leaves);
    }

    /// Sends what is due and takes in what has come. Answers the frames.
    fn go_on(&mut self, now: u64) -> usize {
        let sent: usize = (0..self.ports.len()).map(|card| self.send(card, now)).sum();
        let taken: usize = (0..self.ports.len()).map(|card| self.take(card, now)).sum();
        sent + taken
    }

    fn send(&mut self, card: usize, now: u64) -> usize {
        let room = self.ports[card].room().min(TURN);
        // What a source would send at the end of the world is not sent any more.
        while self.batch.len() < room && self.net.cards[card].next <= now && self.net.cards[card].next < self.end {
            let Some(mut packet) = self.pool.take() else { break };
            let (at, source, sequence) = self.net.made(card);
            self.net.print(card, &mut packet, Tag { born: at, sequence, source });
            let bucket = (at / self.width) as usize;
            let buckets = &mut self.sent[source];
            if bucket >= buckets.len() {
                buckets.resize(bucket + 1, 0);
            }
            buckets[bucket] += 1;
            self.late = self.late.max(now - at);
            self.batch.push(packet);
        }
        let sent = self.batch.len();
        if sent > 0 {
            let port = &mut self.ports[card];
            port.transmit(Instant::new(now), &mut self.batch, &mut self.pool);
            self.refused += discard_refused(&mut self.batch, &mut self.pool) + port.refused_late().packets;
        }
        sent
    }

    fn take(&mut self, card: usize, now: u64) -> usize {
        let Stations { net, ports, pool, batch, .. } = self;
        ports[card].receive(Instant::new(now), batch, pool);
        let taken = batch.len();
        for packet in batch.drain() {
            let (tag, length) = (Tag::read(packet.bytes()), packet.len());
            match net.cards[card].end {
                End::Sink(sink) => net.deliver(sink, now, length, tag, None),
                End::Card(_) | End::Nothing => net.fate(tag, |fates: &mut Fates| fates.nowhere += 1),
            }
            pool.give(packet);
        }
        taken
    }

    /// Frames that the kernel lost between the stations and the router: it did not take them, or had no room for them.
    pub(crate) fn lost(&self) -> u64 {
        let counted = self.ports.iter().map(|port| port.statistics());
        counted.map(|counted| counted.lost_before_receive + counted.lost_after_transmit).sum::<u64>() + self.refused
    }
}
