//! The speed of simulated worlds: packets through a router of three tasks, and of reactive senders, per second of real time on one core.
//!
//! Every checker is on, as in every run. The time is that of the run from its first packet to its result.

use super::{BenchFigure, Rounds, median};
use ::io::clock::CycleCounter;
use ::sim::{NoCaptures, WorldPlan};
use units::Nanos;

/// The budget in packets a microsecond.
const BUDGET: f64 = 5.0;

/// A router with the costs that packets have today, so that a configuration without further keys processes large batches, and a source at this rate.
fn world(kpps: u64, millis: u64) -> WorldPlan {
    let text = format!(
        r#"
duration = "{millis}ms"
[router.r.cost]
switch = "50ns"
poll = "30ns"
input = "60ns"
forwarding = "40ns"
output = "50ns"
[card.in]
ring = 512
[card.out]
transmit_ring = 512
[[link]]
between = ["out", "sink"]
rate = "10gbit"
[[source]]
name = "a"
card = "in"
kind = "constant"
rate = "{kpps}kpps"
destination = "10.0.0.1"
[[sink]]
name = "sink"
[router.r]
config = '''
version = 1
[port.in]
device = "sim:in"
address = ["192.0.2.1/24"]
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
'''
"#
    );
    WorldPlan::parse(&text, "bench.toml").unwrap_or_else(|wrong| panic!("{wrong}"))
}

/// Two senders of NewReno behind one link.
fn hosts() -> WorldPlan {
    let flow = |name: &str| format!("[[flow]]\nname = \"{name}\"\nfrom = \"{name}\"\nto = \"far\"\n");
    let host = |name: &str| format!("[[host]]\nname = \"{name}\"\n");
    let access =
        |name: &str| format!("[[link]]\nbetween = [\"{name}\", \"gateway\"]\nrate = \"1gbit\"\ndelay = \"1ms\"\n");
    let text = [
        "duration = \"60s\"\n".to_owned(),
        ["one", "two", "gateway", "far"].map(host).concat(),
        ["one", "two"].map(access).concat(),
        "[[link]]\nbetween = [\"gateway\", \"far\"]\nrate = \"100mbit\"\ndelay = \"20ms\"\nscheme = \"fq\"\n"
            .to_owned(),
        ["one", "two"].map(flow).concat(),
    ];
    WorldPlan::parse(&text.concat(), "bench.toml").unwrap_or_else(|wrong| panic!("{wrong}"))
}

/// Packets that arrived at the sink, or that hosts have sent, per microsecond of real time.
fn speed(world: &WorldPlan, counter: &CycleCounter) -> f64 {
    let begin = counter.read();
    let measured = ::sim::run(world, &mut NoCaptures, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    let took: Nanos = counter.between(begin, counter.read());
    let received = measured.get("packets").or(measured.get("sink.sink.received")).expect("there is one of the two");
    received * 1000.0 / took.get() as f64
}

/// A saturated router, and one that is idle most of the time.
pub(super) fn measure(Rounds(count): Rounds) -> Vec<BenchFigure> {
    let counter = CycleCounter::calibrated();
    let (full, half, ends) = (world(8_000, 300), world(2_000, 300), hosts());
    let mut rounds = Vec::new();
    for round in 0..=count.min(5) {
        let pair = (speed(&full, &counter), speed(&half, &counter), speed(&ends, &counter));
        if round > 0 {
            // The first round only warms up.
            rounds.push(pair);
        }
    }
    let of = |pick: fn(&(f64, f64, f64)) -> f64| median(rounds.iter().map(pick).collect());
    let name = |what: &str| format!("{what}, three tasks, 64 B");
    vec![
        BenchFigure::no_less("sim", name("simulated packets, saturated"), of(|pair| pair.0), "packets/us", BUDGET),
        BenchFigure {
            budget: None,
            met: None,
            ..BenchFigure::no_less("sim", name("a third of that"), of(|pair| pair.1), "packets/us", 0.0)
        },
        BenchFigure::no_less(
            "sim",
            "simulated packets of two NewReno flows over one link, acknowledgements counted".to_owned(),
            of(|pair| pair.2),
            "packets/us",
            BUDGET,
        ),
    ]
}
