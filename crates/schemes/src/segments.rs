//! Super-frames count as their segments: the limits of a queue hold for segments.

use crate::model::Model;
use crate::{DECLARATIONS, Layer, ORDERS, Record, SEGMENTS, Scheme, Size, Wires, build};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;
use units::declare::{Declaration, Inside};
use units::{QueueId, Rate};

/// The limit of each queue and of each order of queues, in packets.
const LIMIT: u32 = 300;
const FAST: Rate = Rate::bits(10_000_000_000);

/// A scheme with its name, and the bound on the packets in all its queues.
type NamedScheme = (String, Box<dyn Scheme<Model>>, Option<u32>);

/// The default options of a scheme, except `limit` and the rates.
fn options(declaration: &Declaration, rate: Rate, limit: u32) -> Vec<(&'static str, u64)> {
    let value = |option: &units::declare::OptionDeclaration| match option.name {
        "limit" => limit.into(),
        "rate" | "ceiling" => rate.get(),
        _ => option.unit.read(option.default).expect("defaults are checked"),
    };
    declaration.options.iter().map(|option| (option.name, value(option))).collect()
}

/// Every management alone and in every order, with this rate if it has one. Each with the bound on the packets in all its queues.
fn all_schemes(rate: Rate, limit: u32) -> Vec<NamedScheme> {
    let mut all = Vec::new();
    for managed in DECLARATIONS {
        let own = options(managed, rate, limit);
        let manager = || Layer { name: managed.name, options: &own, inside: Vec::new() };
        all.push((managed.name.into(), build(&manager()).expect("it is declared"), Some(limit)));
        for order in ORDERS {
            let outer = options(&order.declaration, rate, limit);
            let together = outer.iter().any(|(name, _)| *name == "limit").then_some(limit);
            let branch;
            let inside = match order.inner {
                Inside::Manager | Inside::Any | Inside::Leaves | Inside::Flows => manager(),
                Inside::Branches(inner, _) => {
                    branch = options(&inner.declaration, rate, limit);
                    Layer { name: inner.declaration.name, options: &branch, inside: [manager()].into() }
                }
            };
            let whole = Layer { name: order.declaration.name, options: &outer, inside: [inside].into() };
            let name = alloc::format!("{}{{{}}}", order.declaration.name, managed.name);
            // Each tin has a limit of its own.
            let together = together.filter(|_| order.declaration.name != "cake");
            all.push((name, build(&whole).expect("it is declared"), together));
        }
    }
    all
}

/// The packets that a scheme receives for one super-frame.
fn given(scheme: &dyn Scheme<Model>, rate: Rate, whole: Record) -> impl Iterator<Item = Record> {
    let split = scheme.splits_super_frames(rate);
    let (count, packets) = if split { (whole.packets(), 1) } else { (1, whole.packets()) };
    let each = Record { length: whole.length / whole.packets() * packets, more: packets - 1, ..whole };
    (0..count).map(move |_| each)
}

#[test]
fn super_frames_are_split_on_links_that_need_a_millisecond_for_one() {
    let splits = |rate, link| {
        let all = all_schemes(rate, 1000).into_iter();
        all.map(|(name, scheme, _)| (name, scheme.splits_super_frames(link))).collect::<Vec<_>>()
    };
    let has_rate = |name: &str| ["shape", "share", "dfq", "tree", "cake"].iter().any(|outer| name.starts_with(outer));
    for (name, splits) in splits(Rate::mbit(10), FAST) {
        assert_eq!(splits, has_rate(&name) || name.contains("choke"), "{name} on a fast link, its shaper at 10 Mbit/s");
    }
    for (name, splits) in splits(FAST, Rate::mbit(500)) {
        assert!(splits, "{name} on a link of 500 Mbit/s");
    }
    for (name, splits) in splits(FAST, Rate::MAX) {
        let always = name.starts_with("share") || name.starts_with("dfq");
        assert_eq!(splits, name.contains("choke") || always, "{name} where all is fast");
    }
    for (name, scheme, _) in all_schemes(FAST, SEGMENTS - 1) {
        assert!(scheme.splits_super_frames(FAST), "one might not fit the queues of {name}");
    }
}

#[test]
fn super_frame_is_admitted_to_an_empty_queue() {
    for (name, mut scheme, _) in all_schemes(FAST, LIMIT) {
        let mut model = Model::with_queues(scheme.queues() as usize);
        model.rate = FAST;
        if scheme.splits_super_frames(FAST) {
            continue;
        }
        // 45 segments with 1460 bytes of payload are a super-frame of 64 KB.
        let whole = Record { length: 45 * 1500, more: 44, ecn: 1, ..Record::default() };
        model.arrive_all(&mut *scheme, [whole].into_iter());
        model.ready(&mut *scheme, 1);
        assert_eq!(model.fates, [crate::model::ModelFate::Sent(0)], "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(target_arch = "x86_64") { 20 } else { 2 }))]

    #[test]
    fn queues_of_super_frames_hold_no_more_segments_than_queues_of_packets(
        rounds in prop::collection::vec((prop::collection::vec((0u8..45, 0u32..5, 0u8..4), 0..40), 0usize..20), 1..30),
    ) {
        for (name, mut scheme, together) in all_schemes(FAST, LIMIT) {
            let mut model = Model::with_queues(scheme.queues() as usize);
            model.rate = FAST;
            for (arrivals, room) in &rounds {
                for &(more, flow, class) in arrivals {
                    let flow_hash = flow.wrapping_mul(0x9e37_79b9);
                    let length = 1500 * (1 + u32::from(more));
                    let whole = Record { length, more: more.into(), flow_hash, class, source: flow, ..Record::default() };
                    let packets: Vec<Record> = given(&*scheme, FAST, whole).collect();
                    model.arrive_all(&mut *scheme, packets.into_iter());
                    let sizes = (0..scheme.queues()).map(|queue| model.size(QueueId(queue)));
                    let (mut all, mut most) = (Size::default(), 0);
                    for size in sizes {
                        all = Size { packets: all.packets + size.packets, bytes: all.bytes + size.bytes };
                        most = most.max(size.packets);
                    }
                    prop_assert!(most <= LIMIT, "{name} holds {most} segments in one queue");
                    prop_assert!(together.is_none_or(|limit| all.packets <= limit), "{name} holds {all:?}");
                    prop_assert_eq!(all.bytes.get(), u64::from(all.packets) * 1500);
                }
                model.ready(&mut *scheme, *room);
            }
        }
    }
}
