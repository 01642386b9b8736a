//! End systems and routers together: results of computations over links with loss.

use super::{Place, packet, part_of};
use crate::host::{
    Action, Alarm, Attempts, Computation, GroupRoot, LifetimeTooShort, Mean, MeanController, MeanReporter, MeanRounds,
    Member, Reporter, RoundController, RoundOutcome, Schedule,
};
use crate::isa::{Opcode, Operator, StateInstruction};
use crate::site::{InstructionFate, Location};
use crate::store::{LIFETIME, StoreSpec, mix};
use crate::wire::{Locations, Part};
use std::ops::Range;
use units::{Instant, Nanos};

const START: Instant = Instant::new(5_000_000_000);
const DELAY: Nanos = Nanos::millis(50);

/// A tree: members below leaf routers, one router between these and the root. Packets arrive without delay or are lost.
struct Tree {
    leaves: Vec<Place>,
    top: Place,
    /// Lost packets per thousand on each link.
    lost: u64,
    drawn: u64,
    /// A leaf router that forwards nothing during this time.
    down: Option<(usize, Range<Instant>)>,
}

impl Tree {
    fn new(leaves: usize, lost: u64) -> Tree {
        let router = |node| {
            let mut place = Place::new(StoreSpec::of(10_000));
            place.rules.node = node;
            place
        };
        Tree {
            leaves: (0..leaves as u64).map(|n| router(100 + n)).collect(),
            top: router(1),
            lost,
            drawn: 0,
            down: None,
        }
    }

    fn loses(&mut self) -> bool {
        self.drawn += 1;
        let z = self.drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ z >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ z >> 32) % 1000 < self.lost
    }

    /// The part that reaches the root when a member below this leaf sends one.
    fn up(&mut self, leaf: usize, now: Instant, part: &Part) -> Option<Part> {
        if self.down.as_ref().is_some_and(|(down, time)| *down == leaf && time.contains(&now)) {
            return None;
        }
        let mut bytes = packet(part);
        let lost = [self.loses(), self.loses(), self.loses()];
        for (router, lost) in [&mut self.leaves[leaf], &mut self.top].into_iter().zip(lost) {
            router.now = now;
            if lost || router.pass(Location::Input, &mut bytes) != InstructionFate::Forwarded {
                return None;
            }
        }
        (!lost[2]).then(|| part_of(&bytes))
    }
}

fn schedule() -> Schedule {
    Schedule::plan(START, LIFETIME, (DELAY, Nanos::millis(10)), 12).unwrap()
}

/// Collects `value` of all members. Returns the outcome and the number of packets at the root.
fn collect(tree: &mut Tree, members: u64, operator: Operator, value: impl Fn(u64) -> u64) -> (RoundOutcome, u64) {
    let (outcome, root) = attempt(tree, Attempts::ONE, (members, operator), value);
    (outcome, root.packets())
}

/// The same with repeated rounds. Returns the root too.
fn attempt(
    tree: &mut Tree,
    attempts: Attempts,
    (members, operator): (u64, Operator),
    value: impl Fn(u64) -> u64,
) -> (RoundOutcome, RoundController) {
    let (round, schedule) = (Computation::seeded([1, 2]).round(0, operator), schedule());
    let member = |n| Reporter::new(round, schedule, mix(n, 77), value(n)).repeated(attempts);
    let mut root = RoundController::new(round, schedule).repeated(attempts);
    let outcome = play(tree, (0..members).map(member).collect(), &mut root);
    (outcome, root)
}

/// Runs a root and its members, which are below the leaves of the tree in turn.
fn play<R: GroupRoot>(tree: &mut Tree, mut group: Vec<impl Member>, root: &mut R) -> R::Outcome {
    let (mut now, leaves) = (START, tree.leaves.len());
    loop {
        let mut next = match root.poll(now) {
            Action::Over(outcome) => return outcome,
            Action::Wait(until) => until,
            Action::Send(_) => panic!("a root sends nothing"),
        };
        for (n, member) in group.iter_mut().enumerate() {
            loop {
                match member.poll(now) {
                    Action::Send(part) => {
                        if let Some(part) = tree.up(n % leaves, now, &part) {
                            root.received(&part);
                        }
                    }
                    Action::Wait(until) => {
                        next = next.min(until);
                        break;
                    }
                    Action::Over(()) => break,
                }
            }
        }
        now = next;
    }
}

#[test]
fn group_size_is_exact_and_the_root_receives_few_packets() {
    let (size, packets) = collect(&mut Tree::new(8, 0), 100, Operator::Add, |_| 1);
    assert_eq!(size, RoundOutcome::Complete(100));
    assert!(packets <= 14, "{packets} packets of {}", 100 * 2);
}

