//! Flows that are reserved while the router runs.

use super::ShareTraffic;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reserved flows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowsReply {
    /// The time of the answer, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// Their number.
    pub total: u64,
    /// The flows by name, as far as they were asked for.
    pub flows: Vec<FlowReply>,
}

/// A reserved flow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowReply {
    /// Its name, which is also that of its share.
    pub name: String,
    /// Its packets.
    #[serde(rename = "match")]
    pub matching: String,
    /// The reservation and the promise.
    pub promise: FlowPromiseReply,
    /// The id of its rule in the list `paths`.
    pub rule: u64,
    /// The time until its lease ends; null if it stays.
    pub lease_left_ns: Option<u64>,
    /// True if it survives a restart.
    pub keep: bool,
    /// The processor time of its functions; null unless its path is interleaved.
    pub functions: Option<FlowFunctions>,
    /// The packets of its share.
    pub traffic: ShareTraffic,
}

/// The processor time that the functions of an interleaved path have used for a flow, since it was reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowFunctions {
    /// Packets that have passed all functions.
    pub packets: u64,
    /// The time of the functions.
    pub time_ns: u64,
    /// The mean for a packet; null without packets. Its reservation relies on `cost_ns` of the promise.
    pub mean_ns: Option<u64>,
}

/// The reservation of a flow, and what the router has derived from it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowPromiseReply {
    /// The path whose functions process its packets.
    pub path: String,
    /// Its output port.
    pub port: String,
    /// The share above its own; null for the port.
    pub parent: Option<String>,
    /// The reserved long-term rate, of frames.
    pub rate_bps: u64,
    /// The size of its packets.
    pub packet_bytes: u64,
    /// The bytes that it may send at once.
    pub burst_bytes: u64,
    /// The longest delay that it asked for; null for none.
    pub delay_ns: Option<u64>,
    /// The longest delay of its packets through the router.
    pub bound_ns: u64,
    /// The part of that bound in which its share sends its own burst. Routers in a row need this time once: see `docs/operate/reservations.md`.
    #[serde(default)]
    pub burst_ns: u64,
    /// The guaranteed rate of its share, on the line: the long-term rate, or what its delay needs.
    pub share_bps: u64,
    /// The bytes that its queue at the link holds.
    pub queue_bytes: u64,
    /// Its part of the processor at its rate, in millionths.
    pub cpu_ppm: u64,
    /// The time of the path's functions for a packet on which the reservation relies.
    pub cost_ns: u64,
}

impl FlowPromiseReply {
    /// The bound without the time for its own burst: how long a packet waits although its flow has sent no more than the rate of its share.
    pub fn latency_ns(&self) -> u64 {
        self.bound_ns.saturating_sub(self.burst_ns)
    }
}

/// The promises of routers in a row to one flow.
#[derive(Clone, Debug)]
pub struct PromiseChain<'a>(pub &'a [FlowPromiseReply]);

impl PromiseChain<'_> {
    /// The longest delay of its packets through all of them. Each router is a server with the rate R of the flow's share and a latency T. A row of such servers
    /// is one with the least rate and the sum of the latencies, so the burst σ that the flow sends into the first one counts once: `sum T + σ / min R` (Le
    /// Boudec and Thiran 2001, theorem 1.4.6 and section 1.4.3; Stiliadis and Varma 1998, theorem 1).
    pub fn bound_ns(&self) -> u64 {
        let latencies: u64 = self.0.iter().map(FlowPromiseReply::latency_ns).sum();
        let least = self.0.iter().map(|promise| promise.share_bps).min().unwrap_or(0).max(1);
        let burst = self.0.first().map_or(0, |first| u128::from(first.burst_ns) * u128::from(first.share_bps));
        latencies.saturating_add(u64::try_from(burst.div_ceil(u128::from(least))).unwrap_or(u64::MAX))
    }

    /// The bytes in which the flow's packets may arrive at once at the router with this index: the burst at the first one, and what has gathered at its rate in
    /// the latencies before (Le Boudec and Thiran 2001, theorem 1.4.3). The reservation there needs at least this burst.
    pub fn burst_bytes(&self, index: usize) -> u64 {
        let before: u128 = self.0.iter().take(index).map(|promise| u128::from(promise.latency_ns())).sum();
        let first = self.0.first().map_or((0, 0), |first| (first.burst_bytes, first.rate_bps));
        first.0 + u64::try_from((before * u128::from(first.1)).div_ceil(8_000_000_000)).unwrap_or(u64::MAX)
    }
}

/// The result of changes of the reserved flows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowsEdited {
    /// True if nothing was changed: the request was a trial.
    pub trial: bool,
    /// The flows that were reserved, in the order of the batch.
    pub added: Vec<FlowAdded>,
    /// The number of renewed reservations.
    pub renewed: u64,
    /// The number of ended reservations.
    pub removed: u64,
    /// The number of reserved flows afterwards.
    pub total: u64,
    /// True if the workers of all ports have carried out the changes. False if one did not within 1 s.
    pub carried_out: bool,
    /// Why the batch does not fit; null if it does. Only a trial says so: another request fails.
    pub refused: Option<FlowRefusedReply>,
}

/// A flow that was reserved.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowAdded {
    /// Its name.
    pub name: String,
    /// The reservation and the promise.
    pub promise: FlowPromiseReply,
}

/// Why a flow does not fit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowRefusedReply {
    /// The line of the batch, from 1.
    pub line: u64,
    /// The resource that ran out: `cpu`, `link`, `buffer` or `delay`; null if the line is wrong.
    pub resource: Option<String>,
    /// The demand, and the rest.
    pub reason: String,
    /// The largest reservation that would fit, or a correction.
    pub hint: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(share_bps: u64, bound_ms: u64, burst_bytes: u64) -> FlowPromiseReply {
        FlowPromiseReply {
            path: "reserved".into(),
            port: "wan".into(),
            parent: None,
            rate_bps: 1_000_000,
            packet_bytes: 1000,
            burst_bytes,
            delay_ns: None,
            bound_ns: bound_ms * 1_000_000,
            burst_ns: burst_bytes * 8_000_000_000 / share_bps,
            share_bps,
            queue_bytes: 0,
            cpu_ppm: 0,
            cost_ns: 0,
        }
    }

    #[test]
    fn routers_in_a_row_count_the_burst_once() {
        // 5000 bytes take 10 ms at 4 Mbit/s and 20 ms at 2 Mbit/s.
        let one = promise(4_000_000, 14, 5000);
        assert_eq!(one.latency_ns(), 4_000_000);
        assert_eq!(PromiseChain(std::slice::from_ref(&one)).bound_ns(), one.bound_ns);
        let row = [one, promise(2_000_000, 30, 5500), promise(8_000_000, 10, 7000)];
        let latencies: Vec<u64> = row.iter().map(FlowPromiseReply::latency_ns).collect();
        assert_eq!(latencies, [4_000_000, 8_000_000, 3_000_000]);
        assert_eq!(PromiseChain(&row).bound_ns(), 35_000_000);
        // At 1 Mbit/s 500 bytes gather in 4 ms.
        assert_eq!([0, 1, 2].map(|at| PromiseChain(&row).burst_bytes(at)), [5000, 5500, 6500]);
    }
}
