//! Faulty code options: they are refused when they are loaded, or their slice is suspended. Other slices go on.

use super::{BLOCK, Node, Text, for_byte, numbered};
use extension::{GuestProgram, GuestSlice, Runtime};
use packet::DropReason;
use slice::code::ExceptionCode;

fn clock() -> units::Nanos {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    units::Nanos::new(used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64)
}

/// Guests that fail at a packet 7, each in another way, and the message.
fn faults() -> Vec<(Text, &'static str)> {
    let parse = |then: &str| Text { parse: for_byte(7, then), ..Text::default() };
    let format = |then: &str| Text { flags: 1, room: 8, format: for_byte(7, then), ..Text::default() };
    let front = |by: i32| format!("(i32.store16 offset=14 (local.get $r) (i32.const {by})) (i32.const 0)");
    let length = |length: i32| format!("(i32.store (local.get $r) (i32.const {length})) (i32.const 0)");
    vec![
        (parse("(unreachable)"), "it trapped: wasm trap: wasm `unreachable` instruction executed"),
        (format("(unreachable)"), "it trapped: wasm trap: wasm `unreachable` instruction executed"),
        (parse("(i32.store (i32.const -8) (i32.const 1)) (i32.const 0)"), "out of bounds"),
        (parse("(i32.div_u (i32.const 1) (i32.const 0))"), "divide by zero"),
        (parse("(i32.const 27)"), "its verdict 27 has no meaning here"),
        (parse("(i32.const 64)"), "its verdict 64 has no meaning here"),
        (format("(i32.const 65535)"), "its verdict 65535 has no meaning here"),
        (format(&front(-9)), "it moves the front of a packet of 18 bytes by -9"),
        (format(&front(1)), "it moves the front of a packet of 18 bytes by 1, with 18 bytes from there"),
        (format(&front(32767)), "it moves the front of a packet of 18 bytes by 32767"),
        (format(&length(19)), "with 19 bytes from there; it asked for 8 bytes in front"),
        (format(&length(-1)), "with 4294967295 bytes from there"),
    ]
}

#[test]
fn slice_of_a_failed_guest_is_suspended_and_others_go_on() {
    for (text, message) in faults() {
        let mut node = Node::two(&text);
        for payload in numbered(20) {
            node.rig.send("lan", &super::frame(20_000, &payload));
            node.rig.send("lan", &super::frame(20_100, &payload));
        }
        node.rig.settle();
        assert_eq!(node.arrived(20_100), numbered(20), "{message}: the other slice goes on");
        let report = node.report("a");
        assert!(report.is_suspended, "{message}");
        let failure = report.failure.unwrap_or_default();
        assert!(failure.contains(message), "{message}: {failure}");
        assert_eq!((report.counters.received, report.counters.faults), (20, 1), "{message}");
        assert_eq!(node.dropped(DropReason::SliceFault), 1);
        assert_eq!(node.pass(&numbered(2)), Vec::<Vec<u8>>::new());
        assert!(!node.report("b").is_suspended);
        // It is started again, with a new instance and the same filters.
        node.run("resume a");
        assert_eq!(node.pass(&numbered(5)), numbered(5), "{message}");
        assert_eq!(node.report("a").failure, None);
    }
}

#[test]
fn guest_that_does_not_return_is_throttled_and_then_suspended() {
    let mut node = Node::two(&Text { parse: for_byte(7, "(loop (br 0)) (unreachable)"), ..Text::default() });
    for round in 1..=3 {
        node.send(20_100, &numbered(3));
        node.send(20_000, &numbered(20));
        assert_eq!(node.arrived(20_100), numbered(3));
        assert_eq!(node.report("a").is_suspended, round == 3, "round {round}");
        if round < 3 {
            assert_eq!(node.exceptions("a"), [(ExceptionCode::OverBudget, numbered(1)[0].clone())]);
            assert_eq!(node.pass(&numbered(3)), numbered(3), "it was started anew");
        }
    }
    let report = node.report("a");
    assert_eq!(report.failure.as_deref(), Some("it did not return in time, 3 times"));
    assert_eq!((report.counters.exceptions, report.counters.faults, report.counters.suspended), (2, 1, 3 * 19));
    node.run("resume a");
    assert_eq!(node.pass(&numbered(3)), numbered(3));
}

