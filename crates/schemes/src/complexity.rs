//! The cost of a packet does not depend on the number of queues. The tests count queue accesses instead of measuring time.

use crate::aqm::Tail;
use crate::model::Model;
use crate::sched::{BinScheme, DrrOrder, ExactWf2q, GroupedWf2q, LasOrder, WfqOrder};
use crate::single::Single;
use crate::stage::Stage;
use crate::tree::{Branch, Tree};
use crate::{Layer, Next, Record, Scheme, build};
use alloc::boxed::Box;
use alloc::vec::Vec;
use proptest::prelude::*;
use units::{Bytes, Instant, Nanos};

/// A pseudo-random generator (Marsaglia, "Xorshift RNGs", 2003).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % most
    }
}

/// The most queue accesses for one arriving packet, and the mean number for a departing packet. `packets` random packets are offered, two for each
/// one that leaves. Then the queues drain.
fn max_queue_accesses(scheme: &mut dyn Scheme<Model>, packets: usize, classes: u64) -> (u64, u64) {
    let (mut model, mut numbers) = (Model::with_queues(scheme.queues() as usize), Numbers(7));
    let (mut arrival, mut departure) = (0, 0);
    for number in 0..packets {
        let (flow_hash, length) = (numbers.below(1 << 32) as u32, 64 + numbers.below(1400) as u32);
        let record = Record { flow_hash, length, class: numbers.below(classes) as u8, ..Record::default() };
        model.queue_accesses.set(0);
        model.arrive_all(&mut *scheme, [record].into_iter());
        arrival = model.queue_accesses.take().max(arrival);
        if number % 2 == 0 {
            model.ready(&mut *scheme, 1);
            departure += model.queue_accesses.take();
        }
        model.now += Nanos::micros(1);
    }
    while scheme.next(&model) == Next::Ready && model.waiting() > 0 {
        model.queue_accesses.set(0);
        model.ready(&mut *scheme, 1);
        departure += model.queue_accesses.take();
    }
    (arrival, departure.div_ceil(packets as u64))
}

fn ordered(name: &str, flows: u64) -> Box<dyn Scheme<Model>> {
    let order = crate::ORDERS.iter().find(|order| order.declaration.name == name).expect("it is declared");
    let value = |option: &units::declare::OptionDeclaration| match option.name {
        "flows" => (option.name, flows),
        // Small enough that the limit is reached, and large enough for one packet in each queue.
        "limit" => (option.name, flows),
        "rate" => (option.name, 1 << 40),
        _ => (option.name, option.unit.read(option.default).expect("defaults are checked")),
    };
    let options: Vec<_> = order.declaration.options.iter().map(value).collect();
    let fifo = [("limit", 1_000_000), ("bytes", 1 << 40), ("drop", 0), ("unbounded", 0)];
    let inside = [Layer { name: "fifo", options: &fifo, inside: Vec::new() }].into();
    build(&Layer { name: order.declaration.name, options: &options, inside }).expect("it is declared")
}

#[test]
fn queue_accesses_per_packet_do_not_grow_with_the_number_of_queues() {
    for name in ["fq", "drr", "sfq", "las", "wfq", "wf2q", "cake"] {
        let most =
            [10, 1000, 100_000].map(|flows| max_queue_accesses(&mut *ordered(name, flows), 4 * flows as usize, 1));
        for (arrival, departure) in most {
            // Near the limit a packet enters up to ten bins and drops 64 packets at once, with two accesses each. Ten bins are few enough to be
            // scanned.
            assert!(arrival <= 200 && departure <= 12, "{name}: {most:?} at 10, 1000 and 100,000 queues");
        }
        assert!(most[2].0 <= most[1].0 * 2 && most[2].1 <= most[1].1 * 2, "{name}: {most:?}");
    }
}

