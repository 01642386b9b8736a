//! The router's services for packet functions: clock, random numbers, counters, log, rules, routes, and packets that they make.

use super::{Line, PORT, Text, one};

/// A guest with these imports and this verdict.
fn with(imports: &'static str, verdict: &str) -> Text {
    Text { imports, ..Text::seeing(verdict) }
}

#[test]
fn counters_and_log_lines_reach_the_operator() {
    let imports = r#"(import "switchpath" "counter" (func $count (param i32 i64)))
        (import "switchpath" "log" (func $log (param i32 i32)))"#;
    let verdict = "(block (result i32) (call $count (i32.const 1) (i64.const 5)) (call $log (i32.const 16) (i32.const 4)) (i32.const 0))";
    let text = Text { description: "summary One. \\0acounter first\\0acounter second", ..with(imports, verdict) };
    let mut line = Line::guest(&text.module(), "");
    assert_eq!(line.pass([1, 2]).len(), 2);
    assert_eq!([line.counter("first"), line.counter("second")], [0, 10]);
    assert_eq!(line.events(), ["logged: One."]);
    assert!(line.events().is_empty(), "it is reported once");
}

#[test]
fn clock_is_the_time_of_the_call() {
    let imports = r#"(import "switchpath" "clock" (func $clock (result i64)))"#;
    let verdict = "(i64.ne (call $clock) (i64.load (i32.const 1024)))";
    let mut line = Line::guest(&with(imports, verdict).module(), "");
    assert_eq!(line.pass([1]), [1]);
}

#[test]
fn random_numbers_differ_and_are_the_same_in_each_run() {
    let imports = r#"(import "switchpath" "random" (func $random (result i64)))"#;
    let verdict = "(i32.wrap_i64 (i64.and (call $random) (i64.const 1)))";
    let run = || Line::guest(&with(imports, verdict).module(), "").pass(0..100);
    let (one, two) = (run(), run());
    assert!((20..80).contains(&one.len()), "{one:?}");
    assert_eq!(one, two);
}

#[test]
fn a_guest_reads_the_rules_of_its_path() {
    // It drops packets unless rule 1 is 'b c', three bytes long, and rule 2 does not exist. Only one byte is written.
    let imports = r#"(import "switchpath" "rule" (func $rule (param i32 i32 i32) (result i32)))"#;
    let verdict = "(i32.eqz (i32.and (i32.and
        (i32.eq (call $rule (i32.const 1) (i32.const 512) (i32.const 1)) (i32.const 3))
        (i32.eq (call $rule (i32.const 2) (i32.const 512) (i32.const 1)) (i32.const -1)))
        (i32.eq (i32.load (i32.const 512)) (i32.const 98))))";
    let text = with(imports, verdict);
    assert_eq!(Line::guest(&text.module(), "guest_rules = ['a pass', ' b  c pass']").pass([1]), [1]);
    assert!(Line::guest(&text.module(), "guest_rules = ['a pass', 'x pass']").pass([1]).is_empty());
    // A place outside of its memory is refused.
    let outside = "(i32.ne (call $rule (i32.const 0) (i32.const -1) (i32.const 9)) (i32.const -1))";
    assert_eq!(Line::guest(&with(imports, outside).module(), "guest_rules = ['a pass']").pass([1]), [1]);
}

#[test]
fn route_lookup_returns_the_port_to_the_next_hop() {
    let imports = r#"(import "switchpath" "lookup" (func $lookup (param i32 i32) (result i32)))"#;
    let ports = |rig: &plane::rig::Rig| {
        let port = |name: &str| rig.router.snapshot().interface_named(name).unwrap().port.0;
        (i32::from(port("lan")), i32::from(port("wan")))
    };
    let (lan, wan) = ports(&Line::guest(&Text::default().module(), "").rig);
    for (address, answer) in [
        ("\\c0\\00\\02\\07", lan),
        ("\\c6\\33\\64\\09", wan),
        ("\\c6\\33\\64\\08", wan),
        ("\\c6\\33\\64\\01", -2),
        ("\\cb\\00\\71\\01", -1),
        ("\\e0\\00\\00\\05", -1),
    ] {
        let rest = format!("(data (i32.const 512) \"{address}\")");
        let verdict = format!("(i32.ne (call $lookup (i32.const 512) (i32.const 4)) (i32.const {answer}))");
        let text = Text { rest, ..with(imports, &verdict) };
        assert_eq!(Line::guest(&text.module(), "").pass([1]), [1], "{address}: not {answer}");
    }
    // Neither 4 nor 16 bytes, and bytes outside of its memory.
    for (at, length) in [(512, 5), (-1, 4)] {
        let verdict = format!("(i32.ne (call $lookup (i32.const {at}) (i32.const {length})) (i32.const -1))");
        assert_eq!(Line::guest(&with(imports, &verdict).module(), "").pass([1]), [1]);
    }
}

