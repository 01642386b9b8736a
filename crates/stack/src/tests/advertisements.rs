//! Advertisements to hosts and reports to switches, as transcripts.

use super::frames::{Frame, V6};
use super::*;
use packet::wire::ndp::{self, NdpOption, RouterParameters};
use packet::wire::{RouterAdvertisement, icmp6, mld, protocol};
use plan::{RaPlan, RaPrefix};
use std::sync::Arc;

fn plan() -> RaPlan {
    RaPlan {
        interval: Nanos::secs(30),
        lifetime: Nanos::secs(1800),
        preference: plan::RouterPreference::High,
        managed: false,
        other: true,
        mtu: true,
        hop_limit: 64,
        prefixes: vec![RaPrefix {
            prefix: "2001:db8:1::/64".parse().unwrap(),
            on_link: true,
            autonomous: true,
            valid: Nanos::secs(86_400),
            preferred: Nanos::secs(14_400),
        }],
        dns: vec!["2001:db8::53".parse().unwrap()],
        search: vec!["example.org".to_string()],
        dns_lifetime: Nanos::secs(90),
    }
}

/// A router that starts to advertise on its LAN.
fn advertising() -> Lab {
    let mut lab = Lab::new();
    lab.net.interfaces[0].ra = Some(Arc::new(plan()));
    lab.host.adopt(&mut lab.net);
    lab
}

/// The advertisements sent within some time: the second and the lifetime of each.
fn advertised(lab: &mut Lab, time: Nanos) -> Vec<(f64, u16)> {
    let mut out = Vec::new();
    let end = lab.net.now + time;
    loop {
        lab.net.sent.drain(..).for_each(|(_, frame)| {
            let ip = Ipv6::parse(&frame[14..]).ok();
            if let Some(Ok(packet::wire::Ndp::RouterAdvertisement { parameters: says, .. })) =
                ip.map(|ip| packet::wire::Ndp::of(&ip))
            {
                out.push((lab.net.now.since(lab.start).as_secs_f64(), says.lifetime_s));
            }
        });
        let next = lab.host.next_deadline().max(lab.net.now);
        if next > end {
            break;
        }
        lab.pass(next.since(lab.net.now));
    }
    lab.net.now = end;
    out
}

fn asks(source: &str) -> Frame {
    let message = [icmp6::ROUTER_SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    V6 { source, destination: "ff02::2", hops: 255, next: 0 }.icmp(&message)
}

#[test]
fn advertisement_has_the_configured_values() {
    let mut lab = advertising();
    let frame = lab.net.sent.pop().unwrap().1;
    assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
    let ip = Ipv6::parse(&frame[14..]).unwrap();
    assert_eq!((ip.header.source(), ip.header.hop_limit()), ("fe80::ff:fe00:1".parse().unwrap(), 255));
    let Ok(packet::wire::Ndp::RouterAdvertisement { parameters: says, options }) = packet::wire::Ndp::of(&ip) else {
        panic!()
    };
    let expected = RouterParameters {
        hop_limit: 64,
        other: true,
        preference: ndp::Preference::High,
        lifetime_s: 1800,
        ..RouterParameters::default()
    };
    assert_eq!(says, expected);
    let server: Ipv6Addr = "2001:db8::53".parse().unwrap();
    let prefix = ndp::PrefixInformation {
        address: "2001:db8:1::".parse().unwrap(),
        length: 64,
        on_link: true,
        autonomous: true,
        valid_s: 86_400,
        preferred_s: 14_400,
    };
    assert_eq!(
        options.into_iter().collect::<Vec<_>>(),
        [
            NdpOption::SourceMac(LAN_MAC),
            NdpOption::Mtu(1500),
            NdpOption::Prefix(prefix),
            NdpOption::DnsServers { lifetime_s: 90, addresses: &[server.octets()] },
            NdpOption::DnsSearch { lifetime_s: 90, domains: b"\x07example\x03org\0\0\0\0" },
        ]
    );
}

#[test]
fn initial_advertisements_are_frequent_and_later_ones_randomised() {
    let mut lab = advertising();
    let times: Vec<f64> = advertised(&mut lab, Nanos::secs(600)).into_iter().map(|(time, _)| time).collect();
    assert_eq!(times[0], 0.0);
    let pauses: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[..2].iter().all(|&pause| pause <= 16.0), "{pauses:?}");
    assert!(pauses.iter().all(|&pause| (10.0..=30.0).contains(&pause)), "{pauses:?}");
    assert!(pauses.iter().any(|&pause| pause > 22.0) && pauses.iter().any(|&pause| pause < 18.0), "{pauses:?}");
    assert!(times.len() > 600 / 30 && times.len() < 600 / 10);
}

