//! Three routers in a row whose wires multiplex quanta, in virtual time. The host before the first sends packets of many flows, of which the host behind
//! the last receives all, or all but those with bytes in a lost frame.

use packet::event::{Event, Observer};
use packet::port::{DfqFallback, DfqWireState};
use packet::wire::{Ipv4Spec, ethernet, ethertype, protocol};
use packet::{DfqWireCounters, DropReason};
use plane::WorkerReport;
use plane::rig::Rig;
use plane::snapshot::Layout;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use units::{Instant, Mac, Nanos};

const FLOWS: u16 = 12;

/// Two addresses of each router: toward the first host and toward the last.
fn mac(router: usize, side: usize) -> Mac {
    Mac([2, 0, 0, 0, router as u8, side as u8])
}

const HOST: Mac = Mac([2, 0, 0, 0, 9, 9]);

/// The configuration of a router: `wires` are the sides with a wire, `faults` is added to the port toward the first host.
fn config(router: usize, wires: [bool; 2], faults: &str) -> String {
    let mut text = "version = 1\n".to_string();
    for (side, name) in ["left", "right"].into_iter().enumerate() {
        let net = router + side;
        text += &format!(
            "[port.{name}]\ndevice = 'memory:{name}'\nmac = '{}'\naddress = ['10.0.{net}.{}/24']\n",
            mac(router, side),
            2 - side
        );
        text += "scheme = 'dfq(rate=1gbit, cycle=1ms, flows=32)'\n";
        let shares: Vec<String> = (0..FLOWS).map(|flow| format!("'f{flow} rate 10mbit'")).collect();
        text += &format!("shares = [{}]\n", shares.join(", "));
        text += &format!("dfq_wire = {}\n", wires[side]);
        text += if side == 0 { faults } else { "" };
    }
    let next = if router == 3 { HOST } else { mac(router + 1, 0) };
    let via = format!("10.0.{}.{}", router + 1, if router == 3 { 9 } else { 2 });
    text += &format!("[[neighbour]]\naddress = '{via}'\nmac = '{next}'\nport = 'right'\n");
    text += &format!("[[route]]\nto = '198.51.100.0/24'\nvia = '{via}'\n");
    for flow in 0..FLOWS {
        text += &format!("[[path]]\nname = 'p{flow}'\nmatch = 'udp dport {}'\nlink_share = 'f{flow}'\n", 4000 + flow);
    }
    text
}

/// A UDP packet of a flow, or of none; its number is in its payload.
fn frame(to: Mac, number: u32, length: usize) -> Vec<u8> {
    let mut frame = vec![number as u8; length];
    ethernet::write_header(&mut frame[..14], to, HOST, None, ethertype::IPV4).unwrap();
    let spec = Ipv4Spec {
        type_of_service: 0,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: protocol::UDP,
        source: Ipv4Addr::new(10, 0, 1, 9),
        destination: Ipv4Addr::new(198, 51, 100, 7),
    };
    spec.write(&mut frame[14..], length - 34).unwrap();
    // A thirteenth flow has no share.
    let port = 4000 + (number % (u32::from(FLOWS) + 1)) as u16;
    for (at, field) in [(34, 5000), (36, port), (38, (length - 34) as u16), (40, 0)] {
        frame[at..at + 2].copy_from_slice(&field.to_be_bytes());
    }
    frame[42..46].copy_from_slice(&number.to_be_bytes());
    frame
}

/// The number of a packet that has crossed three routers; `None` for other frames. Panics if it has other bytes than it had.
fn number(received: &[u8]) -> Option<u32> {
    if received[12..14] != [8, 0] || received[30..34] != [198, 51, 100, 7] {
        return None;
    }
    let number = u32::from_be_bytes(received[42..46].try_into().unwrap());
    let sent = frame(HOST, number, received.len());
    assert_eq!((received[22], &received[34..]), (61, &sent[34..]), "{number}");
    Some(number)
}

