//! The cost of guests, on the same wires and in the same rounds as built-in schemes. Also the time to replace a guest while packets flow, and the
//! time to stop one that does not return.

mod functions;
mod recovery;
mod replacement;
mod slices;

pub(super) use functions::{FunctionLoad, NULL, SERVICE};

use super::components::nanos_per_operation;
use super::schemes::{Bare, Busy, PACKETS, built};
use super::{BenchFigure, Rounds, median};
use anyhow::{Result, bail};
use extension::{GuestProgram, Runtime};
use io::clock;
use units::Nanos;

/// Packets that arrive and leave per call.
pub const BATCHES: [usize; 3] = [1, 8, 32];
/// Instances created to measure the time for one.
const INSTANCES: usize = 64;

/// Budget in nanoseconds per packet for a guest that manages a queue as CoDel and RED do, at the last of [`BATCHES`].
const MANAGES: f64 = 25.0;
/// First in, first out: examples/guests/fifo.wat as a binary module.
const FIFO: &[u8] = include_bytes!("guests/fifo.wasm");
/// The same with an endless loop in the call that dequeues packets.
const ENDLESS: &[u8] = include_bytes!("guests/endless.wasm");
/// A packet function that computes: examples/guests/work.wat.
pub const WORK: &[u8] = include_bytes!("guests/work.wasm");

fn loaded(module: &[u8], runtime: &Runtime) -> GuestProgram {
    GuestProgram::load(module, runtime).expect("it is a guest")
}

/// The costs of the guests that are compiled into the program.
pub(super) fn measure(rounds: Rounds) -> Vec<BenchFigure> {
    let runtime = Runtime::timed(clock::processor_time).expect("guests run here");
    let program = loaded(FIFO, &runtime);
    let Rounds(times) = rounds;
    let options = [10_000, 0];
    let costs = compare(&program, &options, times == 1).expect("it works");
    let cost = costs.schemes.iter().find(|(name, _)| name.is_none()).map_or(0.0, |(_, [.., many])| *many);
    let mut figures =
        vec![BenchFigure::alone("guests", "fifo as a guest, 32 at once", cost, "ns/packet", Some(MANAGES))];
    figures.extend(functions::measure(rounds, &runtime));
    figures.extend(slices::measure(rounds, &runtime));
    figures.extend(recovery::measure(rounds, &runtime));
    figures.extend(replacement::measure(&program, &options, times * 16).expect("it starts"));
    figures
}

