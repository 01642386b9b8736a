use super::*;

use crate::{Layer, build};

const ARRIVALS: &str = "switchpath arrivals 1
# Three packets, the link takes one, and carries less.
flow 1 9e3779b9 1 2
0 a 1500 1 3 2 46
1000 a 64

500000 a 100 1
0 r 1
10 l 5000000
0 r 9
";

fn fifo(drop: u64) -> Vec<String> {
    let options = [("limit", 2), ("bytes", 1 << 30), ("drop", drop), ("unbounded", 0)];
    let mut scheme = build::<Model>(&Layer { name: "fifo", options: &options, inside: Vec::new() }).unwrap();
    Arrivals::read(ARRIVALS).unwrap().play(&mut *scheme)
}

#[test]
fn arrivals_are_parsed_with_cumulative_times() {
    let arrivals = Arrivals::read(ARRIVALS).unwrap();
    let times: Vec<u64> = arrivals.events().iter().map(|(time, _)| time.get()).collect();
    assert_eq!(times, [0, 1000, 501_000, 501_000, 501_010, 501_010]);
    let first = Record {
        length: 1500,
        flow_hash: 0x9e37_79b9,
        source: 1,
        destination: 2,
        class: 3,
        ecn: 2,
        dscp: 46,
        ..Record::default()
    };
    assert_eq!(arrivals.events()[0].1, LinkEvent::Arrival(first));
    assert_eq!(arrivals.events()[4].1, LinkEvent::RateChange(Rate::mbit(5)));
}

#[test]
fn decision_words_name_only_packets_out_of_order() {
    assert_eq!(fifo(0), ["+", "+", "-", ">", ".", ">"]);
    assert_eq!(fifo(1), ["+", "+", "!+", ">", ".", ">"]);
    let mut waiting = BTreeSet::from([3, 5, 6]);
    let fates = [ModelFate::Dropped(5), ModelFate::Sent(3), ModelFate::Sent(6)];
    assert_eq!(decision_word(None, &fates, &[6], &mut waiting), "*6!5>>");
    assert_eq!(decision_word(Some(7), &[], &[7], &mut waiting), "*+");
    assert_eq!(decision_word(Some(8), &[ModelFate::Refused(8)], &[], &mut waiting), "-");
    assert_eq!(waiting, BTreeSet::from([7]));
}

#[test]
fn written_recording_parses_to_same_recording() {
    let decisions: Vec<String> = (0..100).map(|i| format!(">{i}")).collect();
    let recording = Recording { arrivals: "greedy".to_string(), scheme: "fifo(limit=2)".to_string(), decisions };
    assert_eq!(Recording::read(&recording.write()), Ok(recording));
}

#[test]
fn first_difference_names_event_and_time() {
    let arrivals = Arrivals::read(ARRIVALS).unwrap();
    assert_eq!(arrivals.compare(&fifo(0), &fifo(0)), Ok(()));
    let difference = arrivals.compare(&fifo(0), &fifo(1)).unwrap_err();
    let said = "event 2, at 0.501000 ms, packet 2 of 100 bytes and class 0 comes: expected '-', found '!+'";
    assert_eq!(difference.to_string(), said);
    let short = arrivals.compare(&fifo(0), &fifo(0)[..3]).unwrap_err();
    assert_eq!(short.to_string(), "event 3, at 0.501000 ms, the link takes 1: expected '>', found nothing");
    let none = arrivals.compare(&fifo(0)[..5], &fifo(0)[..5]);
    assert!(none.is_err(), "neither says what becomes of the last");
}

#[test]
fn syntax_error_names_its_line() {
    let wrong = |text: &str| Arrivals::read(text).unwrap_err().to_string();
    assert_eq!(wrong("switchpath arrivals 2\n"), "line 1: it does not begin with 'switchpath arrivals 1'");
    let after = |line: &str| wrong(&format!("switchpath arrivals 1\n\n{line}\n"));
    assert_eq!(after("0 a"), "line 3: it lacks length");
    assert_eq!(after("0 a 64 1"), "line 3: '1' is no flow that was named before");
    assert_eq!(after("0 a 64 0 0 4"), "line 3: '4' is no ECN field");
    assert_eq!(after("-1 r 1"), "line 3: '-1' is no time");
    assert_eq!(after("0 x"), "line 3: 'x' is no event");
    assert_eq!(after("0 r 1 1"), "line 3: '1' is too much");
    assert_eq!(after("flow 2 0 0 0"), "line 3: flows are numbered from 1, one after the other");
    let decisions = "switchpath decisions 1\narrivals a\nscheme b\n0: + +\n3: -\n";
    let reason = "line 5: it is neither 'arrivals', 'scheme' nor what is decided from event 2 on";
    assert_eq!(Recording::read(decisions).unwrap_err().to_string(), reason);
    let reason = "line 1: it does not say of what 'arrivals' and 'scheme' it is";
    assert_eq!(Recording::read("switchpath decisions 1\n0: +\n").unwrap_err().to_string(), reason);
}
