//! Rules of other programs in the language of this router.
//!
//! `corpus/import/forward.json` is the output of `nft -j list ruleset` (nftables 1.0.6) after `nft -f corpus/import/forward.nft`.

use expect_test::expect;
use plan::FilterRule;
use plan::import::{ImportFormat, Imported, exercise, import};
use std::path::Path;

const DUMP: &str = include_str!("../corpus/import/forward.json");

fn lines(imported: &Imported) -> String {
    let rules = imported.rules.iter().map(|(_, rule)| rule.to_string());
    let problems = imported.problems.iter().map(|problem| format!("! {problem}"));
    let warnings = imported.warnings.iter().map(|warning| format!("? {warning}"));
    rules.chain(problems).chain(warnings).map(|line| line + "\n").collect()
}

#[test]
fn base_chain_of_nftables_becomes_a_list_of_rules() {
    assert_eq!(ImportFormat::guess(DUMP), ImportFormat::Nftables);
    let imported = import(DUMP, ImportFormat::Nftables, None).unwrap();
    expect![[r#"
        ct state established,related accept
        ip saddr { 192.0.2.0/24, 198.51.100.7, 203.0.113.4/30, 203.0.113.8/31 } drop comment "known senders"
        iif lan udp dport 443 reject
        iif lan ip dscp af41 meta length 1400-1500 accept
        tcp flags syn/syn,ack limit rate 10/second burst 20 packets accept
        ip daddr 10.1.0.0/16 tcp dport { 22, 80, 8000-8010 } accept
        tcp dport 53 accept
        udp dport 53 accept
        icmp type { echo-reply, echo-request } accept
        icmpv6 type nd-neighbor-solicit accept
        ip6 saddr 2001:db8::/32 udp sport 123 log prefix "ntp " accept
        udp dport 4500-4510 ip dscp set ef accept
        tcp dport 23 reject
        drop
        ! table inet gateway, chain outbound, rule with handle 24: 'return' has no counterpart here
        ! table inet gateway, chain forward, rule with handle 20: a condition on 'meta oifname' has no counterpart here
        ! table inet gateway, chain forward, rule with handle 21: a condition on 'ip ttl' has no counterpart here
        ! table inet gateway, chain forward, rule with handle 22: the operator '!=' has no counterpart here
        ! table inet gateway, chain forward, rule with handle 23: 'goto last' has no counterpart here: use 'jump', and a verdict at the end of 'last'
        ? table inet gateway, chain forward, rule with handle 7: the set 'blocked' became a list, which does not follow its changes
        ? table inet gateway, chain outbound, rule with handle 27: the rule has no effect but its counter, and is left out
    "#]].assert_eq(&lines(&imported));
    for (_, rule) in &imported.rules {
        assert_eq!(FilterRule::parse(&rule.to_string()).as_ref(), Ok(rule));
    }
}

#[test]
fn reverse_path_checks_of_nftables_become_conditions_on_routes() {
    // The output of nftables 1.0.6 for these four rules, without counters; newer versions say `check` instead of `oif`.
    let rule = |handle: u32, result: &str, flags: &[&str], right: &str, verdict: &str| {
        let flags: Vec<String> = flags.iter().map(|flag| format!("\"{flag}\"")).collect();
        format!(
            r#"{{"rule": {{"family": "inet", "table": "t", "chain": "f", "handle": {handle}, "expr": [{{"match": {{"op": "==",
            "left": {{"fib": {{"result": "{result}", "flags": [{}]}}}}, "right": {right}}}}}, {{"{verdict}": null}}]}}}}"#,
            flags.join(", ")
        )
    };
    let rules = [
        rule(2, "oif", &["saddr", "iif"], "false", "drop"),
        rule(3, "oif", &["saddr"], "false", "drop"),
        rule(4, "check", &["saddr", "iif"], "true", "accept"),
        rule(5, "type", &["daddr"], "\"local\"", "accept"),
        rule(6, "oif", &["saddr", "mark"], "false", "drop"),
        rule(7, "oif", &["saddr"], "0", "drop"),
    ];
    let chain = r#"{"chain": {"family": "inet", "table": "t", "name": "f", "handle": 1, "type": "filter", "hook": "prerouting", "prio": 0, "policy": "accept"}}"#;
    let dump = format!(r#"{{"nftables": [{chain}, {}]}}"#, rules.join(", "));
    let imported = import(&dump, ImportFormat::Nftables, None).unwrap();
    expect![[r#"
        fib saddr . iif oif missing drop
        fib saddr oif missing drop
        fib saddr . iif oif exists accept
        ! table inet t, chain f, rule with handle 5: a condition on 'fib daddr type' has no counterpart here
        ! table inet t, chain f, rule with handle 6: a condition on 'fib mark . saddr oif' has no counterpart here
        ! table inet t, chain f, rule with handle 7: a condition on 'fib' is supported only with 'missing' or 'exists'
    "#]]
    .assert_eq(&lines(&imported));
}

#[test]
fn other_base_chain_is_selected_by_its_name() {
    let imported = import(DUMP, ImportFormat::Nftables, Some("input")).unwrap();
    assert_eq!(lines(&imported), "tcp dport 179 accept\n");
}

#[test]
fn text_that_is_no_rule_set_is_refused() {
    for (text, chain, reason) in [
        ("{", None, "this is not the JSON of nftables"),
        ("{}", None, "the key 'nftables' is missing"),
        ("{\"nftables\": []}", None, "there is no base chain of type 'filter'"),
        (DUMP, Some("last"), "there is no base chain 'last'; use one of 'forward', 'input'"),
    ] {
        let error = import(text, ImportFormat::Nftables, chain).unwrap_err();
        assert!(error.starts_with(reason), "{error}");
    }
}

#[test]
fn corpus_of_rule_sets_translates_to_rules_that_parse_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/import");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 3, "{files:?}");
    let translated: usize = files.iter().map(|file| exercise(&std::fs::read_to_string(file).unwrap())).sum();
    assert!(translated > 15, "only {translated} rules");
}
