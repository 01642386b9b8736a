//! Random lists of rules beside a linear reading, and beside what a dry run predicts.

use super::*;
use plan::{FibMatch, NoSets, RoutingRule, RoutingVerdict};
use plane::explain::{ExpectedFate, ExplainContext, explain};

/// A generator of pseudo-random numbers (Steele, Lea and Flood 2014: splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}

fn random_rule(chance: &mut Chance) -> String {
    let v6 = chance.below(2) == 1;
    let ip = if v6 { "ip6" } else { "ip" };
    let mut text = String::new();
    let mut family = false;
    for (field, networks) in [("saddr", &[1, 7, 8, 9, 30][..]), ("daddr", &[2, 7, 8, 9, 20])] {
        if chance.below(2) == 0 {
            text += &format!("{ip} {field} {} ", network(v6, chance.one_of(networks)));
            family = true;
        }
    }
    if chance.below(3) == 0 {
        text += &format!("udp dport {} ", chance.one_of(&["1", "2", "1-2", "{ 1, 3 }"]));
    }
    if chance.below(4) == 0 {
        text += chance.one_of(&["iif lan ", "iif blue ", "vrf blue ", "vrf main "]);
    }
    if chance.below(4) == 0 {
        text += &format!("{} ", chance.one_of(&FibMatch::ALL));
    }
    if chance.below(5) == 0 {
        text += &format!("ip dscp set {} ", chance.below(64));
    }
    // A next hop of the family of the conditions.
    let hop = address(if family { v6 } else { chance.below(2) == 1 }, chance.one_of(&[2, 3, 4]), 2);
    let verdict = match chance.below(8) {
        0 => "accept".to_string(),
        1 => "drop".to_string(),
        2 => "unreachable".to_string(),
        3 => "vrf main".to_string(),
        4 => "vrf blue".to_string(),
        _ => format!("via {hop}"),
    };
    text + &verdict
}

/// The route of a network in a VRF: the ports by which packets may leave; empty for none, `discard` to drop.
fn route(blue: bool, network: u8) -> &'static [&'static str] {
    match (blue, network) {
        (false, 1) => &["lan"],
        (false, 3 | 7) => &["b"],
        (false, 9) => &["a", "b"],
        (false, _) => &["a"],
        (true, 4 | 8) => &["blue"],
        (true, 9) => &["discard"],
        (true, _) => &[],
    }
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    v6: bool,
    blue: bool,
    from: u8,
    to: u8,
    dport: u16,
}

/// The ports by which a packet may leave, and its code point, by the rules in their order, one after the other; and the rule that decides.
fn linear(rules: &[RoutingRule], probe: Probe, frame: &[u8]) -> (&'static [&'static str], u8, Option<usize>) {
    let usual = route(probe.blue, probe.to);
    let fields = plane::fields::match_fields(frame, 0).unwrap();
    let (port, vrf) = if probe.blue { ("blue", "blue") } else { ("lan", "main") };
    for (position, rule) in rules.iter().enumerate() {
        let RoutingRule { matching, statements, verdict, .. } = rule;
        let back = route(probe.blue, probe.from);
        let exists = |by_input: bool| match by_input {
            true => back.contains(&port),
            false => !back.is_empty() && !back.contains(&"discard"),
        };
        if matching.iif.as_ref().is_some_and(|iif| iif != port)
            || matching.vrf.as_ref().is_some_and(|name| name != vrf)
            || matching.unmet(&fields, &NoSets).is_some()
            || matching.fib.is_some_and(|fib| exists(fib.by_input) == fib.missing)
        {
            continue;
        }
        let selected: &[&str] = match verdict {
            RoutingVerdict::Accept => usual,
            RoutingVerdict::Drop | RoutingVerdict::Unreachable => &["discard"],
            RoutingVerdict::Vrf(name) => match route(&**name == "blue", probe.to) {
                [] => continue,
                route => route,
            },
            RoutingVerdict::Via { interface, .. } => match interface.as_deref() {
                Some("a") => &["a"],
                Some("b") => &["b"],
                _ => &["blue"],
            },
        };
        let dscp = statements.iter().find_map(|statement| match statement {
            plan::FilterStatement::SetDscp(dscp) => Some(*dscp),
            _ => None,
        });
        return (selected, dscp.unwrap_or(0), Some(position));
    }
    (usual, 0, None)
}

