//! A port with an emulated link: its packets leave at the time they would have arrived, and each has one fate.

use packet::DropReason;
use plane::rig::{LAN_AND_WAN, Rig, UdpFrame};
use plane::snapshot::Layout;
use proptest::prelude::*;
use units::{Instant, Nanos};

/// A router between two hosts, whose port to the second has this link and scheme.
fn config(link: &str, scheme: &str) -> String {
    let port = format!("[port.wan]\nscheme = \"{scheme}\"\n{link}");
    LAN_AND_WAN.replace("[port.wan]", &port)
}

/// A running router, after its announcements have crossed the link.
fn rig(link: &str, scheme: &str) -> Rig {
    let mut rig = Rig::running(4096, Layout::Three, &config(link, scheme));
    rig.advance(Nanos::secs(5));
    came(&mut rig);
    rig
}

/// Sends packets of 1000 bytes with these numbers.
fn send(rig: &mut Rig, numbers: std::ops::Range<u16>) {
    let udp = UdpFrame { length: 1000, ..UdpFrame::between_ports(1, 2) };
    numbers.for_each(|number| rig.send("lan", &udp.frame(&number.to_be_bytes())));
}

/// The numbers of the packets that arrived, in order of arrival.
fn came(rig: &mut Rig) -> Vec<u16> {
    rig.received("wan").iter().filter(|f| f.len() == 1000).map(|f| u16::from_be_bytes([f[42], f[43]])).collect()
}

fn drops(rig: &Rig, reason: DropReason) -> u64 {
    let report = rig.report();
    let ports = report.ports.iter().flat_map(|port| &port.drops);
    ports.filter(|(why, _)| *why == reason).map(|(_, packets)| packets).sum()
}

/// 1000 bytes take 1 ms at 8 Mbit/s, and arrive 10 ms later.
#[test]
fn emulated_link_delivers_packets_at_their_arrival_time() {
    let mut rig = rig("link = { rate = \"8mbit\", delay = \"10ms\", overhead = \"0b\" }", "fifo");
    let start = rig.now;
    send(&mut rig, 0..3);
    let mut times = Vec::new();
    while times.len() < 3 {
        rig.advance(Nanos::micros(10));
        let now = rig.now.since(start).get();
        came(&mut rig).into_iter().for_each(|number| times.push((number, now)));
        assert!(now < 20_000_000);
    }
    for (number, (got, at)) in times.into_iter().enumerate() {
        let due = 10_000_000 + (number as u64 + 1) * 1_000_000;
        assert_eq!(usize::from(got), number);
        assert!((due..due + 30_000).contains(&at), "{number} came at {at}");
    }
}

/// Packets are queued in the scheme, not behind it: of a burst of thirty, nine find room.
#[test]
fn the_scheme_decides_when_the_link_is_ready() {
    let mut rig = rig("link = { rate = \"8mbit\", delay = \"10ms\", overhead = \"0b\" }", "fifo(limit=9)");
    send(&mut rig, 0..30);
    rig.advance(Nanos::millis(100));
    assert_eq!(came(&mut rig), (0..9).collect::<Vec<u16>>());
    assert_eq!(drops(&rig, DropReason::SchemeArrival), 21);
}

/// A driver that sleeps has to be awake when the link is ready for the next packet, and when one arrives.
#[test]
fn worker_reports_when_the_emulated_link_is_due() {
    let mut rig = rig("link = { rate = \"8mbit\", delay = \"10ms\", overhead = \"0b\" }", "fifo");
    assert_eq!(rig.worker.due_exactly(), Instant::NEVER);
    let start = rig.now;
    send(&mut rig, 0..2);
    rig.settle();
    let due = |rig: &Rig| rig.worker.due_exactly().since(start).get() / 1000;
    assert_eq!(due(&rig), 1000);
    rig.advance(Nanos::millis(2));
    assert_eq!(due(&rig), 11_000);
    rig.advance(Nanos::millis(20));
    assert_eq!((came(&mut rig).len(), rig.worker.due_exactly()), (2, Instant::NEVER));
}

