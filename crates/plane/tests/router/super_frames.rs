//! Super-frames and partial checksums through a whole router: the bytes of a stream, the order of a flow, the MTU of the
//! next link, and the bytes that schemes count. Also with ports that lack offloads, and with an empty pool.

use packet::pool::{PartialChecksum, Segmentation};
use packet::port::Offloads;
use packet::wire::transport::verify_checksum;
use packet::wire::{Ethernet, Icmp4, Icmp6, Ipv4, Ipv6, checksum::Sum};
use packet::{DropReason, Offload};
use plane::WorkerReport;
use plane::rig::Rig;
use plane::snapshot::Layout;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const EVERYTHING: Offloads = Offloads { super_frames: true, checksums: true, gather: false };
const LAYOUTS: [Layout; 3] = [Layout::One, Layout::Two, Layout::Three];

/// Two ports. Packets to one of the networks leave tagged.
fn config(more: &str) -> String {
    format!(
        r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24", "2001:db8:1::1/64"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24", "2001:db8:2::1/64"]
scheme = "fifo(limit=60000, bytes=1gb)"
{more}
[port.wan.vlan.20]
address = ["203.0.113.1/24"]
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:99"
port = "wan"
[[neighbour]]
address = "2001:db8:2::9"
mac = "02:00:00:00:00:99"
port = "wan"
[[neighbour]]
address = "203.0.113.9"
mac = "02:00:00:00:00:98"
port = "wan.20"
[[neighbour]]
address = "192.0.2.7"
mac = "02:00:00:00:00:97"
port = "lan"
[[neighbour]]
address = "2001:db8:1::7"
mac = "02:00:00:00:00:97"
port = "lan"
[[route]]
to = "10.0.0.0/8"
via = "198.51.100.9"
[[route]]
to = "10.20.0.0/16"
via = "203.0.113.9"
[[route]]
to = "2001:db8:9::/48"
via = "2001:db8:2::9"
[[path]]
name = "narrow"
match = "tcp dport 5001"
queue = 3
"#
    )
}

/// One direction of a flow of super-frames.
#[derive(Clone, Copy, Debug)]
struct Flow {
    to: std::net::IpAddr,
    tcp: bool,
    port: u16,
    dont_fragment: bool,
    size: u16,
}

impl Flow {
    fn tcp(to: &str) -> Flow {
        Flow { to: to.parse().unwrap(), tcp: true, port: 80, dont_fragment: true, size: 1400 }
    }

    fn udp(to: &str) -> Flow {
        Flow { tcp: false, ..Flow::tcp(to) }
    }

    fn headers(&self) -> usize {
        14 + if self.to.is_ipv4() { 20 } else { 40 } + if self.tcp { 20 } else { 8 }
    }

    /// The frame of `payload`, whose first byte has the sequence number `at`, and its offload.
    fn frame(&self, at: u32, payload: &[u8]) -> (Vec<u8>, Offload) {
        let mut message = [&1000u16.to_be_bytes()[..], &self.port.to_be_bytes()].concat();
        if self.tcp {
            message.extend(at.to_be_bytes());
            message.extend([0, 0, 0, 9, 0x50, 0x18, 2, 0, 0, 0, 0, 0]);
        } else {
            message.extend(((payload.len() + 8) as u16).to_be_bytes());
            message.extend([0, 0]);
        }
        message.extend_from_slice(payload);
        let (protocol, offset) = if self.tcp { (6, 16) } else { (17, 6) };
        let length = message.len();
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0x97];
        let (segmentation, sum) = match self.to {
            std::net::IpAddr::V4(to) => {
                let from = Ipv4Addr::new(192, 0, 2, 7);
                let spec = packet::wire::Ipv4Spec {
                    type_of_service: 1,
                    identification: 77,
                    dont_fragment: self.dont_fragment,
                    ttl: 9,
                    protocol,
                    source: from,
                    destination: to,
                };
                frame.extend([8, 0]);
                frame.resize(34, 0);
                spec.write(&mut frame[14..], length).unwrap();
                (Segmentation::Tcp4, Sum::new().pseudo4(from, to, protocol, length as u16))
            }
            std::net::IpAddr::V6(to) => {
                let from: Ipv6Addr = "2001:db8:1::7".parse().unwrap();
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend((length as u16).to_be_bytes());
                frame.extend([protocol, 9]);
                frame.extend(from.octets());
                frame.extend(to.octets());
                (Segmentation::Tcp6, Sum::new().pseudo6(from, to, protocol, length as u32))
            }
        };
        let start = frame.len() as u16;
        message[offset..offset + 2].copy_from_slice(&sum.folded().to_be_bytes());
        frame.extend(message);
        let checksum = Some(PartialChecksum { start, offset: offset as u16 });
        let segmentation = if self.tcp { segmentation } else { Segmentation::Udp };
        let whole = payload.len() <= usize::from(self.size);
        let offload = if whole {
            Offload { checksum, ..Offload::NONE }
        } else {
            Offload { segmentation, size: self.size, checksum }
        };
        (frame, offload)
    }

    fn send(&self, rig: &mut Rig, at: u32, payload: &[u8]) {
        let (frame, offload) = self.frame(at, payload);
        rig.send_as("lan", &frame, offload);
    }
}

