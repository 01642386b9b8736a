//! The measurements of a flow between real hosts, under the names that a simulated flow uses.

use super::measure::{report_transfers, report_transport};
use crate::describe::FlowPlan;
use crate::histogram::DurationHistogram;
use crate::run::Measurements;
use crate::tcp::SenderCounters;
use crate::tcp::application::{SmoothedRtt, Transfer};
use std::collections::BTreeMap;
use units::{Instant, Nanos};

/// The kernel's information about a sender's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KernelTcpInfo {
    /// The smoothed round-trip time.
    pub smoothed: Nanos,
    /// The window, in packets.
    pub window: u32,
    /// The slow start threshold, in packets.
    pub threshold: u32,
    /// Packets sent and not acknowledged.
    pub in_flight: u32,
    /// Bytes acknowledged so far.
    pub acknowledged: u64,
    /// Packets sent, including retransmissions.
    pub sent: u64,
    /// Packets retransmitted.
    pub retransmitted: u64,
    /// Retransmitted packets that had already arrived.
    pub spurious: u64,
    /// The number of detected reorderings.
    pub reordered: u64,
    /// True during loss recovery of any kind.
    pub recovering: bool,
    /// True during recovery from a timeout.
    pub timed_out: bool,
}

/// A flow between real hosts, sampled every few milliseconds. Times are relative to the start of its world.
pub struct RealFlow {
    plan: FlowPlan,
    /// Payload of a packet, in bytes.
    payload: u32,
    /// The delay of the way back without queueing.
    return_delay: Nanos,
    sample: u64,
    last: KernelTcpInfo,
    sampled: (u64, u64),
    counters: SenderCounters,
    smoothed: SmoothedRtt,
    one_way: DurationHistogram,
    series: BTreeMap<&'static str, Vec<(f64, f64)>>,
}

impl RealFlow {
    /// A flow with `payload` bytes in each packet. `back` is the part of its round trip on the way back. Time series have a point every `sample`.
    pub fn new(plan: &FlowPlan, payload: u32, back: Nanos, sample: Nanos) -> RealFlow {
        RealFlow {
            payload: payload.max(1),
            return_delay: back,
            sample: sample.get().max(1),
            last: KernelTcpInfo::default(),
            sampled: (0, 0),
            counters: SenderCounters::default(),
            smoothed: SmoothedRtt::new(plan.rtt_interval),
            one_way: DurationHistogram::new(),
            series: BTreeMap::new(),
            plan: plan.clone(),
        }
    }

    /// Records one sample.
    pub fn record_sample(&mut self, now: Instant, look: KernelTcpInfo) {
        if look.acknowledged != self.last.acknowledged || look.smoothed != self.last.smoothed {
            self.smoothed.acknowledged(now, look.smoothed);
            self.one_way.record(look.smoothed.saturating_sub(self.return_delay).get());
        }
        self.counters.sent = look.sent;
        self.counters.retransmitted = look.retransmitted;
        self.counters.recoveries += u64::from(look.recovering && !look.timed_out && !self.last.recovering);
        self.counters.timeouts += u64::from(look.timed_out && !self.last.timed_out);
        self.last = look;
        if now.get() - self.sampled.0 >= self.sample {
            let span = (now.get() - self.sampled.0) as f64 / 1e9;
            let since = (look.acknowledged - self.sampled.1) as f64;
            let goodput = since / f64::from(self.payload) * f64::from(self.plan.packet) * 8.0 / span;
            let at = now.get() as f64 / 1e9;
            let mut put = |name, value| self.series.entry(name).or_default().push((at, value));
            put("goodput_bps", goodput);
            put("cwnd", look.window.into());
            put("in_flight", look.in_flight.into());
            put("srtt_ms", look.smoothed.get() as f64 / 1e6);
            put("recoveries", self.counters.recoveries as f64);
            self.sampled = (now.get(), look.acknowledged);
        }
    }

    /// Ends the measurement and adds the results. `received` is the number of bytes that the receiver got.
    pub fn finish(mut self, end: Instant, received: u64, transfers: &[Transfer], measured: &mut Measurements) {
        let name = &self.plan.name;
        let packets = received as f64 / f64::from(self.payload);
        let goodput = packets * f64::from(self.plan.packet) * 8.0 / end.since(Instant::START).as_secs_f64().max(1e-9);
        measured.values.insert(format!("flow.{name}.goodput_bps"), goodput);
        measured.values.insert(format!("flow.{name}.acknowledged"), packets);
        report_transport(
            name,
            (&self.counters, &SenderCounters::default()),
            self.smoothed.mean(end),
            &mut measured.values,
        );
        measured.values.insert(format!("flow.{name}.in_vain"), self.last.spurious as f64);
        measured.values.insert(format!("flow.{name}.reordered"), self.last.reordered as f64);
        if let Some(mean) = self.one_way.mean() {
            measured.values.insert(format!("flow.{name}.power"), goodput / 1e6 / (mean / 1e9));
        }
        self.one_way.report_with_p95(&format!("flow.{name}.one_way"), &mut measured.values);
        report_transfers(name, transfers, end, measured);
        for (what, points) in std::mem::take(&mut self.series) {
            measured.series.insert(format!("flow.{name}.{what}"), points);
        }
    }
}
