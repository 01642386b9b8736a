//! The part of a store that one worker owns, and the only one to execute instructions on it.

use super::epochs::Epochs;
use super::line::{Line, Place};
use super::space::{Record, Space};
use super::sweep::{Cleaned, Sweep, next};
use super::sync::{Arc, AtomicU64, Ordering};
use super::time::{Alive, GAP, HEED, Tick};
use super::view::{MAX_TAGS, Tags, View};
use std::cell::Cell;
use units::{Instant, Nanos};

/// Records that an owner cleans after a batch for each that it has created in it, and besides.
const CLEANED: (usize, usize) = (2, 8);

/// Entries whose lines a core has near it, with as much besides: half a megabyte. Server cores have one or two to themselves.
const NEAR: u64 = (1 << 19) / size_of::<Line>() as u64;

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
    books: Books,
}

/// What the owner of a shard keeps beside it.
struct Books {
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
    /// When it is looked next whether ticks have been running for longer than they may.
    heed: Instant,
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
        let books = Books {
            epochs,
            worker,
            sweep,
            when_full,
            created: 0,
            next: 0,
            freed: 0,
            last: Instant::START,
            heed: Instant::START,
            outdated: 0,
            counters: ShardCounters::default(),
        };
        Shard { space, books }
    }

    /// Begins a batch of instructions, all at `now`.
    #[inline]
    pub fn begin(&mut self, now: Instant) -> Session<'_> {
        let Shard { space, books } = self;
        if now >= books.heed {
            books.look_around(space, now);
        }
        books.last = books.last.max(now);
        if books.freed < books.outdated {
            books.freed = space.freed.load(Ordering::Acquire);
        }
        if books.sweep.is_none() {
            books.epochs.enter(books.worker);
        }
        let usable = books.freed >= books.outdated;
        let open = usable && books.when_full == WhenFull::AbortCreates;
        Session { now: Tick::of(books.last), begun: books.created, usable, open, space, books }
    }

    /// Cleans what is due, where the owner does that, at most `most` entries. Answers how many.
    pub fn clean(&mut self, now: Instant, most: usize) -> usize {
        self.books.sweep.as_mut().map_or(0, |sweep| sweep.clean(now, most))
    }

    /// When the owner has something to clean next; none where it never has.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        self.books.sweep.as_ref()?.due(now)
    }

    /// How long the entry that the owner freed last had been expired; none where the owner frees none.
    pub fn lag(&self) -> Option<Nanos> {
        self.books.sweep.as_ref().map(|sweep| sweep.lag)
    }

    /// What the owner has cleaned; nothing where another does.
    pub fn cleaned(&self) -> Cleaned {
        self.books.sweep.as_ref().map_or_else(Cleaned::default, Sweep::cleaned)
    }

    /// How full it is.
    pub fn occupancy(&self, now: Instant) -> super::Occupancy {
        super::inspect::occupancy(&self.space, Tick::of(now))
    }

    /// What it has counted.
    pub fn counters(&self) -> ShardCounters {
        ShardCounters { created: self.books.created, ..self.books.counters }
    }
}

impl Books {
    /// A few times an hour: gives up what has expired and ticks would once tell to be alive again, because nobody has been here for long, or nobody has
    /// cleaned. No entry that lives is given up.
    #[cold]
    fn look_around(&mut self, space: &Space, now: Instant) {
        self.heed = now + HEED;
        let (tick, first) = (Tick::of(now), space.freed.load(Ordering::Acquire).max(self.outdated));
        let expired = if now.since(self.last) > GAP {
            self.created
        } else {
            // What is behind `first` was looked at before, and has been expired for two hours and a quarter at most: ticks tell.
            let expired = space.expired((first, self.created), tick);
            if expired == first || tick.since(space.record(space.position(first)).expiry) < GAP {
                return;
            }
            expired
        };
        self.outdated = expired;
        // The cleaner, too, may have been away for so long that ticks mislead it.
        space.given_up.store(expired, Ordering::Release);
        if let Some(sweep) = &mut self.sweep {
            while sweep.clean(now, 1 << 16) > 0 {}
        }
    }

    /// Whether an entry more is one too many: as many as there may be are alive, or not yet freed.
    #[inline(always)]
    fn are_full(&mut self, space: &Space, now: Tick, more: u64) -> bool {
        // Those that are not freed are at least as many as those that live.
        if self.created - self.freed + more <= space.capacity {
            return false;
        }
        self.are_really_full(space, now, more)
    }

    #[inline(never)]
    fn are_really_full(&mut self, space: &Space, now: Tick, more: u64) -> bool {
        let Books { counters, created, .. } = self;
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

/// The values of an instruction's tags, and where they are.
pub struct Found<'a> {
    /// To be read and written.
    pub view: View,
    values: [Option<&'a AtomicU64>; MAX_TAGS],
}

/// The entries of a shard that a core keeps near it.
#[derive(Clone, Copy)]
pub struct Near<'a> {
    space: &'a Space,
    alive: Alive,
}

/// A value of the store.
#[derive(Clone, Copy)]
pub struct Value<'a>(&'a AtomicU64);

