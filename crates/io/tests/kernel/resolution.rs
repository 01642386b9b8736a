//! Unconfigured neighbours: both routers send the same requests, wait, and give up in the same way.

use crate::bench::{Outcome, host_mac};
use crate::differences::{Difference, without_reports};
use crate::generator::{SentFrame, between};
use crate::link_ends::{Link, OutputFrame};
use packet::wire::arp::Arp;
use packet::wire::ndp::{self, NeighbourFlags};
use packet::wire::{ethernet, ethertype, ipv6};
use std::net::IpAddr;
use units::{Mac, Nanos};

/// Checks that the answers are equal except for identifications, and returns the kernel's.
fn same(sent: &SentFrame, out: Outcome) -> Vec<OutputFrame> {
    let out = without_reports(out);
    let kernel = out.kernel.clone();
    let found = Difference::explain_all(sent, out).unwrap_or_else(|left| panic!("{left:?}"));
    assert!(found.iter().all(|difference| *difference == Difference::Identification), "{found:?}");
    kernel
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The answer of the host at `address` on the right to a request.
fn neighbour_reply(address: IpAddr) -> SentFrame {
    let (mac, router) = (Mac([2, 0, 0, 0, 2, 9]), crate::bench::router_mac(Link::Right));
    let mut l3 = vec![0; 100];
    let kind = match address {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            l3 = Arp::request(router, [a, b, c, 1].into(), address).reply(mac).to_bytes().to_vec();
            ethertype::ARP
        }
        IpAddr::V6(address) => {
            let flags = NeighbourFlags { router: false, solicited: true, overrides: true };
            let to = ipv6::link_local(router);
            let length = ndp::write_neighbour_advertisement(&mut l3, address, to, address, flags, mac).unwrap();
            l3.truncate(length);
            ethertype::IPV6
        }
    };
    let mut frame = vec![0; ethernet::HEADER];
    ethernet::write_header(&mut frame, router, mac, None, kind);
    SentFrame { link: Link::Right, frame: [frame, l3].concat() }
}

#[test]
fn resolved_neighbour_receives_queued_packets() {
    let Some(mut bench) = crate::bench() else { return };
    for (from, to) in [("198.18.1.2", "198.18.2.9"), ("fd00:1::2", "fd00:2::9")] {
        let first = between(ip(from), ip(to), 64);
        let asked = same(&first, bench.exchange(first.link, &first.frame));
        assert_eq!(asked.len(), 1, "{to} is asked for: {asked:?}");
        assert!(asked[0].link == Link::Right && asked[0].frame[0] & 1 == 1);
        let second = between(ip(from), ip(to), 63);
        assert!(same(&second, bench.exchange(second.link, &second.frame)).is_empty(), "it has been asked for");
        let answer = neighbour_reply(ip(to));
        let out = same(&answer, bench.exchange(answer.link, &answer.frame));
        assert_eq!(out.len(), 2, "both packets go on: {out:?}");
        assert_eq!(same(&first, bench.exchange(first.link, &first.frame)).len(), 1);
    }
}

#[test]
fn unresolved_neighbour_is_solicited_three_times_then_reported_unreachable() {
    let Some(mut bench) = crate::bench() else { return };
    let mut sent = Vec::new();
    let mut all = Outcome { kernel: Vec::new(), ours: Vec::new() };
    for (from, to) in [("198.18.1.2", "198.18.2.10"), ("fd00:1::2", "fd00:2::10")] {
        let packet = between(ip(from), ip(to), 64);
        let out = bench.exchange(packet.link, &packet.frame);
        all.kernel.extend(out.kernel);
        all.ours.extend(out.ours);
        sent.push(packet);
    }
    let out = bench.pass_time(Nanos::millis(4500));
    all.kernel.extend(out.kernel);
    all.ours.extend(out.ours);
    // The order between the two families depends on their timers: each is compared separately.
    for (packet, family) in sent.iter().zip([[0x08, 0x06, 0x08, 0x00], [0x86, 0xdd, 0x86, 0xdd]]) {
        let of = |seen: &[OutputFrame]| -> Vec<OutputFrame> {
            let is = |seen: &&OutputFrame| seen.frame[12..14] == family[..2] || seen.frame[12..14] == family[2..];
            seen.iter().filter(is).cloned().collect()
        };
        let out = Outcome { kernel: of(&all.kernel), ours: of(&all.ours) };
        let seen = same(packet, out);
        let links: Vec<Link> = seen.iter().map(|seen| seen.link).collect();
        assert_eq!(links, [Link::Right, Link::Right, Link::Right, Link::Left], "{seen:?}");
        assert_eq!(seen[3].frame[..6], host_mac(Link::Left).0);
    }
}
