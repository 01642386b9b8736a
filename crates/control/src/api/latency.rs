//! How long packets took.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long packets took, at one place or altogether. Times are those of vectors of packets wherever all of a vector came at
/// once.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Packets.
    pub packets: u64,
    /// All their times together.
    pub sum_ns: u64,
    /// Half of them took no longer; this and the next within a sixteenth, never less than it was.
    pub p50_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
    /// 999 of 1000 took no longer.
    pub p999_ns: u64,
    /// The longest time, exactly.
    pub max_ns: u64,
    /// All of them: packets that took longer than the bucket before says and no longer than this one.
    pub buckets: Vec<LatencyBucket>,
}

/// Packets that took about equally long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LatencyBucket {
    /// None took longer.
    pub most_ns: u64,
    /// How many.
    pub packets: u64,
}

impl Latency {
    /// As the plane has it; none where there were no packets.
    pub(crate) fn of(spread: &packet::latency::Spread) -> Option<Latency> {
        let at = |thousandths| spread.quantile(thousandths).map(units::Nanos::get);
        Some(Latency {
            packets: spread.count(),
            sum_ns: spread.sum().get(),
            p50_ns: at(500)?,
            p99_ns: at(990)?,
            p999_ns: at(999)?,
            max_ns: spread.most().get(),
            buckets: spread.buckets().map(|(most, packets)| LatencyBucket { most_ns: most.get(), packets }).collect(),
        })
    }

    /// Their mean, exactly.
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns / self.packets.max(1)
    }

    /// What this part of the packets, in thousandths, took no longer than, of those that came since it was `before`. None
    /// where none did.
    pub fn lately_ns(&self, before: Option<&Latency>, thousandths: u64) -> Option<u64> {
        let packets = self.packets.checked_sub(before.map_or(0, |before| before.packets))?;
        let had = |most_ns: u64| {
            let bucket = before?.buckets.iter().find(|bucket| bucket.most_ns == most_ns)?;
            Some(bucket.packets)
        };
        let rank = (packets * thousandths).div_ceil(1000).max(1);
        let mut below = 0;
        let reaches = |bucket: &&LatencyBucket| {
            below += bucket.packets.saturating_sub(had(bucket.most_ns).unwrap_or(0));
            below >= rank
        };
        self.buckets.iter().find(reaches).map(|bucket| bucket.most_ns.min(self.max_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(buckets: &[(u64, u64)], max_ns: u64) -> Latency {
        let packets = buckets.iter().map(|(_, packets)| packets).sum();
        let buckets = buckets.iter().map(|&(most_ns, packets)| LatencyBucket { most_ns, packets }).collect();
        Latency { packets, max_ns, buckets, ..Latency::default() }
    }

    #[test]
    fn what_packets_took_lately_is_that_of_those_that_came_since() {
        let before = latency(&[(100, 90), (500, 10)], 480);
        let now = latency(&[(100, 90), (200, 98), (500, 12)], 480);
        assert_eq!([500, 990, 1000].map(|part| now.lately_ns(Some(&before), part)), [Some(200), Some(480), Some(480)]);
        assert_eq!([250, 500, 990].map(|part| now.lately_ns(None, part)), [Some(100), Some(200), Some(480)]);
        assert_eq!(before.lately_ns(Some(&before), 500), None, "none came");
        assert_eq!(before.lately_ns(Some(&now), 500), None, "another router answers");
    }
}
