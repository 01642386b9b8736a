//! Limits on the way of a packet: the budget of classification (spec Q-05), and the order in which an output task serves paths (spec Q-04).

use crate::common::{run, value};
use crate::worlds::{Flow, config, of_flows, world_text};
use sim::Measurements;

const COSTS: &str = "switch = \"200ns\"\npoll = \"100ns\"\noutput = \"500ns\"";

#[test]
fn packets_beyond_the_budget_of_classification_are_counted_at_their_port() {
    let flows = [Flow::even(0, 500, 50_000)];
    let beyond = |budget: &str, input: &str, cost: &str| {
        let cpu = format!("input = \"{input}\"\nvector = 1\n{budget}");
        let world = of_flows(&cpu, &format!("{COSTS}\ninput = \"{cost}\""), &flows, "duration = \"100ms\"");
        let measured = run(&world);
        (measured.get("task.input.in.over_budget"), value(&measured, "path.f0.entered"))
    };
    let within = beyond("classify_budget = \"2us\"", "none", "2us");
    assert_eq!(within, (Some(0.0), 5000.0));
    assert_eq!(beyond("classify_budget = \"2us\"", "none", "2001ns"), (Some(5000.0), 5000.0));
    let (half, all) = beyond("classify_budget = \"2us\"", "none", "uniform(1us, 3us)");
    assert!((0.45..0.55).contains(&(half.unwrap() / all)), "{half:?} of {all}");
    assert_eq!(beyond("", "none", "2001ns").0, None, "nobody looks");
}

/// A flow with a reservation and a best-effort flood, on a link of 40 Mbit/s that is too small for both.
fn contended(scheme: &str, output: &str) -> Measurements {
    let voice = Flow { more: "reserve = \"10kpps\"".into(), ..Flow::even(0, 500, 10_000) };
    let flood = Flow::even(0, 500, 120_000);
    let cpu = format!("output = \"{output}\"\nadmission = \"warn\"");
    let world = "duration = \"200ms\"\nwarmup = \"50ms\"\nsample = \"50ms\"\n[card.in]\nring = 1024\n\
                 [card.out]\ntransmit_ring = 16\n[[link]]\nbetween = [\"out\", \"k\"]\nrate = \"40mbit\"\n";
    let flows = [voice, flood];
    let config =
        config(&cpu, &flows).replace("device = \"sim:out\"", &format!("device = \"sim:out\"\nscheme = \"{scheme}\""));
    run(&crate::common::world_of(&config, &world_text(&format!("{COSTS}\ninput = \"500ns\""), &flows, world)))
}

#[test]
fn with_priority_a_flood_on_the_link_does_not_affect_a_reservation() {
    for output in ["timeslice(packets=256, slice=100us)", "simple(packets=16)", "none"] {
        let [fifo, priority] = ["fifo(limit=500)", "priority{fifo(limit=500)}"].map(|scheme| contended(scheme, output));
        let of = |measured: &Measurements, key: &str| value(measured, &format!("source.s0.{key}"));
        println!(
            "{output}: fifo delivers {:.3} of it, p99 {:.0} us; priority {:.3}, p99 {:.0} us",
            of(&fifo, "delivery"),
            of(&fifo, "latency_p99_us"),
            of(&priority, "delivery"),
            of(&priority, "latency_p99_us"),
        );
        // Its packets wait behind those of the flood, 500 of 17.6 us each, unless they are dropped.
        assert!(of(&fifo, "latency_p99_us") > 2000.0, "{output}: {}", of(&fifo, "latency_p99_us"));
        assert_eq!(of(&priority, "lost"), 0.0, "{output}");
        // Sixteen frames of 88 bytes on the card, 17.6 us each, are ahead of it in any case.
        assert!(of(&priority, "latency_max_us") < 500.0, "{output}: {}", of(&priority, "latency_max_us"));
        let sent = |measured: &Measurements| value(measured, "card.out.transmitted");
        assert!((sent(&priority) / sent(&fifo) - 1.0).abs() < 0.01, "the link is as busy as before");
    }
}

/// The latency that a router reports for a path equals the one seen from outside: from a packet's arrival at the card, including the ring, to its
/// departure (spec Q-56).
#[test]
fn reported_path_latency_equals_the_latency_seen_outside() {
    const FIFO: &str = "fifo(limit=200)";
    for (layout, scheme) in [(1, FIFO), (2, FIFO), (3, FIFO), (3, "priority{fifo(limit=200)}")] {
        for batching in ["none", "timeslice(packets=256, slice=100us)"] {
            let flow = |cost, pps, more: &str| Flow { more: more.into(), ..Flow::even(0, cost, pps) };
            let flows = [flow(3000, 20_000, "reserve = \"20kpps\"\nmax_delay = \"300us\""), flow(500, 90_000, "")];
            let cpu = format!(
                "layout = {layout}\nadmission = \"warn\"\ninput = \"{batching}\"\nforwarding = \"{batching}\"\n\
                               output = \"{batching}\""
            );
            let world = "duration = \"100ms\"\nwarmup = \"20ms\"\nsample = \"50ms\"\n[card.in]\nring = 64\n\
                         [card.out]\ntransmit_ring = 16\n[[link]]\nbetween = [\"out\", \"k\"]\nrate = \"60mbit\"\n";
            let port = format!("device = \"sim:out\"\nscheme = \"{scheme}\"\n");
            let config = config(&cpu, &flows).replace("device = \"sim:out\"\n", &port);
            let costs = format!("{COSTS}\ninput = \"500ns\"");
            let measured = run(&crate::common::world_of(&config, &world_text(&costs, &flows, world)));
            for index in 0..2 {
                let path = |key: &str| value(&measured, &format!("path.f{index}.{key}"));
                let seen = |key: &str| value(&measured, &format!("source.s{index}.wait_{key}_us"));
                let (mean, p99) = (path("latency_mean_us"), path("latency_p99_us"));
                let about = format!("f{index}, {layout} {scheme} {batching}");
                // The router counts packets that left in the measured time, the world those that arrived in it.
                assert!((mean / seen("mean") - 1.0).abs() < 0.02, "{about}: {mean} {}", seen("mean"));
                assert!(p99 > 0.97 * seen("p99") && p99 < 1.09 * seen("p99"), "{about}: {p99} {}", seen("p99"));
                let parts = path("wait_before_mean_us") + path("wait_behind_mean_us");
                assert!(parts <= mean * 1.02, "{about}: the parts are no more than the whole: {parts} {mean}");
            }
            assert_eq!(value(&measured, "path.f1.late"), 0.0, "nothing was promised");
        }
    }
}
