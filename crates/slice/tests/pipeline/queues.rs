//! Queues of slices: weights, rates, admission, and the accounting of frames on the link.

use crate::node::{Node, filter, frame, place, scheduler, spec, to_wan};
use slice::{FilterAction, FilterEdit, QueueSpec, SliceError, SliceQuota, SliceRates, SliceSpec};
use std::net::Ipv4Addr;
use units::{Bytes, Nanos, Rate};

/// The bytes on the link of a packet whose inner UDP packet has this payload, without the tag of a VLAN.
fn on_link(payload: usize) -> u64 {
    payload as u64 + 98 - 4
}

/// Sends for some time what fills the queues with these first bytes of packets, `each` packets a millisecond and queue. Returns the packets that
/// arrived by the first byte.
fn flood(node: &mut Node, first: &[u8], each: usize, time: usize) -> Vec<u64> {
    drop(node.arrived());
    let mut counts = vec![0; first.len()];
    for _ in 0..time {
        for byte in first {
            let mut payload = vec![0; 972];
            payload[0] = *byte;
            (0..each).for_each(|_| node.rig.send("lan", &frame(20_000, &payload)));
        }
        node.rig.advance(Nanos::millis(1));
        for (_, payload) in node.arrived() {
            // Other queues may still have packets of before.
            first.iter().position(|byte| *byte == payload[0]).into_iter().for_each(|queue| counts[queue] += 1);
        }
    }
    counts
}

/// Five queues with shares of 30, 25, 20, 15 and 10 percent, and a filter for each: the first byte selects the queue.
fn five_queues() -> Node {
    let mut node = Node::new();
    node.slice("a", 20_000);
    for (number, weight) in [(1, 30), (2, 25), (3, 20), (4, 15), (5, 10)] {
        node.queue("a", number, weight);
        node.insert("a", number.into(), filter(&[number as u8], to_wan(number)));
    }
    node
}

#[test]
fn wdrr_shares_30_25_20_15_10() {
    let mut node = five_queues();
    flood(&mut node, &[1, 2, 3, 4, 5], 4, 100);
    let counts = flood(&mut node, &[1, 2, 3, 4, 5], 4, 400);
    let sum: u64 = counts.iter().sum();
    let shares: Vec<f64> = counts.iter().map(|count| *count as f64 / sum as f64 * 100.0).collect();
    for (share, expected) in shares.iter().zip([30.0, 25.0, 20.0, 15.0, 10.0]) {
        assert!((share - expected).abs() < 1.0, "{shares:?}");
    }
    // An inner UDP packet of 972 bytes has a payload of 944. The scheduler's rate counts all bytes on the link.
    let rate = sum * on_link(944) * 8 * 1000 / 400;
    assert!((79_000_000..81_000_000).contains(&rate), "{rate} of 80 Mbit/s");
}

#[test]
fn wdrr_work_conserving() {
    let mut node = five_queues();
    flood(&mut node, &[1, 2, 3, 4, 5], 4, 100);
    // Two queues have nothing to send once they are empty: the others divide the whole rate in proportion.
    let mut rest = 0;
    while node.report("a").queues.iter().any(|queue| [3, 4].contains(&queue.queue) && queue.counts.waiting.packets > 0)
    {
        flood(&mut node, &[1, 2, 5], 8, 10);
        rest += 1;
        assert!(rest < 1000, "the queues become empty");
    }
    let counts = flood(&mut node, &[1, 2, 5], 8, 300);
    let sum: u64 = counts.iter().sum();
    assert!(sum * on_link(944) * 8 * 1000 / 300 > 79_000_000, "{counts:?}");
    for (count, weight) in counts.iter().zip([30, 25, 10]) {
        let share = *count as f64 / sum as f64;
        assert!((share - f64::from(weight) / 65.0).abs() < 0.01, "{counts:?}");
    }
}

