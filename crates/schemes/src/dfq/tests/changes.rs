//! Changes of shares while packets wait.

use super::*;

#[test]
fn packets_of_a_new_share_do_not_overtake_those_before() {
    let mut link = Link::new(LINK, mbit(100), &[put(2, share(mbit(10), 3000, Nanos::ZERO))]);
    (0..30).for_each(|_| link.arrive(1, 1000));
    link.edit(&[put(1, share(mbit(40), 9000, Nanos::ZERO))]);
    (0..10).for_each(|_| link.arrive(1, 1000));
    link.run(&[], at(50_000));
    let numbers: Vec<usize> = link.model.fates.iter().map(|fate| fate.number()).collect();
    assert_eq!(numbers, (0..40).collect::<Vec<usize>>());
}

#[test]
fn removed_share_sends_its_packets_and_then_uses_best_effort() {
    let mut link = Link::new(LINK, mbit(100), &[put(1, share(mbit(1), 3000, Nanos::ZERO))]);
    (0..20).for_each(|_| link.arrive(1, 1000));
    link.edit(&[ShareEdit::Remove(ShareId(1))]);
    (0..20).for_each(|_| link.arrive(1, 1000));
    link.run(&[], at(50_000));
    let numbers: Vec<usize> = link.model.fates.iter().map(|fate| fate.number()).collect();
    assert_eq!(numbers, (0..40).collect::<Vec<usize>>());
    assert_eq!(link.scheme.flow_of(ShareId(1)), BEST_EFFORT);
    // Its place serves another share.
    link.edit(&[put(9, share(mbit(1), 3000, Nanos::ZERO))]);
    assert_eq!(link.scheme.flow_of(ShareId(9)), 1);
}

#[test]
fn more_shares_than_queues_are_best_effort_and_reported() {
    let mut link = Link::new(LINK, mbit(100), &[]);
    link.edit(&[1, 2, 3].map(|number| put(number, share(mbit(1), 3000, Nanos::ZERO))));
    let message = Scheme::<Model>::next_message(&mut link.scheme).expect("the operator is told");
    assert!(message.contains("all 2 queues"), "{message}");
    assert_eq!(Scheme::<Model>::next_message(&mut link.scheme), None, "once");
    link.arrive(3, 1000);
    link.run(&[], at(1000));
    assert_eq!(link.departures.len(), 1);
}

#[derive(Clone, Debug)]
enum Step {
    Put(u32, u64, u64, u64),
    Remove(u32),
    Arrive(u32, u32, usize),
    Send(usize),
    Wait(u64),
    Recount,
}

fn step() -> impl Strategy<Value = Step> {
    let share = || 1u32..9;
    prop_oneof![
        2 => (share(), 0u64..20, 100u64..9000, 0u64..9).prop_map(|(s, rate, burst, delay)| Step::Put(s, rate, burst, delay)),
        1 => share().prop_map(Step::Remove),
        4 => (0u32..10, 40u32..1500, 1usize..20).prop_map(|(share, length, count)| Step::Arrive(share, length, count)),
        3 => (1usize..30).prop_map(Step::Send),
        2 => (0u64..20_000_000).prop_map(Step::Wait),
        1 => Just(Step::Recount),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(target_arch = "x86_64") { 400 } else { 20 }))]

    #[test]
    fn no_change_loses_or_reorders_a_packet(
        steps in prop::collection::vec(step(), 1..80),
        is_strict in any::<bool>(),
        shares_first in any::<bool>(),
    ) {
        let excess = if shares_first { ExcessOrder::Shares } else { ExcessOrder::BestEffort };
        let parameters = LinkParameters { is_strict, excess, ..LINK };
        let mut link = Link::new(parameters, mbit(100), &[]);
        link.scheme = DiscretizedFairQueueing::new(parameters, fifo(6), 6);
        link.model = Model::with_queues(6);
        for step in steps {
            match step {
                Step::Put(number, rate, burst, delay) => {
                    // Without a rate it has no flow.
                    let delay = if rate > 0 { delay } else { 0 };
                    link.edit(&[put(number, share(mbit(rate), burst, Nanos::millis(delay)))]);
                }
                Step::Remove(number) => link.edit(&[ShareEdit::Remove(ShareId(number))]),
                Step::Arrive(number, length, count) => (0..count).for_each(|_| link.arrive(number, length)),
                Step::Send(room) => link.model.ready(&mut link.scheme, room),
                Step::Wait(time) => link.model.now += Nanos::new(time),
                Step::Recount => Scheme::<Model>::recount(&mut link.scheme, &link.model),
            }
            let waits = link.model.waiting() > 0;
            prop_assert_eq!(link.scheme.next(&link.model) != Next::Idle, waits);
        }
        for _ in 0..100_000 {
            link.model.ready(&mut link.scheme, 64);
            match link.scheme.next(&link.model) {
                Next::Idle => break,
                Next::At(time) => link.model.now = link.model.now.max(time),
                Next::Ready => link.model.now += Nanos::new(1000),
            }
        }
        prop_assert_eq!(link.model.waiting(), 0);
        let mut last = BTreeMap::new();
        for fate in &link.model.fates {
            prop_assert!(matches!(fate, ModelFate::Sent(_)));
            let number = fate.number();
            let before = last.insert(link.packets[number].0, number);
            prop_assert!(before.is_none_or(|before| before < number), "share {} at {}", link.packets[number].0, number);
        }
        // All that is left is the queue of best effort, and the flows of shares that have some.
        prop_assert_eq!((link.scheme.bytes, link.scheme.closing), (0, 0));
    }
}
