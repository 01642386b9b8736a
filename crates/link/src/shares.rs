//! The shares of a port, between the control side and the worker that owns the port: changes of the tree in one direction, counters in the other.
//!
//! A batch of changes is one entry of the list, so the worker sees all of it or none. The worker compares one number with each batch of packets; only if it
//! differs it takes the lock. Counters have one writer, and any thread reads them at any time.

use packet::pool::prefetch;
use schemes::{ShareEdit, ShareEdits};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use units::{Bytes, Nanos, ShareId, Size};

/// The counters of so many shares are allocated at once.
const CHUNK: usize = 256;
/// The most shares of a router.
pub const MOST_SHARES: usize = ShareId::MOST as usize;
/// The classes of sojourn times: two for each power of two, from 32 us to 4 s.
const CLASSES: usize = 36;
const SHORTEST: u32 = 15;

/// The counters of a share at a port: a cache line.
#[repr(C, align(64))]
#[derive(Debug, Default)]
struct ShareCells {
    packets: AtomicU64,
    bytes: AtomicU64,
    dropped: AtomicU64,
    marked: AtomicU64,
    enqueued: AtomicU64,
    enqueued_bytes: AtomicU64,
    longest: AtomicU64,
    /// The packets with a sojourn time of the first class, so that most packets touch no other line.
    shortest: AtomicU32,
}

/// The counters of shares with neighbouring numbers.
#[derive(Debug)]
struct CellChunk {
    cells: [ShareCells; CHUNK],
    /// Packets by class of their sojourn time, but the first class.
    sojourn: [[AtomicU32; CLASSES]; CHUNK],
}

impl Default for CellChunk {
    fn default() -> CellChunk {
        let counts = |_| std::array::from_fn(|_| AtomicU32::new(0));
        CellChunk { cells: std::array::from_fn(|_| ShareCells::default()), sojourn: std::array::from_fn(counts) }
    }
}

impl CellChunk {
    /// The counter of a class of sojourn times.
    #[inline(always)]
    fn sojourn(&self, share: ShareId, class: usize) -> &AtomicU32 {
        let at = share.index() % CHUNK;
        if class == 0 { &self.cells[at].shortest } else { &self.sojourn[at][class] }
    }
}

/// The counts of a share at a port since the share got its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShareCounts {
    /// Packets and bytes sent.
    pub packets: u64,
    /// See `packets`.
    pub bytes: Bytes,
    /// Packets dropped, before or after they were enqueued.
    pub dropped: u64,
    /// Packets on which congestion experienced was set.
    pub marked: u64,
    /// Packets and bytes that wait.
    pub waiting: Size,
    /// The longest sojourn time.
    pub longest: Nanos,
    /// Packets sent by class of their sojourn time.
    sojourn: [u32; CLASSES],
}

impl Default for ShareCounts {
    fn default() -> ShareCounts {
        ShareCounts {
            packets: 0,
            bytes: Bytes::ZERO,
            dropped: 0,
            marked: 0,
            waiting: Size::default(),
            longest: Nanos::ZERO,
            sojourn: [0; CLASSES],
        }
    }
}

impl ShareCounts {
    /// The sojourn time that this part, from 0 to 1, of the packets did not exceed: the end of its class, which is at most 1.42 times its beginning. None
    /// without packets.
    pub fn sojourn(&self, part: f64) -> Option<Nanos> {
        let packets: u64 = self.sojourn.iter().map(|packets| u64::from(*packets)).sum();
        // The packet of this rank, counted from one.
        let rank = ((packets as f64 * part).ceil() as u64).clamp(1, packets.max(1));
        let mut below = 0;
        let class = self.sojourn.iter().position(|packets| {
            below += u64::from(*packets);
            below >= rank
        })?;
        Some(Nanos::new(class_end(class)))
    }

    /// The counts since an earlier time.
    #[must_use]
    pub fn since(&self, earlier: &ShareCounts) -> ShareCounts {
        let mut sojourn = self.sojourn;
        sojourn.iter_mut().zip(&earlier.sojourn).for_each(|(own, before)| *own = own.wrapping_sub(*before));
        ShareCounts {
            packets: self.packets.saturating_sub(earlier.packets),
            bytes: Bytes::new(self.bytes.get().saturating_sub(earlier.bytes.get())),
            dropped: self.dropped.saturating_sub(earlier.dropped),
            marked: self.marked.saturating_sub(earlier.marked),
            sojourn,
            ..*self
        }
    }

