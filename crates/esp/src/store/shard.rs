//! A shard: the part of a store that one worker owns. Only that worker executes instructions on it.

use super::epochs::WorkerEpochs;
use super::line::{Line, SlotAddress};
use super::space::{Record, Space};
use super::sweep::{CleaningCounters, Sweep, next_position};
use super::sync::{Arc, AtomicU64, Ordering};
use super::time::{LiveRange, MAX_PAUSE, PAUSE_CHECK_INTERVAL, Tick};
use super::view::{InstructionTags, MAX_TAGS, TagView};
use std::cell::Cell;
use units::{Instant, Nanos};

/// Records that an owner cleans after a batch: the first number per entry created in the batch, plus the second. Two per create, so cleaning catches
/// up.
const CLEANED_PER_BATCH: (usize, usize) = (2, 8);

/// The most entries whose lines fit a core's L2 cache beside other data: half a megabyte. Server cores have one or two megabytes of their own.
const MOST_CACHED: u64 = (1 << 19) / size_of::<Line>() as u64;

/// The result of an instruction at the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreResult<T> {
    /// It was executed, and its writes are in the store.
    Executed(T),
    /// The store has no room for all entries it would create. Nothing was written.
    Full,
}

/// The result of an instruction, as far as the store needs it.
pub trait CommitDecision {
    /// True if its writes are to be committed. An aborted instruction writes nothing.
    fn commits(&self) -> bool;
}

/// The policy for instructions that create no entry, at a full store (spec E-05).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FullPolicy {
    /// They are executed.
    #[default]
    AbortCreates,
    /// They are aborted too, as in the paper.
    AbortAll,
}

/// The counters of a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShardCounters {
    /// Entries created.
    pub created: u64,
    /// Instructions aborted for lack of room.
    pub full: u64,
    /// Instructions aborted only because expired entries were not freed yet.
    pub late: u64,
    /// Look-ups that read several lines, by their number: 2, 3, 4 to 7, 8 and more.
    pub probed: [u64; 4],
    /// Look-ups that found an entry of another computation. Counted with diagnostics only.
    pub collisions: u64,
    /// The high-water mark of entries, including expired entries not yet freed.
    pub high_water: u64,
}

/// One worker's shard of a store.
pub struct Shard {
    space: Arc<Space>,
    owner: OwnerState,
}

/// The owner's private state of a shard.
struct OwnerState {
    epochs: Arc<WorkerEpochs>,
    worker: usize,
    /// Inline cleaning; `None` with a cleaner.
    sweep: Option<Sweep>,
    when_full: FullPolicy,
    created: u64,
    /// The position of the next record in the log.
    next: usize,
    /// Entries freed, as last read.
    freed: u64,
    /// The time of the latest batch.
    last: Instant,
    /// The time of the next check for expiries that ticks can no longer compare.
    next_pause_check: Instant,
    /// The shard is unusable until this many entries are freed.
    outdated: u64,
    counters: ShardCounters,
}

impl Shard {
    pub(super) fn new(
        space: Arc<Space>,
        (epochs, worker): (Arc<WorkerEpochs>, usize),
        cleans: bool,
        when_full: FullPolicy,
    ) -> Shard {
        let sweep = cleans.then(|| Sweep::new(space.clone()));
        let owner = OwnerState {
            epochs,
            worker,
            sweep,
            when_full,
            created: 0,
            next: 0,
            freed: 0,
            last: Instant::START,
            next_pause_check: Instant::START,
            outdated: 0,
            counters: ShardCounters::default(),
        };
        Shard { space, owner }
    }

