use super::*;
use crate::model::{Model, ModelFate};
use crate::options::Values;
use crate::single::Single;
use crate::{OptionValues, aqm};
use ModelFate::{Dropped, Refused, Sent};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use proptest::prelude::*;
use units::Nanos;

const UNBOUNDED: OptionValues<'_> = &[("limit", 0), ("bytes", 0), ("drop", 0), ("unbounded", 1)];

/// A node that drops only when `limit` packets wait.
fn tail(limit: u64, queues: usize) -> Aqm {
    let options = [("limit", limit), ("bytes", 1 << 30), ("drop", 0), ("unbounded", 0)];
    Aqm::of("fifo", &Values(&options), queues).expect("it is declared")
}

const CODEL: OptionValues<'_> = &[
    ("target", 5_000_000),
    ("interval", 100_000_000),
    ("mtu", 1514),
    ("limit", 1000),
    ("ecn", 0),
    ("again", 0),
    ("root", 0),
];

fn codel(queues: usize) -> Aqm {
    Aqm::of("codel", &Values(CODEL), queues).expect("it is declared")
}

/// A flow hash that selects bin `bin` of `bins`.
fn hash(bin: u32, bins: u32) -> u32 {
    ((u64::from(bin) << 32).div_ceil(u64::from(bins))) as u32
}

fn of(bin: u32, length: u32) -> Record {
    Record { length, flow_hash: hash(bin, 4), ..Record::default() }
}

fn fair(quantum: u32, favours_new: bool) -> BinScheme<DrrOrder> {
    BinScheme::new(DrrOrder::new(4, quantum, favours_new), tail(1000, 4), BinKey::Flow, 4, 1000)
}

fn ranked(levels: u32, limit: u64) -> BinScheme<PriorityOrder> {
    BinScheme::new(PriorityOrder::default(), tail(limit, levels as usize), BinKey::Class, levels, u32::MAX)
}

#[test]
fn link_supports_more_than_65536_queues() {
    let (bins, flows) = (100_000, [0, 1, 65_535, 65_536, 99_999]);
    let mut scheme = BinScheme::new(DrrOrder::new(bins, 1500, false), tail(10, bins), BinKey::Flow, bins as u32, 100);
    let mut model = Model::with_queues(bins);
    let packets = flows.map(|bin| Record { length: 1000, flow_hash: hash(bin, bins as u32), ..Record::default() });
    model.arrive_all(&mut scheme, packets.into_iter());
    assert!(packets.iter().zip(flows).all(|(packet, bin)| {
        let queue = Scheme::<Model>::queue_of(&scheme, packet);
        queue == Some(QueueId(bin)) && model.size(QueueId(bin)).packets == 1
    }));
    model.ready(&mut scheme, 9);
    assert_eq!(model.fates, [0, 1, 2, 3, 4].map(Sent));
}

#[test]
fn drr_shares() {
    // Packets of 100, 500, 900 and 1500 bytes; each flow gets as many bytes.
    let (mut scheme, mut model) = (BinScheme { limit: 10_000, ..fair(1500, false) }, Model::default());
    let lengths = [100, 500, 900, 1500];
    let packets = (0..4u32).flat_map(|bin| core::iter::repeat_n(of(bin, lengths[bin as usize]), 300));
    let records: Vec<Record> = packets.collect();
    model.arrive_all(&mut scheme, records.iter().copied());
    let mut sent = [0u32; 4];
    model.ready(&mut scheme, 250);
    for fate in &model.fates {
        let Sent(number) = *fate else { panic!("nothing is dropped") };
        sent[number / 300] += records[number].length;
    }
    let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
    assert!(most - least <= 2 * 1500 && *least > 10_000, "no two differ by more than a turn and a packet: {sent:?}");
}

#[test]
fn quantum_zero_serves_one_packet_per_round() {
    let (mut scheme, mut model) = (fair(0, false), Model::default());
    model.arrive_all(&mut scheme, [of(0, 64), of(0, 64), of(0, 64), of(1, 1500), of(1, 1500), of(2, 700)].into_iter());
    model.ready(&mut scheme, 9);
    assert_eq!(model.fates, [Sent(0), Sent(3), Sent(5), Sent(1), Sent(4), Sent(2)]);
}

