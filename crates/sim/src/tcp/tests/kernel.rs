//! Compares the models with Linux 6.18. The kernel's TCP ran in two network namespaces, with a link of constant rate between them. Its results are
//! recorded here.

use super::theory::{TEN, period, saw};
use crate::tcp::{CongestionControl, Cubic, Reno, Settings};

/// The behaviour of a bulk flow after a minute.
#[derive(Debug)]
struct BulkResult {
    /// Acknowledged Mbit/s, with headers.
    throughput: f64,
    /// The mean period of the sawtooth, in seconds.
    period: f64,
    /// Packets dropped, of ten thousand.
    dropped: f64,
    /// The mean of the window's maxima.
    highest: f64,
}

/// The kernel's results on a link of 10 Mbit/s and 100 ms with a queue of this many packets of 1260 bytes, over three to four minutes.
const KERNEL: [(&str, usize, BulkResult); 4] = [
    ("reno", 100, BulkResult { throughput: 9.998, period: 15.68, dropped: 0.84, highest: 201.1 }),
    ("reno", 30, BulkResult { throughput: 9.033, period: 7.47, dropped: 1.56, highest: 131.0 }),
    ("cubic", 100, BulkResult { throughput: 10.0, period: 6.25, dropped: 5.52, highest: 203.4 }),
    ("cubic", 30, BulkResult { throughput: 9.936, period: 5.26, dropped: 3.40, highest: 131.6 }),
];

fn model(control: &str, room: usize) -> BulkResult {
    let settings = Settings::kernel();
    let control: Box<dyn CongestionControl> = match control {
        "reno" => Box::new(Reno::new(&settings)),
        _ => Box::new(Cubic::new(&settings)),
    };
    let (before, after) = (60, 600);
    let (used, teeth, world) = saw((settings, control), (TEN, room), (before, after));
    let packets = used * after as f64 / TEN.as_secs_f64();
    let dropped = world.drops.iter().filter(|at| at.as_secs_f64() > before as f64).count();
    BulkResult {
        throughput: used * 10.0,
        period: period(&teeth),
        dropped: dropped as f64 / packets * 1e4,
        highest: teeth.iter().map(|tooth| tooth.1).sum::<f64>() / teeth.len() as f64,
    }
}

#[test]
fn models_match_the_kernel_on_one_link() {
    let mut far = Vec::new();
    for (control, room, kernel) in KERNEL {
        let ours = model(control, room);
        let mut check = |what: &str, ours: f64, kernels: f64, percent: f64| {
            let off = (ours / kernels - 1.0) * 100.0;
            if off.abs() > percent {
                far.push(format!(
                    "{control}, {room} packets: {what} {ours:.3}, the kernel's {kernels:.3} ({off:+.1} %)"
                ));
            }
        };
        check("throughput", ours.throughput, kernel.throughput, 5.0);
        check("period", ours.period, kernel.period, 15.0);
        check("highest window", ours.highest, kernel.highest, 5.0);
        if control == "cubic" {
            check("drop rate", ours.dropped, kernel.dropped, 12.0);
        }
    }
    assert!(far.is_empty(), "{}", far.join("\n"));
}

/// The packets that the kernel's Reno dropped at a tooth over ten minutes. It is the mean over those teeth without a stall of the machine (302 and
/// 143), for this queue size and up to three packets less. Each time one packet or two were dropped.
const A_TOOTH: [(usize, f64); 2] = [(30, 1.613), (100, 1.650)];

#[test]
fn reno_drops_per_sawtooth_match_linux() {
    for (room, kernel) in A_TOOTH {
        let tooth = |did: BulkResult| did.dropped * 1e-4 * did.throughput * 1e6 / 10_080.0 * did.period;
        let ours = (0..4).map(|less| tooth(model("reno", room - less))).sum::<f64>() / 4.0;
        assert!((ours / kernel - 1.0).abs() < 0.12, "{room} packets: {ours:.3}, the kernel's {kernel:.3}");
    }
}