    /// Begins a batch of instructions, all executed at `now`.
    #[inline]
    pub fn begin(&mut self, now: Instant) -> Session<'_> {
        let Shard { space, owner } = self;
        if now >= owner.next_pause_check {
            owner.check_pause(space, now);
        }
        // Time never runs backwards for the store, even if the caller's clock does.
        owner.last = owner.last.max(now);
        if owner.freed < owner.outdated {
            owner.freed = space.freed.load(Ordering::Acquire);
        }
        // With inline cleaning only the owner frees entries, so no cleaner needs to know that it is active.
        if owner.sweep.is_none() {
            owner.epochs.enter(owner.worker);
        }
        // Aborting is the only safe answer until the cleaner has removed entries that ticks show live again.
        let usable = owner.freed >= owner.outdated;
        let skips_full_check = usable && owner.when_full == FullPolicy::AbortCreates;
        Session { now: Tick::of(owner.last), created_before: owner.created, usable, skips_full_check, space, owner }
    }

    /// With inline cleaning: cleans at most `most` expired entries. Returns their number.
    pub fn clean(&mut self, now: Instant, most: usize) -> usize {
        self.owner.sweep.as_mut().map_or(0, |sweep| sweep.clean(now, most))
    }

    /// The time of the next inline cleaning; `None` if there is none.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        self.owner.sweep.as_ref()?.due(now)
    }

    /// The delay between expiry and release of the last entry freed inline; `None` with a cleaner.
    pub fn lag(&self) -> Option<Nanos> {
        self.owner.sweep.as_ref().map(|sweep| sweep.lag)
    }

    /// The counters of inline cleaning; zeros with a cleaner.
    pub fn cleaning_counters(&self) -> CleaningCounters {
        self.owner.sweep.as_ref().map_or_else(CleaningCounters::default, Sweep::cleaning_counters)
    }

    /// The occupancy.
    pub fn occupancy(&self, now: Instant) -> super::Occupancy {
        super::inspect::occupancy(&self.space, Tick::of(now))
    }

    /// The counters.
    pub fn counters(&self) -> ShardCounters {
        ShardCounters { created: self.owner.created, ..self.owner.counters }
    }
}

impl OwnerState {
    /// Runs every quarter of an hour. After a long pause of the owner or the cleaner, expired entries could appear live once ticks wrap: gives those
    /// up. Never gives up a live entry.
    #[cold]
    fn check_pause(&mut self, space: &Space, now: Instant) {
        self.next_pause_check = now + PAUSE_CHECK_INTERVAL;
        let (tick, first) = (Tick::of(now), space.freed.load(Ordering::Acquire).max(self.outdated));
        // The owner itself paused for longer than any lifetime: everything has expired.
        let expired = if now.since(self.last) > MAX_PAUSE {
            self.created
        } else {
            // Entries after `first` were checked last time, so they expired at most two hours and a quarter ago. Ticks can still compare them.
            let expired = space.first_live((first, self.created), tick);
            if expired == first || tick.since(space.record(space.position(first)).expiry) < MAX_PAUSE {
                return;
            }
            expired
        };
        self.outdated = expired;
        // The cleaner may have paused for so long that ticks mislead it too.
        space.declared_expired.store(expired, Ordering::Release);
        if let Some(sweep) = &mut self.sweep {
            while sweep.clean(now, 1 << 16) > 0 {}
        }
    }

    /// True if `more` new entries do not fit. Cheap test first; the slow test reads how far the cleaner has come.
    #[inline(always)]
    fn is_full(&mut self, space: &Space, now: Tick, more: u64) -> bool {
        // Entries not yet freed are an upper bound for live entries.
        if self.created - self.freed + more <= space.capacity {
            return false;
        }
        self.is_full_exactly(space, now, more)
    }

    #[inline(never)]
    fn is_full_exactly(&mut self, space: &Space, now: Tick, more: u64) -> bool {
        let OwnerState { counters, created, .. } = self;
        self.freed = space.freed.load(Ordering::Acquire);
        let occupied = *created - self.freed;
        if occupied + more <= space.capacity {
            return false;
        }
        if more > space.capacity {
            return true;
        }
        // Only expired entries may exceed the capacity. This is the youngest entry that must have expired to make room for `more`.
        let youngest = *created + more - space.capacity - 1;
        let lives = now.is_before(space.record(space.position(youngest)).expiry);
        // Even if it has expired: the log has no record left until the cleaner frees some.
        let late = occupied + more > space.log_length();
        counters.late += u64::from(late && !lives);
        lives || late
    }
}