#[test]
fn lost_packets_are_repaired_and_the_result_is_exact() {
    for lost in [10, 50] {
        let (size, packets) = collect(&mut Tree::new(8, lost), 100, Operator::Add, |_| 1);
        assert_eq!(size, RoundOutcome::Complete(100), "{lost} of 1000 lost");
        // At most one packet per transmission: twelve in the setup phase, twelve in the collect phase.
        assert!(packets <= 12 + 12, "{packets} packets");
    }
}

#[test]
fn rounds_compute_maximum_minimum_and_or() {
    let value = |n: u64| n * 37 % 101;
    for (operator, expected) in [(Operator::Max, 100), (Operator::Min, 0), (Operator::Or, 127)] {
        assert_eq!(
            collect(&mut Tree::new(5, 10), 101, operator, value).0,
            RoundOutcome::Complete(expected),
            "{operator}"
        );
    }
}

/// All links are down: the root ends in time and reports that no member registered.
#[test]
fn round_without_members_ends_in_time() {
    assert_eq!(collect(&mut Tree::new(3, 1000), 10, Operator::Add, |_| 1), (RoundOutcome::NoMembers, 0));
}

/// In the first round all reports below one router are lost. In the second round none is.
#[test]
fn incomplete_round_is_followed_by_a_complete_one() {
    let (every, Schedule { collect: reports, end, .. }) = (LIFETIME * 2, schedule());
    let tree = || Tree { down: Some((3, reports..end)), ..Tree::new(8, 20) };
    let group = (100, Operator::Add);
    let (once, _) = attempt(&mut tree(), Attempts::ONE, group, |_| 1);
    assert_eq!(
        once,
        RoundOutcome::Incomplete { result: None, missing: 1 },
        "the one router next to the root waits for it"
    );
    for every in [every, Nanos::ZERO] {
        let attempts = Attempts { most: 3, every };
        let (outcome, root) = attempt(&mut tree(), attempts, group, |_| 1);
        assert_eq!((outcome, root.attempts_left()), (RoundOutcome::Complete(100), 1), "in the second of three");
    }
}

/// It ends after the last round, with the best outcome of all rounds.
#[test]
fn incomplete_rounds_end_with_their_best_outcome() {
    let attempts = Attempts { most: 3, every: LIFETIME };
    let end = schedule().end;
    let mut never = Tree { down: Some((0, schedule().collect..Instant::NEVER)), ..Tree::new(1, 0) };
    let (outcome, root) = attempt(&mut never, attempts, (5, Operator::Add), |_| 1);
    assert_eq!(
        (outcome, root.attempts_left()),
        (RoundOutcome::Incomplete { result: None, missing: 1 }, 0),
        "nobody came later"
    );
    let mut nobody = Tree::new(3, 1000);
    assert_eq!(attempt(&mut nobody, attempts, (5, Operator::Add), |_| 1).0, RoundOutcome::NoMembers);
    // A member that starts late takes part in the round of that time, and ends with the last.
    let round = Computation::seeded([1, 2]).round(4, Operator::Add);
    let mut late = Reporter::new(round, schedule(), 9, 1).repeated(attempts);
    assert_eq!(late.poll(end + Nanos::secs(1)), Action::Send(round.next().registration(9)));
    assert_eq!(late.poll(end + LIFETIME * 2), Action::Over(()));
}

/// The mean of a group: in one attempt, and in the second attempt if all reports of some members are lost in the first.
#[test]
fn the_mean_of_a_group_is_exact() {
    let rounds = MeanRounds::of(&Computation::seeded([1, 2]), 0);
    let values: Vec<u64> = (0..100).map(|n| n * 37 % 101).collect();
    let expected = Mean { sum: values.iter().sum(), members: 100 };
    let whole = schedule().collect..schedule().end;
    for (down, most, outcome) in [
        (None, 1, RoundOutcome::Complete(expected)),
        (Some((3, whole.clone())), 1, RoundOutcome::Incomplete { result: None, missing: 1 }),
        (Some((3, whole)), 2, RoundOutcome::Complete(expected)),
    ] {
        let (mut tree, attempts) = (Tree { down, ..Tree::new(8, 20) }, Attempts { most, every: LIFETIME });
        let member = |(n, value): (usize, &u64)| {
            MeanReporter::new(rounds, schedule(), mix(n as u64, 77), *value).repeated(attempts)
        };
        let group: Vec<_> = values.iter().enumerate().map(member).collect();
        let mut root = MeanController::new(rounds, schedule()).repeated(attempts);
        assert_eq!(play(&mut tree, group, &mut root), outcome);
        assert!(root.packets() > 0 && root.packets() <= 2 * 24 * u64::from(most), "{} packets", root.packets());
    }
    assert!((expected.value() - 49.5).abs() < 1.0, "{}", expected.value());
    assert_eq!(Mean { sum: 7, members: 2 }.value().to_bits(), 3.5f64.to_bits());
    let mut nobody = MeanController::new(rounds, schedule());
    assert_eq!(nobody.poll(schedule().end), Action::Over(RoundOutcome::NoMembers));
}