#[derive(Clone, Default)]
struct Changes(Arc<Mutex<Vec<DfqWireState>>>);

impl Observer for Changes {
    fn event(&mut self, _now: Instant, event: &Event<'_>) {
        if let Event::DfqWire { state, .. } = event {
            self.0.lock().unwrap().push(*state);
        }
    }
}

/// Routers in a row, connected by cables that carry frames whenever time passes.
struct Row {
    routers: Vec<Rig>,
    changes: Vec<Changes>,
}

impl Row {
    fn new(configs: &[String]) -> Row {
        let changes: Vec<Changes> = configs.iter().map(|_| Changes::default()).collect();
        let start = |(config, changes): (&String, &Changes)| {
            let mut rig = Rig::new(8192, Layout::Three, Box::new(changes.clone()));
            rig.apply(config).unwrap_or_else(|errors| panic!("{errors:?}"));
            rig
        };
        let routers = configs.iter().zip(&changes).map(start).collect();
        Row { routers, changes }
    }

    /// Lets time pass in steps of a millisecond. Returns the frames at the last host.
    fn advance(&mut self, time: Nanos) -> Vec<Vec<u8>> {
        let mut received = Vec::new();
        for _ in 0..time.get() / 1_000_000 {
            for router in 0..self.routers.len() {
                self.routers[router].advance(Nanos::millis(1));
                for frame in self.routers[router].received("right") {
                    match self.routers.get_mut(router + 1) {
                        Some(next) => next.send("left", &frame),
                        None => received.push(frame),
                    }
                }
                for frame in self.routers[router].received("left") {
                    if let Some(last) = router.checked_sub(1) {
                        self.routers[last].send("right", &frame);
                    }
                }
            }
        }
        received
    }

    fn report(&self, router: usize) -> WorkerReport {
        self.routers[router].report()
    }

    /// The state and the counters of the wire at a side of a router.
    fn wire(&self, router: usize, side: usize) -> (DfqWireState, DfqWireCounters) {
        let report = self.report(router);
        let wires: Vec<_> = report.ports.iter().map(|port| port.dfq_wire).collect();
        let wire = wires[side].expect("it has a wire");
        (wire.state, wire.counters)
    }

    /// Sends packets of all flows for a while, and returns their numbers at the last host in order.
    fn send(&mut self, packets: u32, length: impl Fn(u32) -> usize) -> Vec<u32> {
        let mut received = Vec::new();
        for number in 0..packets {
            self.routers[0].send("left", &frame(mac(1, 0), number, length(number)));
            if number % 20 == 19 {
                received.extend(self.advance(Nanos::millis(1)));
            }
        }
        received.extend(self.advance(Nanos::millis(600)));
        received.iter().filter_map(|frame| number(frame)).collect()
    }
}

fn drops(report: &WorkerReport, reason: DropReason) -> u64 {
    let drops = report.ports.iter().flat_map(|port| &port.drops);
    drops.filter(|(of, _)| *of == reason).map(|(_, packets)| packets).sum()
}

fn row(faults: &str) -> Row {
    let mut row =
        Row::new(&[config(1, [false, true], ""), config(2, [true, true], faults), config(3, [true, false], faults)]);
    row.advance(Nanos::millis(500));
    for (router, side) in [(0, 1), (1, 0), (1, 1), (2, 0)] {
        assert_eq!(row.wire(router, side).0, DfqWireState::Multiplexed, "{router} {side}");
    }
    row
}

/// The order within each flow.
fn is_in_order(received: &[u32]) -> bool {
    let flows = u32::from(FLOWS) + 1;
    (0..flows).all(|flow| received.iter().filter(|number| *number % flows == flow).is_sorted())
}

