//! Guests and packets that try to harm other slices.

use super::{AREA, BLOCK, Node, Text, frame, numbered};
use packet::DropReason;

/// Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003.
fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Hostile guests, and true if their slice is suspended for it.
fn guests() -> Vec<(&'static str, Text, bool)> {
    let fill = |from: u32, bytes: u32, value: i32| {
        format!("(memory.fill (i32.const {from}) (i32.const {value}) (i32.const {bytes}))")
    };
    let then = |code: String, verdict: i32| format!("(block (result i32) {code} (i32.const {verdict}))");
    let random_key =
        "(i64.store offset=16 (local.get $r) (i64.mul (i64.load (local.get $b)) (i64.const 0x9e3779b97f4a7c15)))
        (i32.store offset=24 (local.get $r) (local.get $i)) (i32.store16 offset=28 (local.get $r) (i32.const -1))";
    let grow = "(drop (memory.grow (i32.const 1000)))
        (if (i32.ge_s (memory.grow (i32.const 13)) (i32.const 0)) (then (unreachable)))";
    let out = "(i32.store16 offset=6 (local.get $r) (i32.const -1)) (i32.store offset=8 (local.get $r) (i32.const -1))";
    vec![
        ("endless", Text { parse: "(loop (br 0)) (unreachable)".into(), ..Text::default() }, true),
        ("huge memory", Text { parse: then(grow.into(), 0), ..Text::default() }, false),
        ("trap in parse", Text { parse: "(unreachable)".into(), ..Text::default() }, true),
        ("trap in format", Text { format: "(unreachable)".into(), ..Text::default() }, true),
        (
            "writes over all packets of the call",
            Text { flags: 1, format: then(fill(AREA, 64 * 16, 0xee), 0), ..Text::default() },
            false,
        ),
        ("writes over its block", Text { parse: then(fill(BLOCK, 4288, 0), 0), ..Text::default() }, false),
        (
            "writes ones over its records",
            Text { flags: 1, format: then(fill(BLOCK + 192, 4096, 0xff), 0), ..Text::default() },
            true,
        ),
        ("random keys", Text { parse: then(random_key.into(), 0), ..Text::default() }, false),
        ("another queue and interface", Text { flags: 1, format: then(out.into(), 0), ..Text::default() }, false),
        (
            "writes over the number of packets",
            Text { parse: then(fill(BLOCK + 8, 4, 0xff), 0), ..Text::default() },
            true,
        ),
    ]
}

#[test]
fn hostile_guest_harms_no_other_slice() {
    for (name, text, is_suspended) in guests() {
        let mut node = Node::two(&text);
        for _ in 0..6 {
            for payload in numbered(60) {
                node.rig.send("lan", &frame(20_000, &payload));
                node.rig.send("lan", &frame(20_100, &payload));
            }
            node.rig.settle();
            assert_eq!(node.arrived(20_100), numbered(60), "{name}");
        }
        assert_eq!((node.report("b").counters.forwarded, node.report("a").counters.received), (360, 360), "{name}");
        let report = node.report("a");
        assert_eq!(report.is_suspended, is_suspended, "{name}: {report:?}");
        if !is_suspended {
            assert_eq!(report.counters.forwarded, 360, "{name}");
        }
    }
}

#[test]
fn mutated_frames_into_guests_are_all_counted() {
    let frames = std::env::var("SWITCHPATH_FRAMES").map_or(100_000, |n| n.parse().expect("a number of frames"));
    // The guests divide the packets among all verdicts and changes that the router accepts, by bytes of the packet.
    let parse = "(i32.rem_u (i32.load8_u offset=1 (local.get $b)) (i32.const 3))";
    let format = "(block (result i32)
        (i32.store16 offset=14 (local.get $r)
            (i32.sub (i32.rem_u (i32.load8_u offset=2 (local.get $b)) (i32.const 17)) (i32.const 16)))
        (i32.store (local.get $r) (i32.const 0))
        (if (i32.gt_s (i32.load16_s offset=14 (local.get $r)) (i32.const 0)) (then (i32.store16 offset=14 (local.get $r) (i32.const 0))))
        (i32.store (local.get $r) (i32.rem_u (i32.load8_u offset=3 (local.get $b)) (i32.const 16)))
        (select (i32.const 64) (i32.add (i32.rem_u (i32.load8_u offset=4 (local.get $b)) (i32.const 5)) (i32.const 0))
            (i32.eqz (i32.load8_u offset=5 (local.get $b)))))";
    let edits = Text { bytes: 24, flags: 1, room: 16, parse: parse.into(), format: format.into(), ..Text::default() };
    let mut node = Node::two(&edits);
    node.put("keys", &Text { flags: 2, ..Text::default() });
    node.slice("c", 20_200, "guest:keys");
    let (mut state, mut batch) = (0x9e37_79b9_7f4a_7c15, 0);
    for number in 0..frames {
        let port = [20_000, 20_000, 20_100, 20_200][(xorshift(&mut state) % 4) as usize];
        let payload: Vec<u8> = (0..xorshift(&mut state) % 64).map(|_| xorshift(&mut state) as u8).collect();
        let mut frame = frame(port, &payload);
        for _ in 0..xorshift(&mut state) % 4 {
            let at = (xorshift(&mut state) % frame.len() as u64) as usize;
            match xorshift(&mut state) % 8 {
                0 => frame.truncate(at.max(14)),
                _ => frame[at] ^= 1 << (xorshift(&mut state) % 8),
            }
        }
        node.rig.send("lan", &frame);
        batch += 1;
        // Batches of many sizes.
        if batch > xorshift(&mut state) % 200 || number + 1 == frames {
            batch = 0;
            node.rig.settle();
            ["lan", "wan"].into_iter().for_each(|wire| drop(node.rig.received(wire)));
            ["a", "b", "c"].into_iter().for_each(|name| drop(node.exceptions(name)));
        }
        // A short packet leads the guest to an invalid decision.
        if number % 1000 == 0 && node.report("a").failure.is_some() {
            node.run("resume a");
        }
    }
    // Packets that wait for unknown neighbours or other fragments expire.
    node.rig.advance(units::Nanos::secs(120));
    let reports = ["a", "b", "c"].map(|name| node.report(name));
    let ledger = node.rig.report().ledger;
    assert_eq!(ledger.outstanding(), 0);
    let [a, b, c] = reports.map(|report| report.counters);
    assert!(a.forwarded > frames / 200 && a.exceptions > frames / 200 && a.malformed > frames / 50, "{a:?}");
    assert!(b.forwarded == b.received - b.header_drops && c.forwarded == c.received - c.header_drops, "{b:?} {c:?}");
    assert_eq!(ledger.dropped_for(DropReason::SliceFault), a.faults);
}