/// A tree with sixteen branches at each of `levels` levels, and FIFO leaves.
fn tree(levels: u32) -> Tree<Model> {
    let width = 16;
    let inside = || -> Box<dyn Stage<Model>> {
        match levels {
            1 => Box::new(Single::new(Tail { limit: 1000, bytes: Bytes::new(1 << 30) })),
            // A packet's class selects one of the sixteen branches at the top. All leaves of a class are below one branch.
            _ => Box::new(tree(levels - 1)),
        }
    };
    Tree::new((0..width).map(|class| Branch::new(inside(), class, 1 + u32::from(class), None)).collect())
}

#[test]
fn queue_accesses_in_a_tree_grow_with_levels_not_leaves() {
    let most = [1, 2, 3].map(|levels| {
        let mut tree = tree(levels);
        assert_eq!(Scheme::<Model>::queues(&tree), 16u32.pow(levels));
        max_queue_accesses(&mut tree, 4000, 16)
    });
    for (levels, (arrival, departure)) in (1..).zip(most) {
        assert!(arrival <= 4 * levels && departure <= 24 * levels, "{most:?} at 16, 256 and 4096 leaves");
    }
}

/// Two schemes of the same order and bins: the first keeps a structure of the longest queues, the second searches all of them.
fn with_and_without_heap(which: usize, bins: usize, limit: u32) -> [Box<dyn Scheme<Model>>; 2] {
    fn pair<O: crate::sched::BinOrder + 'static>(
        make: impl Fn() -> O,
        bins: usize,
        limit: u32,
    ) -> [Box<dyn Scheme<Model>>; 2] {
        [false, true]
            .map(|searches| -> Box<dyn Scheme<Model>> { Box::new(BinScheme::unmanaged(make(), bins, limit, searches)) })
    }
    match which {
        0 => pair(|| DrrOrder::new(bins, 1500, true), bins, limit),
        1 => pair(|| LasOrder::new(bins), bins, limit),
        2 => pair(|| WfqOrder::new(bins), bins, limit),
        3 => pair(|| ExactWf2q::new(bins), bins, limit),
        _ => pair(|| GroupedWf2q::new(bins), bins, limit),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The oracle scans all bins whenever the limit is exceeded.
    #[test]
    fn longest_queue_drop_equals_search_of_all_queues(
        (which, bins, limit) in (0usize..5, 65usize..300, 1u32..200),
        (seed, rounds) in (1u64.., prop::collection::vec((0usize..60, 0usize..60, 1u64..300, 0u8..45), 1..60)),
    ) {
        let [mut kept, mut searched] = with_and_without_heap(which, bins, limit);
        let [mut one, mut other] = [(); 2].map(|()| Model::with_queues(bins));
        let mut numbers = Numbers(seed);
        for (arrive, leave, flows, more) in rounds {
            let arrivals: Vec<Record> = (0..arrive).map(|_| {
                let flow_hash = (numbers.below(flows) as u32).wrapping_mul(0x9e37_79b9);
                let more = if limit >= 100 { numbers.below(1 + u64::from(more)) as u8 } else { 0 };
                let length = (64 + numbers.below(3) as u32 * 500) * (1 + u32::from(more));
                Record { flow_hash, length, more: more.into(), ..Record::default() }
            }).collect();
            one.arrive_all(&mut *kept, arrivals.iter().copied());
            other.arrive_all(&mut *searched, arrivals.into_iter());
            one.ready(&mut *kept, leave);
            other.ready(&mut *searched, leave);
            prop_assert_eq!(&one.fates, &other.fates);
            if numbers.below(20) == 0 {
                // As after packets of another scheme were moved here.
                kept.recount(&one);
                searched.recount(&other);
            }
        }
        while one.waiting() > 0 {
            one.ready(&mut *kept, 9);
            other.ready(&mut *searched, 9);
        }
        prop_assert_eq!(&one.fates, &other.fates);
        prop_assert_eq!(one.now, Instant::START);
    }
}
