//! A card on a cable: frames come and go by a port of the machine, and the card's own rings stand before it.
//!
//! Whenever the router looks, everything that the kernel has for the card takes its place in the receive ring, or is lost.
//! As nothing was taken from the ring between two looks, exactly as many are lost as if each had come to it by itself. What
//! leaves is handed over at once; that the card's link would take its time is seen in how soon the transmit ring has room.

use super::{Card, Net};
use crate::frame::Tag;
use crate::net::card::{Frame, Waiting};
use link::medium::Crossing;
use packet::port::{Port, discard_refused};
use packet::{Batch, Pool};
use units::Instant;

/// The near end of a cable.
pub(crate) struct Cable {
    port: Box<dyn Port>,
    /// What is on its way in or out; empty otherwise.
    batch: Batch,
    /// Frames that the kernel refused.
    refused: u64,
}

impl Cable {
    pub fn new(port: Box<dyn Port>) -> Box<Cable> {
        Box::new(Cable { port, batch: Batch::new(), refused: 0 })
    }

    pub fn has_arrivals(&self) -> bool {
        self.port.has_arrivals()
    }

    pub fn room(&self) -> usize {
        self.port.room()
    }

    /// Frames that the kernel lost at this end.
    pub fn lost(&self) -> u64 {
        let counted = self.port.statistics();
        counted.lost_before_receive + counted.lost_after_transmit + self.refused
    }
}

impl Card {
    /// Takes what has come by the cable into the receive ring. Answers what finds no place there.
    fn take_in(&mut self, now: u64, pool: &mut Pool, mut lost: impl FnMut(Option<Tag>)) {
        let Some(mut cable) = self.cable.take() else { return };
        loop {
            cable.port.receive(Instant::new(now), &mut cable.batch, pool);
            let came = cable.batch.len();
            for packet in cable.batch.drain() {
                if self.ring.len() < self.slots {
                    pool.export(1);
                    self.enter(Waiting { at: now, what: Frame::Held(packet) });
                } else {
                    lost(Tag::read(packet.bytes()));
                    pool.give(packet);
                }
            }
            if came < packet::BATCH {
                self.cable = Some(cable);
                return;
            }
        }
    }
}

impl Net {
    /// Everything that has come to a card by its cable takes its place in the receive ring, or is lost.
    pub fn admit_by_cable(&mut self, index: usize, now: u64, pool: &mut Pool) {
        let mut lost = Vec::new();
        self.cards[index].take_in(now, pool, |tag| lost.push(tag));
        self.cards[index].counters.ring += lost.len() as u64;
        lost.into_iter().for_each(|tag| self.fate(tag, |fates| fates.ring += 1));
    }

    pub(super) fn receive_by_cable(&mut self, index: usize, now: u64, batch: &mut Batch, pool: &mut Pool) {
        self.admit_by_cable(index, now, pool);
        let before = batch.len();
        for _ in 0..self.cards[index].ring.len().min(batch.room()) {
            let Some(Waiting { at, what: Frame::Held(mut packet) }) = self.cards[index].ring.pop_front() else { break };
            pool.import(1);
            packet.meta_mut().timestamp = Instant::new(at);
            batch.push(packet);
        }
        self.handed_out(index, batch.len() - before);
    }

    pub(super) fn transmit_by_cable(&mut self, index: usize, now: u64, batch: &mut Batch, pool: &mut Pool) {
        let Some(mut cable) = self.cards[index].cable.take() else { return };
        for packet in batch.drain() {
            let tag = Tag::read(packet.bytes());
            if self.depart(index, now, packet.len(), tag) == Crossing::Lost {
                pool.give(packet);
                continue;
            }
            self.waited(tag, now.saturating_sub(packet.meta().timestamp.get()));
            cable.batch.push(packet);
        }
        if !cable.batch.is_empty() {
            cable.port.transmit(Instant::new(now), &mut cable.batch, pool);
            cable.refused += discard_refused(&mut cable.batch, pool) + cable.port.refused_late().packets;
        }
        self.cards[index].cable = Some(cable);
    }

    /// A packet of a source has waited so long in its router.
    fn waited(&mut self, tag: Option<Tag>, waited: u64) {
        let warmup = self.warmup;
        let Some(tag) = tag.filter(|tag| tag.born >= warmup) else { return };
        if let Some(flow) = self.flows.get_mut(tag.source) {
            flow.wait.record(waited);
        }
    }

    /// What the stations have counted by themselves belongs to the same world.
    pub fn join(&mut self, stations: Net) {
        for (flow, theirs) in self.flows.iter_mut().zip(&stations.flows) {
            flow.fates.iter_mut().zip(&theirs.fates).for_each(|(all, more)| *all += more);
        }
        self.others += &stations.others;
        self.sinks = stations.sinks;
        self.violations.list.extend(stations.violations.list);
        self.violations.more += stations.violations.more;
    }
}
