//! The router splits super-frames before a slow link, even if the port accepts them. Other packets then wait no longer than behind
//! single packets.

use packet::Offload;
use packet::pool::{PartialChecksum, Segmentation};
use packet::port::Offloads;
use packet::wire::{Ethernet, Ipv4Spec, checksum::Sum};
use plane::rig::Rig;
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use units::Nanos;

const EVERYTHING: Offloads = Offloads { super_frames: true, checksums: true, gather: false };
/// The longest frame of a link of 1500 bytes.
const LONGEST: usize = 1514;

fn config(scheme: &str) -> String {
    format!(
        r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
scheme = "{scheme}"
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:99"
port = "wan"
[[route]]
to = "10.0.0.0/8"
via = "198.51.100.9"
"#
    )
}

/// A frame with `payload` bytes of payload, a single packet or a super-frame. Its first byte is `number`.
fn frame(tcp: bool, number: u8, payload: usize) -> (Vec<u8>, Offload) {
    let mut message = [&1000u16.to_be_bytes()[..], &80u16.to_be_bytes()].concat();
    if tcp {
        message.extend(u32::from(number).to_be_bytes());
        message.extend([0, 0, 0, 9, 0x50, 0x10, 2, 0, 0, 0, 0, 0]);
    } else {
        message.extend(((payload + 8) as u16).to_be_bytes());
        message.extend([0, 0]);
    }
    message.resize(message.len() + payload, number);
    let (protocol, offset) = if tcp { (6, 16) } else { (17, 6) };
    let (source, destination) = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(10, 0, 0, 1));
    let spec = Ipv4Spec {
        type_of_service: 0,
        identification: number.into(),
        dont_fragment: true,
        ttl: 64,
        protocol,
        source,
        destination,
    };
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0x97, 8, 0];
    frame.resize(34, 0);
    spec.write(&mut frame[14..], message.len()).unwrap();
    let sum = Sum::new().pseudo4(source, destination, protocol, message.len() as u16).folded();
    message[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
    frame.extend(message);
    let checksum = Some(PartialChecksum { start: 34, offset: offset as u16 });
    let size = 1448;
    let offload = match payload > usize::from(size) {
        true => Offload { segmentation: Segmentation::Tcp4, size, checksum },
        false => Offload { checksum, ..Offload::NONE },
    };
    (frame, offload)
}

/// Frames that the far end of a link receives, each with its millisecond. In each millisecond a bulk flow sends a super-frame
/// of `segments` segments, and a light flow sends a packet.
fn received(rig: &mut Rig, segments: usize, milliseconds: u8) -> Vec<(u8, Vec<u8>)> {
    let mut all = Vec::new();
    for now in 0..milliseconds {
        for (tcp, payload) in [(true, segments * 1448), (false, 64)] {
            let (frame, offload) = frame(tcp, now, payload);
            rig.send_as("lan", &frame, offload);
        }
        rig.advance(Nanos::millis(1));
        for (mut frame, offload) in rig.received_as("wan") {
            assert!(!offload.is_super_frame() && frame.len() <= LONGEST, "{} bytes before a slow link", frame.len());
            if let Some(partial) = offload.checksum {
                assert!(packet::wire::offload::complete(&mut frame, partial));
            }
            all.push((now, frame));
        }
    }
    rig.report();
    all
}

/// Configurations with a slow element: a link or a scheme.
const SLOW: &[&str] = &[
    "shape(rate=10mbit){fifo}",
    "shape(rate=10mbit){red}",
    "shape(rate=10mbit){codel}",
    "shape(rate=10mbit){pie}",
    "shape(rate=10mbit){blue}",
    "shape(rate=10mbit){choke}",
    "shape(rate=10mbit){threshold(mark=20)}",
    "shape(rate=10mbit){fq{codel}}",
    "shape(rate=10mbit){drr{red}}",
    "shape(rate=10mbit){sfq}",
    "shape(rate=10mbit){las}",
    "shape(rate=10mbit){wfq}",
    "shape(rate=10mbit){wf2q}",
    "shape(rate=10mbit){priority}",
    "shape(rate=10gbit){shape(rate=10mbit){fq}}",
    "tree{branch(ceiling=10mbit){fifo}}",
    "tree{branch(class=3){fifo}, branch{shape(rate=10mbit){fq}}}",
    "cake(rate=10mbit)",
    "cake(rate=10mbit, tins=one){red}",
    "shape(rate=500mbit){fifo}",
];

