//! The measurements of a flow between real hosts, under the names that a simulated flow uses.

use super::measure::{tell_transfers, tell_transport};
use crate::describe::FlowPlan;
use crate::run::Measured;
use crate::tcp::Told;
use crate::tcp::application::{Completion, SmoothedRtt};
use crate::times::Times;
use std::collections::BTreeMap;
use units::{Instant, Nanos};

/// The kernel's information about a sender's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Look {
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
    pub again: u64,
    /// Retransmitted packets that had already arrived.
    pub in_vain: u64,
    /// The number of detected reorderings.
    pub reordered: u64,
    /// True during loss recovery of any kind.
    pub recovering: bool,
    /// True during recovery from a timeout.
    pub timed_out: bool,
}

/// A flow between real hosts, sampled every few milliseconds. Times are relative to the start of its world.
pub struct Watched {
    plan: FlowPlan,
    /// Payload of a packet, in bytes.
    payload: u32,
    /// The delay of the way back without queueing.
    back: Nanos,
    sample: u64,
    last: Look,
    sampled: (u64, u64),
    told: Told,
    smoothed: SmoothedRtt,
    one_way: Times,
    series: BTreeMap<&'static str, Vec<(f64, f64)>>,
}

impl Watched {
    /// A flow with `payload` bytes in each packet. `back` is the part of its round trip on the way back. Time series have a point every `sample`.
    pub fn new(plan: &FlowPlan, payload: u32, back: Nanos, sample: Nanos) -> Watched {
        Watched {
            payload: payload.max(1),
            back,
            sample: sample.get().max(1),
            last: Look::default(),
            sampled: (0, 0),
            told: Told::default(),
            smoothed: SmoothedRtt::new(plan.look),
            one_way: Times::new(),
            series: BTreeMap::new(),
            plan: plan.clone(),
        }
    }

    /// Records one sample.
    pub fn look(&mut self, now: Instant, look: Look) {
        if look.acknowledged != self.last.acknowledged || look.smoothed != self.last.smoothed {
            self.smoothed.acknowledged(now, look.smoothed);
            self.one_way.record(look.smoothed.saturating_sub(self.back).get());
        }
        self.told.sent = look.sent;
        self.told.again = look.again;
        self.told.recoveries += u64::from(look.recovering && !look.timed_out && !self.last.recovering);
        self.told.timeouts += u64::from(look.timed_out && !self.last.timed_out);
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
            put("recoveries", self.told.recoveries as f64);
            self.sampled = (now.get(), look.acknowledged);
        }
    }

    /// Ends the measurement and adds the results. `received` is the number of bytes that the receiver got.
    pub fn finish(mut self, end: Instant, received: u64, transfers: &[Completion], measured: &mut Measured) {
        let name = &self.plan.name;
        let packets = received as f64 / f64::from(self.payload);
        let goodput = packets * f64::from(self.plan.packet) * 8.0 / end.since(Instant::START).as_secs_f64().max(1e-9);
        measured.values.insert(format!("flow.{name}.goodput_bps"), goodput);
        measured.values.insert(format!("flow.{name}.acknowledged"), packets);
        tell_transport(name, (&self.told, &Told::default()), self.smoothed.mean(end), &mut measured.values);
        measured.values.insert(format!("flow.{name}.in_vain"), self.last.in_vain as f64);
        measured.values.insert(format!("flow.{name}.reordered"), self.last.reordered as f64);
        if let Some(mean) = self.one_way.mean() {
            measured.values.insert(format!("flow.{name}.power"), goodput / 1e6 / (mean / 1e9));
        }
        self.one_way.tell_with_p95(&format!("flow.{name}.one_way"), &mut measured.values);
        tell_transfers(name, transfers, end, measured);
        for (what, points) in std::mem::take(&mut self.series) {
            measured.series.insert(format!("flow.{name}.{what}"), points);
        }
    }
}
