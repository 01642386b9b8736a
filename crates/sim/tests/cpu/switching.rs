//! All processor settings change while the router runs (spec Q-55): no packet is lost or reordered.

use crate::common::{try_run, value, world_of};
use crate::worlds::{Flow, config, constant, of_flows, world_text};
use proptest::prelude::*;

fn batching() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "none",
        "simple(packets=16)",
        "simple(packets=256)",
        "timeslice(packets=16, slice=30us)",
        "throttle(overhead=10%, slice=30us)",
        "throttle(overhead=30%, slice=10us)",
    ])
    .prop_map(str::to_owned)
}

/// A `[cpu]` section.
fn cpu() -> impl Strategy<Value = String> {
    let schedulers = prop::sample::select(vec!["wf2q+", "sfq", "stride", "eevdf", "drr", "rr"]);
    let receive = prop::sample::select(vec!["polling", "polling", "interrupt"]);
    let charge = prop::sample::select(vec!["none", "incoming", "outgoing"]);
    let inline = any::<bool>();
    (1u64..4, schedulers, receive, batching(), batching(), batching(), charge, inline).prop_map(
        |(layout, scheduler, receive, input, forwarding, output, charge, inline)| {
            format!(
                "layout = {layout}\nscheduler = \"{scheduler}\"\nreceive = \"{receive}\"\ninput = \"{input}\"\n\
                 forwarding = \"{forwarding}\"\noutput = \"{output}\"\ncharge = \"{charge}\"\ninline = {inline}\nswitch_cost = \"1us\""
            )
        },
    )
}

fn port() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "line_rate = \"100kpps\"\nestimator = true", "congestion = \"throttle\""])
}

const COSTS: &str = "switch = \"1us\"\npoll = \"200ns\"\ninput = \"1us\"\ninterrupt = \"2us\"\noutput = \"1us\"";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The run checks conservation and order. Under a load that every setting can carry nothing is lost.
    #[test]
    fn settings_change_under_traffic_without_loss_or_reordering(
        steps in prop::collection::vec((cpu(), port(), any::<bool>()), 2..8),
        load in prop::collection::vec((5_000u64..20_000, 500u64..2500), 1..4),
        flood in any::<bool>(),
    ) {
        let flow = |&(pps, cost): &(u64, u64)| Flow {
            pattern: format!("{}\nstop = \"80ms\"", constant(if flood { 10 * pps } else { pps })),
            more: "queue = 512".into(),
            ..Flow::even(100, cost, pps)
        };
        let flows: Vec<Flow> = load.iter().map(flow).collect();
        let settings = |(cpu, port, preemptible): &(String, &str, bool)| {
            // Layout 1 has a single task, in which nothing is preempted.
            let more = format!("queue = 512\npreemptible = {}", *preemptible && !cpu.contains("layout = 1"));
            let flows: Vec<Flow> = flows.iter().map(|flow| Flow { more: more.clone(), ..flow.clone() }).collect();
            // With batches of one packet an estimator has no target; that is refused.
            let port = if cpu.contains("input = \"none\"") && port.contains("estimator = true") { "" } else { port };
            config(cpu, &flows).replace("device = \"sim:in\"", &format!("device = \"sim:in\"\n{port}"))
        };
        let mut world = String::from("duration = \"200ms\"\nsample = \"10ms\"\n[card.in]\nring = 1024\n");
        for (index, step) in steps.iter().enumerate().skip(1) {
            let time = index as u64 * 80_000 / steps.len() as u64;
            world += &format!("[[at]]\ntime = \"{time}us\"\nrouter = \"r\"\nconfig = '''{}'''\n", settings(step));
        }
        let world = world_of(&settings(&steps[0]), &world_text(COSTS, &flows, &world));
        let measured = match try_run(&world) {
            Ok(measured) => measured,
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        for index in 0..flows.len() {
            let get = |key: &str| value(&measured, &format!("source.s{index}.{key}"));
            prop_assert_eq!(get("sent"), get("received") + get("lost"), "{:#?}", measured.values);
            prop_assert!(flood || get("lost") == 0.0, "{:#?}", measured.values);
        }
        prop_assert!(!measured.values.contains_key("drop.output_queue"));
    }

    /// The same world gives the same bytes, and another seed gives others.
    #[test]
    fn the_same_seed_gives_the_same_bytes_in_every_setting(cpu in cpu(), seed in 0u64..100) {
        let law = |pps: u64| format!("kind = \"poisson\"\nrate = \"{pps}pps\"");
        let flows = [(200, "uniform(1us, 9us)", 40_000), (100, "pareto(1us, 200us, 1.3)", 20_000)];
        let flows = flows.map(|(share, cost, pps)| Flow { share, cost: cost.into(), pattern: law(pps), more: String::new() });
        let bytes = |seed: u64| {
            let world = of_flows(&cpu, COSTS, &flows, &format!("duration = \"10ms\"\nsample = \"1ms\"\nseed = {seed}"));
            try_run(&world).unwrap_or_else(|error| panic!("{error}")).to_string()
        };
        let first = bytes(seed);
        prop_assert!(first == bytes(seed));
        prop_assert!(first != bytes(seed + 1));
    }
}
