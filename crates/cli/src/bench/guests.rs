//! What a guest costs, on the same wires and in the same rounds as schemes that are built in.

use super::parts::each;
use super::schemes::{Bare, Busy, PACKETS, built};
use super::{Rounds, median};
use anyhow::{Result, bail};
use extension::Program;
use io::clock;
use units::Nanos;

/// Packets that come, and leave, at once.
pub const BATCHES: [usize; 3] = [1, 8, 32];
/// Instances that are made to see how long one takes.
const INSTANCES: usize = 64;

/// What was measured: medians.
pub struct Costs {
    /// From the code to a guest that can work.
    pub instantiate: Nanos,
    /// Nanoseconds a packet above wires without a scheme, for each of [`BATCHES`]; without a name: the guest.
    pub schemes: Vec<(Option<&'static str>, [f64; BATCHES.len()])>,
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
    let mut native = ["fifo", "codel"].map(|name| (name, Busy::new(built(name, 1), 1, 10)));
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
    let schemes = names.zip(costs).map(|(name, costs)| (name, costs.map(median))).collect();
    Ok(Costs { instantiate, schemes })
}

/// Nanoseconds a packet.
fn cost(busy: &mut Busy, batch: usize) -> f64 {
    each(Rounds(1), PACKETS, || busy.batches(PACKETS, batch))
}
