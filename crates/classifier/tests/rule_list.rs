//! Lists of rules that change, against a vector of rules.

use classifier::{
    ListedRule, MOST_LIMITS, PacketKeys, Place, RuleEdit, RuleList, RuleListError, RuleReader, RuleResult, Set,
    SetEdit, SetElement, SetStore, SetWriteError,
};
use plan::{FilterRule, FilterStatement, MatchFields, MatchFragment, NoSets, SetKind};
use proptest::prelude::*;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{Instant, InterfaceId, VrfId};

const CAME: (InterfaceId, VrfId) = (InterfaceId(0), VrfId(0));

fn listed(text: &str, action: u32) -> ListedRule {
    let rule = FilterRule::parse(text).expect("it is a rule");
    let limit = rule.statements.iter().find_map(|statement| match statement {
        FilterStatement::Limit(limit) => Some(*limit),
        _ => None,
    });
    let result = RuleResult { action, ..RuleResult::default() };
    ListedRule {
        matching: rule.matching,
        interface: None,
        vrf: None,
        text: text.into(),
        result,
        limit,
        held: Default::default(),
    }
}

fn fields(source: u32, dport: u16) -> MatchFields {
    MatchFields {
        source: Ipv4Addr::from_bits(source).into(),
        destination: Ipv4Addr::new(192, 0, 2, 1).into(),
        protocol: 17,
        dscp: 0,
        sport: Some(1),
        dport: Some(dport),
        tcp_flags: None,
        icmp_type: None,
        icmp_code: None,
        fragment: MatchFragment::Whole,
        vlan: None,
        flow_label: 0,
        length: 100,
        state: 0,
    }
}

