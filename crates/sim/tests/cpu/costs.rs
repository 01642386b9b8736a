//! Costs that depend on data (spec Q-53): a reservation of the mean cost suffices, not of the worst, if the queue behind the functions bridges the
//! time of expensive packets.

use crate::common::{run, value, world_of};
use crate::worlds::{Flow, config, constant, world_text};

/// The utilization of an overloaded link if packets cost `cost` and `packets` of them may wait for the link. The processor is fully used: after an
/// expensive packet a path waits until the others have had their shares.
fn busy(cost: &str, packets: u64) -> f64 {
    let law = format!("{}\nsize = \"64b, 576b, 64b, 1500b\"", constant(12_000));
    let more = format!("reserve = \"8500pps\"\npacket_size = \"551b\"\ninput_queue = 128\noutput_queue = {packets}");
    // 45 % of the core are 11,250 packets of 40 us; the link carries 9600 of these sizes.
    let kept = Flow { share: 450, cost: cost.into(), pattern: law, more };
    // All its packets exceed their limit: it uses time and sends nothing.
    let rival = Flow { more: "cpu_limit = \"50us\"".into(), ..Flow::even(500, 60_000, 40_000) };
    let cpu = "switch_cost = \"100ns\"\nforwarding = \"none\"\noutput = \"simple(packets=8)\"\nvector = 1\nadmission = \"warn\"";
    let costs = "switch = \"100ns\"\npoll = \"100ns\"\ninput = \"200ns\"\noutput = \"200ns\"";
    let world = "duration = \"1s\"\nwarmup = \"200ms\"\nsample = \"50ms\"\n[card.in]\nring = 1024\n\
                 [card.out]\ntransmit_ring = 24\n[[link]]\nbetween = [\"out\", \"k\"]\nrate = \"44mbit\"\n";
    let flows = [kept, rival];
    let config = config(cpu, &flows)
        .replace("device = \"sim:out\"", &format!("device = \"sim:out\"\nscheme = \"fifo(limit={packets})\""));
    let measured = run(&world_of(&config, &world_text(costs, &flows, world)));
    // Each frame has 24 more bytes on the link.
    let overhead = value(&measured, "card.out.transmitted") / 0.8 * 24.0 * 8.0;
    (value(&measured, "card.out.transmitted_bps") + overhead) / 44e6
}

/// Distributions with a mean cost of about 40 us; true if some packets cost much more than that.
const COSTS: [(&str, bool); 5] = [
    ("40us", false),
    ("uniform(10us, 70us)", false),
    ("10us + 55ns/b", false),
    ("bimodal(20us, 2ms, 1%)", true),
    ("pareto(10us, 2ms, 1.15)", true),
];

#[test]
fn output_queue_bridges_expensive_packets() {
    for (cost, heavy) in COSTS {
        let [short, long] = [2, 256].map(|packets| busy(cost, packets));
        println!("{cost}: the link is busy {short:.3} of the time where 2 packets may wait for it, {long:.3} with 256");
        assert!(long > 0.99, "{cost}: {long}");
        assert!(if heavy { short < 0.97 } else { short > 0.99 }, "{cost}: {short}");
    }
}
