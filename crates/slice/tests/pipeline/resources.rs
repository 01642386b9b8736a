//! Resources of slices: quotas, statistics, memory, and the end of a slice.

use crate::node::{CONFIG, LAN, Node, filter, frame, place, spec, to_wan};
use slice::code::CodeConfig;
use slice::{FilterAction, FilterSpec, MemoryVersion, SliceError, SliceQuota, SliceSpec, Slices};
use units::{Bytes, Nanos, Parts};

fn reason(result: Result<(), SliceError>) -> String {
    result.unwrap_err().reason
}

#[test]
fn stats_no_loss() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    for (position, value) in [(0, b"x"), (1, b"y")] {
        let index = Some(position as u16 + 5);
        node.insert("a", position, FilterSpec { index, ..filter(value, to_wan(1)) });
    }
    let mut bytes = [0, 0];
    for round in 0..200usize {
        for n in 0..50 {
            let payload = [[b'x', b'y'][(round + n) % 3 % 2]; 1].repeat(10 + n);
            bytes[usize::from(payload[0] == b'y')] += payload.len() as u64;
            node.rig.send("lan", &frame(20_000, &payload));
        }
        // More than the link sends: the queue drops, the counters do not.
        node.rig.advance(Nanos::micros(50));
        if round == 100 {
            // New function instances continue the counters of those before.
            node.rig.apply(&CONFIG.replace("20999", "21999")).unwrap();
        }
    }
    let indices = node.slices.indices("a").unwrap();
    let (x, y) = (indices[5], indices[6]);
    assert_eq!((x[0] + y[0], [x[1], y[1]]), (10_000, bytes));
    assert_eq!(indices.iter().filter(|index| index[0] > 0).count(), 2);
    let report = node.report("a");
    assert_eq!((report.counters.received, report.counters.forwarded), (10_000, 10_000));
    let hits: u64 = node.slices.filters("a", 0, 9).unwrap().iter().map(|filter| filter.hits).sum();
    assert_eq!(hits, 10_000);
    node.rig.advance(Nanos::secs(1));
    let queue = node.report("a").queues[0].counts;
    assert_eq!(queue.packets + queue.dropped, 10_000, "the counters of the queue continue those of the slice");
}

#[test]
fn quotas_are_checked_against_the_router() {
    let mut node = Node::new();
    let with = |change: fn(&mut SliceQuota)| {
        let mut spec = spec("a");
        change(&mut spec.quota);
        spec
    };
    let mut create = |spec| reason(node.slices.create(spec));
    let large = create(with(|quota| quota.memory = Bytes::new(65 << 20)));
    assert_eq!(large, "68157440 bytes of memory are more than the 67108864 that are left");
    assert_eq!(create(with(|quota| quota.memory = Bytes::new(8))), "the code option 'trial' needs 16 bytes of memory");
    let indices = create(with(|quota| quota.indices = 70_000));
    assert_eq!(indices, "70000 statistics indices are more than the 65535 that are left");
    assert_eq!(create(SliceSpec { code: "trail".into(), ..spec("a") }), "there is no code option 'trail'");
    for name in ["", "a b", "a-name-of-21-bytes-xx", "ä"] {
        assert!(create(spec(name)).ends_with("is no name for a slice"), "{name}");
    }
    let config = |name: &str| CodeConfig(vec![(name.to_string(), "no".to_string())]);
    let unknown = create(SliceSpec { config: config("refuze"), ..spec("a") });
    assert_eq!(unknown, "the code option 'trial' has no setting 'refuze'");
    assert_eq!(create(SliceSpec { config: config("refuse"), ..spec("a") }), "'no' is refused");
    assert_eq!(node.slices.create(spec("a")), Ok(()));
    assert_eq!(reason(node.slices.create(spec("a"))), "there is a slice 'a' already");
    assert_eq!(node.slices.suspend("b", true).unwrap_err().hint, "did you mean 'a'?");
}

