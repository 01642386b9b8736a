//! The batching throttle (section 4.3 of the paper): it never strands packets, and it reduces overhead.

use crate::common::{run, value};
use crate::worlds::{Flow, constant, of_flows, only_forwarding};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// After the last arrival all packets leave, regardless of the threshold (spec Q-49, Q-4A).
    #[test]
    fn the_throttle_strands_no_work(
        overhead in 2u64..50,
        switch in 100u64..4000,
        work_conserving in any::<bool>(),
        wait in 100u64..3000,
        flows in prop::collection::vec((10u64..100, 300u64..15_000, 2_000u64..60_000, 1u64..200), 1..6),
        layout in 1u64..4,
        link in prop::option::of(5u64..100),
    ) {
        let flow = |&(share, cost, pps, queue): &(u64, u64, u64, u64)| Flow {
            pattern: format!("{}\nstop = \"20ms\"", constant(pps)),
            more: format!("queue = {queue}"),
            ..Flow::even(share, cost, pps)
        };
        let flows: Vec<Flow> = flows.iter().map(flow).collect();
        // At least one guard: without both there is no guarantee.
        let guard = if work_conserving { "work_conserving = true".to_owned() } else { format!("work_conserving = false\nmax_wait = \"{wait}us\"") };
        let slice = switch * 100 / overhead + 1000;
        let throttle = format!("throttle(overhead={overhead}%, slice={slice}ns)");
        let cpu = format!(
            "layout = {layout}\nscheduler = \"wf2q+\"\n{guard}\nforwarding = \"{throttle}\"\noutput = \"{throttle}\"\n\
             switch_cost = \"{switch}ns\""
        );
        let costs = format!("switch = \"{switch}ns\"\npoll = \"100ns\"\ninput = \"200ns\"\noutput = \"150ns\"");
        let link = link.map_or(String::new(), |rate| {
            format!("[[link]]\nbetween = [\"out\", \"k\"]\nrate = \"{rate}mbit\"\n")
        });
        let world = of_flows(&cpu, &costs, &flows, &format!("duration = \"400ms\"\nsample = \"50ms\"\n{link}"));
        let measured = run(&world);
        for index in 0..flows.len() {
            let get = |key: &str| value(&measured, &format!("source.s{index}.{key}"));
            prop_assert!(get("under_way") == 0.0, "{} stay of s{index}: {:#?}", get("under_way"), measured.values);
            prop_assert_eq!(get("sent"), get("received") + get("lost"));
        }
        prop_assert!(!measured.values.contains_key("drop.output_queue"));
    }

    /// A path whose output queue is full waits: no packet is lost after its functions (spec Q-16).
    #[test]
    fn a_full_output_queue_loses_no_packet(
        queues in prop::collection::vec((1u64..64, 1u64..64), 1..4),
        (link, output) in (1u64..80, 200u64..10_000),
        ring in 1u64..64,
        batching in prop::sample::select(vec!["none", "simple(packets=16)", "timeslice(packets=64, slice=30us)", "throttle(overhead=20%, slice=30us)"]),
        layout in 1u64..4,
        congestion in prop::sample::select(vec!["drop", "throttle"]),
    ) {
        let flow = |&(before, behind): &(u64, u64)| Flow {
            more: format!("input_queue = {before}\noutput_queue = {behind}"),
            ..Flow::even(50, 1000, 60_000)
        };
        let flows: Vec<Flow> = queues.iter().map(flow).collect();
        let cpu = format!("layout = {layout}\nforwarding = \"{batching}\"\nswitch_cost = \"1us\"");
        let costs = format!("switch = \"1us\"\npoll = \"100ns\"\ninput = \"500ns\"\noutput = \"{output}ns\"");
        let around = format!(
            "duration = \"50ms\"\nsample = \"10ms\"\n[card.out]\ntransmit_ring = {ring}\n\
             [[link]]\nbetween = [\"out\", \"k\"]\nrate = \"{link}mbit\"\n"
        );
        let config = crate::worlds::config(&cpu, &flows)
            .replace("device = \"sim:in\"", &format!("device = \"sim:in\"\ncongestion = \"{congestion}\""));
        let measured = run(&crate::common::world_of(&config, &crate::worlds::world_text(&costs, &flows, &around)));
        prop_assert!(!measured.values.contains_key("drop.output_queue"), "{:#?}", measured.values);
        for index in 0..flows.len() {
            let get = |key: &str| value(&measured, &format!("source.s{index}.{key}"));
            // At the card, at the path, or at the scheme of the link.
            let [path, link] = ["path_queue", "scheme_arrival"]
                .map(|reason| measured.get(&format!("source.s{index}.lost.{reason}")).unwrap_or(0.0));
            prop_assert_eq!(get("lost"), get("lost.ring") + path + link, "{:#?}", measured.values);
        }
    }
}

