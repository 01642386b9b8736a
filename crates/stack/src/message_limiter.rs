//! Rate limits for ARP and neighbour discovery messages.
//!
//! Answers to our own requests are always accepted, and messages of a neighbour in use several times a second: both are few. All other messages share
//! a rate. Each sender has a slot, selected by a keyed hash of its addresses. One flooding sender therefore blocks few others.

use super::dad::DetectionState;
use super::{Key, LocalProtocols};
use crate::LocalProtocolLimits;
use std::net::{IpAddr, Ipv6Addr};
use units::{Bucket, Instant, InterfaceId, Mac, Nanos};

/// The number of slots for other senders.
const SLOTS: usize = 256;
/// The time for which the count of a slot holds.
const WINDOW: Nanos = Nanos::millis(100);
/// A slot may use this fraction of the rate in that time.
const PART: u64 = 64;
/// The least quota of a slot in that time, within the total rate.
const LEAST: u64 = 16;

/// The messages of other senders on a link.
#[derive(Debug)]
pub(super) struct MessageLimiter {
    total: Bucket,
    quota: u16,
    secret: u64,
    /// When all slots are reset.
    ends: Instant,
    counts: Box<[u16; SLOTS]>,
}

impl MessageLimiter {
    pub fn new(limits: LocalProtocolLimits) -> MessageLimiter {
        let rate = limits.neighbour_messages;
        let windows = Nanos::secs(1).get() / WINDOW.get();
        let each = (rate / windows / PART).max(LEAST);
        MessageLimiter {
            total: Bucket::per_second(rate, rate),
            quota: u16::try_from(each).unwrap_or(u16::MAX),
            secret: limits.secret,
            ends: Instant::START,
            counts: Box::new([0; SLOTS]),
        }
    }

    /// True if one more message of this sender is accepted.
    pub fn accept(&mut self, sender: IpAddr, station: Mac, now: Instant) -> bool {
        // A fixed window is enough here: one reset of all slots is cheaper than a time for each.
        if now >= self.ends {
            self.ends = now + WINDOW;
            self.counts.fill(0);
        }
        let heard = &mut self.counts[slot(sender, station, self.secret)];
        // The slot is checked first, so that a flooding sender uses no tokens of the others.
        if *heard >= self.quota || !self.total.take(now) {
            return false;
        }
        *heard += 1;
        true
    }
}

/// A double multiply and fold, so that every bit of the addresses affects the result (Knuth, TAOCP 3, 6.4).
fn slot(sender: IpAddr, station: Mac, secret: u64) -> usize {
    let address = match sender {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64 ^ address.to_bits() as u64,
    };
    let Mac([a, b, c, d, e, f]) = station;
    let mix = |x: u64| (x ^ x >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mix(mix(address ^ secret) ^ u64::from_be_bytes([0, 0, a, b, c, d, e, f])) >> 56) as usize
}

impl LocalProtocols {
    /// True if a message of `sender` about itself is accepted. `answers`: it may be the answer to a request.
    pub(super) fn accepts_message_from(&mut self, from: Key, station: Mac, answers: bool, now: Instant) -> bool {
        self.neighbours.accepts_message(from, Some(station), answers, now)
            || self.accepts_unsolicited(from, station, now)
    }

    /// True if a message that needs no known sender is accepted.
    pub(super) fn accepts_unsolicited(&mut self, (id, sender): Key, station: Mac, now: Instant) -> bool {
        self.interface_state(id).is_some_and(|attachment| attachment.message_limiter.accept(sender, station, now))
    }

    /// True if duplicate address detection is waiting for objections to a local address.
    pub(super) fn awaits_objection(&self, id: InterfaceId, address: Ipv6Addr) -> bool {
        let detection = self.interfaces.get(&id).and_then(|attachment| attachment.detections.get(&address));
        detection.is_some_and(|(detection, _)| *detection != DetectionState::Duplicate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn strangers(rate: u64) -> MessageLimiter {
        MessageLimiter::new(LocalProtocolLimits { neighbour_messages: rate, ..LocalProtocolLimits::default() })
    }

    #[test]
    fn flooding_sender_blocks_few_others() {
        let mut strangers = strangers(30_000);
        let sender = |n: u32| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n));
        let loud = (0..100_000).filter(|_| strangers.accept(sender(0), Mac::default(), Instant::new(1))).count();
        let others = (1..1000).filter(|&n| strangers.accept(sender(n), Mac([2; 6]), Instant::new(2))).count();
        assert_eq!(loud, 46, "a sixty-fourth of a tenth of a second");
        assert!(others > 980, "{others} of 999 others are heard");
    }

    #[test]
    fn unknown_senders_share_one_rate() {
        let mut strangers = strangers(1000);
        let at = |n: u32| Instant::START + Nanos::secs(10) + Nanos::micros(50) * u64::from(n);
        let sender = |n: u32| IpAddr::V4(Ipv4Addr::from_bits(n.wrapping_mul(2_654_435_761)));
        let heard = (0..100_000).filter(|&n| strangers.accept(sender(n), Mac::default(), at(n))).count();
        assert!((5900..=6000).contains(&heard), "a burst of one second, and five seconds: {heard}");
    }
}