#[test]
fn router_solicitations_share_one_prompt_answer() {
    let mut lab = advertising();
    advertised(&mut lab, Nanos::secs(100));
    let start = lab.net.now.since(lab.start).as_secs_f64();
    lab.pass(lab.host.next_deadline().since(lab.net.now));
    lab.net.sent.clear();
    // Just after an unsolicited one: not sooner than three seconds after it.
    let last = lab.net.now.since(lab.start).as_secs_f64();
    assert!(last > start);
    for _ in 0..50 {
        lab.receive(LAN, &asks("::"), Exception::Local);
        lab.receive(LAN, &asks("fe80::7"), Exception::Local);
    }
    let answers = advertised(&mut lab, Nanos::secs(4));
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!((3.0..=3.5).contains(&(answers[0].0 - last)), "{answers:?} after {last}");
    // Later: within half a second.
    let asked = lab.net.now.since(lab.start).as_secs_f64();
    lab.receive(LAN, &asks("fe80::7"), Exception::Local);
    let answers = advertised(&mut lab, Nanos::secs(3));
    assert!(answers.len() == 1 && answers[0].0 - asked <= 2.5, "{answers:?} after {asked}");
}

#[test]
fn unconfigured_interface_answers_no_router_solicitation() {
    let mut lab = Lab::new();
    lab.receive(LAN, &asks("fe80::7"), Exception::Local);
    lab.pass(Nanos::secs(60));
    assert!(lab.net.sent.is_empty());
}

#[test]
fn hosts_receive_a_final_advertisement_with_lifetime_zero() {
    let mut lab = advertising();
    advertised(&mut lab, Nanos::secs(100));
    lab.net.interfaces[0].ra = None;
    lab.host.adopt(&mut lab.net);
    let last = advertised(&mut lab, Nanos::secs(100));
    assert_eq!(last.iter().map(|&(_, lifetime)| lifetime).collect::<Vec<_>>(), [0, 0, 0]);
    assert!(last.windows(2).all(|pair| pair[1].0 - pair[0].0 == 3.0), "{last:?}");
    assert_eq!(lab.host.next_deadline(), Instant::NEVER);
    // The same when the router exits.
    let mut lab = advertising();
    advertised(&mut lab, Nanos::secs(100));
    lab.host.send_final_advertisements(&mut lab.net);
    assert_eq!(advertised(&mut lab, Nanos::ZERO).iter().map(|&(_, lifetime)| lifetime).collect::<Vec<_>>(), [0]);
}

#[test]
fn changed_configuration_is_advertised_after_the_minimum_interval() {
    let mut lab = advertising();
    advertised(&mut lab, Nanos::secs(100));
    let changed = RaPlan { lifetime: Nanos::secs(600), ..plan() };
    lab.net.interfaces[0].ra = Some(Arc::new(changed));
    let before = lab.net.now.since(lab.start).as_secs_f64();
    lab.host.adopt(&mut lab.net);
    let next = advertised(&mut lab, Nanos::secs(4));
    assert!(next.len() == 1 && next[0].1 == 600 && next[0].0 - before <= 3.0, "{next:?} after {before}");
}

#[test]
fn router_is_not_advertised_during_address_detection() {
    let mut lab =
        Lab { host: LocalProtocols::new(LocalProtocolLimits::default()), net: Net::new(), start: Instant::START };
    lab.start = lab.net.now;
    lab.net.interfaces[0].ra = Some(Arc::new(plan()));
    lab.host.adopt(&mut lab.net);
    let first = advertised(&mut lab, Nanos::millis(1100));
    assert_eq!(first, [(1.0, 1800)]);
}

