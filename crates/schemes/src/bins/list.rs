//! Lists of bins, linked by number: a bin is in one of them at most, and comes and goes in constant time.

/// No bin.
const NONE: u32 = u32::MAX;

/// The links of all bins.
#[derive(Clone, Debug)]
pub(super) struct Links(alloc::vec::Vec<Link>);

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    behind: u32,
}

/// A list.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: u32,
    last: u32,
}

impl Links {
    pub fn new(bins: usize) -> Links {
        Links(alloc::vec![Link { before: NONE, behind: NONE }; bins])
    }

    /// Puts a bin that is in no list at the end of one.
    #[inline]
    pub fn push(&mut self, list: &mut List, bin: usize) {
        let number = bin as u32;
        self.0[bin] = Link { before: list.last, behind: NONE };
        match self.0.get_mut(list.last as usize) {
            Some(last) => last.behind = number,
            None => list.first = number,
        }
        list.last = number;
    }

    /// Takes a bin out of the list that it is in.
    #[inline]
    pub fn remove(&mut self, list: &mut List, bin: usize) {
        let Link { before, behind } = self.0[bin];
        match self.0.get_mut(before as usize) {
            Some(link) => link.behind = behind,
            None => list.first = behind,
        }
        match self.0.get_mut(behind as usize) {
            Some(link) => link.before = before,
            None => list.last = before,
        }
    }
}

impl List {
    pub const EMPTY: List = List { first: NONE, last: NONE };

    /// The first bin.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        (self.first != NONE).then_some(self.first as usize)
    }
}