/// The values of an instruction's tags, and their locations in the store.
pub struct TagLookup<'a> {
    /// The values, to read and write.
    pub view: TagView,
    values: [Option<&'a AtomicU64>; MAX_TAGS],
}

/// A shard small enough for the core's cache.
#[derive(Clone, Copy)]
pub struct CachedShard<'a> {
    space: &'a Space,
    alive: LiveRange,
}

/// A value in the store.
#[derive(Clone, Copy)]
pub struct Value<'a>(&'a AtomicU64);

impl Value<'_> {
    /// Reads it.
    #[inline(always)]
    pub fn get(self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Writes it.
    #[inline(always)]
    pub fn set(self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl<'a> CachedShard<'a> {
    /// The values under distinct tags. `None` if one is not in its home line, or, with several tags, in the line after it. Adds the look-ups that
    /// read two lines to `twice`.
    #[inline(always)]
    pub fn find<const TAGS: usize>(self, tags: [u64; TAGS], two_line_lookups: &Cell<u64>) -> Option<[Value<'a>; TAGS]> {
        let mut values = [Value(&self.space.created); TAGS];
        for (value, tag) in values.iter_mut().zip(tags) {
            let line = self.space.home_line(tag);
            *value = Value(match line.value(tag, self.alive) {
                Some(value) => value,
                // With more tags it is more likely that one of them spilled. With one tag the check is not worth its registers.
                None if TAGS == 1 || line.spilled.load(Ordering::Relaxed) & 3 == 0 => return None,
                None => {
                    let value = self.space.line(self.space.home(tag) + 1).value(tag, self.alive)?;
                    two_line_lookups.set(two_line_lookups.get() + 1);
                    value
                }
            });
        }
        Some(values)
    }
}

/// A batch of instructions.
pub struct Session<'a> {
    space: &'a Space,
    owner: &'a mut OwnerState,
    now: Tick,
    created_before: u64,
    /// False while ticks cannot compare the shard's entries: every instruction is aborted.
    usable: bool,
    /// True if instructions may run without a check whether the store is full.
    skips_full_check: bool,
}

impl<'a> Session<'a> {
    /// Entries created so far.
    #[inline]
    pub fn created(&self) -> u64 {
        self.owner.created
    }

    /// The shard for the fast path without prefetch. `None` if it has more entries than fit the cache, or records creators.
    #[inline]
    pub fn cached(&mut self) -> Option<CachedShard<'a>> {
        let Session { space, owner, now, skips_full_check, .. } = self;
        if owner.created - owner.freed > MOST_CACHED {
            owner.freed = space.freed.load(Ordering::Acquire);
        }
        let is_cached = *skips_full_check && owner.created - owner.freed <= MOST_CACHED && !space.records_creators();
        let alive = now.live_range(space.lifetime).filter(|_| is_cached)?;
        Some(CachedShard { space, alive })
    }

    /// Adds look-ups of the fast path that read two lines.
    #[inline]
    pub fn count_two_line_lookups(&mut self, count: u64) {
        self.owner.counters.probed[0] += count;
    }

    /// Computes the home lines of the first `TAGS` tags, or with [`MAX_TAGS`] of all.
    #[inline(always)]
    pub fn prepare<const TAGS: usize>(&self, tags: &mut InstructionTags) {
        const { assert!(TAGS <= MAX_TAGS, "an instruction has at most four tags") };
        let count = if TAGS == MAX_TAGS { tags.count.min(TAGS) } else { TAGS };
        for index in 0..count {
            tags.homes[index] = self.space.home(tags.tags[index]) as u32;
        }
    }

    /// Prefetches the home lines of prepared tags.
    #[inline(always)]
    pub fn prefetch(&self, tags: &InstructionTags) {
        for home in tags.homes.iter().take(tags.count) {
            self.space.prefetch(*home as usize);
        }
    }

    /// Executes one instruction of `computation` on its first `TAGS` tags, or with [`MAX_TAGS`] on all. The tags were prepared for this shard.
    #[inline(always)]
    pub fn execute<const TAGS: usize, T: CommitDecision>(
        &mut self,
        tags: &InstructionTags,
        computation: u64,
        run: impl FnOnce(&mut TagView) -> T,
    ) -> StoreResult<T> {
        let Some(mut found) = self.look_up::<TAGS>(tags, computation) else { return StoreResult::Full };
        let result = run(&mut found.view);
        self.commit::<TAGS, T>(tags, computation, found, result)
    }

    /// The first half: looks up the tags. `None` if the store is full or unusable.
    #[inline(always)]
    pub fn look_up<const TAGS: usize>(&mut self, tags: &InstructionTags, computation: u64) -> Option<TagLookup<'a>> {
        const { assert!(TAGS <= MAX_TAGS, "an instruction has at most four tags") };
        // `skips_full_check` is true unless the store is unusable or has `AbortAll`: one branch in the common case.
        if !self.skips_full_check && self.is_unavailable() {
            self.owner.counters.full += 1;
            return None;
        }
        let mut found = TagLookup { view: TagView::new(), values: [None; MAX_TAGS] };
        let count = if TAGS == MAX_TAGS { tags.count.min(TAGS) } else { TAGS };
        for index in 0..count {
            self.look_up_one(index, tags, computation, &mut found);
        }
        Some(found)
    }

    /// Looks up one tag, after those before it.
    #[inline(always)]
    pub fn look_up_one(&mut self, index: usize, tags: &InstructionTags, computation: u64, found: &mut TagLookup<'a>) {
        let tag = tags.tags[index];
        // A tag that the instruction names twice is one entry, also if the instruction creates it.
        if let Some(first) = tags.tags[..index].iter().position(|other| *other == tag) {
            found.view.alias(index, first);
        } else if let Some(value) = self.find(tag, tags.homes[index] as usize, computation) {
            found.view.set_stored(index, value.load(Ordering::Relaxed));
            found.values[index] = Some(value);
        }
    }

    #[cold]
    fn is_unavailable(&mut self) -> bool {
        !self.usable || self.owner.is_full(self.space, self.now, 1)
    }

    /// The second half, after the instruction: commits all writes of the view, or none.
    #[inline(always)]
    pub fn commit<const TAGS: usize, T: CommitDecision>(
        &mut self,
        tags: &InstructionTags,
        computation: u64,
        TagLookup { view, values }: TagLookup<'a>,
        result: T,
    ) -> StoreResult<T> {
        if view.written != 0 && result.commits() {
            // Creates first: they can fail, and then nothing may be written (spec E-05).
            if view.created() != 0 && !self.create::<TAGS>((view.created(), view.values()), tags, computation) {
                self.owner.counters.full += 1;
                return StoreResult::Full;
            }
            for index in (0..TAGS).filter(|index| view.written >> index & 1 != 0) {
                if let Some(value) = values[index] {
                    value.store(view.value(index), Ordering::Relaxed);
                }
            }
        }
        StoreResult::Executed(result)
    }

    /// The value under a tag.
    #[inline(always)]
    fn find(&mut self, tag: u64, home: usize, computation: u64) -> Option<&'a AtomicU64> {
        let (space, owner) = (self.space, &mut *self.owner);
        let line = space.line(home);
        let (line, slot) = match line.find(tag, self.now) {
            Some(slot) => (line, slot),
            None => match line.spilled.load(Ordering::Relaxed) {
                // Most lines have no spilled entries, so an absent tag costs one line.
                0 => return None,
                spilled => owner.find_spilled(space, tag, (home, spilled), self.now)?,
            },
        };
        if space.records_creators() {
            owner.count_collision(space, space.place_of(line, slot), computation);
        }
        line.values.get(slot)
    }

    /// Creates an entry for each tag that the instruction wrote and that was absent. Returns false if there is no room for all.
    #[inline(never)]
    fn create<const TAGS: usize>(
        &mut self,
        (created, values): (u8, [u64; MAX_TAGS]),
        tags: &InstructionTags,
        computation: u64,
    ) -> bool {
        let space = self.space;
        if self.owner.is_full(space, self.now, created.count_ones().into()) {
            return false;
        }
        // Find all places before the first write, so that a failure leaves the store unchanged.
        let mut places = [SlotAddress::NONE; MAX_TAGS];
        for index in (0..TAGS).filter(|index| created >> index & 1 != 0) {
            let (before, rest) = places.split_at_mut(index);
            // Slots chosen for earlier tags still look free; exclude them.
            let taken = if created & ((1 << index) - 1) == 0 { &[][..] } else { &*before };
            let Some(place) = space.vacant(tags.homes[index] as usize, taken) else { return false };
            rest[0] = place;
        }
        // One expiry for all entries of an instruction. It is never extended.
        let expiry = self.now.expiry(space.lifetime);
        for index in (0..TAGS).filter(|index| created >> index & 1 != 0) {
            let place = places[index];
            space.put(place, (tags.tags[index], tags.homes[index] as usize), values[index], expiry);
            if space.records_creators() {
                space.record_creator(place, creator_hash(computation));
            }
            space.write(self.owner.next, Record { place, expiry });
            self.owner.created += 1;
            self.owner.next = next_position(self.owner.next, space.log_length() as usize);
        }
        true
    }
}

