//! Keys, changes of packets, second look-ups, and the memory of the slice.

use super::{Node, Text, for_byte, numbered};
use crate::built;
use packet::DropReason;
use slice::code::ExceptionCode;

#[test]
fn key_of_a_guest_selects_the_filter() {
    let mut node = Node::two(&Text::default());
    node.run(
        "filter insert a 1 value 03 drop
        filter insert a 2 value 04 exception slice_2
        filter insert a 3 value 05 send 1 1 198.51.100.9:9000 count 7",
    );
    let all = numbered(200);
    let expected: Vec<_> = all.iter().filter(|payload| !matches!(payload[0], 3 | 4)).cloned().collect();
    assert_eq!(node.pass(&all), expected, "more packets than one call has keep their order");
    assert_eq!(node.exceptions("a"), [(ExceptionCode::Own(2), all[4].clone())]);
    assert_eq!(node.slices.indices("a").unwrap()[7][0], 1);
    let report = node.report("a");
    assert_eq!((report.counters.forwarded, report.counters.policy_drops), (198, 1));
    assert_eq!((report.code_version, report.code_digest.is_some()), (1, true));
    assert_eq!(node.report("b").code_digest, None);
}

#[test]
fn verdict_of_a_guest_is_the_fate_of_its_packet() {
    let verdict = |stage: u8| format!("(i32.load8_u offset={stage} (local.get $b))");
    let mut node = Node::two(&Text { parse: verdict(1), format: verdict(2), ..Text::default() });
    let packets =
        [[9, 0, 0], [9, 1, 0], [9, 2, 0], [9, 4, 0], [9, 0, 1], [9, 0, 2], [9, 0, 9]].map(|bytes| bytes.to_vec());
    assert_eq!(node.pass(&packets), [[9, 0, 0]]);
    let counters = node.report("a").counters;
    assert_eq!((counters.malformed, counters.policy_drops, counters.exceptions), (2, 2, 2));
    let codes = node.exceptions("a").into_iter().map(|(code, _)| code);
    assert_eq!(codes.collect::<Vec<_>>(), [ExceptionCode::Ttl, ExceptionCode::Mtu]);
}

#[test]
fn guest_changes_bytes_front_and_length_of_packets() {
    // Byte 1 selects: 0 writes data of the filter, 1 adds 8 bytes, 2 removes 3, 3 cuts at 5 bytes, 4 removes more than the guest sees.
    let move_front = |by: i32| {
        format!(
            "(i32.store16 offset=14 (local.get $r) (i32.const {by}))
            (i32.store (local.get $r) (i32.sub (i32.load (local.get $r)) (i32.const {by})))"
        )
    };
    let case = |number: u8, then: &str| {
        format!("(if (i32.eq (i32.load8_u offset=1 (local.get $b)) (i32.const {number})) (then {then}))")
    };
    let format = [
        case(0, "(i32.store16 (local.get $b) (i32.load16_u offset=32 (local.get $r)))"),
        case(1, &format!("{} (i64.store (i32.sub (local.get $b) (i32.const 8)) (i64.const -1))", move_front(-8))),
        case(2, &move_front(3)),
        case(3, "(i32.store (local.get $r) (i32.const 5))"),
        case(4, &move_front(17)),
    ];
    let format = format!("(block (result i32) {} (i32.const 0))", format.concat());
    let mut node = Node::two(&Text { flags: 1, room: 8, format, ..Text::default() });
    let packet = |kind: u8| (0..20).map(|at| if at == 1 { kind } else { at }).collect::<Vec<u8>>();
    let packets: Vec<_> = [0, 1, 2, 3, 4, 5].map(packet).into_iter().cycle().take(150).collect();
    let changed = |packet: &Vec<u8>| match packet[1] {
        0 => [&[0x5a, 0x5b], &packet[2..]].concat(),
        1 => [&[0xff; 8], &packet[..]].concat(),
        2 => packet[3..].to_vec(),
        3 => packet[..5].to_vec(),
        4 => packet[17..].to_vec(),
        _ => packet.clone(),
    };
    assert_eq!(node.pass(&packets), packets.iter().map(changed).collect::<Vec<_>>());
    assert_eq!(node.report("a").counters.forwarded, 150);
}

