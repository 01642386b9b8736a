//! `switchpath show shares` and `switchpath share list`; `switchpath show subscribers` and `switchpath subscribers list`.

use super::ShowView;
use crate::arguments::{LISTED, ShareSelection, SubscriberSelection};
use crate::output::{Rows, brief, or_dash, rate, short, span};
use anyhow::Result;
use control::api::{self, ShareTraffic};
use std::io::Write;

/// The limit if none is given: programs want all.
const ALL: u64 = 1 << 20;

fn limit(given: Option<u64>, json: bool) -> u64 {
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

/// The address of subscribers in the API.
pub(crate) fn subscribers_target(selection: &SubscriberSelection, json: bool) -> String {
    let worst = selection.worst.map_or_else(String::new, |order| format!("&worst={order}"));
    format!("/v1/subscribers?limit={}{worst}", limit(selection.limit, json))
}

fn bits(bps: Option<u64>) -> String {
    bps.map_or_else(|| "-".into(), |bps| rate(bps as f64))
}

fn percent(ppm: Option<u64>) -> String {
    ppm.map_or_else(|| "-".into(), |ppm| format!("{:.0}%", ppm as f64 / 1e4))
}

fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".into(), brief)
}

/// The rate of the last second and its part of the ceiling.
fn load(traffic: &ShareTraffic) -> [String; 2] {
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

impl ShowView for api::SubscribersReply {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let (Some(inside), Some(outside)) = (&self.inside, &self.outside) else {
            return Ok(writeln!(out, "the configuration has no subscribers: see [subscribers]")?);
        };
        subscriber_rows(self).print(out)?;
        let shown = self.subscribers.len() as u64;
        let plural = if self.total == 1 { "" } else { "s" };
        let part = if shown < self.total { format!("{shown} of ") } else { String::new() };
        writeln!(out, "{part}{} subscriber{plural}; down at {inside}, up at {outside}", self.total)?;
        Ok(())
    }
}

/// The columns of a table of subscribers.
pub(crate) const SUBSCRIBER_COLUMNS: [&str; 15] = [
    "subscriber",
    "title",
    "site",
    ">down",
    ">use",
    ">of",
    ">p99",
    ">drops",
    ">bytes",
    ">up",
    ">use",
    ">of",
    ">p99",
    ">drops",
    ">bytes",
];

/// The cells of a subscriber.
pub(crate) fn subscriber_cells(subscriber: &api::SubscriberReply) -> [String; 15] {
    let side = |traffic: &Option<ShareTraffic>| {
        traffic.as_ref().map_or_else(
            || std::array::from_fn(|_| "-".to_owned()),
            |traffic| {
                let [sent, load] = load(traffic);
                let drops = traffic.dropped_packets.to_string();
                [sent, load, bits(traffic.ceiling_bps), time(traffic.p99_ns), drops, short(traffic.bytes as f64)]
            },
        )
    };
    let [a, b, c, d, e, f]: [String; 6] = side(&subscriber.down);
    let [g, h, i, j, k, l] = side(&subscriber.up);
    let title = or_dash(Some(&*subscriber.title).filter(|title| !title.is_empty()));
    [subscriber.name.clone(), title, or_dash(subscriber.site.as_deref()), a, b, c, d, e, f, g, h, i, j, k, l]
}

fn subscriber_rows(reply: &api::SubscribersReply) -> Rows {
    let mut rows = Rows::new(&SUBSCRIBER_COLUMNS);
    reply.subscribers.iter().for_each(|subscriber| rows.add(subscriber_cells(subscriber)));
    rows
}
