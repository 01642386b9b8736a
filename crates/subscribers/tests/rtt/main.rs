//! Round-trip times against their definition: of made segments, of mutilated ones, and of captures of real connections.

mod captures;
mod definition;
mod segment;

use definition::Definition;
use packet::{Packet, Pool, Region};
use proptest::prelude::*;
use segment::Segment;
use std::sync::atomic::{AtomicUsize, Ordering};
use subscribers::{RttSide, RttTable};
use units::{Instant, Nanos};

/// Entries of a table that is never full in these tests.
const AMPLE: usize = 1 << 16;

/// Observes packets one by one. Returns the position and the time of each sample.
fn samples(table: &RttTable, packets: &[(RttSide, Packet)]) -> Vec<(usize, Nanos)> {
    let mut samples = Vec::new();
    for (i, (from, packet)) in packets.iter().enumerate() {
        table.observe(*from, std::slice::from_ref(packet), |at, time| {
            assert_eq!(at, 0);
            samples.push((i, time));
        });
    }
    samples
}

/// A segment of one of a few flows, some time after the one before, with timestamps of a coarse clock. Its echo is one of the last timestamps.
fn segments() -> impl Strategy<Value = Vec<(RttSide, Segment)>> {
    let step = (any::<bool>(), 0u16..3, 0u64..3_000_000, 0u32..3, 0u8..8, any::<bool>(), 0u8..20);
    proptest::collection::vec(step, 0..200).prop_map(|steps| {
        let (mut now, mut values) = (1 << 40, [[100u32; 2]; 3]);
        let mut segments = Vec::new();
        for (up, flow, wait, advance, flags, data, rare) in steps {
            // Also across pauses of many seconds.
            now += if rare == 0 { wait * 10_000 } else { wait };
            let side = usize::from(up);
            let value = &mut values[usize::from(flow)];
            value[side] += advance;
            segments.push((
                if up { RttSide::Subscriber } else { RttSide::Internet },
                Segment {
                    up,
                    flow,
                    ipv6: flow == 2,
                    time: Instant::new(now),
                    value: value[side],
                    echo: value[1 - side] - u32::from(rare) % 3,
                    flags: [16, 16, 16, 24, 18, 17, 2, 20][usize::from(flags)],
                    data: if data { 100 } else { 0 },
                    usual: rare % 2 == 0,
                },
            ));
        }
        segments
    })
}

proptest! {
    #[test]
    fn samples_are_those_of_the_definition(segments in segments(), key: u64, batched: bool) {
        let (table, mut definition) = (RttTable::new(AMPLE, key), Definition::default());
        let mut pool = Pool::new(Region::new(256));
        let expected: Vec<_> = segments
            .iter()
            .enumerate()
            .filter_map(|(i, (from, segment))| Some((i, definition.observe(*from, &segment.observed()?)?)))
            .collect();
        let packets: Vec<_> = segments.iter().map(|(from, segment)| (*from, segment.packet(&mut pool))).collect();
        let found = if batched {
            // All packets of one side that follow each other.
            let mut found = Vec::new();
            let (sides, packets): (Vec<_>, Vec<_>) = packets.into_iter().unzip();
            let mut begin = 0;
            for side in sides.chunk_by(|a, b| a == b) {
                table.observe(side[0], &packets[begin..begin + side.len()], |at, time| found.push((begin + at, time)));
                begin += side.len();
            }
            packets.into_iter().for_each(|packet| pool.give(packet));
            found
        } else {
            let found = samples(&table, &packets);
            packets.into_iter().for_each(|(_, packet)| pool.give(packet));
            found
        };
        prop_assert_eq!(found.len(), expected.len(), "{:?} {:?}", found, expected);
        for ((i, time), (j, exact)) in found.iter().zip(&expected) {
            prop_assert!(i == j && definition::is_near(*time, *exact), "{}: {:?} instead of {:?}", i, time, exact);
        }
    }

    #[test]
    fn mutilated_segments_never_panic(
        segment in segments().prop_filter_map("none", |all| all.first().copied()),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        length in 0usize..200,
        l3 in prop_oneof![Just(14u16), any::<u16>()],
    ) {
        let table = RttTable::new(16, 1);
        let mut pool = Pool::new(Region::new(1));
        let mut packet = segment.1.packet(&mut pool);
        for (index, byte) in changes {
            let at = index.index(packet.len());
            packet.bytes_mut()[at] = byte;
        }
        let length = length.min(packet.len());
        prop_assert!(packet.resize(length));
        packet.meta_mut().l3 = l3;
        for from in [RttSide::Subscriber, RttSide::Internet, RttSide::Subscriber] {
            table.observe(from, std::slice::from_ref(&packet), |_, _| panic!("a packet does not answer itself"));
        }
        pool.give(packet);
    }
}

