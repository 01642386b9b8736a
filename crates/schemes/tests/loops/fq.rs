//! FQ-CoDel by RFC 8290, sections 3 and 4, with its loops; and the variant of "No Silver Bullet", where a turn is one packet.

use crate::ReferenceScheme;
use crate::codel::{CoDel, Waiting};
use schemes::Record;
use schemes::model::ModelFate;
use std::collections::VecDeque;
use units::Instant;

/// One of the queues.
struct Bin {
    waiting: Waiting,
    codel: CoDel,
    credits: i64,
    listed: bool,
}

/// Queues, and the two lists of active ones.
pub struct Fair {
    bins: Vec<Bin>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    /// None if a turn is one packet: then no queue is new, and empty queues are in no list.
    quantum: Option<i64>,
    /// True if the first old queue has sent in this turn, if a turn is one packet.
    served: bool,
    backlog: u64,
    limit: usize,
}

impl Fair {
    pub fn new(bins: usize, quantum: i64, limit: usize, codel: CoDel) -> Fair {
        let bin = || Bin { waiting: Waiting::new(), codel, credits: 0, listed: false };
        let bins = (0..bins).map(|_| bin()).collect();
        Fair {
            bins,
            new: VecDeque::new(),
            old: VecDeque::new(),
            quantum: Some(quantum),
            served: false,
            backlog: 0,
            limit,
        }
    }

    pub fn in_turns(bins: usize, limit: usize, codel: CoDel) -> Fair {
        Fair { quantum: None, ..Fair::new(bins, 0, limit, codel) }
    }

    /// Section 4.1: half of the packets of the queue with the most bytes are dropped from its head, 64 at most.
    fn overflow(&mut self, fates: &mut Vec<ModelFate>) {
        let bytes = |bin: &Bin| bin.waiting.iter().map(|(.., length)| length).sum::<u64>();
        let fattest = self.bins.iter_mut().max_by_key(|bin| bytes(bin)).expect("there are some");
        for _ in 0..fattest.waiting.len().div_ceil(2).min(64) {
            let (number, _, length) = fattest.waiting.pop_front().expect("it has the most");
            self.backlog -= length;
            fates.push(ModelFate::Dropped(number));
        }
    }

    /// A turn ends when the next one begins: a queue that became active in between precedes the one that had the turn.
    fn turn(&mut self, now: Instant, fates: &mut Vec<ModelFate>) -> Option<(usize, u64)> {
        if std::mem::take(&mut self.served) {
            self.old.rotate_left(1);
        }
        let bin = *self.old.front()?;
        let Bin { waiting, codel, listed, .. } = &mut self.bins[bin];
        let packet = codel.dequeue(waiting, &mut self.backlog, now, fates);
        (*listed, self.served) = (!waiting.is_empty(), !waiting.is_empty());
        if !*listed {
            self.old.pop_front();
        }
        packet
    }

    /// Section 4.2.
    fn schedule(&mut self, quantum: i64, now: Instant, fates: &mut Vec<ModelFate>) -> Option<(usize, u64)> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let bin = *list.front()?;
            let Bin { waiting, codel, credits, listed } = &mut self.bins[bin];
            if *credits <= 0 {
                *credits += quantum;
                list.pop_front();
                self.old.push_back(bin);
                continue;
            }
            let packet = codel.dequeue(waiting, &mut self.backlog, now, fates);
            if let Some((_, length)) = packet {
                *credits -= length as i64;
                return packet;
            }
            list.pop_front();
            if is_new {
                self.old.push_back(bin);
            } else {
                *listed = false;
            }
        }
    }
}

impl ReferenceScheme for Fair {
    fn arrive(&mut self, number: usize, packet: &Record, fates: &mut Vec<ModelFate>) {
        let place = ((u64::from(packet.flow_hash) * self.bins.len() as u64) >> 32) as usize;
        let bin = &mut self.bins[place];
        bin.waiting.push_back((number, packet.timestamp, packet.length.into()));
        self.backlog += u64::from(packet.length);
        if !std::mem::replace(&mut bin.listed, true) {
            bin.credits = self.quantum.unwrap_or(0);
            let list = if self.quantum.is_some() { &mut self.new } else { &mut self.old };
            list.push_back(place);
        }
        if self.bins.iter().map(|bin| bin.waiting.len()).sum::<usize>() > self.limit {
            self.overflow(fates);
        }
    }

    fn dequeue(&mut self, now: Instant, fates: &mut Vec<ModelFate>) {
        let packet = match self.quantum {
            Some(quantum) => self.schedule(quantum, now, fates),
            None => self.turn(now, fates),
        };
        fates.extend(packet.map(|(number, _)| ModelFate::Sent(number)));
    }
}
