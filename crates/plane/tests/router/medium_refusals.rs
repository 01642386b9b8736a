//! Media with an MTU below the configured one that refuse longer packets: a port counts exactly the packets that left as sent.

use packet::event::{Event, Observer};
use packet::port::{MemoryPort, Port, UnsentPackets, WakeSource, refuse};
use packet::{Batch, DropReason, Packet, Pool};
use plane::PortReport;
use plane::rig::{LAN_AND_WAN, Rig, UdpFrame};
use plane::snapshot::Layout;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use units::{Instant, Mac, Nanos, PortId, Rate};

/// How a medium refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    /// The medium returns the packet.
    AtOnce,
    /// The medium accepts the packet, and reports later that it was dropped.
    Late,
    /// All packets stay in the port for a while.
    Waiting,
}

const MANNERS: [Manner; 3] = [Manner::AtOnce, Manner::Late, Manner::Waiting];

/// The MTU of a medium, and how it refuses longer packets.
#[derive(Default)]
struct Terms {
    mtu: AtomicU16,
    manner: AtomicU8,
    /// The medium's real MTU, below the one it reports.
    lies: AtomicU16,
}

impl Terms {
    fn set(&self, mtu: u16, manner: Manner) {
        self.mtu.store(mtu, Ordering::Relaxed);
        self.manner.store(manner as u8, Ordering::Relaxed);
    }

    fn carries(&self, packet: &Packet) -> bool {
        let most = self.mtu.load(Ordering::Relaxed).saturating_sub(self.lies.load(Ordering::Relaxed));
        packet.len() <= usize::from(most) + 14
    }
}

/// A wire with these terms.
struct Narrow {
    wire: MemoryPort,
    terms: Arc<Terms>,
    waiting: Vec<Packet>,
    late: UnsentPackets,
}

impl Narrow {
    fn send(&mut self, now: Instant, packets: Vec<Packet>, pool: &mut Pool) {
        let mut batch = Batch::new();
        packets.into_iter().for_each(|packet| batch.push(packet));
        self.wire.transmit(now, &mut batch, pool);
    }

    fn lose(&mut self, packet: Packet, pool: &mut Pool) {
        self.late.add(packet.len());
        pool.give(packet);
    }
}

impl Port for Narrow {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        self.wire.receive(now, batch, pool);
        pool.import(self.waiting.len());
        let waiting = std::mem::take(&mut self.waiting);
        let (sent, lost): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|packet| self.terms.carries(packet));
        self.send(now, sent, pool);
        lost.into_iter().for_each(|packet| self.lose(packet, pool));
    }
    fn room(&self) -> usize {
        if self.waiting.is_empty() { self.wire.room() } else { 0 }
    }
    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        let manner = MANNERS[usize::from(self.terms.manner.load(Ordering::Relaxed))];
        let (mut sent, mut refused) = (Vec::new(), Vec::new());
        for packet in batch.drain() {
            match manner {
                Manner::Waiting => {
                    pool.export(1);
                    self.waiting.push(packet);
                }
                _ if self.terms.carries(&packet) => sent.push(packet),
                Manner::AtOnce => refused.push(packet),
                Manner::Late => self.lose(packet, pool),
            }
        }
        self.send(now, sent, pool);
        refused.into_iter().for_each(|packet| refuse(packet, DropReason::DeviceRefused, batch));
    }
    fn take_late_refusals(&mut self) -> UnsentPackets {
        std::mem::take(&mut self.late)
    }
    fn unsent_packets(&self) -> UnsentPackets {
        let mut waiting = self.late;
        self.waiting.iter().for_each(|packet| waiting.add(packet.len()));
        waiting
    }
    fn mtu(&self) -> Option<u16> {
        Some(self.terms.mtu.load(Ordering::Relaxed))
    }
    fn link_rate(&self) -> Rate {
        Rate::MAX
    }
    fn wake_source(&self) -> WakeSource {
        WakeSource::Poll
    }
    fn mac(&self) -> Option<Mac> {
        None
    }
    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }
}

/// Keeps the events about MTUs: the medium's and the configuration's.
#[derive(Clone, Default)]
struct Mtus(Arc<Mutex<Vec<(u16, u16)>>>);

impl Observer for Mtus {
    fn event(&mut self, _: Instant, event: &Event<'_>) {
        if let Event::PortMtu { mtu, configured, port } = *event
            && port == WAN
        {
            self.0.lock().unwrap().push((mtu, configured));
        }
    }
}

/// Port `wan`, the second by name.
const WAN: PortId = PortId(1);

/// The sender is a configured neighbour too, so errors reach it at once.
fn config() -> String {
    format!("{LAN_AND_WAN}[[neighbour]]\naddress = '192.0.2.7'\nmac = '02:00:00:00:00:09'\nport = 'lan'\n")
}

/// A router whose ports all have such media.
fn router(mtu: u16) -> (Rig, Arc<Terms>, Mtus) {
    let (terms, mtus) = (Arc::new(Terms::default()), Mtus::default());
    terms.set(mtu, Manner::AtOnce);
    let mut rig = Rig::new(4096, Layout::Three, Box::new(mtus.clone()));
    let shared = terms.clone();
    rig.wires.wrap = Some(Box::new(move |wire| {
        Box::new(Narrow { wire, terms: shared.clone(), waiting: Vec::new(), late: UnsentPackets::default() })
    }));
    rig.apply(&config()).unwrap();
    rig.advance(Nanos::secs(3));
    ["lan", "wan"].iter().for_each(|wire| drop(rig.received(wire)));
    (rig, terms, mtus)
}

