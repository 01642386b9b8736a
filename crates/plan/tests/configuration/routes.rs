//! VRFs, routes with several next hops, and batches of changes.

use crate::catalogue::catalogue;
use expect_test::{Expect, expect};
use plan::batch::{ChangeBatch, Edit, batch};
use plan::{NextHopPlan, Plan, RouteAction, check, examine};
use proptest::prelude::*;

const BASE: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
address = ["192.0.2.1/24", "2001:db8:1::1/64"]
[port.wan]
device = "memory:wan"
address = ["198.51.100.1/24"]
[port.red]
device = "memory:red"
vrf = "red"
address = ["192.0.2.1/24"]
[port.red.vlan.20]
address = ["203.0.113.1/24"]
[port.red.vlan.30]
vrf = "main"
address = ["203.0.113.1/24"]
"#;

fn plan_of(more: &str) -> Plan {
    check(&format!("{BASE}{more}"), "f", &catalogue()).unwrap_or_else(|found| panic!("{found}"))
}

fn wrong(more: &str, expected: Expect) {
    expected.assert_eq(&examine(&format!("{BASE}{more}"), "f", &catalogue()).diagnostics.to_string());
}

fn route(lines: &str) -> String {
    plan_of(&format!("[[route]]\n{lines}\n")).routes[0].to_string()
}

#[test]
fn vrf_has_its_own_subnets_addresses_and_gateways() {
    let plan = plan_of("");
    let vrfs: Vec<String> =
        plan.interfaces().map(|(_, i)| format!("{} {}", i.name, i.vrf.as_deref().unwrap_or("main"))).collect();
    assert_eq!(vrfs, ["lan main", "red red", "red.20 red", "red.30 main", "wan main"]);
    let both = plan_of(
        "[[route]]\nto = '10.0.0.0/8'\nvia = '192.0.2.9'\n[[route]]\nvrf = 'red'\nto = '10.0.0.0/8'\nvia = '192.0.2.9'\n",
    );
    let texts: Vec<String> = both.routes.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["10.0.0.0/8 via 192.0.2.9 port lan", "vrf red 10.0.0.0/8 via 192.0.2.9 port red"]);
    assert_eq!(
        route("vrf = 'red'\nto = '10.0.0.0/8'\nvia = '198.51.100.9'\nport = 'wan'\nleak = true"),
        "vrf red 10.0.0.0/8 via 198.51.100.9 port wan"
    );
    assert_eq!(route("vrf = 'main'\nto = '10.0.0.0/8'\nblackhole = true"), "10.0.0.0/8 blackhole");
}