impl Value<'_> {
    /// What it is.
    #[inline(always)]
    pub fn get(self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Gives it another.
    #[inline(always)]
    pub fn set(self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl<'a> Near<'a> {
    /// The values under tags, which are different. `None` where one of them is neither in the line of its home nor, of several, in the next. Counts in `twice`
    /// those that are in the next.
    #[inline(always)]
    pub fn find<const TAGS: usize>(self, tags: [u64; TAGS], twice: &Cell<u64>) -> Option<[Value<'a>; TAGS]> {
        let mut values = [Value(&self.space.created); TAGS];
        for (value, tag) in values.iter_mut().zip(tags) {
            let line = self.space.home_line(tag);
            *value = Value(match line.value(tag, self.alive) {
                Some(value) => value,
                // The more tags, the likelier is one of them there: for one alone it is not worth the registers.
                None if TAGS == 1 || line.spilled.load(Ordering::Relaxed) & 3 == 0 => return None,
                None => {
                    let value = self.space.line(self.space.home(tag) + 1).value(tag, self.alive)?;
                    twice.set(twice.get() + 1);
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
    books: &'a mut Books,
    now: Tick,
    begun: u64,
    /// Whether anything may be executed at all.
    usable: bool,
    /// Whether it may be without a look at how full the store is.
    open: bool,
}

impl<'a> Session<'a> {
    /// Entries created so far.
    #[inline]
    pub fn created(&self) -> u64 {
        self.books.created
    }

    /// The entries as whoever needs not fetch them sees them; none where they are more than a core keeps near it, or who
    /// creates them is written down.
    #[inline]
    pub fn near(&mut self) -> Option<Near<'a>> {
        let Session { space, books, now, open, .. } = self;
        if books.created - books.freed > NEAR {
            books.freed = space.freed.load(Ordering::Acquire);
        }
        let near = *open && books.created - books.freed <= NEAR && !space.knows_creators();
        let alive = now.alive(space.lifetime).filter(|_| near)?;
        Some(Near { space, alive })
    }

    /// So many look-ups of those have read two lines.
    #[inline]
    pub fn note_twice(&mut self, count: u64) {
        self.books.counters.probed[0] += count;
    }

    /// Looks up the homes of so many tags, with [`MAX_TAGS`] of all there are.
    #[inline(always)]
    pub fn prepare<const TAGS: usize>(&self, tags: &mut Tags) {
        const { assert!(TAGS <= MAX_TAGS, "an instruction has at most four tags") };
        let count = if TAGS == MAX_TAGS { tags.count.min(TAGS) } else { TAGS };
        for index in 0..count {
            tags.homes[index] = self.space.home(tags.tags[index]) as u32;
        }
    }

    /// Has the processor fetch the homes of prepared tags.
    #[inline(always)]
    pub fn fetch(&self, tags: &Tags) {
        for home in tags.homes.iter().take(tags.count) {
            self.space.fetch(*home as usize);
        }
    }

    /// Executes one instruction of `computation` on the first so many of these tags, which were prepared for this shard;
    /// with [`MAX_TAGS`] on all there are.
    #[inline(always)]
    pub fn execute<const TAGS: usize, T: Ended>(
        &mut self,
        tags: &Tags,
        computation: u64,
        run: impl FnOnce(&mut View) -> T,
    ) -> Done<T> {
        let Some(mut found) = self.look_up::<TAGS>(tags, computation) else { return Done::Full };
        let ended = run(&mut found.view);
        self.commit::<TAGS, T>(tags, computation, found, ended)
    }

    /// The first half: what the store has. `None` where nothing may be executed.
    #[inline(always)]
    pub fn look_up<const TAGS: usize>(&mut self, tags: &Tags, computation: u64) -> Option<Found<'a>> {
        const { assert!(TAGS <= MAX_TAGS, "an instruction has at most four tags") };
        if !self.open && self.is_closed() {
            self.books.counters.full += 1;
            return None;
        }
        let mut found = Found { view: View::new(), values: [None; MAX_TAGS] };
        let count = if TAGS == MAX_TAGS { tags.count.min(TAGS) } else { TAGS };
        for index in 0..count {
            self.look_up_one(index, tags, computation, &mut found);
        }
        Some(found)
    }

    /// Looks up one tag, where those before it have been looked up.
    #[inline(always)]
    pub fn look_up_one(&mut self, index: usize, tags: &Tags, computation: u64, found: &mut Found<'a>) {
        let tag = tags.tags[index];
        if let Some(first) = tags.tags[..index].iter().position(|other| *other == tag) {
            found.view.alias(index, first);
        } else if let Some(value) = self.find(tag, tags.homes[index] as usize, computation) {
            found.view.found(index, value.load(Ordering::Relaxed));
            found.values[index] = Some(value);
        }
    }

    #[cold]
    fn is_closed(&mut self) -> bool {
        !self.usable || self.books.are_full(self.space, self.now, 1)
    }

    /// The second half, after the view has been written: all of that is in the store, or nothing.
    #[inline(always)]
    pub fn commit<const TAGS: usize, T: Ended>(
        &mut self,
        tags: &Tags,
        computation: u64,
        Found { view, values }: Found<'a>,
        ended: T,
    ) -> Done<T> {
        if view.written != 0 && ended.commits() {
            if view.created() != 0 && !self.create::<TAGS>((view.created(), view.values()), tags, computation) {
                self.books.counters.full += 1;
                return Done::Full;
            }
            for index in (0..TAGS).filter(|index| view.written >> index & 1 != 0) {
                if let Some(value) = values[index] {
                    value.store(view.value(index), Ordering::Relaxed);
                }
            }
        }
        Done::Executed(ended)
    }

    /// The value under a tag.
    #[inline(always)]
    fn find(&mut self, tag: u64, home: usize, computation: u64) -> Option<&'a AtomicU64> {
        let (space, books) = (self.space, &mut *self.books);
        let line = space.line(home);
        let (line, slot) = match line.find(tag, self.now) {
            Some(slot) => (line, slot),
            None => match line.spilled.load(Ordering::Relaxed) {
                0 => return None,
                spilled => books.find_beyond(space, tag, (home, spilled), self.now)?,
            },
        };
        if space.knows_creators() {
            books.suspect(space, space.place_of(line, slot), computation);
        }
        line.values.get(slot)
    }

    /// Makes an entry for each tag that is there only since it was written. Answers whether there was room for all.
    #[inline(never)]
    fn create<const TAGS: usize>(
        &mut self,
        (created, values): (u8, [u64; MAX_TAGS]),
        tags: &Tags,
        computation: u64,
    ) -> bool {
        let space = self.space;
        if self.books.are_full(space, self.now, created.count_ones().into()) {
            return false;
        }
        let mut places = [Place::NONE; MAX_TAGS];
        for index in (0..TAGS).filter(|index| created >> index & 1 != 0) {
            let (before, rest) = places.split_at_mut(index);
            let taken = if created & ((1 << index) - 1) == 0 { &[][..] } else { &*before };
            let Some(place) = space.vacant(tags.homes[index] as usize, taken) else { return false };
            rest[0] = place;
        }
        let expiry = self.now.expiry(space.lifetime);
        for index in (0..TAGS).filter(|index| created >> index & 1 != 0) {
            let place = places[index];
            space.put(place, (tags.tags[index], tags.homes[index] as usize), values[index], expiry);
            if space.knows_creators() {
                space.note(place, sign(computation));
            }
            space.write(self.books.next, Record { place, expiry });
            self.books.created += 1;
            self.books.next = next(self.books.next, space.log_length() as usize);
        }
        true
    }
}

impl Books {
    /// Looks for a tag in the lines that hold entries of its home.
    #[inline(never)]
    fn find_beyond<'a>(
        &mut self,
        space: &'a Space,
        tag: u64,
        (home, mut spilled): (usize, u32),
        now: Tick,
    ) -> Option<(&'a Line, usize)> {
        let mut looked = 1;
        let mut found = None;
        while spilled != 0 && found.is_none() {
            let distance = spilled.trailing_zeros() as usize / 2 + 1;
            spilled &= !(3 << (2 * (distance - 1)));
            looked += 1;
            let line = space.line(home + distance);
            found = line.find(tag, now).map(|slot| (line, slot));
        }
        let class = [2, 3, 7].iter().position(|most| looked <= *most).unwrap_or(3);
        self.counters.probed[class] += 1;
        found
    }

    /// Counts a tag that another computation has created.
    #[cold]
    fn suspect(&mut self, space: &Space, place: Place, computation: u64) {
        let creator = space.creator(place);
        self.counters.collisions += u64::from(creator.is_some_and(|creator| creator != sign(computation)));
    }
}

impl Drop for Session<'_> {
    #[inline]
    fn drop(&mut self) {
        let (space, books) = (self.space, &mut *self.books);
        let created = books.created - self.begun;
        if created > 0 {
            space.created.store(books.created, Ordering::Release);
            let kept = books.created - books.freed;
            if kept > books.counters.high_water {
                books.freed = space.freed.load(Ordering::Acquire);
                books.counters.high_water = books.counters.high_water.max(books.created - books.freed);
            }
        }
        match &mut books.sweep {
            // Nobody else cleans, so nobody waits for this owner to leave.
            Some(sweep) => {
                sweep.clean(books.last, created as usize * CLEANED.0 + CLEANED.1);
            }
            None => books.epochs.leave(books.worker),
        }
    }
}

/// What an entry keeps of who created it.
#[inline(always)]
pub(super) fn sign(computation: u64) -> u16 {
    (super::mix(computation, 0) >> 48) as u16
}
