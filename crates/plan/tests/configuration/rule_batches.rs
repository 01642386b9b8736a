//! Changes of lists of rules.

use crate::catalogue::catalogue;
use plan::{FilterRule, Match, PathRule, Plan, RoutingRule, RuleChange, RuleListKind, RulePlace, RuleText, rule_batch};

const CONFIG: &str = r#"version = 1
[port.lan]
device = "memory:a"
address = ["10.0.0.1/24"]
[set.bad]
elements = ["192.0.2.1"]
[[path]]
name = "gold"
match = "udp"
functions = ["filter", "ip"]
filter = ["accept"]
"#;

fn plan() -> Plan {
    plan::check(CONFIG, "test.toml", &catalogue()).expect("it is right")
}

#[test]
fn routing_rules_are_checked_against_the_ports_and_vrfs_of_the_plan() {
    let config = CONFIG.replace(
        "[set.bad]",
        "[port.red]\ndevice = \"memory:b\"\nvrf = \"red\"\naddress = [\"192.0.2.1/24\"]\n[set.bad]",
    );
    let plan = plan::check(&config, "test.toml", &catalogue()).expect("it is right");
    let text = "add udp dport 7 via 192.0.2.9\nadd before 1 iif lan vrf red # why\nremove 2";
    let batch = rule_batch(text, "x", &plan, RuleListKind::Routing).expect("all are right");
    let rule = |text| RuleText::Routing(RoutingRule::parse(text).expect("it is a rule"));
    // The port of a next hop follows from its subnet.
    let wanted = [
        (1, RuleChange::Add(RulePlace::End, rule("udp dport 7 via 192.0.2.9 dev red"))),
        (2, RuleChange::Add(RulePlace::Before(1), rule("iif lan vrf red"))),
        (3, RuleChange::Remove(2)),
    ];
    assert_eq!(batch.changes, wanted);
    for (text, message) in [
        ("add vrf blue", "x:1:9: error: no interface is in the VRF 'blue'"),
        ("add via 203.0.113.9", "x:1:5: error: 203.0.113.9 is on no connected subnet"),
        ("add via 192.0.2.9 dev lan", "x:1:5: error: 192.0.2.9 is on no connected subnet"),
        ("add via 192.0.2.9 dev wan", "x:1:23: error: there is no port or VLAN 'wan'"),
        ("add via 192.0.2.1", "x:1:5: error: 192.0.2.1 is the router's own address"),
        (
            "add via fe80::1",
            "x:1:5: error: fe80::1 is link-local, so its port is ambiguous; write 'via fe80::1 dev lan'",
        ),
        ("add iif wan drop", "x:1:9: error: there is no port or VLAN 'wan'"),
        ("add ct state new drop", "x:1:5: error: a routing rule cannot match 'ct state'"),
        ("add udp path gold", "'udp' has no field 'path'"),
        ("replace 1 tcp reject", "x:1:15: error: 'reject' is no verdict of a routing rule"),
    ] {
        let wrong = rule_batch(text, "x", &plan, RuleListKind::Routing).expect_err(text).to_string();
        assert!(wrong.contains(message), "{text}: {wrong}");
    }
    let wrong = rule_batch("add fib saddr oif missing path gold", "x", &plan, RuleListKind::Paths)
        .expect_err("no path")
        .to_string();
    assert!(wrong.contains("x:1:5: error: a path cannot match 'fib'"), "{wrong}");
}

