//! `[port.NAME.ra]`: what it says, and what is wrong with it.

mod catalogue;

use catalogue::catalogue;
use expect_test::{Expect, expect};
use plan::{diff, examine};

/// A port with an IPv6 subnet and another that is not of 64 bits; what is appended belongs to its advertisements.
const BASE: &str = "version = 1\n[port.lan]\ndevice = \"packet:eth0\"\n\
    address = [\"192.0.2.1/24\", \"2001:db8:1::1/64\", \"2001:db8:2::1/56\", \"fe80::1/64\"]\n[port.lan.ra]\n";

/// The advertisements as the plan has them, or what is wrong.
fn check(source: &str, expected: Expect) {
    let checked = examine(&format!("{BASE}{source}"), "f", &catalogue());
    let mut lines: String = checked.diagnostics.list().iter().map(|d| format!("{}| {d}\n", d.path)).collect();
    if let Some(plan) = checked.plan {
        let ra = plan.ports[0].interfaces[0].ra.as_ref().expect("there is a table");
        lines += &format!("{ra}\n").replace(" prefix ", "\n  prefix ").replace(" dns ", "\n  dns ");
    }
    expected.assert_eq(&lines);
}

#[test]
fn an_empty_table_advertises_the_own_subnets() {
    check("", expect![[r#""#]]);
}

#[test]
fn everything_can_be_said() {
    check(
        "interval = '30s'\nlifetime = '0s'\npreference = 'low'\nmanaged = true\nother = true\nmtu = false\nhop_limit = 0\n\
         dns = ['2001:db8::53']\nsearch = ['Example.ORG.', 'a-1.b']\ndns_lifetime = '1000 s'\n\
         prefix = [{ prefix = '2001:db8:7::/64', on_link = false, valid = '4294967295s', preferred = '60000ms' },\n\
                   { prefix = '2001:db8:8::/48', autonomous = false, valid = '10s' }]\n",
        expect![[r#""#]],
    );
}

#[test]
fn times_are_whole_seconds_within_what_the_standard_allows() {
    check(
        "interval = '3s'\nlifetime = '9001s'\ndns_lifetime = '5'\n\
         prefix = [{ prefix = '2001:db8:7::/64', valid = '1.5s' }, { prefix = '2001:db8:8::/64', valid = '9s', preferred = '10s' }]\n",
        expect![[r#""#]],
    );
    check("interval = '100s'\nlifetime = '99s'\n", expect![[r#""#]]);
}

#[test]
fn names_and_addresses_are_ones_that_hosts_could_use() {
    check(
        "preference = 'hi'\ndns = ['192.0.2.53', 'ff02::1', '::', 53]\nsearch = ['a..b', '', 'x_y', 'exa mple']\n\
         prefix = [{ prefix = '192.0.2.0/24' }, { prefix = '2001:db8:7::1/64' }, { prefix = 'fe80::/64' }, { prefix = 'ff00::/8' },\n\
                   { prefix = '2001:db8:9::/64' }, { prefix = '2001:db8:9::/64' }, { prefix = '2001:db8:a::/56' }]\n",
        expect![[r#""#]],
    );
}

#[test]
fn no_more_is_taken_than_fits_in_a_message() {
    let servers: Vec<String> = (0..9).map(|i| format!("'2001:db8::{i}'")).collect();
    let prefixes: Vec<String> = (0..17).map(|i| format!("{{ prefix = '2001:db8:{i}::/64' }}")).collect();
    let domains: Vec<String> = (0..9).map(|i| format!("'domain-number-{i}.of-many.example.org'")).collect();
    check(
        &format!(
            "dns = [{}]\nprefix = [{}]\nsearch = [{}]\n",
            servers.join(","),
            prefixes.join(","),
            domains.join(",")
        ),
        expect![[r#""#]],
    );
}

#[test]
fn an_interface_without_ipv6_has_nothing_to_advertise() {
    let source = "version = 1\n[port.lan]\ndevice = \"packet:eth0\"\naddress = [\"192.0.2.1/24\"]\n[port.lan.ra]\n";
    let checked = examine(source, "f", &catalogue());
    let lines: Vec<String> = checked.diagnostics.list().iter().map(|d| format!("{}| {d}", d.path)).collect();
    expect![[r#""#]].assert_eq(&lines.join("\n"));
}

#[test]
fn a_change_is_told() {
    let plan = |source: &str| examine(&format!("{BASE}{source}"), "f", &catalogue()).plan.unwrap();
    let changes = diff(&plan("interval = '30s'\n"), &plan("interval = '40s'\nmanaged = true\n"));
    expect![[r#""#]].assert_eq(&changes.iter().map(|change| change.to_string()).collect::<Vec<_>>().join("\n"));
    let without = examine(BASE.trim_end_matches("[port.lan.ra]\n"), "f", &catalogue()).plan.unwrap();
    let changes = diff(&plan(""), &without);
    assert!(changes[0].to_string().ends_with("-> none"), "{}", changes[0]);
}