/// The measured medians.
pub struct GuestCosts {
    /// Time from the module's code to a guest that is ready.
    pub instantiate: Nanos,
    /// Nanoseconds per packet above wires without a scheme, for each of [`BATCHES`]. The entry without a name is the guest.
    pub schemes: Vec<(Option<&'static str>, [f64; BATCHES.len()])>,
    /// The guest's figures that have a budget.
    pub figures: Vec<BenchFigure>,
}

/// Measures a guest with these options.
///
/// # Errors
///
/// The guest does not start, or was disabled during the measurement.
pub fn compare(program: &GuestProgram, options: &[u64], quick: bool) -> Result<GuestCosts> {
    let rounds = if quick { 1 } else { 31 };
    let mut instances = Vec::with_capacity(INSTANCES);
    for _ in 0..INSTANCES {
        let start = clock::now();
        let guest = program.guest(options)?;
        instances.push(clock::now().since(start).get() as f64);
        drop(guest);
    }
    let instantiate = Nanos::new(median(instances) as u64);
    let mut bare = Busy::new(Box::new(Bare), 1, 10);
    let mut native = ["fifo", "codel", "red"].map(|name| (name, Busy::new(built(name, 1), 1, 10)));
    let mut guest = Busy::new(Box::new(program.guest(options)?), 1, 10);
    let mut costs = vec![[const { Vec::new() }; BATCHES.len()]; native.len() + 1];
    for _ in 0..rounds {
        for (place, batch) in BATCHES.into_iter().enumerate() {
            let bare = cost(&mut bare, batch);
            let all = native.iter_mut().map(|(_, busy)| cost(busy, batch)).chain([cost(&mut guest, batch)]);
            all.zip(&mut costs).for_each(|(cost, costs)| costs[place].push(cost - bare));
        }
    }
    if let Some(trouble) = guest.scheme.next_fault() {
        bail!("it was disabled during the measurement: {}", trouble.description);
    }
    let names = native.iter().map(|(name, _)| Some(*name)).chain([None]);
    let schemes: Vec<_> = names.zip(costs).map(|(name, costs)| (name, costs.map(median))).collect();
    let many = schemes.last().map_or(0.0, |(_, [.., many])| *many);
    let mut figures = vec![BenchFigure::alone("guests", "the guest, 32 at once", many, "ns/packet", Some(MANAGES))];
    figures.extend(replacement::measure(program, options, rounds * 8)?);
    Ok(GuestCosts { instantiate, schemes, figures })
}

/// Nanoseconds per packet.
fn cost(busy: &mut Busy, batch: usize) -> f64 {
    nanos_per_operation(Rounds(1), PACKETS, || busy.batches(PACKETS, batch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine_lock::shared_machine;

    const TEXT: &str = include_str!("../../../../examples/guests/fifo.wat");
    const NULL_TEXT: &str = include_str!("../../../../examples/guests/null.wat");
    const NULL_SLICE_TEXT: &str = include_str!("../../../../examples/guests/null-slice.wat");
    const SERVICE_TEXT: &str = include_str!("guests/service.wat");

    /// The binary modules match their text; `UPDATE_EXPECT=1` rebuilds them.
    #[test]
    fn modules_are_built_from_the_examples() {
        let ready = "(func (export \"switchpath_ready\") (local $i i32)";
        let endless = TEXT.replace(ready, &format!("{ready} (loop $round (br $round))"));
        assert_ne!(endless, TEXT);
        let headers = NULL_TEXT.replace("(i32.const 1040) (i32.const 0)", "(i32.const 1040) (i32.const 64)");
        let headers = headers.replace("(i32.const 1052) (i32.const 0)", "(i32.const 1052) (i32.const 2)");
        assert_eq!(headers.matches("(i32.const 64)").count(), 2);
        let edits = NULL_SLICE_TEXT.replace("(i32.const 1040) (i32.const 0)", "(i32.const 1040) (i32.const 64)");
        let edits = edits.replace("(i32.const 1052) (i32.const 2)", "(i32.const 1052) (i32.const 1)");
        assert_eq!((edits.matches("(i32.const 64)").count(), edits.matches("(i32.const 2)").count()), (2, 0));
        let modules = [("fifo", FIFO, TEXT), ("endless", ENDLESS, &endless)];
        let work = include_str!("../../../../examples/guests/work.wat");
        let functions = [
            ("null", NULL, NULL_TEXT),
            ("headers", functions::HEADERS, &headers),
            ("null_slice", slices::NULL, NULL_SLICE_TEXT),
            ("edit_slice", slices::EDITS, &edits),
            ("service", SERVICE, SERVICE_TEXT),
            ("work", WORK, work),
        ];
        for (name, module, text) in modules.into_iter().chain(functions) {
            let made = wat::parse_str(text).expect("it is WebAssembly");
            if std::env::var_os("UPDATE_EXPECT").is_some() {
                let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bench/guests");
                std::fs::write(format!("{folder}/{name}.wasm"), &made).expect("it can be written");
            } else {
                assert!(module == made, "{name}.wasm is not what its text says");
            }
        }
    }

    #[test]
    fn runaway_guest_is_stopped_and_replacement_loses_no_packets() {
        // Guests are stopped by a time limit, which a thread of another test with a real-time priority would use up.
        let _machine = shared_machine();
        let met = |figure: &BenchFigure| figure.unit == "us" || figure.met != Some(false);
        let figures = measure(Rounds(1));
        let of = |what: &str| figures.iter().filter(|figure| figure.name.contains(what)).count();
        assert_eq!((of("does not return"), of("replaced while 1000 packets wait")), (2, 3), "{figures:?}");
        assert!(figures.iter().filter(|figure| figure.unit == "packets").all(met), "{figures:?}");
    }
}
