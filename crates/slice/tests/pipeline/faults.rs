//! Code options that fail: their packets end, and other slices go on.

use crate::node::{Node, filter, frame, spec, to_wan};
use crate::trial::{BEYOND_MEMORY, ENDLESS, PANIC_IN_FORMAT, PANIC_IN_PARSE};
use packet::DropReason;
use slice::code::{CodeEnv, CodeOption, CodeRegistration, Diversion, ExceptionCode, Formatted, InnerEdit};
use slice::code::{LookupKey, LookupResult};
use slice::{SliceCounters, SliceMemory, SliceSpec};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn two_slices() -> Node {
    let mut node = Node::new();
    for (name, port) in [("a", 20_000), ("b", 20_100)] {
        node.slice(name, port);
        node.insert(name, 0, filter(b"", to_wan(1)));
    }
    node
}

/// Sends payloads as one batch, those of both slices in turn, and returns the payloads that arrive from `b`.
fn send_batch(node: &mut Node, to_a: &[&[u8]]) -> usize {
    for payload in to_a {
        node.rig.send("lan", &frame(20_000, payload));
        node.rig.send("lan", &frame(20_100, b"of b"));
    }
    node.rig.settle();
    node.received().into_iter().filter(|(port, _)| *port == 20_100).count()
}

#[test]
fn code_option_panic_isolated() {
    for (stage, payload) in [("parse", PANIC_IN_PARSE), ("format", PANIC_IN_FORMAT)] {
        let mut node = two_slices();
        let calm: &[u8] = b"calm";
        assert_eq!(send_batch(&mut node, &[calm, &[payload, 0], calm, calm]), 4, "{stage}: the other slice goes on");
        let report = node.report("a");
        assert!(report.is_suspended);
        let place = report
            .failure
            .as_deref()
            .and_then(|failure| failure.strip_prefix(&*format!("{stage} met {payload:#x}, at ")));
        assert!(place.is_some_and(|place| place.contains("trial.rs:")), "{report:?}");
        assert_eq!((report.counters.faults, report.counters.received), (1, 4), "{stage}");
        assert!(!node.report("b").is_suspended);
        assert_eq!(send_batch(&mut node, &[calm, calm]), 2);
        assert_eq!(node.report("a").counters.suspended, report.counters.suspended + 2);
        // It is started again with a new code option, the same memory and the same counters.
        node.slices.suspend("a", false).unwrap();
        send_batch(&mut node, &[calm]);
        let after = node.report("a");
        assert_eq!((after.is_suspended, after.failure), (false, None));
        assert_eq!(after.counters.forwarded, report.counters.forwarded + 1, "{stage}");
        assert_eq!(node.slices.memory("a").unwrap().load(0), Some(after.counters.forwarded));
    }
}

/// Set in the process that panics.
const PANICKING: &str = "SWITCHPATH_PANICKING";

/// A process of its own, because the hook and the standard error belong to the process.
#[test]
fn panics_of_code_options_write_nothing_and_other_panics_do() {
    let name = "faults::panics_of_code_options_write_nothing_and_other_panics_do";
    if std::env::var_os(PANICKING).is_some() {
        let mut node = two_slices();
        for payload in [PANIC_IN_PARSE, PANIC_IN_FORMAT].repeat(50) {
            node.send(20_000, &[payload, 0]);
            assert!(node.report("a").is_suspended);
            node.slices.suspend("a", false).unwrap();
        }
        panic!("{} code options have panicked", node.report("a").counters.faults);
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env(PANICKING, "1").env("RUST_BACKTRACE", "1");
    let output = command.output().unwrap();
    let written = String::from_utf8_lossy(&output.stderr);
    assert!(written.contains("100 code options have panicked") && written.contains("stack backtrace:"), "{written}");
    assert_eq!((written.matches("panicked at ").count(), written.matches(" met ").count()), (1, 0), "{written}");
}

#[test]
fn code_option_memory_bounds() {
    let mut node = two_slices();
    assert_eq!(send_batch(&mut node, &[&[BEYOND_MEMORY], b"calm"]), 2);
    assert_eq!(node.drops(), [(DropReason::SliceFault, 1)], "although the code option ignores the error");
    let SliceCounters { faults, forwarded, .. } = node.report("a").counters;
    assert_eq!((faults, forwarded), (1, 1));
    let memory = SliceMemory::new(16);
    let mut env = CodeEnv::new(&memory, 0, 100);
    assert_eq!((env.store(8, 5), env.load(8), env.add(8, 2), env.load(8)), (Ok(()), Ok(5), Ok(5), Ok(7)));
    assert_eq!(env.fault(), None);
    let beyond = Diversion::OutOfMemory;
    assert_eq!((env.load(16), env.store(4, 1), env.add(usize::MAX, 1)), (Err(beyond), Err(beyond), Err(beyond)));
    assert_eq!(env.fault(), Some(beyond));
}

#[test]
fn code_option_beyond_its_steps_is_throttled() {
    let mut node = two_slices();
    let endless: &[u8] = &[ENDLESS];
    assert_eq!(send_batch(&mut node, &[b"calm", endless, b"calm", endless]), 4);
    assert_eq!(node.exceptions("a"), [ExceptionCode::OverBudget], "one at most of a batch");
    assert_eq!(node.drops(), [(DropReason::SliceSuspended, 3)], "also the packet that was parsed before");
    // The next batch is processed again, and the slice is not suspended.
    send_batch(&mut node, &[b"calm"]);
    assert!(!node.report("a").is_suspended);
    assert_eq!(node.report("a").counters.forwarded, 1);
}

#[test]
fn suspended_slice_gets_no_packets() {
    let mut node = two_slices();
    node.slices.suspend("a", true).unwrap();
    assert_eq!(send_batch(&mut node, &[b"x"]), 1);
    assert_eq!(node.drops(), [(DropReason::SliceSuspended, 1)]);
    node.slices.suspend("a", false).unwrap();
    node.send(20_000, b"x");
    assert_eq!(node.received().len(), 1);
}

/// The instances of the code option `alive`.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

struct Alive;

impl Drop for Alive {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Relaxed);
    }
}

impl CodeOption for Alive {
    fn parse(&mut self, _: &[u8], _: &mut CodeEnv<'_>) -> Result<LookupKey, Diversion> {
        Ok(LookupKey::new(&[]))
    }

    fn format(&mut self, _: &mut InnerEdit<'_>, _: &LookupResult, _: &mut CodeEnv<'_>) -> Result<Formatted, Diversion> {
        Ok(Formatted::Send)
    }
}

/// A guest holds megabytes, so its instance must not wait for a packet to a slice of the same number.
#[test]
fn code_option_of_a_deleted_slice_is_freed() {
    const COUNTED: CodeRegistration = CodeRegistration {
        name: "alive",
        summary: "counts its instances",
        make: |_| {
            ALIVE.fetch_add(1, Relaxed);
            Ok(Box::new(Alive))
        },
        ..crate::trial::TRIAL
    };
    let mut node = two_slices();
    node.slices.register_code(&COUNTED);
    node.slices.create(SliceSpec { code: "alive".into(), ..spec("c") }).unwrap();
    node.furnish("c", 20_200);
    node.insert("c", 0, filter(b"", to_wan(1)));
    node.send(20_200, b"x");
    assert_eq!((node.report("c").counters.forwarded, ALIVE.load(Relaxed)), (1, 1));
    node.slices.delete(&mut node.rig.router, "c").unwrap();
    node.send(20_000, b"of another slice");
    node.slices.free_ended();
    assert_eq!(ALIVE.load(Relaxed), 0);
}
