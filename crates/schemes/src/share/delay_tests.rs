//! The delay of packets within a guarantee, and leaves with a queue of their own.

use super::tests::{Link, put, settings};
use super::*;
use crate::model::ModelFate;
use alloc::vec;
use proptest::prelude::*;
use units::Bytes;

/// The bytes that the deadline of a share with others below it covers.
const TURN: u64 = 4096;
const QUANTUM: u64 = 1514;
const LONGEST: u64 = 1514;
const CAPACITY: u64 = 100_000_000;

/// A leaf that sends bursts of `burst` bytes at once, and `rate` on average.
#[derive(Clone, Copy, Debug)]
struct Flow {
    parent: u32,
    rate: u64,
    burst: u64,
    length: u32,
}

/// The longest delay of each flow on a link of [`CAPACITY`], beside leaves without a guarantee that always have packets. Each flow sends its burst at
/// random times as soon as its token bucket is full, so it stays within rate and burst.
fn longest_delays(edits: &[ShareEdit], flows: &[Flow], seed: u64, packets: usize) -> Vec<u64> {
    let mut link = Link::new(Rate::bits(CAPACITY), edits);
    let (greedy, mut random) = (1000, seed | 1);
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below.max(1)
    };
    let mut due: Vec<u64> = flows.iter().map(|_| next(2_000_000)).collect();
    let mut arrived: Vec<Instant> = Vec::new();
    let (mut longest, mut seen, mut waiting) = (vec![0; flows.len()], 0, 0);
    while link.model.fates.len() < packets {
        let now = link.model.now;
        for (number, flow) in flows.iter().enumerate() {
            if due[number] > now.get() {
                continue;
            }
            let count = flow.burst / u64::from(flow.length);
            link.arrive(&vec![(number as u32 + 1, flow.length); count as usize]);
            let refill = count * u64::from(flow.length) * 8_000_000_000 / flow.rate;
            // Half of the time at once when the bucket is full again.
            due[number] = now.get() + refill + if next(2) == 0 { 0 } else { next(refill) };
        }
        if waiting < 10 {
            link.arrive(&[(greedy, LONGEST as u32); 20]);
            waiting += 20;
        }
        arrived.resize(link.packets.len(), now);
        link.model.ready(&mut link.tree, 1);
        let mut bytes = 0;
        let sent: Vec<usize> = link.model.fates[seen..]
            .iter()
            .map(|fate| {
                assert!(matches!(fate, ModelFate::Sent(_)), "no packet within its guarantee is lost: {fate:?}");
                fate.number()
            })
            .collect();
        seen += sent.len();
        for number in sent {
            let (share, length) = link.packets[number];
            bytes += u64::from(length);
            let done = link.model.now.get() + bytes * 8_000_000_000 / CAPACITY;
            match longest.get_mut(share as usize - 1) {
                Some(longest) => *longest = (*longest).max(done - arrived[number].get()),
                None => waiting -= 1,
            }
        }
        link.model.now += Nanos::new((bytes * 8_000_000_000 / CAPACITY).max(100));
    }
    longest
}

/// The bound of a packet within a guarantee: its burst and a turn at its own rate, and a turn of another child at each level above.
fn bound(flow: &Flow, above: &[u64]) -> u64 {
    let at = |bytes: u64, rate: u64| bytes * 8_000_000_000 / rate;
    at(flow.burst + u64::from(flow.length.next_power_of_two()), flow.rate)
        + above.iter().map(|&rate| at(if rate == CAPACITY { QUANTUM + LONGEST } else { TURN }, rate)).sum::<u64>()
}

fn leaf(flow: &Flow) -> ShareParameters {
    let rate = Rate::bits(flow.rate);
    ShareParameters {
        rate,
        burst: Bytes::new(flow.burst),
        queue: Bytes::new(flow.burst + 10 * TURN),
        turn: Bytes::new(flow.length.into()),
        ..settings(flow.parent)
    }
}