/// The guards release the tail of a burst. The paper's own rules hold back less than a batch for ever.
#[test]
fn throttle_without_guards_strands_packets() {
    let law = format!("{}\nstop = \"10ms\"", constant(20_000));
    let burst = Flow { pattern: law, more: "cost = \"1us\"\nqueue = 128".into(), ..Flow::even(300, 1000, 1) };
    let kept = |guards: &str| {
        let cpu = format!("{guards}\nswitch_cost = \"3us\"\nforwarding = \"throttle(overhead=2%, slice=150us)\"");
        let measured = run(&only_forwarding(&cpu, 3000, std::slice::from_ref(&burst), "duration = \"100ms\""));
        (value(&measured, "source.s0.under_way"), value(&measured, "source.s0.lost"))
    };
    // B is 150, more than the 128 that the queue holds: the 200 packets never form a batch.
    assert_eq!(kept("strict = true\nwork_conserving = false"), (128.0, 72.0));
    // Packets that arrive while the batch of 128 runs leave with it.
    assert_eq!(kept("strict = false\nwork_conserving = false"), (70.0, 0.0));
    assert_eq!(kept("strict = false\nwork_conserving = false\nmax_wait = \"1ms\""), (0.0, 0.0));
    assert_eq!(kept("strict = true\nwork_conserving = true"), (0.0, 0.0));
}

/// The throttle on input and output tasks too, with the estimator as timer (spec Q-34): the gain in efficiency.
#[test]
fn the_throttle_on_input_and_output_tasks_makes_the_router_more_efficient() {
    let none = "input = \"simple(packets=2)\"\nforwarding = \"none\"\noutput = \"none\"";
    let throttle = "throttle(overhead=10%, slice=30us)";
    let forwarding = none.replace("forwarding = \"none\"", &format!("forwarding = \"{throttle}\""));
    let output = forwarding.replace("output = \"none\"", &format!("output = \"{throttle}\""));
    let all = output.replace("\"simple(packets=2)\"", &format!("\"{throttle}\""));
    let small = "estimator = { low = 1, high = 1 }";
    let steps = [
        ("no batches", none, small),
        ("forwarding", &forwarding, small),
        ("and output", &output, small),
        ("and input", &all, "estimator = true"),
    ];
    // At a third of the capacity, and in overload.
    let mut worth = Vec::new();
    for (name, tasks, estimator) in steps {
        let [(light, wait), (full, _)] = [40_000, 150_000].map(|pps| efficiency(tasks, estimator, pps));
        println!("throttle on {name}: E {light:.3}, 99 % within {wait:.0} us; with more than it can {full:.3}");
        worth.push((light, full));
    }
    assert!(worth.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "{worth:?}");
    // The throttle guarantees for each task that it controls an overhead below a tenth of its work. Empty polls add to that if there is idle time.
    let (before, after) = (worth[1], worth[3]);
    assert!(after.1 > 0.85 && after.0 > 0.5, "{after:?}");
    assert!(after.0 - before.0 > 0.1 && after.1 - before.1 > 0.1, "{worth:?}");
}

/// The efficiency of a router at this load, and the 99th percentile of the latency in microseconds.
fn efficiency(tasks: &str, estimator: &str, pps: u64) -> (f64, f64) {
    let flows = [Flow::even(200, 2000, pps / 2), Flow::even(200, 2000, pps / 2)];
    let cpu = format!("work_conserving = false\nmax_wait = \"2ms\"\nswitch_cost = \"2us\"\n{tasks}");
    let port = |config: String, name: &str| {
        let device = format!("device = \"sim:{name}\"");
        config.replace(&device, &format!("{device}\nline_rate = \"140kpps\"\n{estimator}"))
    };
    let config = port(port(crate::worlds::config(&cpu, &flows), "in"), "out");
    let costs = "switch = \"2us\"\npoll = \"300ns\"\ninput = \"1600ns\"\noutput = \"1400ns\"";
    let around = crate::worlds::world_text(costs, &flows, "duration = \"200ms\"\nwarmup = \"50ms\"");
    let measured = run(&crate::common::world_of(&config, &around));
    (value(&measured, "cpu.efficiency"), value(&measured, "source.s0.wait_p99_us"))
}
