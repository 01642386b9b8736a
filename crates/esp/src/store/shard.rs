//! The part of a store that one worker owns, and the only one to execute instructions on it.

use super::epochs::Epochs;
use super::line::Place;
use super::space::{Record, Space};
use super::sweep::{Sweep, next};
use super::sync::{Arc, Ordering};
use super::time::{GAP, Tick};
use super::view::{MAX_TAGS, Tags, View};
use units::{Instant, Nanos};

/// Records that an owner cleans after a batch for each that it has created in it, and besides.
const CLEANED: (usize, usize) = (2, 8);

/// What became of an instruction, as far as the store is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done<T> {
    /// It was executed, and what it wrote is in the store.
    Executed(T),
    /// There is no room for all it creates: nothing of it is in the store.
    Full,
}

/// What an instruction says of itself.
pub trait Ended {
    /// Whether what it wrote shall be in the store. An aborted instruction writes nothing.
    fn commits(&self) -> bool;
}

/// What happens in a full store to instructions that create nothing (spec E-05).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// They run.
    #[default]
    AbortCreates,
    /// They are aborted as well, as the paper has it.
    AbortAll,
}

/// What a shard has counted since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShardCounters {
    /// Entries created.
    pub created: u64,
    /// Instructions that found no room for what they were to create.
    pub full: u64,
    /// Of these, how often only because expired entries had not been freed yet.
    pub late: u64,
    /// Look-ups that read more than one line, by how many: 2, 3, 4 to 7, 8 and more.
    pub probed: [u64; 4],
    /// Look-ups that found a tag which another computation had created; counted only with diagnostics.
    pub collisions: u64,
    /// The most entries there were at a time, expired ones that were not yet freed included.
    pub high_water: u64,
}

/// A worker's part of a store.
pub struct Shard {
    space: Arc<Space>,
    epochs: Arc<Epochs>,
    worker: usize,
    /// Cleans where the owner does that itself.
    sweep: Option<Sweep>,
    when_full: WhenFull,
    created: u64,
    /// Where the next record is written.
    next: usize,
    /// Entries freed, as last seen.
    freed: u64,
    /// When a batch was last begun.
    last: Instant,
    /// Nothing is found and nothing created before this many are freed.
    outdated: u64,
    counters: ShardCounters,
}

impl Shard {
    pub(super) fn new(
        space: Arc<Space>,
        (epochs, worker): (Arc<Epochs>, usize),
        cleans: bool,
        when_full: WhenFull,
    ) -> Shard {
        let sweep = cleans.then(|| Sweep::new(space.clone()));
        Shard {
            space,
            epochs,
            worker,
            sweep,
            when_full,
            created: 0,
            next: 0,
            freed: 0,
            last: Instant::START,
            outdated: 0,
            counters: ShardCounters::default(),
        }
    }

    /// Has the processor fetch the home of a tag. Answers which it is.
    #[inline(always)]
    pub fn fetch(&self, tag: u64) -> u32 {
        let home = self.space.home(tag);
        self.space.fetch(home);
        home as u32
    }

    /// Begins a batch of instructions, all at `now`.
    #[inline]
    pub fn begin(&mut self, now: Instant) -> Session<'_> {
        if now.since(self.last) > GAP {
            self.after_long_absence(now);
        }
        self.last = self.last.max(now);
        if self.freed < self.outdated {
            self.freed = self.space.freed.load(Ordering::Acquire);
        }
        self.epochs.enter(self.worker);
        Session { now: Tick::of(self.last), begun: self.created, usable: self.freed >= self.outdated, shard: self }
    }

    /// Everything has expired, and ticks do not tell.
    #[cold]
    fn after_long_absence(&mut self, now: Instant) {
        self.outdated = self.created;
        if let Some(sweep) = &mut self.sweep {
            while sweep.clean(now, 1 << 16) > 0 {}
        }
    }

    /// Cleans what is due, where the owner does that, at most `most` entries. Answers how many.
    pub fn clean(&mut self, now: Instant, most: usize) -> usize {
        self.sweep.as_mut().map_or(0, |sweep| sweep.clean(now, most))
    }

    /// When the owner has something to clean next; none where it never has.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        self.sweep.as_ref()?.due(now)
    }

    /// How long the entry that the owner freed last had been expired; none where the owner frees none.
    pub fn lag(&self) -> Option<Nanos> {
        self.sweep.as_ref().map(|sweep| sweep.lag)
    }

    /// How full it is.
    pub fn occupancy(&self, now: Instant) -> super::Occupancy {
        super::inspect::occupancy(&self.space, Tick::of(now))
    }

    /// What it has counted.
    pub fn counters(&self) -> ShardCounters {
        ShardCounters { created: self.created, ..self.counters }
    }

    /// Whether an entry more is one too many: as many as there may be are alive, or not yet freed.
    #[inline(always)]
    fn is_full(&mut self, now: Tick, more: u64) -> bool {
        // Those that are not freed are at least as many as those that live.
        if self.created - self.freed + more <= self.space.capacity {
            return false;
        }
        self.is_really_full(now, more)
    }

    #[inline(never)]
    fn is_really_full(&mut self, now: Tick, more: u64) -> bool {
        let Shard { space, counters, created, .. } = self;
        self.freed = space.freed.load(Ordering::Acquire);
        let kept = *created - self.freed;
        if kept + more <= space.capacity {
            return false;
        }
        if more > space.capacity {
            return true;
        }
        // The entries before the last `capacity - more` have to have expired: of those the youngest.
        let youngest = *created + more - space.capacity - 1;
        let lives = now.is_before(space.record(space.position(youngest)).expiry);
        let late = kept + more > space.log_length();
        counters.late += u64::from(late && !lives);
        lives || late
    }
}

