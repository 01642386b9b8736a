//! Replacement of code options while packets flow.

use super::{Node, Text, for_byte, frame, numbered};
use slice::DoubleRunReport;

/// Marks the last of four bytes of each packet, and counts in the memory of the slice.
fn marks(mark: u8) -> Text {
    let format = format!(
        "(block (result i32) (drop (call $add (local.get $i) (i32.const 0) (i64.const 1)))
            (i32.store8 offset=3 (local.get $b) (i32.const {mark})) (i32.const 0))"
    );
    Text { bytes: 4, flags: 1, format, ..Text::default() }
}

#[test]
fn replaced_guest_loses_no_packet_and_keeps_memory() {
    let mut node = Node::two(&marks(1));
    let before = node.report("a").code_digest;
    assert!(node.pass(&numbered(100)).iter().all(|packet| packet[3] == 1));
    // Frames wait at the port while the guest is replaced.
    numbered(50).iter().for_each(|payload| node.rig.send("lan", &frame(20_000, payload)));
    node.put("other", &marks(2));
    node.run("code a guest:other");
    numbered(50).iter().for_each(|payload| node.rig.send("lan", &frame(20_000, payload)));
    node.rig.settle();
    let arrived = node.arrived(20_000);
    assert_eq!((arrived.len(), arrived.iter().all(|packet| packet[3] == 2)), (100, true));
    let report = node.report("a");
    assert_eq!((report.counters.forwarded, node.word("a", 0), report.filters), (200, 200, 1));
    assert_eq!(report.spec.code, "guest:other");
    assert!(report.code_digest.is_some() && report.code_digest != before);
    // A new build under the same name, and a code option of this program.
    node.put("other", &marks(3));
    node.run("code a guest:other drain");
    assert!(node.pass(&numbered(9)).iter().all(|packet| packet[3] == 3));
    node.run("code a null");
    assert_eq!((node.pass(&numbered(9)), node.word("a", 0)), (numbered(9), 209));
    assert_eq!(node.report("a").code_digest, None);
}

#[test]
fn guest_sees_words_that_change_at_once() {
    let parse = "(block (result i32) (i64.store offset=16 (local.get $r) (call $load (local.get $i) (i32.const 8))) (i32.const 0))";
    let mut node = Node::two(&Text { flags: 2, parse: parse.into(), ..Text::default() });
    // The word is little-endian in the key. No function instance has used the guest that was started with the former memory.
    node.run("mem stage a 8 0000000000000042\nmem commit a\nfilter insert a 1 value 42 drop");
    assert_eq!(node.pass(&numbered(3)), Vec::<Vec<u8>>::new());
    node.run("mem stage a 8 0000000000000043\nmem commit a");
    assert_eq!(node.pass(&numbered(3)), numbered(3));
}

#[test]
fn guest_that_does_not_start_leaves_the_old_one_running() {
    let mut node = Node::two(&marks(1));
    node.pass(&numbered(3));
    std::fs::write(node.place.path().join("text.wasm"), "no module").unwrap();
    node.put("needy", &Text { bytes: 3000, ..Text::default() });
    node.put("large", &Text { description: "summary A.\\0amemory 4096", ..Text::default() });
    node.run("filter insert a 5 value 0000 send 1 1 198.51.100.9:9000");
    for (line, wrong) in [
        ("code a guest:none", "there is no none.wasm"),
        ("code a guest:text", "it is no WebAssembly module"),
        ("code a guest:needy", "it asks for 3000 bytes of each packet"),
        ("code a guest:needy double", "it asks for 3000 bytes of each packet"),
        ("code a guest:large", "needs 4096 bytes of memory"),
        ("code a null set x=1", "has no setting 'x'"),
        ("code a nul", "did you mean 'null'"),
        ("code a guest:mine double 0", "write `double 1`"),
    ] {
        let error = node.try_run(line).unwrap_err();
        assert!(error.contains(wrong), "{line}: {error}");
        assert!(node.pass(&numbered(3)).iter().all(|packet| packet[3] == 1), "{line}");
    }
    assert_eq!(node.report("a").spec.code, "guest:mine");
}

#[test]
fn double_run_counts_differences_and_the_old_guest_decides() {
    let mut node = Node::two(&marks(1));
    // It marks packets 5 otherwise, refuses packets 6, and also counts.
    let format = marks(1)
        .format
        .replace("(i32.const 1))", &format!("(i32.sub (i32.const 1) {}))", for_byte(5, "(i32.const 1)")));
    node.put("next", &Text { format, parse: for_byte(6, "(i32.const 2)"), ..marks(1) });
    node.run("code a guest:next double 1");
    assert!(node.pass(&numbered(10)).iter().all(|packet| packet[3] == 1));
    let report = node.report("a");
    // A packet that the new one refuses is formatted by both, because the old one decides.
    let expected = DoubleRunReport { compared: 20, differences: 2, failure: None };
    assert_eq!((report.double_run, report.spec.code.as_str()), (Some(expected), "guest:mine"));
    assert_eq!((report.counters.forwarded, node.word("a", 0)), (10, 10), "only the old one has the slice's memory");
    node.run("code a guest:next");
    assert_eq!(node.pass(&numbered(10)).len(), 9);
    let report = node.report("a");
    assert_eq!((report.double_run, report.spec.code.as_str(), node.word("a", 0)), (None, "guest:next", 19));
}

#[test]
fn double_run_compares_a_sample_and_survives_a_failure() {
    let mut node = Node::two(&marks(1));
    node.put("same", &marks(1));
    node.run("code a guest:same double 8");
    assert_eq!(node.pass(&numbered(160)).len(), 160);
    assert_eq!(node.report("a").double_run, Some(DoubleRunReport { compared: 40, differences: 0, failure: None }));
    node.put("trap", &Text { parse: for_byte(5, "(unreachable)"), ..marks(1) });
    node.run("code a guest:trap double 1");
    assert_eq!(node.pass(&numbered(100)).len(), 100, "the slice goes on");
    let double = node.report("a").double_run.unwrap();
    assert!(double.failure.as_ref().is_some_and(|failure| failure.contains("unreachable")), "{double:?}");
    assert_eq!((double.differences, node.report("a").is_suspended), (1, false));
    // The old one against a code option of this program, whose key is always zero and which marks nothing.
    node.run("code a null double 2");
    node.pass(&numbered(4));
    assert_eq!(node.report("a").double_run.map(|double| (double.compared, double.differences)), Some((4, 3)));
}

#[test]
fn suspended_slice_stays_suspended_when_its_code_is_replaced() {
    let mut node = Node::two(&marks(1));
    node.run("suspend a\ncode a guest:mine");
    assert_eq!(node.pass(&numbered(2)), Vec::<Vec<u8>>::new());
    node.run("resume a");
    assert_eq!(node.pass(&numbered(2)).len(), 2);
    // A failed one is started again by another code option.
    node.put("trap", &Text { parse: "(unreachable)".into(), ..Text::default() });
    node.run("code a guest:trap");
    node.pass(&numbered(2));
    assert!(node.report("a").failure.is_some());
    node.run("code a guest:mine");
    assert_eq!((node.pass(&numbered(2)).len(), node.report("a").failure), (2, None));
}