const EMIT: &str = r#"(import "switchpath" "emit" (func $emit (param i32 i32) (result i32)))"#;

#[test]
fn an_emitted_packet_is_classified_and_leaves_like_a_received_one() {
    // It emits a copy of packets to port 7, with the UDP checksum off and port 9, and passes the packet.
    let verdict = format!(
        "(if (result i32) (i32.eq {PORT} (i32.const 7)) (then
            (i32.store8 offset=23 (local.get $b) (i32.const 9)) (i32.store16 offset=26 (local.get $b) (i32.const 0))
            (i32.eqz (call $emit (local.get $b) (i32.load offset=8 (local.get $r)))))
        (else (i32.const 0)))"
    );
    let mut line = Line::guest(&with(EMIT, &verdict).module(), "");
    // The router's own announcements are generated, too.
    let before = line.rig.report().ledger;
    let mut left = line.pass([6, 7, 8]);
    left.sort_unstable();
    assert_eq!(left, [6, 7, 8, 9]);
    assert_eq!((line.counter("emitted"), line.counter("passed")), (1, 4), "it passed the guest too");
    let after = line.rig.report().ledger;
    assert_eq!((after.received() - before.received(), after.generated() - before.generated()), (3, 1));
}

/// There each function of a packet is a run of its own. A packet that has caused another one still gets all functions: it loses a hop.
#[test]
fn a_packet_that_causes_another_one_passes_all_functions_of_an_interleaved_path() {
    let verdict = format!(
        "(if (result i32) (i32.eq {PORT} (i32.const 7)) (then
            (i32.store8 offset=23 (local.get $b) (i32.const 9)) (i32.store16 offset=26 (local.get $b) (i32.const 0))
            (i32.eqz (call $emit (local.get $b) (i32.load offset=8 (local.get $r)))))
        (else (i32.const 0)))"
    );
    let mut line = Line::guest(&with(EMIT, &verdict).module(), "reservations = true\ninterleave = true");
    let frame = plane::rig::UdpFrame::between_ports(4000, 7).frame(b"payload");
    line.rig.send("lan", &frame);
    // Flows are served by their rates, which takes time.
    line.rig.advance(units::Nanos::millis(50));
    line.rig.report();
    let mut left = line.rig.received("wan");
    left.retain(|frame| frame[12..14] == [8, 0]);
    left.sort_unstable();
    let seen: Vec<_> = left.iter().map(|frame| (frame[37], frame[22])).collect();
    assert_eq!(seen, [(7, 63), (9, 63)]);
}

#[test]
fn emissions_that_cause_each_other_come_to_an_end() {
    // It emits a copy of each packet that it sees, also of its own.
    let verdict = "(i32.eqz (call $emit (local.get $b) (i32.load offset=8 (local.get $r))))";
    let mut line = Line::guest(&with(EMIT, verdict).module(), "");
    let left = line.pass([1]);
    assert!((2..=32).contains(&left.len()), "{left:?}");
    assert!(line.counter("emitted") <= 32);
}

#[test]
fn a_call_emits_no_more_packets_than_it_has_received() {
    let verdict = "(block (result i32)
        (drop (call $emit (local.get $b) (i32.load offset=8 (local.get $r))))
        (i32.ne (call $emit (local.get $b) (i32.load offset=8 (local.get $r))) (i32.const 0)))";
    // The second emission is refused: it would otherwise drop its packet.
    let mut line = Line::guest(&with(EMIT, verdict).module(), "");
    assert!(line.pass([1]).contains(&1));
}

#[test]
fn a_failed_call_emits_nothing() {
    let verdict =
        "(block (result i32) (drop (call $emit (local.get $b) (i32.load offset=8 (local.get $r)))) (unreachable))";
    let mut line = Line::new();
    line.put("mine", &with(EMIT, verdict).module());
    line.apply(&one("guest:mine", ""));
    let before = line.rig.report().ledger.generated();
    assert_eq!(line.pass([1]), [1]);
    assert_eq!(line.rig.report().ledger.generated(), before);
}