/// The root receives no more reports than the alarm needs, and the alarm triggers with the last of these.
#[test]
fn alarm_triggers_at_the_last_needed_report() {
    let mut computation = Computation::seeded([1, 2]);
    for needed in [1, 10, 37] {
        let (mut tree, tag) = (Tree::new(8, 0), computation.tag());
        let mut alarm = Alarm::new(&computation, tag, needed);
        let (report, mut packets, mut with) = (alarm.report(), 0, Vec::new());
        for n in 0..100 {
            if let Some(part) = tree.up(n % 8, START, &report) {
                packets += 1;
                with.extend(alarm.received(&part).then_some(n + 1));
            }
        }
        assert_eq!((with, packets), (vec![needed as usize], needed), "however many report after it");
        assert!(alarm.is_triggered());
    }
    let mut other = Alarm::new(&computation, 5, 2);
    let strange = Alarm::new(&computation, 6, 2).report();
    assert!(![strange, strange].iter().any(|part| other.received(part)) && !other.is_triggered());
    let failed = Part { error: true, ..other.report() };
    assert!(!other.received(&failed) && other.received(&failed), "reports that were not executed are reports");
}

/// A host that knows the computation's number, but not the members' shared secret, knows none of its tags.
#[test]
fn secret_rounds_have_tags_that_other_hosts_cannot_compute() {
    let of = |secret| Computation::seeded([1, 2]).with_secret(secret).round(3, Operator::Add);
    let (open, ours) = (Computation::seeded([1, 2]).round(3, Operator::Add), of([5, 6]));
    let joined = Computation::seeded([8, 9]).joined(ours.computation).with_secret([5, 6]);
    assert_eq!(joined.round(3, Operator::Add), ours);
    assert_eq!(joined.round(4, Operator::Add), ours.next(), "the next attempt has the same secret");
    let mut tags: Vec<u64> = [open, open.next(), ours, ours.next(), of([5, 7]), of([6, 6])]
        .into_iter()
        .flat_map(|round| [round.counter, round.result])
        .collect();
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), 12);
    assert!(!format!("{ours:?}").contains("[5, 6]"));
}

#[test]
fn schedule_fits_both_phases_and_clock_skew_into_a_lifetime() {
    let plan = |lifetime, delay, skew, tries| Schedule::plan(START, lifetime, (delay, skew), tries);
    let schedule = plan(LIFETIME, DELAY, Nanos::millis(100), 5).unwrap();
    assert_eq!(schedule.end, START + LIFETIME);
    assert!(schedule.retry >= DELAY);
    let last = schedule.collect + schedule.retry * 4 + DELAY + Nanos::millis(100);
    assert!(last <= schedule.end, "the last report of the latest clock is in time");
    let short = Nanos::millis(500);
    assert_eq!(plan(short, DELAY, Nanos::ZERO, 5), Err(LifetimeTooShort { needed: Nanos::millis(600) }));
    assert!(plan(short, DELAY, Nanos::ZERO, 4).is_ok());
}

#[test]
fn rounds_and_computations_use_distinct_tags() {
    let (one, other) = (Computation::seeded([1, 2]), Computation::seeded([1, 3]));
    let rounds = [&one, &other].map(|computation| [0, 1].map(|attempt| computation.round(attempt, Operator::Add)));
    let mut tags: Vec<u64> = rounds.iter().flatten().flat_map(|round| [round.counter, round.result]).collect();
    let mut drawing = one.clone();
    tags.extend((0..100).map(|_| drawing.tag()));
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), 8 + 100);
    // A host that joins by number has the same rounds.
    assert_eq!(Computation::seeded([9, 9]).joined(one.id()).round(1, Operator::Add), one.round(1, Operator::Add));
}

