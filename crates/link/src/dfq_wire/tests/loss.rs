//! Packets over a cable that loses batches: exactly those with bytes in a lost batch are missing.

use super::super::message::{Message, parse};
use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Follows the streams of all flows by the quanta of every batch, lost or not, with no knowledge of the receiver.
#[derive(Default)]
struct Oracle {
    /// The packets of each share in the order in which they were sent, each with its number and its end in the stream.
    sent: BTreeMap<u32, Vec<(u32, usize)>>,
    /// The position in the stream of each flow.
    at: BTreeMap<u32, usize>,
    /// Packets with bytes in a lost batch.
    touched: BTreeSet<u32>,
}

impl Oracle {
    fn send(&mut self, share: u32, number: u32, length: usize) {
        let packets = self.sent.entry(share).or_default();
        let start = packets.last().map_or(0, |(_, end)| *end);
        packets.push((number, start + 2 + length));
    }

    fn see(&mut self, frame: &[u8], is_lost: bool) {
        let usual = |_: u16| Some(options(0).quantum);
        let Ok((_, Message::Batch(batch))) = parse(&frame[HEADER..], &usual) else { panic!("not a batch") };
        for quantum in batch.quanta(&usual) {
            // Shares have the numbers of their flows in these tests.
            let share = u32::from(quantum.flow);
            let at = self.at.entry(share).or_default();
            let bytes = *at..*at + quantum.bytes.len();
            *at = bytes.end;
            if is_lost {
                let mut start = 0;
                for (number, end) in &self.sent[&share] {
                    if start < bytes.end && bytes.start < *end {
                        self.touched.insert(*number);
                    }
                    start = *end;
                }
            }
        }
    }
}

/// A wire that knows the flows 1 to `flows`, for the shares with the same numbers.
fn mapped(flows: u32) -> Pair {
    let mut pair = Pair::agreed();
    let packets: Vec<_> = (1..=flows).map(|share| (ShareId(share), frame(1, 0, 60))).collect();
    pair.exchange(0, &packets);
    pair.elapse(Nanos::millis(300));
    assert_eq!(u32::from(pair.status(0).flows_out), flows);
    pair
}

/// Sends rounds of packets, each with a share and a length, and loses the batches whose number in order `loses` wants.
fn check(flows: u32, rounds: &[Vec<(u32, usize)>], loses: &dyn Fn(usize) -> bool) -> (usize, usize) {
    let mut pair = mapped(flows);
    let (mut oracle, mut number, mut batches) = (Oracle::default(), 0, 0);
    let mut all: BTreeMap<u32, (u32, Vec<u8>)> = BTreeMap::new();
    let mut received = Received::default();
    for round in rounds {
        let packets = round.iter().map(|&(share, length)| {
            number += 1;
            let bytes = frame(1, number, length);
            oracle.send(share, number, bytes.len());
            all.insert(number, (share, bytes.clone()));
            (ShareId(share), bytes)
        });
        let packets: Vec<_> = packets.collect();
        pair.send(0, &packets);
        pair.carry_from(0, &mut |frame| {
            assert!(frame.len() <= 1500 + HEADER);
            batches += usize::from(is_batch(frame));
            let is_lost = is_batch(frame) && loses(batches);
            if is_batch(frame) {
                oracle.see(frame, is_lost);
            }
            !is_lost
        });
        let more = pair.receive(1);
        received.packets.extend(more.packets);
        received.refused.extend(more.refused);
    }
    pair.elapse(Nanos::secs(1));
    // Each flow: the packets that no lost batch has touched, in order.
    for share in 0..=flows {
        let expected = all.iter().filter(|(number, (of, _))| *of == share && !oracle.touched.contains(number));
        let expected: Vec<&Vec<u8>> = expected.map(|(_, (_, bytes))| bytes).collect();
        let of: BTreeSet<&Vec<u8>> = all.values().filter(|(of, _)| *of == share).map(|(_, bytes)| bytes).collect();
        let arrived: Vec<&Vec<u8>> = received.packets.iter().filter(|bytes| of.contains(bytes)).collect();
        assert_eq!(arrived, expected, "share {share}");
    }
    assert_eq!(received.packets.len(), all.len() - oracle.touched.len());
    assert!(received.refused.len() <= oracle.touched.len());
    assert!(received.refused.iter().all(|reason| *reason == DropReason::DfqBatchLost));
    assert_eq!(pair.pool.frames_in_use(), 0);
    (batches, oracle.touched.len())
}

