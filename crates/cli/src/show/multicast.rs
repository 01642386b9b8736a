//! `switchpath show multicast`: the multicast groups, and the packets replicated to them.

use super::{ShowView, per_second};
use crate::output::{Rows, or_dash, rate};
use anyhow::Result;
use control::api;
use std::io::Write;

impl ShowView for api::Multicast {
    fn table(&self, before: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        if self.groups.is_empty() {
            return Ok(writeln!(
                out,
                "no multicast group is forwarded: see [[multicast]] in docs/reference/configuration.md"
            )?);
        }
        let mut rows = Rows::new(&[
            "group", "source", "origin", "from", "to", ">packets", ">bytes", ">rate", ">copies", ">dropped",
        ]);
        for group in &self.groups {
            let vrf = group.vrf.as_ref().map_or_else(String::new, |vrf| format!(" ({vrf})"));
            let known = before.and_then(|before| {
                let like = |old: &&api::MulticastGroup| {
                    (&old.vrf, &old.group, &old.source, &old.origin)
                        == (&group.vrf, &group.group, &group.source, &group.origin)
                };
                Some((before.groups.iter().find(like)?.counters.bytes, before.time_ns))
            });
            rows.add([
                format!("{}{vrf}", group.group),
                or_dash(group.source.as_deref()),
                group.origin.clone(),
                group.from.clone(),
                group.to.join(" "),
                group.counters.packets.to_string(),
                group.counters.bytes.to_string(),
                per_second((group.counters.bytes, self.time_ns), known, |bytes| rate(bytes * 8.0)),
                group.counters.copies.to_string(),
                group.counters.dropped.to_string(),
            ]);
        }
        rows.print(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use plane::multicast::GroupCounters;

    #[test]
    fn multicast_table_shows_groups_and_replicated_packets() {
        let group = |vrf: Option<&str>, group: &str, source: Option<&str>, packets: u64| api::MulticastGroup {
            vrf: vrf.map(str::to_owned),
            group: group.into(),
            source: source.map(str::to_owned),
            origin: if vrf.is_none() { "kernel" } else { "configuration" }.into(),
            from: "lan".into(),
            to: vec!["dmz".into(), "wan.20".into()],
            counters: api::CounterFields(GroupCounters {
                packets,
                bytes: packets * 1000,
                copies: packets * 2 - 1,
                dropped: 1,
            }),
        };
        let shown = |now: &api::Multicast, before| {
            let mut out = Vec::new();
            now.table(before, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let mut now = api::Multicast { time_ns: 0, groups: vec![] };
        assert!(shown(&now, None).starts_with("no multicast group is forwarded"));
        now.groups.push(group(None, "239.1.2.3", Some("192.0.2.7"), 10));
        now.groups.push(group(Some("red"), "ff3e::1", None, 5));
        let before = now.clone();
        now.time_ns += 1_000_000_000;
        now.groups[0].counters.0.bytes += 125_000;
        expect![[r#"
            group          source     origin         from  to          packets   bytes      rate  copies  dropped
            239.1.2.3      192.0.2.7  kernel         lan   dmz wan.20       10  135000  1.00mbit      19        1
            ff3e::1 (red)  -          configuration  lan   dmz wan.20        5    5000      0bit       9        1
        "#]]
        .assert_eq(&shown(&now, Some(&before)).lines().map(|line| line[1..].to_owned() + "\n").collect::<String>());
    }
}