#[test]
fn random_rules_select_the_routes_of_a_linear_reading() {
    let mut chance = Chance(75);
    let mut seen = [0; 4];
    for round in 0..24 {
        let size = [3, 10, 40, 200][round % 4];
        let texts: Vec<String> = (0..size).map(|_| random_rule(&mut chance)).collect();
        let mut rig = Rig::running(2048, Layout::Three, &config(&texts));
        let completed = |rig: &Rig| -> Vec<RoutingRule> {
            list(rig).rules().iter().map(|status| RoutingRule::parse(&status.rule.text).unwrap()).collect()
        };
        let mut rules = completed(&rig);
        let mut expected_counts = vec![0; rules.len()];
        for step in 0..120 {
            // Other rules in the same places.
            if step % 40 == 39 {
                let ids: Vec<u32> = list(&rig).rules().iter().map(|status| status.id).collect();
                for _ in 0..3 {
                    let at = chance.below(ids.len() as u64) as usize;
                    let id = list(&rig).rules()[at].id;
                    change(&rig, &format!("replace {id} {}", random_rule(&mut chance)));
                    expected_counts[at] = 0;
                }
                rules = completed(&rig);
            }
            // A few packets in one batch, so that one must not get the result of another.
            let probes: Vec<Probe> = (0..4)
                .map(|_| {
                    let blue = chance.below(3) == 0;
                    Probe {
                        v6: chance.below(2) == 1,
                        blue,
                        from: if blue { chance.one_of(&[8, 9, 30]) } else { chance.one_of(&[1, 7, 9, 30]) },
                        to: chance.one_of(&[7, 8, 9, 20]),
                        dport: 1 + chance.below(4) as u16,
                    }
                })
                .collect();
            for probe in &probes {
                let (to, port) = if probe.blue { (BLUE, "blue") } else { (LAN, "lan") };
                let ends = (address(probe.v6, probe.from, 9), address(probe.v6, probe.to, 9));
                let frame = udp(to, ends, probe.dport, 0);
                let (ports, dscp, position) = linear(&rules, *probe, &frame);
                if let Some(position) = position {
                    expected_counts[position] += 1;
                }
                let fate = explained(&rig, port, &frame);
                rig.send(port, &frame);
                rig.settle();
                let sent = left(&mut rig);
                let context = || format!("{probe:?} by rule {position:?} of\n{}", list_text(&rules));
                match sent[..] {
                    [] => assert!(ports.is_empty() || ports == ["discard"], "expected {ports:?}: {}", context()),
                    [(wire, _, found)] => {
                        assert!(ports.contains(&wire), "{wire}, expected {ports:?}: {}", context());
                        assert_eq!(found, dscp, "{}", context());
                    }
                    _ => panic!("several copies: {sent:?}"),
                }
                assert_eq!(fate, sent.first().map(|(wire, ..)| wire.to_string()), "explained: {}", context());
                seen[if sent.is_empty() { 0 } else { PORTS.iter().position(|port| *port == sent[0].0).unwrap() }] += 1;
                rig.advance(Nanos::millis(1));
            }
            let found: Vec<u64> = list(&rig).rules().iter().map(|status| status.count.packets).collect();
            assert_eq!(found, expected_counts, "step {step} of\n{}", list_text(&rules));
        }
    }
    // Every target is reached often, so the comparison means something.
    assert!(seen.iter().all(|times| *times > 300), "{seen:?}");
}

fn list_text(rules: &[RoutingRule]) -> String {
    rules.iter().take(20).enumerate().map(|(position, rule)| format!("{position}: {rule}\n")).collect()
}

/// The port by which a dry run sends the packet.
fn explained(rig: &Rig, port: &str, frame: &[u8]) -> Option<String> {
    let snapshot = rig.router.snapshot();
    let reports = [rig.report()];
    let question = ExplainContext {
        snapshot,
        tables: rig.router.tables(),
        reports: &reports,
        now: rig.now,
        functions: rig.router.functions(),
    };
    let id = snapshot.interface_named(port).unwrap().port;
    match explain(&question, id, frame).expected {
        ExpectedFate::Sent { port, .. } => Some(snapshot.port(port).unwrap().name.to_string()),
        _ => None,
    }
}