#[test]
fn late_worker_does_not_reduce_the_link_rate() {
    let mut rig = rig("link = { rate = \"80mbit\", overhead = \"0b\" }", "fifo");
    send(&mut rig, 0..200);
    rig.settle();
    // A packet takes 100 us, but the worker looks only every 700 us. This is reported, and costs no throughput.
    let mut all = Vec::new();
    for _ in 0..29 {
        rig.now += Nanos::micros(700);
        rig.settle();
        all.extend(came(&mut rig));
    }
    assert_eq!(all, (0..200).collect::<Vec<u16>>());
    let told = rig.worker.links(None).links.into_iter().find_map(|link| link.emulated).expect("a link");
    assert!(told.arrived >= 200 && told.missed == 0, "{told:?}");
    assert!(told.late > 50 && told.late_most < Nanos::micros(701), "{told:?}");
    assert!(told.late_p99 > Nanos::micros(500) && told.late_p99 <= told.late_most, "{told:?}");
}

#[test]
fn emulated_losses_have_a_drop_reason_and_duplicates_are_generated() {
    let mut rig = rig("link = { delay = \"5ms\", loss = \"20%\", duplicate = \"30%\", seed = 3 }", "fifo");
    for round in 0..10 {
        send(&mut rig, round * 100..round * 100 + 100);
        rig.advance(Nanos::millis(20));
    }
    let (all, lost) = (came(&mut rig), drops(&rig, DropReason::LinkLoss));
    let mut once = all.clone();
    once.dedup();
    assert!((150..250).contains(&lost), "{lost}");
    assert_eq!(once.len() as u64 + lost, 1000);
    assert!((180..320).contains(&(all.len() - once.len())), "{}", all.len());
    assert!(all.is_sorted(), "in order");
}

#[test]
fn packets_over_the_link_capacity_are_dropped() {
    let mut rig = rig("link = { delay = \"50ms\", hold = 10 }", "fifo");
    send(&mut rig, 0..30);
    rig.advance(Nanos::millis(100));
    assert_eq!(came(&mut rig), (0..10).collect::<Vec<u16>>());
    assert_eq!(drops(&rig, DropReason::BufferFull), 20);
}

/// The new delay is for later packets, and none overtakes packets in flight. When emulation ends all packets leave at once.
#[test]
fn link_parameters_change_with_packets_in_flight() {
    let mut rig = rig("link = { delay = \"50ms\" }", "fifo");
    send(&mut rig, 0..5);
    rig.advance(Nanos::millis(1));
    rig.apply(&config("link = { delay = \"1ms\" }", "fifo")).unwrap();
    send(&mut rig, 5..8);
    rig.advance(Nanos::millis(10));
    assert_eq!(came(&mut rig), [0u16; 0]);
    rig.advance(Nanos::millis(50));
    assert_eq!(came(&mut rig), (0..8).collect::<Vec<u16>>());
    send(&mut rig, 8..10);
    rig.settle();
    rig.apply(&config("", "fifo")).unwrap();
    rig.settle();
    assert_eq!(came(&mut rig), [8, 9]);
}

#[test]
fn removed_port_drops_packets_in_flight() {
    let mut rig = rig("link = { delay = \"60s\" }", "fifo");
    send(&mut rig, 0..5);
    rig.advance(Nanos::millis(1));
    let without = config("", "fifo").replace("[port.wan]", "[port.other]").replace("memory:wan", "memory:other");
    rig.apply(&without.replace("port = \"wan\"", "port = \"other\"")).unwrap();
    rig.advance(Nanos::secs(2));
    let report = rig.report();
    assert_eq!(report.held_packets, 0, "{report:?}");
    assert_eq!(
        report.ledger.sent() + report.ledger.dropped() + report.ledger.consumed(),
        report.ledger.received() + report.ledger.generated()
    );
}

/// A made-up link trace: in any interval no more packets pass than its opportunities carry.
#[test]
fn trace_link_sends_at_its_opportunities() {
    let mut rig =
        rig("link = { trace = \"lte(mean=5mbit,length=10s,seed=2)\", mode = \"packet\" }", "fifo(limit=4000)");
    let trace = link::medium::lte(units::Rate::mbit(5), Nanos::secs(10), 2);
    let mut sum = 0;
    for _ in 0..20 {
        send(&mut rig, 0..60);
        rig.advance(Nanos::millis(50));
        sum += came(&mut rig).len();
    }
    let start = Instant::START;
    let opportunities = trace.millis().iter().filter(|at| **at <= 1000).count();
    let now = rig.now.since(start);
    assert!(sum > opportunities / 2 && sum <= opportunities + 60, "{sum} of {opportunities} at {now}");
}

