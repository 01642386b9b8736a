//! A meter shared by several threads: one rate for all members, divided max-min fairly by their demand.
//!
//! The time of the next packet is one number that all members advance (the generic cell rate algorithm: ITU-T I.371, annex A). So the sum of their
//! traffic conforms to the rate, regardless of who sends. Members take turns: none is more than a little ahead of the least-served member that has
//! packets, and none falls so far behind that it would save up credit. So each member gets its demand, or as much as every other member with a larger
//! demand.

use crate::meter::MOST_LATE;
use crate::{Bytes, Instant, Nanos, Rate};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Units of time in a nanosecond.
const FRACTION: u64 = 16;
/// A member that had packets but has not asked for this long no longer holds the others up.
const PATIENCE: Nanos = Nanos::millis(1);
/// A member is ahead of another by at most the bytes of this time at the link rate, or by two full-size packets if those are more.
const MOST_AHEAD: Nanos = Nanos::micros(200);
const LEAST_AHEAD: u64 = 3028;

/// The state that all members share.
#[derive(Debug)]
struct Shared {
    rate: u64,
    /// Units of time that may be left unused.
    depth: u64,
    /// Bytes by which one may be ahead.
    ahead: u64,
    /// When the next packet may be sent, in units of time. It wraps around.
    due: AtomicU64,
    members: Box<[Member]>,
}

/// The state of one member, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Member {
    /// Bytes sent, plus the bytes of its share that the member had no packets for.
    sent: AtomicU64,
    /// When it last had a packet to send, in nanoseconds, shifted left by one. The lowest bit is set if it has not sent since.
    last_demand: AtomicU64,
}

/// One member's part of a shared meter.
#[derive(Clone, Debug)]
pub struct SharedMeter {
    shared: Arc<Shared>,
    own: usize,
    /// The earliest time to ask again, as known at the last call.
    ready: Instant,
    /// The last call of `catch_up`.
    caught_up: Instant,
}

impl SharedMeter {
    /// Parts for `members` in a rate of at least one bit per second, of which `burst` bytes may be left unused and sent later.
    pub fn parts(rate: Rate, burst: Bytes, members: usize) -> impl Iterator<Item = SharedMeter> {
        let of = |span: Nanos| (u128::from(rate.get()) * u128::from(span.get()) / 8_000_000_000) as u64;
        let shared = Arc::new(Shared {
            rate: rate.get().max(1),
            depth: units(rate.time_for(burst)),
            ahead: of(MOST_AHEAD).max(LEAST_AHEAD),
            due: AtomicU64::new(0),
            members: (0..members).map(|_| Member::default()).collect(),
        });
        (0..members).map(move |own| SharedMeter {
            shared: shared.clone(),
            own,
            ready: Instant::START,
            caught_up: Instant::START,
        })
    }

    /// True if this member, which has a packet to send, may send it.
    pub fn allows(&mut self, now: Instant) -> bool {
        let least = self.least_of_others(now);
        let own = &self.shared.members[self.own];
        own.last_demand.store(now.get() << 1 | 1, Relaxed);
        if let Some(least) = least {
            // A member that was idle gets no credit for that time. From now on the others wait for it.
            own.sent.fetch_max(least.saturating_sub(2 * self.shared.ahead), Relaxed);
        }
        let behind = self.until_due(now);
        if behind > 0 {
            self.ready = now + Nanos::new((behind as u64).div_ceil(FRACTION));
            return false;
        }
        // Relaxed order is enough: a stale count only shifts a turn by a packet. The rate is bounded by `due` alone.
        let sent = own.sent.load(Relaxed);
        if least.is_some_and(|least| sent > least + self.shared.ahead) {
            // The least-served members get their turns first. Each either sends or no longer holds the others up after `PATIENCE`.
            self.ready = now + Rate::bits(self.shared.rate).time_for(Bytes::new(self.shared.ahead / 4)).min(PATIENCE);
            return false;
        }
        true
    }

    /// Packets of this member have waited for the rate and leave only now: see [`Meter::catch_up`](crate::Meter::catch_up).
    pub fn catch_up(&mut self, now: Instant) {
        self.caught_up = now;
    }

    /// Accounts for a packet of `size` bytes that is being sent.
    pub fn charge(&mut self, size: Bytes, now: Instant) {
        let cost =
            (u128::from(size.get()) * 8_000_000_000 * u128::from(FRACTION)).div_ceil(self.shared.rate.into()) as u64;
        let unused = if self.caught_up == now { self.shared.depth.max(units(MOST_LATE)) } else { self.shared.depth };
        let earliest = units(now.since(Instant::START)).wrapping_sub(unused);
        let moved = |due: u64| {
            // Unused time beyond that is lost: the due time is never further in the past.
            let from = if (due.wrapping_sub(earliest) as i64) < 0 { earliest } else { due };
            Some(from.wrapping_add(cost))
        };
        let _ = self.shared.due.fetch_update(Relaxed, Relaxed, moved);
        let own = &self.shared.members[self.own];
        own.sent.fetch_add(size.get(), Relaxed);
        own.last_demand.fetch_and(!1, Relaxed);
        self.ready = now + Nanos::new((self.until_due(now).max(0) as u64).div_ceil(FRACTION));
    }