/// A batch of instructions.
pub struct Session<'a> {
    shard: &'a mut Shard,
    now: Tick,
    begun: u64,
    usable: bool,
}

impl Session<'_> {
    /// Entries created so far.
    #[inline]
    pub fn created(&self) -> u64 {
        self.shard.created
    }

    /// Has the processor fetch the home of a tag.
    #[inline(always)]
    pub fn prepare(&self, tags: &mut Tags) {
        tags.prepare(self.shard);
    }

    /// Executes one instruction of `computation` on the first so many of these tags, which were prepared for this shard.
    #[inline(always)]
    pub fn execute<const TAGS: usize, T: Ended>(
        &mut self,
        tags: &Tags,
        computation: u64,
        run: impl FnOnce(&mut View) -> T,
    ) -> Done<T> {
        const { assert!(TAGS <= MAX_TAGS, "an instruction has at most four tags") };
        let (mut view, mut places) = (View::new(), [Place::NONE; MAX_TAGS]);
        if !self.usable || self.shard.when_full == WhenFull::AbortAll && self.shard.is_full(self.now, 1) {
            self.shard.counters.full += 1;
            return Done::Full;
        }
        for (index, found) in places.iter_mut().enumerate().take(TAGS) {
            let tag = tags.tags[index];
            if let Some(first) = tags.tags[..index].iter().position(|other| *other == tag) {
                view.alias(index, first);
                continue;
            }
            let place = self.find(tag, tags.homes[index] as usize, computation);
            if place != Place::NONE {
                view.found(index, self.shard.space.value(place));
                *found = place;
            }
        }
        let ended = run(&mut view);
        if view.written != 0 && ended.commits() {
            if view.created() != 0 && !self.reserve::<TAGS>(&view, tags, &mut places) {
                self.shard.counters.full += 1;
                return Done::Full;
            }
            self.write::<TAGS>(&view, tags, &places, computation);
        }
        Done::Executed(ended)
    }

    #[inline(always)]
    fn find(&mut self, tag: u64, home: usize, computation: u64) -> Place {
        let Shard { space, counters, .. } = &mut *self.shard;
        let (place, looked) = space.find(tag, home, self.now);
        if looked > 1 {
            let class = [2, 3, 7].iter().position(|most| looked <= *most).unwrap_or(3);
            counters.probed[class] += 1;
        }
        if place != Place::NONE
            && let Some(creator) = space.creator(place)
        {
            counters.collisions += u64::from(creator != sign(computation));
        }
        place
    }

    /// Finds a slot for each entry that is to be made. Answers whether there are enough.
    #[inline(always)]
    fn reserve<const TAGS: usize>(&mut self, view: &View, tags: &Tags, places: &mut [Place; MAX_TAGS]) -> bool {
        let created = view.created();
        if self.shard.is_full(self.now, created.count_ones().into()) {
            return false;
        }
        for index in (0..TAGS).filter(|index| created >> index & 1 != 0) {
            let (before, rest) = places.split_at_mut(index);
            let taken = if created & ((1 << index) - 1) == 0 { &[][..] } else { &*before };
            let Some(place) = self.shard.space.vacant(tags.homes[index] as usize, taken) else { return false };
            rest[0] = place;
        }
        true
    }

    #[inline(always)]
    fn write<const TAGS: usize>(&mut self, view: &View, tags: &Tags, places: &[Place; MAX_TAGS], computation: u64) {
        let created = view.created();
        let Shard { space, created: count, next: at, .. } = &mut *self.shard;
        for index in (0..TAGS).filter(|index| view.written >> index & 1 != 0) {
            let (place, value) = (places[index], view.value(index));
            if created >> index & 1 == 0 {
                space.set(place, value);
                continue;
            }
            let expiry = self.now.expiry(space.lifetime);
            space.put(place, (tags.tags[index], tags.homes[index] as usize), value, expiry);
            space.note(place, sign(computation));
            space.write(*at, Record { place, expiry });
            *count += 1;
            *at = next(*at, space.log_length() as usize);
        }
    }
}

impl Drop for Session<'_> {
    #[inline]
    fn drop(&mut self) {
        let shard = &mut *self.shard;
        let created = shard.created - self.begun;
        if created > 0 {
            shard.space.created.store(shard.created, Ordering::Release);
            let kept = shard.created - shard.freed;
            if kept > shard.counters.high_water {
                shard.freed = shard.space.freed.load(Ordering::Acquire);
                shard.counters.high_water = shard.counters.high_water.max(shard.created - shard.freed);
            }
        }
        shard.epochs.leave(shard.worker);
        if let Some(sweep) = &mut shard.sweep {
            let now = shard.last;
            sweep.clean(now, created as usize * CLEANED.0 + CLEANED.1);
        }
    }
}

/// What an entry keeps of who created it.
#[inline(always)]
pub(super) fn sign(computation: u64) -> u16 {
    (super::mix(computation, 0) >> 48) as u16
}
