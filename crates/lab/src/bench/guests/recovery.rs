//! The time until the worker has the processor back from a guest that does not return and serves the queued packets without it.

use super::super::schemes::Busy;
use super::super::{BenchFigure, Rounds, median};
use super::{ENDLESS, FIFO, loaded};
use extension::Runtime;
use io::clock;

/// Budget for the median, in microseconds.
const REGAINED: f64 = 200.0;
/// Packets that arrive and leave at once.
const BATCH: usize = 32;

/// Measures a fresh guest for each call, because a guest that does not return is called only once.
pub fn measure(Rounds(rounds): Rounds, runtime: &Runtime) -> Vec<BenchFigure> {
    let took = |module: &[u8], fails: bool| {
        let program = loaded(module, runtime);
        let once = || {
            let guest = program.guest(&[1000, 0]).expect("it starts");
            let mut busy = Busy::new(Box::new(guest), 1, 10);
            let start = clock::now();
            busy.batches(BATCH, BATCH);
            let took = clock::now().since(start).get() as f64 / 1000.0;
            assert_eq!(busy.scheme.next_fault().is_some(), fails, "a guest is put aside where it does not return");
            took
        };
        (0..rounds * 16).map(|_| once()).collect::<Vec<f64>>()
    };
    let (usual, mut regained) = (median(took(FIFO, false)), took(ENDLESS, true));
    regained.sort_by(f64::total_cmp);
    let at = |hundredths: usize| regained[(regained.len() - 1) * hundredths / 100];
    let name = |what: &str| format!("a guest that does not return: {what}");
    vec![
        BenchFigure::alone(
            "guests",
            "a batch of 32 in and out, the guest called for the first time",
            usual,
            "us",
            None,
        ),
        BenchFigure::alone("guests", name("the worker is busy with it and its packets"), at(50), "us", Some(REGAINED)),
        BenchFigure::alone("guests", name("the same, 95 of 100 are shorter"), at(95), "us", None),
    ]
}
