use super::frames::{MAC, PEER, Upper, packet4, packet6};
use crate::wire::ndp::{self, NeighbourFlags};
use crate::wire::{
    Arp, Error4, Error6, Ipv4, Ipv4Header, Ipv6, Ipv6Header, RouterAdvertisement, ethernet, ethertype, icmp6,
    ip_summary, ipv6, summary,
};
use expect_test::{Expect, expect};
use std::net::Ipv6Addr;

fn frame(vlan: Option<u16>, kind: u16, l3: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ethernet::header_length(vlan)];
    ethernet::write_header(&mut frame, MAC, PEER, vlan, kind).unwrap();
    frame.extend(l3);
    frame
}

fn check(frames: &[Vec<u8>], expected: Expect) {
    let lines: Vec<String> = frames.iter().map(|frame| summary(frame).to_string()).collect();
    expected.assert_eq(&lines.join("\n"));
}

fn error4(error: Error4, original: &[u8]) -> Vec<u8> {
    let mut buffer = [0; 576];
    let length = error.write(&mut buffer, &Ipv4::parse(original).unwrap(), [192, 0, 2, 254].into(), 64, 0).unwrap();
    frame(None, ethertype::IPV4, &buffer[..length])
}

fn error6(error: Error6, original: &[u8]) -> Vec<u8> {
    let mut buffer = [0; 1280];
    let me = "2001:db8::fe".parse().unwrap();
    let length = error.write(&mut buffer, &Ipv6::parse(original).unwrap(), me, 64).unwrap();
    frame(None, ethertype::IPV6, &buffer[..length])
}

#[test]
fn ip_summary_equals_frame_summary() {
    let v4 = packet4([192, 0, 2, 1], [198, 51, 100, 9], Upper::Udp(5060, 53), &[0; 120]);
    let v6 = packet6("2001:db8::1", "2001:db8::9", Upper::Udp(5060, 53), &[0; 7]);
    for (kind, packet) in [(ethertype::IPV4, v4), (ethertype::IPV6, v6)] {
        assert_eq!(ip_summary(&packet).to_string(), summary(&frame(None, kind, &packet)).to_string());
    }
    for garbage in [&[][..], &[0x10, 1, 2]] {
        assert_eq!(ip_summary(garbage).to_string(), format!("no IP packet, {} bytes", garbage.len()));
    }
}

