//! Trains of frames through a whole router with all local protocols: router advertisements, redirects,
//! reassembly. The corpus of the fuzz target `trains` replays here.

use packet::wire::{Ipv4Spec, Ipv6Spec, RouterAdvertisement, checksum, icmp6, ipv6, mld, ndp, protocol, transport};
use plane::rig::{Rig, train};
use plane::snapshot::Layout;
use std::net::Ipv6Addr;
use std::path::Path;
use units::{Mac, Nanos};

const CONFIG: &str = include_str!("../trains.toml");
const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/trains");

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn framed(to: [u8; 6], kind: u16, l3: &[u8]) -> Vec<u8> {
    [&to[..], &[2, 0, 0, 0, 0, 0xaa], &kind.to_be_bytes(), l3].concat()
}

const LAN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const ALL: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];

/// A part of an IPv4 echo request of 64 bytes to the router.
fn part4(start: usize, end: usize) -> Vec<u8> {
    let mut message = [&[8, 0, 0, 0, 0, 1, 0, 1][..], &[7; 56]].concat();
    let sum = checksum::checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let spec = Ipv4Spec {
        type_of_service: 0,
        identification: 7,
        dont_fragment: false,
        ttl: 64,
        protocol: protocol::ICMP,
        source: [192, 0, 2, 7].into(),
        destination: [192, 0, 2, 1].into(),
    };
    let mut l3 = vec![0; 20];
    spec.write(&mut l3, end - start).unwrap();
    let field = (start / 8) as u16 | if end < 64 { 0x2000 } else { 0 };
    l3[6..8].copy_from_slice(&field.to_be_bytes());
    l3[10..12].fill(0);
    let sum = checksum::checksum(&l3);
    l3[10..12].copy_from_slice(&sum.to_be_bytes());
    l3.extend_from_slice(&message[start..end]);
    framed(LAN, 0x0800, &l3)
}

fn packet6(source: &str, to: &str, hops: u8, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let (source, destination) = (v6(source), v6(to));
    let spec = Ipv6Spec { traffic_class: 0, flow_label: 0, next_header, hop_limit: hops, source, destination };
    let mut l3 = vec![0; 40];
    spec.write(&mut l3, payload.len()).unwrap();
    l3.extend_from_slice(payload);
    framed(if destination.is_multicast() { ALL } else { LAN }, 0x86dd, &l3)
}

fn icmp6(source: &str, to: &str, hops: u8, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    transport::seal(v6(source).into(), v6(to).into(), protocol::ICMPV6, &mut message);
    packet6(source, to, hops, protocol::ICMPV6, &message)
}

/// A part of an IPv6 echo request of 64 bytes to the router.
fn part6(start: usize, end: usize) -> Vec<u8> {
    let (source, to) = ("2001:db8:1::7", "2001:db8:1::1");
    let whole = icmp6(source, to, 64, &[&[128, 0, 0, 0, 0, 1, 0, 1][..], &[7; 56]].concat());
    let field = start as u16 | u16::from(end < 64);
    let header = [&[protocol::ICMPV6, 0][..], &field.to_be_bytes(), &[0, 0, 0, 9]].concat();
    packet6(source, to, 64, protocol::FRAGMENT, &[&header[..], &whole[54 + start..54 + end]].concat())
}

fn query() -> Vec<u8> {
    let message = [&[mld::QUERY, 0, 0, 0, 0, 9, 0, 0][..], &[0; 16], &[2, 125, 0, 0]].concat();
    let sealed = icmp6("fe80::7", "ff02::1", 1, &message);
    let alert = [protocol::ICMPV6, 0, 5, 2, 0, 0, 1, 0];
    packet6("fe80::7", "ff02::1", 1, protocol::HOP_BY_HOP, &[&alert[..], &sealed[54..]].concat())
}

