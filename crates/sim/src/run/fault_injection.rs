//! Worlds in which a test breaks a law on purpose. Each checker must find its violation.

use super::core::MAX_STALLED_STEPS;
use super::{RunError, RunningWorld, test_router};
use crate::check::WorldInvariant;
use crate::{Measurements, NoCaptures, WorldPlan};

/// A router with more packets than it can forward, with this link at its output.
fn world(link: &str, cost: &str) -> WorldPlan {
    let text = format!(
        r#"
duration = "10ms"
sample = "1ms"
[[link]]
between = ["out", "s"]
{link}
[[source]]
name = "a"
card = "in"
kind = "constant"
rate = "1mpps"
destination = "10.0.0.1"
[[sink]]
name = "s"
[router.r.cost]
{cost}
[router.r]
config = '''
version = 1
{}'''
"#,
        test_router::ports("", "")
    );
    test_router::world(&text)
}

/// Runs a world that `spoil` changes after a quarter of its duration.
fn run(world: &WorldPlan, spoil: impl FnOnce(&mut RunningWorld<'_>)) -> Result<Measurements, RunError> {
    let mut live = RunningWorld::new(world, &mut NoCaptures)?;
    live.end_warmup(0);
    live.until(2_500_000);
    spoil(&mut live);
    live.run(&mut |_| {})?;
    live.finish()
}

/// The broken laws, and the first message.
fn broken(world: &WorldPlan, spoil: impl FnOnce(&mut RunningWorld<'_>)) -> (Vec<WorldInvariant>, String) {
    match run(world, spoil) {
        Err(RunError::Broken(list, _)) => (list.iter().map(|one| one.invariant).collect(), list[0].to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn unchanged_world_has_no_violation() {
    let measured = run(&world("rate = \"100mbit\"", "input = \"2us\""), |_| {}).unwrap();
    assert!(measured.get("source.a.received").unwrap() > 1000.0);
    assert!(measured.get("card.in.ring_dropped").unwrap() > 1000.0);
}

#[test]
fn lost_packet_violates_conservation() {
    let (laws, what) = broken(&world("", "input = \"2us\""), |live| {
        let mut net = live.outside.lock();
        let card = net.cards.iter().position(|card| card.name == "in").unwrap();
        net.admit(card, 2_510_000);
        assert!(net.cards[card].ring.pop_front().is_some());
    });
    assert!(laws.iter().all(|&law| law == WorldInvariant::Conservation), "{laws:?}");
    assert!(what.starts_with("conservation is broken at 0.00"), "{what}");
    assert!(what.contains("accounted for") && what.contains("on cards"), "{what}");
}

#[test]
fn copied_packet_violates_conservation() {
    let (laws, _) = broken(&world("", "input = \"2us\""), |live| {
        let mut net = live.outside.lock();
        let card = net.cards.iter().position(|card| card.name == "in").unwrap();
        net.cards[card].counters.received += 1;
        net.others.consumed += 1;
    });
    assert!(laws.iter().all(|&law| law == WorldInvariant::Conservation), "{laws:?}");
}

#[test]
fn overtaking_packet_violates_order() {
    let (laws, what) = broken(&world("", "input = \"2us\""), |live| {
        let mut net = live.outside.lock();
        let card = net.cards.iter().position(|card| card.name == "in").unwrap();
        net.admit(card, 2_510_000);
        assert!(net.cards[card].ring.len() > 3);
        net.cards[card].ring.swap(1, 2);
    });
    assert_eq!(laws, [WorldInvariant::Order]);
    assert!(what.contains("of source a arrived at sink s after packet"), "{what}");
}

#[test]
fn fast_link_violates_rate_bound() {
    let (laws, what) = broken(&world("rate = \"100mbit\"", ""), |live| {
        let mut net = live.outside.lock();
        let card = net.cards.iter().position(|card| card.name == "out").unwrap();
        let service = plan::LinkService::Constant(units::Rate::mbit(200));
        net.cards[card].link.replace(&plan::MediumPlan { service, ..plan::MediumPlan::default() });
    });
    assert!(!laws.is_empty() && laws.iter().all(|&law| law == WorldInvariant::RateBound), "{laws:?}");
    assert!(what.contains("the link of card out sent a frame"), "{what}");
}

#[test]
fn idle_core_with_packets_violates_work_conservation() {
    // The functions are so expensive that their queue is never empty.
    let world = world("", "forwarding = \"20us\"");
    let (laws, what) = broken(&world, |live| {
        live.cores[0].wake += 1_000;
        live.check_work_conservation(0);
    });
    assert_eq!(laws, [WorldInvariant::WorkConservation]);
    assert!(what.contains("router r is idle") && what.contains("of path best-effort"), "{what}");
}

#[test]
fn endless_step_violates_progress() {
    let (laws, what) = broken(&world("", ""), |live| live.cores[0].stalled_steps = MAX_STALLED_STEPS - 1);
    assert_eq!(laws, [WorldInvariant::Progress]);
    assert!(what.contains("core 0 of router r works endlessly"), "{what}");
}

/// A router whose two paths have equal shares and are always backlogged. A packet of one costs twenty times as much.
fn rivals(scheduler: &str) -> WorldPlan {
    let source = |name: &str, dscp: &str| {
        format!(
            "[[source]]\nname = \"{name}\"\ncard = \"in\"\nkind = \"constant\"\nrate = \"500kpps\"\n\
             destination = \"10.0.0.1\"\ndscp = \"{dscp}\"\n"
        )
    };
    let text = format!(
        r#"
duration = "50ms"
{}{}
[router.r.cost]
switch = "100ns"
input = "100ns"
poll = "100ns"
output = "100ns"
path.cheap = "1us"
path.dear = "20us"
[router.r]
config = '''
version = 1
[cpu]
layout = 2
scheduler = "{scheduler}"
forwarding = "none"
input_share = "explicit"
{}[[path]]
name = "cheap"
match = "ip dscp ef"
cpu_share = "30%"
[[path]]
name = "dear"
match = "ip dscp af11"
cpu_share = "30%"
'''
"#,
        source("a", "ef"),
        source("b", "af11"),
        test_router::ports("share = \"20%\"", "share = \"1%\"")
    );
    test_router::world(&text)
}

#[test]
fn missed_share_violates_fairness() {
    let measured = run(&rivals("wf2q+"), |_| {}).unwrap_or_else(|error| panic!("{error}"));
    let of = |path: &str, key: &str| measured.get(&format!("task.forwarding.{path}.{key}")).unwrap();
    let (cheap, dear) = (of("cheap", "used"), of("dear", "used"));
    assert!((cheap / dear - 1.0).abs() < 0.05, "{cheap} {dear}");
    for path in ["cheap", "dear"] {
        let (behind, bound) = (of(path, "behind_max_us"), of(path, "behind_bound_us"));
        assert!(behind > 0.0 && behind <= bound, "{path}: {behind} {bound}");
    }
    // Round robin gives equal turns, not equal shares. The test makes the checker assume a scheduler with shares.
    let (laws, what) = broken(&rivals("rr"), |live| {
        live.nodes[0].plan.plan.cpu.scheduler = plan::CpuSchedulerChoice::default();
        let cpu = live.nodes[0].plan.plan.cpu.clone();
        let core = &mut live.cores[0];
        core.fairness.entitle(&mut core.worker, &cpu);
    });
    assert!(laws.iter().all(|&law| law == WorldInvariant::Fairness), "{laws:?}");
    assert!(what.contains("task forwarding.cheap of router r is"), "{what}");
}