#[test]
fn changes_are_read() {
    let plan = plan();
    let text =
        "add tcp dport 22 accept\n# remark\n\nadd before 3 ip saddr @bad drop # why\n  remove 7\nreplace 2 drop\n";
    let batch = rule_batch(text, "x", &plan, RuleListKind::Filter).expect("all are right");
    let rule = |text| RuleText::Filter(FilterRule::parse(text).expect("it is a rule"));
    let wanted = [
        (1, RuleChange::Add(RulePlace::End, rule("tcp dport 22 accept"))),
        (4, RuleChange::Add(RulePlace::Before(3), rule("ip saddr @bad drop"))),
        (5, RuleChange::Remove(7)),
        (6, RuleChange::Replace(2, rule("drop"))),
    ];
    assert_eq!(batch.changes, wanted);
    let text = "add after 1 iif lan udp path best-effort";
    let batch = rule_batch(text, "x", &plan, RuleListKind::Paths).expect("it is right");
    let path_rule = |matching, path: &str, class, share: Option<&str>| {
        let matching = Match::parse(matching).expect("it is a match");
        let share = share.map(|name| name.parse().expect("it is a name"));
        RuleText::Path(PathRule { matching, path: path.into(), class, share })
    };
    let wanted = RuleChange::Add(RulePlace::After(1), path_rule("iif lan udp", "best-effort", None, None));
    assert_eq!(batch.changes, [(1, wanted)]);
    for (text, class, share) in [
        ("add udp path gold class 7", Some(7), None),
        ("add udp path gold share voice class 7 # why", Some(7), Some("voice")),
        ("add udp path gold share \"Doe, path 3\"", None, Some("Doe, path 3")),
    ] {
        let marked = rule_batch(text, "x", &plan, RuleListKind::Paths).expect("it is right");
        let wanted = RuleChange::Add(RulePlace::End, path_rule("udp", "gold", class, share));
        assert_eq!(marked.changes, [(1, wanted)]);
    }
    let refused = batch.refuse(0, "no".into(), "why".into());
    assert_eq!(refused.to_string().trim_end(), "x:1:1: error: no; why");
}

#[test]
fn errors_have_lines_and_columns() {
    let plan = plan();
    let cases = [
        (RuleListKind::Filter, "add\tip saddr @bda drop", "x:1:14: error: there is no set 'bda'"),
        (RuleListKind::Filter, "\n  ad drop", "x:2:3: error: 'ad' is no change of rules; did you mean 'add'?"),
        (RuleListKind::Filter, "remove x", "x:1:8: error: 'x' is no id of a rule"),
        (RuleListKind::Filter, "remove 3 4", "x:1:10: error: '4' follows the id"),
        (RuleListKind::Filter, "replace", "x:1:1: error: the id of a rule is missing"),
        (RuleListKind::Filter, "add before 3", "the rule is empty"),
        (RuleListKind::Filter, "add iif wan drop", "x:1:9: error: there is no port or VLAN 'wan'"),
        (RuleListKind::Filter, "add ip saddr 10.0.0.0/8", "is no verdict"),
        (RuleListKind::Filter, "add udp limit rate 1/day limit rate 2/day drop", "the rule has two limits"),
        (RuleListKind::Paths, "add udp path golf", "x:1:14: error: there is no path 'golf'; did you mean 'gold'?"),
        (RuleListKind::Paths, "add udp path gold class 256", "x:1:25: error: '256' is no class"),
        (RuleListKind::Paths, "add udp path gold class", "the class is missing"),
        (RuleListKind::Paths, "add udp path gold class 1 class 2", "x:1:27: error: 'class' is given twice"),
        (RuleListKind::Paths, "add udp path gold clas 2", "x:1:19: error: unexpected 'clas'"),
        (RuleListKind::Paths, "add udp path gold share \"a", "x:1:25: error: the quote is not closed"),
        (RuleListKind::Paths, "add udp path golf class 2", "x:1:14: error: there is no path 'golf'"),
        (RuleListKind::Paths, "add udp gold", "x:1:5: error: the rule names no path"),
        (RuleListKind::Paths, "add udpath gold", "x:1:5: error: the rule names no path"),
        (RuleListKind::Paths, "add ct state new path gold", "a path cannot match 'ct state'"),
    ];
    for (kind, text, wanted) in cases {
        let found = rule_batch(text, "x", &plan, kind).expect_err(text).to_string();
        assert!(found.contains(wanted), "{text:?}: {found}");
        assert_eq!(found.lines().count(), 1);
    }
    let both = rule_batch("add udp\nremove 1\nad\n", "x", &plan, RuleListKind::Filter).expect_err("two are wrong");
    assert_eq!(both.errors().count(), 2);
}