#[test]
fn slice_delete_zeroes() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.insert("a", 0, filter(b"x", to_wan(1)));
    node.slices.memory("a").unwrap().write(100, b"a secret").unwrap();
    node.send(20_000, b"x.");
    node.send(20_000, b"an exception");
    let memory = node.slices.memory("a").unwrap().clone();
    node.slices.delete(&mut node.rig.router, "a").unwrap();
    assert_eq!(memory.read(0, memory.size()).unwrap(), vec![0; memory.size()]);
    assert_eq!(node.slices.names().count(), 0);
    let shares = node.rig.router.shares("wan").unwrap();
    assert_eq!(shares.iter().map(|share| share.name.to_string()).collect::<Vec<_>>(), ["engine"]);
    node.send(20_000, b"x.");
    assert_eq!(node.drops(), [(packet::DropReason::SlicePort, 1)]);
    // All of it is free for another slice, which finds nothing of the former one.
    node.slice("b", 20_000);
    assert_eq!(node.slices.memory("b").unwrap().read(100, 8).unwrap(), [0; 8]);
    assert_eq!((node.exceptions("b"), node.report("b").counters.received), (vec![], 0));
    let again = node.slices.create_interface(&node.rig.router, "b", (2, place(LAN, 20_001)));
    assert_eq!(again, Ok(()));
    // Slices come and go without end.
    for _ in 0..10_000 {
        node.slices.create(spec("c")).unwrap();
        node.slices.delete(&mut node.rig.router, "c").unwrap();
    }
}

#[test]
fn staged_writes_of_memory_are_made_at_once() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.insert("a", 0, filter(b"x", to_wan(1)));
    let Node { rig, slices } = &mut node;
    let size = slices.memory("a").unwrap().size();
    let held = slices.memory("a").unwrap().clone();
    slices.memory("a").unwrap().write(8, &[1; 8]).unwrap();
    slices.stage_memory("a", 8, vec![2; 8]).unwrap();
    slices.stage_memory("a", 20, vec![3; 8]).unwrap();
    slices.stage_memory("a", 12, vec![4; 4]).unwrap();
    let read = |slices: &Slices| slices.memory("a").unwrap().read(8, 24).unwrap();
    let before: Vec<u8> = [vec![1; 8], vec![0; 16]].concat();
    assert_eq!(read(slices), before);
    let version = |slices: &Slices| slices.report(&rig.router, "a").unwrap().memory;
    assert_eq!(version(slices), MemoryVersion { version: 0, staged: 20 });
    slices.commit_memory("a").unwrap();
    assert_eq!(read(slices), [vec![2; 4], vec![4; 4], vec![0; 4], vec![3; 8], vec![0; 4]].concat());
    assert_eq!(held.read(8, 24).unwrap(), before, "a packet under way sees the memory as it was");
    slices.commit_memory("a").unwrap();
    assert_eq!(version(slices), MemoryVersion { version: 1, staged: 0 }, "there was nothing to change");
    // A refused write is not staged, and the staged bytes are bounded.
    let beyond = format!("2 bytes at {} end beyond the {size} bytes of the slice's memory", size - 1);
    assert_eq!(reason(slices.stage_memory("a", size - 1, vec![0; 2])), beyond);
    slices.stage_memory("a", 0, vec![0; size]).unwrap();
    assert_eq!(reason(slices.stage_memory("a", 0, vec![0; 1])), "more bytes are staged than the memory has");
    slices.commit_memory("a").unwrap();
    // The code option counts in the new memory.
    node.send(20_000, b"x.");
    assert_eq!(node.slices.memory("a").unwrap().load(0), Some(1));
    assert_eq!(held.load(0), Some(0));
}

/// In virtual time each packet costs 150 ns: 1 % of a processor is 66,666 packets a second, after those of the first 10 ms.
#[test]
fn slice_beyond_its_processor_time_is_stopped_and_others_go_on() {
    let mut node = Node::new();
    let quota = SliceQuota { cpu: Some(Parts::percent(1)), ..spec("a").quota };
    node.slices.create(SliceSpec { quota, ..spec("a") }).unwrap();
    node.furnish("a", 20_000);
    node.slice("b", 20_001);
    for name in ["a", "b"] {
        node.insert(name, 0, filter(b"x", FilterAction::Drop));
    }
    let frames: Vec<Vec<u8>> = [20_000, 20_001].into_iter().map(|port| frame(port, b"x")).collect();
    // 250,000 packets a second to each, for 200 ms.
    for _ in 0..200 {
        for _ in 0..250 {
            frames.iter().for_each(|frame| node.rig.send("lan", frame));
        }
        node.rig.advance(Nanos::millis(1));
    }
    node.rig.settle();
    let [a, b] = ["a", "b"].map(|name| node.report(name));
    assert_eq!((a.counters.received, b.counters.received), (50_000, 50_000));
    assert_eq!((b.counters.policy_drops, b.counters.suspended), (50_000, 0));
    // 13,333 for 200 ms, and at most 667 for the 10 ms of the burst. A batch may exceed the credit, and the slice pays it back later.
    let processed = a.counters.policy_drops;
    assert!((13_200..=14_000).contains(&processed), "{processed} packets in 200 ms");
    assert_eq!((a.cpu_used, b.cpu_used), (Nanos::new(150 * processed), Nanos::ZERO));
}
