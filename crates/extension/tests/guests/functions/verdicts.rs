//! The verdicts of packet functions, and the records of packets.

use super::{Line, PORT, Text, one};
use packet::DropReason;
use proptest::prelude::*;

/// A second path, which no packet matches.
const OTHER: &str = "[[path]]\nname = 'other'\nmatch = 'udp dport 65535'\n";

#[test]
fn guest_decides_which_packets_pass_drop_and_change_path() {
    let mut line = Line::new();
    // The verdict is the port: 0 pass, 1 drop, 2 the first rule and so on.
    line.put("mine", &Text::seeing(PORT).module());
    let rules = "guest_rules = ['to the other other', 'none drop', 'all pass']";
    line.apply(&format!("{}{OTHER}", one("guest:mine", rules)));
    // Packets of the other path may leave before or after.
    let mut left = line.pass([0, 1, 2, 3, 4, 0]);
    left.sort_unstable();
    assert_eq!(left, [0, 0, 2, 4]);
    let counts = ["passed", "dropped", "moved to another path", "rule to the other other", "rule none drop"];
    assert_eq!(counts.map(|name| line.counter(name)), [3, 2, 1, 1, 1]);
    assert_eq!(line.dropped(DropReason::Guest), 2);
    let other = line.rig.router.snapshot().paths.iter().find(|path| &*path.name == "other").unwrap().id;
    let report = line.rig.report();
    let other = report.paths.iter().find(|path| path.path == other).unwrap();
    assert_eq!((other.counters.entered, other.counters.left), (1, 1));
}

#[test]
fn a_vector_is_divided_into_calls_of_the_size_that_the_guest_asks_for() {
    // It drops all packets of a call with more than three, and the second packet of each call.
    let verdict = "(i32.or (i32.gt_u (i32.load (i32.const 1032)) (i32.const 3)) (i32.eq (local.get $i) (i32.const 1)))";
    let mut line = Line::guest(&Text { most: 3, ..Text::seeing(verdict) }.module(), "");
    // The router divides the packets into vectors. The last call of a vector has fewer packets.
    let left = line.pass(0..200).len();
    assert!((200 - 67..=200 - 60).contains(&left), "{left}");
}

#[test]
fn functions_of_a_path_pass_on_a_word() {
    let mut line = Line::new();
    // The first writes its port into the word, the second drops packets whose word is 7.
    let first = format!("(block (result i32) (i32.store offset=12 (local.get $r) {PORT}) (i32.const 0))");
    line.put("first", &Text { flags: 8, ..Text::seeing(&first) }.module());
    line.put("second", &Text::seeing("(i32.eq (i32.load offset=12 (local.get $r)) (i32.const 7))").module());
    let path = "[[path]]\nname = 'all'\nmatch = 'any'\nfunctions = ['guest:first', 'guest:second', 'ip']\n";
    line.apply(path);
    assert_eq!(line.pass([6, 7, 8]), [6, 8]);
    // Without the property the word stays.
    line.put("first", &Text::seeing(&first).module());
    line.apply(path);
    assert_eq!(line.pass([6, 7, 8]), [6, 7, 8]);
}

#[test]
fn record_has_the_documented_fields() {
    // Drops a packet unless all fields are as expected: its length, UDP, its header at 20, its payload at 28, no flags, a flow hash.
    let length = plane::rig::UdpFrame::between_ports(4000, 9).frame(b"payload").len() as u32 - 14;
    let is = |load: &str, value: u32| format!("(i32.eq ({load} (local.get $r)) (i32.const {value}))");
    let all = [
        is("i32.load offset=8", length),
        is("i32.load16_u offset=20", length.min(40)),
        is("i32.load16_u offset=22", 20),
        is("i32.load16_u offset=24", 28),
        is("i32.load8_u offset=28", 17),
        is("i32.load8_u offset=29", 0),
        "(i32.ne (i32.load offset=16 (local.get $r)) (i32.const 0))".into(),
        "(i64.ne (i64.load (i32.const 1024)) (i64.const 0))".into(),
    ];
    let all = all.into_iter().reduce(|all, one| format!("(i32.and {all} {one})")).unwrap();
    let mut line = Line::guest(&Text { flags: 3, ..Text::seeing(&format!("(i32.eqz {all})")) }.module(), "");
    assert_eq!(line.pass([9]), [9]);
}

