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
            let kind = if list.list == plane::PATH_RULES { "select paths" } else { "filter of the path" };
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
            let shown = list.rules.len() as u64;
            if shown < list.total {
                writeln!(out, "{shown} of {} rules; see --unused and --limit", list.total)?;
            }
        }
        Ok(())
    }
}
