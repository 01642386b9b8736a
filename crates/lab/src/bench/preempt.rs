//! The cost of a preemptible path: handing a packet to the function thread below the worker and getting it back. Each round measures a packet through
//! a preemptible path beside the same packet through an ordinary one (spec Q-14: the paper assumes 10 us for two full switches).

use super::{BenchFigure, Rounds, medians};
use io::clock::{self, CycleCounter, CycleMeter};
use io::cores;
use io::preempt::PreemptThreads;
use packet::event::Silent;
use plane::rig::{LAN_AND_WAN, Rig, UdpFrame};
use plane::snapshot::Layout;
use std::thread;
use units::Nanos;

/// Packets of a round.
const PACKETS: usize = 500;
/// Steps after which a packet counts as lost.
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

/// Average time in nanoseconds from offering a packet with this destination port until it has left.
fn latency(rig: &mut Rig, meter: &mut CycleMeter, counter: &CycleCounter, port: u16) -> f64 {
    let frame = UdpFrame::between_ports(9, port).frame(&[]);
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

/// The figure, measured by a thread pinned to its core.
pub fn measure(Rounds(rounds): Rounds) -> BenchFigure {
    let work = || {
        if let Some(&core) = cores::allowed().unwrap_or_default().first() {
            // On different cores the two threads would run side by side, and the measurement would miss the switch between them.
            let _ = cores::pin(core);
        }
        let mut rig = Rig::new(1024, Layout::Three, Box::new(Silent));
        rig.worker.set_function_threads(Box::new(PreemptThreads::new()));
        rig.apply(&format!("{LAN_AND_WAN}{PATHS}")).expect("it is right");
        rig.settle();
        rig.received("wan");
        let counter = CycleCounter::calibrated();
        let mut meter = CycleMeter::new(counter.clone());
        let mut times: Vec<(f64, f64)> = Vec::new();
        for _ in 0..=rounds {
            let aside = latency(&mut rig, &mut meter, &counter, 7);
            times.push((aside, latency(&mut rig, &mut meter, &counter, 9)));
        }
        // The first round only warms up.
        times.split_off(1)
    };
    let times = thread::scope(|scope| scope.spawn(work).join()).expect("it does not panic");
    let name =
        "ip, a packet alone through the whole router: handed to a preemptible path's thread and back, against at once";
    BenchFigure::against("functions", name, medians(&times), "ns/packet", None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preemptible_path_returns_packet_from_function_thread() {
        let figure = measure(Rounds(1));
        assert!(figure.ratio.is_some_and(|ratio| ratio > 1.0), "{figure:?}");
    }
}
