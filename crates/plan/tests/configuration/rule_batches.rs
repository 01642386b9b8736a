//! Changes of lists of rules.

use crate::catalogue::catalogue;
use plan::{FilterRule, Match, Plan, RuleChange, RuleListKind, RulePlace, RuleText, rule_batch};

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
    let matching = Match::parse("iif lan udp").expect("it is a match");
    let wanted = RuleChange::Add(RulePlace::After(1), RuleText::Path(matching, "best-effort".into(), None));
    assert_eq!(batch.changes, [(1, wanted)]);
    let classed = rule_batch("add udp path gold class 7", "x", &plan, RuleListKind::Paths).expect("it is right");
    let matching = Match::parse("udp").expect("it is a match");
    let wanted = RuleChange::Add(RulePlace::End, RuleText::Path(matching, "gold".into(), Some(7)));
    assert_eq!(classed.changes, [(1, wanted)]);
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
