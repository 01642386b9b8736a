//! What it costs to hand a packet to a thread below the worker and to have it back: a packet through a path that is
//! preemptible beside the same packet through one that is not (spec Q-14: the paper reckons with 10 us for two full switches).

use super::{Figure, Rounds, medians};
use io::aside::Threads;
use io::clock::{self, CycleCounter, CycleMeter};
use io::cores;
use packet::event::Silent;
use plane::rig::{LAN_AND_WAN, Rig, Udp};
use plane::snapshot::Layout;
use std::thread;
use units::Nanos;

/// Packets of a round.
const PACKETS: usize = 500;
/// Steps after which a packet is lost.
const MOST: usize = 10_000;
/// The paths between the networks of [`LAN_AND_WAN`].
const PATHS: &str = r#"
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
    let frame = Udp::crossing(9, port).frame(&[]);
    let mut spent = Nanos::ZERO;
    for _ in 0..PACKETS {
        rig.send("lan", &frame);
        let began = counter.read();
        let mut steps = 0;
        while rig.wires.far["wan"].waiting() == 0 {
            rig.worker.step(clock::now(), meter);
            steps += 1;
            assert!(steps < MOST, "it leaves");
        }
        spent += counter.between(began, counter.read());
        rig.received("wan");
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
        rig.apply(&format!("{LAN_AND_WAN}{PATHS}")).expect("it is right");
        rig.settle();
        rig.received("wan");
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
