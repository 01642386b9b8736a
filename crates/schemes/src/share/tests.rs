use super::*;
use crate::model::{Model, ModelFate};
use alloc::collections::BTreeMap;
use proptest::prelude::*;
use units::{Bytes, Nanos};

/// The most leaves with packets.
const LEAVES: u32 = 64;

pub(super) fn settings(parent: u32) -> ShareParameters {
    ShareParameters { parent: ShareId(parent), burst: Bytes::new(20_000), ..ShareParameters::default() }
}

pub(super) fn put(share: u32, settings: ShareParameters) -> ShareEdit {
    ShareEdit::Put(ShareId(share), settings)
}

fn mbit(megabits: u64) -> Rate {
    Rate::mbit(megabits)
}

/// A link with a tree whose leaves are drop-tail queues.
pub(super) struct Link {
    pub tree: ShareTree<Model>,
    pub model: Model,
    rate: Rate,
    /// By packet number: its share and its length.
    pub packets: Vec<(u32, u32)>,
    waiting: BTreeMap<u32, usize>,
    seen: usize,
}

fn tree(leaves: u32, rate: u64) -> ShareTree<Model> {
    let fifo = [("limit", 65_536), ("bytes", 1 << 40), ("drop", 0), ("unbounded", 1)];
    let inside = Layer { name: "fifo", options: &fifo, inside: Vec::new() };
    let options = [
        ("rate", rate),
        ("burst", 2000),
        ("overhead", 0),
        ("minimum", 0),
        ("cells", 0),
        ("leaves", leaves.into()),
        ("quantum", 1514),
    ];
    of(&Values(&options), &inside, crate::build::managed_alone).expect("all options are there")
}

impl Link {
    pub fn new(rate: Rate, edits: &[ShareEdit]) -> Link {
        let (tree, model) = (tree(LEAVES, 0), Model::with_queues(2 * LEAVES as usize));
        let mut link = Link { tree, model, rate, packets: Vec::new(), waiting: BTreeMap::new(), seen: 0 };
        link.edit(edits);
        link
    }

    pub fn edit(&mut self, edits: &[ShareEdit]) {
        self.tree.edit_shares(&ShareEdits(edits.into()), &self.model);
        self.tree.assert_consistent(&self.model);
    }

    pub fn arrive(&mut self, packets: &[(u32, u32)]) {
        self.packets.extend(packets);
        packets.iter().for_each(|(share, _)| *self.waiting.entry(*share).or_default() += 1);
        let records =
            packets.iter().map(|&(share, length)| Record { length, queue: QueueId(share), ..Record::default() });
        self.model.arrive_all(&mut self.tree, records);
    }

    /// The link sends for a time. Each of `kinds`, a share and a length of packets, always has packets waiting. Returns the bytes of each share.
    fn run(&mut self, time: Nanos, kinds: &[(u32, u32)]) -> BTreeMap<u32, u64> {
        let end = self.model.now + time;
        let mut sent = BTreeMap::new();
        while self.model.now < end {
            for &(share, length) in kinds {
                if self.waiting.get(&share).is_none_or(|waiting| *waiting < 20) {
                    self.arrive(&[(share, length); 20]);
                }
            }
            self.model.ready(&mut self.tree, 1);
            let mut bytes = 0;
            for fate in &self.model.fates[self.seen..] {
                let (share, length) = self.packets[fate.number()];
                *self.waiting.entry(share).or_default() -= 1;
                if let ModelFate::Sent(_) = fate {
                    *sent.entry(share).or_default() += u64::from(length);
                    bytes += u64::from(length);
                }
            }
            self.seen = self.model.fates.len();
            self.model.now = match self.tree.next(&self.model) {
                _ if bytes > 0 => self.model.now + Nanos::new(bytes * 8_000_000_000 / self.rate.get()),
                Next::At(time) => time.max(self.model.now),
                Next::Ready => self.model.now + Nanos::new(100),
                Next::Idle => end,
            };
        }
        sent
    }

