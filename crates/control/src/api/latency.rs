//! Latencies of packets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The latencies of packets at one place or in total. Packets of a batch that arrive together share one measurement.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LatencyReply {
    /// Packets.
    pub packets: u64,
    /// The sum of their latencies.
    pub sum_ns: u64,
    /// The median. This value and the next ones are at most a sixteenth too high, and never too low.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// The exact maximum.
    pub max_ns: u64,
    /// The histogram: each bucket counts latencies above the bound of the previous one, up to its own.
    pub buckets: Vec<LatencyBucket>,
}

/// Packets with about the same latency.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LatencyBucket {
    /// The upper bound of their latencies.
    pub most_ns: u64,
    /// The number of packets.
    pub packets: u64,
}

impl LatencyReply {
    /// Converts a histogram of the plane; none without packets.
    pub(crate) fn of(spread: &packet::latency::HistogramSnapshot) -> Option<LatencyReply> {
        let at = |thousandths| spread.quantile(thousandths).map(units::Nanos::get);
        Some(LatencyReply {
            packets: spread.count(),
            sum_ns: spread.sum().get(),
            p50_ns: at(500)?,
            p99_ns: at(990)?,
            p999_ns: at(999)?,
            max_ns: spread.most().get(),
            buckets: spread.buckets().map(|(most, packets)| LatencyBucket { most_ns: most.get(), packets }).collect(),
        })
    }

    /// Returns the exact mean.
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns / self.packets.max(1)
    }

    /// Returns a quantile, in thousandths, of the packets since the earlier reading `before`; none without packets.
    pub fn recent_quantile_ns(&self, before: Option<&LatencyReply>, thousandths: u64) -> Option<u64> {
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

    fn latency(buckets: &[(u64, u64)], max_ns: u64) -> LatencyReply {
        let packets = buckets.iter().map(|(_, packets)| packets).sum();
        let buckets = buckets.iter().map(|&(most_ns, packets)| LatencyBucket { most_ns, packets }).collect();
        LatencyReply { packets, max_ns, buckets, ..LatencyReply::default() }
    }

    #[test]
    fn quantiles_between_readings_count_new_packets_only() {
        let before = latency(&[(100, 90), (500, 10)], 480);
        let now = latency(&[(100, 90), (200, 98), (500, 12)], 480);
        assert_eq!(
            [500, 990, 1000].map(|part| now.recent_quantile_ns(Some(&before), part)),
            [Some(200), Some(480), Some(480)]
        );
        assert_eq!([250, 500, 990].map(|part| now.recent_quantile_ns(None, part)), [Some(100), Some(200), Some(480)]);
        assert_eq!(before.recent_quantile_ns(Some(&before), 500), None, "none came");
        assert_eq!(before.recent_quantile_ns(Some(&now), 500), None, "another router answers");
    }
}