#[test]
fn contradicting_router_is_reported_once() {
    let mut lab = advertising();
    advertised(&mut lab, Nanos::secs(100));
    lab.log();
    let says = RouterParameters { other: true, lifetime_s: 900, ..RouterParameters::default() };
    let prefix = |valid_s| ndp::PrefixInformation {
        address: "2001:db8:1::".parse().unwrap(),
        length: 64,
        on_link: true,
        autonomous: true,
        valid_s,
        preferred_s: 14_400,
    };
    let of = |router: &str, says: RouterParameters, mtu: Option<u32>, valid_s: u32| {
        let mut buffer = [0; 1280];
        let all = RouterAdvertisement { parameters: says, mtu, prefixes: &[prefix(valid_s)], ..Default::default() };
        let length = all.write(&mut buffer, router.parse().unwrap(), ipv6::ALL_NODES).unwrap();
        let mut frame = Frame::new(ethertype::IPV6, buffer[..length].to_vec());
        frame.group = true;
        frame
    };
    for frame in [
        of("fe80::1", says, Some(1500), 86_400),
        of("fe80::2", RouterParameters { hop_limit: 32, ..says }, None, 86_400),
        of("fe80::3", RouterParameters { managed: true, ..says }, None, 86_400),
        of("fe80::4", RouterParameters { other: false, ..says }, None, 86_400),
        of("fe80::5", says, Some(1400), 86_400),
        of("fe80::6", says, None, 3600),
        of("fe80::6", says, None, 3600),
    ] {
        lab.receive(LAN, &frame, Exception::Local);
    }
    let events: Vec<String> =
        lab.log().lines().filter(|line| line.contains("contradicts")).map(|line| line.trim().to_string()).collect();
    assert_eq!(
        events,
        [
            "fe80::2 contradicts: the hop limit",
            "fe80::3 contradicts: whether addresses come by DHCPv6",
            "fe80::4 contradicts: whether other settings come by DHCPv6",
            "fe80::5 contradicts: the MTU",
            "fe80::6 contradicts: the lifetime of a prefix",
        ]
    );
}

#[test]
fn mld_query_is_answered_in_its_own_version() {
    let query = |rest: &[u8]| {
        let alert = [protocol::ICMPV6, 0, 5, 2, 0, 0, 1, 0];
        let message = [&[mld::QUERY, 0, 0, 0, 3, 232, 0, 0][..], &[0; 16], rest].concat();
        let asked = V6 { source: "fe80::9", destination: "ff02::1", hops: 1, next: 0 };
        let sealed = asked.icmp(&message);
        V6 { next: protocol::HOP_BY_HOP, ..asked }.with(&[&alert[..], &sealed.l3[40..]].concat())
    };
    let mut lab = Lab::new();
    lab.receive(LAN, &query(&[2, 125, 0, 0]), Exception::Local);
    lab.log();
    lab.pass(Nanos::secs(1));
    let reported: Vec<String> =
        lab.log().lines().filter(|line| line.contains("report")).map(|line| line.trim().to_string()).collect();
    assert_eq!(
        reported,
        ["> lan 33:33:00:00:00:16 fe80::ff:fe00:1 > ff02::16 ICMPv6 listener report ex ff02::2 ex ff02::1:ff00:0 \
          ex ff02::1:ff00:1 ex ff05::2 hlim 1"]
    );
    lab.receive(LAN, &query(&[]), Exception::Local);
    lab.log();
    lab.pass(Nanos::secs(1));
    let log = lab.log();
    let reported: Vec<&str> = log.lines().filter(|line| line.contains("report v1")).map(str::trim).collect();
    assert_eq!(reported.len(), 4, "{log}");
    assert_eq!(
        reported[1],
        "> lan 33:33:ff:00:00:00 fe80::ff:fe00:1 > ff02::1:ff00:0 ICMPv6 listener report v1 for ff02::1:ff00:0 hlim 1"
    );
}
