//! `switchpath show policy`: the objectives of packets, and the schemes that the policy selects.

use super::{ShowView, per_second};
use crate::output::{Rows, rate, span};
use anyhow::Result;
use control::api;
use std::io::Write;

impl ShowView for api::Policies {
    fn table(&self, before: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        if self.ports.is_empty() {
            writeln!(out, "no port has a policy: see [policy.NAME] in docs/reference/configuration.md")?;
        }
        for port in &self.ports {
            let held = if port.held_ns == 0 { String::new() } else { format!(", for {} at least", span(port.held_ns)) };
            let plural = if port.changes == 1 { "" } else { "s" };
            let api::PortPolicy { port: name, policy, objective, scheme, changes, .. } = port;
            writeln!(
                out,
                "{name}, policy {policy}: objective {objective}{held}, scheme {scheme}; {changes} change{plural}"
            )?;
            let old = before.and_then(|b| b.ports.iter().find(|p| p.port == port.port).map(|p| (b.time_ns, p)));
            let mut rows = Rows::new(&["", "objective", ">share", ">packets", ">bytes", ">rate", "served by"]);
            for wanted in &port.wanted {
                let known = old.and_then(|(time, port)| {
                    let wanted = port.wanted.iter().find(|known| known.objective == wanted.objective)?;
                    Some((wanted.bytes, time))
                });
                let share = port.share_ppm(wanted).map_or("-".into(), |ppm| format!("{:.1}%", ppm as f64 / 1e4));
                rows.add([
                    if wanted.objective == port.objective { "*".into() } else { String::new() },
                    wanted.objective.clone(),
                    share,
                    wanted.packets.to_string(),
                    wanted.bytes.to_string(),
                    per_second((wanted.bytes, self.time_ns), known, |bytes| rate(bytes * 8.0)),
                    wanted.scheme.clone(),
                ]);
            }
            rows.print(out)?;
        }
        for of in &self.code_points {
            writeln!(out, "{} requested by {}", of.objective, of.code_points.join(" "))?;
        }
        for on in &self.interfaces {
            let trusts = if on.trust {
                "code points are trusted; other packets have objective"
            } else {
                "all packets have objective"
            };
            writeln!(out, "on {} {trusts} {}", on.interface, on.objective)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn wanted(objective: &str, bytes: u64, scheme: &str) -> api::ObjectiveReply {
        let (packets, window_packets) = (bytes / 100, bytes / 1000);
        let (objective, scheme) = (objective.into(), scheme.into());
        api::ObjectiveReply { objective, scheme, packets, bytes, window_packets, window_bytes: bytes / 10 }
    }

    #[test]
    fn policy_table_shows_objectives_and_the_one_in_force() {
        let mut policies = api::Policies { time_ns: 0, ports: vec![], code_points: vec![], interfaces: vec![] };
        let shown = |policies: &api::Policies, before| {
            let mut out = Vec::new();
            policies.table(before, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(shown(&policies, None).starts_with("no port has a policy"));
        policies.ports.push(api::PortPolicy {
            port: "wan".into(),
            policy: "wired".into(),
            objective: "delay".into(),
            scheme: "codel".into(),
            changes: 1,
            held_ns: 25_000_000_000,
            wanted: vec![wanted("none", 1000, "fifo"), wanted("delay", 9000, "codel")],
        });
        let code_points = vec!["ef".into(), "cs5".into()];
        policies.code_points.push(api::CodePointsReply { objective: "delay".into(), code_points });
        for (interface, trust, objective) in [("lan", true, "none"), ("guests", false, "fct")] {
            let (interface, objective) = (interface.into(), objective.into());
            policies.interfaces.push(api::InterfaceObjective { interface, trust, objective });
        }
        let before = policies.clone();
        policies.time_ns += 1_000_000_000;
        policies.ports[0].wanted[1].bytes += 125_000;
        expect![[r#"
            wan, policy wired: objective delay, for 25s at least, scheme codel; 1 change
                objective  share  packets   bytes      rate  served by
                none       10.0%       10    1000      0bit  fifo
             *  delay      90.0%       90  134000  1.00mbit  codel
            delay requested by ef cs5
            on lan code points are trusted; other packets have objective none
            on guests all packets have objective fct
        "#]]
        .assert_eq(&shown(&policies, Some(&before)));
    }
}