/// A rule of few different ones: prefixes of 10.0.0.0/29, and ports.
fn rule(number: u32) -> ListedRule {
    let length = 29 + number % 4;
    let address = Ipv4Addr::from_bits((10 << 24 | number >> 2 & 7) & !((1u32 << (32 - length)) - 1));
    let ports = ["", "udp dport 1 ", "udp dport 1-2 "][(number as usize >> 5) % 3];
    listed(&format!("ip saddr {address}/{length} {ports}drop"), number)
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, u16, u32),
    Remove(u16),
    Replace(u16, u32),
    Fail,
    Maintain,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u8..3, any::<u16>(), 0u32..96).prop_map(|(place, at, rule)| Step::Add(place, at, rule)),
        2 => any::<u16>().prop_map(Step::Remove),
        2 => (any::<u16>(), 0u32..96).prop_map(|(at, rule)| Step::Replace(at, rule)),
        1 => Just(Step::Fail),
        1 => Just(Step::Maintain),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// After any changes the list has the rules of a vector that was changed in the same way, and finds the first of them.
    #[test]
    fn list_is_like_a_vector(first in 0u32..30, batches in proptest::collection::vec(proptest::collection::vec(step(), 1..8), 1..30)) {
        let list = Arc::new(RuleList::new((0..first).map(rule).collect(), &Arc::default()).expect("all are possible"));
        let mut reader = RuleReader::new(&list);
        let mut wanted: Vec<(u32, ListedRule)> = (0..first).map(|number| (number + 1, rule(number))).collect();
        for steps in batches {
            let before = wanted.clone();
            let (mut edits, mut new, mut fails) = (Vec::new(), Vec::new(), false);
            // A batch cannot name the ids of its own new rules, which are not known yet.
            let known: Vec<u32> = wanted.iter().map(|(id, _)| *id).collect();
            let mut pending = 0;
            for step in steps {
                let id = |at: u16, wanted: &Vec<(u32, ListedRule)>| {
                    let id = *known.get(usize::from(at) % known.len().max(1))?;
                    wanted.iter().position(|(other, _)| *other == id).map(|at| (at, id))
                };
                match step {
                    Step::Add(place, at, number) => {
                        let (place, at) = match (place, id(at, &wanted)) {
                            (1, Some((at, id))) => (Place::Before(id), at),
                            (2, Some((at, id))) => (Place::After(id), at + 1),
                            _ => (Place::End, wanted.len()),
                        };
                        pending += 1;
                        wanted.insert(at, (u32::MAX - pending, rule(number)));
                        new.push(u32::MAX - pending);
                        edits.push(RuleEdit::Add(place, rule(number)));
                    }
                    Step::Remove(at) => if let Some((at, id)) = id(at, &wanted) {
                        wanted.remove(at);
                        edits.push(RuleEdit::Remove(id));
                    },
                    Step::Replace(at, number) => if let Some((at, id)) = id(at, &wanted) {
                        pending += 1;
                        wanted[at] = (u32::MAX - pending, rule(number));
                        new.push(u32::MAX - pending);
                        edits.push(RuleEdit::Replace(id, rule(number)));
                    },
                    Step::Fail => {
                        fails = true;
                        edits.push(RuleEdit::Remove(u32::MAX));
                    }
                    Step::Maintain => { list.maintain(); }
                }
            }
            let failed_at = edits.iter().position(|edit| *edit == RuleEdit::Remove(u32::MAX));
            match list.edit(edits) {
                Ok(ids) => {
                    prop_assert!(!fails);
                    prop_assert_eq!(ids.len(), new.len());
                    for (id, pending) in ids.into_iter().zip(new) {
                        // A rule may have been replaced or removed by a later change of its batch.
                        wanted.iter_mut().filter(|(other, _)| *other == pending).for_each(|(other, _)| *other = id);
                    }
                }
                Err((position, error)) => {
                    prop_assert_eq!((Some(position), error), (failed_at, RuleListError::UnknownId(u32::MAX)));
                    wanted = before;
                }
            }
            let now: Vec<(u32, ListedRule)> = list.rules().into_iter().map(|status| (status.id, (*status.rule).clone())).collect();
            prop_assert_eq!(&now, &wanted);
            reader.refresh();
            for (source, port) in (0..16).flat_map(|source| [(source, 1), (source, 2), (source, 3)]) {
                let fields = fields(10 << 24 | source, port);
                let first = wanted.iter().find(|(_, rule)| rule.matching.matches(&fields, &NoSets)).map(|(_, rule)| rule.result.action);
                prop_assert_eq!(reader.find(&fields, CAME).map(|result| result.action), first);
                let mut keys = PacketKeys::default();
                keys.push(0, &fields, CAME.0, CAME.1);
                let mut found = None;
                reader.look_up(&mut keys, |_, result| found = Some(result.action));
                prop_assert_eq!(found, first);
            }
        }
    }
}

#[test]
fn refused_change_leaves_rules_and_limits() {
    let limited = |number: u32| listed("udp limit rate 1/second accept", number);
    let list = RuleList::new((0..16).map(limited).collect(), &Arc::default()).expect("16 limits are possible");
    let before: Vec<u32> = list.rules().iter().map(|status| status.id).collect();
    // Removing one makes room for another, but not for two.
    let edits = [RuleEdit::Remove(3), RuleEdit::Add(Place::End, limited(20)), RuleEdit::Add(Place::End, limited(21))];
    let (position, error) = list.edit(edits.clone()).expect_err("there are 17 limits");
    assert_eq!((position, error.clone()), (2, RuleListError::TooManyLimits));
    assert_eq!(error.to_string(), format!("the list would have more than {MOST_LIMITS} rules with a limit"));
    assert_eq!(list.rules().iter().map(|status| status.id).collect::<Vec<_>>(), before);
    let added = list.edit(edits.into_iter().take(2)).expect("there are 16");
    let ids: Vec<u32> = list.rules().iter().map(|status| status.id).collect();
    assert_eq!(ids, [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, added[0]]);
    assert!(list.is_changed());
}