    /// Asserts the rate of each share in Mbit/s, to 1 %.
    fn assert_rates(&mut self, kinds: &[(u32, u32)], expected: &[(u32, f64)]) {
        self.run(Nanos::millis(200), kinds);
        let sent = self.run(Nanos::secs(1), kinds);
        let rate = |share: u32| sent.get(&share).copied().unwrap_or(0) as f64 * 8e-6;
        let found: Vec<(u32, f64)> = expected.iter().map(|(share, _)| (*share, rate(*share))).collect();
        for ((share, expected), (_, found_rate)) in expected.iter().zip(&found) {
            assert!((found_rate - expected).abs() <= 0.01 * expected + 0.02, "share {share}: {found:?}");
        }
    }
}

#[test]
fn excess_is_divided_by_weight_below_the_ceilings() {
    let link = |ceiling: u64| {
        Link::new(
            mbit(100),
            &[
                put(1, ShareParameters { rate: mbit(10), ..settings(0) }),
                put(2, ShareParameters { rate: mbit(20), weight: 3, ..settings(0) }),
                put(3, ShareParameters { ceiling: Some(mbit(ceiling)), ..settings(0) }),
            ],
        )
    };
    let kinds = [(1, 1500), (2, 1000), (3, 300)];
    // The excess of 70 Mbit/s in parts of 1, 3 and 1.
    link(50).assert_rates(&kinds, &[(1, 24.0), (2, 62.0), (3, 14.0)]);
    link(10).assert_rates(&kinds, &[(1, 25.0), (2, 65.0), (3, 10.0)]);
    // The guarantee holds if the excess is small, and unused guarantees go to the others.
    link(50).assert_rates(&[(2, 1000), (3, 300)], &[(2, 80.0), (3, 20.0)]);
}

#[test]
fn late_service_loses_no_rate_while_packets_wait() {
    // 100 us at 8 Gbit/s are 100 packets of 1000 bytes. The burst is two of them.
    let (mut tree, mut model) = (tree(LEAVES, 8_000_000_000), Model::with_queues(2 * LEAVES as usize));
    tree.edit_shares(&ShareEdits([put(1, settings(0))].into()), &model);
    let records = (0..900).map(|_| Record { length: 1000, queue: QueueId(1), ..Record::default() });
    model.arrive_all(&mut tree, records);
    let mut serve = |after: Nanos| {
        model.now += after;
        let before = model.fates.len();
        model.ready(&mut tree, 999);
        model.fates.len() - before
    };
    // A turn is charged when it ends, after two packets.
    let sent = [Nanos::millis(9), Nanos::micros(100), Nanos::micros(100), Nanos::micros(100)].map(&mut serve);
    assert!((2..=4).contains(&sent[0]) && sent[1..].iter().all(|sent| (98..=102).contains(sent)), "{sent:?}");
}

/// The borrowing example of the HTB manual (Devera, "HTB Linux queuing discipline manual", section 3): a link of 100 for customers A (40, divided into 30 for
/// web and 10 for mail) and B (60). Mail gets what web leaves of A's rate, and A and B divide what the other leaves.
#[test]
fn borrowing_follows_the_published_example_of_htb() {
    let (a, web, mail, b) = (1, 2, 3, 4);
    let share = |parent, rate: u64, ceiling: u64, weight| {
        let (rate, ceiling) = (Rate::bits(rate * 8000), Some(Rate::bits(ceiling * 8000)));
        ShareParameters { rate, ceiling, weight, ..settings(parent) }
    };
    let link = || {
        Link::new(
            mbit(100),
            &[
                put(10, share(0, 100, 100, 100)),
                put(a, share(10, 40, 100, 40)),
                put(web, share(a, 30, 100, 30)),
                put(mail, share(a, 10, 100, 10)),
                put(b, share(10, 60, 100, 60)),
            ],
        )
    };
    // In Mbit/s: the manual's kilobytes per second times 8000.
    let k = |rate: f64| rate * 0.008;
    let (all, w, m) = ([(web, 500), (mail, 500), (b, 500)], (web, 500), (mail, 500));
    link().assert_rates(&all, &[(web, k(30.0)), (mail, k(10.0)), (b, k(60.0))]);
    link().assert_rates(&[m, (b, 500)], &[(mail, k(40.0)), (b, k(60.0))]);
    link().assert_rates(&[w, m], &[(web, k(75.0)), (mail, k(25.0))]);
    link().assert_rates(&[(b, 500)], &[(b, k(100.0))]);
}