/// Numbers from the operating system differ between computations.
#[test]
fn computation_numbers_are_random_or_follow_from_a_seed() {
    let mut drawn: Vec<u64> = (0..8)
        .flat_map(|_| {
            let mut one = Computation::new().unwrap();
            [one.id(), one.tag(), one.joined(7).tag()]
        })
        .collect();
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), 24);
    let seeded = || Computation::seeded([5, 6]);
    assert_eq!((seeded().id(), seeded().tag()), (seeded().id(), seeded().tag()));
    assert_eq!(Computation::new().unwrap().joined(9).id(), 9);
}

#[test]
fn every_instruction_has_a_builder() {
    let own = Computation::seeded([1, 2]).at(Locations::OUTPUT);
    let (tag, counter, result, child, value) = (1, 1, 2, 3, 4);
    let (relation, operator) = (Operator::Ne, Operator::Xor);
    let count = |threshold, inclusive| StateInstruction::Count { counter, threshold, inclusive };
    let compare = |relation| StateInstruction::Compare { tag, value, relation };
    let setfwd = |relation| StateInstruction::Setfwd { tag, value, relation };
    let built = [
        (own.nop(), StateInstruction::Nop),
        (own.count(counter, 9), count(9, false)),
        (own.count_to(counter, 9), count(9, true)),
        (own.once(tag), count(2, false)),
        (own.compare(tag, relation, value), compare(relation)),
        (own.new_maximum(tag, value), compare(Operator::Gt)),
        (own.new_minimum(tag, value), compare(Operator::Lt)),
        (own.collect(counter, result, operator, value), StateInstruction::Collect { counter, result, value, operator }),
        (
            own.rcollect((counter, result), child, operator, value),
            StateInstruction::Rcollect { counter, result, child, value, operator },
        ),
        (own.rchld(counter, child), StateInstruction::Rchld { counter, child }),
        (own.mark(tag, value), StateInstruction::Mark { tag, value }),
        (own.if_marked(tag), StateInstruction::Test { tag }),
        (own.get(tag), StateInstruction::Get { tag, value: 0 }),
        (own.put(tag, value), StateInstruction::Put { tag, value }),
        (own.setfwd(tag, relation, value), setfwd(relation)),
        (own.if_at_least(tag, value), setfwd(Operator::Ge)),
    ];
    for (part, instruction) in built {
        assert_eq!(part, own.part(instruction), "{instruction}");
        assert_eq!((part.locations, part.computation), (Locations::OUTPUT, own.id()));
    }
    let missing = |opcode: &Opcode| !built.iter().any(|(part, _)| part.instruction.opcode() == *opcode);
    assert_eq!(Opcode::ALL.into_iter().find(missing), None);
}

/// A router forwards a value only if it exceeds all before, or is below all before.
#[test]
fn routers_forward_only_new_maxima_and_minima() {
    let (own, mut place) = (Computation::seeded([1, 2]), Place::small());
    let mut passed = |part: fn(&Computation, u64, u64) -> Part, tag| {
        let passes = |value: &u64| {
            place.pass(Location::Input, &mut packet(&part(&own, tag, *value))) == InstructionFate::Forwarded
        };
        [5, 5, 3, 8, 7, 1, 8, 9].into_iter().filter(passes).collect::<Vec<u64>>()
    };
    assert_eq!(passed(Computation::new_maximum, 1), [5, 8, 9]);
    assert_eq!(passed(Computation::new_minimum, 2), [5, 3, 1]);
    assert_eq!((place.value(1), place.value(2)), (Some(9), Some(1)));
}

/// A host's marks on the way up match the tests of its data on the way down (spec E-45), layer by layer (E-47).
#[test]
fn receivers_mark_branches_and_setfwd_drops_layers() {
    let mut computation = Computation::seeded([1, 2]);
    let (tag, mut wanted, mut other) = (computation.tag(), Place::small(), Place::small());
    let pass = |place: &mut Place, location, part: Part| place.pass(location, &mut packet(&part));
    assert_eq!(pass(&mut wanted, Location::Input, computation.mark(tag, 1)), InstructionFate::Forwarded);
    let down = computation.clone().at(Locations::OUTPUT);
    assert_eq!(pass(&mut wanted, Location::Output, down.if_marked(tag)), InstructionFate::Forwarded);
    assert_eq!(pass(&mut other, Location::Output, down.if_marked(tag)), InstructionFate::Dropped);
    let allowed = computation.tag();
    pass(&mut wanted, Location::Output, down.put(allowed, 2));
    let layers = [0, 1, 2, 3].map(|layer| pass(&mut wanted, Location::Output, down.if_at_least(allowed, layer)));
    assert_eq!(layers.map(|fate| fate == InstructionFate::Forwarded), [true, true, true, false]);
    assert_eq!(down.once(tag).instruction, StateInstruction::Count { counter: tag, threshold: 2, inclusive: false });
}