#[test]
fn three_routers_in_a_row_lose_nothing() {
    let mut row = row("");
    let received = row.send(5000, |number| 60 + (number as usize * 131) % 1455);
    assert_eq!(received.len(), 5000);
    assert!(is_in_order(&received));
    for (router, side) in [(0, 1), (1, 1)] {
        let counters = row.wire(router, side).1;
        assert!(counters.packets_sent >= 5000 && counters.quanta_sent > counters.batches_sent, "{counters:?}");
    }
    let counters = row.wire(2, 0).1;
    assert!(counters.packets_received >= 5000 && counters.batches_lost == 0, "{counters:?}");
    assert_eq!((0..3).map(|router| row.report(router).ledger.dropped()).sum::<u64>(), 0);
}

/// One per cent of the frames of both wires is lost. A packet is missing only if it had bytes in such a frame: a frame has the parts of at most two
/// packets that are cut for each flow, and whole packets. With packets of one length at most `quanta + bytes / length` packets are touched.
#[test]
fn three_routers_in_a_row_lose_only_the_packets_within_lost_batches() {
    let mut row = row("faults = { loss = 0.01, seed = 5 }\n");
    const PACKETS: u32 = 20_000;
    const LENGTH: usize = 400;
    let received = row.send(PACKETS, |_| LENGTH);
    assert!(is_in_order(&received));
    assert_eq!(received.iter().collect::<BTreeSet<_>>().len(), received.len(), "none arrives twice");
    let missing = u64::from(PACKETS) - received.len() as u64;
    let (mut lost, mut incomplete, mut quanta, mut batches) = (0, 0, 0, 0);
    for router in [1, 2] {
        let report = row.report(router);
        lost += row.wire(router, 0).1.batches_lost;
        incomplete += drops(&report, DropReason::DfqBatchLost);
        let counters = row.wire(router - 1, 1).1;
        (quanta, batches) = (quanta + counters.quanta_sent, batches + counters.batches_sent);
        // All that is dropped is a lost frame or an incomplete packet.
        let faults = drops(&report, DropReason::InjectedFault);
        assert_eq!(report.ledger.dropped(), faults + drops(&report, DropReason::DfqBatchLost));
        assert!(faults >= row.wire(router, 0).1.batches_lost);
    }
    assert!((batches / 200..batches / 50).contains(&lost), "{lost} of {batches} batches");
    // Of each packet that is missing, a part or all was in a lost batch.
    let most_of_batch = 1500 / LENGTH as u64 + 2 * quanta.div_ceil(batches);
    assert!(
        missing >= incomplete && missing <= lost * most_of_batch,
        "{missing} missing, {incomplete} incomplete, {lost} lost"
    );
}

#[test]
fn beside_a_plain_router_the_wire_falls_back_and_recovers() {
    let mut row =
        Row::new(&[config(1, [false, true], ""), config(2, [false, false], ""), config(3, [false, false], "")]);
    row.advance(Nanos::secs(5));
    assert_eq!(row.changes[0].0.lock().unwrap()[..], [DfqWireState::Plain(DfqFallback::NoAnswer)]);
    let received = row.send(500, |_| 300);
    assert!(received.len() == 500 && is_in_order(&received));
    assert_eq!(row.wire(0, 1).1.batches_sent, 0);
    // The second router gets a wire while packets flow. Its port stays open.
    row.routers[1].apply(&config(2, [true, false], "")).unwrap();
    row.advance(Nanos::millis(1500));
    assert_eq!(row.changes[0].0.lock().unwrap().last(), Some(&DfqWireState::Multiplexed));
    let received = row.send(500, |_| 300);
    assert_eq!(received.len(), 500);
    assert!(is_in_order(&received) && row.wire(0, 1).1.packets_sent >= 500);
    // And loses it again: it takes leave, so the first router knows at once.
    row.routers[1].apply(&config(2, [false, false], "")).unwrap();
    row.advance(Nanos::millis(200));
    assert_eq!(row.changes[0].0.lock().unwrap().last(), Some(&DfqWireState::Plain(DfqFallback::Left)));
    assert_eq!(row.send(500, |_| 300).len(), 500);
}
