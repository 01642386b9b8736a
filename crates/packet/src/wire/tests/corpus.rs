//! Handmade frames, each near an edge case of some parser. They are files, so that the fuzzer starts from them and its findings can be added beside
//! them. Every file in `corpus/frames` is replayed through all parsers.
//!
//! `UPDATE_EXPECT=1` writes the frames made here.

use super::frames::{MAC, PEER, Upper, packet4, packet6, resum4};
use crate::wire::mld::{self, GroupRecord};
use crate::wire::ndp::{self, NeighbourFlags, PrefixInformation};
use crate::wire::{
    Arp, Error4, Error6, Ipv4, Ipv4Header, Ipv6, Ipv6Header, RouterAdvertisement, complete_checksum, ethernet,
    ethertype, exercise, ipv6, protocol,
};
use std::path::Path;

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/frames");

fn frame(vlan: Option<u16>, kind: u16, l3: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ethernet::header_length(vlan)];
    ethernet::write_header(&mut frame, MAC, PEER, vlan, kind).unwrap();
    frame.extend(l3);
    frame
}

fn four(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut packet = packet4([192, 0, 2, 1], [198, 51, 100, 9], Upper::Udp(5060, 53), b"payload");
    change(&mut packet);
    frame(None, ethertype::IPV4, &packet)
}

/// IPv4 with options, padded to whole words.
fn with_options(options: &[u8]) -> Vec<u8> {
    four(|packet| {
        let mut field = options.to_vec();
        field.resize(options.len().next_multiple_of(4), 0);
        packet[0] += (field.len() / 4) as u8;
        packet[3] += field.len() as u8;
        packet.splice(20..20, field);
        resum4(packet);
    })
}

/// IPv6 whose UDP header follows these extension headers.
fn with_extensions(first: u8, extensions: &[u8]) -> Vec<u8> {
    let mut packet = packet6("2001:db8::1", "2001:db8::2", Upper::Udp(5060, 53), b"payload");
    let header = Ipv6Header::of_mut(&mut packet).unwrap();
    header.set_next_header(first);
    header.set_payload_length((header.payload_length() + extensions.len()) as u16);
    packet.splice(40..40, extensions.iter().copied());
    frame(None, ethertype::IPV6, &packet)
}

