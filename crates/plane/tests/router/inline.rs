//! Minimal forwarding in the input task (spec Q-07): the same packets, the same counters, fewer changes of task.

use cpu::meter::ConstantMeter;
use plane::PathCounters;
use plane::rig::{LAN_AND_WAN, Rig, UdpFrame};
use plane::snapshot::Layout;
use proptest::prelude::*;
use std::collections::BTreeMap;
use units::Nanos;

const PATHS: &str = r#"
[[path]]
name = "plain"
match = "udp dport 1"
[[path]]
name = "dear"
match = "udp dport 2"
functions = ["spin(cost=1us)", "ip"]
"#;

/// A packet to a port, with a number that identifies it.
fn frame(port: u16, number: u16) -> Vec<u8> {
    UdpFrame::between_ports(number, port).frame(&[])
}

/// The result of a run.
#[derive(PartialEq, Debug)]
struct Made {
    /// Packets sent, by destination port.
    left: BTreeMap<u16, Vec<Vec<u8>>>,
    counters: Vec<(usize, PathCounters)>,
    ledger: [u64; 3],
}

/// Sends bursts of packets to these ports, with `steps` steps between two. Returns the result, and the runs of the task that
/// best effort and the path `plain` share.
fn run(cpu: &str, layout: Layout, bursts: &[Vec<u16>], steps: usize) -> (Made, u64) {
    let mut rig = Rig::running(4096, layout, &format!("{LAN_AND_WAN}{PATHS}[cpu]\n{cpu}\n"));
    let mut number = 0;
    for burst in bursts {
        for &port in burst {
            number += 1;
            rig.send("lan", &frame(port, number));
        }
        (0..steps).for_each(|_| _ = rig.step(&mut ConstantMeter(Nanos::new(10))));
    }
    rig.settle();
    let mut left: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
    for frame in rig.received("wan") {
        left.entry(u16::from_be_bytes([frame[36], frame[37]])).or_default().push(frame);
    }
    let report = rig.report();
    let runs = report.tasks.iter().filter(|task| task.kind == "forwarding" && task.paths.len() == 2);
    let runs = runs.map(|task| task.view.account.runs).sum();
    let counters = report.paths.iter().map(|path| (path.path.index(), path.counters)).collect();
    let ledger = [report.ledger.received(), report.ledger.sent(), report.ledger.dropped()];
    (Made { left, counters, ledger }, runs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn inline_forwarding_changes_neither_order_nor_counters(
        bursts in prop::collection::vec(prop::collection::vec(1u16..4, 0..40), 1..8),
        steps in 0usize..4,
        vector in 1u16..64,
        two in any::<bool>(),
    ) {
        let layout = if two { Layout::Two } else { Layout::Three };
        let cpu = format!("vector = {vector}\n");
        let (apart, _) = run(&cpu, layout, &bursts, steps);
        let (inline, runs) = run(&(cpu + "inline = true\n"), layout, &bursts, steps);
        prop_assert_eq!(&inline, &apart);
        prop_assert_eq!(runs, 0, "nothing was left to the task of minimal forwarding");
    }
}

#[test]
fn inline_forwarding_respects_its_budget() {
    let bursts = vec![vec![1, 3, 2, 1]; 20];
    let runs = |cpu: &str, layout| run(cpu, layout, &bursts, 10).1;
    for layout in [Layout::Two, Layout::Three] {
        assert_eq!(runs("inline = true\nclassify_budget = \"100ns\"", layout), 0, "{layout:?}");
        // Input and functions cost 10 ns each, and the budget is 15. The router measures that with the first packets.
        assert!(runs("inline = true\nclassify_budget = \"15ns\"", layout) > 10, "{layout:?}");
        assert!(runs("inline = true\nreceive = \"interrupt\"", layout) > 10, "{layout:?}: an interrupt only receives");
        assert!(runs("", layout) > 10, "{layout:?}");
    }
}

/// A port blocked by a full path resumes when there is room, though the path runs in the port's own task and no packet arrives.
#[test]
fn stalled_port_resumes_with_inline_forwarding() {
    for (layout, inline) in
        [Layout::Two, Layout::Three].into_iter().flat_map(|layout| [(layout, false), (layout, true)])
    {
        let text = LAN_AND_WAN.replace("[port.lan]\n", "[port.lan]\ncongestion = \"throttle\"\n");
        let small = "[[path]]\nname = \"small\"\nmatch = \"udp dport 1\"\ninput_queue = 8\n";
        let mut rig = Rig::running(4096, layout, &format!("{text}{small}[cpu]\ninline = {inline}\n"));
        (1..=200).for_each(|number| rig.send("lan", &frame(1, number)));
        rig.settle();
        assert_eq!(rig.received("wan").len(), 200, "{layout:?} inline {inline}");
    }
}
