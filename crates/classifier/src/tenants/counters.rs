//! Numbers for things that workers find by a published table: the counters of filters, and what else the user of a table numbers.

use std::collections::VecDeque;

/// Gives out numbers. A number that was freed is given out again once no worker has a table with it: until then the worker may still use it, for
/// example to count a hit of a deleted filter.
#[derive(Debug)]
pub struct ReusedNumbers {
    most: u32,
    /// Numbers from here on were never given out.
    next: u32,
    free: Vec<u32>,
    /// Freed numbers, each with the version of the first table without it, in ascending order.
    deleted: VecDeque<(u64, u32)>,
}

impl ReusedNumbers {
    /// The numbers for a table of so many entries. There are twice as many: all entries may be replaced by others while workers use the old table.
    pub fn new(entries: usize) -> ReusedNumbers {
        let most = u32::try_from(entries.saturating_mul(2)).unwrap_or(u32::MAX);
        ReusedNumbers { most, next: 0, free: Vec::new(), deleted: VecDeque::new() }
    }

    /// All numbers are below this one.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// A number that is not in use; `None` if all are.
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let number = self.next;
            self.next += u32::from(number < self.most);
            (number < self.most).then_some(number)
        })
    }

    /// Returns a number that no table has contained since it was taken.
    pub fn give_back(&mut self, number: u32) {
        self.free.push(number);
    }

    /// Frees numbers that the table of this version, the newest, has no longer.
    pub fn free(&mut self, numbers: impl IntoIterator<Item = u32>, version: u64) {
        self.deleted.extend(numbers.into_iter().map(|number| (version, number)));
    }

    /// Makes the numbers free that only tables before version `oldest` contain.
    pub fn recover(&mut self, oldest: u64) {
        while let Some((_, number)) = self.deleted.pop_front_if(|(version, _)| *version <= oldest) {
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_free_again_when_no_old_table_has_it() {
        let mut counters = ReusedNumbers::new(1);
        assert_eq!([counters.take(), counters.take(), counters.take()], [Some(0), Some(1), None]);
        counters.free([0], 7);
        counters.recover(6);
        assert_eq!(counters.take(), None);
        counters.recover(7);
        assert_eq!([counters.take(), counters.take()], [Some(0), None]);
        counters.give_back(1);
        assert_eq!(counters.take(), Some(1));
    }
}
