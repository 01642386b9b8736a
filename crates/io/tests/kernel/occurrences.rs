//! Shows each difference of docs/reference/differences.md by the packet that causes it and nothing else.

use crate::bench::{Bench, host_mac, router_mac};
use crate::differences::{Difference, is_report, without_reports};
use crate::generator::SentFrame;
use crate::link_ends::{Link, OutputFrame};
use io::netns::Lab;
use packet::wire::arp::Arp;
use packet::wire::{Ipv6Spec, checksum, ethernet, ethertype, ipv6, protocol, transport};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use units::{Mac, Nanos};

const HOST: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 2);
const ROUTER: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);

fn framed(kind: u16, l3: &[u8]) -> SentFrame {
    let mut frame = vec![0; ethernet::HEADER];
    ethernet::write_header(&mut frame, router_mac(Link::Left), host_mac(Link::Left), None, kind);
    frame.extend_from_slice(l3);
    SentFrame { link: Link::Left, frame }
}

struct Packet4<'a> {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    ttl: u8,
    fragment: u16,
    options: &'a [u8],
    protocol: u8,
    payload: &'a [u8],
}

/// A UDP datagram without a checksum, to a port on which no process listens.
const DATAGRAM: [u8; 12] = [0x10, 0, 0x82, 0x9b, 0, 12, 0, 0, 1, 2, 3, 4];

const PLAIN: Packet4<'static> = Packet4 {
    source: HOST,
    destination: FAR,
    ttl: 64,
    fragment: 0x4000,
    options: &[],
    protocol: protocol::UDP,
    payload: &DATAGRAM,
};

impl Packet4<'_> {
    fn sent(&self) -> SentFrame {
        let length = 20 + self.options.len();
        let mut packet = vec![0x40 | (length / 4) as u8, 0];
        packet.extend(((length + self.payload.len()) as u16).to_be_bytes());
        packet.extend([0, 7]);
        packet.extend(self.fragment.to_be_bytes());
        packet.extend([self.ttl, self.protocol, 0, 0]);
        packet.extend(self.source.octets());
        packet.extend(self.destination.octets());
        packet.extend(self.options);
        let sum = checksum::checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend(self.payload);
        framed(ethertype::IPV4, &packet)
    }
}

fn packet6(source: Ipv6Addr, destination: Ipv6Addr, next_header: u8, hop_limit: u8, payload: &[u8]) -> SentFrame {
    let spec = Ipv6Spec { traffic_class: 0, flow_label: 0, next_header, hop_limit, source, destination };
    let mut packet = vec![0; ipv6::HEADER];
    spec.write(&mut packet, payload.len()).unwrap();
    packet.extend_from_slice(payload);
    framed(ethertype::IPV6, &packet)
}