impl OwnerState {
    /// Looks for a tag in the lines that hold spilled entries of its home line.
    #[inline(never)]
    fn find_spilled<'a>(
        &mut self,
        space: &'a Space,
        tag: u64,
        (home, mut spilled): (usize, u32),
        now: Tick,
    ) -> Option<(&'a Line, usize)> {
        let mut lines_read = 1;
        let mut found = None;
        while spilled != 0 && found.is_none() {
            let distance = spilled.trailing_zeros() as usize / 2 + 1;
            // Two bits per line: clear both, as one look finds all entries of that line.
            spilled &= !(3 << (2 * (distance - 1)));
            lines_read += 1;
            let line = space.line(home + distance);
            found = line.find(tag, now).map(|slot| (line, slot));
        }
        let class = [2, 3, 7].iter().position(|most| lines_read <= *most).unwrap_or(3);
        self.counters.probed[class] += 1;
        found
    }

    /// Counts a look-up that found another computation's entry.
    #[cold]
    fn count_collision(&mut self, space: &Space, place: SlotAddress, computation: u64) {
        let creator = space.creator(place);
        self.counters.collisions += u64::from(creator.is_some_and(|creator| creator != creator_hash(computation)));
    }
}

impl Drop for Session<'_> {
    #[inline]
    fn drop(&mut self) {
        let (space, owner) = (self.space, &mut *self.owner);
        let created = owner.created - self.created_before;
        if created > 0 {
            // Release: the cleaner sees the records of the log before their number.
            space.created.store(owner.created, Ordering::Release);
            let occupied = owner.created - owner.freed;
            if occupied > owner.counters.high_water {
                // `freed` may be old and the sum too high; read it only if the high-water mark depends on it.
                owner.freed = space.freed.load(Ordering::Acquire);
                owner.counters.high_water = owner.counters.high_water.max(owner.created - owner.freed);
            }
        }
        match &mut owner.sweep {
            // With inline cleaning no cleaner waits for this owner to leave.
            Some(sweep) => {
                sweep.clean(owner.last, created as usize * CLEANED_PER_BATCH.0 + CLEANED_PER_BATCH.1);
            }
            None => owner.epochs.leave(owner.worker),
        }
    }
}

/// The 16-bit hash of the creator's computation that an entry records.
#[inline(always)]
pub(super) fn creator_hash(computation: u64) -> u16 {
    (super::mix(computation, 0) >> 48) as u16
}