/// With `bytes` a packet stays queued until it has an opportunity, even after unused opportunities.
#[test]
fn packet_is_queued_until_its_opportunity() {
    let mut rig = rig("link = { trace = \"lte(mean=1mbit,length=10s,seed=2)\", mode = \"bytes(1504)\" }", "fifo");
    let trace = link::medium::lte(units::Rate::mbit(1), Nanos::secs(10), 2);
    let millis = |rig: &Rig| rig.now.since(Instant::START).get() / 1_000_000;
    let mut waited = 0;
    for number in 0..40 {
        rig.advance(Nanos::micros(61_700));
        let sent = millis(&rig);
        send(&mut rig, number..number + 1);
        rig.settle();
        let due = trace.millis().iter().map(|at| u64::from(*at)).find(|at| *at > sent).expect("it is long enough");
        while millis(&rig) < due {
            let told = rig.worker.links(None).links.into_iter().find(|link| link.emulated.is_some()).expect("a link");
            assert_eq!((told.packets, told.emulated.expect("it is there").in_flight), (1, 0), "{number} at {sent}");
            waited += 1;
            rig.advance(Nanos::micros(500));
        }
        assert_eq!(came(&mut rig), [number], "sent at {sent}, due at {due}");
    }
    assert!(waited > 40, "{waited}");
}

/// A packet released by a shaper begins its transmission at the release, not at an earlier poll of the link.
#[test]
fn a_shaped_packet_starts_on_the_link_when_the_shaper_releases_it() {
    let mut rig =
        rig("link = { rate = \"80mbit\", delay = \"5ms\", overhead = \"0b\" }", "shape(rate=1mbit,burst=1000b)");
    send(&mut rig, 0..3);
    rig.advance(Nanos::millis(30));
    let last = came(&mut rig);
    // At 1 Mbit/s each packet leaves 8 ms after the one before.
    assert_eq!(last, [0, 1, 2]);
    let told = rig.worker.links(None).links.into_iter().find_map(|link| link.emulated).expect("a link");
    assert!(told.late_most < Nanos::micros(50) && told.missed == 0, "{told:?}");
}

#[test]
fn unreadable_trace_file_refuses_the_configuration() {
    let mut rig = Rig::running(1024, Layout::Three, LAN_AND_WAN);
    let errors = rig.apply(&config("link = { trace = \"nowhere\" }", "fifo")).unwrap_err();
    assert!(errors[0].to_string().starts_with("port wan: 'nowhere' cannot be read"), "{errors:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Under any behaviour of the link, every packet finally has arrived, arrived twice, or been dropped with a reason.
    #[test]
    fn every_packet_has_one_fate(
        rate in 1_000_000u64..1_000_000_000,
        (delay, jitter) in (0u64..30_000, 0u64..10_000),
        (loss, twice, late) in (0u32..300, 0u32..300, 0u32..300),
        waits in prop::collection::vec((1u16..40, 0u64..8_000), 1..20),
    ) {
        let link = format!(
            "link = {{ rate = \"{rate}bit\", delay = \"{delay}us\", jitter = \"{jitter}us\", loss = \"{loss}ppm\", \
             duplicate = \"{twice}000ppm\", reorder = \"{late}000ppm\" }}"
        );
        let mut rig = rig(&link, "fifo(limit=30)");
        let mut sent = 0;
        for (packets, wait) in waits {
            send(&mut rig, 0..packets);
            sent += u64::from(packets);
            rig.advance(Nanos::micros(wait));
        }
        rig.advance(Nanos::secs(1));
        let all = came(&mut rig).len() as u64;
        let report = rig.report();
        let dropped: u64 = [DropReason::LinkLoss, DropReason::SchemeArrival].map(|why| drops(&rig, why)).iter().sum();
        prop_assert_eq!(report.held_packets, 0);
        prop_assert!(all + dropped >= sent && all + dropped <= 2 * sent, "{} {} {}", all, dropped, sent);
    }
}
