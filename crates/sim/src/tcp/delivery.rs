//! Delivery rates (draft-cheng-iccrg-delivery-rate-estimation). For each packet in flight it stores the deliveries at its send time. It is kept only
//! for controls that need it; they keep little in flight.

use std::collections::VecDeque;
use units::{Instant, Nanos};

/// The state when a packet was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    /// Packets delivered by then, the time of the last delivery, and the send time of that packet.
    delivered: u64,
    delivered_at: Instant,
    last_sent: Instant,
    /// True if the application had no more data.
    app_limited: bool,
}

/// The deliveries during the flight of one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeliverySample {
    /// The number of packets delivered.
    pub packets: u64,
    /// The duration: of sending or of delivering these packets, the longer one.
    pub took: Nanos,
    /// The total of packets delivered when the packet was sent.
    pub before: u64,
    /// The total of packets delivered now.
    pub total: u64,
    /// True if the application limited the sender.
    pub app_limited: bool,
}

/// The delivery records of one sender.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivery {
    /// The packets from `first` on.
    packets: VecDeque<Sent>,
    first: u64,
    delivered: u64,
    delivered_at: Instant,
    last_sent: Instant,
    /// Samples are application-limited until this many packets have been delivered.
    app_limited_until: u64,
    newest: Option<Sent>,
}

impl Delivery {
    /// Packet `seq` is sent, with `in_flight` packets in flight.
    pub fn sent(&mut self, now: Instant, seq: u64, in_flight: u64) {
        // After an idle time the interval starts now; the silence is not part of a rate sample.
        if in_flight == 0 {
            (self.last_sent, self.delivered_at) = (now, now);
        }
        let (delivered, idle) = (self.delivered, self.delivered < self.app_limited_until);
        let sent =
            Sent { at: now, delivered, delivered_at: self.delivered_at, last_sent: self.last_sent, app_limited: idle };
        match self.packets.get_mut((seq - self.first) as usize) {
            Some(before) => *before = sent,
            None => self.packets.push_back(sent),
        }
    }

    /// The application has no more data, with `in_flight` packets in flight.
    pub fn idle(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    /// Packet `seq` has arrived for the first time.
    pub fn record_arrival(&mut self, seq: u64) {
        let sent = seq.checked_sub(self.first).and_then(|place| self.packets.get(place as usize)).copied();
        if let Some(sent) = sent
            && self.newest.is_none_or(|newest| sent.delivered >= newest.delivered && sent.at >= newest.at)
        {
            self.newest = Some(sent);
        }
    }

    /// Completes an acknowledgement: `came` packets have arrived, and all before `first` are acknowledged. Returns the rate sample.
    pub fn sample(&mut self, now: Instant, came: u64, first: u64) -> Option<DeliverySample> {
        if came > 0 {
            self.delivered += came;
            self.delivered_at = now;
        }
        let gone = (first.saturating_sub(self.first) as usize).min(self.packets.len());
        self.packets.drain(..gone);
        self.first = self.first.max(first);
        let sent = self.newest.take()?;
        self.last_sent = sent.at;
        // The longer of both intervals: compressed acknowledgements would otherwise give a rate above that of the link.
        let took = sent.at.since(sent.last_sent).max(now.since(sent.delivered_at));
        Some(DeliverySample {
            packets: self.delivered - sent.delivered,
            took,
            before: sent.delivered,
            total: self.delivered,
            app_limited: sent.app_limited,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_link_for_any_burst() {
        let mut delivery = Delivery::default();
        let at = |millis| Instant::START + Nanos::millis(millis);
        // Ten packets at once, then one delivery each 5 ms from 100 ms on; each triggers another packet.
        (0..10).for_each(|seq| delivery.sent(at(0), seq, seq));
        let mut last = None;
        for seq in 0..40 {
            let now = at(100 + 5 * seq);
            delivery.record_arrival(seq);
            last = delivery.sample(now, 1, seq + 1);
            delivery.sent(now, seq + 10, 9);
        }
        let sample = last.unwrap();
        assert_eq!((sample.packets, sample.took, sample.app_limited), (10, Nanos::millis(50), false));
        assert_eq!((sample.before, sample.total), (30, 40));
        delivery.idle(3);
        delivery.sent(at(400), 50, 3);
        (40..51).for_each(|seq| delivery.record_arrival(seq));
        assert!(delivery.sample(at(500), 11, 51).unwrap().app_limited);
    }
}