#[test]
fn packets_beyond_a_limit_meet_the_next_rule_that_matches() {
    let rules = [
        listed("udp dport 1 limit rate 1/second burst 2 packets accept", 0),
        listed("udp dport 2 accept", 1),
        listed("udp limit rate over 1/day burst 1 packets drop", 2),
        listed("udp accept", 3),
    ];
    let list = Arc::new(RuleList::new(rules.into(), &Arc::default()).expect("all are possible"));
    let reader = RuleReader::new(&list);
    let fields = fields(10 << 24, 1);
    let now = Instant::new(100_000_000_000_000);
    let decide = |dry_run| {
        let first = reader.find(&fields, CAME).expect("it matches the first");
        assert!(reader.is_limited(first));
        reader.decide(first, (&fields, CAME), (now, 100, dry_run), |_| true).map(|result| result.action & 0xffff)
    };
    // A dry run uses no credit. Then two packets fit the first limit, one is within the daily limit, and all others are beyond it.
    assert_eq!([decide(true), decide(true), decide(true)], [Some(0); 3]);
    assert_eq!([decide(false), decide(false), decide(false)], [Some(0), Some(0), Some(3)]);
    assert_eq!([decide(false), decide(true)], [Some(2); 2]);
}

#[test]
fn only_a_first_rule_without_conditions_and_limit_decides_about_every_packet() {
    let always = |first: &str| {
        let list = RuleList::new(vec![listed(first, 1), listed("accept", 2)], &Arc::default()).expect("it is possible");
        RuleReader::new(&Arc::new(list)).always().map(|result| result.action)
    };
    assert_eq!(["drop", "udp drop", "limit rate 1/second drop"].map(always), [Some(1), None, None]);
}

#[test]
fn sets_of_removed_rules_make_room_for_others() {
    let store = Arc::new(SetStore::default());
    let list = RuleList::new(Vec::new(), &store).expect("it is empty");
    for number in 0..100 {
        let rule = listed(&format!("ip saddr @bad{number} drop"), 0);
        let added = list.edit([RuleEdit::Add(Place::End, rule)]).expect("one set is in use");
        list.edit([RuleEdit::Remove(added[0])]).expect("it is there");
    }
    assert!(list.is_empty());
}

/// A packet always matches the rule behind those that come and go, also while the table is made anew.
#[test]
fn readers_never_miss_a_rule_while_the_list_changes() {
    let list = Arc::new(RuleList::new((0..200).map(rule).collect(), &Arc::default()).expect("all are possible"));
    list.edit([RuleEdit::Add(Place::End, listed("accept", 7))]).expect("it is possible");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut reader, mut packets) = (RuleReader::new(&list), 0);
                    while !stop.load(Ordering::Relaxed) {
                        reader.refresh();
                        let found = reader.find(&fields(11 << 24, 5), CAME);
                        assert_eq!(found.map(|result| result.action), Some(7));
                        reader.count(found, 64, Instant::new(5));
                        packets += 1;
                    }
                    packets
                })
            })
            .collect();
        // Each new rule comes before all others, so that one that is missing in the table changes results.
        let (mut round, mut front) = (0, 1);
        scope.spawn(|| {
            let mut rebuilt = 0;
            while !stop.load(Ordering::Relaxed) {
                rebuilt += u32::from(list.maintain());
            }
            assert!(rebuilt > 0, "the changes wear the table out");
        });
        while round < 2000 {
            let added = list.edit([RuleEdit::Add(Place::Before(front), rule(round))]).expect("it is possible");
            if round % 3 > 0 {
                list.edit([RuleEdit::Remove(added[0])]).expect("it is there");
            } else {
                front = added[0];
            }
            round += 1;
        }
        stop.store(true, Ordering::Relaxed);
        let packets: u64 = readers.into_iter().map(|reader| reader.join().expect("no packet missed its rule")).sum();
        let last = list.rules().pop().expect("there are rules");
        assert_eq!((last.count.packets, last.count.bytes), (packets, packets * 64));
        assert_eq!(last.count.last, Some(Instant::new(5)));
        // The table made anew has the changes that were made meanwhile.
        let (rules, mut reader) = (list.rules(), RuleReader::new(&list));
        reader.refresh();
        for fields in (0..32).map(|source| fields((10 << 24) + source / 3, (source % 3) as u16 + 1)) {
            let first = rules.iter().find(|status| status.rule.matching.matches(&fields, &NoSets));
            let wanted = first.map(|status| status.rule.result.action);
            assert_eq!(reader.find(&fields, CAME).map(|result| result.action), wanted);
        }
    });
}