/// Bytes that depend on their position in the stream.
fn stream(from: usize, length: usize) -> Vec<u8> {
    (from..from + length).map(|i| (i ^ i >> 8 ^ i >> 16) as u8).collect()
}

/// Verifies the checksums of a frame. Returns the IP packet, the position of its payload in the stream, and the
/// payload.
fn content(frame: &[u8]) -> (&[u8], u32, &[u8]) {
    let link = Ethernet::parse(frame).unwrap();
    let l3 = &frame[link.payload..];
    assert_eq!(verify_checksum(l3), Ok(Some(true)), "{}", packet::wire::summary(frame));
    let (protocol, upper) = if l3[0] >> 4 == 4 {
        let ip = Ipv4::parse(l3).unwrap();
        assert_eq!(ip.header.ttl(), 8, "one hop on");
        (ip.header.protocol(), ip.payload)
    } else {
        let ip = Ipv6::parse(l3).unwrap();
        assert_eq!(l3[7], 8, "one hop on");
        ip.upper().unwrap().unwrap()
    };
    if protocol == 6 {
        (l3, u32::from_be_bytes(upper[4..8].try_into().unwrap()), &upper[20..])
    } else {
        (l3, 0, &upper[8..])
    }
}

fn destination(which: usize) -> &'static str {
    ["10.0.0.1", "10.20.0.1", "2001:db8:9::1"][which]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn segmented_stream_keeps_every_byte(
        layout in 0usize..3,
        which in 0usize..3,
        narrow: bool,
        size in 200u16..1440,
        pieces in proptest::collection::vec((1usize..20_000, 0usize..30), 1..12),
        sequence: u32,
    ) {
        let mut rig = Rig::running(4096, LAYOUTS[layout], &config(""));
        let port = if narrow { 5001 } else { 80 };
        let flow = Flow { port, size, ..Flow::tcp(destination(which)) };
        let announced = rig.report();
        let mut sent = 0;
        let mut arrived = Vec::new();
        for (index, (length, steps)) in pieces.into_iter().enumerate() {
            // Send pauses, because the queue holds only three packets.
            if narrow && index % 3 == 0 {
                rig.settle();
            }
            flow.send(&mut rig, sequence.wrapping_add(sent as u32), &stream(sent, length));
            sent += length;
            for _ in 0..steps {
                rig.step(&mut cpu::meter::ConstantMeter(units::Nanos::new(10)));
            }
            rig.worker.audit();
            arrived.extend(rig.received("wan"));
        }
        // The worker may have polled the port just before the last piece arrived, so settle once more.
        rig.settle();
        rig.settle();
        arrived.extend(rig.received("wan"));
        let mut at = 0;
        for frame in &arrived {
            let link = Ethernet::parse(frame).unwrap();
            prop_assert_eq!(link.vlan.map(|tag| tag.id), (which == 1).then_some(20));
            let (_, number, bytes) = content(frame);
            prop_assert_eq!(number, sequence.wrapping_add(at as u32), "in order");
            prop_assert!(bytes.len() <= usize::from(size));
            prop_assert_eq!(bytes, &stream(at, bytes.len())[..]);
            at += bytes.len();
        }
        prop_assert_eq!(at, sent, "every byte");
        let report = rig.report();
        prop_assert_eq!((report.held_packets, report.ledger.dropped()), (0, 0));
        prop_assert_eq!(report.ledger.sent() - announced.ledger.sent(), arrived.len() as u64);
        let bytes = |report: &WorkerReport| report.ports.iter().map(|port| port.link.sent_bytes).sum::<u64>();
        prop_assert_eq!(bytes(&report) - bytes(&announced), arrived.iter().map(|frame| frame.len() as u64).sum::<u64>());
    }

    #[test]
    fn port_and_router_segmentation_agree(
        which in 0usize..3,
        tcp: bool,
        size in 100u16..1440,
        length in 1usize..60_000,
    ) {
        let flow = Flow { tcp, size, ..Flow::tcp(destination(which)) };
        let config = config("");
        let mut cut = Rig::running(4096, Layout::Three, &config);
        let mut whole = Rig::offloading(4096, Layout::Three, &config, &[("wan", EVERYTHING)]);
        for rig in [&mut cut, &mut whole] {
            flow.send(rig, 5, &stream(0, length));
            rig.settle();
        }
        let expected = cut.received("wan");
        let passed = whole.received_as("wan");
        prop_assert_eq!(passed.len(), 1);
        let (frame, offload) = &passed[0];
        let l3 = Ethernet::parse(frame).unwrap().payload;
        let mut segments = Vec::new();
        if offload.is_super_frame() {
            let mut segmenter = packet::wire::Segmenter::new(frame, l3, *offload).unwrap();
            while segmenter.next_length() > 0 {
                let mut segment = vec![0; segmenter.next_length()];
                segmenter.write(frame, &mut segment).unwrap();
                segments.push(segment);
            }
        } else {
            let mut frame = frame.clone();
            prop_assert!(packet::wire::offload::complete(&mut frame, offload.checksum.unwrap()));
            segments.push(frame);
        }
        prop_assert_eq!(&segments, &expected);
        // The scheme counts the same bytes, no matter where the super-frame is segmented.
        let bytes = |rig: &Rig| rig.report().ports.iter().map(|port| port.link.sent_bytes).max();
        prop_assert_eq!(bytes(&cut), bytes(&whole));
        let received = |rig: &Rig| rig.report().ports.iter().map(|port| port.counters.received_bytes).max();
        prop_assert_eq!(received(&cut), received(&whole));
        prop_assert_eq!(received(&cut).unwrap(), (length + length.div_ceil(size.into()) * flow.headers()) as u64);
    }
}

