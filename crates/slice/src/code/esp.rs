//! The code option `esp`: an IPv4 router whose packets may carry an instruction of ephemeral state (spec S-14). The slice is one processing place, the
//! centre, with a store of its own: no tag of another slice is in it.

use super::{
    CodeConfig, CodeEnv, CodeOption, CodeRegistration, Diversion, Formatted, InnerEdit, LookupKey, LookupResult, ipv4,
};
use crate::memory::SliceMemory;
use esp::site::{ExecutionRules, InstructionFate, Location, PacketBuffer, Site};
use esp::store::{Grace, Store, StoreSpec, WorkerEpochs};
use std::sync::{Arc, Mutex, PoisonError};
use units::Instant;

/// The code option.
pub const REGISTRATION: CodeRegistration = CodeRegistration {
    name: "esp",
    summary: "Forwards IPv4 packets like `ipv4`, and executes the instructions of ephemeral state that they carry.",
    version: 1,
    // Of which the store gets as many entries as there is room for.
    memory: 16 << 10,
    settings: &[("node", "The number of the node in replies; 0 by default.")],
    make,
    ..ipv4::REGISTRATION
};

/// The largest store of a slice.
const MOST_ENTRIES: u64 = 1 << 20;

fn make(config: &CodeConfig) -> Result<Box<dyn CodeOption>, String> {
    let node = match config.get("node") {
        None => 0,
        Some(text) => text.parse().map_err(|_| format!("node={text} is no number"))?,
    };
    let router = (ipv4::REGISTRATION.make)(&CodeConfig::default())?;
    Ok(Box::new(EspRouter { router, rules: ExecutionRules::of(node), place: None }))
}

/// The store of a slice. Workers take turns: a computation may have packets on each of them.
struct SlicePlace {
    site: Site,
    /// The time of the latest packet, because the clocks of workers differ a little.
    now: Instant,
}

impl SlicePlace {
    fn new(bytes: usize) -> SlicePlace {
        let fits = |capacity: &u64| Store::bytes(*capacity) <= bytes as u64;
        // The bit for each power of two that still fits, from the highest on.
        let capacity =
            (0..=MOST_ENTRIES.ilog2()).rev().fold(0, |sum, bit| Some(sum | 1 << bit).filter(fits).unwrap_or(sum));
        let mut store = Store::new(StoreSpec::of(capacity.max(1)), &Arc::new(WorkerEpochs::new(1)), Grace::Counters);
        SlicePlace { site: Site::new(store.shards.remove(0)), now: Instant::default() }
    }
}

/// See the [module](self).
struct EspRouter {
    router: Box<dyn CodeOption>,
    rules: ExecutionRules,
    /// `None` before it has the memory of a slice.
    place: Option<Arc<Mutex<SlicePlace>>>,
}

/// A packet of the slice, for the executor.
struct InnerPacket<'e, 'p>(&'e mut InnerEdit<'p>);

impl PacketBuffer for InnerPacket<'_, '_> {
    fn network(&self) -> &[u8] {
        self.0.bytes()
    }

    fn network_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

impl CodeOption for EspRouter {
    fn attach(&mut self, memory: &SliceMemory) {
        self.place = memory.attached(|| Mutex::new(SlicePlace::new(memory.size())));
    }

    fn parse(&mut self, packet: &[u8], env: &mut CodeEnv<'_>) -> Result<LookupKey, Diversion> {
        self.router.parse(packet, env)
    }

    fn format(
        &mut self,
        packet: &mut InnerEdit<'_>,
        result: &LookupResult,
        env: &mut CodeEnv<'_>,
    ) -> Result<Formatted, Diversion> {
        // First, because it leaves packets for the slow path as they are.
        let formatted = self.router.format(packet, result, env)?;
        let Some(place) = &self.place else { return Ok(formatted) };
        if self.rules.carriages.find(packet.bytes()).is_none() {
            return Ok(formatted);
        }
        // Held for one packet. An instruction has no loop.
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        place.now = place.now.max(env.now());
        let (now, mut fates) = (place.now, [InstructionFate::PassedThrough]);
        place.site.process((&self.rules, Location::Central), now, &mut [InnerPacket(packet)], &mut fates);
        match fates {
            [InstructionFate::Dropped] => Err(Diversion::Policy),
            _ => Ok(formatted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_fits_the_memory_of_the_slice() {
        for bytes in [REGISTRATION.memory, 64 << 10, 1 << 20] {
            let place = SlicePlace::new(bytes);
            let capacity = place.site.occupancy(Instant::default()).capacity;
            assert!(Store::bytes(capacity) <= bytes as u64 && Store::bytes(capacity + 64) > bytes as u64, "{capacity}");
        }
    }
}
