//! `switchpath show shares` and `switchpath share list`.

use super::ShowView;
use crate::arguments::{LISTED, ShareSelection};
use crate::output::{Rows, brief, or_dash, rate, short, span};
use anyhow::Result;
use control::api::{self, ShareTraffic};
use std::io::Write;

/// The limit if none is given: programs want all.
const ALL: u64 = 1 << 20;

pub(super) fn limit(given: Option<u64>, json: bool) -> u64 {
    given.unwrap_or(if json { ALL } else { LISTED })
}

pub(super) fn shares_target(selection: &ShareSelection, json: bool) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", &limit(selection.limit, json).to_string());
    query.append_pair("leaves", &selection.leaves.to_string());
    if let Some(port) = &selection.port {
        query.append_pair("port", port);
    }
    if let Some(order) = selection.sort {
        query.append_pair("sort", order.name());
    }
    format!("/v1/shares?{}", query.finish())
}

pub(super) fn bits(bps: Option<u64>) -> String {
    bps.map_or_else(|| "-".into(), |bps| rate(bps as f64))
}

pub(super) fn percent(ppm: Option<u64>) -> String {
    ppm.map_or_else(|| "-".into(), |ppm| format!("{:.0}%", ppm as f64 / 1e4))
}

pub(super) fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".into(), brief)
}

/// The rate of the last second and its part of the ceiling.
pub(super) fn load(traffic: &ShareTraffic) -> [String; 2] {
    [bits(traffic.sent_bps), percent(traffic.use_ppm)]
}

impl ShowView for api::SharesReply {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        if self.ports.is_empty() {
            writeln!(out, "no port has the scheme 'share'")?;
        }
        for (number, port) in self.ports.iter().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            let count = |n: u64, what: &str, many: &str| format!("{n} {}", if n == 1 { what } else { many });
            let (shares, leaves) = (count(port.total, "share", "shares"), count(port.leaves, "leaf", "leaves"));
            writeln!(out, "{}: {shares}, {leaves}", port.port)?;
            if port.shares.is_empty() {
                continue;
            }
            rows(port).print(out)?;
            let shown = port.shares.len() as u64;
            if shown < port.selected {
                writeln!(out, "{shown} of {}; see -n and --sort", count(port.selected, "share", "shares"))?;
            }
        }
        Ok(())
    }
}

/// The table of a port: a tree indented by level, or a list with the share above each.
fn rows(port: &api::PortSharesReply) -> Rows {
    let mut columns = vec![
        "share", ">rate", ">ceiling", ">weight", ">prio", ">sent", ">use", ">packets", ">bytes", ">drops", ">marks",
        ">waiting", ">p50", ">p95", ">p99", ">longest",
    ];
    if !port.is_tree {
        columns.insert(1, "in");
    }
    // A column only if it says something.
    let has_leases = port.shares.iter().any(|share| share.lease_left_ns.is_some());
    if has_leases {
        columns.push(">lease");
    }
    let mut rows = Rows::new(&columns);
    for share in &port.shares {
        let traffic = &share.traffic;
        let depth = if port.is_tree { share.level.saturating_sub(1) as usize } else { 0 };
        let mut cells = vec![format!("{:1$}{2}", "", 2 * depth, share.name)];
        if !port.is_tree {
            cells.push(or_dash(share.parent.as_deref()));
        }
        let [sent, load] = load(traffic);
        cells.extend([
            bits(Some(traffic.guarantee_bps).filter(|bps| *bps > 0)),
            bits(traffic.ceiling_bps),
            share.weight.unwrap_or(1).to_string(),
            share.priority.unwrap_or(0).to_string(),
            sent,
            load,
            traffic.packets.to_string(),
            short(traffic.bytes as f64),
            traffic.dropped_packets.to_string(),
            traffic.marked_packets.to_string(),
            traffic.waiting_packets.to_string(),
            time(traffic.p50_ns),
            time(traffic.p95_ns),
            time(traffic.p99_ns),
            time(Some(traffic.longest_ns).filter(|ns| *ns > 0)),
        ]);
        if has_leases {
            cells.push(or_dash(share.lease_left_ns.map(span).as_deref()));
        }
        rows.line(cells);
    }
    rows
}
