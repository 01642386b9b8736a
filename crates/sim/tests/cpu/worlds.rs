//! Worlds of one router, described by the parameters that matter for its processor.

use crate::common::world_of;
use sim::WorldPlan;

/// A path and its traffic.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Its share in thousandths.
    pub share: u64,
    /// The cost of a packet.
    pub cost: String,
    /// The arrival process of its source.
    pub pattern: String,
    /// More keys of the path's configuration.
    pub more: String,
}

impl Flow {
    /// Evenly spaced packets with a fixed cost.
    pub fn even(share: u64, cost: u64, pps: u64) -> Flow {
        Flow { share, cost: format!("{cost}ns"), pattern: constant(pps), more: String::new() }
    }
}

/// Evenly spaced packets.
pub fn constant(pps: u64) -> String {
    format!("kind = \"constant\"\nrate = \"{pps}pps\"")
}

/// Packets that arrive for a time, alternating with silence.
pub fn on_off(pps: u64, on: u64, off: u64) -> String {
    format!("kind = \"onoff\"\nrate = \"{pps}pps\"\non = \"{on}us\"\noff = \"{off}us\"")
}

/// A router with only forwarding tasks: receiving and sending cost nothing, and packets are on their paths at their arrival time (as in section 4.3
/// of the paper).
pub fn only_forwarding(cpu: &str, switch: u64, flows: &[Flow], world: &str) -> WorldPlan {
    let cpu = format!("layout = 2\nreceive = \"interrupt\"\nbest_effort = \"by_rule\"\nvector = 1\n{cpu}");
    let world = format!("{world}\n[card.in]\nring = 1024\n");
    let world = world.as_str();
    of_flows(&cpu, &format!("switch = \"{switch}ns\""), flows, world)
}

/// A router with a path for each flow, from card `in` to card `out`.
pub fn of_flows(cpu: &str, costs: &str, flows: &[Flow], world: &str) -> WorldPlan {
    world_of(&config(cpu, flows), &world_text(costs, flows, world))
}

/// The configuration of such a router.
pub fn config(cpu: &str, flows: &[Flow]) -> String {
    let mut paths = String::new();
    for (index, flow) in flows.iter().enumerate() {
        let share =
            if flow.share > 0 { format!("cpu_share = \"{}%\"\n", flow.share as f64 / 10.0) } else { String::new() };
        paths +=
            &format!("[[path]]\nname = \"f{index}\"\nmatch = \"udp dport {}\"\n{share}{}\n", 7000 + index, flow.more);
    }
    crate::common::config(&format!("[cpu]\n{cpu}\n{paths}"))
}

/// The world around it.
pub fn world_text(costs: &str, flows: &[Flow], world: &str) -> String {
    let (mut paths, mut sources) = (String::new(), String::new());
    for (index, flow) in flows.iter().enumerate() {
        paths += &format!("path.f{index} = \"{}\"\n", flow.cost);
        let port = 7000 + index;
        sources += &format!(
            "[[source]]\nname = \"s{index}\"\ncard = \"in\"\ndestination = \"10.0.0.1\"\nports = [{port}, {port}]\n{}\n",
            flow.pattern
        );
    }
    // The sink is behind a link, or directly at the card.
    let card = if world.contains("[[link]]") { "" } else { "card = \"out\"\n" };
    format!("{world}\n{sources}[[sink]]\nname = \"k\"\n{card}[router.r.cost]\n{costs}\n{paths}")
}
