//! The same on veth: sources and sinks in a namespace of their own, the kernel between them and the router, AF_PACKET rings at
//! both ends. The world is one of `sim`, carried out on real packets and no slower than it says.
//!
//! What real packets cost on their way through the kernel is more than what they cost in memory: there are fewer of them, and
//! the world says costs that this machine keeps to. Packets are lost in three places, told apart: by the kernel or because it
//! does not take them; before the card, whose ring is full; in the router.

use super::{Fared, KEPT, PROMISED, ROUNDS, figures};
use crate::bench::{Figure, Progress, Rounds, median};
use crate::reproduce::RealPackets;
use anyhow::{Result, anyhow};
use sim::World;

/// Packets a second of each flow, by its name.
const FLOWS: [(&str, u16, u64); 3] = [("promised", 5000, 50), ("flood", 6000, 200), ("dear", 7000, 50)];

fn world(promised: bool) -> String {
    let (cpu, reserve) = match promised {
        true => ("", format!("reserve = \"{}kpps\"\npacket = \"64b\"\n", FLOWS[PROMISED].2)),
        false => ("[cpu]\nscheduler = \"rr\"\nbest_effort = \"single\"\n", String::new()),
    };
    let flood: u64 = FLOWS.iter().map(|flow| flow.2).sum();
    let source = |(name, port, rate): &(&str, u16, u64)| {
        format!(
            "[[source]]\nname = \"{name}\"\ncard = \"in\"\nkind = \"constant\"\nrate = \"{rate}kpps\"\nphase = \"staggered\"\n\
             destination = \"10.1.2.3\"\nports = [9, {port}]\n"
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
to = "10.0.0.0/8"
via = "198.51.100.9"
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
switch = "300ns"
poll = "200ns"
input = "600ns"
forwarding = "200ns"
output = "2us"
[card.in]
ring = 1024
[card.out]
transmit_ring = 256
[[sink]]
name = "sink"
card = "out"
{sources}"#
    )
}

/// A round, and what of the packets the kernel lost, in parts of all.
fn round(real: &RealPackets, promised: bool) -> Result<(Fared, f64)> {
    let world = World::parse(&world(promised), "veth.world.toml").map_err(|wrong| anyhow!("{wrong}"))?;
    let measured = real.once(&world, 1).map_err(|error| anyhow!("{error}"))?;
    let of = |name: &str| measured.get(name).unwrap_or(0.0);
    let sent = of("source.promised.sent").max(1.0);
    let all: f64 = FLOWS.iter().map(|flow| of(&format!("source.{}.sent", flow.0))).sum();
    let fared = Fared {
        kept: of("source.promised.received") / sent,
        on_the_card: of("source.promised.lost.ring") / sent,
        p99: of("source.promised.latency_p99_us"),
        rest: (of("source.flood.received_pps") + of("source.dear.received_pps")) / 1000.0,
    };
    Ok((fared, of("real.kernel_lost") / all.max(1.0)))
}

/// What a promise is worth on real packets, with the mechanisms and without. Needs root.
pub fn measure(Rounds(rounds): Rounds, progress: &Progress) -> Result<Vec<Figure>> {
    let real = RealPackets::new(Some(1), 1)?;
    let (mut with, mut without, mut lost) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..rounds.min(ROUNDS) {
        progress.say(&format!("promises: on veth, round {} of {}", number + 1, rounds.min(ROUNDS)));
        for (promised, list) in [(true, &mut with), (false, &mut without)] {
            let (fared, kernel) = round(&real, promised)?;
            list.push(fared);
            lost.push(kernel * 100.0);
        }
    }
    let mut all = figures("veth, ", (&with, &without), FLOWS[PROMISED].2, KEPT);
    all.push(Figure::alone("promises", "veth: lost by the kernel itself, of all", median(lost), "%", Some(0.1)));
    Ok(all)
}