#[test]
fn changed_bytes_leave_with_the_packet_and_a_changed_destination_is_routed_again() {
    let write = |at: u32, value: u32| {
        format!("(block (result i32) (i32.store8 offset={at} (local.get $b) (i32.const {value})) (i32.const 0))")
    };
    let mut line = Line::guest(&Text { flags: 4, ..Text::seeing(&write(28, 80)) }.module(), "");
    let frame = plane::rig::UdpFrame::between_ports(4000, 9).frame(b"payload");
    let left = line.pass_frames(std::slice::from_ref(&frame));
    assert_eq!(&left[0][42..49], b"Payload");
    // To 198.51.101.9, which has no route. The guest's change is not repeated for the packet in its second round.
    let mut line = Line::guest(&Text { flags: 4, ..Text::seeing(&write(18, 101)) }.module(), "");
    assert!(line.pass([9]).is_empty());
    let dropped: Vec<_> = line.rig.report().ledger.drops().filter(|(_, count)| *count > 0).collect();
    assert_eq!(dropped.len(), 1, "{dropped:?}");
    // Without the property nothing is changed.
    let mut line = Line::guest(&Text::seeing(&write(28, 80)).module(), "");
    assert_eq!(&line.pass_frames(&[frame])[0][42..49], b"payload");
}

#[test]
fn state_survives_a_new_build_with_the_same_version() {
    // It drops all packets after the third. The count is at 512, described at 600.
    let count = "(block (result i32) (i32.store (i32.const 512) (i32.add (i32.load (i32.const 512)) (i32.const 1)))
        (i32.gt_u (i32.load (i32.const 512)) (i32.const LIMIT)))";
    let build = |version: u32, limit: u32| {
        let rest = format!(
            r#"(data (i32.const 600) "\{version:02}\00\00\00\00\02\00\00\04\00\00\00")
            (func (export "switchpath_state") (result i32) (i32.const 600))"#
        );
        Text { rest, ..Text::seeing(&count.replace("LIMIT", &limit.to_string())) }.module()
    };
    let mut line = Line::guest(&build(1, 3), "");
    assert_eq!(line.pass([1, 2]), [1, 2]);
    // Another build of the same version: two packets are counted already.
    line.put("mine", &build(1, 4));
    line.apply(&one("guest:mine", ""));
    assert_eq!(line.pass([3, 4, 5]), [3, 4]);
    // Another version begins anew.
    line.put("mine", &build(2, 4));
    line.apply(&one("guest:mine", ""));
    assert_eq!(line.pass([6, 7, 8, 9, 10]), [6, 7, 8, 9]);
    // An unchanged guest continues, although another path is new.
    line.apply(&format!("{}{OTHER}", one("guest:mine", "")));
    assert!(line.pass([11]).is_empty());
}

#[test]
fn preemptible_path_runs_guests() {
    let mut line = Line::guest(&Text::seeing(PORT).module(), "preemptible = true");
    assert_eq!(line.pass([0, 1, 0]), [0, 0]);
}

#[test]
fn explain_reports_the_rule_of_the_guest_without_a_trace_of_it() {
    let mut line = Line::guest(&Text::seeing(PORT).module(), "guest_rules = ['ads drop']");
    let path = line.rig.router.snapshot().paths.iter().find(|path| &*path.name == "all").unwrap().clone();
    let mut functions = line.rig.router.functions().build(&path).unwrap();
    for (port, said) in [(0, "pass"), (1, "drop"), (2, "rule ads drop")] {
        let mut packet = line.rig.packet(&plane::rig::UdpFrame::between_ports(1, port).frame(&[]));
        packet.meta_mut().l3 = 14;
        let (snapshot, tables) = (line.rig.router.snapshot().clone(), line.rig.router.tables().clone());
        let asked = std::cell::Cell::default();
        let context = plane::function::Context {
            now: line.rig.now,
            snapshot: &snapshot,
            tables: &tables,
            nat: &snapshot.translations,
            limit: None,
            dry_run: true,
            extra_time: &asked,
        };
        functions[0].process(context, std::slice::from_mut(&mut packet));
        assert_eq!(functions[0].decision().as_deref(), Some(said));
        line.rig.pool.give(packet);
    }
    assert_eq!(line.counter("passed"), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any verdicts, on packets in vectors of any length, have the fates that a list of rules predicts.
    #[test]
    fn verdicts_have_the_fates_of_a_naive_model(verdicts in prop::collection::vec(0u16..5, 1..300), most in 0u32..9) {
        let mut line = Line::new();
        line.put("mine", &Text { most, ..Text::seeing(PORT) }.module());
        let rules = "guest_rules = ['a drop', 'b pass', 'c other']";
        line.apply(&format!("{}{OTHER}", one("guest:mine(on_fault=drop)", rules)));
        let mut left = line.pass(verdicts.iter().copied());
        // Pass, drop, and the three rules.
        let mut wanted: Vec<u16> = verdicts.iter().copied().filter(|&verdict| [0, 3, 4].contains(&verdict)).collect();
        // Packets of the other path may leave before or after.
        left.sort_unstable();
        wanted.sort_unstable();
        prop_assert_eq!(&left, &wanted);
        let count = |which: u16| verdicts.iter().filter(|&&verdict| verdict == which).count() as u64;
        prop_assert_eq!(["rule a drop", "rule b pass", "rule c other"].map(|rule| line.counter(rule)), [2, 3, 4].map(count));
        prop_assert_eq!((line.counter("faults"), line.dropped(DropReason::Guest)), (0, count(1) + count(2)));
    }
}