    /// Adds the counts of a share below.
    pub fn add(&mut self, other: &ShareCounts) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.dropped += other.dropped;
        self.marked += other.marked;
        self.waiting.packets += other.waiting.packets;
        self.waiting.bytes += other.waiting.bytes;
        self.longest = self.longest.max(other.longest);
        self.sojourn.iter_mut().zip(&other.sojourn).for_each(|(own, other)| *own = own.saturating_add(*other));
    }
}

/// The class of a sojourn time: the position of its highest bit, and the bit below.
#[inline(always)]
fn class_of(waited: Nanos) -> usize {
    let nanos = waited.get().max(1);
    let high = nanos.ilog2();
    let half = (nanos >> high.saturating_sub(1)) & 1;
    ((2 * high + half as u32).saturating_sub(2 * SHORTEST) as usize).min(CLASSES - 1)
}

/// The end of a class, in nanoseconds.
fn class_end(class: usize) -> u64 {
    let (high, half) = (SHORTEST + class as u32 / 2, class % 2);
    if half == 0 { 3 << (high - 1) } else { 2 << high }
}

/// The batches of changes that some reader may not have seen yet.
#[derive(Debug, Default)]
struct PendingChanges {
    /// Each batch with its number.
    batches: Vec<(u64, ShareEdits)>,
    /// The number of the last batch that each reader has carried out. A link may have two: the scheme that drains, and the next one.
    readers: Vec<Weak<AtomicU64>>,
}

