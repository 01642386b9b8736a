//! A view: the values of at most four tags, looked up before the instruction, and its writes.
//!
//! An instruction has access to nothing else, so its type bounds it (spec E-27). The store is written only after the instruction has ended, so either
//! all its writes are committed or none (spec E-05).

/// The most tags of an instruction.
pub const MAX_TAGS: usize = 4;

/// The tags of an instruction, and their home lines in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct InstructionTags {
    pub(super) tags: [u64; MAX_TAGS],
    pub(super) homes: [u32; MAX_TAGS],
    pub(super) count: usize,
}

impl InstructionTags {
    /// No tags.
    pub const NONE: InstructionTags = InstructionTags { tags: [0; MAX_TAGS], homes: [0; MAX_TAGS], count: 0 };

    /// These tags, at most [`MAX_TAGS`].
    #[inline(always)]
    pub fn of<const COUNT: usize>(tags: [u64; COUNT]) -> InstructionTags {
        let mut all = InstructionTags::default();
        all.set(tags);
        all
    }

    /// Replaces the tags. Writes only as many array elements as needed.
    #[inline(always)]
    pub fn set<const COUNT: usize>(&mut self, tags: [u64; COUNT]) {
        const { assert!(COUNT <= MAX_TAGS, "an instruction has at most four tags") };
        self.count = COUNT;
        self.tags[..COUNT].copy_from_slice(&tags);
    }

    /// The first `COUNT` tags, if they are distinct.
    #[inline(always)]
    pub fn distinct<const COUNT: usize>(&self) -> Option<[u64; COUNT]> {
        const { assert!(COUNT <= 3, "of more, not all pairs are compared") };
        let [first, second, third, _] = self.tags;
        if COUNT > 1 && first == second || COUNT > 2 && (first == third || second == third) {
            return None;
        }
        self.tags.first_chunk().copied()
    }

    /// Adds a tag derived from the first. The result must be prepared again.
    pub fn with(mut self, derive: impl FnOnce(u64) -> u64) -> InstructionTags {
        let derived = derive(self.tags[0]);
        if let Some(tag) = self.tags.get_mut(self.count) {
            (*tag, self.count) = (derived, self.count + 1);
        }
        self
    }

    /// The number of tags.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The tags, in order.
    #[inline]
    pub fn as_slice(&self) -> &[u64] {
        &self.tags[..self.count.min(MAX_TAGS)]
    }

    /// The tags scoped to a computation: equal tags of different computations become distinct.
    #[inline]
    pub fn scoped(mut self, computation: u64) -> InstructionTags {
        self.tags.iter_mut().for_each(|tag| *tag = super::mix(*tag, computation));
        self
    }
}

/// Access of an instruction to values.
pub trait Values {
    /// The value of a tag, by its index in [`InstructionTags`]; `None` if absent.
    fn get(&self, tag: usize) -> Option<u64>;
    /// Writes a tag. Creates it if it is absent.
    fn set(&mut self, tag: usize, value: u64);
}

/// The values of distinct tags that all exist: the common case.
#[derive(Clone, Copy, Debug)]
pub struct PresentTags<const TAGS: usize> {
    values: [u64; TAGS],
    written: [bool; TAGS],
}

impl<const TAGS: usize> PresentTags<TAGS> {
    /// A view of these values.
    #[inline(always)]
    pub fn of(values: [u64; TAGS]) -> PresentTags<TAGS> {
        PresentTags { values, written: [false; TAGS] }
    }

    /// The value written to a tag, if it was written.
    #[inline(always)]
    pub fn written(&self, tag: usize) -> Option<u64> {
        self.written[tag].then_some(self.values[tag])
    }
}

impl<const TAGS: usize> Values for PresentTags<TAGS> {
    #[inline(always)]
    fn get(&self, tag: usize) -> Option<u64> {
        self.values.get(tag).copied()
    }

    #[inline(always)]
    fn set(&mut self, tag: usize, value: u64) {
        (self.values[tag], self.written[tag]) = (value, true);
    }
}

/// The values of at most [`MAX_TAGS`] tags, before and after an instruction.
#[derive(Clone, Copy, Debug)]
pub struct TagView<const TAGS: usize = MAX_TAGS> {
    values: [u64; TAGS],
    /// The index of the first equal tag. A tag named twice is one entry.
    pub(super) same: [u8; TAGS],
    pub(super) present: u8,
    pub(super) written: u8,
}

impl<const TAGS: usize> Default for TagView<TAGS> {
    fn default() -> Self {
        TagView::new()
    }
}

impl<const TAGS: usize> TagView<TAGS> {
    /// A view in which all tags are absent.
    #[inline(always)]
    pub fn new() -> TagView<TAGS> {
        const { assert!(TAGS <= 8, "a bit for each") };
        TagView { values: [0; TAGS], same: std::array::from_fn(|index| index as u8), present: 0, written: 0 }
    }

    #[inline(always)]
    fn index(&self, tag: usize) -> usize {
        // The minimum changes nothing, as `same` holds the index of this tag or an earlier one. It replaces a bounds check.
        usize::from(self.same[tag]).min(TAGS - 1)
    }

    /// The value of a tag, by its index in [`InstructionTags`]; `None` if absent.
    #[inline(always)]
    pub fn get(&self, tag: usize) -> Option<u64> {
        let index = self.index(tag);
        // An instruction also reads its own writes to tags that were absent.
        ((self.present | self.written) >> index & 1 != 0).then(|| self.values[index])
    }

    /// Writes a tag. Creates it if it is absent.
    #[inline(always)]
    pub fn set(&mut self, tag: usize, value: u64) {
        let index = self.index(tag);
        self.values[index] = value;
        self.written |= 1 << index;
    }

    /// True if a tag was written.
    #[inline]
    pub fn is_written(&self, tag: usize) -> bool {
        self.written >> self.index(tag) & 1 != 0
    }

    /// Sets the value that the store has for a tag.
    #[inline(always)]
    pub fn set_stored(&mut self, tag: usize, value: u64) {
        self.values[tag] = value;
        self.present |= 1 << tag;
    }

    /// Makes a tag an alias of an equal one before it.
    #[inline(always)]
    pub fn alias(&mut self, tag: usize, first: usize) {
        self.same[tag] = first as u8;
    }

    /// The value written to a tag.
    #[inline(always)]
    pub(super) fn value(&self, tag: usize) -> u64 {
        self.values[tag]
    }

    /// All values.
    #[inline(always)]
    pub(super) fn values(&self) -> [u64; TAGS] {
        self.values
    }

    /// The tags that were absent and have been written, as bits.
    #[inline(always)]
    pub fn created(&self) -> u8 {
        // An aliased tag has its bits at the first of its equals, so it is created once.
        self.written & !self.present
    }
}

impl<const TAGS: usize> Values for TagView<TAGS> {
    #[inline(always)]
    fn get(&self, tag: usize) -> Option<u64> {
        self.get(tag)
    }

    #[inline(always)]
    fn set(&mut self, tag: usize, value: u64) {
        self.set(tag, value);
    }
}