/// With flow caches a list gives the same results, also after changes of its rules and of sets.
#[test]
fn flow_caches_never_give_another_result() {
    let store = Arc::new(SetStore::default());
    let define = |elements: &[&str]| {
        let edits = elements.iter().map(|text| {
            SetEdit::Add(SetElement { value: text.parse().expect("it is an element"), expires: Instant::NEVER })
        });
        let (set, _) = Set::new(SetKind::Address, 100).edited(edits).expect("it has room");
        store.write(|draft| Ok::<_, SetWriteError>(draft.define("bad", set, Instant::START))).expect("it is defined");
    };
    define(&["10.0.0.9"]);
    let of_set = listed("ip saddr @bad drop", 1000);
    let list = Arc::new(RuleList::new((0..96).map(rule).chain([of_set]).collect(), &store).expect("all are possible"));
    let (mut plain, mut cached) = (RuleReader::new(&list), RuleReader::new(&list).with_flow_caches());
    let mut keys = PacketKeys::default();
    let mut hits = 0;
    for round in 0..200u32 {
        match round % 40 {
            10 => drop(list.edit([RuleEdit::Add(Place::Before(1), rule(round))]).expect("it is possible")),
            20 => define(&["10.0.0.10", "10.0.0.11"]),
            30 => define(&["10.0.0.12/30"]),
            // A rule on lengths: packets of a flow have several results from now on.
            39 if round == 119 => {
                drop(list.edit([RuleEdit::Add(Place::Before(1), listed("meta length 0-110 drop", 5))]))
            }
            _ => {}
        }
        let mut found = [[None; 256]; 2];
        for (reader, found) in [&mut plain, &mut cached].into_iter().zip(&mut found) {
            reader.refresh();
            keys.clear();
            for i in 0..256u32 {
                // Few flows in most rounds, and random ones in some.
                let spread = if round % 8 == 7 { 1 << 20 } else { 1 };
                let mut fields = fields((10 << 24) + (i * 7 + round) % 40 * spread, (i % 3) as u16 + 1);
                fields.length = 100 + (i % 32) as u16;
                keys.push(i as usize, &fields, CAME.0, CAME.1);
            }
            reader.look_up(&mut keys, |i, result| found[i] = Some(result));
            assert_eq!(keys.positions().count(), 256);
        }
        assert_eq!(found[0], found[1], "round {round}");
        hits = list.flow_caches().counters.hits;
    }
    assert!(hits > 20_000, "{hits}");
}

#[test]
fn flow_cache_pauses_under_random_flows() {
    let list = Arc::new(RuleList::new((0..96).map(rule).collect(), &Arc::default()).expect("all are possible"));
    let mut reader = RuleReader::new(&list).with_flow_caches();
    reader.refresh();
    let mut keys = PacketKeys::default();
    let mut flow = 0u32;
    let mut send = |batches: u32, is_random: bool| {
        for _ in 0..batches {
            keys.clear();
            for i in 0..256 {
                flow = flow.wrapping_add(0x9e37_79b9);
                keys.push(i, &fields(if is_random { flow } else { (10 << 24) + i as u32 % 8 }, 1), CAME.0, CAME.1);
            }
            reader.look_up(&mut keys, |_, _| {});
        }
        let used = list.flow_caches();
        (used.counters, used.pausing > 0)
    };
    let (counters, pauses) = send(64, false);
    assert!(!pauses && counters.hits > 16_000, "{counters:?}");
    let (before, _) = send(64, true);
    let (after, _) = send(64 * 64, true);
    let tried = after.misses - before.misses;
    // A sixteenth of the packets is tried.
    assert!(tried <= 256 * 64 * 5, "{tried} of {}", 256 * 64 * 64);
    // When the flood ends, the cache is used again.
    let (_, pauses) = send(64 * 16, false);
    assert!(!pauses);
}
