//! The rates of reserved flows, and the processor time that they have used, by the numbers of their shares. The control side sets the rates, and workers
//! count the time; neither takes a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Nanos, ShareId};

/// Flows of a chunk, which is made when one of them is first reserved.
const CHUNK: usize = 1024;
const CHUNKS: usize = ShareId::MOST as usize / CHUNK + 1;

/// The grant of a path to a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowGrant {
    /// Its part of the path's processor time, relative to those of the other flows: packets a second, or on an interleaved path packets of the
    /// smallest size whose functions need as much time. Zero: the flow is not reserved.
    pub weight: u32,
    /// The packets of its queue.
    pub limit: u32,
}

/// The processor time of a flow on interleaved paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowUse {
    /// Packets that have passed all functions.
    pub packets: u64,
    /// The time of the functions, and of the selection of the flow.
    pub time: Nanos,
}

/// The words of a flow.
#[derive(Debug, Default)]
struct FlowWords {
    grant: AtomicU64,
    packets: AtomicU64,
    nanos: AtomicU64,
}

type Chunk = Box<[FlowWords]>;

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
    #[inline]
    fn words(&self, share: ShareId) -> Option<&FlowWords> {
        let chunk = self.0.get(share.index() / CHUNK).and_then(OnceLock::get)?;
        chunk.get(share.index() % CHUNK)
    }

    /// The grant of the flow with this share; nothing if it is not reserved.
    #[inline]
    pub fn get(&self, share: ShareId) -> FlowGrant {
        // Relaxed: both numbers are in one word, and nothing else depends on it.
        let word = self.words(share).map_or(0, |words| words.grant.load(Ordering::Relaxed));
        FlowGrant { weight: (word >> 32) as u32, limit: word as u32 }
    }

    /// Sets the grant of a flow. A flow that is new or has ended begins without use.
    pub fn set(&self, share: ShareId, grant: FlowGrant) {
        let Some(chunk) = self.0.get(share.index() / CHUNK) else { return };
        let words = &chunk.get_or_init(|| (0..CHUNK).map(|_| FlowWords::default()).collect())[share.index() % CHUNK];
        let word = u64::from(grant.weight) << 32 | u64::from(grant.limit);
        if words.grant.swap(word, Ordering::Relaxed) == 0 || word == 0 {
            words.packets.store(0, Ordering::Relaxed);
            words.nanos.store(0, Ordering::Relaxed);
        }
    }

    /// Counts the time of a function, and the packet if the function was the last.
    #[inline]
    pub(crate) fn count(&self, share: ShareId, time: Nanos, is_last: bool) {
        // Flows of several input ports may be on several workers.
        if let Some(words) = self.words(share) {
            words.nanos.fetch_add(time.get(), Ordering::Relaxed);
            words.packets.fetch_add(u64::from(is_last), Ordering::Relaxed);
        }
    }

    /// The use of the flow with this share since it was reserved.
    pub fn used(&self, share: ShareId) -> FlowUse {
        let Some(words) = self.words(share) else { return FlowUse::default() };
        let [packets, nanos] = [&words.packets, &words.nanos].map(|word| word.load(Ordering::Relaxed));
        FlowUse { packets, time: Nanos::new(nanos) }
    }
}
