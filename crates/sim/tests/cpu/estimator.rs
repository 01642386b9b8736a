//! The queue estimator in a whole router (section 3.3 of the paper).

use crate::common::{config, run, value, world_of};
use proptest::prelude::*;
use sim::Measurements;

/// A router that receives with an estimator and has no other work.
fn world(port: &str, ring: u64, batch: u64, law: &str, times: &str) -> Measurements {
    let config = config(&format!("[cpu]\ninput = \"simple(packets={batch})\"\nvector = {batch}\n"))
        .replace("device = \"sim:in\"", &format!("device = \"sim:in\"\n{port}"));
    run(&world_of(
        &config,
        &format!(
            r#"
{times}
[router.r.cost]
switch = "200ns"
poll = "200ns"
input = "300ns"
forwarding = "100ns"
output = "200ns"
[card.in]
ring = {ring}
[[sink]]
name = "k"
card = "out"
[[source]]
name = "a"
card = "in"
destination = "10.0.0.1"
{law}
"#
        ),
    ))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// At any rate, if the longest sleep collects enough packets and a batch exceeds the arrivals meanwhile, runs converge to the target number of
    /// packets. At lower rates the task uses its longest sleep.
    #[test]
    fn the_estimator_settles_within_its_range_for_every_constant_rate(
        pps in 3_000u64..400_000,
        low in 4u64..16,
        width in 2u64..10,
        weight in 10u64..60,
        sleep_max in 200u64..2000,
        fast_attack in any::<bool>(),
    ) {
        let high = low + low / 2 + width;
        let batch = high + 6;
        let port = format!(
            "estimator = {{ weight = \"{weight}%\", low = {low}, high = {high}, sleep_max = \"{sleep_max}us\", fast_attack = {fast_attack} }}\n\
             line_rate = \"{pps}pps\""
        );
        let law = format!("kind = \"constant\"\nrate = \"{pps}pps\"");
        let measured = world(&port, 1024, batch, &law, "duration = \"400ms\"\nwarmup = \"200ms\"");
        let batch = value(&measured, "task.input.in.mean_batch");
        let average = value(&measured, "task.input.in.estimator.average");
        let sleep = value(&measured, "task.input.in.estimator.sleep_us");
        let most = pps as f64 * sleep_max as f64 / 1e6;
        if most >= low as f64 + 1.0 {
            let range = low as f64 - 0.5..=high as f64 + 0.5;
            prop_assert!(range.contains(&average) && range.contains(&batch), "{average} {batch} {sleep} {range:?}");
        } else if most <= low as f64 - 1.0 {
            prop_assert!(sleep == sleep_max as f64, "{sleep} {average}");
            prop_assert!((batch - most).abs() < 1.0, "{batch} of {most}");
        }
        prop_assert!(value(&measured, "source.a.lost") == 0.0);
    }

    /// A burst at line rate after a silence finds the task asleep. If the ring has room for the arrivals during the longest sleep, nothing is lost at
    /// any phase (spec Q-32 c). Otherwise some packets are lost.
    #[test]
    fn a_burst_after_silence_loses_something_only_where_the_longest_sleep_is_too_long(
        ring in 32u64..256,
        batch in 14u64..30,
        kpps in 50u64..600,
        phase in 0u64..1000,
    ) {
        let lost = |sleep_max: Option<u64>, phase: u64| {
            let sleep = sleep_max.map_or(String::new(), |ns| format!(", sleep_max = \"{ns}ns\""));
            let port = format!("estimator = {{ low = 8, high = 12{sleep} }}\nline_rate = \"{kpps}kpps\"");
            let law = format!("kind = \"constant\"\nrate = \"{kpps}kpps\"\nstart = \"{}ns\"", 50_000_000 + phase);
            let measured = world(&port, ring, batch, &law, "duration = \"60ms\"");
            (value(&measured, "source.a.lost"), value(&measured, "task.input.in.polls"))
        };
        // The default follows from ring size and line rate.
        prop_assert_eq!(lost(None, ring * phase * 1000 / kpps).0, 0.0);
        let too_long = 3 * ring * 1_000_000 / kpps;
        let phases = [0, 1, 2].map(|third| lost(Some(too_long), (third * too_long + phase) / 3));
        prop_assert!(phases.iter().any(|(lost, _)| *lost > 0.0), "{phases:?}");
        // It polled as rarely as allowed during the silence.
        prop_assert!(phases[0].1 < 150.0 + 50_000_000.0 / too_long as f64, "{phases:?}");
    }
}
