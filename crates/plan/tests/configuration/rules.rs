//! Files of rules: their contents become part of the configuration, and errors in them have their own positions.

use crate::catalogue::catalogue;
use expect_test::{Expect, expect};
use std::fs::write;

/// A configuration with this `filter`, and the error in its last line.
fn configuration(filter: &str) -> String {
    format!(
        "version = 1\n[port.lan]\ndevice = \"memory:a\"\n[[path]]\nname = \"a\"\nmatch = \"any\"\nfunctions = [\"filter\", \
         \"ip\"]\n{filter}\nqueue = 0\n"
    )
}

/// Checks a configuration in a directory with a file of rules. Returns the number of rules or the diagnostics, without the directory's name.
fn check(filter: &str, rules: &str, expected: Expect) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("router.toml");
    write(&file, configuration(filter)).unwrap();
    write(directory.path().join("acl.rules"), rules).unwrap();
    let checked = plan::examine_file(&file, &catalogue());
    let name = format!("{}/", directory.path().display());
    expected.assert_eq(&checked.diagnostics.to_string().replace(&name, ""));
}

#[test]
fn error_in_file_of_rules_has_its_line_and_column() {
    let rules = "# ssh\ntcp dport 22 accept # only here\n\nudp dport 70000 drop\r\nlog prefix \"#\" acept";
    check(
        "filter = { file = \"acl.rules\" } # the list",
        rules,
        expect![[r#"
            acl.rules:4:11: error: '70000' is no port; write a number from 0 to 65535, or a range like 5000-5010
            acl.rules:5:16: error: 'acept' is no verdict; did you mean 'accept'?
            router.toml:9:9: error: 0 is out of range; give 1 to 65536; the default is 512
        "#]],
    );
}

#[test]
fn excerpt_of_a_file_of_rules_has_no_line_of_the_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("router.toml");
    write(&file, configuration("filter = { file = \"acl.rules\" } # the list")).unwrap();
    for (rules, shown) in [("drip\naccept", ["drip", "accept"]), ("accept\ndrip", ["accept", "drip"])] {
        write(directory.path().join("acl.rules"), rules).unwrap();
        let checked = plan::examine_file(&file, &catalogue());
        let first = checked.diagnostics.render(false).split("help:").next().unwrap().to_string();
        assert!(shown.iter().all(|line| first.contains(&format!("│ {line}"))), "{first}");
        assert!(!first.contains("\'\'\'") && !first.contains("filter ="), "{first}");
    }
}

#[test]
fn unreadable_file_of_rules_is_an_error_at_its_name() {
    check(
        "filter = { file = \"other.rules\" }",
        "",
        expect![[r#"
            router.toml:8:19: error: 'other.rules' cannot be read: No such file or directory (os error 2); correct the name of the file, or its permissions
        "#]],
    );
    check(
        "filter = { file = \"acl.rules\" }",
        "drop\n\u{1b}[2J",
        expect![[r#"
            router.toml:8:19: error: line 2 of 'acl.rules' has ''' or a control character; remove it: no rule needs it
        "#]],
    );
}

#[test]
fn text_with_its_files_depends_on_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let (file, rules) = (directory.path().join("router.toml"), directory.path().join("acl.rules"));
    let good = configuration("filter = { file = \"acl.rules\" }").replace("queue = 0", "queue = 5");
    for text in [
        good.clone(),
        good.replace("filter = { file = \"acl.rules\" }\nqueue = 5", "[path.filter]\nfile = 'acl.rules'"),
    ] {
        write(&file, text).unwrap();
        write(&rules, "tcp dport { 80, 22 } accept\n  # nothing else\ndrop").unwrap();
        let stored = plan::read_file(&file).unwrap();
        std::fs::remove_file(&rules).unwrap();
        let stored_plan = plan::check(&stored, "f", &catalogue()).unwrap();
        let rules: Vec<String> = stored_plan.paths[0].filter.iter().map(ToString::to_string).collect();
        assert_eq!(rules, ["tcp dport { 22, 80 } accept", "drop"]);
        // Reading it again changes nothing.
        assert_eq!(plan::with_files(stored.clone(), "f").unwrap(), stored);
    }
}

#[test]
fn file_without_its_contents_is_refused() {
    let text = configuration("filter = { file = \"acl.rules\" }");
    let error = plan::check(&text, "f", &catalogue()).unwrap_err();
    assert!(error.to_string().contains("f:8:10: error: the rules of the file are missing"), "{error}");
}

#[test]
fn difference_of_long_lists_names_the_first_changed_rule() {
    let plan = |changed: &str| {
        let rules: String =
            (1..=100).map(|port| format!("tcp dport {port} {}\n", if port == 70 { changed } else { "drop" })).collect();
        let text = configuration(&format!("filter = {{ rules = '''\n{rules}''' }}")).replace("queue = 0", "");
        plan::check(&text, "f", &catalogue()).unwrap()
    };
    let changes: Vec<String> = plan::diff(&plan("drop"), &plan("accept")).iter().map(ToString::to_string).collect();
    expect![
        "~ path a: filter 100 rules, number 70 is 'tcp dport 70 drop' -> 100 rules, number 70 is 'tcp dport 70 accept'"
    ]
    .assert_eq(&changes.join("\n"));
}

#[test]
fn rule_that_can_never_match_is_a_warning_at_its_line() {
    check(
        "filter = { file = \"acl.rules\" }",
        "tcp dport 0-1023 accept\ntcp dport 22 drop\nudp dport 53 accept\ntcp dport 1024-65535 accept\n\
         tcp dport { 80, 8080 } drop\nip saddr 10.0.0.0/8 drop\nip saddr 10.2.0.0/16 udp drop\n",
        expect![[r#"
            acl.rules:2:1: warning: no packet can match this rule: rule 1, 'tcp dport 0-1023 accept', matches them all before it; remove this rule, or move it before the other
            acl.rules:5:1: warning: no packet can match this rule: rules before it match them all together; the first is rule 1, 'tcp dport 0-1023 accept', the last is rule 4, 'tcp dport 1024-65535 accept'; remove this rule, or move it before the other
            acl.rules:7:1: warning: no packet can match this rule: rule 6, 'ip saddr 10.0.0.0/8 drop', matches them all before it; remove this rule, or move it before the other
            router.toml:9:9: error: 0 is out of range; give 1 to 65536; the default is 512
        "#]],
    );
}

/// Rules of a large access list: pairs of networks, each with a few ports, and one rule in a hundred that an earlier one covers.
#[test]
fn many_rules_are_read_in_order_and_the_covered_ones_found() {
    let count = 20_000u32;
    let rule = |n: u32| {
        let m = if n % 100 == 99 { n - 50 } else { n };
        let (a, b) = (m.wrapping_mul(2_654_435_761), m.wrapping_mul(40_503));
        let source = std::net::Ipv4Addr::from_bits(a & 0xffff_ff00);
        let destination = std::net::Ipv4Addr::from_bits(b & 0xffff_fff0 | 0x0a00_0000);
        format!("ip saddr {source}/24 ip daddr {destination}/28 tcp dport {} accept\n", m % 7 * 1000)
    };
    let rules: String = (0..count).map(rule).collect();
    let text = configuration(&format!("filter = {{ rules = '''\n{rules}''' }}")).replace("queue = 0", "");
    let checked = plan::examine(&text, "f", &catalogue());
    let plan = checked.plan.unwrap_or_else(|| panic!("{}", checked.diagnostics));
    assert_eq!(plan.paths[0].filter.len(), count as usize);
    let covered: Vec<usize> = checked.diagnostics.warnings().map(|warning| warning.line - 8).collect();
    assert_eq!(covered, (1..=count as usize / 100).map(|n| n * 100).collect::<Vec<_>>());
}

#[test]
fn routing_rules_of_a_file_are_checked_with_its_lines() {
    let directory = tempfile::tempdir().unwrap();
    let (file, rules) = (directory.path().join("router.toml"), directory.path().join("policy.rules"));
    let port = "version = 1\n[port.lan]\ndevice = \"memory:a\"\naddress = [\"192.0.2.1/24\"]\n";
    for routing in ["[routing]\nrules = { file = \"policy.rules\" }\n", "[routing.rules]\nfile = \"policy.rules\"\n"] {
        write(&file, format!("{port}{routing}")).unwrap();
        write(&rules, "udp dport 7 via 192.0.2.9 # one\n\ndrop").unwrap();
        let stored = plan::read_file(&file).unwrap();
        let plan = plan::check(&stored, "f", &catalogue()).unwrap();
        let rules_read: Vec<String> = plan.routing.iter().map(ToString::to_string).collect();
        assert_eq!(rules_read, ["ip udp dport 7 via 192.0.2.9 dev lan", "drop"]);
        assert_eq!(plan::with_files(stored.clone(), "f").unwrap(), stored);
        write(&rules, "# nothing\nudp dport 7 via 203.0.113.9\naccept\ntcp drop").unwrap();
        let found = plan::examine_file(&file, &catalogue()).diagnostics.to_string();
        let found = found.replace(&format!("{}/", directory.path().display()), "");
        expect![[r#"
            policy.rules:2:13: error: 203.0.113.9 is on no connected subnet; the connected subnets are 192.0.2.0/24 (lan)
            policy.rules:4:1: warning: no packet can match this rule: rule 1, 'accept', matches them all before it; remove this rule, or move it before the other
        "#]]
        .assert_eq(&found);
    }
}
