//! The contract of proportional sharing (spec Q-20), for forwarding tasks and runs that are not preempted.

use crate::common::{run, value};
use crate::worlds::{Flow, constant, on_off, only_forwarding};
use proptest::prelude::*;
use sim::Measurements;
use std::cell::Cell;

/// A value of a path's task.
fn of(measured: &Measurements, flow: usize, key: &str) -> f64 {
    value(measured, &format!("task.forwarding.f{flow}.{key}"))
}

/// The largest lag of the paths of a world, relative to its bound.
fn max_lag(measured: &Measurements, flows: usize) -> f64 {
    let part = |flow| of(measured, flow, "behind_max_us") / of(measured, flow, "behind_bound_us").max(1e-9);
    (0..flows).map(part).fold(0.0, f64::max)
}

/// The allowed lag in bounds. It is one bound (a run of its own and one of another task) if run times are predictable, as WF2Q+ assumes. It is two
/// bounds, the limit of every world, if runs also process packets that arrive meanwhile, or costs vary.
fn allowed(batching: &str, flows: &[Flow]) -> f64 {
    let foretold = batching == "none" && flows.iter().all(|flow| !flow.cost.starts_with("uniform"));
    if foretold { 1.0 } else { 2.0 }
}

fn batching() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("none".to_owned()),
        (1u64..64).prop_map(|n| format!("simple(packets={n})")),
        (1u64..64, 5u64..200).prop_map(|(n, slice)| format!("timeslice(packets={n}, slice={slice}us)")),
        (5u64..50).prop_map(|t| format!("throttle(overhead={t}%, slice={}us)", 200u64.div_ceil(t) + 10)),
    ]
}

/// A flow that is constant, on-off or Poisson.
fn flow() -> impl Strategy<Value = Flow> {
    let law = prop_oneof![
        (1_000u64..300_000).prop_map(constant),
        (50_000u64..500_000, 50u64..3000, 50u64..3000).prop_map(|(pps, on, off)| on_off(pps, on, off)),
        (1_000u64..200_000).prop_map(|pps| format!("kind = \"poisson\"\nrate = \"{pps}pps\"")),
    ];
    let cost = prop_oneof![
        (500u64..30_000).prop_map(|ns| format!("{ns}ns")),
        (500u64..10_000).prop_map(|ns| format!("uniform({ns}ns, {}ns)", 3 * ns)),
    ];
    let more = prop::sample::select(vec!["", "", "preemptible = true"]);
    (10u64..150, cost, law, more).prop_map(|(share, cost, law, more)| Flow {
        share,
        cost,
        pattern: law,
        more: more.into(),
    })
}

