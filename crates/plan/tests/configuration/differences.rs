//! The difference between two plans: readable for people, complete for programs.

use crate::catalogue::catalogue;
use expect_test::{Expect, expect};
use plan::{Change, Plan, diff};
use proptest::prelude::*;

fn read(source: &str) -> Plan {
    plan::check(source, "f", &catalogue()).unwrap_or_else(|e| panic!("{}\n{source}", e.render(false)))
}

const OLD: &str = r#"version = 1
[port.lan]
device = "packet:eth0"
address = ["192.0.2.1/24"]
scheme = "fifo(limit=100)"
[port.wan]
device = "packet:eth1"
address = ["203.0.113.2/30"]
[port.wan.vlan.20]
address = ["198.51.100.1/24"]
[[route]]
to = "0.0.0.0/0"
via = "203.0.113.1"
[[route]]
to = "10.0.0.0/8"
blackhole = true
[[neighbour]]
address = "192.0.2.9"
mac = "02:00:00:00:00:09"
port = "lan"
[[multicast]]
group = "239.1.2.3"
from = "lan"
to = "wan"
[[path]]
name = "voice"
match = "ip dscp ef"
[[path]]
name = "web"
match = "tcp dport 443"
"#;

fn check(edits: &[(&str, &str)], expected: Expect) {
    let mut new = OLD.to_string();
    for (from, to) in edits {
        assert!(new.contains(from), "{from}");
        new = new.replace(from, to);
    }
    let changes = diff(&read(OLD), &read(&new));
    let line = |change: &Change| format!("{change}{}\n", if change.restart_needed() { " (restart)" } else { "" });
    expected.assert_eq(&changes.iter().map(line).collect::<String>());
}

#[test]
fn texts_with_the_same_meaning_have_no_difference() {
    check(&[], expect![""]);
    check(&[("fifo(limit=100)", " fifo ( limit=100 ) "), ("tcp dport 443", "tcp dport 443-443")], expect![""]);
}