fn rig(more: &str) -> Rig {
    Rig::running(4096, Layout::Three, &config(more))
}

/// The payload of the ICMP message in the only frame that a host at `lan` received.
fn complaint(rig: &mut Rig) -> Vec<u8> {
    let frames = rig.received("lan");
    assert_eq!(frames.len(), 1);
    frames[0][14..].to_vec()
}

#[test]
fn a_segment_above_the_mtu_with_df_causes_an_icmp_error() {
    let mut rig = rig("mtu = 1300");
    Flow::tcp("10.0.0.1").send(&mut rig, 0, &stream(0, 10_000));
    rig.settle();
    let packet = complaint(&mut rig);
    let message = Icmp4::parse(Ipv4::parse(&packet).unwrap().payload).unwrap();
    assert!(matches!(message, Icmp4::Unreachable { code: 4, mtu: 1300, .. }), "{message:?}");
    Flow::tcp("2001:db8:9::1").send(&mut rig, 0, &stream(0, 10_000));
    rig.settle();
    let packet = complaint(&mut rig);
    let ip = Ipv6::parse(&packet).unwrap();
    let message = Icmp6::parse(ip.header, ip.upper().unwrap().unwrap().1).unwrap();
    assert!(matches!(message, Icmp6::PacketTooBig { mtu: 1300, .. }), "{message:?}");
    // Segments that fit the MTU pass, no matter how long the super-frame is.
    Flow { size: 1260, ..Flow::tcp("10.0.0.1") }.send(&mut rig, 0, &stream(0, 60_000));
    rig.settle();
    assert_eq!(rig.received("wan").len(), 60_000usize.div_ceil(1260));
    let report = rig.report();
    assert_eq!((report.ledger.dropped_for(DropReason::TooBig), report.ledger.dropped()), (2, 2));
}

#[test]
fn segments_without_df_are_shortened_to_the_mtu() {
    for takes in [Offloads::default(), EVERYTHING] {
        let mut rig = Rig::offloading(4096, Layout::Three, &config("mtu = 1300"), &[("wan", takes)]);
        let flow = Flow { dont_fragment: false, ..Flow::tcp("10.0.0.1") };
        flow.send(&mut rig, 0, &stream(0, 10_000));
        rig.settle();
        let frames = rig.received_as("wan");
        if takes.super_frames {
            assert_eq!((frames.len(), frames[0].1.size), (1, 1260));
            continue;
        }
        let mut at = 0;
        for (frame, _) in &frames {
            let (packet, number, bytes) = content(frame);
            assert!(packet.len() <= 1300 && !Ipv4::parse(packet).unwrap().header.is_fragment());
            assert_eq!((number as usize, bytes), (at, &stream(at, bytes.len())[..]));
            at += bytes.len();
        }
        assert_eq!((at, frames.len()), (10_000, 8));
    }
}

