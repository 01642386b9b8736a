//! Faulty packet functions: they are refused when they are loaded, or switched off while they run. The router is never harmed.

use super::{BLOCK, Line, PORT, Text, one};
use extension::{FUNCTION_LAWS, GuestFunction, GuestProgram, Runtime, examine_function};
use packet::DropReason;

fn clock() -> units::Nanos {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    units::Nanos::new(used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64)
}

/// A body that fails for packets to port 7, in each possible way, and its message.
fn faults() -> Vec<(Text, &'static str)> {
    let seven =
        |then: &str| format!("(if (result i32) (i32.eq {PORT} (i32.const 7)) (then {then}) (else (i32.const 0)))");
    let writes = |at: u32| {
        let verdict = seven(&format!("(i32.store8 offset={at} (local.get $b) (i32.const 255)) (i32.const 0)"));
        Text { flags: 4, ..Text::seeing(&verdict) }
    };
    vec![
        (Text::seeing(&seven("(unreachable)")), "it trapped: wasm trap: wasm `unreachable` instruction executed"),
        (Text::seeing(&seven("(loop (br 0)) (unreachable)")), "it did not return in time"),
        (Text::seeing(&seven("(i32.store (i32.const -8) (i32.const 1)) (i32.const 0)")), "out of bounds"),
        (Text::seeing(&seven("(i32.const 2)")), "it applies rule 0, but the path has 0 rules"),
        (Text::seeing(&seven("(i32.const -1)")), "it applies rule 65533, but the path has 0 rules"),
        (writes(0), "it changes the version and header length of a packet"),
        (writes(3), "it changes the total length of a packet"),
        (writes(8), "it changes the time to live of a packet"),
    ]
}

#[test]
fn a_failed_guest_is_switched_off_and_its_packets_bypass_it_or_are_dropped() {
    for (text, message) in faults() {
        for drops in [false, true] {
            let mut line = Line::new();
            line.put("mine", &text.module());
            let guest = if drops { "guest:mine(on_fault=drop)" } else { "guest:mine" };
            line.apply(&one(guest, ""));
            assert_eq!(line.pass([1, 2]), [1, 2], "{message}");
            // The packets of the failed call are treated like all after it.
            let left = line.pass([3, 7, 4]);
            assert_eq!(left, if drops { vec![] } else { vec![3, 7, 4] }, "{message}");
            assert_eq!(line.pass([5]), if drops { vec![] } else { vec![5] }, "{message}");
            let counts = ["faults", "after a fault", "passed"].map(|name| line.counter(name));
            assert_eq!(counts, [1, 4, 2], "{message}");
            assert_eq!(line.dropped(DropReason::GuestFailed), if drops { 4 } else { 0 });
            let events = line.events();
            let said =
                events.len() == 1 && events[0].contains(message) && events[0].contains(&format!("drops: {drops}"));
            assert!(said, "{message}: {events:?}");
            // A new build replaces it.
            line.put("mine", &Text::default().module());
            line.apply(&one(guest, ""));
            assert_eq!(line.pass([3, 7]), [3, 7], "{message}");
        }
    }
}

#[test]
fn a_guest_on_a_machine_is_ended_after_its_time() {
    let endless = Text::seeing(&format!(
        "(if (result i32) (i32.eq {PORT} (i32.const 7)) (then (loop (br 0)) (unreachable)) (else (i32.const 0)))"
    ));
    let mut line = Line::with(Runtime::timed(clock).unwrap());
    line.put("mine", &endless.module());
    line.apply(&one("guest:mine", ""));
    assert_eq!(line.pass([1]), [1]);
    let start = clock();
    assert_eq!(line.pass([7, 8]), [7, 8]);
    let used = clock().saturating_sub(start);
    assert!(used < units::Nanos::millis(20), "{used}");
    assert!(line.events().concat().contains("it did not return in time"));
}

#[test]
fn guests_do_not_share_memory() {
    let mut line = Line::new();
    // Each marks its memory at the first packet, and drops packets that find the mark of before. Both have the same code.
    let verdict = "(if (result i32) (i32.load (i32.const 512)) (then (i32.const 1))
        (else (i32.store (i32.const 512) (i32.const 1)) (i32.const 0)))";
    line.put("one", &Text::seeing(verdict).module());
    line.put("two", &Text::seeing(verdict).module());
    line.apply("[[path]]\nname = 'all'\nmatch = 'any'\nfunctions = ['guest:one', 'guest:two', 'ip']\n");
    assert_eq!(line.pass([1, 2]), [1], "the second guest has not seen the mark of the first");
}

