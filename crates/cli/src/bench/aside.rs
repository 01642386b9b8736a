//! What it costs to hand a packet to a thread below the worker and to have it back: a packet through a path that is
//! preemptible beside the same packet through one that is not (spec Q-14: the paper reckons with 10 us for two full switches).

use super::{Figure, Rounds, medians};
use io::aside::Threads;
use io::clock::{self, CycleCounter, CycleMeter};
use io::cores;
use plane::event::Silent;
use plane::rig::{Rig, Udp};
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use std::thread;
use units::{Mac, Nanos};

/// Packets of a round.
const PACKETS: usize = 500;
/// Steps after which a packet is lost.
const MOST: usize = 10_000;
const IN: Mac = Mac([2, 0, 0, 0, 0, 1]);

const CONFIG: &str = r#"
version = 1
[port.in]
device = "memory:in"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
[port.out]
device = "memory:out"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:09"
port = "out"
[[path]]
name = "aside"
match = "udp dport 7"
preemptible = true
[[path]]
name = "here"
match = "udp dport 9"
"#;

/// Nanoseconds from sending a packet to this port to its having left, on average.
fn through(rig: &mut Rig, meter: &mut CycleMeter, counter: &CycleCounter, port: u16) -> f64 {
    let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(198, 51, 100, 9));
    let frame = Udp { link: (Mac([2, 0, 0, 0, 0, 9]), IN), network, ports: (9, port), ttl: 64, length: 60 }.frame(&[]);
    let mut spent = Nanos::ZERO;
    for _ in 0..PACKETS {
        rig.send("in", &frame);
        let began = counter.read();
        let mut steps = 0;
        while rig.wires.far["out"].waiting() == 0 {
            rig.worker.step(clock::now(), meter);
            steps += 1;
            assert!(steps < MOST, "it leaves");
        }
        spent += counter.between(began, counter.read());
        rig.received("out");
    }
    spent.get() as f64 / PACKETS as f64
}

/// The figure, measured by a thread that stays on its core.
pub fn measure(Rounds(rounds): Rounds) -> Figure {
    let work = || {
        if let Some(&core) = cores::allowed().unwrap_or_default().first() {
            // Elsewhere the two threads would run side by side, and nothing would be handed over.
            let _ = cores::pin(core);
        }
        let mut rig = Rig::new(1024, Layout::Three, Box::new(Silent));
        rig.worker.lend_to(Box::new(Threads::new()));
        rig.apply(CONFIG).expect("it is right");
        rig.settle();
        rig.received("out");
        let counter = CycleCounter::calibrated();
        let mut meter = CycleMeter::new(counter.clone());
        let mut times: Vec<(f64, f64)> = Vec::new();
        for _ in 0..=rounds {
            let aside = through(&mut rig, &mut meter, &counter, 7);
            times.push((aside, through(&mut rig, &mut meter, &counter, 9)));
        }
        // The first only warms up.
        times.split_off(1)
    };
    let times = thread::scope(|scope| scope.spawn(work).join()).expect("it does not panic");
    let name =
        "ip, a packet alone through the whole router: handed to a preemptible path's thread and back, against at once";
    Figure::beside("functions", name, medians(&times), "ns/packet", None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_comes_back_from_the_thread_it_was_handed_to() {
        let figure = measure(Rounds(1));
        assert!(figure.ratio.is_some_and(|ratio| ratio > 1.0), "{figure:?}");
    }
}