#[test]
fn datagrams_above_the_mtu_are_fragmented_individually() {
    let mut rig = rig("mtu = 1300");
    let flow = Flow { dont_fragment: false, ..Flow::udp("10.0.0.1") };
    flow.send(&mut rig, 0, &stream(0, 4000));
    rig.settle();
    let frames = rig.received("wan");
    let seen: Vec<(u16, usize, bool)> = frames
        .iter()
        .map(|frame| {
            let header = *Ipv4::parse(&frame[14..]).unwrap().header;
            (header.identification(), header.fragment_offset(), header.more_fragments())
        })
        .collect();
    // 1400, 1400 and 1200 bytes of payload: the last fits as it is.
    assert_eq!(seen, [(77, 0, true), (77, 1280, false), (78, 0, true), (78, 1280, false), (79, 0, false)]);
    let report = rig.report();
    assert_eq!((report.held_packets, report.ledger.dropped()), (0, 0));
}

#[test]
fn partial_checksums_are_completed_without_port_offload() {
    for (takes, kept) in [
        (Offloads::default(), false),
        (Offloads { super_frames: true, checksums: false, gather: false }, false),
        (EVERYTHING, true),
    ] {
        let mut rig = Rig::offloading(4096, Layout::Three, &config(""), &[("wan", takes)]);
        for which in 0..3 {
            for flow in [Flow::tcp(destination(which)), Flow::udp(destination(which))] {
                flow.send(&mut rig, 3, b"short");
                rig.settle();
                let frames = rig.received_as("wan");
                assert_eq!(frames.len(), 1);
                let (frame, offload) = &frames[0];
                assert_eq!(*offload != Offload::NONE, kept);
                let mut frame = frame.clone();
                if let Some(partial) = offload.checksum {
                    assert!(packet::wire::offload::complete(&mut frame, partial));
                }
                assert_eq!(content(&frame).2, b"short");
            }
        }
    }
}

#[test]
fn partial_checksums_of_packets_to_the_router_are_completed_first() {
    let mut rig = rig("");
    Flow::udp("192.0.2.1").send(&mut rig, 0, b"anybody there?");
    rig.settle();
    let packet = complaint(&mut rig);
    let message = Icmp4::parse(Ipv4::parse(&packet).unwrap().payload).unwrap();
    assert!(matches!(message, Icmp4::Unreachable { code: 3, .. }), "{message:?}");
    // The local protocols see a super-frame as one packet.
    Flow::tcp("192.0.2.1").send(&mut rig, 0, &stream(0, 20_000));
    rig.settle();
    let frames = rig.received("lan");
    assert_eq!(frames.len(), 1, "a reset");
    assert_eq!(frames[0][14 + 20 + 13] & 4, 4);
    assert_eq!(rig.report().held_packets, 0);
}

#[test]
fn super_frame_remainder_is_dropped_without_free_frames() {
    let mut rig = Rig::running(40, Layout::Three, &config(""));
    let flow = Flow::tcp("10.0.0.1");
    flow.send(&mut rig, 0, &stream(0, 60_000));
    rig.settle();
    let report = rig.report();
    assert_eq!(report.ledger.dropped_for(DropReason::PoolEmpty), 1);
    let mut at = 0;
    for frame in rig.received("wan") {
        let (_, number, bytes) = content(&frame);
        assert_eq!((number as usize, bytes), (at, &stream(at, bytes.len())[..]));
        at += bytes.len();
    }
    assert!(0 < at && at < 60_000);
    assert_eq!((report.held_packets, report.ledger.generated()), (0, report.ledger.sent()));
}

#[test]
fn super_frames_that_contradict_their_offload_are_dropped() {
    let mut rig = rig("");
    let announced = rig.report().ledger.sent();
    let flow = Flow::tcp("10.0.0.1");
    let (frame, offload) = flow.frame(0, &stream(0, 5000));
    for wrong in [
        Offload { segmentation: Segmentation::Tcp6, ..offload },
        Offload { segmentation: Segmentation::Udp, ..offload },
        Offload { checksum: Some(PartialChecksum { start: 14, offset: 10 }), ..offload },
    ] {
        rig.send_as("lan", &frame, wrong);
    }
    rig.settle();
    let report = rig.report();
    assert_eq!((report.ledger.dropped_for(DropReason::BadOffload), report.ledger.sent()), (3, announced));
}

#[test]
fn jumbo_packets_pass_with_a_jumbo_mtu() {
    let mut rig = rig("mtu = 9000");
    let flow = Flow { size: 8000, ..Flow::udp("10.0.0.1") };
    flow.send(&mut rig, 0, &stream(0, 8000));
    Flow { size: 4000, ..flow }.send(&mut rig, 0, &stream(0, 8000));
    rig.settle();
    let lengths: Vec<usize> = rig.received("wan").iter().map(|frame| content(frame).2.len()).collect();
    assert_eq!(lengths, [8000, 4000, 4000]);
}