fn udp6(source: Ipv6Addr, destination: Ipv6Addr) -> SentFrame {
    let mut datagram = DATAGRAM.to_vec();
    transport::seal(source.into(), destination.into(), protocol::UDP, &mut datagram);
    packet6(source, destination, protocol::UDP, 64, &datagram)
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// The answers to the last of some frames differ for exactly these reasons.
fn assert_differences(expected: &[Difference], frames: &[SentFrame]) {
    let Some(mut shared) = crate::shared() else { return };
    let bench = shared.as_mut().unwrap();
    // Without output of the kernel's router the comparison would prove nothing: a plain packet shows that it forwards.
    let plain = PLAIN.sent();
    let out = without_reports(bench.exchange(plain.link, &plain.frame));
    assert_eq!(out.kernel.len(), 1);
    let (last, first) = frames.split_last().unwrap();
    for sent in first {
        bench.exchange(sent.link, &sent.frame);
    }
    let out = without_reports(bench.exchange(last.link, &last.frame));
    assert_ne!(out.kernel, out.ours);
    assert_eq!(Difference::explain_all(last, out).unwrap(), expected);
}

#[test]
fn linux_draws_identifications_and_we_count() {
    assert_differences(&[Difference::Identification], &[Packet4 { destination: ROUTER, ..PLAIN }.sent()]);
}

#[test]
fn linux_writes_the_time_of_day_and_we_the_time_of_our_clock() {
    let options = [68, 8, 5, 0, 0, 0, 0, 0];
    assert_differences(&[Difference::Timestamps], &[Packet4 { options: &options, ..PLAIN }.sent()]);
    // An ICMP timestamp request.
    let mut request = [13, 0, 0, 0, 0, 1, 0, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let sum = checksum::checksum(&request);
    request[2..4].copy_from_slice(&sum.to_be_bytes());
    let asked = Packet4 { destination: ROUTER, protocol: protocol::ICMP, payload: &request, ..PLAIN };
    assert_differences(&[Difference::Identification, Difference::Timestamps], &[asked.sent()]);
}

#[test]
fn linux_copies_options_into_errors_and_resets_and_we_do_not() {
    let options = [7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let expired = Packet4 { ttl: 1, options: &options, ..PLAIN };
    assert_differences(&[Difference::Identification, Difference::OptionsOfErrors], &[expired.sent()]);
    let mut segment = [0; 20];
    segment[..14].copy_from_slice(&[0x10, 0, 0x20, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2]);
    transport::seal(HOST.into(), ROUTER.into(), protocol::TCP, &mut segment);
    let segment =
        Packet4 { destination: ROUTER, options: &options, protocol: protocol::TCP, payload: &segment, ..PLAIN };
    assert_differences(&[Difference::OptionsOfErrors], &[segment.sent()]);
}

#[test]
fn linux_forwards_to_and_from_reserved_addresses_and_we_do_not() {
    for address in [Ipv4Addr::new(240, 1, 2, 3), Ipv4Addr::new(0, 1, 2, 3)] {
        assert_differences(&[Difference::ReservedAddresses], &[Packet4 { destination: address, ..PLAIN }.sent()]);
    }
    for source in [Ipv4Addr::new(240, 1, 2, 3), Ipv4Addr::new(169, 254, 7, 7), Ipv4Addr::new(198, 18, 2, 0)] {
        assert_differences(&[Difference::ReservedAddresses], &[Packet4 { source, ..PLAIN }.sent()]);
    }
    assert_differences(&[Difference::ReservedAddresses], &[udp6(v6("fd00:2::1"), v6("2001:db8:77::9"))]);
}

/// Every class of sources with every class of destinations, in both families.
#[test]
fn linux_and_we_forward_the_same_sources_but_for_the_differences() {
    let Some(mut shared) = crate::shared() else { return };
    let bench = shared.as_mut().unwrap();
    let four = |text: &str| text.parse::<Ipv4Addr>().unwrap();
    let sources4 = "198.18.1.2 203.0.113.7 0.0.0.0 0.1.2.3 127.0.0.1 169.254.7.7 169.253.7.7 224.0.0.9 239.1.1.1 240.0.0.1 \
                    255.255.255.255 198.18.1.1 198.18.2.1 198.18.1.255 198.18.1.0 198.18.2.255 100.64.0.1 192.0.0.1";
    let destinations4 = "198.18.2.2 203.0.113.9 198.18.1.1 198.18.2.1 169.254.1.1 0.1.2.3 127.0.0.1 240.0.0.1 255.255.255.255 \
                         198.18.2.255 239.9.9.9";
    let sources6 = "fd00:1::2 2001:db8:55::7 :: ::1 fe80::2 fec0::9 ff02::9 ff0e::9 ::ffff:10.1.0.9 fd00:1::1 \
                    fd00:2::1 2002:c612:102::1 64:ff9b::1";
    let destinations6 = "fd00:2::2 2001:db8:77::9 fd00:1::1 fd00:2::1 fe80::9 :: ::1 ::ffff:10.2.0.7 ff0e::9 ff01::9";
    let pairs4 = sources4.split(' ').flat_map(|from| destinations4.split(' ').map(move |to| (from, to)));
    let pairs6 = sources6.split(' ').flat_map(|from| destinations6.split(' ').map(move |to| (from, to)));
    let all4 = pairs4.filter(|pair| !pair.0.is_empty() && !pair.1.is_empty());
    let all6 = pairs6.filter(|pair| !pair.0.is_empty() && !pair.1.is_empty());
    let sent4 = all4.map(|(from, to)| {
        let sent = Packet4 { source: four(from), destination: four(to), ..PLAIN }.sent();
        (format!("{from} to {to}"), sent)
    });
    let sent6 = all6.map(|(from, to)| (format!("{from} to {to}"), udp6(v6(from), v6(to))));
    let mut unexplained = Vec::new();
    for (name, sent) in sent4.chain(sent6) {
        let out = bench.exchange(sent.link, &sent.frame);
        if let Err(out) = Difference::explain_all(&sent, out) {
            unexplained.push(format!("{name}: the kernel says {}, ours {}", out.kernel.len(), out.ours.len()));
        }
    }
    assert!(unexplained.is_empty(), "{}", unexplained.join("\n"));
}

#[test]
fn linux_forwards_to_the_all_zeros_address_of_a_subnet_and_we_do_not() {
    let Some(mut shared) = crate::shared() else { return };
    let bench = shared.as_mut().unwrap();
    let mac = host_mac(Link::Right);
    bench.change_kernel(&format!("neighbour add 198.18.2.0 lladdr {mac} nud permanent dev right\n"));
    let sent = Packet4 { destination: Ipv4Addr::new(198, 18, 2, 0), ..PLAIN }.sent();
    let out = without_reports(bench.exchange(sent.link, &sent.frame));
    assert_eq!((out.kernel.len(), out.ours.len()), (1, 0));
    assert_eq!(Difference::explain_all(&sent, out).unwrap(), [Difference::ReservedAddresses]);
}

#[test]
fn linux_forwards_from_the_broadcast_address_of_a_subnet_and_answers_it_and_we_do_not() {
    let from = Ipv4Addr::new(198, 18, 1, 255);
    assert_differences(&[Difference::BroadcastSource], &[Packet4 { source: from, ..PLAIN }.sent()]);
    let expired = Packet4 { source: Ipv4Addr::new(198, 18, 1, 255), ttl: 1, ..PLAIN };
    assert_differences(&[Difference::BroadcastSource], &[expired.sent()]);
}

#[test]
fn linux_forwards_back_onto_the_link_whatever_the_ipv6_addresses_and_we_do_not() {
    assert_differences(&[Difference::Hairpin], &[udp6(Ipv6Addr::UNSPECIFIED, v6("2001:db8:1::9"))]);
    let Some(mut shared) = crate::shared() else { return };
    let bench = shared.as_mut().unwrap();
    let sent = udp6(v6("fd00:1::2"), v6("fe80::2"));
    let out = without_reports(bench.exchange(sent.link, &sent.frame));
    assert!(Difference::explain_all(&sent, out).unwrap().contains(&Difference::Hairpin));
}

#[test]
fn linux_sends_redirects_and_we_do_where_configured() {
    // At most one a second for either of two addresses: no other test uses them.
    assert_differences(&[Difference::Redirects], &[udp6(v6("fd00:1::55"), v6("fd00:1::56"))]);
}

#[test]
fn configured_redirects_equal_those_of_linux() {
    let lab = match Lab::new() {
        Ok(lab) => lab,
        Err(forbidden) => return println!("skipped: {forbidden}"),
    };
    let mut bench = match Bench::with_redirects(&lab, "packet", true) {
        Ok(bench) => bench,
        Err(error) => return println!("skipped: no router of the kernel can be set up: {error}"),
    };
    let plain = |source, destination| {
        Packet4 { source: Ipv4Addr::from(source), destination: Ipv4Addr::from(destination), ..PLAIN }.sent()
    };
    // Source, destination, and true if the sender gets a redirect.
    for (name, sent, told) in [
        ("a neighbour", plain([198, 18, 1, 3], [198, 18, 1, 2]), true),
        ("behind a neighbour", plain([198, 18, 1, 3], [198, 19, 1, 7]), true),
        ("a sender from beyond", plain([203, 0, 113, 7], [198, 19, 1, 8]), false),
        ("another link", plain([198, 18, 1, 3], [198, 18, 2, 2]), false),
        ("an IPv6 neighbour", udp6(v6("fd00:1::55"), v6("fd00:1::56")), true),
        ("behind an IPv6 neighbour of unknown link-local address", udp6(v6("fd00:1::55"), v6("2001:db8:1::7")), false),
        ("an IPv6 sender from beyond", udp6(v6("2001:db8:55::1"), v6("fd00:1::77")), false),
    ] {
        // Linux waits before it sends another redirect to the same sender.
        bench.pass_time(Nanos::millis(100));
        let out = without_reports(bench.exchange(sent.link, &sent.frame));
        let (kernel, ours) = (out.kernel.len(), out.ours.len());
        assert_eq!((kernel, ours), (1 + usize::from(told), 1 + usize::from(told)), "{name}: {out:?}");
        let found = Difference::explain_all(&sent, out).unwrap_or_else(|left| panic!("{name}: {left:?}"));
        assert!(found.iter().all(|difference| *difference == Difference::Identification), "{name}: {found:?}");
    }
    bench.ours().audit();
}

#[test]
fn we_defend_our_addresses_and_linux_does_not() {
    let claim = Arp::request(host_mac(Link::Left), ROUTER, HOST);
    assert_differences(&[Difference::ImpossibleArp], &[framed(ethertype::ARP, &claim.to_bytes())]);
}

#[test]
fn linux_answers_arp_of_a_group_and_we_do_not() {
    let request = Arp::request(Mac([3, 0, 0, 0, 0, 1]), HOST, ROUTER);
    assert_differences(&[Difference::ImpossibleArp], &[framed(ethertype::ARP, &request.to_bytes())]);
}

/// The groups in a report, with their record types.
fn reported(seen: &[OutputFrame]) -> BTreeSet<(Link, u8, Ipv6Addr)> {
    let mut groups = BTreeSet::new();
    for OutputFrame { link, frame } in seen.iter().filter(|seen| is_report(&seen.frame)) {
        let records = frame[14..].get(40 + 8 + 8..).unwrap_or_default();
        for record in records.chunks_exact(20) {
            let group: [u8; 16] = record[4..].try_into().unwrap();
            groups.insert((*link, record[0], group.into()));
        }
    }
    groups
}

#[test]
fn both_report_the_same_groups_when_asked() {
    let Some(mut shared) = crate::shared() else { return };
    let bench = shared.as_mut().unwrap();
    let (querier, everybody) = (v6("fe80::2"), ipv6::ALL_NODES);
    // A general query of version 2 that asks for immediate answers (RFC 3810 5.1), after its router alert.
    let mut query = [&[130, 0, 0, 0, 0, 1, 0, 0][..], &[0; 16], &[2, 125, 0, 0]].concat();
    transport::seal(querier.into(), everybody.into(), protocol::ICMPV6, &mut query);
    let alert = [protocol::ICMPV6, 0, 5, 2, 0, 0, 1, 0];
    let sent = packet6(querier, everybody, protocol::HOP_BY_HOP, 1, &[&alert[..], &query].concat());
    bench.pass_time(Nanos::secs(2));
    let mut out = bench.exchange(sent.link, &sent.frame);
    let later = bench.pass_time(Nanos::millis(500));
    out.kernel.extend(later.kernel);
    out.ours.extend(later.ours);
    let (kernel, mut ours) = (reported(&out.kernel), reported(&out.ours));
    assert!(kernel.len() > 3, "{kernel:?}");
    // RFC 4291 2.8 makes routers members. Linux joins only if forwarding is enabled after the link is up.
    assert!(ours.remove(&(Link::Left, 2, ipv6::ALL_SITE_ROUTERS)));
    assert_eq!(kernel, ours);
}

#[test]
fn every_difference_is_documented_with_its_test() {
    let page = include_str!("../../../../docs/reference/differences.md");
    let rows: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit()).collect();
    assert_eq!(rows.len(), Difference::ALL.len());
    for row in rows {
        let shown = row.trim_end_matches(" |").rsplit('|').next().unwrap();
        assert!(row.contains("RFC "), "{row}");
        for name in shown.split(", ").map(|name| name.trim().trim_matches('`')) {
            assert!(include_str!("occurrences.rs").contains(&format!("fn {name}()")), "{name}");
        }
    }
}
