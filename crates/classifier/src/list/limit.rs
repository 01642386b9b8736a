//! The limit of a rule: a rate of packets or of bits, for the packets of all workers together.

use plan::{FilterLimit, LimitRate};
use std::sync::{Mutex, PoisonError};
use units::{Bucket, Bytes, Instant, Meter, Nanos};

/// The credit of a rule with a limit.
#[derive(Debug)]
pub struct RuleLimit {
    /// True if the rule is for the packets beyond the rate.
    over: bool,
    credit: Mutex<Credit>,
}

#[derive(Clone, Debug)]
enum Credit {
    Packets(Bucket),
    Bits(Meter),
}

impl RuleLimit {
    /// Full credit.
    pub fn new(limit: &FilterLimit) -> RuleLimit {
        let credit = match limit.rate {
            LimitRate::Packets { packets, per, burst } => {
                let period = u64::from(per.seconds()) * 1_000_000_000;
                Credit::Packets(Bucket::every(Nanos::new(period / u64::from(packets.max(1))), burst.into()))
            }
            LimitRate::Bits { rate, burst } => Credit::Bits(Meter::new(rate, burst)),
        };
        RuleLimit { over: limit.over, credit: Mutex::new(credit) }
    }

    /// True if the rule decides about an IP packet of this length. The packet then uses credit, except in a dry run.
    pub fn applies(&self, now: Instant, length: usize, dry_run: bool) -> bool {
        let mut credit = self.credit.lock().unwrap_or_else(PoisonError::into_inner);
        let within = if dry_run { credit.clone().admits(now, length) } else { credit.admits(now, length) };
        within != self.over
    }
}

impl Credit {
    fn admits(&mut self, now: Instant, length: usize) -> bool {
        match self {
            Credit::Packets(bucket) => bucket.take(now),
            Credit::Bits(meter) => {
                let allowed = meter.allows(now);
                if allowed {
                    meter.charge(Bytes::new(length as u64));
                }
                allowed
            }
        }
    }
}
