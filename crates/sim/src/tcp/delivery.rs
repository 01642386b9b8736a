//! How fast packets are delivered (draft-cheng-iccrg-delivery-rate-estimation): for each packet under way, what had been delivered when
//! it was sent. Kept only for controls that ask for it, which keep little under way.

use std::collections::VecDeque;
use units::{Instant, Nanos};

/// What was so when a packet was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    /// Packets delivered by then, the last of them when, and when it had been sent itself.
    delivered: u64,
    delivered_at: Instant,
    last_sent: Instant,
    /// Whether the application had nothing more.
    idle: bool,
}

/// How fast packets were delivered while one was under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivered {
    /// Packets.
    pub packets: u64,
    /// In this time: that of sending or of delivering them, whichever was longer.
    pub took: Nanos,
    /// Packets delivered ever when the one was sent, and now.
    pub before: u64,
    /// Packets delivered ever.
    pub total: u64,
    /// Whether the application was what held the sender back.
    pub idle: bool,
}

/// The deliveries of one sender.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivery {
    /// From `first` on.
    packets: VecDeque<Sent>,
    first: u64,
    delivered: u64,
    delivered_at: Instant,
    last_sent: Instant,
    /// Until so many have been delivered, samples are of an idle application.
    idle_until: u64,
    newest: Option<Sent>,
}

impl Delivery {
    /// Packet `seq` is sent, and so many were under way.
    pub fn sent(&mut self, now: Instant, seq: u64, in_flight: u64) {
        if in_flight == 0 {
            (self.last_sent, self.delivered_at) = (now, now);
        }
        let (delivered, idle) = (self.delivered, self.delivered < self.idle_until);
        let sent = Sent { at: now, delivered, delivered_at: self.delivered_at, last_sent: self.last_sent, idle };
        match self.packets.get_mut((seq - self.first) as usize) {
            Some(before) => *before = sent,
            None => self.packets.push_back(sent),
        }
    }

    /// The application has nothing more, and so many packets are under way.
    pub fn idle(&mut self, in_flight: u64) {
        self.idle_until = (self.delivered + in_flight).max(1);
    }

    /// Packet `seq` has come for the first time.
    pub fn came(&mut self, seq: u64) {
        let sent = seq.checked_sub(self.first).and_then(|place| self.packets.get(place as usize)).copied();
        if let Some(sent) = sent
            && self.newest.is_none_or(|newest| sent.delivered >= newest.delivered && sent.at >= newest.at)
        {
            self.newest = Some(sent);
        }
    }

    /// All that an acknowledgement told of has been told: so many packets have come, those before `first` among them.
    pub fn sample(&mut self, now: Instant, came: u64, first: u64) -> Option<Delivered> {
        if came > 0 {
            self.delivered += came;
            self.delivered_at = now;
        }
        let gone = (first.saturating_sub(self.first) as usize).min(self.packets.len());
        self.packets.drain(..gone);
        self.first = self.first.max(first);
        let sent = self.newest.take()?;
        self.last_sent = sent.at;
        let took = sent.at.since(sent.last_sent).max(now.since(sent.delivered_at));
        Some(Delivered {
            packets: self.delivered - sent.delivered,
            took,
            before: sent.delivered,
            total: self.delivered,
            idle: sent.idle,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_link_whatever_bursts_come() {
        let mut delivery = Delivery::default();
        let at = |millis| Instant::START + Nanos::millis(millis);
        // Ten packets at once, one delivered each 5 ms from 100 ms on; each answered by another.
        (0..10).for_each(|seq| delivery.sent(at(0), seq, seq));
        let mut last = None;
        for seq in 0..40 {
            let now = at(100 + 5 * seq);
            delivery.came(seq);
            last = delivery.sample(now, 1, seq + 1);
            delivery.sent(now, seq + 10, 9);
        }
        let sample = last.unwrap();
        assert_eq!((sample.packets, sample.took, sample.idle), (10, Nanos::millis(50), false));
        assert_eq!((sample.before, sample.total), (30, 40));
        delivery.idle(3);
        delivery.sent(at(400), 50, 3);
        (40..51).for_each(|seq| delivery.came(seq));
        assert!(delivery.sample(at(500), 11, 51).unwrap().idle);
    }
}