/// A packet from the host on `lan` to that on `wan` in a frame of `length` bytes.
fn frame(length: usize, may_be_cut: bool) -> Vec<u8> {
    let mut frame = UdpFrame { length, ..UdpFrame::between_ports(7, 9) }.frame(&[]);
    if may_be_cut {
        frame[20] &= !0x40;
        let sum = u32::from(u16::from_be_bytes([frame[24], frame[25]])) + 0x4000;
        frame[24..26].copy_from_slice(&((sum & 0xffff) as u16 + (sum >> 16) as u16).to_be_bytes());
    }
    frame
}

fn of_wan(rig: &Rig) -> PortReport {
    PortReport::sum_workers(&[rig.report()]).into_iter().find(|port| port.port == WAN).unwrap()
}

/// The law: at every moment sent = packets that have left, and offered = sent + dropped + waiting.
#[test]
fn packets_refused_by_the_medium_are_not_counted_as_sent() {
    for (manner, lies) in MANNERS.into_iter().flat_map(|manner| [(manner, 0), (manner, 100)]) {
        let (mut rig, terms, _) = router(1500);
        terms.lies.store(lies, Ordering::Relaxed);
        let mut seed = 7u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut left = of_wan(&rig).link.sent;
        for round in 0..400 {
            terms.set([1500, 1400, 576, 68, 1280, 1000][draw(6) as usize], manner);
            if draw(3) == 0 {
                // Give the router time to notice the new MTU.
                rig.advance(Nanos::millis(200));
            }
            for _ in 0..8 {
                let frame = frame(60 + draw(1455) as usize, draw(2) == 0);
                rig.send("lan", &frame);
            }
            if draw(2) == 0 {
                rig.settle();
            } else {
                rig.advance(Nanos::micros(50));
            }
            left += rig.received("wan").len() as u64;
            let port = of_wan(&rig);
            assert_eq!(port.link.sent, left, "{manner:?}, {lies}, round {round}");
            assert_eq!(port.link.offered, left + port.link.dropped + u64::from(port.backlog), "{manner:?}, {lies}");
            let report = rig.report();
            report.ledger.check(report.held_packets).unwrap();
        }
        rig.advance(Nanos::secs(1));
        left += rig.received("wan").len() as u64;
        let port = of_wan(&rig);
        assert_eq!((port.link.sent, port.backlog), (left, 0));
        let refused = port.drops.iter().find(|(reason, _)| *reason == DropReason::DeviceRefused);
        assert!(refused.is_some_and(|(_, packets)| *packets > 10), "{manner:?}, {lies}: {:?}", port.drops);
    }
}

#[test]
fn effective_mtu_is_the_smaller_of_port_and_medium() {
    let (mut rig, terms, mtus) = router(1000);
    let across = |rig: &mut Rig, may_be_cut| {
        rig.send("lan", &frame(1414, may_be_cut));
        rig.settle();
        let lengths = |frames: Vec<Vec<u8>>| frames.iter().map(Vec::len).collect::<Vec<_>>();
        (lengths(rig.received("wan")), rig.received("lan"))
    };
    let (cut, none) = across(&mut rig, true);
    assert_eq!((cut, none.len()), (vec![14 + 996, 14 + 20 + 404], 0), "1400 = 20 + 976 + 404");
    let (whole, errors) = across(&mut rig, false);
    assert_eq!((whole.len(), errors.len()), (0, 1));
    // ICMP: fragmentation needed, and the MTU (RFC 1191).
    assert_eq!((&errors[0][34..36], &errors[0][40..42]), (&[3, 4][..], &1000u16.to_be_bytes()[..]));
    assert_eq!(rig.report().ledger.dropped_for(DropReason::TooBig), 1);
    terms.set(1500, Manner::AtOnce);
    rig.advance(Nanos::millis(200));
    assert_eq!(across(&mut rig, false), (vec![1414], vec![]));
    terms.set(9000, Manner::AtOnce);
    rig.advance(Nanos::millis(200));
    assert_eq!(*mtus.0.lock().unwrap(), [(1000, 1500), (1500, 1500)], "more than is asked for is no news");
    assert_eq!(of_wan(&rig).mtu, Some(9000));
    // A configured MTU below that of the medium is fine.
    rig.apply(&config().replace("[port.wan]", "[port.wan]\nmtu = 900")).unwrap();
    let (cut, _) = across(&mut rig, true);
    assert_eq!(cut.len(), 2);
    assert_eq!(mtus.0.lock().unwrap().len(), 2);
}

#[test]
fn ports_of_each_kind_refuse_an_mtu_that_they_cannot_carry() {
    // The largest MTU of each kind of port; `None` if only the router's frame size bounds it.
    for (device, most) in [
        ("xdp:eth0", Some(2030)),
        ("memif:listen:/run/a", Some(2030)),
        ("tap:a", Some(65_521)),
        ("packet:eth0", None),
        ("pcap:a.pcapng", None),
        ("memory:a", None),
    ] {
        let errors = |mtu: u32| {
            let text = format!("version = 1\n[port.a]\ndevice = \"{device}\"\nmtu = {mtu}\n");
            plan::check(&text, "f", &plane::catalogue()).err().map(|wrong| wrong.to_string())
        };
        assert_eq!(errors(most.unwrap_or(65_535)), None, "{device}");
        let Some(most) = most else { continue };
        let said = errors(most + 1).unwrap_or_default();
        let expected = format!("ports carry packets of at most {most} bytes, not {}", most + 1);
        assert!(
            said.contains("f:4:7") && said.contains(&expected) && said.contains(&format!("mtu = {most} or less")),
            "{said}"
        );
    }
}