#[test]
fn route_leaves_its_vrf_only_with_leak() {
    wrong(
        r#"
[[route]]
vrf = "red"
to = "10.0.0.0/8"
via = "198.51.100.9"
port = "wan"
[[route]]
vrf = "red"
to = "10.1.0.0/16"
via = "198.51.100.9"
[[route]]
vrf = "rad"
to = "10.2.0.0/16"
blackhole = true
leak = true
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:09"
port = "red"
"#,
        expect![[r#"
            f:22:7: error: 'wan' is in the VRF 'main', but the route is in 'red'; add leak = true to let packets leave 'red' by this route, or use another port
            f:27:7: error: 198.51.100.9 is on no connected subnet of the VRF 'red'; the connected subnets are 192.0.2.0/24 (red), 203.0.113.0/24 (red.20)
            f:29:7: error: no port is in a VRF 'rad'; did you mean 'red'?
            f:32:8: error: 'leak' needs 'via', which this route does not have; remove it
            f:34:11: error: 198.51.100.9 is on no connected subnet of the VRF 'red'; the connected subnets are 192.0.2.0/24 (red), 203.0.113.0/24 (red.20)
        "#]],
    );
    wrong(
        "[port.x]\ndevice = 'memory:x'\nvrf = 'Red 2'\n",
        expect![[r#"
        f:20:7: error: 'Red 2' is no name for a VRF; use a letter, then letters, digits, '_' and '-', 15 at most: [a-z][a-z0-9_-]{0,14}
    "#]],
    );
}

#[test]
fn next_hops_share_by_weight() {
    let base = "to = '10.0.0.0/8'\n";
    for (via, text) in [
        ("['198.51.100.9', '192.0.2.9']", "10.0.0.0/8 via 192.0.2.9 port lan via 198.51.100.9 port wan"),
        ("['192.0.2.9 weight 2', '192.0.2.8']", "10.0.0.0/8 via 192.0.2.8 port lan via 192.0.2.9 port lan weight 2"),
        ("['192.0.2.9 weight 7']", "10.0.0.0/8 via 192.0.2.9 port lan"),
        ("'192.0.2.9 port lan'", "10.0.0.0/8 via 192.0.2.9 port lan"),
    ] {
        assert_eq!(route(&format!("{base}via = {via}")), text);
    }
    let local = route("to = '2001:db8::/32'\nvia = ['fe80::1 port lan', 'fe80::1 port red.30']");
    assert_eq!(local, "2001:db8::/32 via fe80::1 port lan via fe80::1 port red.30");
}

#[test]
fn default_is_all_addresses_of_the_gateways_family() {
    for (lines, text) in [
        ("via = '192.0.2.9'", "0.0.0.0/0 via 192.0.2.9 port lan"),
        ("via = ['192.0.2.9']", "0.0.0.0/0 via 192.0.2.9 port lan"),
        ("via = 'fe80::1 port lan'", "::/0 via fe80::1 port lan"),
        ("via = ['fe80::1 port lan', 'fe80::1 port red.30']", "::/0 via fe80::1 port lan via fe80::1 port red.30"),
        ("blackhole = true", "0.0.0.0/0 blackhole"),
    ] {
        assert_eq!(route(&format!("to = 'default'\n{lines}")), text);
    }
    let plan = plan_of("");
    for (line, to) in [
        ("add default via 192.0.2.9", "0.0.0.0/0"),
        ("add default via fe80::1 port lan", "::/0"),
        ("add vrf red default blackhole", "0.0.0.0/0"),
        ("del default", "0.0.0.0/0"),
        ("del ::/0", "::/0"),
    ] {
        let read = batch(line, "b", &plan).unwrap();
        let found = match &read.lines[0].edit {
            Edit::AddRoute(route) => route.to,
            Edit::DelRoute(_, to) => *to,
            other => panic!("{other:?}"),
        };
        assert_eq!(found.to_string(), to, "{line}");
    }
}

#[test]
fn error_in_one_of_several_next_hops_names_that_hop() {
    wrong(
        r#"
[[route]]
to = "10.0.0.0/8"
via = ["192.0.2.9", "10.9.9.9", "192.0.2.9 weight 2"]
[[route]]
to = "10.1.0.0/16"
via = ["192.0.2.9 weight 0", "192.0.2.8 weigth 3", "192.0.2.7 port", "192.0.2.6 port lam"]
[[route]]
to = "10.2.0.0/16"
via = []
[[route]]
to = "10.3.0.0/16"
via = ["192.0.2.9 weight 500", "192.0.2.8 weight 500"]
[[route]]
to = "10.4.0.0/16"
via = [3]
[[route]]
to = "10.5.0.0/16"
via = ""
"#,
        expect![[r#"
            f:21:21: error: 10.9.9.9 is on no connected subnet; the connected subnets are 192.0.2.0/24 (lan), 198.51.100.0/24 (wan), 203.0.113.0/24 (red.30)
            f:21:33: error: 192.0.2.9 is given twice; write it once, with a weight for a larger share
            f:24:26: error: '0' is no weight; write a number from 1 to 512
            f:24:41: error: unexpected 'weigth' after a next hop; did you mean 'weight'?
            f:24:63: error: 'port' has no value; write 'port lan', 'weight 2'
            f:24:86: error: there is no port or VLAN 'lam'; did you mean 'lan'?
            f:27:7: error: 'via' is an empty list; write via = ["203.0.113.1 weight 2", "203.0.113.2"]
            f:30:32: error: the sum of the weights is 1000, more than 512; use smaller ones
            f:33:8: error: expected a string, not a whole number; write "192.0.2.9"
            f:36:7: error: '' is no address; write an address, like '192.0.2.9' or '2001:db8::9'
        "#]],
    );
    let many: Vec<String> = (1..=65).map(|n| format!("'192.0.2.{}'", n + 1)).collect();
    wrong(
        &format!("[[route]]\nto = '10.0.0.0/8'\nvia = [{}]\n", many.join(",")),
        expect![[r#"
        f:20:832: error: there are more than 64 next hops; use at most 64
    "#]],
    );
}

fn read<'s>(text: &'s str, plan: &Plan) -> ChangeBatch<'s> {
    batch(text, "changes.txt", plan).unwrap_or_else(|found| panic!("{found}"))
}

#[test]
fn batch_has_one_change_per_line() {
    let plan = plan_of("");
    let text = "\
# everything there is
add 10.0.0.0/8 via 192.0.2.9
  add\t10.1.0.0/16 via 192.0.2.9 weight 2 via 198.51.100.9 port wan   # with a remark

add vrf red 10.0.0.0/8 via 192.0.2.9
add vrf red 10.3.0.0/16 via 198.51.100.9 port wan leak
add 2001:db8::/32 via fe80::1 port lan
add 10.2.0.0/16 blackhole
add 10.4.0.0/16 unreachable
del 10.0.0.0/8
del vrf red 10.0.0.0/8
flush
flush vrf red
flush vrf main
neighbour add 192.0.2.9 mac 02:00:00:00:00:09 port red
neighbour del 192.0.2.9 port lan\r
";
    let told: Vec<String> = read(text, &plan)
        .lines
        .iter()
        .map(|line| {
            let edit = match &line.edit {
                Edit::AddRoute(route) => format!("+ {route}"),
                Edit::DelRoute(vrf, to) => format!("- {vrf:?} {to}"),
                Edit::Flush(vrf) => format!("flush {vrf:?}"),
                Edit::AddNeighbour(n) => format!("+ {} {} {}", n.address, n.mac, n.interface),
                Edit::DelNeighbour(interface, address) => format!("- {address} {interface}"),
            };
            format!("{}: {edit}\n", line.line)
        })
        .collect();
    expect![[r#"
        2: + 10.0.0.0/8 via 192.0.2.9 port lan
        3: + 10.1.0.0/16 via 192.0.2.9 port lan weight 2 via 198.51.100.9 port wan
        5: + vrf red 10.0.0.0/8 via 192.0.2.9 port red
        6: + vrf red 10.3.0.0/16 via 198.51.100.9 port wan
        7: + 2001:db8::/32 via fe80::1 port lan
        8: + 10.2.0.0/16 blackhole
        9: + 10.4.0.0/16 unreachable
        10: - None 10.0.0.0/8
        11: - Some("red") 10.0.0.0/8
        12: flush None
        13: flush Some(Some("red"))
        14: flush Some(None)
        15: + 192.0.2.9 02:00:00:00:00:09 red
        16: - 192.0.2.9 lan
    "#]]
    .assert_eq(&told.concat());
}

#[test]
fn batch_reports_all_errors_with_their_lines() {
    let plan = plan_of("");
    let text = "\
add 10.0.0.0/8 via 192.0.2.9
ad 10.0.0.0/8 via 192.0.2.9
add 10.0.0.0/8
add 10.1.0.0/8 via 192.0.2.9
add 10.0.0.0/8 vai 192.0.2.9
add 10.0.0.0/8 via 10.9.9.9
add 10.0.0.0/8 via 192.0.2.9 via
add 10.0.0.0/8 blackhole please
add vrf blue 10.0.0.0/8 blackhole
add vrf red 10.0.0.0/8 via 198.51.100.9 port wan
add
del 10.0.0.0/8 via 192.0.2.9
flush everything
neighbour 192.0.2.9
neighbour add 192.0.2.9 port lan
neighbour add 192.0.2.9 mac 02:00:00:00:00:09
neighbour add 192.0.2.9 mac 01:00:00:00:00:09 port lan
neighbour del 192.0.2.9 mac 02:00:00:00:00:09 port lan
add 10.0.0.0/8 via \u{1b}[2J
";
    expect![[r#"
        changes.txt:2:1: error: there is no change 'ad'; did you mean 'add'?
        changes.txt:3:15: error: the route has no next hop; write 'via ADDRESS', 'blackhole' or 'unreachable' after the destination
        changes.txt:4:5: error: '10.1.0.0/8' has bits set after its prefix length; write '10.0.0.0/8'
        changes.txt:5:16: error: 'vai' cannot follow the destination of a route; did you mean 'via'?
        changes.txt:6:20: error: 10.9.9.9 is on no connected subnet; the connected subnets are 192.0.2.0/24 (lan), 203.0.113.0/24 (red.30), 198.51.100.0/24 (wan)
        changes.txt:7:16: error: '' is no address; write an address, like '192.0.2.9' or '2001:db8::9'
        changes.txt:8:26: error: unexpected 'please'; remove it
        changes.txt:9:9: error: no port is in a VRF 'blue'; use one of red, main
        changes.txt:10:28: error: 'wan' is in the VRF 'main', but the route is in 'red'; add leak = true to let packets leave 'red' by this route, or use another port
        changes.txt:11:4: error: the destination is missing; write it, as in 'add 10.0.0.0/8 via 192.0.2.1'
        changes.txt:12:16: error: unexpected 'via'; remove it
        changes.txt:13:7: error: 'everything' cannot be flushed; write 'flush', or 'flush vrf red'
        changes.txt:14:11: error: there is no change '192.0.2.9'; use one of add, del
        changes.txt:15:33: error: the MAC address is missing; write it, as in 'neighbour add 192.0.2.9 mac 02:00:00:00:00:09 port lan'
        changes.txt:16:46: error: the port is missing; write it, as in 'neighbour add 192.0.2.9 mac 02:00:00:00:00:09 port lan'
        changes.txt:17:29: error: 01:00:00:00:00:09 is a multicast address; make the first byte even, like '02'
        changes.txt:18:29: error: 'neighbour del' needs only the address and the port; remove 'mac'
        changes.txt:19:20: error: '�[2J' is no address; write an address, like '192.0.2.9' or '2001:db8::9'
    "#]].assert_eq(&batch(text, "changes.txt", &plan).unwrap_err().to_string());
    let good = read("add 10.0.0.0/8 blackhole\n\ndel 10.1.0.0/16 # gone\ndel 10.2.0.0/16", &plan);
    let wrong = [(3, "it is not there".to_string(), "look again".to_string()), (4, "nor this".into(), "again".into())];
    expect![[r#"
        changes.txt:3:1: error: it is not there; look again
        changes.txt:4:1: error: nor this; again
    "#]]
    .assert_eq(&good.refuse(wrong).to_string());
}

#[test]
fn printed_route_can_be_added() {
    let plan = plan_of(
        "[[route]]\nvrf = 'red'\nto = '10.0.0.0/8'\nvia = ['192.0.2.9 weight 3', '203.0.113.7']\n\
         [[route]]\nto = '::/0'\nvia = 'fe80::1'\nport = 'wan'\n[[route]]\nto = '10.0.0.0/8'\nunreachable = true\n",
    );
    let text: String = plan.routes.iter().map(|route| format!("add {route}\n")).collect();
    let again: Vec<Edit> = read(&text, &plan).lines.into_iter().map(|line| line.edit).collect();
    assert_eq!(again, plan.routes.iter().cloned().map(Edit::AddRoute).collect::<Vec<_>>());
    let RouteAction::Group(hops) = &plan.routes[2].action else { panic!("{:?}", plan.routes) };
    assert!(matches!(&hops[0], NextHopPlan { weight: 3, .. }));
}

#[test]
fn batch_of_a_million_lines_is_parsed() {
    let text: String = (0..1_000_000u32)
        .map(|n| format!("add {}.{}.{}.0/24 via 192.0.2.{}\n", 16 + (n >> 16), n >> 8 & 255, n & 255, 2 + n % 200))
        .collect();
    assert_eq!(read(&text, &plan_of("")).lines.len(), 1_000_000);
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused_with_reasons(text in "(((add|del|flush|neighbour|vrf|red|via|port|lan|weight|leak|10\\.0\\.0\\.0/8|192\\.0\\.2\\.9|#|\\PC{0,4}) ){0,8}\n){0,6}") {
        if let Err(found) = batch(&text, "f", &plan_of("")) {
            prop_assert!(found.list().iter().all(|d| d.line > 0 && !d.reason.is_empty() && !d.hint.is_empty()), "{}", found);
        }
    }
}