fn discovery(write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Vec<u8> {
    let mut buffer = [0; 1280];
    let length = write(&mut buffer).unwrap();
    frame(None, ethertype::IPV6, &buffer[..length])
}

fn links() -> Vec<(&'static str, Vec<u8>)> {
    let udp = packet4([192, 0, 2, 1], [198, 51, 100, 9], Upper::Udp(5060, 53), b"payload");
    let mut two_tags = frame(Some(100), ethertype::VLAN, &[0, 7, 8, 0]);
    two_tags.extend(&udp);
    let mut cut_tag = frame(Some(100), ethertype::IPV4, &[]);
    cut_tag.truncate(16);
    vec![
        ("link-empty", vec![]),
        ("link-cut", vec![0xff; 13]),
        ("link-header-only", frame(None, ethertype::IPV4, &[])),
        ("link-tag", frame(Some(7), ethertype::IPV4, &udp)),
        ("link-tag-cut", cut_tag),
        ("link-two-tags", two_tags),
        ("link-802.3", frame(None, 46, &[0xaa; 46])),
        ("link-length-between", frame(None, 0x05ff, &[0; 46])),
        (
            "arp-request",
            frame(None, ethertype::ARP, &Arp::request(MAC, [192, 0, 2, 1].into(), [192, 0, 2, 9].into()).to_bytes()),
        ),
        ("arp-probe", frame(None, ethertype::ARP, &Arp::probe(MAC, [192, 0, 2, 1].into()).to_bytes())),
        ("arp-cut", frame(None, ethertype::ARP, &[0, 1, 8, 0, 6, 4, 0, 1])),
    ]
}

fn ipv4s() -> Vec<(&'static str, Vec<u8>)> {
    let full_timestamp = [&[68, 36, 5, 0][..], &[0; 32]].concat();
    vec![
        ("ipv4-udp", four(|_| {})),
        ("ipv4-padded", four(|packet| packet.extend([0xee; 11]))),
        ("ipv4-cut", four(|packet| packet.truncate(25))),
        ("ipv4-ihl-4", four(|packet| packet[0] = 0x44)),
        ("ipv4-ihl-15", four(|packet| packet[0] = 0x4f)),
        ("ipv4-total-0", four(|packet| packet[2..4].fill(0))),
        ("ipv4-total-ffff", four(|packet| packet[2..4].fill(0xff))),
        ("ipv4-checksum", four(|packet| packet[10] ^= 1)),
        ("ipv4-ttl-0", four(|packet| Ipv4Header::of_mut(packet).unwrap().set_ttl(0))),
        ("ipv4-ttl-1", four(|packet| Ipv4Header::of_mut(packet).unwrap().set_ttl(1))),
        ("ipv4-first-fragment", four(|packet| Ipv4Header::of_mut(packet).unwrap().set_fragment(false, true, 0))),
        ("ipv4-last-fragment", four(|packet| Ipv4Header::of_mut(packet).unwrap().set_fragment(false, false, 65_528))),
        ("ipv4-udp-length-0", four(|packet| packet[24..26].fill(0))),
        ("ipv4-options-record-route", with_options(&[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0])),
        ("ipv4-options-record-route-full", with_options(&[7, 7, 8, 9, 9, 9, 9])),
        ("ipv4-options-half-a-slot", with_options(&[7, 6, 4, 0, 0, 0])),
        ("ipv4-options-timestamp", with_options(&full_timestamp)),
        ("ipv4-options-timestamp-overflow", with_options(&[68, 4, 5, 0xf0])),
        ("ipv4-options-prespecified", with_options(&[68, 12, 5, 3, 192, 0, 2, 1, 0, 0, 0, 0])),
        ("ipv4-options-source-route", with_options(&[131, 7, 4, 192, 0, 2, 77])),
        ("ipv4-options-length-0", with_options(&[7, 0, 4, 0])),
        ("ipv4-options-length-1", with_options(&[1, 7, 1, 0])),
        ("ipv4-options-no-length", with_options(&[1, 1, 1, 7])),
        ("ipv4-options-router-alert", with_options(&[148, 4, 0, 0])),
    ]
}

fn ipv6s() -> Vec<(&'static str, Vec<u8>)> {
    let six = packet6("2001:db8::1", "2001:db8::2", Upper::Tcp(40_000, 443, 7), b"payload");
    let long = [60, 0, 1, 4, 0, 0, 0, 0].repeat(20);
    vec![
        ("ipv6-tcp", frame(None, ethertype::IPV6, &six)),
        ("ipv6-cut", frame(None, ethertype::IPV6, &six[..50])),
        ("ipv6-header-cut", frame(None, ethertype::IPV6, &six[..39])),
        ("ipv6-hop-by-hop", with_extensions(protocol::HOP_BY_HOP, &[17, 0, 5, 2, 0, 0, 1, 0])),
        ("ipv6-hop-by-hop-unknown", with_extensions(protocol::HOP_BY_HOP, &[17, 0, 0xde, 4, 0, 0, 0, 0])),
        ("ipv6-hop-by-hop-beyond", with_extensions(protocol::HOP_BY_HOP, &[17, 0, 1, 5, 0, 0, 0, 0])),
        ("ipv6-hop-by-hop-cut", with_extensions(protocol::HOP_BY_HOP, &[17, 200, 1, 4, 0, 0, 0, 0])),
        ("ipv6-hop-by-hop-late", with_extensions(protocol::DESTINATION_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0])),
        ("ipv6-routing-0", with_extensions(protocol::ROUTING, &[17, 0, 0, 1, 0, 0, 0, 0])),
        ("ipv6-authentication", with_extensions(protocol::AUTHENTICATION, &[17, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1])),
        ("ipv6-first-fragment", with_extensions(protocol::FRAGMENT, &[17, 0, 0, 1, 0, 0, 0, 1])),
        ("ipv6-later-fragment", with_extensions(protocol::FRAGMENT, &[17, 0, 0x05, 0xc8, 0, 0, 0, 1])),
        ("ipv6-atomic-fragment", with_extensions(protocol::FRAGMENT, &[17, 0, 0, 0, 0, 0, 0, 1])),
        ("ipv6-long-chain", with_extensions(protocol::DESTINATION_OPTIONS, &long)),
        ("ipv6-no-next-header", with_extensions(protocol::NO_NEXT_HEADER, &[])),
    ]
}