#[test]
fn backlogged_tasks_get_their_shares_within_one_own_run_and_one_other() {
    let (worst, foretold, cases) = (Cell::new(0.0f64), Cell::new(0.0f64), Cell::new(0));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(60));
    let flows = prop::collection::vec(flow(), 2..7);
    let scheduler = prop::sample::select(vec!["wf2q+", "eevdf", "sfq", "stride"]);
    let result = runner.run(&(flows, batching(), scheduler, 0u64..2000), |(flows, batching, scheduler, switch)| {
        let cpu = format!("scheduler = \"{scheduler}\"\nforwarding = \"{batching}\"");
        let measured = run(&only_forwarding(&cpu, switch, &flows, "duration = \"20ms\"\nsample = \"1ms\""));
        let behind = max_lag(&measured, flows.len());
        worst.set(worst.get().max(behind));
        if allowed(&batching, &flows) == 1.0 {
            foretold.set(foretold.get().max(behind));
        }
        cases.set(cases.get() + 1);
        prop_assert!(behind <= allowed(&batching, &flows), "{behind} {:#?}", measured.values);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    println!(
        "behind at most {:.3} of the bound in {} worlds, {:.3} where runs take what is foretold",
        worst.get(),
        cases.get(),
        foretold.get()
    );
    assert!(worst.get() > 0.2, "a bound that nobody comes near is not looked at: {}", worst.get());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(25))]

    /// Time that idle tasks leave, or that no share covers, goes to the other tasks in proportion to their shares.
    #[test]
    fn unused_time_is_divided_by_shares(
        busy in prop::collection::vec((20u64..120, 1000u64..20_000), 2..5),
        silent in prop::collection::vec(20u64..100, 0..3),
        batching in batching().prop_filter("it would never be idle", |batching| !batching.starts_with("throttle")),
    ) {
        // A run must be a small part of the measured time, or the last one would affect the result.
        let flood = |&(share, cost): &(u64, u64)| Flow::even(share, cost, 1_500_000_000 / cost);
        let mut flows: Vec<Flow> = busy.iter().map(flood).collect();
        flows.extend(silent.iter().map(|&share| Flow { pattern: format!("{}\nstart = \"1s\"", constant(1)), ..Flow::even(share, 1000, 1) }));
        let cpu = format!("scheduler = \"wf2q+\"\nforwarding = \"{batching}\"");
        let measured = run(&only_forwarding(&cpu, 500, &flows, "duration = \"100ms\"\nsample = \"10ms\""));
        let promised: u64 = busy.iter().map(|(share, _)| share).sum();
        for (index, (share, _)) in busy.iter().enumerate() {
            let (got, due) = (of(&measured, index, "share_received"), *share as f64 / promised as f64);
            // One run at either end of the measured time.
            let most = 2.0 * of(&measured, index, "behind_bound_us") / 100e3;
            prop_assert!((got - due).abs() <= most + 0.002, "f{index}: {got} of {due}, {:?} {batching}", busy);
        }
        prop_assert!(value(&measured, "cpu.idle") == 0.0);
    }

    /// An idle task saves up no credit. After it wakes it gets its share from then on, plus at most a run. The others do not pay for the time they
    /// used meanwhile.
    #[test]
    fn a_woken_task_gets_its_share_and_others_keep_the_time_they_used(
        sleeper in (20u64..150, 1000u64..10_000),
        busy in prop::collection::vec((20u64..150, 1000u64..10_000), 1..4),
        batching in batching().prop_filter("costs are fixed", |batching| !batching.starts_with("throttle")),
        slept in 20u64..80,
    ) {
        let flood = |(share, cost): (u64, u64), start: u64| {
            let law = format!("{}\nstart = \"{start}ms\"", constant(1_500_000_000 / cost));
            Flow { pattern: law, ..Flow::even(share, cost, 1) }
        };
        let mut flows = vec![flood(sleeper, slept)];
        flows.extend(busy.iter().map(|&one| flood(one, 0)));
        let cpu = format!("scheduler = \"wf2q+\"\nforwarding = \"{batching}\"");
        let world = format!("duration = \"{0}ms\"\nwarmup = \"{slept}ms\"\nsample = \"1ms\"", slept + 10);
        let measured = run(&only_forwarding(&cpu, 0, &flows, &world));
        let promised = sleeper.0 + busy.iter().map(|(share, _)| share).sum::<u64>();
        for (index, (share, _)) in [sleeper].iter().chain(&busy).enumerate() {
            // The first ten milliseconds after it wakes.
            let got = of(&measured, index, "used") * 10_000.0;
            let due = *share as f64 / promised as f64 * 10_000.0;
            let most = 2.0 * of(&measured, index, "behind_bound_us");
            prop_assert!((got - due).abs() <= most + 1.0, "f{index}: {got} us of {due}, at most {most} {flows:?}");
        }
    }

    /// A path whose share covers its load loses nothing and is served, regardless of the other paths.
    #[test]
    fn a_reserved_share_is_kept_beside_any_other_load(
        kept in (5_000u64..40_000, 500u64..5_000),
        others in prop::collection::vec(flow(), 1..6),
        batching in batching(),
    ) {
        let (pps, cost) = kept;
        // Shares do not pay for switches, so a part of the core is left for them.
        let share = (pps * cost / 1_000_000).max(1) + 10;
        let rest: u64 = others.iter().map(|flow| flow.share).sum();
        prop_assume!(share + rest < 800);
        let mut flows = vec![Flow { more: "queue = 256\nmax_wait = \"1ms\"".into(), ..Flow::even(share, cost, pps) }];
        flows.extend(others);
        let cpu = format!("scheduler = \"wf2q+\"\nforwarding = \"{batching}\"");
        let measured = run(&only_forwarding(&cpu, 100, &flows, "duration = \"50ms\"\nsample = \"10ms\""));
        let lost = measured.values.iter().filter(|(name, value)| name.starts_with("source.s0.lost") && **value > 0.0);
        prop_assert_eq!(lost.collect::<Vec<_>>(), vec![]);
        let behind = max_lag(&measured, flows.len());
        prop_assert!(behind <= allowed(&batching, &flows), "{}", behind);
    }
}

/// The cost of a path's first packet is unpredictable. Three paths have their first packets before one that wakes for its second packet, and have 46
/// % of the core promised. The sum of these runs does not count as the lag of that one.
#[test]
fn unpredictable_first_runs_do_not_count_as_lag() {
    let long = |share, pps| Flow::even(share, 29_000, pps);
    let flows = [Flow::even(128, 3464, 34_287), long(10, 5349), long(66, 25_187), long(34, 34_000), long(37, 213_453)];
    let cpu = "scheduler = \"wf2q+\"\nforwarding = \"none\"";
    let measured = run(&only_forwarding(cpu, 100, &flows, "duration = \"50ms\"\nsample = \"10ms\""));
    let behind = max_lag(&measured, flows.len());
    assert!((0.2..=1.0).contains(&behind), "{behind}");
}