#[test]
fn guest_on_a_machine_is_ended_after_its_time() {
    let mut node = Node::with(Runtime::timed(clock).unwrap());
    node.put("mine", &Text { format: for_byte(7, "(loop (br 0)) (unreachable)"), ..Text::default() });
    node.slice("a", 20_000, "guest:mine");
    assert_eq!(node.pass(&numbered(3)), numbered(3));
    let start = clock();
    node.send(20_000, &[vec![7]]);
    let used = clock().saturating_sub(start);
    assert!(used < units::Nanos::millis(20), "{used}");
    assert_eq!(node.exceptions("a"), [(ExceptionCode::OverBudget, vec![7])]);
}

#[test]
fn modules_that_are_no_code_options_are_refused_with_a_reason() {
    let runtime = Runtime::counted().unwrap();
    let load = |text: &str| {
        let module = wat::parse_str(text).unwrap_or_else(|wrong| panic!("{wrong}: {text}"));
        GuestSlice::load(&module, &runtime).map(drop).map_err(|error| error.to_string())
    };
    let text = Text::default().text();
    assert_eq!(load(&text), Ok(()));
    for (from, to, wrong) in [
        ("\"switchpath_slice\"", "\"other\"", "it is no code option of slices"),
        ("\"switchpath_block\"", "\"other\"", "it exports no 'switchpath_block'"),
        ("\"switchpath_format\"", "\"other\"", "it exports no 'switchpath_format'"),
        ("(export \"memory\") 4", "(export \"memory\") 17", "KiB of memory"),
        ("(result i32) (i32.const 1))", "(result i32) (i32.const 2))", "built for version 2"),
        ("summary Of a test.", "memory x", "has no number"),
        ("(module", "(module (import \"wasi\" \"exit\" (func))", "imports 'exit' of 'wasi'"),
        ("(module", "(module (import \"switchpath\" \"counter\" (func))", "imports 'counter' of 'switchpath'"),
        ("(param i32 i32) (result i64)", "(param i32) (result i64)", "it cannot be linked"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = load(&text.replacen(from, to, 1)).map_err(|error| error.to_string());
        assert!(error.as_ref().is_err_and(|error| error.contains(wrong)), "{from} -> {to}: {error:?}");
    }
    let scheme = GuestProgram::load(&wat::parse_str(&text).unwrap(), &runtime).unwrap_err();
    assert!(scheme.reason.contains("it is a code option of slices, no scheme"), "{scheme}");
    assert!(
        load(include_str!("../../../../../examples/guests/null.wat")).unwrap_err().contains("it is no code option")
    );
}

#[test]
fn guest_that_does_not_start_makes_no_slice() {
    let mut node = Node::new();
    let start = format!("(i32.store (i32.const {}) (i32.const 0))\n", BLOCK + 32);
    let text = Text::default();
    assert!(text.text().contains(&start));
    for (module, wrong) in [
        (
            text.text().replace(&start, "(if (i32.const 1) (then (return (i32.const 3))))"),
            "it refuses to start: code 3",
        ),
        (text.text().replace(&start, "(unreachable)"), "it trapped"),
        (text.text().replace(&start, "(loop (br 0))"), "it did not return in time"),
        (Text { bytes: 2049, ..Text::default() }.text(), "it asks for 2049 bytes of each packet"),
        (Text { room: 4, ..Text::default() }.text(), "it asks for 4 bytes in front of packets"),
        (Text { flags: 4, ..Text::default() }.text(), "it asks for unknown properties"),
        (
            Text { bytes: 2048, room: 128, most: 64, ..Text::default() }
                .text()
                .replace("(i32.const 8192)", "(i32.const 200000)"),
            "its area",
        ),
        (Text { description: "summary A.\\0amemory 2048", ..Text::default() }.text(), "needs 2048 bytes of memory"),
    ] {
        std::fs::write(node.place.path().join("bad.wasm"), wat::parse_str(&module).unwrap()).unwrap();
        let error = node.try_run("create a code guest:bad memory 1kb").unwrap_err();
        assert!(error.contains(wrong), "{wrong}: {error}");
        assert_eq!(node.slices.names().count(), 0);
    }
    node.put("good", &Text { description: "summary A.\\0aoption n count 1 0 2 A number.", ..Text::default() });
    for (line, wrong) in [
        ("create a code guest:none", "there is no none.wasm"),
        ("create a code guest:good set n=3", "n=3 is above the maximum, 2"),
        ("create a code guest:good set m=3", "has no option 'm'"),
    ] {
        let error = node.try_run(line).unwrap_err();
        assert!(error.contains(wrong), "{wrong}: {error}");
    }
    node.run("create a code guest:good set n=2");
    node.slices.set_guests(None);
    let error = node.try_run("create b code guest:good").unwrap_err();
    assert!(error.contains("the router has no directory of guests"), "{error}");
}