fn guarantees(flows: &[Flow]) -> Vec<ShareEdit> {
    let one = |(number, flow): (usize, &Flow)| put(number as u32 + 1, leaf(flow));
    flows.iter().enumerate().map(one).chain([put(1000, settings(0))]).collect()
}

#[test]
fn packet_within_guarantee_waits_for_its_own_rate_not_for_others() {
    // A fast flow beside 60 slow ones that all send at once: with turns in the order of arrival it would wait for each of them.
    let slow = Flow { parent: 0, rate: 500_000, burst: 6000, length: 1500 };
    let fast = Flow { parent: 0, rate: 60_000_000, burst: 3000, length: 500 };
    let flows: Vec<Flow> = [fast].into_iter().chain([slow; 60]).collect();
    let longest = longest_delays(&guarantees(&flows), &flows, 7, 40_000);
    for (flow, longest) in flows.iter().zip(&longest) {
        let bound = bound(flow, &[CAPACITY]);
        assert!(*longest > 0 && *longest <= bound, "{flow:?} waits {longest} ns, bound {bound}");
    }
    assert!(longest[0] < 1_000_000, "60 packets of the others take 7 ms, the fast flow waits {} ns", longest[0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn guarantees_that_fit_bound_the_delay(
        parts in proptest::collection::vec((1_u64..100, 1_u64..6, 64_u32..1500, any::<bool>()), 2..30),
        seed in any::<u64>(),
    ) {
        // Together they have nine tenths of the link. Half of them are below a site, which guarantees the sum.
        let total: u64 = parts.iter().map(|(part, ..)| part).sum();
        let site = 2000;
        let flows: Vec<Flow> = parts.iter().map(|&(part, packets, length, below)| Flow {
            parent: if below { site } else { 0 },
            rate: part * (CAPACITY * 9 / 10) / total,
            burst: packets * u64::from(length),
            length,
        }).collect();
        let of_site: u64 = flows.iter().filter(|flow| flow.parent == site).map(|flow| flow.rate).sum();
        let mut edits = vec![put(site, ShareParameters { rate: Rate::bits(of_site.max(1000)), ..settings(0) })];
        edits.extend(guarantees(&flows));
        let longest = longest_delays(&edits, &flows, seed, 12_000);
        for (flow, longest) in flows.iter().zip(longest) {
            let above: &[u64] = if flow.parent == site { &[of_site, CAPACITY] } else { &[CAPACITY] };
            prop_assert!(longest <= bound(flow, above), "{flow:?} waits {longest} ns, bound {}", bound(flow, above));
        }
    }
}

#[test]
fn own_queue_of_a_leaf_holds_its_bytes_in_order() {
    let own = |queue| ShareParameters { queue: Bytes::new(queue), ..settings(0) };
    let mut link = Link::new(Rate::bits(CAPACITY), &[put(1, own(3000)), put(2, settings(0))]);
    link.arrive(&[(1, 1000), (1, 1000), (1, 1000), (1, 1000), (1, 500)]);
    let refused = [ModelFate::Refused(3), ModelFate::Refused(4)];
    assert_eq!(link.model.fates, refused, "three packets of 1000 bytes fit");
    // It loses its queue while it holds packets: they precede later ones, which wait in its scheme.
    link.edit(&[put(1, settings(0))]);
    link.arrive(&[(1, 1000), (1, 1000)]);
    // And gets one again: packets wait there only when the scheme is empty.
    link.edit(&[put(1, own(3000))]);
    link.arrive(&[(1, 1000)]);
    for _ in 0..8 {
        link.model.ready(&mut link.tree, 1);
    }
    let sent: Vec<usize> = link.model.fates[2..].iter().map(|fate| fate.number()).collect();
    assert_eq!(sent, [0, 1, 2, 5, 6, 7]);
    assert_eq!(link.tree.next(&link.model), Next::Idle);
}
