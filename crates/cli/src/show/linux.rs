//! `switchpath show linux`: the interfaces of the kernel, and the packets for programs of the machine.

use super::{ShowView, per_second};
use crate::output::{Rows, short};
use anyhow::Result;
use control::api;
use std::io::Write;

fn pps(rate: f64) -> String {
    format!("{}pps", short(rate))
}

impl ShowView for api::Linux {
    fn table(&self, before: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        if !self.enabled {
            return Ok(writeln!(
                out,
                "the kernel has no interfaces of this router: see [linux] in docs/reference/configuration.md"
            )?);
        }
        let place = self.namespace.as_ref().map_or_else(String::new, |name| format!(" in the namespace {name}"));
        writeln!(
            out,
            "interfaces of the kernel{place}; the {} answers ARP and ping\n",
            self.answer.as_deref().unwrap_or("router")
        )?;
        let mut rows = Rows::new(&["interface", "state", ">mtu", "addresses", "added by programs"]);
        for interface in &self.interfaces {
            rows.add([
                interface.name.clone(),
                if interface.up { "up" } else { "down" }.to_owned(),
                interface.mtu.to_string(),
                interface.addresses.join(" "),
                interface.kernel_addresses.join(" "),
            ]);
        }
        rows.print(out)?;
        writeln!(out)?;
        let mut rows = Rows::new(&[
            "protocol",
            ">limit",
            ">to the kernel",
            ">rate",
            ">above the limit",
            ">queue full",
            ">from the kernel",
        ]);
        for protocol in self.protocols.iter().filter(|protocol| protocol.counters.is_used()) {
            let known = before.and_then(|before| {
                let old = before.protocols.iter().find(|old| old.protocol == protocol.protocol)?;
                Some((old.counters.punted, before.time_ns))
            });
            let counters = &protocol.counters;
            rows.add([
                protocol.protocol.clone(),
                pps(protocol.limit_pps as f64),
                counters.punted.to_string(),
                per_second((counters.punted, self.time_ns), known, pps),
                counters.limited.to_string(),
                counters.overflowed.to_string(),
                counters.injected.to_string(),
            ]);
        }
        rows.print(out)?;
        if !self.dhcp_relays.is_empty() {
            writeln!(out)?;
            let mut rows =
                Rows::new(&["dhcp relay", "servers", "state", ">requests", ">replies", ">refused", ">not sent"]);
            for relay in &self.dhcp_relays {
                let counters = &relay.counters;
                let counts = [counters.requests, counters.replies, counters.refused, counters.failed];
                let state = if relay.running { "running" } else { "not started" };
                let texts = [relay.interface.clone(), relay.servers.join(" "), state.to_owned()];
                rows.line(texts.into_iter().chain(counts.map(|count| count.to_string())).collect());
            }
            rows.print(out)?;
        }
        let lost = self.refused_by_kernel + self.refused_by_router;
        if lost > 0 {
            writeln!(
                out,
                "\n{} frames the kernel did not accept, {} the router did not take in time",
                self.refused_by_kernel, self.refused_by_router
            )?;
        }
        Ok(())
    }
}