    /// The rate that all members share.
    pub fn rate(&self) -> Rate {
        Rate::bits(self.shared.rate)
    }

    /// When to ask again.
    pub fn ready(&self) -> Instant {
        self.ready
    }

    /// Units of time until a packet may be sent; zero or negative if one may be sent now.
    fn until_due(&self, now: Instant) -> i64 {
        self.shared.due.load(Relaxed).wrapping_sub(units(now.since(Instant::START))) as i64
    }

    /// The bytes of the least-served of the other members that have packets to send.
    fn least_of_others(&self, now: Instant) -> Option<u64> {
        let others = self.shared.members.iter().enumerate().filter(|(member, _)| *member != self.own);
        let wanting = others.map(|(_, member)| member).filter(|member| {
            let wants = member.last_demand.load(Relaxed);
            wants & 1 == 1 && now.since(Instant::new(wants >> 1)) <= PATIENCE
        });
        wanting.map(|member| member.sent.load(Relaxed)).min()
    }
}

/// A span in units of time. It wraps around.
fn units(span: Nanos) -> u64 {
    span.get().wrapping_mul(FRACTION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    #[allow(unused_imports)]
    use std::prelude::v1::*;

    const PACKET: Bytes = Bytes::new(1000);

    /// Bytes that each member has sent after 100 ms. Each member has a packet at the intervals in `wants`; members are polled every `step`.
    fn shares(rate: Rate, wants: &[Nanos], step: Nanos) -> Vec<u64> {
        let mut parts: Vec<SharedMeter> = SharedMeter::parts(rate, Bytes::new(2000), wants.len()).collect();
        let (mut sent, mut next) = (vec![0; wants.len()], vec![Instant::START; wants.len()]);
        let mut waits = vec![false; wants.len()];
        let mut now = Instant::new(1);
        let end = now + Nanos::millis(100);
        while now < end {
            for (member, part) in parts.iter_mut().enumerate() {
                if waits[member] {
                    part.catch_up(now);
                }
                while next[member] <= now && part.allows(now) {
                    part.charge(PACKET, now);
                    sent[member] += PACKET.get();
                    next[member] += wants[member];
                }
                waits[member] = next[member] <= now;
            }
            now += step;
        }
        sent
    }

    #[test]
    fn shared_meter_divides_rate_max_min_fairly() {
        // 1 Gbit/s is 12.5 MB in 100 ms.
        let always = Nanos::ZERO;
        let both = shares(Rate::gbit(1), &[always, always], Nanos::micros(3));
        let (one, other) = (both[0], both[1]);
        assert!(one.abs_diff(other) <= 60_000 && (12_300_000..=12_510_000).contains(&(one + other)), "{one}, {other}");
        // The second member wants a fifth of the rate, the third almost nothing.
        let wants = [always, Nanos::micros(40), Nanos::millis(50)];
        let all = shares(Rate::gbit(1), &wants, Nanos::micros(3));
        let (one, other, third) = (all[0], all[1], all[2]);
        assert!((2_450_000..=2_510_000).contains(&other) && third == 2000, "{one}, {other}, {third}");
        assert!((9_700_000..=10_060_000).contains(&one), "the first has what is left: {one}");
        // Polled at intervals that are six times its burst, it loses no rate.
        let late: u64 = shares(Rate::gbit(1), &[always, always], Nanos::micros(100)).iter().sum();
        assert!((12_300_000..=12_510_000).contains(&late), "{late}");
    }

    proptest! {
        /// Members ask in any order and at any time.
        #[test]
        fn members_together_never_exceed_the_rate(
            rate in 1_000_000u64..100_000_000_000,
            steps in prop::collection::vec((0usize..3, 0u64..50_000, 64u64..1515), 1..300),
        ) {
            let burst = Bytes::new(3000);
            let mut parts: Vec<SharedMeter> = SharedMeter::parts(Rate::bits(rate), burst, 3).collect();
            let (mut now, mut bytes) = (Instant::new(1), 0u128);
            for (member, wait, length) in steps {
                now += Nanos::new(wait);
                if parts[member].allows(now) {
                    let most = u128::from(rate) * u128::from(now.get()) + u128::from(burst.get()) * 8_000_000_000;
                    prop_assert!(bytes * 8_000_000_000 <= most + 16 * u128::from(rate), "{} before the last", bytes);
                    parts[member].charge(Bytes::new(length), now);
                    bytes += u128::from(length);
                } else {
                    prop_assert!(parts[member].ready() > now, "it is told when to ask again");
                }
            }
        }
    }
}