#[test]
fn ipv4_summary_is_as_in_tcpdump() {
    let udp = packet4([192, 0, 2, 1], [198, 51, 100, 9], Upper::Udp(5060, 53), &[0; 120]);
    let mut tcp = packet4([192, 0, 2, 1], [198, 51, 100, 9], Upper::Tcp(40000, 443, 7), b"hello");
    tcp[33] = 0x18;
    let echo = packet4([192, 0, 2, 1], [198, 51, 100, 9], Upper::Echo(3, 4), &[0; 56]);
    let (mut first, mut later) = (udp.clone(), udp.clone());
    Ipv4Header::of_mut(&mut first).unwrap().set_fragment(false, true, 0);
    Ipv4Header::of_mut(&mut later).unwrap().set_fragment(false, false, 1480);
    let mut corrupt = udp.clone();
    corrupt[12] ^= 1;
    let mut igmp = echo.clone();
    Ipv4Header::of_mut(&mut igmp).unwrap().set_ttl(1);
    igmp[9] = 2;
    super::frames::resum4(&mut igmp);
    let v4 = |packet: &[u8]| frame(None, ethertype::IPV4, packet);
    check(
        &[
            v4(&udp),
            frame(Some(7), ethertype::IPV4, &udp),
            v4(&tcp),
            v4(&echo),
            v4(&first),
            v4(&later),
            v4(&igmp),
            v4(&corrupt),
            v4(&udp[..30]),
        ],
        expect![[r#"
            192.0.2.1.5060 > 198.51.100.9.53 UDP 120 bytes ttl 64
            vlan 7 192.0.2.1.5060 > 198.51.100.9.53 UDP 120 bytes ttl 64
            192.0.2.1.40000 > 198.51.100.9.443 TCP [P.] seq 7 ack 0 win 100 5 bytes ttl 64
            192.0.2.1 > 198.51.100.9 ICMP echo request id 3 seq 4 56 bytes ttl 64
            192.0.2.1.5060 > 198.51.100.9.53 UDP 120 bytes ttl 64 frag 0:0+
            192.0.2.1 > 198.51.100.9 UDP 128 bytes ttl 64 frag 0:1480
            192.0.2.1 > 198.51.100.9 IGMP 64 bytes ttl 1
            IPv4 header checksum wrong, 148 bytes
            IPv4 total length longer than the frame, 30 bytes"#]],
    );
}

#[test]
fn icmp_error_summary_includes_the_quoted_packet() {
    let udp = packet4([192, 0, 2, 1], [198, 51, 100, 9], Upper::Udp(5060, 53), &[0; 120]);
    let six = packet6("2001:db8::1", "2001:db8::2", Upper::Tcp(5060, 53, 1), &[0; 120]);
    check(
        &[
            error4(Error4::TimeExceeded, &udp),
            error4(Error4::FragmentationNeeded { mtu: 1400 }, &udp),
            error4(Error4::HostUnreachable, &udp),
            error4(Error4::CommunicationProhibited, &udp),
            error4(Error4::SourceRouteFailed, &udp),
            error4(Error4::ParameterProblem { pointer: 22 }, &udp),
            error4(Error4::RedirectHost { gateway: [192, 0, 2, 7].into() }, &udp),
            error6(Error6::NoRoute, &six),
            error6(Error6::PacketTooBig { mtu: 1280 }, &six),
            error6(Error6::HopLimitExceeded, &six),
            error6(Error6::UnrecognizedNextHeader { pointer: 6 }, &six),
        ],
        expect![[r#"
            192.0.2.254 > 192.0.2.1 ICMP time exceeded for 192.0.2.1 > 198.51.100.9 UDP ttl 64
            192.0.2.254 > 192.0.2.1 ICMP fragmentation needed mtu 1400 for 192.0.2.1 > 198.51.100.9 UDP ttl 64
            192.0.2.254 > 192.0.2.1 ICMP host unreachable for 192.0.2.1 > 198.51.100.9 UDP ttl 64
            192.0.2.254 > 192.0.2.1 ICMP prohibited for 192.0.2.1 > 198.51.100.9 UDP ttl 64
            192.0.2.254 > 192.0.2.1 ICMP unreachable code 5 for 192.0.2.1 > 198.51.100.9 UDP ttl 64
            192.0.2.254 > 192.0.2.1 ICMP parameter problem at byte 22 for 192.0.2.1 > 198.51.100.9 UDP ttl 64
            192.0.2.254 > 192.0.2.1 ICMP redirect to 192.0.2.7 for 192.0.2.1 > 198.51.100.9 UDP ttl 64
            2001:db8::fe > 2001:db8::1 ICMPv6 no route for 2001:db8::1 > 2001:db8::2 hlim 64
            2001:db8::fe > 2001:db8::1 ICMPv6 packet too big mtu 1280 for 2001:db8::1 > 2001:db8::2 hlim 64
            2001:db8::fe > 2001:db8::1 ICMPv6 hop limit exceeded for 2001:db8::1 > 2001:db8::2 hlim 64
            2001:db8::fe > 2001:db8::1 ICMPv6 parameter problem code 1 at byte 6 for 2001:db8::1 > 2001:db8::2 hlim 64"#]],
    );
}

#[test]
fn neighbour_discovery_is_summarised() {
    let (me, target) = (ipv6::link_local(MAC), "2001:db8::9".parse::<Ipv6Addr>().unwrap());
    let arp = |arp: Arp| frame(None, ethertype::ARP, &arp.to_bytes());
    let request = Arp::request(PEER, [192, 0, 2, 9].into(), [192, 0, 2, 1].into());
    let ndp = |write: &dyn Fn(&mut [u8]) -> Option<usize>| {
        let mut buffer = [0; 1280];
        let length = write(&mut buffer).unwrap();
        frame(None, ethertype::IPV6, &buffer[..length])
    };
    let flags = NeighbourFlags { router: true, solicited: true, overrides: true };
    let says = ndp::RouterParameters { lifetime_s: 1800, ..Default::default() };
    let six = packet6("2001:db8::1", "2001:db8::2", Upper::Udp(1, 2), b"");
    let mut forwarded = ndp(&|b| ndp::write_router_solicitation(b, me, MAC));
    Ipv6Header::of_mut(&mut forwarded[14..]).unwrap().set_hop_limit(254);
    check(
        &[
            arp(request),
            arp(Arp::probe(PEER, [192, 0, 2, 1].into())),
            arp(request.reply(MAC)),
            ndp(&|b| ndp::write_neighbour_solicitation(b, me, ipv6::solicited_node(target), target, MAC)),
            ndp(&|b| ndp::write_neighbour_advertisement(b, target, me, target, flags, PEER)),
            ndp(&|b| ndp::write_router_solicitation(b, me, MAC)),
            ndp(&|b| {
                RouterAdvertisement { parameters: says, mac: Some(MAC), ..Default::default() }.write(
                    b,
                    me,
                    ipv6::ALL_NODES,
                )
            }),
            ndp(&|b| ndp::write_redirect(b, &Ipv6::parse(&six).unwrap(), me, ipv6::link_local(PEER), Some(PEER))),
            ndp(&|b| ndp::write_redirect(b, &Ipv6::parse(&six).unwrap(), me, target, Some(PEER))),
            ndp(&|b| {
                let echo = crate::wire::icmp4::Echo { identifier: 1, sequence: 2, data: b"12345678" };
                icmp6::write_echo(b, icmp6::ECHO_REQUEST, me, target, 64, &echo)
            }),
            forwarded,
        ],
        expect![[r#"
            ARP who-has 192.0.2.1 tell 192.0.2.9
            ARP who-has 192.0.2.1 probe from 02:00:00:00:00:09
            ARP 192.0.2.1 is-at 02:00:00:00:00:01
            fe80::ff:fe00:1 > ff02::1:ff00:9 ICMPv6 who-has 2001:db8::9 link 02:00:00:00:00:01 hlim 255
            2001:db8::9 > fe80::ff:fe00:1 ICMPv6 2001:db8::9 is-at 02:00:00:00:00:09 R S O hlim 255
            fe80::ff:fe00:1 > ff02::2 ICMPv6 router solicitation link 02:00:00:00:00:01 hlim 255
            fe80::ff:fe00:1 > ff02::1 ICMPv6 router advertisement lifetime 1800 s link 02:00:00:00:00:01 hlim 255
            fe80::ff:fe00:1 > 2001:db8::1 ICMPv6 redirect 2001:db8::2 to fe80::ff:fe00:9 link 02:00:00:00:00:09 hlim 255
            fe80::ff:fe00:1 > 2001:db8::1 ICMPv6 type 137 invalid: neighbour discovery target not valid hlim 255
            fe80::ff:fe00:1 > 2001:db8::9 ICMPv6 echo request id 1 seq 2 8 bytes hlim 64
            fe80::ff:fe00:1 > ff02::2 ICMPv6 type 133 invalid: neighbour discovery with a hop limit other than 255 hlim 254"#]],
    );
}

#[test]
fn malformed_frames_are_summarised_as_malformed() {
    let mut two_tags = frame(Some(100), ethertype::VLAN, &[0, 7, 8, 0, 0x45]);
    two_tags[12..14].copy_from_slice(&ethertype::SERVICE_VLAN.to_be_bytes());
    let cut = packet6("2001:db8::1", "2001:db8::2", Upper::Udp(1, 2), b"");
    let mut chain = cut.clone();
    chain[6] = 60;
    chain[41] = 9;
    check(
        &[
            vec![],
            vec![0xff; 9],
            frame(None, 0x88cc, &[0; 46]),
            frame(None, 38, &[0x42; 46]),
            two_tags,
            frame(None, ethertype::ARP, &[0; 46]),
            frame(None, ethertype::IPV4, &[0x60; 46]),
            frame(None, ethertype::IPV6, &cut[..44]),
            frame(None, ethertype::IPV6, &chain),
        ],
        expect![[r#"
            truncated frame, 0 bytes
            truncated frame, 9 bytes
            02:00:00:00:00:09 > 02:00:00:00:00:01 ethertype 0x88cc 46 bytes
            02:00:00:00:00:09 > 02:00:00:00:00:01 802.3 46 bytes
            vlan 100 02:00:00:00:00:09 > 02:00:00:00:00:01 second tag, 5 bytes
            ARP not for Ethernet addresses, 46 bytes
            IPv4 version is not 4, 46 bytes
            IPv6 payload length longer than the frame, 44 bytes
            2001:db8::1 > 2001:db8::2 IPv6 extension header truncated at byte 40, hlim 64"#]],
    );
}
