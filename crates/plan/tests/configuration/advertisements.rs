//! `[port.NAME.ra]`: its settings and their errors.

use crate::catalogue::catalogue;
use expect_test::{Expect, expect};
use plan::{diff, examine};

/// A port with two IPv6 subnets, one of them not a /64. Appended text belongs to its advertisements.
const BASE: &str = "version = 1\n[port.lan]\ndevice = \"packet:eth0\"\n\
    address = [\"192.0.2.1/24\", \"2001:db8:1::1/64\", \"2001:db8:2::1/56\", \"fe80::1/64\"]\n[port.lan.ra]\n";

/// Prints the advertisements of the plan, or the errors.
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
fn empty_table_advertises_the_own_subnets() {
    check(
        "",
        expect![[r#"
        interval 600s lifetime 1800s preference medium managed false other false mtu true hop_limit 64
          prefix 2001:db8:1::/64 on_link true autonomous true valid 2592000s preferred 604800s
          prefix 2001:db8:2::/56 on_link true autonomous false valid 2592000s preferred 604800s dns_lifetime 1800s
    "#]],
    );
}

#[test]
fn every_key_can_be_set() {
    check(
        "interval = '30s'\nlifetime = '0s'\npreference = 'low'\nmanaged = true\nother = true\nmtu = false\nhop_limit = 0\n\
         dns = ['2001:db8::53']\nsearch = ['Example.ORG.', 'a-1.b']\ndns_lifetime = '1000 s'\n\
         prefix = [{ prefix = '2001:db8:7::/64', on_link = false, valid = '4294967295s', preferred = '60000ms' },\n\
                   { prefix = '2001:db8:8::/48', autonomous = false, valid = '10s' }]\n",
        expect![[r#"
            interval 30s lifetime 0ns preference low managed true other true mtu false hop_limit 0
              prefix 2001:db8:7::/64 on_link false autonomous true valid 4294967295s preferred 60s
              prefix 2001:db8:8::/48 on_link true autonomous false valid 10s preferred 10s
              dns 2001:db8::53 search example.org search a-1.b dns_lifetime 1000s
        "#]],
    );
}

#[test]
fn times_are_whole_seconds_within_the_limits_of_the_standard() {
    check(
        "interval = '3s'\nlifetime = '9001s'\ndns_lifetime = '5'\n\
         prefix = [{ prefix = '2001:db8:7::/64', valid = '1.5s' }, { prefix = '2001:db8:8::/64', valid = '9s', preferred = '10s' }]\n",
        expect![[r#"
            port.lan.ra.interval| f:6:12: error: 3s is out of range; write whole seconds, 4s to 1800s
            port.lan.ra.lifetime| f:7:12: error: 9001s is out of range; write whole seconds, 0s to 9000s
            port.lan.ra.dns_lifetime| f:8:16: error: '5' has no unit; write whole seconds, 0s to 4294967295s
            port.lan.ra.prefix[0].valid| f:9:49: error: '1.5s' is no whole number of seconds; write whole seconds, 0s to 4294967295s
            port.lan.ra.prefix[1]| f:9:115: error: preferred, 10s, is longer than valid, 9s; make 'preferred' no longer than 'valid'
        "#]],
    );
    check(
        "interval = '100s'\nlifetime = '99s'\n",
        expect![[r#"
        port.lan.ra.lifetime| f:7:12: error: a lifetime of 99s expires before the next advertisement, after 100s; write 0s, or at least the interval; the default is three intervals
    "#]],
    );
}

#[test]
fn names_and_addresses_must_be_usable_by_hosts() {
    check(
        "preference = 'hi'\ndns = ['192.0.2.53', 'ff02::1', '::', 53]\nsearch = ['a..b', '', 'x_y', 'exa mple']\n\
         prefix = [{ prefix = '192.0.2.0/24' }, { prefix = '2001:db8:7::1/64' }, { prefix = 'fe80::/64' }, { prefix = 'ff00::/8' },\n\
                   { prefix = '2001:db8:9::/64' }, { prefix = '2001:db8:9::/64' }, { prefix = '2001:db8:a::/56' }]\n",
        expect![[r#"
            port.lan.ra.preference| f:6:14: error: no preference is called 'hi'; use one of high, medium, low
            port.lan.ra.dns[0]| f:7:8: error: '192.0.2.53' is no IPv6 address of a server; write one like '2001:db8::53'
            port.lan.ra.dns[1]| f:7:22: error: 'ff02::1' is no IPv6 address of a server; write one like '2001:db8::53'
            port.lan.ra.dns[2]| f:7:33: error: '::' is no IPv6 address of a server; write one like '2001:db8::53'
            port.lan.ra.dns[3]| f:7:39: error: expected a string, not a whole number; write a string
            port.lan.ra.search[0]| f:8:11: error: 'a..b' is no domain; write labels of letters, digits and hyphens with points between, like 'example.org'
            port.lan.ra.search[1]| f:8:19: error: '' is no domain; write labels of letters, digits and hyphens with points between, like 'example.org'
            port.lan.ra.search[2]| f:8:23: error: 'x_y' is no domain; write labels of letters, digits and hyphens with points between, like 'example.org'
            port.lan.ra.search[3]| f:8:30: error: 'exa mple' is no domain; write labels of letters, digits and hyphens with points between, like 'example.org'
            port.lan.ra.prefix[0].prefix| f:9:22: error: '192.0.2.0/24' is not a prefix that can be advertised; write an IPv6 network, like '2001:db8:1::/64'
            port.lan.ra.prefix[1].prefix| f:9:51: error: '2001:db8:7::1/64' is not a prefix that can be advertised; write an IPv6 network, like '2001:db8:1::/64'
            port.lan.ra.prefix[2].prefix| f:9:84: error: 'fe80::/64' is not a prefix that can be advertised; write an IPv6 network, like '2001:db8:1::/64'
            port.lan.ra.prefix[3].prefix| f:9:110: error: 'ff00::/8' is not a prefix that can be advertised; write an IPv6 network, like '2001:db8:1::/64'
            port.lan.ra.prefix[5]| f:10:33: error: the prefix 2001:db8:9::/64 is given twice; remove one of the two
            port.lan.ra.prefix[6].prefix| f:10:76: warning: hosts on Ethernet form addresses only from a /64, not a /56; use a /64, or autonomous = false
        "#]],
    );
}

#[test]
fn options_must_fit_into_one_message() {
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
        expect![[r#"
            port.lan.ra.dns| f:6:120: error: there are more than 8; give at most 8
            port.lan.ra.prefix| f:7:513: error: there are more than 16; give at most 16
            port.lan.ra.search[6]| f:8:239: error: the domains are longer than 256 bytes; give fewer
            port.lan.ra.search[7]| f:8:277: error: the domains are longer than 256 bytes; give fewer
            port.lan.ra.search[8]| f:8:315: error: the domains are longer than 256 bytes; give fewer
        "#]],
    );
}

#[test]
fn interface_without_ipv6_cannot_advertise() {
    let source = "version = 1\n[port.lan]\ndevice = \"packet:eth0\"\naddress = [\"192.0.2.1/24\"]\n[port.lan.ra]\n";
    let checked = examine(source, "f", &catalogue());
    let lines: Vec<String> = checked.diagnostics.list().iter().map(|d| format!("{}| {d}", d.path)).collect();
    expect!["port.lan.ra| f:5:1: error: router advertisements need an IPv6 address on the interface; give it one"]
        .assert_eq(&lines.join("\n"));
}

#[test]
fn change_is_reported() {
    let plan = |source: &str| examine(&format!("{BASE}{source}"), "f", &catalogue()).plan.unwrap();
    let changes = diff(&plan("interval = '30s'\n"), &plan("interval = '40s'\nmanaged = true\n"));
    expect!["~ interface lan: ra interval 30s lifetime 90s preference medium managed false other false mtu true hop_limit 64 prefix 2001:db8:1::/64 on_link true autonomous true valid 2592000s preferred 604800s prefix 2001:db8:2::/56 on_link true autonomous false valid 2592000s preferred 604800s dns_lifetime 90s -> interval 40s lifetime 120s preference medium managed true other false mtu true hop_limit 64 prefix 2001:db8:1::/64 on_link true autonomous true valid 2592000s preferred 604800s prefix 2001:db8:2::/56 on_link true autonomous false valid 2592000s preferred 604800s dns_lifetime 120s"].assert_eq(&changes.iter().map(|change| change.to_string()).collect::<Vec<_>>().join("\n"));
    let without = examine(BASE.trim_end_matches("[port.lan.ra]\n"), "f", &catalogue()).plan.unwrap();
    let changes = diff(&plan(""), &without);
    assert!(changes[0].to_string().ends_with("-> none"), "{}", changes[0]);
}
