//! Lists of bins, linked by number: a bin is in one of them at most, and comes and goes in constant time. The links are where the
//! rest of what is known of a bin is, so that one look at memory is for both.

/// No bin.
const NONE: u32 = u32::MAX;

/// Which bins are before and behind one in its list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    before: u32,
    behind: u32,
}

/// What has a link.
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

    /// The bin behind.
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

    /// Puts a bin that is in no list at the end.
    #[inline]
    pub fn push(&mut self, bins: &mut [impl Linked], bin: usize) {
        let number = bin as u32;
        *bins[bin].link() = Link { before: self.last, behind: NONE };
        match bins.get_mut(self.last as usize) {
            Some(last) => last.link().behind = number,
            None => self.first = number,
        }
        self.last = number;
    }

    /// Takes a bin out that is in the list.
    #[inline]
    pub fn remove(&mut self, bins: &mut [impl Linked], bin: usize) {
        let Link { before, behind } = *bins[bin].link();
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
