//! A port loses offload features: another port replaces it, or its interface returns with fewer features. Queued
//! super-frames are segmented in their queues. No packet is lost or overtaken.

use cpu::meter::ConstantMeter;
use packet::event::Silent;
use packet::pool::Segmentation;
use packet::port::{MemoryPort, Offloads, Port, PortStatistics, WakeSource};
use packet::wire::{Ipv4, Ipv4Spec, ethernet, ethertype};
use packet::{Batch, Offload, Pool};
use plane::rig::Rig;
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{Instant, Mac, Nanos, Rate};

const EVERYTHING: Offloads = Offloads { super_frames: true, checksums: true, gather: false };
/// Packets a wire of the rig holds.
const WIRE: usize = 4096;

fn config(wan: &str) -> String {
    format!(
        r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
[port.wan]
device = "memory:{wan}"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
scheme = "fifo(limit=60000)"
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

/// A datagram of `length` bytes; the first byte is `number`.
fn udp(number: u8, length: usize) -> Vec<u8> {
    let mut frame = vec![0; 42 + length];
    let to = Mac([2, 0, 0, 0, 0, 1]);
    ethernet::write_header(&mut frame[..14], to, Mac([2, 0, 0, 0, 0, 9]), None, ethertype::IPV4).unwrap();
    let spec = Ipv4Spec {
        type_of_service: 0,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: 17,
        source: Ipv4Addr::new(192, 0, 2, 7),
        destination: Ipv4Addr::new(10, 0, 0, 1),
    };
    spec.write(&mut frame[14..], 8 + length).unwrap();
    frame[42] = number;
    frame
}

const SUPER: Offload = Offload { segmentation: Segmentation::Udp, size: 1000, checksum: None };

/// Number and length of each segment. Only the first segment of a super-frame has its number.
fn seen(frames: &[Vec<u8>]) -> Vec<(u8, usize)> {
    frames.iter().map(|frame| (frame[42], Ipv4::parse(&frame[14..]).unwrap().payload.len() - 8)).collect()
}

#[test]
fn queued_super_frames_are_segmented_when_a_replacement_port_lacks_offloads() {
    let mut rig = Rig::offloading(3 * WIRE, Layout::Three, &config("wan"), &[("wan", EVERYTHING)]);
    for sent in 0..WIRE {
        rig.send("lan", &udp(0, 20));
        if sent % 100 == 0 {
            rig.settle();
        }
    }
    for number in 1..4 {
        rig.send_as("lan", &udp(number, 2500), SUPER);
    }
    rig.settle();
    let backlog = |rig: &Rig| rig.report().ports.iter().map(|p| (p.backlog, p.backlog_bytes.get())).max();
    // Bytes on the wire: 2500 of payload, and 42 of headers for each of three segments.
    assert_eq!(backlog(&rig), Some((3, 3 * (2500 + 3 * 42))));
    rig.apply(&config("other")).unwrap();
    rig.worker.audit();
    rig.settle();
    let frames: Vec<_> = rig.received("other").into_iter().filter(|frame| frame[12..14] == [8, 0]).collect();
    let expected: Vec<_> = (1..4).flat_map(|number| [(number, 1000), (0, 1000), (0, 500)]).collect();
    assert_eq!(seen(&frames), expected);
    let report = rig.report();
    assert_eq!((report.held_packets, report.ledger.dropped()), (0, 0));
    assert_eq!(backlog(&rig), Some((0, 0)));
}

/// One end of a wire that accepts all offloads until the flag changes.
struct Fading(MemoryPort, Arc<AtomicBool>);

impl Port for Fading {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        self.0.receive(now, batch, pool);
    }
    fn sets_timestamps(&self) -> bool {
        self.0.sets_timestamps()
    }
    fn room(&self) -> usize {
        self.0.room()
    }
    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        if !self.offloads().super_frames {
            assert!(batch.as_slice().iter().all(|packet| !packet.is_offloaded()));
        }
        self.0.transmit(now, batch, pool);
    }
    fn link_rate(&self) -> Rate {
        self.0.link_rate()
    }
    fn offloads(&self) -> Offloads {
        if self.1.load(Ordering::Relaxed) { Offloads::default() } else { EVERYTHING }
    }
    fn wake_source(&self) -> WakeSource {
        self.0.wake_source()
    }
    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }
    fn statistics(&self) -> PortStatistics {
        self.0.statistics()
    }
}

#[test]
fn queued_super_frames_are_segmented_when_their_port_loses_offloads() {
    let (mut rig, faded) = (Rig::new(4096, Layout::Three, Box::new(Silent)), Arc::new(AtomicBool::new(false)));
    let fades = faded.clone();
    rig.wires.wrap = Some(Box::new(move |near| Box::new(Fading(near, fades.clone()))));
    // Short wires, so that many packets are queued before them.
    rig.wires.length = 4;
    rig.apply(&config("wan")).unwrap_or_else(|errors| panic!("{errors:?}"));
    rig.settle();
    let (mut frames, mut next) = (Vec::new(), 1);
    let take = |rig: &mut Rig, frames: &mut Vec<_>| {
        let came = rig.received_as("wan").into_iter();
        frames.extend(came.filter(|(frame, _)| frame[12..14] == [8, 0]).map(|(frame, o)| (frame, o != Offload::NONE)));
    };
    take(&mut rig, &mut frames);
    for round in 0..6 {
        while rig.wires.far["lan"].room() < 4 {
            rig.step(&mut ConstantMeter(Nanos::new(10)));
        }
        for _ in 0..4 {
            rig.send_as("lan", &udp(next, 2500), SUPER);
            next += 1;
        }
        // Stop early: some packets are on the path, some at the link, some on the wire.
        for _ in 0..[3, 1, 4, 2, 5, 7][round] {
            rig.step(&mut ConstantMeter(Nanos::new(10)));
        }
        if round == 3 {
            faded.store(true, Ordering::Relaxed);
            // The router polls the state of ports every 100 ms.
            rig.now += Nanos::millis(100);
        }
        rig.worker.audit();
    }
    for _ in 0..200 {
        rig.settle();
        take(&mut rig, &mut frames);
        rig.now += Nanos::millis(1);
    }
    let wholes = frames.iter().filter(|(_, offloaded)| *offloaded).count();
    assert!(0 < wholes && wholes < 24, "{wholes} passed before");
    assert!(frames.iter().skip(wholes).all(|(_, offloaded)| !offloaded));
    let bytes: Vec<Vec<u8>> = frames.into_iter().map(|(frame, _)| frame).collect();
    let whole = (1..=wholes as u8).map(|number| (number, 2500));
    let cut = (wholes as u8 + 1..next).flat_map(|number| [(number, 1000), (0, 1000), (0, 500)]);
    assert_eq!(seen(&bytes), whole.chain(cut).collect::<Vec<_>>());
    let report = rig.report();
    assert_eq!((report.held_packets, report.ledger.dropped()), (0, 0));
}
