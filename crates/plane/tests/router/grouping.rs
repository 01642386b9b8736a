//! Which paths without a reservation share a task (spec Q-09, Q-10).

use cpu::meter::ConstantMeter;
use plan::admission::{Costs, admit};
use plane::TaskReport;
use plane::rig::{LAN_AND_WAN, Rig, UdpFrame};
use plane::snapshot::Layout;
use std::collections::BTreeMap;
use units::{Nanos, Share};

/// Paths by destination port. Two have the functions of best effort, one has other functions, and one has a
/// reservation.
const PATHS: &str = r#"
[[path]]
name = "plain"
match = "udp dport 1"
[[path]]
name = "other"
match = "udp dport 2"
[[path]]
name = "dear"
match = "udp dport 3"
functions = ["spin(cost=1us)", "ip"]
[[path]]
name = "voice"
match = "udp dport 4"
reserve = "10kpps"
cost = "2us"
"#;
/// Packets to any other port are best effort.
const PORTS: [u16; 5] = [1, 2, 3, 4, 5];

fn config(grouping: &str) -> String {
    format!("{LAN_AND_WAN}{PATHS}[cpu]\nswitch_cost = \"1us\"\nbest_effort = \"{grouping}\"\n")
}

/// The forwarding tasks by their paths, without the built-in paths.
fn tasks(rig: &Rig) -> BTreeMap<Vec<&'static str>, TaskReport> {
    let names = ["plain", "other", "dear", "voice"];
    let snapshot = rig.router.snapshot();
    let plan = rig.router.plan().unwrap();
    assert!(plan.paths.iter().zip(names).all(|(path, name)| *path.name == *name));
    let first = snapshot.paths.len() - names.len();
    let ids: Vec<_> = snapshot.paths[first..].iter().map(|path| path.id).collect();
    let name = |id: &units::PathId| match ids.iter().position(|known| known == id) {
        Some(at) => Some(names[at]),
        None => (*id == plane::snapshot::BEST_EFFORT).then_some("best-effort"),
    };
    let named = |task: TaskReport| {
        let mut paths: Vec<_> = task.paths.iter().filter_map(name).collect();
        paths.sort_unstable();
        (!paths.is_empty()).then_some((paths, task))
    };
    rig.report().tasks.into_iter().filter_map(named).collect()
}

#[test]
fn best_effort_paths_share_tasks_as_grouping_configures() {
    for (grouping, expected) in [
        ("per_function", &[&["best-effort", "other", "plain"][..], &["dear"], &["voice"]][..]),
        ("aggregate", &[&["best-effort", "dear", "other", "plain"], &["voice"]]),
        ("by_rule", &[&["best-effort"], &["dear"], &["other"], &["plain"], &["voice"]]),
    ] {
        let rig = Rig::running(4096, Layout::Three, &config(grouping));
        let tasks = tasks(&rig);
        assert!(tasks.keys().map(Vec::as_slice).eq(expected.iter().copied()), "{grouping}: {:?}", tasks.keys());
    }
}

#[test]
fn best_effort_task_and_reserved_path_have_their_admitted_shares() {
    let rig = Rig::running(4096, Layout::Three, &config("aggregate"));
    let plan = rig.router.plan().unwrap();
    let allotment = admit(plan, &Costs::assumed(plan)).unwrap();
    let [plain, other, dear, voice] = [0, 1, 2, 3].map(|path| allotment.paths[path].task.share);
    let together = [plain, other, dear].into_iter().fold(allotment.best_effort.share, Share::plus);
    let tasks = tasks(&rig);
    let share = |paths: &[&'static str]| tasks[paths].view.share;
    assert_eq!(share(&["best-effort", "dear", "other", "plain"]), together);
    assert_eq!(share(&["voice"]), voice);
    assert!(voice >= allotment.paths[3].task.reserved && together > Share::ZERO, "{voice:?} {together:?}");
}

#[test]
fn paths_that_share_a_task_keep_packet_order_and_lose_none() {
    for layout in [Layout::One, Layout::Two, Layout::Three] {
        let mut rig = Rig::running(4096, layout, &config("aggregate"));
        let mut number = 0u32;
        let mut came: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
        for burst in 0..50 {
            // Runs of packets of one path, then packets of all paths in turn.
            for n in 0..40 {
                let port = PORTS[if burst % 2 == 0 { n % 5 } else { n / 8 }];
                rig.send("lan", &UdpFrame::between_ports(9, port).frame(&number.to_be_bytes()));
                number += 1;
            }
            (0..6).for_each(|_| _ = rig.step(&mut ConstantMeter(Nanos::new(10))));
        }
        // The estimator may delay the next poll of a port with a reservation.
        rig.advance(Nanos::millis(100));
        for frame in rig.received("wan") {
            let port = u16::from_be_bytes([frame[36], frame[37]]);
            came.entry(port).or_default().push(u32::from_be_bytes(frame[42..46].try_into().unwrap()));
        }
        for port in PORTS {
            let numbers = &came[&port];
            assert_eq!(numbers.len(), 400, "port {port} in {layout:?}");
            assert!(numbers.is_sorted_by(|a, b| a < b), "port {port} in {layout:?}: {numbers:?}");
        }
        assert_eq!(rig.report().ledger.dropped(), 0, "{layout:?}");
    }
}