/// An idle queue saves no credit: after an idle time it gets its share, and not more.
#[test]
fn wdrr_deficit_zero_on_empty() {
    let mut node = five_queues();
    // Queue 2 begins after a second in which queue 1 was alone.
    flood(&mut node, &[1], 20, 1000);
    let counts = flood(&mut node, &[1, 2], 20, 100);
    let share = counts[0] as f64 / (counts[0] + counts[1]) as f64;
    assert!((share - 30.0 / 55.0).abs() < 0.02, "{counts:?}");
}

#[test]
fn sched_rate_cap() {
    let mut node = five_queues();
    let rates = SliceRates { ceiling: Some(Rate::mbit(20)), ..SliceRates::default() };
    node.slices.reserve(&mut node.rig.router, "a", &scheduler("wan"), rates).unwrap();
    flood(&mut node, &[1], 20, 100);
    let counts = flood(&mut node, &[1], 20, 200);
    let rate = counts[0] * on_link(944) * 8 * 1000 / 200;
    assert!((19_600_000..=20_200_000).contains(&rate), "{rate}: no output faster than the rate of the slice");
}

/// A frame on a VLAN has 98 bytes besides the payload of the inner UDP packet. Of these 28 are its headers, 28 the outer ones, 14 Ethernet's and 4 the
/// tag's, and 24 exist on the link only. Packets without payload at 10 Mbit/s are as many as those bytes allow, with a tag and without one.
#[test]
fn frame_overhead_98() {
    let vlan = place(Ipv4Addr::new(203, 0, 113, 1), 20_000);
    let tagged = FilterAction::Send {
        queue: 1,
        interface: 2,
        next: (Ipv4Addr::new(203, 0, 113, 9), 9000).into(),
        data: [0; 32],
    };
    for (action, tag) in [(to_wan(1), 0), (tagged, 4)] {
        let mut node = five_queues();
        node.slices.create_interface(&node.rig.router, "a", (2, vlan)).unwrap();
        node.slices.edit_filters("a", &[FilterEdit::Replace(1, filter(&[1], action))]).unwrap();
        packets_at_ten_megabits(node, tag);
    }
}

/// Sends packets of slice "a" at a ceiling of 10 Mbit/s, whose frames on the link have a tag of this length.
fn packets_at_ten_megabits(mut node: Node, tag: u64) {
    let rates = SliceRates { ceiling: Some(Rate::mbit(10)), ..SliceRates::default() };
    node.slices.reserve(&mut node.rig.router, "a", &scheduler("wan"), rates).unwrap();
    let inner = |payload: usize| {
        let mut packet = vec![0; 28 + payload];
        packet[0] = 1;
        packet
    };
    for payload in [0, 400] {
        let mut count = 0;
        for millisecond in 0..600 {
            (0..40).for_each(|_| node.rig.send("lan", &frame(20_000, &inner(payload))));
            node.rig.advance(Nanos::millis(1));
            let received = node.rig.received("wan");
            count += if millisecond < 200 { 0 } else { received.len() as u64 };
            let lengths = [70, 470].map(|length| length + tag as usize);
            received.iter().for_each(|frame| assert!(lengths.contains(&frame.len()), "{}", frame.len()));
        }
        let expected = 10_000_000 * 4 / 10 / 8 / (on_link(payload) + tag);
        assert!(count.abs_diff(expected) <= expected / 50, "{count} packets with {payload} bytes, {expected} expected");
    }
}

#[test]
fn sched_sum_admission() {
    let mut node = Node::new();
    node.slices.create(spec("a")).unwrap();
    node.slices.create(spec("b")).unwrap();
    let mut reserve = |name: &str, port: &str, rate| {
        let rates = SliceRates { rate: Some(Rate::mbit(rate)), ..SliceRates::default() };
        node.slices.reserve(&mut node.rig.router, name, &scheduler(port), rates).map_err(|error| error.reason)
    };
    assert_eq!(reserve("a", "wan", 60), Ok(()));
    // The scheduler sends 80 Mbit/s, with any number of active queues.
    assert!(reserve("b", "wan", 30).unwrap_err().contains("80mbit"));
    assert_eq!(reserve("b", "wan", 20), Ok(()));
    assert_eq!(reserve("a", "wan", 50), Ok(()));
    assert_eq!(reserve("b", "wan", 30), Ok(()));
    // The quota of a slice is for all its schedulers.
    assert_eq!(reserve("a", "lan", 30), Ok(()));
    assert_eq!(reserve("a", "lan", 31), Err("the slice has a quota of 80mbit for reserved rates".to_string()));
    assert!(reserve("b", "nowhere", 1).unwrap_err().contains("nowhere"));
}

