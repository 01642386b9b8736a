//! `switchpath reserve list` and `switchpath show reservations`.

use super::ShowView;
use super::shares::{bits, time};
use crate::output::{Rows, brief, processor, rate, short, span};
use anyhow::Result;
use control::api;
use std::io::Write;

impl ShowView for api::FlowsReply {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        if self.flows.is_empty() {
            writeln!(out, "no flow has a reservation")?;
            return Ok(());
        }
        let has_leases = self.flows.iter().any(|flow| flow.lease_left_ns.is_some());
        let mut columns = vec![
            "flow", "path", "out", ">rate", ">sent", ">packets", ">drops", ">waiting", ">asked", ">bound", ">p99",
            ">longest", ">share", ">cpu", "match",
        ];
        if has_leases {
            columns.insert(14, ">lease");
        }
        // Only interleaved paths measure each flow.
        let is_measured = self.flows.iter().any(|flow| flow.functions.is_some());
        if is_measured {
            columns.insert(14, ">measured cost");
            columns.insert(14, ">cost");
        }
        let mut rows = Rows::new(&columns);
        for flow in &self.flows {
            let (p, t) = (&flow.promise, &flow.traffic);
            let mut cells = vec![
                flow.name.clone(),
                p.path.clone(),
                p.port.clone(),
                rate(p.rate_bps as f64),
                bits(t.sent_bps),
                t.packets.to_string(),
                t.dropped_packets.to_string(),
                short(t.waiting_packets as f64),
                time(p.delay_ns),
                brief(p.bound_ns),
                time(t.p99_ns),
                brief(t.longest_ns),
                rate(p.share_bps as f64),
                processor(p.cpu_ppm),
                flow.matching.clone(),
            ];
            if has_leases {
                cells.insert(14, flow.lease_left_ns.map_or_else(|| "-".into(), span));
            }
            if is_measured {
                cells.insert(14, time(flow.functions.and_then(|functions| functions.mean_ns)));
                cells.insert(14, brief(p.cost_ns));
            }
            rows.line(cells);
        }
        rows.print(out)?;
        let shown = self.flows.len() as u64;
        if shown < self.total {
            writeln!(out, "{shown} of {} flows; see -n", self.total)?;
        }
        Ok(())
    }
}