#[test]
fn fq_new_flow_position() {
    let (mut scheme, mut model) = (fair(3000, true), Model::default());
    model.arrive_all(&mut scheme, [of(0, 1500); 6].into_iter());
    model.ready(&mut scheme, 3);
    // Flow 0 is old by now, in the middle of its turn. A new flow goes behind the other new one, and before the old one.
    model.arrive_all(&mut scheme, [of(2, 1500), of(1, 100), of(2, 1500)].into_iter());
    model.ready(&mut scheme, 3);
    assert_eq!(model.fates[3..], [Sent(6), Sent(8), Sent(7)]);
    // Flow 1 became empty, which is detected at its next turn: it is then behind the old ones, and not new again.
    model.ready(&mut scheme, 1);
    model.arrive_all(&mut scheme, [of(1, 100)].into_iter());
    model.ready(&mut scheme, 9);
    assert_eq!(model.fates[6..], [Sent(3), Sent(9), Sent(4), Sent(5)]);
}

#[test]
fn empty_queue_does_not_delay_other_queues() {
    let (mut scheme, mut model) = (fair(300, true), Model::default());
    model.arrive_all(&mut scheme, [of(0, 300), of(0, 300), of(1, 300), of(2, 300)].into_iter());
    model.ready(&mut scheme, 9);
    assert_eq!((model.waiting(), Scheme::<Model>::next(&scheme, &model)), (0, Next::Idle));
    model.arrive_all(&mut scheme, [of(3, 300), of(0, 300)].into_iter());
    model.ready(&mut scheme, 9);
    assert_eq!(model.waiting(), 0);
}

#[test]
fn fcfs_eq_fq_one_bin() {
    let mut one = BinScheme::new(DrrOrder::new(1, 1514, true), codel(1), BinKey::Flow, 1, 100_000);
    let node = aqm::CoDel::of(&Values(CODEL));
    let mut single = Single::new(node.expect("all options are there"));
    let (mut a, mut b) = (Model::default(), Model::default());
    for round in 0..5000u32 {
        let lengths: Vec<u32> = (0..1 + round % 2).map(|i| 200 + (round * 37 + i * 511) % 1300).collect();
        a.arrive(&mut one, &lengths);
        b.arrive(&mut single, &lengths);
        a.ready(&mut one, 1);
        b.ready(&mut single, 1);
        (a.now, b.now) = (a.now + Nanos::millis(1), b.now + Nanos::millis(1));
    }
    assert!(a.count_fates(|fate| matches!(fate, Dropped(_))) > 20);
    assert_eq!(a.fates, b.fates);
}

#[test]
fn state_of_queues_is_kept_when_parameters_change() {
    let new = || BinScheme::new(DrrOrder::new(1, 1514, true), codel(1), BinKey::Flow, 1, 100_000);
    let (mut kept, mut tuned, like) = (new(), new(), new());
    let (mut a, mut b) = (Model::default(), Model::default());
    for round in 0..3000u32 {
        let lengths: Vec<u32> = (0..1 + round % 2).map(|i| 200 + (round * 37 + i * 511) % 1300).collect();
        for (scheme, model) in [(&mut kept, &mut a), (&mut tuned, &mut b)] {
            model.arrive(scheme, &lengths);
            model.ready(scheme, 1);
            model.now += Nanos::millis(1);
        }
        assert!(round % 50 > 0 || tuned.tune(&like, &b));
    }
    assert!(a.count_fates(|fate| matches!(fate, Dropped(_))) > 20);
    assert_eq!(a.fates, b.fates, "the same parameters again are no change");
}

#[test]
fn changed_weights_take_effect_at_once() {
    let new = |weights| {
        BinScheme::new(DrrOrder::new(2, 1000, false), tail(10_000, 2), BinKey::Class, 2, 100_000)
            .with_weights(Weights::new(weights))
    };
    let (mut scheme, mut model) = (new(0x0101), Model::default());
    let packets: Vec<(u32, u8)> = (0..4000).map(|i| (1000, (i % 2) as u8)).collect();
    model.arrive_as(&mut scheme, &packets);
    model.ready(&mut scheme, 400);
    assert!(scheme.tune(&new(0x0301), &model));
    model.ready(&mut scheme, 400);
    let of_class_1 =
        |fates: &[ModelFate]| fates.iter().filter(|fate| matches!(fate, Sent(number) if number % 2 == 1)).count();
    assert_eq!((of_class_1(&model.fates[..400]), of_class_1(&model.fates[400..])), (200, 300));
}

