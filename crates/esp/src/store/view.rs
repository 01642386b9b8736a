//! What an instruction sees of a store: the values of at most four tags, looked up before, and what it wrote.
//!
//! An instruction has this and nothing else, so it is bounded by its type (spec E-27); and since nothing is in the store
//! before it has ended, either all it writes is there or nothing (spec E-05).

/// The most tags of an instruction.
pub const MAX_TAGS: usize = 4;

/// The tags of an instruction, and where they have their home in the shard that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tags {
    pub(super) tags: [u64; MAX_TAGS],
    pub(super) homes: [u32; MAX_TAGS],
    pub(super) count: usize,
}

impl Tags {
    /// None.
    pub const NONE: Tags = Tags { tags: [0; MAX_TAGS], homes: [0; MAX_TAGS], count: 0 };

    /// These tags, of which there are at most [`MAX_TAGS`].
    #[inline(always)]
    pub fn of<const COUNT: usize>(tags: [u64; COUNT]) -> Tags {
        let mut all = Tags::default();
        all.set(tags);
        all
    }

    /// The same in the place of others, of which nothing more than these is written.
    #[inline(always)]
    pub fn set<const COUNT: usize>(&mut self, tags: [u64; COUNT]) {
        const { assert!(COUNT <= MAX_TAGS, "an instruction has at most four tags") };
        self.count = COUNT;
        self.tags[..COUNT].copy_from_slice(&tags);
    }

    /// The first so many, if they are all different.
    #[inline(always)]
    pub fn apart<const COUNT: usize>(&self) -> Option<[u64; COUNT]> {
        const { assert!(COUNT <= 3, "of more, not all pairs are compared") };
        let [first, second, third, _] = self.tags;
        if COUNT > 1 && first == second || COUNT > 2 && (first == third || second == third) {
            return None;
        }
        self.tags.first_chunk().copied()
    }

    /// These and one more, which is derived from the first. They are to be prepared anew.
    pub fn with(mut self, derive: impl FnOnce(u64) -> u64) -> Tags {
        let derived = derive(self.tags[0]);
        if let Some(tag) = self.tags.get_mut(self.count) {
            (*tag, self.count) = (derived, self.count + 1);
        }
        self
    }

    /// How many there are.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The tags, in order.
    #[inline]
    pub fn as_slice(&self) -> &[u64] {
        &self.tags[..self.count.min(MAX_TAGS)]
    }

    /// The same tags as another store keeps them, which does not mix up those of different computations.
    #[inline]
    pub fn scoped(mut self, computation: u64) -> Tags {
        self.tags.iter_mut().for_each(|tag| *tag = super::mix(*tag, computation));
        self
    }
}

/// What an instruction may do with values: read one, and write one.
pub trait Values {
    /// The value of a tag, numbered as in its [`Tags`]; none where it is absent.
    fn get(&self, tag: usize) -> Option<u64>;
    /// Gives a tag this value, creating it where it is absent.
    fn set(&mut self, tag: usize, value: u64);
}

/// Values that are all there, of tags that are all different: what nearly all instructions find.
#[derive(Clone, Copy, Debug)]
pub struct Present<const TAGS: usize> {
    values: [u64; TAGS],
    written: [bool; TAGS],
}

impl<const TAGS: usize> Present<TAGS> {
    /// These.
    #[inline(always)]
    pub fn of(values: [u64; TAGS]) -> Present<TAGS> {
        Present { values, written: [false; TAGS] }
    }

    /// What was written to a tag, if anything was.
    #[inline(always)]
    pub fn written(&self, tag: usize) -> Option<u64> {
        self.written[tag].then_some(self.values[tag])
    }
}

impl<const TAGS: usize> Values for Present<TAGS> {
    #[inline(always)]
    fn get(&self, tag: usize) -> Option<u64> {
        self.values.get(tag).copied()
    }

    #[inline(always)]
    fn set(&mut self, tag: usize, value: u64) {
        (self.values[tag], self.written[tag]) = (value, true);
    }
}

/// Values of at most [`MAX_TAGS`] tags, as an instruction finds and leaves them.
#[derive(Clone, Copy, Debug)]
pub struct View<const TAGS: usize = MAX_TAGS> {
    values: [u64; TAGS],
    /// The first tag that is the same: an instruction that names one twice has one entry.
    pub(super) same: [u8; TAGS],
    pub(super) present: u8,
    pub(super) written: u8,
}

impl<const TAGS: usize> Default for View<TAGS> {
    fn default() -> Self {
        View::new()
    }
}

impl<const TAGS: usize> View<TAGS> {
    /// Of tags that are all absent.
    #[inline(always)]
    pub fn new() -> View<TAGS> {
        const { assert!(TAGS <= 8, "a bit for each") };
        View { values: [0; TAGS], same: std::array::from_fn(|index| index as u8), present: 0, written: 0 }
    }

    #[inline(always)]
    fn index(&self, tag: usize) -> usize {
        usize::from(self.same[tag]).min(TAGS - 1)
    }

    /// The value of a tag, numbered as in its [`Tags`]; none where it is absent.
    #[inline(always)]
    pub fn get(&self, tag: usize) -> Option<u64> {
        let index = self.index(tag);
        ((self.present | self.written) >> index & 1 != 0).then(|| self.values[index])
    }

    /// Gives a tag this value, creating it where it is absent.
    #[inline(always)]
    pub fn set(&mut self, tag: usize, value: u64) {
        let index = self.index(tag);
        self.values[index] = value;
        self.written |= 1 << index;
    }

    /// Whether a tag was written.
    #[inline]
    pub fn wrote(&self, tag: usize) -> bool {
        self.written >> self.index(tag) & 1 != 0
    }

    /// The store has this value for a tag.
    #[inline(always)]
    pub fn found(&mut self, tag: usize, value: u64) {
        self.values[tag] = value;
        self.present |= 1 << tag;
    }

    /// A tag is the same as one before it.
    #[inline(always)]
    pub fn alias(&mut self, tag: usize, first: usize) {
        self.same[tag] = first as u8;
    }

    /// What was written to a tag.
    #[inline(always)]
    pub(super) fn value(&self, tag: usize) -> u64 {
        self.values[tag]
    }

    /// What there is under each.
    #[inline(always)]
    pub(super) fn values(&self) -> [u64; TAGS] {
        self.values
    }

    /// The tags, by bits, that were absent and have been written.
    #[inline(always)]
    pub fn created(&self) -> u8 {
        self.written & !self.present
    }
}

impl<const TAGS: usize> Values for View<TAGS> {
    #[inline(always)]
    fn get(&self, tag: usize) -> Option<u64> {
        self.get(tag)
    }

    #[inline(always)]
    fn set(&mut self, tag: usize, value: u64) {
        self.set(tag, value);
    }
}