/// A segment with data at a time in microseconds.
fn data(up: bool, micros: u64, value: u32, echo: u32) -> (RttSide, Segment) {
    let time = Instant::new(micros * 1000);
    let segment = Segment { up, flow: 1, ipv6: false, time, value, echo, flags: 24, data: 100, usual: true };
    (if up { RttSide::Subscriber } else { RttSide::Internet }, segment)
}

#[test]
fn timestamps_that_were_never_sent_give_no_sample() {
    let table = RttTable::new(1 << 12, 0x1234_5678_9abc_def0);
    let mut pool = Pool::new(Region::new(4));
    // More timestamps than the table has entries, in one direction, then every possible answer from the other.
    for value in 0..10_000 {
        let (from, segment) = data(false, u64::from(value), value, 1);
        let packet = segment.packet(&mut pool);
        table.observe(from, std::slice::from_ref(&packet), |_, _| panic!("nothing was sent upward"));
        pool.give(packet);
    }
    for echo in 10_000..2_000_000 {
        let (from, segment) = data(true, 10_000, 7, echo);
        let packet = segment.packet(&mut pool);
        table.observe(from, std::slice::from_ref(&packet), |_, time| panic!("{echo} was never sent: {time:?}"));
        pool.give(packet);
    }
}

#[test]
fn flood_of_handshakes_leaves_samples_of_quick_answers() {
    let table = RttTable::new(1 << 14, 99);
    let mut pool = Pool::new(Region::new(4));
    let (mut found, mut number) = (0, 0);
    let mut observe = |(from, segment): (RttSide, Segment)| {
        let packet = segment.packet(&mut pool);
        table.observe(from, std::slice::from_ref(&packet), |_, _| found += 1);
        pool.give(packet);
    };
    for round in 0..200u32 {
        let begun = u64::from(round) * 20_000;
        observe(data(false, begun, 1000 + round, 1));
        // A hundred thousand of them a second.
        for _ in 0..2000 {
            number += 1;
            let (from, segment) = data(true, begun + 10, number, 0);
            observe((from, Segment { flags: 2, flow: number as u16 | 0x8000, data: 0, ..segment }));
        }
        observe(data(true, begun + 20_000, 5, 1000 + round));
    }
    assert!(found >= 195, "{found} samples of 200");
}

#[test]
fn sample_of_more_than_ten_seconds_is_discarded() {
    let mut pool = Pool::new(Region::new(8));
    for (wait, count) in [(9_990_000, 1), (10_010_000, 0)] {
        let table = RttTable::new(AMPLE, 3);
        let exchange = [data(false, 1000, 50, 1), data(true, 1000 + wait, 9, 50), data(true, 1001 + wait, 9, 50)];
        let packets = exchange.map(|(from, segment)| (from, segment.packet(&mut pool)));
        assert_eq!(samples(&table, &packets).len(), count, "{wait}");
        packets.into_iter().for_each(|(_, packet)| pool.give(packet));
    }
}

#[test]
fn workers_that_share_a_table_end_each_sample_once() {
    const SENT: u32 = 20_000;
    let table = RttTable::new(1 << 18, 5);
    let observe = |pool: &mut Pool, (from, segment): (RttSide, Segment), found: &AtomicUsize| {
        let packet = segment.packet(pool);
        table.observe(from, std::slice::from_ref(&packet), |_, time| {
            assert!(time <= Nanos::millis(60));
            found.fetch_add(1, Ordering::Relaxed);
        });
        pool.give(packet);
    };
    let (found, sent) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut pool = Pool::new(Region::new(4));
            for value in 1..=SENT {
                observe(&mut pool, data(false, u64::from(value), value, 0), &found);
                sent.store(value as usize, Ordering::Release);
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut pool = Pool::new(Region::new(4));
                for echo in 1..=SENT {
                    while sent.load(Ordering::Acquire) < echo as usize {
                        std::hint::spin_loop();
                    }
                    observe(&mut pool, data(true, u64::from(echo) + 40_000, 0, echo), &found);
                }
            });
        }
    });
    // A worker that changes an entry at the same time as another costs a sample; two workers never get the same.
    let found = found.load(Ordering::Relaxed);
    assert!(found <= SENT as usize && found > SENT as usize * 9 / 10, "{found} samples of {SENT}");
}
