//! The rates of reserved flows, by the numbers of their shares: the control side writes them, workers read them without a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use units::ShareId;

/// Flows of a chunk, which is made when one of them is first reserved.
const CHUNK: usize = 1024;
const CHUNKS: usize = ShareId::MOST as usize / CHUNK + 1;

/// The grant of a path to a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowGrant {
    /// Packets a second that it gets from the path's part of the processor. Zero: the flow is not reserved.
    pub packets: u32,
    /// The packets of its queue.
    pub limit: u32,
}

type Chunk = Box<[AtomicU64]>;

/// See the [module](self).
pub struct FlowRates(Box<[OnceLock<Chunk>]>);

impl Default for FlowRates {
    fn default() -> FlowRates {
        FlowRates((0..CHUNKS).map(|_| OnceLock::new()).collect())
    }
}

impl std::fmt::Debug for FlowRates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowRates").finish_non_exhaustive()
    }
}

impl FlowRates {
    /// The grant of the flow with this share; nothing if it is not reserved.
    #[inline]
    pub fn get(&self, share: ShareId) -> FlowGrant {
        let chunk = self.0.get(share.index() / CHUNK).and_then(OnceLock::get);
        // Relaxed: both numbers are in one word, and nothing else depends on it.
        let word = chunk.map_or(0, |chunk| chunk[share.index() % CHUNK].load(Ordering::Relaxed));
        FlowGrant { packets: (word >> 32) as u32, limit: word as u32 }
    }

    /// Sets the grant of a flow.
    pub fn set(&self, share: ShareId, grant: FlowGrant) {
        let Some(chunk) = self.0.get(share.index() / CHUNK) else { return };
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| AtomicU64::new(0)).collect());
        let word = u64::from(grant.packets) << 32 | u64::from(grant.limit);
        chunk[share.index() % CHUNK].store(word, Ordering::Relaxed);
    }
}