#[test]
fn slow_link_sends_the_same_frames_with_and_without_segmentation_offload() {
    for scheme in SLOW {
        for segments in [2, 20, 45] {
            let config = config(scheme);
            let mut plain = Rig::running(1 << 14, Layout::Three, &config);
            let mut able = Rig::offloading(1 << 14, Layout::Three, &config, &[("wan", EVERYTHING)]);
            let (expected, passed) = (received(&mut plain, segments, 60), received(&mut able, segments, 60));
            assert!(expected.len() > 20, "{scheme}: {} frames", expected.len());
            let place =
                expected.iter().zip(&passed).position(|(one, other)| one.1 != other.1 || one.0.abs_diff(other.0) > 1);
            assert_eq!((place, passed.len()), (None, expected.len()), "{scheme}, super-frames of {segments} segments");
        }
    }
}

#[test]
fn super_frames_stay_whole_on_fast_links() {
    for scheme in ["fifo", "fq{codel}", "shape(rate=1gbit){fq}", "cake(rate=1gbit)", "tree{branch{fifo}}"] {
        let mut rig = Rig::offloading(1 << 14, Layout::Three, &config(scheme), &[("wan", EVERYTHING)]);
        let (frame, offload) = frame(true, 1, 45 * 1448);
        rig.send_as("lan", &frame, offload);
        rig.advance(Nanos::millis(1));
        let whole = rig.received_as("wan");
        assert!(whole.len() == 1 && whole[0].1.is_super_frame(), "{scheme}: {} frames", whole.len());
    }
}

#[test]
fn queued_super_frames_are_split_when_a_slow_scheme_replaces_a_fast_one() {
    for change in ["migrate", "drain"] {
        let with = |scheme: &str| {
            config(scheme).replace("[[neighbour]]", &format!("scheme_change = \"{change}\"\n[[neighbour]]"))
        };
        for slow in ["shape(rate=10mbit){fifo(limit=60000)}", "shape(rate=10mbit){fq(limit=60000){fifo(limit=60000)}}"]
        {
            let fast = with("shape(rate=1gbit, burst=0b){fifo(limit=60000)}");
            let mut rig = Rig::offloading(1 << 14, Layout::Three, &fast, &[("wan", EVERYTHING)]);
            for number in 0..6 {
                let (frame, offload) = frame(true, number, 40 * 1448);
                rig.send_as("lan", &frame, offload);
            }
            rig.settle();
            let left = rig.received_as("wan").len();
            rig.apply(&with(slow)).unwrap();
            rig.advance(Nanos::secs(2));
            let mut rest = rig.received_as("wan");
            // Skip the router's announcements.
            rest.retain(|(frame, _)| frame[12..14] == [8, 0]);
            let long = rest.iter().filter(|(frame, offload)| offload.is_super_frame() || frame.len() > LONGEST).count();
            assert_eq!((long, rest.len()), (0, (6 - left) * 40), "{change} to {slow}: {left} had left");
            assert_eq!(rig.report().ledger.dropped(), 0);
        }
    }
}

#[test]
fn split_stream_keeps_every_byte() {
    let mut rig = Rig::offloading(1 << 14, Layout::Three, &config("shape(rate=100mbit){fifo}"), &[("wan", EVERYTHING)]);
    let frames = received(&mut rig, 7, 9);
    let bytes: usize =
        frames.iter().map(|(_, frame)| Ethernet::parse(frame).map_or(0, |link| frame.len() - link.payload)).sum();
    let sent = 9 * (7 * 1448 + 7 * 40 + 64 + 28);
    assert_eq!(bytes, sent, "nothing is lost at a rate that carries it");
}
