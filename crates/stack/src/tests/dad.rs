//! Duplicate address detection, as transcripts (RFC 4862 5.4, RFC 4429).

use super::frames::{Frame, V6, advertises, solicits};
use super::*;
use expect_test::expect;

const GROUP: &str = "ff02::1:ff00:1";
const OURS: &str = "2001:db8:1::1";

/// A router that has just adopted its LAN, and no other link.
fn begins() -> Lab {
    let mut lab =
        Lab { host: LocalProtocols::new(LocalProtocolLimits::default()), net: Net::new(), start: Instant::START };
    lab.net.interfaces.truncate(1);
    lab.start = lab.net.now;
    lab.host.adopt(&mut lab.net);
    lab.log();
    lab
}

fn named(lab: &mut Lab, what: &str) -> String {
    lab.log().lines().filter(|line| line.contains(what)).map(|line| format!("{}\n", line.trim())).collect()
}

#[test]
fn address_without_objection_is_local_after_a_second() {
    let mut lab = begins();
    assert_eq!(lab.host.address_status(LAN, OURS.parse().unwrap()), AddressStatus::Optimistic);
    lab.pass(Nanos::millis(999));
    assert_eq!(named(&mut lab, "is-at"), "");
    lab.pass(Nanos::millis(1));
    assert_eq!(lab.host.address_status(LAN, OURS.parse().unwrap()), AddressStatus::Own);
    expect![[r#"
        > lan 33:33:00:00:00:01 2001:db8:1::1 > ff02::1 ICMPv6 2001:db8:1::1 is-at 02:00:00:00:00:01 R O hlim 255
    "#]]
    .assert_eq(&named(&mut lab, "2001:db8:1::1 is-at"));
}

#[test]
fn optimistic_address_is_used_without_overriding_other_hosts() {
    let mut lab = begins();
    // A solicitation is answered, but without overriding any neighbour cache.
    lab.receive(LAN, &solicits(OURS, Some(A), ("2001:db8:1::2", GROUP)), Exception::Local);
    // A solicitation sent from it has no link-layer address.
    lab.receive(LAN, &V6 { source: "2001:db8:1::7", destination: OURS, ..V6::default() }.echo(8), Exception::Local);
    expect![[r#"
        0ns < lan 2001:db8:1::2 > ff02::1:ff00:1 ICMPv6 who-has 2001:db8:1::1 link 02:00:00:00:00:aa hlim 255
          2001:db8:1::2 02:00:00:00:00:aa stale
          > lan 02:00:00:00:00:aa 2001:db8:1::1 > 2001:db8:1::2 ICMPv6 2001:db8:1::1 is-at 02:00:00:00:00:01 R S hlim 255
          consumed
        0ns < lan 2001:db8:1::7 > 2001:db8:1::1 ICMPv6 echo request id 3 seq 4 8 bytes hlim 64
          2001:db8:1::7 - incomplete
          > lan 33:33:ff:00:00:07 2001:db8:1::1 > ff02::1:ff00:7 ICMPv6 who-has 2001:db8:1::7 hlim 255
          consumed
    "#]]
    .assert_eq(&lab.log());
}

#[test]
fn duplicate_address_is_not_used_and_probed_again_later() {
    // Another host has the address, or probes for it at the same time.
    let has: fn() -> Frame = || advertises(OURS, Some(A), 0x20, (OURS, "ff02::1"));
    let looks: fn() -> Frame = || solicits(OURS, None, ("::", GROUP));
    for objects in [has, looks] {
        let mut lab = begins();
        lab.pass(Nanos::millis(300));
        lab.receive(LAN, &objects(), Exception::Local);
        assert_eq!(named(&mut lab, "conflict"), "conflict 2001:db8:1::1 02:00:00:00:00:aa\n");
        assert_eq!(lab.host.address_status(LAN, OURS.parse().unwrap()), AddressStatus::Duplicate);
        lab.pass(Nanos::secs(100));
        assert_eq!(named(&mut lab, "2001:db8:1::1 is-at"), "");
        // The router does not answer for it, and sends from its other address.
        lab.receive(LAN, &solicits(OURS, Some(A), ("2001:db8:1::2", GROUP)), Exception::Local);
        let echo = V6 { source: "2001:db8:1::2", destination: OURS, ..V6::default() }.echo(8);
        lab.receive(LAN, &echo, Exception::Local);
        assert!(lab.log().ends_with("dropped duplicate_address\n"));
        lab.receive(
            LAN,
            &V6 { source: "2001:db8:1::7", destination: "ff02::1", ..V6::default() }.echo(8),
            Exception::Local,
        );
        let log = lab.log();
        assert!(log.contains("fe80::ff:fe00:1 > ff02::1:ff00:7"), "{log}");
        // After five minutes the other host is gone, and the address is ours.
        lab.pass(Nanos::secs(210));
        expect![[r#"
            > lan 33:33:00:00:00:01 2001:db8:1::1 > ff02::1 ICMPv6 2001:db8:1::1 is-at 02:00:00:00:00:01 R O hlim 255
            > lan 33:33:00:00:00:01 2001:db8:1::1 > ff02::1 ICMPv6 2001:db8:1::1 is-at 02:00:00:00:00:01 R O hlim 255
        "#]]
        .assert_eq(&named(&mut lab, "2001:db8:1::1 is-at"));
        lab.receive(LAN, &echo, Exception::Local);
        assert!(lab.log().ends_with("consumed\n"));
    }
}

#[test]
fn address_still_in_use_stays_duplicate_and_is_reported_again() {
    let mut lab = begins();
    let has = advertises(OURS, Some(A), 0x20, (OURS, "ff02::1"));
    lab.receive(LAN, &has, Exception::Local);
    lab.receive(LAN, &has, Exception::Local);
    assert_eq!(named(&mut lab, "conflict"), "conflict 2001:db8:1::1 02:00:00:00:00:aa\n", "once");
    lab.pass(Nanos::millis(300_500));
    lab.log();
    lab.receive(LAN, &has, Exception::Local);
    assert_eq!(named(&mut lab, "conflict"), "conflict 2001:db8:1::1 02:00:00:00:00:aa\n");
    assert_eq!(lab.host.address_status(LAN, OURS.parse().unwrap()), AddressStatus::Duplicate);
}

#[test]
fn looped_probe_is_no_objection_and_a_verified_address_is_kept() {
    let mut lab = begins();
    lab.receive(LAN, &Frame { from: LAN_MAC, ..solicits(OURS, None, ("::", GROUP)) }, Exception::Local);
    assert_eq!(named(&mut lab, "conflict"), "");
    lab.pass(Nanos::secs(5));
    lab.log();
    lab.receive(LAN, &solicits(OURS, None, ("::", GROUP)), Exception::Local);
    lab.receive(LAN, &advertises(OURS, Some(A), 0x20, ("2001:db8:1::2", "ff02::1")), Exception::Local);
    assert_eq!(lab.host.address_status(LAN, OURS.parse().unwrap()), AddressStatus::Own);
    assert_eq!(named(&mut lab, "is-at 02:00:00:00:00:01 R O").lines().count(), 2, "told, and defended");
}

#[test]
fn anycast_answer_does_not_override() {
    let mut lab = Lab::new();
    lab.receive(LAN, &solicits("2001:db8:1::", Some(A), ("2001:db8:1::2", "ff02::1:ff00:0")), Exception::Local);
    expect![[r#"
        > lan 02:00:00:00:00:aa 2001:db8:1:: > 2001:db8:1::2 ICMPv6 2001:db8:1:: is-at 02:00:00:00:00:01 R S hlim 255
    "#]]
    .assert_eq(&named(&mut lab, "is-at"));
}

#[test]
fn changed_mac_address_restarts_detection() {
    let mut lab = begins();
    lab.pass(Nanos::secs(10));
    lab.log();
    lab.net.interfaces[0].mtu = 1400;
    lab.host.adopt(&mut lab.net);
    assert_eq!(lab.log(), "", "nothing is new");
    lab.net.interfaces[0].mac = B;
    lab.host.adopt(&mut lab.net);
    assert_eq!(named(&mut lab, "who-has 2001:db8:1::1").lines().count(), 1);
    assert_eq!(lab.host.address_status(LAN, OURS.parse().unwrap()), AddressStatus::Optimistic);
}