fn any_rounds(flows: u32) -> impl Strategy<Value = Vec<Vec<(u32, usize)>>> {
    let length = prop_oneof![HEADER..100usize, HEADER..=1514usize, Just(64usize), Just(126usize), Just(1514usize)];
    prop::collection::vec(prop::collection::vec((0..=flows, length), 0..60), 1..6)
}

proptest! {
    #[test]
    fn lost_batches_cost_only_the_packets_within_them(
        (flows, rounds) in (0..20u32).prop_flat_map(|flows| (Just(flows), any_rounds(flows))),
        lost in prop::collection::vec(any::<bool>(), 64),
    ) {
        check(flows, &rounds, &|batch| lost[batch % lost.len()]);
    }

    #[test]
    fn a_perfect_cable_loses_nothing((flows, rounds) in (0..20u32).prop_flat_map(|flows| (Just(flows), any_rounds(flows)))) {
        let (_, lost) = check(flows, &rounds, &|_| false);
        prop_assert_eq!(lost, 0);
    }
}

#[test]
fn one_percent_of_batches_lost_costs_only_the_packets_within_them() {
    let round = |at: usize| (0..100).map(|n| (n % 13, 60 + (at * 37 + n as usize * 101) % 1455)).collect();
    let rounds: Vec<_> = (0..50).map(round).collect();
    let (batches, lost) = check(12, &rounds, &|batch| batch % 100 == 57);
    assert!(batches > 2000, "{batches} batches");
    assert!(lost > batches / 100, "{lost} packets lost");
}

/// All packets of a flow have the same length, and the lost batches have exactly some of them: the rest fits the part that arrived. Without the
/// place of the former quantum the parts of two packets would be one.
#[test]
fn parts_of_different_packets_are_never_joined() {
    let round: Vec<(u32, usize)> = (0..60).map(|n| (n % 4, 1514)).collect();
    for first in 0..20 {
        for length in 1..12 {
            check(3, std::slice::from_ref(&round), &|batch| (first..first + length).contains(&batch));
        }
    }
}

#[test]
fn a_frame_has_a_quantum_of_each_flow_in_order() {
    let mut pair = mapped(10);
    let packets: Vec<_> = (0..=10).rev().map(|share| (ShareId(share), frame(1, share, 300))).collect();
    pair.send(0, &packets);
    let usual = |_: u16| Some(128);
    let mut lines = Vec::new();
    pair.carry_from(0, &mut |frame| {
        let Ok((_, Message::Batch(batch))) = parse(&frame[HEADER..], &usual) else { panic!("not a batch") };
        lines.push(batch.quanta(&usual).map(|quantum| (quantum.flow, quantum.bytes.len())).collect::<Vec<_>>());
        true
    });
    // The room that is left after a round goes to the first flows.
    let (last, full) = lines[0].split_last().unwrap();
    assert!(full.iter().map(|(flow, _)| *flow).eq(0..full.len() as u16), "{lines:?}");
    assert!(full.iter().all(|(_, bytes)| *bytes >= 128) && last.1 <= 128, "{lines:?}");
    let all: usize = lines.iter().flatten().map(|(_, bytes)| bytes).sum();
    assert_eq!(all, 11 * 302);
    assert!(lines.len() <= 3, "{lines:?}");
    assert_eq!(pair.receive(1).packets.len(), 11);
}

#[test]
fn a_flow_alone_fills_its_frames() {
    let mut pair = mapped(1);
    let packets: Vec<_> = (0..100).map(|n| (ShareId(1), frame(1, n, 1514))).collect();
    let before = pair.status(0).counters.batches_sent;
    assert_eq!(pair.exchange(0, &packets).packets.len(), 100);
    // 1516 bytes of 1480 a batch.
    let batches = pair.status(0).counters.batches_sent - before;
    assert!((102..=104).contains(&batches), "{batches}");
}

#[test]
fn small_packets_share_frames() {
    let mut pair = mapped(50);
    let packets: Vec<_> = (0..200).map(|n| (ShareId(1 + n % 50), frame(1, n, 64))).collect();
    let before = pair.status(0).counters.batches_sent;
    assert_eq!(pair.exchange(0, &packets).packets.len(), 200);
    let batches = pair.status(0).counters.batches_sent - before;
    assert!(batches <= 11, "{batches} frames instead of 200");
}
