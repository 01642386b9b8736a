//! `switchpath show ports`: one line a port.

use super::{ShowView, per_second};
use crate::output::{Rows, rate, short};
use anyhow::Result;
use control::api;
use std::io::Write;

impl ShowView for api::Ports {
    fn table(&self, before: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let mut rows = Rows::new(&[
            "port",
            "device",
            "state",
            ">rate",
            ">mtu",
            ">received",
            ">sent",
            ">dropped",
            ">backlog",
            ">in",
            ">out",
            ">in/s",
            ">out/s",
        ]);
        for port in &self.ports {
            let old = before.and_then(|b| b.ports.iter().find(|p| p.name == port.name).map(|p| (b.time_ns, p)));
            let between = |value: fn(&api::PortReply) -> u64, show: &dyn Fn(f64) -> String| {
                per_second((value(port), self.time_ns), old.map(|(time, port)| (value(port), time)), show)
            };
            let bits = |bytes: f64| rate(bytes * 8.0);
            let state = match (port.closing, port.up) {
                (true, _) => "closing",
                (_, true) => "up",
                _ => "down",
            };
            rows.add([
                port.name.clone(),
                port.device.clone(),
                state.into(),
                port.link_rate_bps.map_or("-".into(), |bps| rate(bps as f64)),
                mtu(port),
                port.counters.received.to_string(),
                port.link.sent.to_string(),
                port.drops.iter().map(|drop| drop.packets).sum::<u64>().to_string(),
                port.backlog_packets.to_string(),
                between(|p| p.counters.received_bytes, &bits),
                between(|p| p.link.sent_bytes, &bits),
                between(|p| p.counters.received, &short),
                between(|p| p.link.sent, &short),
            ]);
        }
        rows.print(out)?;
        for (port, wire) in self.ports.iter().filter_map(|port| Some((port, port.dfq_wire.as_ref()?))) {
            let counters = &port.dfq_counters.0;
            let peer = wire.peer.as_ref().map_or_else(String::new, |peer| format!(" with {peer}"));
            let reason = wire.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
            writeln!(out, "{}: dfq wire {}{peer}{reason}", port.name, wire.state)?;
            writeln!(
                out,
                "  sent {} packets of {} flows in {} batches; received {} of {} in {}, {} batches lost",
                counters.packets_sent,
                wire.flows_out + 1,
                counters.batches_sent,
                counters.packets_received,
                wire.flows_in + 1,
                counters.batches_received,
                counters.batches_lost
            )?;
        }
        for port in self.ports.iter().filter(|port| port.counters.over_budget > 0) {
            let packets = short(port.counters.over_budget as f64);
            writeln!(out, "{}: {packets} packets took longer to classify than classify_budget allows", port.name)?;
        }
        Ok(())
    }
}

/// Formats the MTU of a port; both values if its device accepts less than the configuration states: `1400 of 1500`.
fn mtu(port: &api::PortReply) -> String {
    let now = port.interfaces.iter().map(|interface| interface.mtu_bytes).max();
    let configured = port.interfaces.iter().map(|interface| interface.configured_mtu_bytes).max();
    match (now, configured) {
        (Some(now), Some(configured)) if now < configured => format!("{now} of {configured}"),
        (Some(now), _) => now.to_string(),
        _ => "-".into(),
    }
}
