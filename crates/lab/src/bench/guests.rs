//! What a guest costs, on the same wires and in the same rounds as schemes that are built in; what it takes to replace one while
//! packets flow; and what one costs that does not return.

mod regained;
mod replaced;

use super::parts::each;
use super::schemes::{Bare, Busy, PACKETS, built};
use super::{Figure, Rounds, median};
use anyhow::{Result, bail};
use extension::{Program, Runtime};
use io::clock;
use units::Nanos;

/// Packets that come, and leave, at once.
pub const BATCHES: [usize; 3] = [1, 8, 32];
/// Instances that are made to see how long one takes.
const INSTANCES: usize = 64;

/// Nanoseconds a packet that a guest may cost which manages a queue as CoDel and RED do, at the last of [`BATCHES`].
const MANAGES: f64 = 25.0;
/// First in, first out: examples/guests/fifo.wat, in binary.
const FIFO: &[u8] = include_bytes!("guests/fifo.wasm");
/// The same, but when the link is ready it goes round and round.
const ENDLESS: &[u8] = include_bytes!("guests/endless.wasm");

fn loaded(module: &[u8], runtime: &Runtime) -> Program {
    Program::load(module, runtime).expect("it is a guest")
}

/// What guests cost of which the program has the code.
pub(super) fn measure(rounds: Rounds) -> Vec<Figure> {
    let runtime = Runtime::timed(clock::processor_time).expect("guests run here");
    let program = loaded(FIFO, &runtime);
    let Rounds(times) = rounds;
    let options = [10_000, 0];
    let costs = compare(&program, &options, times == 1).expect("it works");
    let cost = costs.schemes.iter().find(|(name, _)| name.is_none()).map_or(0.0, |(_, [.., many])| *many);
    let mut figures = vec![Figure::alone("guests", "fifo as a guest, 32 at once", cost, "ns/packet", Some(MANAGES))];
    figures.extend(regained::measure(rounds, &runtime));
    figures.extend(replaced::measure(&program, &options, times * 16).expect("it starts"));
    figures
}

/// What was measured: medians.
pub struct Costs {
    /// From the code to a guest that can work.
    pub instantiate: Nanos,
    /// Nanoseconds a packet above wires without a scheme, for each of [`BATCHES`]; without a name: the guest.
    pub schemes: Vec<(Option<&'static str>, [f64; BATCHES.len()])>,
    /// Those of the guest that have a budget.
    pub figures: Vec<Figure>,
}

/// Measures a guest with these options.
///
/// # Errors
///
/// It does not start, or was put aside while it was measured.
pub fn compare(program: &Program, options: &[u64], quick: bool) -> Result<Costs> {
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
    if let Some(trouble) = guest.scheme.trouble() {
        bail!("it was put aside while it was measured: {}", trouble.what);
    }
    let names = native.iter().map(|(name, _)| Some(*name)).chain([None]);
    let schemes: Vec<_> = names.zip(costs).map(|(name, costs)| (name, costs.map(median))).collect();
    let many = schemes.last().map_or(0.0, |(_, [.., many])| *many);
    let mut figures = vec![Figure::alone("guests", "the guest, 32 at once", many, "ns/packet", Some(MANAGES))];
    figures.extend(replaced::measure(program, options, rounds * 8)?);
    Ok(Costs { instantiate, schemes, figures })
}

/// Nanoseconds a packet.
fn cost(busy: &mut Busy, batch: usize) -> f64 {
    each(Rounds(1), PACKETS, || busy.batches(PACKETS, batch))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../../../../examples/guests/fifo.wat");

    /// The modules that come with the program are what their text says; `UPDATE_EXPECT=1` makes them anew.
    #[test]
    fn modules_are_made_of_the_example() {
        let ready = "(func (export \"switchpath_ready\") (local $i i32)";
        let endless = TEXT.replace(ready, &format!("{ready} (loop $round (br $round))"));
        assert_ne!(endless, TEXT);
        for (name, module, text) in [("fifo", FIFO, TEXT), ("endless", ENDLESS, &endless)] {
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
    fn one_that_does_not_return_is_ended_and_one_that_is_replaced_loses_nothing() {
        let met = |figure: &Figure| figure.unit == "us" || figure.met != Some(false);
        let figures = measure(Rounds(1));
        let of = |what: &str| figures.iter().filter(|figure| figure.name.contains(what)).count();
        assert_eq!((of("does not return"), of("replaced while 1000 packets wait")), (2, 3), "{figures:?}");
        assert!(figures.iter().filter(|figure| figure.unit == "packets").all(met), "{figures:?}");
    }
}