#[test]
fn each_of_eight_levels_is_exact() {
    // A chain of sites, each with a subscriber of its own. Every level keeps a quarter of its rate for that.
    let mut edits = Vec::new();
    let mut rate = 800_000_000.0_f64;
    for level in 1..8 {
        let settings_of = |parent, rate: f64| ShareParameters {
            rate: Rate::bits(rate as u64),
            ceiling: Some(Rate::bits(rate as u64)),
            ..settings(parent)
        };
        edits.push(put(level, settings_of(level - 1, rate)));
        edits.push(put(100 + level, settings_of(level, rate / 4.0)));
        rate *= 0.75;
    }
    edits.push(put(200, settings(7)));
    let mut link = Link::new(Rate::mbit(1000), &edits);
    let kinds: Vec<(u32, u32)> = (101..108).chain([200]).map(|share| (share, 100 + 7 * (share % 200))).collect();
    let expected = |level: i32| 200.0 * 0.75_f64.powi(level - 1);
    let mut rates: Vec<(u32, f64)> = (1..8).map(|level| (100 + level as u32, expected(level))).collect();
    rates.push((200, 800.0 * 0.75_f64.powi(7)));
    link.assert_rates(&kinds, &rates);
}

#[test]
fn first_priority_gets_all_excess_but_no_guarantee_of_others() {
    let mut link = Link::new(
        mbit(100),
        &[
            put(1, ShareParameters { priority: 1, rate: mbit(10), ..settings(0) }),
            put(2, ShareParameters { priority: 0, ceiling: Some(mbit(70)), ..settings(0) }),
            put(3, ShareParameters { priority: 2, ..settings(0) }),
        ],
    );
    let kinds = [(1, 1500), (2, 200), (3, 1500)];
    link.assert_rates(&kinds, &[(1, 30.0), (2, 70.0), (3, 0.0)]);
    link.edit(&[put(2, ShareParameters { priority: 0, ..settings(0) })]);
    link.assert_rates(&kinds, &[(1, 10.0), (2, 90.0)]);
}

#[test]
fn unused_rate_is_shared_within_fifty_milliseconds() {
    let share = |weight| ShareParameters { weight, rate: mbit(30), ..settings(0) };
    let mut link = Link::new(mbit(100), &[put(1, share(1)), put(2, share(1)), put(3, share(3))]);
    link.run(Nanos::millis(300), &[(1, 1500), (2, 1500), (3, 1500)]);
    // The packets of share 3 that wait leave within a few milliseconds.
    link.run(Nanos::millis(5), &[(1, 1500), (2, 1500)]);
    let sent = link.run(Nanos::millis(50), &[(1, 1500), (2, 1500)]);
    let rates: Vec<f64> = [1, 2].iter().map(|share| sent[share] as f64 * 8e-6 / 0.05).collect();
    assert!(rates.iter().all(|rate| (rate - 50.0).abs() < 1.5), "{rates:?}");
}

#[test]
fn idle_share_gets_no_credit_for_its_idle_time() {
    let mut link = Link::new(mbit(100), &[put(1, settings(0)), put(2, settings(0))]);
    link.run(Nanos::millis(100), &[(1, 1000), (2, 1000)]);
    link.run(Nanos::millis(500), &[(1, 1000)]);
    let sent = link.run(Nanos::millis(100), &[(1, 1000), (2, 1000)]);
    assert!(sent[&1].abs_diff(sent[&2]) <= 4000, "{sent:?}");
}

#[test]
fn packets_without_a_share_use_the_default_leaf() {
    let mut link = Link::new(mbit(100), &[put(1, settings(0)), put(2, settings(1))]);
    // Share 7 is not in the tree, and share 1 has a child.
    link.assert_rates(&[(0, 1000), (7, 1000), (1, 1000), (2, 1000)], &[(2, 50.0)]);
}