#[test]
fn modules_that_are_no_functions_are_refused_with_a_reason() {
    let runtime = Runtime::counted().unwrap();
    let load = |text: &str| {
        let module = wat::parse_str(text).unwrap_or_else(|wrong| panic!("{wrong}: {text}"));
        GuestFunction::load(&module, &runtime).map(drop).map_err(|error| error.to_string())
    };
    let text = Text::default().text();
    assert_eq!(load(&text), Ok(()));
    for (from, to, wrong) in [
        ("\"switchpath_function\"", "\"other\"", "it is no packet function"),
        ("\"switchpath_block\"", "\"other\"", "it exports no 'switchpath_block'"),
        ("\"switchpath_process\"", "\"other\"", "it exports no 'switchpath_process'"),
        ("(export \"memory\") 4", "(export \"memory\") 17", "KiB of memory"),
        ("(result i32) (i32.const 1))", "(result i32) (i32.const 2))", "built for version 2"),
        ("summary Of a test.", "sumary Of a test.", "neither a summary nor an option"),
        ("(module", "(module (import \"wasi\" \"exit\" (func))", "imports 'exit' of 'wasi'"),
        ("(module", "(module (import \"switchpath\" \"emit\" (func))", "it cannot be linked"),
        ("(module", "(module (func (export \"switchpath_state\"))", "its export 'switchpath_state' has the wrong type"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = load(&text.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(wrong), "{from} -> {to}: {error}");
    }
    let scheme = GuestProgram::load(&wat::parse_str(&text).unwrap(), &runtime).unwrap_err();
    assert!(scheme.reason.contains("it is a packet function, no scheme"), "{scheme}");
    let fifo = include_str!("../../../../../examples/guests/fifo.wat");
    assert!(load(fifo).unwrap_err().contains("it is no packet function"));
}

#[test]
fn a_guest_that_does_not_start_is_refused_and_the_old_configuration_stays() {
    let mut line = Line::guest(&Text::seeing(PORT).module(), "");
    let start = "(i32.const 0))\n            (func (export \"switchpath_process\")";
    let text = Text::default();
    assert!(text.text().contains(start));
    for (module, wrong) in [
        (text.text().replace(start, &start.replacen("0", "3", 1)), "it refuses to start: code 3"),
        (text.text().replace(start, &start.replacen("(i32.const 0)", "(unreachable)", 1)), "it trapped"),
        (Text { bytes: 2049, ..Text::default() }.text(), "it asks for 2049 bytes of each packet"),
        (Text { most: 65, ..Text::default() }.text(), "it asks for 65 packets at once"),
        (Text { flags: 16, ..Text::default() }.text(), "it asks for unknown properties"),
        (
            text.text().replace(&format!("(i32.const {BLOCK}))"), "(i32.const 1025))"),
            "its block is not in its memory, or not at a multiple of 8",
        ),
        (
            text.text().replace(&format!("(i32.const {BLOCK}))"), "(i32.const 262000))"),
            "its block is not in its memory",
        ),
    ] {
        line.put("other", &wat::parse_str(&module).unwrap());
        let error = line.try_apply(&one("guest:other", "")).unwrap_err();
        assert!(error.contains(wrong) && error.contains("guest:other"), "{wrong}: {error}");
    }
    assert_eq!(line.pass([0, 1]), [0], "the old guest works on");
}

#[test]
fn configuration_errors_about_guests_name_the_place_and_the_remedy() {
    let mut line = Line::new();
    line.put("mine", &Text::default().module());
    line.put("fifo", &wat::parse_str(include_str!("../../../../../examples/guests/fifo.wat")).unwrap());
    for (paths, wrong) in [
        (one("guest:his", ""), "there is no his.wasm"),
        (one("guest:fifo", ""), "it is no packet function"),
        (one("guest:mine(on_fault=maybe)", ""), "'maybe' is none of the choices"),
        (one("guest:mine(rate=1mbit)", ""), "has no option 'rate'"),
        (one("guest:mine", "guest_rules = ['a nowhere']"), "there is no path 'nowhere'"),
        (one("guest:mine", "guest_rules = ['a all']"), "the packet is on path 'all' already"),
        (one("guest:mine", "guest_rules = ['a']"), "a rule has at least two words"),
        (one("ip", "guest_rules = ['a drop']").replace("'ip', 'ip'", "'ip'"), "the path has no guest function"),
    ] {
        let error = line.try_apply(&paths).unwrap_err();
        assert!(error.contains(wrong), "{wrong}: {error}");
    }
}

/// Drops packets of an odd length.
const ODD: &str = "(i32.and (i32.load offset=8 (local.get $r)) (i32.const 1))";

#[test]
fn broken_function_law_is_reported_with_its_cause() {
    let runtime = Runtime::counted().unwrap();
    let tried = |text: &Text| {
        let function = GuestFunction::load(&text.module(), &runtime).unwrap();
        let declaration = function.declared().declaration("guest:mine");
        let call = plan::Call::parse("guest:mine", &[declaration], "guest").unwrap();
        let tried = examine_function(&function, &call, 3).unwrap();
        let broken: Vec<_> = tried.verdicts.iter().filter(|verdict| verdict.broken.is_some()).map(|v| v.law).collect();
        assert_eq!((tried.is_good(), tried.verdicts.len()), (broken.is_empty(), FUNCTION_LAWS.len()));
        (broken, tried)
    };
    let (none, good) = tried(&Text::seeing(ODD));
    assert!(
        none.is_empty() && good.packets > 1000 && good.dropped > 100 && good.changed == 0 && good.has_rules,
        "{good:?}"
    );
    for (text, law) in [
        (Text::seeing("(i32.const 4)"), "sound decisions"),
        (
            Text::seeing(
                "(if (result i32) (i32.eq (local.get $i) (i32.const 40)) (then (unreachable)) (else (i32.const 0)))",
            ),
            "sound decisions",
        ),
        (
            Text {
                flags: 4,
                ..Text::seeing(
                    "(block (result i32) (i32.store8 offset=8 (local.get $b) (i32.const 255)) (i32.const 0))",
                )
            },
            "sound decisions",
        ),
        (Text::seeing("(i32.eq (local.get $i) (i32.const 1))"), "batches"),
        // A byte that a short packet does not have: it is that of an earlier packet.
        (Text::seeing("(i32.and (i32.load8_u offset=39 (local.get $b)) (i32.const 1))"), "batches"),
        (
            Text {
                flags: 4,
                ..Text::seeing("(block (result i32) (i32.store8 offset=1 (local.get $b) (local.get $i)) (i32.const 0))")
            },
            "batches",
        ),
    ] {
        assert_eq!(tried(&text).0, [law]);
    }
    assert_eq!(good, tried(&Text::seeing(ODD)).1, "the same verdict each time");
}