#[test]
fn fq_total_backlog_rule() {
    // Each bin has less than an MTU behind its first packet, but all together have more. Late packets are dropped, except the last of a bin.
    let mut scheme = BinScheme::new(DrrOrder::new(4, 1514, true), codel(4), BinKey::Flow, 4, 1000);
    let mut model = Model::default();
    for _ in 0..400 {
        let short: Vec<u32> = (0..4).filter(|bin| model.size(QueueId(*bin)).packets < 3).collect();
        model.arrive_all(&mut scheme, short.iter().map(|bin| of(*bin, 500)));
        model.now += Nanos::millis(3);
        model.ready(&mut scheme, 1);
        assert!((0..4).all(|bin| model.size(QueueId(bin)).bytes <= Bytes::new(1514)));
    }
    assert!(model.count_fates(|fate| matches!(fate, Dropped(_))) > 0);
}

#[test]
fn pool_full_drops_longest() {
    let mut scheme = BinScheme { limit: 10, ..fair(1500, true) };
    let mut model = Model::default();
    model.arrive_all(&mut scheme, [of(0, 100); 3].into_iter().chain([of(1, 100); 7]));
    assert!(model.fates.is_empty());
    model.arrive_all(&mut scheme, [of(0, 100)].into_iter());
    assert_eq!(model.fates, [Dropped(3), Dropped(4), Dropped(5), Dropped(6)], "half of the seven, from their front");
    model.ready(&mut scheme, 99);
    assert_eq!(model.waiting(), 0);
}

#[test]
fn codel_interval_ends_when_the_last_packet_is_dropped_elsewhere() {
    let mut scheme = BinScheme::new(DrrOrder::new(4, 1500, false), codel(4), BinKey::Flow, 4, 2);
    let mut model = Model::default();
    let at = |millis| Instant::START + Nanos::millis(millis);
    model.arrive_all(&mut scheme, [of(0, 2000); 2].into_iter());
    model.now = at(6);
    // The first packet is late: the interval begins.
    model.ready(&mut scheme, 1);
    model.arrive_all(&mut scheme, [of(1, 500); 2].into_iter());
    assert_eq!(
        model.fates,
        [Sent(0), Dropped(1)],
        "there is room for two, and the longest queue loses its only packet"
    );
    model.ready(&mut scheme, 9);
    model.now = at(200);
    model.arrive_all(&mut scheme, [of(0, 2000); 2].into_iter());
    model.now = at(206);
    model.ready(&mut scheme, 9);
    assert_eq!(model.fates[2..], [Sent(2), Sent(3), Sent(4), Sent(5)], "it begins anew");
}

#[test]
fn las_serves_the_flow_with_the_least_bytes_until_it_is_empty() {
    let mut scheme = BinScheme::new(LasOrder::new(4), tail(1000, 4), BinKey::Flow, 4, 1000);
    let mut model = Model::default();
    model.arrive_all(&mut scheme, [of(0, 1000); 4].into_iter());
    model.ready(&mut scheme, 2);
    model.arrive_all(&mut scheme, [of(1, 600); 5].into_iter());
    model.ready(&mut scheme, 9);
    // Flow 1 has sent 600, 1200, 1800 and 2400 when flow 0, which had sent 2000, gets its next turn, and then 3000.
    assert_eq!(model.fates[2..], [Sent(4), Sent(5), Sent(6), Sent(7), Sent(2), Sent(8), Sent(3)]);
    model.arrive_all(&mut scheme, [of(0, 1000), of(1, 600)].into_iter());
    model.ready(&mut scheme, 9);
    assert_eq!(model.fates[9..], [Sent(9), Sent(10)], "both begin at nothing, and the first came first");
}

#[test]
fn highest_class_leaves_first_and_fifo_within_a_class() {
    let (mut scheme, mut model) = (ranked(2, 10), Model::default());
    model.arrive_as(&mut scheme, &[(100, 0), (100, 0), (100, 1), (100, 7), (100, 0)]);
    assert_eq!(Scheme::<Model>::next(&scheme, &model), Next::Ready);
    model.ready(&mut scheme, 3);
    model.arrive_as(&mut scheme, &[(100, 1)]);
    model.ready(&mut scheme, 9);
    assert_eq!(model.fates, [Sent(2), Sent(3), Sent(0), Sent(5), Sent(1), Sent(4)]);
    assert_eq!(Scheme::<Model>::next(&scheme, &model), Next::Idle);
}

#[test]
fn recount_counts_packets_that_the_link_added_or_removed() {
    let mut model = Model::default();
    let mut scheme = fair(1500, true);
    model.arrive_all(&mut scheme, [of(0, 100), of(0, 100), of(2, 100)].into_iter());
    assert!(model.drop_front(QueueId(2)).is_some());
    Scheme::<Model>::recount(&mut scheme, &model);
    assert_eq!((scheme.packets, scheme.bytes), (2, 200));
    let mut another = BinScheme::new(LasOrder::new(4), tail(1000, 4), BinKey::Flow, 4, 1000);
    Scheme::<Model>::recount(&mut another, &model);
    model.ready(&mut another, 9);
    assert_eq!(model.fates, [Dropped(2), Sent(0), Sent(1)]);
    assert_eq!(Scheme::<Model>::next(&another, &model), Next::Idle);
}