/// One slice floods. The other one sends at its reserved rate, and loses no packet.
#[test]
fn isolation_flood() {
    let mut node = Node::new();
    for (name, port, rate) in [("a", 20_000, 0), ("b", 20_100, 30)] {
        node.slice(name, port);
        node.insert(name, 0, filter(&[], to_wan(1)));
        let rate = (rate > 0).then(|| Rate::mbit(rate));
        let rates = SliceRates { rate, ..SliceRates::default() };
        node.slices.reserve(&mut node.rig.router, name, &scheduler("wan"), rates).unwrap();
    }
    let payload = [0; 972];
    let mut arrived = 0;
    for _ in 0..500 {
        // 160 Mbit/s of one slice, and 25 of the other.
        (0..20).for_each(|_| node.rig.send("lan", &frame(20_000, &payload)));
        (0..3).for_each(|_| node.rig.send("lan", &frame(20_100, &payload)));
        node.rig.advance(Nanos::millis(1));
        arrived += node.arrived().iter().filter(|(port, _)| *port == 20_100).count();
    }
    assert!(arrived >= 1500 - 6, "{arrived} of 1500 packets have arrived, and the last ones are under way");
    let queue = &node.report("b").queues[0];
    assert_eq!(queue.counts.dropped, 0);
    assert!(queue.counts.sojourn(0.99).unwrap() < Nanos::millis(2), "{:?}", queue.counts.sojourn(0.99));
    assert!(node.report("a").queues[0].counts.dropped > 1000);
}

#[test]
fn queues_and_buffers_have_quotas() {
    let mut node = Node::new();
    let quota = SliceQuota { queues: 2, buffers: Bytes::new(100_000), ..spec("a").quota };
    node.slices.create(SliceSpec { quota, ..spec("a") }).unwrap();
    let queue = |node: &mut Node, number, weight, limit: Option<u64>| {
        let limit = limit.map(Bytes::new);
        let spec = QueueSpec { scheduler: scheduler("wan"), weight, limit };
        node.slices.set_queue(&mut node.rig.router, "a", (number, spec)).map_err(|error: SliceError| error.reason)
    };
    assert_eq!(queue(&mut node, 1, 1, None), Err("the slice has no part of engine of port wan".to_string()));
    node.slices.reserve(&mut node.rig.router, "a", &scheduler("wan"), SliceRates::default()).unwrap();
    assert_eq!(queue(&mut node, 1, 1, Some(60_000)), Ok(()));
    let beyond = "the limits of the queues exceed the slice's quota of 100000b for buffers";
    assert_eq!(queue(&mut node, 2, 1, Some(40_001)), Err(beyond.to_string()));
    assert_eq!(queue(&mut node, 2, 1, Some(40_000)), Ok(()));
    assert_eq!(queue(&mut node, 3, 1, None), Err("the slice has a quota of 2 queues".to_string()));
    assert_eq!(queue(&mut node, 2, 5, Some(30_000)), Ok(()), "a queue may change");
    assert!(queue(&mut node, 2, 0, None).is_err(), "no queue has the weight zero");
    // A full queue drops at its limit.
    node.slices.create_interface(&node.rig.router, "a", (1, crate::node::place(crate::node::WAN, 20_000))).unwrap();
    node.slices.create_interface(&node.rig.router, "a", (0, crate::node::place(crate::node::LAN, 20_000))).unwrap();
    node.insert("a", 0, filter(&[], to_wan(2)));
    (0..200).for_each(|_| node.rig.send("lan", &frame(20_000, &[0; 972])));
    node.rig.settle();
    let counts = node.report("a").queues[1].counts;
    assert!(counts.waiting.bytes.get() <= 30_000 && counts.dropped > 150, "{counts:?}");
}