fn another_router() -> Vec<u8> {
    let mut buffer = [0; 200];
    let says = ndp::RouterParameters { managed: true, lifetime_s: 600, ..Default::default() };
    let all = RouterAdvertisement {
        parameters: says,
        mac: Some(Mac([2, 0, 0, 0, 0, 9])),
        mtu: Some(1400),
        ..Default::default()
    };
    let length = all.write(&mut buffer, v6("fe80::9"), ipv6::ALL_NODES).unwrap();
    framed(ALL, 0x86dd, &buffer[..length])
}

/// Frames, each with the delay before it in tenths of a second.
type Train = Vec<(u8, Vec<u8>)>;

/// Hand-made trains with their names.
fn made() -> Vec<(&'static str, Train)> {
    let looks =
        icmp6("::", "ff02::1:ff00:1", 255, &[&[135, 0, 0, 0, 0, 0, 0, 0][..], &v6("2001:db8:1::1").octets()].concat());
    let asks = icmp6("fe80::7", "ff02::2", 255, &[icmp6::ROUTER_SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
    let behind = icmp6("2001:db8:1::7", "2001:db8:20::1", 64, &[128, 0, 0, 0, 0, 1, 0, 1]);
    vec![
        ("fragments", vec![(0, part4(0, 32)), (1, part4(32, 64)), (0, part6(32, 64)), (1, part6(0, 32))]),
        ("fragments-overlap", vec![(0, part4(0, 40)), (0, part4(32, 64)), (0, part6(0, 40)), (0, part6(32, 64))]),
        ("fragments-alone", vec![(0, part4(0, 32)), (255, part6(0, 32)), (255, part4(32, 64)), (255, part6(32, 64))]),
        ("query", vec![(100, query()), (1, query())]),
        ("routers", vec![(100, asks.clone()), (1, asks), (1, another_router())]),
        ("addresses", vec![(0, looks)]),
        ("hairpin", vec![(100, behind.clone()), (1, behind)]),
    ]
}

/// Sends a train, then lets time pass until no packet is held.
fn run(rig: &mut Rig, bytes: &[u8]) {
    for (tenths, frame) in train::frames(bytes).take(64) {
        rig.advance(Nanos::millis(u64::from(tenths) * 100));
        rig.send("lan", &frame[..frame.len().min(packet::pool::FRAME)]);
        rig.settle();
    }
    rig.advance(Nanos::secs(70));
    assert_eq!(rig.report().held_packets, 0);
    rig.received("lan");
    rig.received("wan");
}

#[test]
fn hand_made_trains_equal_the_corpus_files() {
    for (name, frames) in made() {
        let bytes = train::bytes(frames.iter().map(|(tenths, frame)| (*tenths, &frame[..])));
        let path = Path::new(DIRECTORY).join(name).with_added_extension("bin");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, &bytes).unwrap();
        }
        let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(file, bytes, "{name}: run again with UPDATE_EXPECT=1 if it changed on purpose");
        assert_eq!(train::frames(&bytes).count(), frames.len());
    }
}

#[test]
fn corpus_trains_replay_without_leaks() {
    let mut replayed = 0;
    for entry in std::fs::read_dir(DIRECTORY).unwrap() {
        let mut rig = Rig::running(1024, Layout::Three, CONFIG);
        run(&mut rig, &std::fs::read(entry.unwrap().path()).unwrap());
        replayed += 1;
    }
    assert!(replayed >= made().len(), "{replayed} files");
}

#[test]
fn reassembled_request_is_answered() {
    let mut rig = Rig::running(1024, Layout::Three, CONFIG);
    rig.advance(Nanos::secs(5));
    rig.received("lan");
    for frame in [part4(32, 64), part4(0, 32), part6(0, 32), part6(32, 64)] {
        rig.send("lan", &frame);
    }
    rig.settle();
    let lengths: Vec<usize> = rig.received("lan").iter().map(|frame| frame.len()).collect();
    assert_eq!(lengths, [14 + 20 + 64, 14 + 40 + 64]);
    assert_eq!(rig.report().held_packets, 0);
}
