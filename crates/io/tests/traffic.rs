//! Tests of the traffic generator: it sends the stated number of packets, and each is counted once.

#![allow(clippy::print_stdout)]

use io::bpf::BpfHook;
use io::clock;
use io::netlink::Netlink;
use io::netns::{Lab, LabHost};
use io::packet_ring::{PacketOptions, PacketPort};
use io::traffic::{
    HeaderSource, LENGTH, PacketAddresses, PacketHeader, SinkCounts, UdpSink, UdpSource, XdpPassProgram,
};
use packet::frames::UdpFrame;
use packet::port::Port;
use packet::wire::checksum::Sum;
use packet::wire::{Ipv4, transport};
use packet::{Batch, Pool, Region};
use units::Mac;

fn index(host: &LabHost, link: &str) -> u32 {
    host.run(|| Netlink::open().unwrap().link(link).unwrap().index).unwrap()
}

/// Two ends of a cable and a source at the left, or a message that the test is skipped.
fn ends() -> Option<(LabHost, LabHost, UdpSource)> {
    let lab = Lab::new().inspect_err(|forbidden| println!("skipped: {forbidden}")).ok()?;
    let hosts = ["left", "right"].map(|name| lab.host(name).unwrap());
    hosts.iter().for_each(|host| host.silence_kernel().unwrap());
    let [left, right] = hosts;
    lab.cable(&left.plug("eth0"), &right.plug("eth0")).unwrap();
    let journey = PacketAddresses {
        link: (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])),
        network: ([198, 18, 0, 1].into(), [198, 19, 0, 1].into()),
    };
    // The first packet is lost, because the other end does not poll yet.
    let link = index(&left, "eth0");
    let source = left
        .run(|| UdpSource::new(&journey, link).and_then(|source| source.send(1).map(|()| source)))
        .unwrap()
        .inspect_err(|error| println!("skipped: no live frames: {error}"))
        .ok()?;
    Some((left, right, source))
}

#[test]
fn sent_packets_arrive_in_order_and_are_counted() {
    let Some((left, right, source)) = ends() else { return };
    let sink = right.run(|| UdpSink::attach(index(&right, "eth0"), BpfHook::XdpNative).unwrap()).unwrap();
    counts(&left, &source, &sink);
}

#[test]
fn sink_in_the_stack_counts_packets_as_well() {
    let Some((left, right, source)) = ends() else { return };
    let _passage = right.run(|| XdpPassProgram::attach(index(&right, "eth0")).unwrap()).unwrap();
    match right.run(|| UdpSink::attach(index(&right, "eth0"), BpfHook::TcxIngress)).unwrap() {
        Ok(sink) => counts(&left, &source, &sink),
        Err(error) => println!("skipped: no tcx: {error}"),
    }
}

fn counts(left: &LabHost, source: &UdpSource, sink: &UdpSink) {
    for count in [1u32, 64, 1000] {
        let before = (source.sent().unwrap(), sink.counted().unwrap().packets);
        left.run(|| source.send(count).unwrap()).unwrap();
        assert_eq!(source.sent().unwrap() - before.0, u64::from(count));
        // The other end polls on the same processor, before the call returns or a moment after.
        let deadline = clock::now() + units::Nanos::secs(5);
        while sink.counted().unwrap().packets - before.1 < u64::from(count) && clock::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(sink.counted().unwrap(), SinkCounts { packets: source.sent().unwrap() - 1, late: 0 });
    }
}

#[test]
fn reused_frames_carry_valid_numbered_packets() {
    let Some((left, right, source)) = ends() else { return };
    let _passage = right.run(|| XdpPassProgram::attach(index(&right, "eth0")).unwrap()).unwrap();
    let (mut port, _) = right.run(|| PacketPort::open("eth0", &PacketOptions::default()).unwrap()).unwrap();
    left.run(|| source.send(2000).unwrap()).unwrap();
    let (mut pool, mut batch, mut number) = (Pool::new(Region::new(512)), Batch::new(), 1u64);
    loop {
        port.receive(clock::now(), &mut batch, &mut pool);
        if batch.is_empty() {
            break;
        }
        for packet in batch.drain() {
            number += 1;
            let bytes = packet.bytes();
            assert_eq!((bytes.len(), &bytes[..6]), (LENGTH, &[2, 0, 0, 0, 0, 2][..]));
            assert_eq!(u64::from_ne_bytes(bytes[44..52].try_into().unwrap()), number);
            let ip = Ipv4::parse(&bytes[14..]).unwrap();
            assert_eq!((ip.header.ttl(), ip.header.destination()), (64, [198, 19, 0, 1].into()));
            assert!(matches!(transport::find_checksummed(&bytes[14..]), Ok(Some(_))));
            pool.give(packet);
        }
    }
    assert_eq!(number, 2001);
}