#[test]
fn each_change_is_one_line() {
    check(
        &[("limit=100)", "limit=200)\"\nmtu = 1400\nmac = \"02:00:00:00:00:01")],
        expect![[r#"
        ~ port lan: mac none -> 02:00:00:00:00:01, scheme fifo(limit=100) -> fifo(limit=200)
        ~ interface lan: mtu 1500 -> 1400
    "#]],
    );
    check(
        &[("version = 1\n", "version = 1\n[router]\nname = \"x\"\nicmp_rate = 5\n")],
        expect![[r#"
        ~ router: name switchpath -> x, icmp_rate 100 -> 5
    "#]],
    );
    check(
        &[("version = 1\n", "version = 1\n[router]\nworkers = 2\n")],
        expect![[r#"
        ~ router: workers 1 -> 2 (restart)
    "#]],
    );
    check(
        &[("[port.wan.vlan.20]", "[port.wan.vlan.30]")],
        expect![[r#"
        - interface wan.20
        + interface wan.30: address 198.51.100.1/24 mtu 1500
    "#]],
    );
    check(
        &[("198.51.100.1/24\"", "198.51.100.1/25\", \"2001:db8::1/64\"")],
        expect![[r#"
        ~ interface wan.20: address 198.51.100.1/24 -> 198.51.100.1/25 2001:db8::1/64
    "#]],
    );
    check(
        &[("[port.wan.vlan.20]\n", "[port.dmz]\ndevice = \"memory:a\"\n[port.dmz.vlan.7]\n")],
        expect![[r#"
        + port dmz: device memory:a scheme fifo, dmz address none mtu 1500, dmz.7 address 198.51.100.1/24 mtu 1500
        - interface wan.20
    "#]],
    );
    check(
        &[("blackhole", "unreachable"), ("0.0.0.0/0", "172.16.0.0/12")],
        expect![[r#"
        - route 0.0.0.0/0 via 203.0.113.1 port wan
        ~ route 10.0.0.0/8: blackhole -> unreachable
        + route 172.16.0.0/12 via 203.0.113.1 port wan
    "#]],
    );
    check(
        &[("00:09", "00:0a")],
        expect![[r#"
        ~ neighbour 192.0.2.9 port lan: mac 02:00:00:00:00:09 -> 02:00:00:00:00:0a
    "#]],
    );
    check(
        &[("239.1.2.3\"\nfrom = \"lan\"\nto = \"wan\"", "239.1.2.3\"\nfrom = \"wan\"\nto = [\"wan.20\", \"lan\"]")],
        expect![[r#"
            ~ multicast 239.1.2.3: from lan to wan -> from wan to lan wan.20
        "#]],
    );
    check(
        &[("group = \"239.1.2.3\"", "group = \"239.1.2.3\"\nsource = \"192.0.2.7\"")],
        expect![[r#"
            - multicast 239.1.2.3 from lan to wan
            + multicast 239.1.2.3 source 192.0.2.7 from lan to wan
        "#]],
    );
    check(
        &[("192.0.2.9", "192.0.2.8")],
        expect![[r#"
        - neighbour 192.0.2.9 mac 02:00:00:00:00:09 port lan
        + neighbour 192.0.2.8 mac 02:00:00:00:00:09 port lan
    "#]],
    );
    check(
        &[("ip dscp ef\"", "ip dscp af41\"\nqueue = 7\nclass = 2\nfunctions = [\"count\", \"ip\"]")],
        expect![[r#"
        ~ path voice: match ip dscp ef -> ip dscp af41, functions ip -> count ip, queue 512 -> 7, class 0 -> 2
    "#]],
    );
    check(
        &[("voice", "speech")],
        expect![[r#"
        - path voice
        + path speech: match ip dscp ef functions ip queue 512 class 0
        ~ paths: order speech web
    "#]],
    );
    check(
        &[("voice", "x"), ("web", "voice"), ("\"x\"", "\"web\"")],
        expect![[r#"
        ~ path web: match tcp dport 443 -> ip dscp ef
        ~ path voice: match ip dscp ef -> tcp dport 443
        ~ paths: order web voice
    "#]],
    );
    check(
        &[
            ("packet:eth0\"", "pcap:a.pcap\"\nwrite = \"o\"\npace = \"10mbit\"\ncapture = \"none\""),
            ("scheme", "faults = { loss = 0.5 }\nscheme"),
        ],
        expect![[r#"
            ~ port lan: device packet:eth0 -> pcap:a.pcap, write none -> "o", pace recorded -> 10mbit, capture none -> "none", faults none -> loss 0.5 corrupt 0 duplicate 0 truncate 0 seed 1
        "#]],
    );
}

#[test]
fn changes_serialize_as_json() {
    let new = OLD.replace("limit=100", "limit=200").replace("blackhole", "unreachable");
    expect![[r#"
        [
          {
            "change": "port_changed",
            "name": "lan",
            "what": [
              {
                "what": "scheme",
                "old": "fifo(limit=100)",
                "new": "fifo(limit=200)"
              }
            ]
          },
          {
            "change": "route_changed",
            "old": {
              "vrf": null,
              "to": "10.0.0.0/8",
              "action": "blackhole"
            },
            "new": {
              "vrf": null,
              "to": "10.0.0.0/8",
              "action": "unreachable"
            }
          }
        ]"#]]
    .assert_eq(&serde_json::to_string_pretty(&diff(&read(OLD), &read(&new))).unwrap());
}

/// A plan from a small set of values, so that two of them have much in common.
fn any_plan() -> impl Strategy<Value = Plan> {
    let vlan = (1u8..4, proptest::bool::ANY, 1300u16..1302).prop_map(|(id, numbered, mtu)| (id, numbered, mtu));
    let port = (proptest::collection::btree_map(1u8..4, vlan, 0..3), 0u8..3, proptest::bool::ANY);
    let ports = proptest::collection::btree_map(0u8..3, port, 1..3);
    let routes = proptest::collection::btree_map(0u8..5, 0u8..3, 0..5);
    let paths = proptest::sample::subsequence(vec![0u8, 1, 2, 3], 0..=4).prop_shuffle();
    let neighbours = proptest::collection::btree_map(2u8..5, 1u8..3, 0..3);
    let cpu = (1u8..4, 1u8..3, prop::option::of(1u8..3));
    let policy = prop::option::of((1u8..3, 1u8..3));
    let groups = proptest::collection::btree_map(1u8..4, 0u8..2, 0..3);
    let sets = proptest::collection::btree_map(0u8..3, (1u8..3, proptest::bool::ANY), 0..3);
    let rest = (1u8..3, 0u8..2, cpu, policy, groups, sets);
    (ports, routes, paths, neighbours, rest).prop_map(|(ports, routes, paths, neighbours, rest)| {
        let (workers, class, cpu, policy, groups, sets) = rest;
        let mut text = format!("version = 1\nrouter.workers = {workers}\n");
        text += &format!("[cpu]\nadmission = \"warn\"\nlayout = {}\nforwarding = \"simple(packets={})\"\n", cpu.0, cpu.1);
        if let Some((dwell, dscp)) = policy {
            text += &format!("[objectives]\ndelay = [\"{dscp}\"]\n");
            text += &format!("[policy.q{dscp}]\n[policy.q]\ndwell = \"{dwell}s\"\n");
        }
        for (i, (vlans, scheme, captured)) in &ports {
            text += &format!("[port.p{i}]\ndevice = \"memory:m{i}\"\naddress = [\"10.{i}.0.1/24\"]\n");
            text += &if *captured { format!("capture = \"c{i}\"\n") } else { String::new() };
            text += ["", "scheme = \"fifo(limit=7)\"\n", "scheme = \"codel\"\n"][usize::from(*scheme)];
            text += policy.map_or("", |_| "policy = \"q\"\ntrust = true\n");
            for (id, (_, numbered, mtu)) in vlans {
                text += &format!("[port.p{i}.vlan.{id}]\nmtu = {mtu}\n");
                text += &if *numbered { format!("address = [\"10.{i}.{id}.1/24\"]\n") } else { String::new() };
            }
        }
        let first = ports.keys().next().unwrap();
        for (to, action) in &routes {
            text += &format!("[[route]]\nto = \"172.16.{to}.0/24\"\n");
            text += &["blackhole = true\n".into(), "unreachable = true\n".into(), format!("via = \"10.{first}.0.9\"\n")]
                [usize::from(*action)];
        }
        for (host, mac) in &neighbours {
            text += &format!("[[neighbour]]\naddress = \"10.{first}.0.{host}\"\nmac = \"02:00:00:00:00:0{mac}\"\nport = \"p{first}\"\n");
        }
        for (group, turned) in groups.iter().filter(|_| ports.len() > 1) {
            let (near, far) = (first, ports.keys().next_back().unwrap());
            let (from, to) = if *turned == 0 { (near, far) } else { (far, near) };
            text += &format!("[[multicast]]\ngroup = \"239.0.0.{group}\"\nfrom = \"p{from}\"\nto = \"p{to}\"\n");
        }
        for (i, (element, is_long)) in &sets {
            text += &format!("[set.s{i}]\nelements = [\"10.0.0.{element}\"]\nsize = {}\n", if *is_long { 9 } else { 3 });
        }
        if class == 1 {
            text += &format!("[routing]\nrules = [\"udp dport {class} via 10.{first}.0.9\"]\n");
        }
        for path in &paths {
            text += &format!("[[path]]\nname = \"w{path}\"\nmatch = \"tcp dport {path}\"\nclass = {class}\n");
            text += &cpu.2.map_or(String::new(), |rate| format!("reserve = \"{rate}kpps\"\n"));
        }
        read(&text)
    })
}

/// The old plan with the changes applied one by one, as an apply does.
fn applied(old: &Plan, new: &Plan, changes: &[Change]) -> Plan {
    let mut plan = old.clone();
    for change in changes.iter().cloned() {
        match change {
            Change::RouterChanged { what } => {
                for edit in what {
                    assert_eq!(edit.what, "workers");
                    plan.workers = edit.new.parse().unwrap();
                }
            }
            Change::CpuChanged { what } => {
                assert!(what.iter().all(|edit| edit.what == "layout" || edit.what == "forwarding"));
                plan.cpu = new.cpu.clone();
            }
            Change::PortAdded { port } => plan.ports.push(*port),
            Change::PortRemoved { name } => plan.ports.retain(|p| p.name != name),
            Change::PortChanged { name, what } => {
                let port = plan.ports.iter_mut().find(|p| p.name == name).unwrap();
                let target = new.ports.iter().find(|p| p.name == name).unwrap();
                for edit in what {
                    match edit.what {
                        "scheme" => port.scheme = target.scheme.clone(),
                        "policy" => port.policy = target.policy.clone(),
                        "capture" => port.capture = target.capture.clone(),
                        "estimator" => port.cpu.estimator = target.cpu.estimator,
                        other => panic!("{other}"),
                    }
                }
            }
            Change::InterfaceAdded { port, interface } => {
                plan.ports.iter_mut().find(|p| p.name == port).unwrap().interfaces.push(interface);
            }
            Change::InterfaceRemoved { port, name } => {
                plan.ports.iter_mut().find(|p| p.name == port).unwrap().interfaces.retain(|i| i.name != name);
            }
            Change::InterfaceChanged { port, name, what } => {
                let port = plan.ports.iter_mut().find(|p| p.name == port).unwrap();
                let interface = port.interfaces.iter_mut().find(|i| i.name == name).unwrap();
                for edit in what {
                    match edit.what {
                        "trust" => interface.trust = edit.new.parse().unwrap(),
                        "mtu" => interface.mtu = edit.new.parse().unwrap(),
                        "address" if edit.new == "none" => interface.addresses.clear(),
                        "address" => interface.addresses = edit.new.split(' ').map(|a| a.parse().unwrap()).collect(),
                        other => panic!("{other}"),
                    }
                }
            }
            Change::RouteAdded { route } => plan.routes.push(route),
            Change::RouteRemoved { route } => plan.routes.retain(|r| *r != route),
            Change::RouteChanged { old, new } => *plan.routes.iter_mut().find(|r| **r == old).unwrap() = new,
            Change::PassThroughAdded { passthrough } => plan.passthrough.push(passthrough),
            Change::PassThroughRemoved { passthrough } => plan.passthrough.retain(|pair| *pair != passthrough),
            Change::MulticastAdded { multicast } => plan.multicast.push(multicast),
            Change::MulticastRemoved { multicast } => plan.multicast.retain(|m| *m != multicast),
            Change::MulticastChanged { old, new } => *plan.multicast.iter_mut().find(|m| **m == old).unwrap() = new,
            Change::NeighbourAdded { neighbour } => plan.neighbours.push(neighbour),
            Change::NeighbourRemoved { neighbour } => plan.neighbours.retain(|n| *n != neighbour),
            Change::NeighbourChanged { old, new } => *plan.neighbours.iter_mut().find(|n| **n == old).unwrap() = new,
            Change::NatChanged { .. } => plan.nat = new.nat.clone(),
            Change::StateChanged { .. } => plan.state = new.state.clone(),
            Change::LinuxChanged { .. } => plan.linux = new.linux.clone(),
            Change::SubscribersChanged { .. } => plan.subscribers = new.subscribers.clone(),
            Change::ObjectivesChanged { what } => {
                assert!(what.iter().all(|edit| edit.what == "delay"));
                plan.objectives = new.objectives.clone();
            }
            Change::PolicyAdded { policy } => plan.policies.push(*policy),
            Change::PolicyRemoved { name } => plan.policies.retain(|policy| policy.name != name),
            Change::PolicyChanged { name, what } => {
                let policy = plan.policies.iter_mut().find(|policy| policy.name == name).unwrap();
                for edit in what {
                    assert_eq!(edit.what, "dwell");
                    policy.dwell = edit.new.parse().unwrap();
                }
            }
            Change::SetAdded { set } => plan.sets.push(*set),
            Change::SetRemoved { name } => plan.sets.retain(|set| set.name != name),
            Change::SetChanged { name, what } => {
                let set = plan.sets.iter_mut().find(|set| set.name == name).unwrap();
                for edit in what {
                    match edit.what {
                        "elements" => set.elements = vec![edit.new.parse().unwrap()],
                        "size" => set.size = edit.new.parse().unwrap(),
                        other => panic!("{other}"),
                    }
                }
            }
            Change::PathAdded { path } => plan.paths.push(path),
            Change::PathRemoved { name } => plan.paths.retain(|p| p.name != name),
            Change::PathChanged { name, what } => {
                let path = plan.paths.iter_mut().find(|p| p.name == name).unwrap();
                let target = new.paths.iter().find(|p| p.name == name).unwrap();
                for edit in what {
                    match edit.what {
                        "class" => path.class = edit.new.parse().unwrap(),
                        "reserve" => path.cpu = target.cpu,
                        other => panic!("{other}"),
                    }
                }
            }
            Change::RoutingChanged { what } => {
                assert!(what.iter().all(|edit| edit.what == "rules"));
                plan.routing = new.routing.clone();
            }
            Change::PathsReordered { order } => {
                plan.paths.sort_by_key(|p| order.iter().position(|name| *name == p.name).unwrap());
            }
        }
    }
    plan.ports.sort_by(|a, b| a.name.cmp(&b.name));
    plan.policies.sort_by(|a, b| a.name.cmp(&b.name));
    plan.sets.sort_by(|a, b| a.name.cmp(&b.name));
    plan.ports.iter_mut().for_each(|port| port.interfaces.sort_by_key(|i| i.vlan));
    plan.routes.sort_by_key(|r| r.to);
    plan.passthrough.sort_by(|a, b| a.ports.cmp(&b.ports));
    plan.multicast.sort_by(|a, b| (&a.vrf, a.group, a.source).cmp(&(&b.vrf, b.group, b.source)));
    plan.neighbours.sort_by(|a, b| (&a.interface, a.address).cmp(&(&b.interface, b.address)));
    plan
}

proptest! {
    #[test]
    fn applying_the_changes_gives_the_new_plan(old in any_plan(), new in any_plan()) {
        let changes = diff(&old, &new);
        prop_assert_eq!(changes.is_empty(), old == new);
        prop_assert_eq!(applied(&old, &new, &changes), new);
        for change in &changes {
            prop_assert!(!change.to_string().contains('\n'));
        }
    }

    #[test]
    fn plan_does_not_differ_from_itself(plan in any_plan()) {
        prop_assert!(diff(&plan, &plan.clone()).is_empty());
    }
}
