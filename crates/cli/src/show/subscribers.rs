//! `switchpath show subscribers`, `switchpath subscribers list`, and `switchpath show sites`.

use super::ShowView;
use super::shares::{bits, limit, load, percent, time};
use crate::arguments::SubscriberSelection;
use crate::output::{Heat, Rows, or_dash, short};
use anyhow::Result;
use control::api::{self, RttReply, ShareTraffic};
use std::io::Write;

/// The address of subscribers in the API.
pub(crate) fn subscribers_target(selection: &SubscriberSelection, json: bool) -> String {
    target("/v1/subscribers", selection, json)
}

/// The address of sites in the API.
pub(super) fn sites_target(selection: &SubscriberSelection, json: bool) -> String {
    target("/v1/sites", selection, json)
}

fn target(path: &str, selection: &SubscriberSelection, json: bool) -> String {
    let worst = selection.worst.map_or_else(String::new, |order| format!("&worst={order}"));
    format!("{path}?limit={}{worst}", limit(selection.limit, json))
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The line below a table: how many of all there are, and the ports.
fn summary((shown, total): (usize, u64), noun: &str, [inside, outside]: [&str; 2]) -> String {
    let part = if (shown as u64) < total { format!("{shown} of ") } else { String::new() };
    format!("{part}{total} {noun}{}; down at {inside}, up at {outside}", plural(total))
}

const NO_SUBSCRIBERS: &str = "the configuration has no subscribers: see [subscribers]";

impl ShowView for api::SubscribersReply {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let (Some(inside), Some(outside)) = (&self.inside, &self.outside) else {
            return Ok(writeln!(out, "{NO_SUBSCRIBERS}")?);
        };
        let mut rows = Rows::new(&SUBSCRIBER_COLUMNS);
        self.subscribers.iter().for_each(|subscriber| rows.add(subscriber_cells(subscriber)));
        rows.print(out)?;
        let counts = (self.subscribers.len(), self.total);
        Ok(writeln!(out, "{}", summary(counts, "subscriber", [inside, outside]))?)
    }
}

/// The columns of a table of subscribers.
pub(crate) const SUBSCRIBER_COLUMNS: [&str; 19] = [
    "subscriber",
    "title",
    "site",
    ">rtt p50",
    ">p95",
    ">net p50",
    ">p95",
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
pub(crate) fn subscriber_cells(subscriber: &api::SubscriberReply) -> [String; 19] {
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
    let RttReply { subscriber: near, internet } = subscriber.rtt.unwrap_or_default();
    let [m, n, o, p] = [near.p50_ns, near.p95_ns, internet.p50_ns, internet.p95_ns].map(time);
    let site = or_dash(subscriber.site.as_deref());
    [subscriber.name.clone(), title, site, m, n, o, p, a, b, c, d, e, f, g, h, i, j, k, l]
}

impl ShowView for api::SitesReply {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let (Some(inside), Some(outside)) = (&self.inside, &self.outside) else {
            return Ok(writeln!(out, "{NO_SUBSCRIBERS}")?);
        };
        if self.total == 0 {
            return Ok(writeln!(out, "the files of subscribers have no sites")?);
        }
        site_rows(self).print(out)?;
        Ok(writeln!(out, "{}", summary((self.sites.len(), self.total), "site", [inside, outside]))?)
    }
}

/// A row for each site: a tree indented by level, or a list with the site above each.
fn site_rows(reply: &api::SitesReply) -> Rows {
    let mut columns = vec!["site", ">subscribers"];
    for direction in [">down", ">up"] {
        columns.extend([direction, ">of", ">use", "heat", ">drops", ">p95"]);
    }
    columns.extend([">rtt p95", ">net p95"]);
    if !reply.is_tree {
        columns.insert(1, "in");
    }
    let mut rows = Rows::new(&columns);
    for site in &reply.sites {
        let depth = if reply.is_tree { site.level.saturating_sub(1) as usize } else { 0 };
        let mut cells = vec![(format!("{:1$}{2}", "", 2 * depth, site.name), None)];
        if !reply.is_tree {
            cells.push((or_dash(site.parent.as_deref()), None));
        }
        cells.push((site.subscribers.to_string(), None));
        for traffic in [&site.down, &site.up] {
            let traffic = traffic.clone().unwrap_or_default();
            let heat = traffic.use_ppm.map(Heat::of_ppm);
            cells.extend([
                (bits(traffic.sent_bps), None),
                (bits(traffic.ceiling_bps), None),
                (percent(traffic.use_ppm), None),
                (heat.map_or_else(|| "-".to_owned(), Heat::bar), heat),
                (traffic.dropped_packets.to_string(), None),
                (time(traffic.p95_ns), None),
            ]);
        }
        let RttReply { subscriber, internet } = site.rtt.unwrap_or_default();
        cells.extend([(time(subscriber.p95_ns), None), (time(internet.p95_ns), None)]);
        rows.shaded(cells);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::api::{RttSideReply, SiteReply, SitesReply};

    fn site(name: &str, level: u64, used: Option<u64>) -> SiteReply {
        let traffic = ShareTraffic { use_ppm: used, dropped_packets: 3, ..ShareTraffic::default() };
        let near = RttSideReply { p50_ns: Some(9_000_000), p95_ns: Some(21_000_000), weight: 5 };
        SiteReply {
            name: name.into(),
            parent: (level > 1).then(|| "North".into()),
            level,
            subscribers: 7,
            down: Some(traffic.clone()),
            up: Some(traffic),
            rtt: Some(RttReply { subscriber: near, ..RttReply::default() }),
        }
    }

    fn shown(is_tree: bool) -> Vec<String> {
        let sites = vec![site("North", 1, None), site("AP_A", 2, Some(720_000)), site("AP_B", 2, Some(1_000_000))];
        let reply = SitesReply {
            time_ns: 0,
            inside: Some("lan".into()),
            outside: Some("wan".into()),
            total: 9,
            is_tree,
            rtt: None,
            sites,
        };
        let mut text = Vec::new();
        reply.table(None, &mut text).unwrap();
        String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn sites_are_a_tree_with_bars_of_their_use() {
        let lines = shown(true);
        assert!(lines[1].starts_with(" North ") && lines[2].starts_with("   AP_A "), "{lines:?}");
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(words(&lines[1]), "North 7 - - - - 3 - - - - - 3 - 21.0ms -");
        assert_eq!(words(&lines[2]), "AP_A 7 - - 72% #######... 3 - - - 72% #######... 3 - 21.0ms -");
        assert!(lines[3].contains(" ########## "), "{lines:?}");
        assert_eq!(lines[4], "3 of 9 sites; down at lan, up at wan");
        let lines = shown(false);
        assert!(lines[0].starts_with(" site   in     subscribers "), "{lines:?}");
        assert!(words(&lines[2]).starts_with("AP_A North 7 "), "{lines:?}");
    }
}