#[test]
fn header_source_sends_its_headers_in_turns_with_valid_checksums() {
    let Some((left, right, _)) = ends() else { return };
    let _passage = right.run(|| XdpPassProgram::attach(index(&right, "eth0")).unwrap()).unwrap();
    let (mut port, _) = right.run(|| PacketPort::open("eth0", &PacketOptions::default()).unwrap()).unwrap();
    let link = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
    let header = |number: u8, protocol| PacketHeader {
        network: ([192, 0, 2, number].into(), [198, 51, 100, number].into()),
        protocol,
        ports: (1000 + u16::from(number), 53),
        tcp_flags: 0x12,
    };
    // TCP, UDP, GRE and TCP; the fifth header is behind the last power of two.
    let headers = [header(1, 6), header(2, 17), header(3, 47), header(4, 6), header(5, 17)];
    let of_left = index(&left, "eth0");
    left.run(|| HeaderSource::new(link, &headers, of_left).unwrap().send(1000).unwrap()).unwrap();
    let (mut pool, mut batch, mut seen) = (Pool::new(Region::new(512)), Batch::new(), Vec::new());
    loop {
        port.receive(clock::now(), &mut batch, &mut pool);
        if batch.is_empty() {
            break;
        }
        for packet in batch.drain() {
            let ip = Ipv4::parse(&packet.bytes()[14..]).unwrap();
            let number = ip.header.source().octets()[3];
            let expected = headers[usize::from(number) - 1];
            assert_eq!((ip.header.destination(), ip.header.protocol()), (expected.network.1, expected.protocol));
            let l4 = &packet.bytes()[34..];
            if expected.protocol != 47 {
                let ports = [expected.ports.0, expected.ports.1].map(u16::to_be_bytes).concat();
                assert_eq!((&l4[..4], packet.bytes().len()), (&ports[..], LENGTH));
                let sum =
                    Sum::new().pseudo4(expected.network.0, expected.network.1, expected.protocol, l4.len() as u16);
                assert_eq!(sum.bytes(l4).folded(), 0xffff, "{number}");
            }
            if expected.protocol == 6 {
                assert_eq!(l4[13], 0x12);
            }
            seen.push(number);
            pool.give(packet);
        }
    }
    // The source counts from one.
    assert_eq!((seen.len(), &seen[..5]), (1000, &[2, 3, 4, 1, 2][..]));
}

#[test]
fn long_frames_arrive_whole_and_are_counted_by_their_port() {
    const PORTS: [u16; 2] = [20_000, 20_001];
    let Some((left, right, _)) = ends() else { return };
    let link = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
    let network = ([192, 0, 2, 1].into(), [198, 51, 100, 1].into());
    let frame = |to| UdpFrame { link, network, ports: (9, to), ttl: 64, length: 1400 }.frame(&[7; 1300]);
    let frames = PORTS.map(frame);
    let of_left = index(&left, "eth0");
    let source = left.run(|| HeaderSource::of_frames(&frames, of_left).unwrap()).unwrap();
    let passage = right.run(|| XdpPassProgram::attach(index(&right, "eth0")).unwrap()).unwrap();
    let (mut port, _) = right.run(|| PacketPort::open("eth0", &PacketOptions::default()).unwrap()).unwrap();
    left.run(|| source.send(200).unwrap()).unwrap();
    let (mut pool, mut batch, mut seen) = (Pool::new(Region::new(512)), Batch::new(), 0);
    loop {
        port.receive(clock::now(), &mut batch, &mut pool);
        if batch.is_empty() {
            break;
        }
        for packet in batch.drain() {
            seen += 1;
            assert_eq!(packet.bytes(), frames[seen % 2]);
            pool.give(packet);
        }
    }
    assert_eq!(seen, 200);
    drop(passage);
    let sink = right.run(|| UdpSink::attach_to_port(index(&right, "eth0"), BpfHook::XdpNative, PORTS[1]).unwrap());
    let sink = sink.unwrap();
    left.run(|| source.send(100).unwrap()).unwrap();
    let deadline = clock::now() + units::Nanos::secs(5);
    while sink.counted().unwrap().packets < 50 && clock::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(sink.counted().unwrap(), SinkCounts { packets: 50, late: 0 });
}

#[test]
fn frames_that_differ_elsewhere_are_refused() {
    let wrong = |frames: &[Vec<u8>]| HeaderSource::of_frames(frames, 1).unwrap_err().to_string();
    assert!(wrong(&[]).contains("at least one"));
    let mut other = vec![0; 70];
    other[60] = 1;
    for frames in [[vec![0; 70], vec![0; 71]], [vec![0; 70], other], [vec![0; 59], vec![0; 59]]] {
        assert!(wrong(&frames).contains("18 to 57"));
    }
}
