//! The same on veth: sources and sinks in a namespace of their own, the kernel between them and the router, AF_PACKET rings at both ends. The world
//! is one of `sim`, run on real packets. It runs in real time if this machine is fast enough, else as much slower as necessary.
//!
//! The reserved flow leaves by a port of its own. Packets of one port leave in arrival order, reserved or not, and transmission through the kernel is
//! so expensive that the processor would be the bottleneck there.
//!
//! Real packets cost more in the kernel than in memory. So there are fewer of them, and the world declares costs that this machine meets. Packets are
//! lost in three places, which are counted separately: in the kernel, at the card's full receive ring, and in the router.

use super::{MIN_KEPT, RESERVED, ROUNDS, ReservationResult, figures};
use crate::bench::{BenchFigure, Progress, Rounds, median};
use crate::reproduce::RealPackets;
use anyhow::{Result, anyhow};
use sim::WorldPlan;

/// Packets a second of each flow, by its name.
const FLOWS: [(&str, u16, u64); 3] = [("promised", 5000, 50), ("flood", 6000, 120), ("dear", 7000, 40)];

fn world(promised: bool) -> String {
    let (cpu, reserve) = match promised {
        true => ("", format!("reserve = \"{}kpps\"\npacket_size = \"64b\"\n", FLOWS[RESERVED].2)),
        false => ("[cpu]\nscheduler = \"rr\"\nbest_effort = \"single\"\n", String::new()),
    };
    let flood: u64 = FLOWS.iter().map(|flow| flow.2).sum();
    let source = |(name, port, rate): &(&str, u16, u64)| {
        let to = if *name == FLOWS[RESERVED].0 { "10.1.2.3" } else { "10.2.2.3" };
        format!(
            "[[source]]\nname = \"{name}\"\ncard = \"in\"\nkind = \"constant\"\nrate = \"{rate}kpps\"\nphase = \"staggered\"\n\
             destination = \"{to}\"\nports = [9, {port}]\n"
        )
    };
    let sources: String = FLOWS.iter().map(source).collect();
    format!(
        r#"
duration = "600ms"
warmup = "200ms"
[router.r]
config = '''
version = 1
{cpu}
[port.in]
device = "sim:in"
address = ["192.0.2.1/24"]
line_rate = "{flood}kpps"
[port.out]
device = "sim:out"
address = ["198.51.100.1/24"]
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:09"
port = "out"
[[route]]
to = "10.1.0.0/16"
via = "198.51.100.9"
[port.others]
device = "sim:others"
address = ["203.0.113.1/24"]
[[neighbour]]
address = "203.0.113.9"
mac = "02:00:00:00:00:0a"
port = "others"
[[route]]
to = "10.2.0.0/16"
via = "203.0.113.9"
[[path]]
name = "promised"
match = "iif in udp dport 5000"
functions = ["spin(cost=2us)", "ip"]
{reserve}
[[path]]
name = "dear"
match = "iif in udp dport 7000"
functions = ["spin(cost=30us)", "ip"]
'''
[router.r.cost]
switch = "500ns"
poll = "300ns"
input = "800ns"
forwarding = "300ns"
output = "3us"
[card.in]
ring = 1024
[card.out]
transmit_ring = 256
[card.others]
transmit_ring = 256
[[sink]]
name = "sink"
card = "out"
[[sink]]
name = "rest"
card = "others"
{sources}"#
    )
}

/// The effects of this machine on a round.
struct Machine {
    /// How many times slower than real time it ran.
    slower: f64,
    /// The fraction of all packets that the kernel lost.
    lost: f64,
}

/// A round.
fn round(real: &RealPackets, promised: bool) -> Result<(ReservationResult, Machine)> {
    let world = WorldPlan::parse(&world(promised), "veth.world.toml").map_err(|wrong| anyhow!("{wrong}"))?;
    let measured = real.run_once(&world, real.at_least(&world)).map_err(|error| anyhow!("{error}"))?;
    let of = |name: &str| measured.get(name).unwrap_or(0.0);
    let sent = of("source.promised.sent").max(1.0);
    let all: f64 = FLOWS.iter().map(|flow| of(&format!("source.{}.sent", flow.0))).sum();
    let fared = ReservationResult {
        reserved_share: of("source.promised.received") / sent,
        card_loss: of("source.promised.lost.ring") / sent,
        p99: of("source.promised.latency_p99_us"),
        other_rate: (of("source.flood.received_pps") + of("source.dear.received_pps")) / 1000.0,
        preempted: of("real.stood_still"),
    };
    Ok((fared, Machine { slower: of("real.slower"), lost: of("real.kernel_lost") / all.max(1.0) }))
}

/// The effect of a reservation on real packets, with the mechanisms and without. Needs root.
pub fn measure(Rounds(rounds): Rounds, progress: &Progress) -> Result<Vec<BenchFigure>> {
    let real = RealPackets::new(None)?;
    let (mut with, mut without, mut machine) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..rounds.min(ROUNDS) {
        progress.say(&format!("promises: on veth, round {} of {}", number + 1, rounds.min(ROUNDS)));
        for (promised, list) in [(true, &mut with), (false, &mut without)] {
            let (fared, of) = round(&real, promised)?;
            list.push(fared);
            machine.push(of);
        }
    }
    let mut all = figures("veth, ", (&with, &without), FLOWS[RESERVED].2, MIN_KEPT);
    let of = |figure: fn(&Machine) -> f64| median(machine.iter().map(figure).collect());
    let alone = |name, value, unit, budget| BenchFigure::alone("promises", name, value, unit, budget);
    all.push(alone("veth: lost by the kernel itself, of all", of(|m| m.lost) * 100.0, "%", Some(0.1)));
    all.push(alone("veth: slower than real time", of(|m| m.slower), "times", None));
    Ok(all)
}
