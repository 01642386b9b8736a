//! The pseudocode of RFC 8289, section 5, with its loop; and the two older ways to count drops.

use crate::ReferenceScheme;
use schemes::Record;
use schemes::model::ModelFate;
use std::collections::VecDeque;
use units::{Instant, Nanos};

const TARGET: Nanos = Nanos::millis(5);
const INTERVAL: Nanos = Nanos::millis(100);
const MTU: u64 = 1514;

/// The drop count with which dropping restarts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestartVariant {
    Rfc8289,
    Acm2012,
    Sfqcodel,
}

impl RestartVariant {
    pub const ALL: [RestartVariant; 3] = [RestartVariant::Rfc8289, RestartVariant::Acm2012, RestartVariant::Sfqcodel];

    pub fn name(self) -> &'static str {
        match self {
            RestartVariant::Rfc8289 => "rfc8289",
            RestartVariant::Acm2012 => "acm2012",
            RestartVariant::Sfqcodel => "sfqcodel",
        }
    }
}

/// Waiting packets: their numbers, arrival times and lengths.
pub type Waiting = VecDeque<(usize, Instant, u64)>;

/// CoDel's state of a queue.
#[derive(Clone, Copy, Debug)]
pub struct CoDel {
    count_restart: RestartVariant,
    above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    before: u32,
    dropping: bool,
}

fn law(from: Instant, count: u32) -> Instant {
    from + Nanos::new((INTERVAL.get() as f64 / f64::from(count).sqrt()) as u64)
}

fn signed(now: Instant, then: Instant) -> i64 {
    now.get() as i64 - then.get() as i64
}

impl CoDel {
    pub fn new(again: RestartVariant) -> CoDel {
        CoDel { count_restart: again, above: None, drop_next: Instant::START, count: 0, before: 0, dropping: false }
    }

    /// The first packet, and whether it may be dropped. `backlog` is the total backlog.
    fn take(&mut self, queue: &mut Waiting, backlog: &mut u64, now: Instant) -> (Option<(usize, u64)>, bool) {
        let Some((number, came, length)) = queue.pop_front() else {
            self.above = None;
            return (None, false);
        };
        *backlog -= length;
        if now.since(came) < TARGET || *backlog <= MTU || queue.is_empty() {
            self.above = None;
            return (Some((number, length)), false);
        }
        match self.above {
            None => self.above = Some(now + INTERVAL),
            Some(above) => return (Some((number, length)), now >= above),
        }
        (Some((number, length)), false)
    }

    fn dropped(packet: Option<(usize, u64)>) -> ModelFate {
        ModelFate::Dropped(packet.expect("there is one to drop").0)
    }

    /// The packet that leaves, with its length.
    pub fn dequeue(
        &mut self,
        queue: &mut Waiting,
        backlog: &mut u64,
        now: Instant,
        fates: &mut Vec<ModelFate>,
    ) -> Option<(usize, u64)> {
        let interval = INTERVAL.get() as i64;
        let (mut packet, mut ok) = self.take(queue, backlog, now);
        if packet.is_none() {
            self.dropping = false;
            return None;
        }
        if self.dropping {
            if !ok {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                fates.push(CoDel::dropped(packet));
                self.count += u32::from(self.count_restart != RestartVariant::Sfqcodel);
                (packet, ok) = self.take(queue, backlog, now);
                if ok {
                    self.count += u32::from(self.count_restart == RestartVariant::Sfqcodel);
                    self.drop_next = law(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok {
            let since = signed(now, self.drop_next);
            let enter = match self.count_restart {
                RestartVariant::Acm2012 => since < interval || signed(now, self.above.expect("it is late")) >= interval,
                _ => true,
            };
            if enter {
                fates.push(CoDel::dropped(packet));
                let count = self.count;
                (packet, _) = self.take(queue, backlog, now);
                self.dropping = true;
                self.count = match self.count_restart {
                    RestartVariant::Rfc8289
                        if i64::from(count) - i64::from(self.before) > 1 && since < 16 * interval =>
                    {
                        count - self.before
                    }
                    RestartVariant::Acm2012 if count > 2 && since < interval => count - 2,
                    RestartVariant::Sfqcodel if count > 2 && since < 8 * interval => count - 2,
                    _ => 1,
                };
                self.drop_next = law(now, self.count);
                self.before = self.count;
            }
        }
        packet
    }
}

/// A queue with CoDel.
pub struct Queue {
    codel: CoDel,
    queue: Waiting,
    backlog: u64,
    limit: usize,
}

impl Queue {
    pub fn new(limit: usize, again: RestartVariant) -> Queue {
        Queue { codel: CoDel::new(again), queue: Waiting::new(), backlog: 0, limit }
    }
}

impl ReferenceScheme for Queue {
    fn arrive(&mut self, number: usize, packet: &Record, fates: &mut Vec<ModelFate>) {
        if self.queue.len() >= self.limit {
            fates.push(ModelFate::Refused(number));
            return;
        }
        self.queue.push_back((number, packet.timestamp, packet.length.into()));
        self.backlog += u64::from(packet.length);
    }

    fn dequeue(&mut self, now: Instant, fates: &mut Vec<ModelFate>) {
        let packet = self.codel.dequeue(&mut self.queue, &mut self.backlog, now, fates);
        fates.extend(packet.map(|(number, _)| ModelFate::Sent(number)));
    }
}