#[test]
fn removed_leaf_sends_its_packets_and_then_uses_the_default_leaf() {
    let slow = ShareParameters { ceiling: Some(mbit(1)), ..settings(0) };
    let mut link = Link::new(mbit(100), &[put(1, slow)]);
    link.arrive(&[(1, 1000); 40]);
    link.run(Nanos::millis(1), &[]);
    link.edit(&[ShareEdit::Remove(ShareId(1))]);
    assert_eq!(link.tree.nodes.node_of(ShareId(1)), None);
    link.arrive(&[(1, 1000); 10]);
    link.run(Nanos::millis(10), &[]);
    let sent: Vec<usize> = link.model.fates.iter().map(|fate| fate.number()).collect();
    assert_eq!(sent, (0..50).collect::<Vec<usize>>(), "all packets leave in order, without the ceiling");
    // Its place is free, and its packets go to the default leaf.
    assert_eq!(link.tree.nodes.leaf_of(ShareId(1)), node::DEFAULT);
    link.assert_rates(&[(1, 1000)], &[(1, 100.0)]);
}

#[test]
fn leaf_with_packets_becomes_a_branch_and_a_leaf_again() {
    let mut link = Link::new(mbit(10), &[put(1, ShareParameters { ceiling: Some(mbit(5)), ..settings(0) })]);
    link.arrive(&[(1, 1000); 30]);
    link.edit(&[put(2, settings(1))]);
    link.arrive(&[(2, 1000); 3]);
    link.run(Nanos::millis(200), &[]);
    link.tree.assert_consistent(&link.model);
    assert_eq!(link.model.count_fates(|fate| matches!(fate, ModelFate::Sent(_))), 33);
    assert_eq!(link.tree.nodes.leaf_of(ShareId(1)), node::DEFAULT);
    link.edit(&[ShareEdit::Remove(ShareId(2))]);
    assert_ne!(link.tree.nodes.leaf_of(ShareId(1)), node::DEFAULT);
    link.assert_rates(&[(1, 1000)], &[(1, 5.0)]);
}

#[test]
fn lone_packet_passes_only_schemes_without_ranks() {
    let fifo = [("limit", 10), ("bytes", 1 << 40), ("drop", 0), ("unbounded", 1)];
    let plain = || Layer { name: "fifo", options: &fifo, inside: Vec::new() };
    let ranked = Layer { name: "priority", options: &[("levels", 3)], inside: [plain()].into() };
    let passes = |layer: &Layer<'_>| {
        LeafSchemes::<Model>::new(layer, 4, crate::build::managed_alone).map(|leaves| leaves.passes_lone())
    };
    assert_eq!((passes(&plain()), passes(&ranked)), (Ok(true), Ok(false)));
}

#[test]
fn more_leaves_than_schemes_take_turns_and_excess_packets_are_refused() {
    let edits: Vec<ShareEdit> = (1..200).map(|share| put(share, settings(0))).collect();
    let mut link = Link::new(mbit(1000), &edits);
    for share in 1..200 {
        link.arrive(&[(share, 1000)]);
        link.run(Nanos::micros(50), &[]);
    }
    assert_eq!(link.model.count_fates(|fate| matches!(fate, ModelFate::Sent(_))), 199);
    assert!(link.tree.leaves.lent() <= LEAVES as usize);
    (1..200).for_each(|share| link.arrive(&[(share, 1000)]));
    let refused = link.model.count_fates(|fate| matches!(fate, ModelFate::Refused(_)));
    assert_eq!((refused, link.tree.refused), (199 - LEAVES as usize, 199 - u64::from(LEAVES)));
    let message = Scheme::<Model>::next_message(&mut link.tree).expect("the operator is told");
    assert!(message.contains("all 64 leaves"), "{message}");
    assert_eq!(Scheme::<Model>::next_message(&mut link.tree), None, "once");
}

