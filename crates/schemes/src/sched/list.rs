//! Intrusive lists of bins, linked by number. A bin is in at most one of them, and is inserted and removed in constant time. The links are stored
//! with the other data of a bin, so that one cache miss fetches both.

/// No bin.
const NONE: u32 = u32::MAX;

/// The neighbours of a bin in its list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    before: u32,
    behind: u32,
}

/// An element with a link.
pub(super) trait Linked {
    fn link(&mut self) -> &mut Link;
}

/// A list.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: u32,
    last: u32,
}

impl Link {
    /// In no list.
    pub const NONE: Link = Link { before: NONE, behind: NONE };

    /// The next bin.
    #[inline]
    pub fn behind(self) -> Option<usize> {
        (self.behind != NONE).then_some(self.behind as usize)
    }
}

impl List {
    pub const EMPTY: List = List { first: NONE, last: NONE };

    /// The first bin.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        (self.first != NONE).then_some(self.first as usize)
    }

    /// Appends a bin that is in no list.
    #[inline]
    pub fn push(&mut self, bins: &mut [impl Linked], bin: usize) {
        let number = bin as u32;
        *bins[bin].link() = Link { before: self.last, behind: NONE };
        // `NONE` is beyond all bins: an empty list has no last one.
        match bins.get_mut(self.last as usize) {
            Some(last) => last.link().behind = number,
            None => self.first = number,
        }
        self.last = number;
    }

    /// Removes a bin that is in this list.
    #[inline]
    pub fn remove(&mut self, bins: &mut [impl Linked], bin: usize) {
        let Link { before, behind } = *bins[bin].link();
        // Without a neighbour on a side the bin was at that end of the list.
        match bins.get_mut(before as usize) {
            Some(other) => other.link().behind = behind,
            None => self.first = behind,
        }
        match bins.get_mut(behind as usize) {
            Some(other) => other.link().before = before,
            None => self.last = before,
        }
    }
}
