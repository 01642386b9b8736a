//! What is measured of a flow between real hosts, under the names that a simulated one has.

use super::measure::{tell_transfers, tell_transport};
use crate::describe::FlowPlan;
use crate::run::Measured;
use crate::tcp::Told;
use crate::tcp::application::{Completion, SmoothedRtt};
use crate::times::Times;
use std::collections::BTreeMap;
use units::{Instant, Nanos};

/// What a real sender says of its connection.
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
    /// Packets sent, and sent again.
    pub sent: u64,
    /// See there.
    pub again: u64,
    /// Packets sent again that had come.
    pub in_vain: u64,
    /// Times that packets were seen to have overtaken others.
    pub reordered: u64,
    /// Whether losses are being made up for, and whether for a time-out.
    pub recovering: bool,
    /// See there.
    pub timed_out: bool,
}

/// A flow between real hosts, which somebody looks at every few milliseconds. Times are those since its world began.
pub struct Watched {
    plan: FlowPlan,
    /// Data in a packet, in bytes.
    payload: u32,
    /// The way back, without packets that wait.
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
    /// A flow whose packets have so much data, and of whose round trip `back` is the way back. A point of each series is made every `sample`.
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

    /// Somebody has looked.
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

    /// The end: adds what was measured. `received` are the bytes that have come to the receiver until then.
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