impl ShareTree<Model> {
    /// Asserts what holds for the tables between two calls.
    fn assert_consistent(&self, model: &Model) {
        let Nodes { all, .. } = &self.nodes;
        for (place, node) in all.iter().enumerate() {
            let place = place as u32;
            if place != ROOT && node.parent == NONE {
                continue;
            }
            let below = |child: &u32| all[*child as usize].parent == place;
            let children: Vec<u32> = (0..all.len() as u32).filter(below).collect();
            let ready = children.iter().filter(|child| all[**child as usize].ready).count();
            let counted = self.nodes.branches.get(node.branch as usize).map_or(0, |branch| branch.ready);
            assert_eq!(counted as usize, ready, "ready children of {place}");
            let only = self.nodes.branches.get(node.branch as usize).map_or(NONE, |branch| branch.only);
            assert!(only == NONE || counted == 1, "only child of {place}");
            assert_eq!(node.branch == NONE, children.is_empty(), "branch of {place}");
            if node.scheme != NONE {
                assert_eq!(self.leaves.node_of(node.scheme), place);
                let packets = self.leaves.queues_of(node.scheme).map(|queue| model.size(queue).packets).sum::<u32>();
                assert_eq!(node.busy, packets > 0, "packets of {place}");
                assert!(children.is_empty(), "only a leaf has a scheme");
            }
            if node.ready && place != ROOT {
                let branch = &self.nodes.branches[all[node.parent as usize].branch as usize];
                let only = branch.only == place;
                assert!(only || node.in_excess || node.in_guaranteed, "node {place} is in the order");
                assert!(!only || branch.ready == 1);
            }
            assert_eq!(node.timer_runs, self.wheel.contains(place), "timer of {place}");
            let waits = self.present_backlog(place, model) != Next::Idle;
            assert!(!waits || node.ready || self.wheel.contains(place), "node {place} is ready or has a timer");
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(u32, u32, u8, u8),
    Remove(u32),
    Arrive(u32, u32, usize),
    Send(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let share = || 1u32..9;
    prop_oneof![
        2 => (share(), 0u32..9, 0u8..4, 0u8..4).prop_map(|(share, parent, rate, ceiling)| Step::Put(share, parent, rate, ceiling)),
        1 => share().prop_map(Step::Remove),
        4 => (0u32..10, 40u32..1500, 1usize..20).prop_map(|(share, length, count)| Step::Arrive(share, length, count)),
        3 => (1usize..30).prop_map(Step::Send),
        2 => (0u64..20_000_000).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(target_arch = "x86_64") { 400 } else { 20 }))]

    #[test]
    fn no_change_loses_or_reorders_a_packet(steps in prop::collection::vec(step(), 1..80)) {
        let mut link = Link::new(mbit(100), &[]);
        // The tree as the control side knows it.
        let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Put(share, parent, rate, ceiling) => {
                    let above = core::iter::successors(Some(parent), |share| parents.get(share).copied());
                    let known = parent == 0 || parents.contains_key(&parent);
                    if !known || above.take(9).any(|above| above == share) {
                        continue;
                    }
                    parents.insert(share, parent);
                    link.edit(&[put(share, ShareParameters {
                        rate: mbit(rate.into()),
                        ceiling: (ceiling > 0).then(|| mbit(u64::from(ceiling) * 5)),
                        weight: u32::from(rate) * 7 + 1,
                        priority: ceiling % 2,
                        ..settings(parent)
                    })]);
                }
                Step::Remove(share) => {
                    if parents.contains_key(&share) && !parents.values().any(|parent| *parent == share) {
                        parents.remove(&share);
                        link.edit(&[ShareEdit::Remove(ShareId(share))]);
                    }
                }
                Step::Arrive(share, length, count) => {
                    for _ in 0..count {
                        link.arrive(&[(share, length)]);
                    }
                }
                Step::Send(room) => link.model.ready(&mut link.tree, room),
                Step::Wait(time) => link.model.now += Nanos::new(time),
            }
            link.tree.assert_consistent(&link.model);
        }
        // All packets leave, as fast as the ceilings allow.
        for _ in 0..100_000 {
            link.model.ready(&mut link.tree, 64);
            match link.tree.next(&link.model) {
                Next::Idle => break,
                Next::At(time) => link.model.now = link.model.now.max(time),
                Next::Ready => link.model.now += Nanos::new(1000),
            }
            link.tree.assert_consistent(&link.model);
        }
        prop_assert_eq!(link.model.waiting(), 0);
        // Packets of a share leave in order, also over changes.
        let mut last = BTreeMap::new();
        for fate in &link.model.fates {
            prop_assert!(matches!(fate, ModelFate::Sent(_)));
            let number = fate.number();
            let before = last.insert(link.packets[number].0, number);
            prop_assert!(before.is_none_or(|before| before < number), "share {} at {}", link.packets[number].0, number);
        }
    }
}