/// A reference: a list of packets with their classes, searched for each departure.
fn naive(steps: &[(Vec<(u32, u8)>, usize)], levels: u32, limit: usize) -> Vec<ModelFate> {
    let (mut waiting, mut number, mut fates): (VecDeque<(usize, u32)>, _, _) = (VecDeque::new(), 0, Vec::new());
    for (arrivals, room) in steps {
        for (_, class) in arrivals {
            let level = u32::from(*class).min(levels - 1);
            match waiting.iter().filter(|(_, l)| *l == level).count() < limit {
                true => waiting.push_back((number, level)),
                false => fates.push(Refused(number)),
            }
            number += 1;
        }
        for _ in 0..*room {
            let Some(highest) = waiting.iter().map(|(_, level)| *level).max() else { break };
            let at = waiting.iter().position(|(_, level)| *level == highest).unwrap();
            fates.push(Sent(waiting.remove(at).unwrap().0));
        }
    }
    fates
}

proptest! {
    #[test]
    fn priority_equals_linear_search(
        steps in prop::collection::vec((prop::collection::vec((1u32..100, 0u8..9), 0..20), 0usize..20), 0..12),
        levels in 2u32..=8,
        limit in 1usize..8,
    ) {
        let (mut scheme, mut model) = (ranked(levels, limit as u64), Model::default());
        for (arrivals, room) in &steps {
            model.arrive_as(&mut scheme, arrivals);
            model.ready(&mut scheme, *room);
        }
        prop_assert_eq!(model.fates, naive(&steps, levels, limit));
    }

    /// The heap picks the same bin as a search of all waiting bins.
    #[test]
    fn las_equals_linear_search(steps in prop::collection::vec((0usize..6, 0u8..3, 1u32..2000), 1..300)) {
        let (mut order, mut waiting) = (LasOrder::new(6), [None::<(u64, usize)>; 6]);
        for (time, (bin, what, length)) in steps.into_iter().enumerate() {
            match (what, waiting[bin]) {
                (0, None) => {
                    order.wake(bin, 1, &Record::default());
                    waiting[bin] = Some((0, time));
                }
                (1, Some((sent, _))) => {
                    order.sent(bin, length, 0);
                    waiting[bin] = Some((sent + u64::from(length), time));
                }
                (2, _) => {
                    order.empty(bin, 0);
                    waiting[bin] = None;
                }
                _ => {}
            }
            let least = (0..6).filter(|bin| waiting[*bin].is_some()).min_by_key(|bin| waiting[*bin]);
            prop_assert_eq!(order.pick(), least);
        }
    }
}

#[test]
fn unbounded_queues_are_bounded_by_memory_only() {
    let aqm = Aqm::of("fifo", &Values(UNBOUNDED), 4).expect("it is declared");
    let mut scheme = BinScheme::new(DrrOrder::new(4, 0, false), aqm, BinKey::Flow, 4, u32::MAX);
    let mut model = Model::default();
    model.capacity = 5;
    model.arrive_all(&mut scheme, [of(0, 100); 8].into_iter());
    assert_eq!((model.waiting(), scheme.packets), (5, 5));
}

#[test]
fn drr_rounds_are_proportional_to_weights() {
    let order = DrrOrder::new(4, 300, false);
    let mut scheme =
        BinScheme::new(order, tail(10_000, 4), BinKey::Class, 4, 100_000).with_weights(Weights::new(0x0004_0201));
    let mut model = Model::default();
    let packets: Vec<(u32, u8)> = (0..4000).map(|i| (100 + i % 7 * 200, (i % 4) as u8)).collect();
    model.arrive_as(&mut scheme, &packets);
    model.ready(&mut scheme, 1500);
    let mut sent = [0u64; 4];
    for fate in &model.fates {
        let Sent(number) = *fate else { panic!("nothing is dropped") };
        sent[usize::from(packets[number].1)] += u64::from(packets[number].0);
    }
    // The last weight, given for class 2, holds for class 3 too.
    let parts = [sent[0], sent[1] / 2, sent[2] / 4, sent[3] / 4];
    let (least, most) = (parts.iter().min().unwrap(), parts.iter().max().unwrap());
    assert!(most - least <= 300 + 1300 && *least > 50_000, "{parts:?}");
}