fn icmps() -> Vec<(&'static str, Vec<u8>)> {
    let udp = packet4([192, 0, 2, 1], [198, 51, 100, 9], Upper::Udp(5060, 53), b"payload");
    let six = packet6("2001:db8::1", "2001:db8::2", Upper::Udp(5060, 53), b"payload");
    let mut error4 = [0; 576];
    let big = Error4::FragmentationNeeded { mtu: 68 };
    let length4 = big.write(&mut error4, &Ipv4::parse(&udp).unwrap(), [192, 0, 2, 254].into(), 64, 0).unwrap();
    let (mut error6, me) = ([0; 1280], ipv6::link_local(MAC));
    let too_big = Error6::PacketTooBig { mtu: 0 };
    let length6 = too_big.write(&mut error6, &Ipv6::parse(&six).unwrap(), me, 64).unwrap();
    let echo4 = packet4([192, 0, 2, 1], [198, 51, 100, 9], Upper::Echo(1, 2), b"ping");
    let echo6 = packet6("2001:db8::1", "ff02::1", Upper::Echo(1, 2), b"ping");
    vec![
        ("icmp4-echo", frame(None, ethertype::IPV4, &echo4)),
        ("icmp4-fragmentation-needed", frame(None, ethertype::IPV4, &error4[..length4])),
        ("icmp6-echo-to-group", frame(None, ethertype::IPV6, &echo6)),
        ("icmp6-too-big", frame(None, ethertype::IPV6, &error6[..length6])),
    ]
}

fn discoveries() -> Vec<(&'static str, Vec<u8>)> {
    let (me, target) = (ipv6::link_local(MAC), "2001:db8::9".parse().unwrap());
    let flags = NeighbourFlags { router: true, solicited: true, overrides: true };
    let prefix = PrefixInformation {
        address: target,
        length: 64,
        on_link: true,
        autonomous: true,
        valid_s: 1,
        preferred_s: u32::MAX,
    };
    let says = ndp::RouterParameters { hop_limit: 64, lifetime_s: 1800, ..Default::default() };
    let ask =
        |buffer: &mut [u8]| ndp::write_neighbour_solicitation(buffer, me, ipv6::solicited_node(target), target, MAC);
    let mut endless = discovery(ask);
    endless[14 + 65] = 0;
    complete_checksum(&mut endless[14..]).unwrap();
    let six = packet6("2001:db8::1", "2001:db8::2", Upper::Udp(5060, 53), b"payload");
    let six = Ipv6::parse(&six).unwrap();
    vec![
        ("ndp-solicitation", discovery(ask)),
        ("ndp-option-length-0", endless),
        ("ndp-advertisement", discovery(|b| ndp::write_neighbour_advertisement(b, target, me, target, flags, PEER))),
        ("ndp-router-solicitation", discovery(|b| ndp::write_router_solicitation(b, me, MAC))),
        (
            "ndp-router-advertisement",
            discovery(|b| {
                RouterAdvertisement {
                    parameters: says,
                    mac: Some(MAC),
                    mtu: Some(1280),
                    prefixes: &[prefix],
                    ..Default::default()
                }
                .write(b, me, ipv6::ALL_NODES)
            }),
        ),
        (
            "ndp-router-advertisement-dns",
            discovery(|b| {
                let search = ["example.org".to_string()];
                let says = ndp::RouterParameters { preference: ndp::Preference::High, ..says };
                let dns = RouterAdvertisement {
                    parameters: says,
                    servers: &[target],
                    search: &search,
                    dns_lifetime_s: 600,
                    ..Default::default()
                };
                dns.write(b, me, ipv6::ALL_NODES)
            }),
        ),
        ("mld-report", discovery(|b| mld::write_report(b, me, &[(GroupRecord::Joined, ipv6::solicited_node(target))]))),
        ("mld-report-v1", discovery(|b| mld::write_report_v1(b, me, ipv6::solicited_node(target)))),
        ("ndp-redirect", discovery(|b| ndp::write_redirect(b, &six, me, ipv6::link_local(PEER), Some(PEER)))),
    ]
}

fn made() -> Vec<(&'static str, Vec<u8>)> {
    [links(), ipv4s(), ipv6s(), icmps(), discoveries()].concat()
}

#[test]
fn handwritten_frames_equal_the_corpus_files() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    for (name, frame) in made() {
        let path = Path::new(DIRECTORY).join(name).with_added_extension("bin");
        if update {
            std::fs::create_dir_all(DIRECTORY).unwrap();
            std::fs::write(&path, &frame).unwrap();
        }
        let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(file, frame, "{name}: run again with UPDATE_EXPECT=1 if it changed on purpose");
    }
}

#[test]
fn every_frame_of_the_corpus_replays() {
    let mut replayed = 0;
    for entry in std::fs::read_dir(DIRECTORY).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "bin") {
            exercise(&std::fs::read(&path).unwrap());
            replayed += 1;
        }
    }
    assert!(replayed >= made().len(), "{replayed} files");
}