impl PendingChanges {
    /// The number of the last batch that all readers have carried out; `latest` without readers.
    fn done(&mut self, latest: u64) -> u64 {
        self.readers.retain(|reader| reader.strong_count() > 0);
        let seen = self.readers.iter().filter_map(Weak::upgrade).map(|reader| reader.load(Relaxed));
        seen.min().unwrap_or(latest)
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct LinkShares {
    /// The number of batches of changes so far.
    version: AtomicU64,
    changes: Mutex<PendingChanges>,
    /// The worker has lost all shares in a restart, and asks for them.
    requested: AtomicBool,
    chunks: Box<[OnceLock<Box<CellChunk>>]>,
}

impl Default for LinkShares {
    fn default() -> LinkShares {
        LinkShares {
            version: AtomicU64::new(0),
            changes: Mutex::default(),
            requested: AtomicBool::new(false),
            chunks: (0..MOST_SHARES / CHUNK).map(|_| OnceLock::new()).collect(),
        }
    }
}

#[inline(always)]
fn bump(cell: &AtomicU64, count: u64) {
    // A single writer needs no atomic addition.
    cell.store(cell.load(Relaxed) + count, Relaxed);
}

impl LinkShares {
    fn lock(&self) -> MutexGuard<'_, PendingChanges> {
        // A panic between two statements of a holder leaves a valid list.
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a batch of changes to the worker. Returns its number.
    pub fn change(&self, edits: &[ShareEdit]) -> u64 {
        // Allocated here, so that the worker allocates nothing to count.
        for edit in edits {
            if let ShareEdit::Put(share, _) = edit {
                self.make_cells(*share);
            }
        }
        self.forget_done();
        let mut changes = self.lock();
        let number = self.version.load(Relaxed) + 1;
        changes.batches.push((number, ShareEdits(edits.into())));
        self.version.store(number, Relaxed);
        number
    }

    /// True if the worker has carried out the batch of this number.
    pub fn is_done(&self, number: u64) -> bool {
        self.lock().done(self.version.load(Relaxed)) >= number
    }

    /// Frees the batches that all readers have carried out: each has 64 bytes for a share. Called by the control side, so that the worker frees nothing.
    pub fn forget_done(&self) {
        let mut changes = self.lock();
        let done = changes.done(self.version.load(Relaxed));
        let (kept, gone) = std::mem::take(&mut changes.batches).into_iter().partition(|(number, _)| *number > done);
        changes.batches = kept;
        drop(changes);
        // Freed after the lock.
        let _: Vec<(u64, ShareEdits)> = gone;
    }

    /// True if the worker has asked for all shares since the last call.
    pub fn take_request(&self) -> bool {
        self.requested.swap(false, Relaxed)
    }

    fn make_cells(&self, share: ShareId) {
        if let Some(chunk) = self.chunks.get(share.index() / CHUNK) {
            chunk.get_or_init(Box::default);
        }
    }

    #[inline(always)]
    fn chunk(&self, share: ShareId) -> Option<&CellChunk> {
        self.chunks.get(share.index() / CHUNK)?.get().map(|chunk| &**chunk)
    }

    #[inline(always)]
    fn cells(&self, share: ShareId) -> Option<&ShareCells> {
        self.chunk(share).map(|chunk| &chunk.cells[share.index() % CHUNK])
    }

    /// The counts of a share; zeros if it has sent nothing yet.
    pub fn counts(&self, share: ShareId) -> ShareCounts {
        let Some((chunk, cells)) = self.chunk(share).zip(self.cells(share)) else { return ShareCounts::default() };
        let of = |cell: &AtomicU64| cell.load(Relaxed);
        let (packets, bytes, dropped) = (of(&cells.packets), of(&cells.bytes), of(&cells.dropped));
        // The cells are read one after the other while the worker counts, so the differences may be off by a batch.
        let waiting = Size {
            packets: of(&cells.enqueued).saturating_sub(packets) as u32,
            bytes: Bytes::new(of(&cells.enqueued_bytes).saturating_sub(bytes)),
        };
        ShareCounts {
            packets,
            bytes: Bytes::new(bytes),
            dropped,
            marked: of(&cells.marked),
            waiting,
            longest: Nanos::new(of(&cells.longest)),
            sojourn: std::array::from_fn(|class| chunk.sojourn(share, class).load(Relaxed)),
        }
    }

    /// The bytes that each share has sent so far, by its number. Shares behind the last that ever had settings are left out.
    pub fn sent_bytes(&self) -> Vec<u64> {
        let mut bytes = Vec::new();
        for (number, chunk) in self.chunks.iter().enumerate() {
            if let Some(chunk) = chunk.get() {
                // Chunks between may belong to names of other ports.
                bytes.resize(number * CHUNK, 0);
                bytes.extend(chunk.cells.iter().map(|cells| cells.bytes.load(Relaxed)));
            }
        }
        bytes
    }

    /// Resets the longest sojourn time of all shares.
    pub fn reset_longest(&self) {
        for chunk in self.chunks.iter().filter_map(OnceLock::get) {
            chunk.cells.iter().for_each(|cells| cells.longest.store(0, Relaxed));
        }
    }

    /// Sets all counts of a share to zero: its number now belongs to another name.
    pub fn forget(&self, share: ShareId) {
        if let Some((chunk, cells)) = self.chunk(share).zip(self.cells(share)) {
            let ShareCells { packets, bytes, dropped, marked, enqueued, enqueued_bytes, longest, shortest: _ } = cells;
            for cell in [packets, bytes, dropped, marked, enqueued, enqueued_bytes, longest] {
                cell.store(0, Relaxed);
            }
            (0..CLASSES).for_each(|class| chunk.sojourn(share, class).store(0, Relaxed));
        }
    }
}

/// The worker's end.
#[derive(Debug)]
pub struct ShareReader {
    shares: Arc<LinkShares>,
    /// The number of the last batch carried out.
    seen: Arc<AtomicU64>,
}

impl ShareReader {
    /// A reader for a scheme that has all changes so far: `prepare` makes them while no batch is handed over.
    pub fn new(shares: &Arc<LinkShares>, prepare: impl FnOnce()) -> ShareReader {
        let mut changes = shares.lock();
        prepare();
        let seen = Arc::new(AtomicU64::new(shares.version.load(Relaxed)));
        changes.readers.push(Arc::downgrade(&seen));
        drop(changes);
        ShareReader { shares: shares.clone(), seen }
    }

    /// The reader for a new scheme without shares, after a failure of the old one. It asks for all shares.
    #[must_use]
    pub fn restarted(self) -> ShareReader {
        self.shares.requested.store(true, Relaxed);
        self
    }

    /// True if there are batches that were not carried out.
    #[inline(always)]
    pub fn is_behind(&self) -> bool {
        self.shares.version.load(Relaxed) != self.seen.load(Relaxed)
    }

    /// Calls `carry_out` for each batch that was not carried out yet.
    #[cold]
    pub fn catch_up(&self, mut carry_out: impl FnMut(&ShareEdits)) {
        loop {
            let next = {
                let (changes, seen) = (self.shares.lock(), self.seen.load(Relaxed));
                changes.batches.iter().find(|(number, _)| *number > seen).cloned()
            };
            let Some((number, edits)) = next else { break };
            carry_out(&edits);
            self.seen.store(number, Relaxed);
        }
    }

    /// Prefetches the counters of a share.
    #[inline(always)]
    pub fn prefetch(&self, share: ShareId) {
        if let Some(cells) = self.shares.cells(share) {
            prefetch(cells);
        }
    }

    /// Counts a packet that joins a queue.
    #[inline(always)]
    pub fn record_enqueue(&self, share: ShareId, bytes: u64) {
        if let Some(cells) = self.shares.cells(share) {
            bump(&cells.enqueued, 1);
            bump(&cells.enqueued_bytes, bytes);
        }
    }

    /// The packets of a share that wait.
    #[inline]
    pub fn waiting(&self, share: ShareId) -> u64 {
        let waiting = |cells: &ShareCells| cells.enqueued.load(Relaxed).saturating_sub(cells.packets.load(Relaxed));
        self.shares.cells(share).map_or(0, waiting)
    }

    /// Counts packets that leave.
    #[inline(always)]
    pub fn record_departure(&self, share: ShareId, bytes: u64, waited: Nanos) {
        if let Some((chunk, cells)) = self.shares.chunk(share).zip(self.shares.cells(share)) {
            bump(&cells.packets, 1);
            bump(&cells.bytes, bytes);
            if waited.get() > cells.longest.load(Relaxed) {
                cells.longest.store(waited.get(), Relaxed);
            }
            let class = chunk.sojourn(share, class_of(waited));
            class.store(class.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// Counts a dropped packet. `waited` tells whether it was enqueued.
    #[cold]
    pub fn record_drop(&self, share: ShareId, bytes: u64, waited: bool) {
        if let Some(cells) = self.shares.cells(share) {
            bump(&cells.dropped, 1);
            if waited {
                cells.enqueued.store(cells.enqueued.load(Relaxed).saturating_sub(1), Relaxed);
                cells.enqueued_bytes.store(cells.enqueued_bytes.load(Relaxed).saturating_sub(bytes), Relaxed);
            }
        }
    }

    /// Counts a mark.
    #[cold]
    pub fn record_mark(&self, share: ShareId) {
        if let Some(cells) = self.shares.cells(share) {
            bump(&cells.marked, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn remove(share: u32) -> [ShareEdit; 1] {
        [ShareEdit::Remove(ShareId(share))]
    }

    /// The shares that the batches which the reader has not seen remove.
    fn unseen(reader: &ShareReader) -> Vec<u32> {
        let seen = RefCell::new(Vec::new());
        reader.catch_up(|ShareEdits(edits)| {
            let share = |edit: &ShareEdit| match edit {
                ShareEdit::Remove(share) | ShareEdit::Put(share, _) => share.0,
            };
            seen.borrow_mut().extend(edits.iter().map(share));
        });
        seen.into_inner()
    }

    #[test]
    fn batch_stays_until_every_reader_has_seen_it() {
        let shares = Arc::new(LinkShares::default());
        let [drains, next] = [(); 2].map(|()| ShareReader::new(&shares, || {}));
        let first = shares.change(&remove(1));
        assert!(drains.is_behind() && !shares.is_done(first));
        assert_eq!(unseen(&drains), [1]);
        assert!(!drains.is_behind() && !shares.is_done(first), "the other reader has not seen it");
        let second = shares.change(&remove(2));
        assert_eq!(unseen(&next), [1, 2]);
        assert!(shares.is_done(first) && !shares.is_done(second));
        // The link frees a scheme that it has drained. Its reader is gone then.
        drop(drains);
        assert!(shares.is_done(second));
        shares.change(&remove(3));
        assert_eq!(shares.lock().batches.len(), 1, "batches that all have seen are freed");
    }

    #[test]
    fn counts_tell_waiting_packets_and_sojourn_times() {
        let shares = Arc::new(LinkShares::default());
        shares.change(&[ShareEdit::Put(ShareId(7), schemes::ShareParameters::default())]);
        let reader = ShareReader::new(&shares, || {});
        for millis in 1..=100 {
            reader.record_enqueue(ShareId(7), 100);
            reader.record_departure(ShareId(7), 100, Nanos::millis(millis));
        }
        reader.record_enqueue(ShareId(7), 60);
        // One is dropped while it waits, and one that was never enqueued.
        reader.record_enqueue(ShareId(7), 70);
        reader.record_drop(ShareId(7), 70, true);
        reader.record_drop(ShareId(7), 80, false);
        let counts = shares.counts(ShareId(7));
        assert_eq!(counts.dropped, 2);
        assert_eq!((counts.packets, counts.waiting), (100, Size { packets: 1, bytes: Bytes::new(60) }));
        for (part, exact) in [(0.5, 50.0), (0.95, 95.0), (1.0, 100.0)] {
            let found = counts.sojourn(part).expect("there are packets").as_secs_f64() * 1e3;
            assert!((exact..=exact * 1.5).contains(&found), "{part}: {found} ms for {exact}");
        }
        assert_eq!(ShareCounts::default().sojourn(0.5), None);
    }
}
