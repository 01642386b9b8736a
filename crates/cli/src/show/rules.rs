//! `switchpath show rules` and `switchpath rule list`.

use super::ShowView;
use crate::output::{Rows, or_dash, span};
use anyhow::Result;
use control::api;
use std::io::Write;

impl ShowView for api::RuleLists {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        for (number, list) in self.lists.iter().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            let kind = match list.list.as_str() {
                plane::PATH_RULES => "select paths",
                plane::ROUTING_RULES => "select routes",
                _ => "filter of the path",
            };
            let changed = if list.changed { ", changed since the configuration" } else { "" };
            let plural = if list.total == 1 { "" } else { "s" };
            writeln!(out, "{} ({kind}): {} rule{plural}{changed}", list.list, list.total)?;
            let mut rows = Rows::new(&[">id", ">packets", ">bytes", ">last", "rule"]);
            for rule in &list.rules {
                rows.add([
                    rule.id.to_string(),
                    rule.packets.to_string(),
                    rule.bytes.to_string(),
                    or_dash(rule.idle_ns.map(span).as_deref()),
                    rule.rule.clone(),
                ]);
            }
            let (packets, bytes) = (list.other_packets.to_string(), list.other_bytes.to_string());
            rows.add(["-".into(), packets, bytes, "-".into(), "no rule".into()]);
            rows.print(out)?;
            let used = &list.flow_cache;
            let packets = used.hits + used.misses + used.passed;
            let part = |part: u64| 100.0 * part as f64 / packets.max(1) as f64;
            match used.state.as_str() {
                // Nothing to say about a list that needs none.
                "short" => {}
                "paused" => writeln!(
                    out,
                    "flow cache: paused, because too few packets find an entry ({:.0}% of those that looked)",
                    100.0 * used.hits as f64 / (used.hits + used.misses).max(1) as f64
                )?,
                _ => writeln!(out, "flow cache: {:.0}% of packets found an entry", part(used.hits))?,
            }
            let shown = list.rules.len() as u64;
            if shown < list.total {
                writeln!(out, "{shown} of {} rules; see --unused and --limit", list.total)?;
            }
        }
        Ok(())
    }
}