#[test]
fn guest_asks_for_a_second_look_up_and_not_for_a_third() {
    let again = "(block (result i32) (i32.store8 offset=16 (local.get $r) (i32.const 200))
        (select (i32.const 64) (i32.const 0) (i32.eqz (i32.load8_u offset=33 (local.get $r)))))";
    let mut node = Node::two(&Text { format: again.into(), ..Text::default() });
    node.run(
        "filter insert a 1 value 01 send 1 1 198.51.100.9:9000
        filter insert a 2 value 02 send 1 1 198.51.100.9:9000 data 0001",
    );
    let [first, second] = [1, 2].map(|byte| vec![byte, 9]);
    assert_eq!(node.pass(&[first.clone(), second.clone()]), [first.clone(), second]);
    // The second look-up finds a filter that asks for a third one.
    node.run("filter insert a 3 value c8 send 1 1 198.51.100.9:9000");
    assert_eq!(node.pass(&[first]), Vec::<Vec<u8>>::new());
    assert_eq!(node.dropped(DropReason::SliceFault), 1);
    assert!(!node.report("a").is_suspended, "that is no fault of the guest");
}

#[test]
fn guest_reads_and_writes_the_memory_of_its_slice_only() {
    // Each packet counts in word 0; word 8 is a copy of word 16. A packet 9 reads beyond the memory. A packet 200 does so in the name of a packet that does not exist.
    let beyond = |packet: &str| {
        format!(
            "(if (result i32) (i64.eqz (call $load {packet} (i32.const 1024))) (then (i32.const 0)) (else (i32.const 1)))"
        )
    };
    let parse = format!(
        "(block (result i32) (drop (call $add (local.get $i) (i32.const 0) (i64.const 1)))
            (call $store (local.get $i) (i32.const 8) (call $load (local.get $i) (i32.const 16)))
            (i32.or {} {}))",
        for_byte(9, &beyond("(local.get $i)")),
        for_byte(200, &beyond("(i32.const 64)"))
    );
    let mut node = Node::two(&Text { parse, ..Text::default() });
    node.run("mem write a 16 0123456789abcdef");
    assert_eq!(node.pass(&numbered(20)).len(), 19, "one packet is lost");
    assert_eq!((node.word("a", 0), node.word("a", 8), node.word("b", 0)), (20, 0x0123_4567_89ab_cdef, 0));
    assert_eq!((node.dropped(DropReason::SliceFault), node.report("a").is_suspended), (1, false));
    // All packets of the call are lost, and none of another slice.
    node.send(20_100, &numbered(3));
    assert_eq!(node.pass(&[vec![200], vec![1]]), Vec::<Vec<u8>>::new());
    assert_eq!((node.report("a").counters.faults, node.report("b").counters.forwarded), (3, 3));
}

#[test]
fn guest_without_formatter_is_not_called_for_it() {
    let mut node = Node::two(&Text { flags: 2, format: "(unreachable)".into(), ..Text::default() });
    assert_eq!(node.pass(&numbered(3)), numbered(3));
}

#[test]
fn label_guest_of_each_language_swaps_and_removes_labels() {
    for file in ["start_slice.c", "start_slice.ts", "slice.rs"] {
        let Some(module) = built::slice_template(file) else { continue };
        let mut node = Node::new();
        std::fs::write(node.place.path().join("labels.wasm"), module).unwrap();
        node.slice("a", 20_000, "guest:labels set ttl=3");
        node.run(
            "filter insert a 1 value 00000010 mask fffffff0 send 1 1 198.51.100.9:9000 data 00deadb0
            filter insert a 2 value 00000020 mask fffffff0 send 1 1 198.51.100.9:9000 data 01",
        );
        let packets = [[0, 0, 0x1f, 9, 7], [0, 0, 0x2f, 9, 8], [0, 0, 0x1f, 2, 7]].map(|bytes| bytes.to_vec());
        assert_eq!(node.pass(&packets), [vec![0xde, 0xad, 0xbf, 8, 7], vec![8]], "{file}");
        assert_eq!(node.exceptions("a"), [(ExceptionCode::Ttl, packets[2].clone())], "{file}");
        assert_eq!(node.pass(&[vec![1, 2, 3]]), Vec::<Vec<u8>>::new());
        assert_eq!((node.report("a").counters.malformed, node.word("a", 0)), (1, 2), "{file}");
    }
}
