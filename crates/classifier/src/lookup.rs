//! Looking up a batch of keys.

use crate::partition::{Bucket, NONE, Partition, Slot};
use crate::rule::{Key, TernaryRule};
use packet::pool::prefetch;

/// Keys whose accesses of memory overlap.
pub(crate) const GROUP: usize = 64;

/// The rule of each key with the lowest rank.
pub(crate) fn look_up<'t, const W: usize>(
    partitions: &'t [Partition<W>],
    keys: &[Key<W>],
    found: &mut [Option<&'t TernaryRule<W>>],
) {
    for (keys, found) in keys.chunks(GROUP).zip(found.chunks_mut(GROUP)) {
        found.fill(None);
        let mut group = Group { keys, found, ranks: [NONE; GROUP], waiting: 0, next: [0; GROUP], parts: [&[]; GROUP] };
        for partition in partitions {
            group.partition(partition);
            if group.waiting > 0 {
                group.below();
            }
        }
    }
}

/// The rule with the lowest rank for those of up to `GROUP` keys that have a place in `starts`, each among partitions of its own. The results of all
/// others stay as they are. The slices `keys` and `found` have one length.
pub(crate) fn look_up_each<'t, const W: usize>(
    starts: impl Iterator<Item = (usize, &'t [Partition<W>])>,
    keys: &[Key<W>],
    found: &mut [Option<&'t TernaryRule<W>>],
) {
    let mut group = Group { keys, found, ranks: [NONE; GROUP], waiting: 0, next: [0; GROUP], parts: [&[]; GROUP] };
    for (i, parts) in starts.take(GROUP) {
        (group.next[group.waiting], group.parts[group.waiting]) = (i as u8, parts);
        group.waiting += 1;
    }
    group.below();
}

struct Group<'k, 't, const W: usize> {
    keys: &'k [Key<W>],
    found: &'k mut [Option<&'t TernaryRule<W>>],
    ranks: [u32; GROUP],
    /// The number of keys that have to look into the partitions of their bucket, these keys, and the partitions.
    waiting: usize,
    next: [u8; GROUP],
    parts: [&'t [Partition<W>]; GROUP],
}

impl<'t, const W: usize> Group<'_, 't, W> {
    /// Looks all keys up that may find a better rule here.
    #[inline(always)]
    fn partition(&mut self, partition: &'t Partition<W>) {
        let count = self.keys.len().min(GROUP);
        let (mut active, mut slots) = ([0u8; GROUP], [None; GROUP]);
        let mut wanted = 0;
        for i in 0..count {
            active[wanted] = i as u8;
            wanted += usize::from(partition.best < self.ranks[i]);
        }
        for k in 0..wanted {
            let slot = partition.slot(&self.keys[usize::from(active[k])]);
            prefetch(slot);
            slots[k] = Some(slot);
        }
        self.slots(&mut active, &mut slots, wanted);
    }

    /// Reads the slots of the active keys, then their buckets.
    #[inline(always)]
    fn slots(&mut self, active: &mut [u8; GROUP], slots: &mut [Option<&'t Slot<W>>; GROUP], count: usize) {
        let mut wanted = 0;
        for k in 0..count {
            // An empty bucket has no rank that is better. Without a branch: it would be mispredicted for many keys.
            let best = slots[k].map_or(NONE, |slot| slot.best);
            let better = best < self.ranks[usize::from(active[k])];
            (active[wanted], slots[wanted]) = (active[k], slots[k]);
            wanted += usize::from(better);
        }
        for slot in slots[..wanted].iter().flatten() {
            match &slot.bucket {
                Bucket::Empty => {}
                Bucket::Rules(rules) => prefetch(rules.as_ptr()),
                Bucket::Partitions(partitions) => prefetch(partitions.as_ptr()),
            }
        }
        for k in 0..wanted {
            let Some(slot) = slots[k] else { continue };
            let i = usize::from(active[k]);
            match &slot.bucket {
                Bucket::Empty => {}
                Bucket::Rules(rules) => try_rules(rules, &self.keys[i], &mut self.ranks[i], &mut self.found[i]),
                Bucket::Partitions(partitions) => {
                    if self.waiting < GROUP {
                        self.next[self.waiting] = i as u8;
                        self.parts[self.waiting] = partitions;
                        self.waiting += 1;
                    } else {
                        find_one(partitions, &self.keys[i], 0, (&mut self.ranks[i], &mut self.found[i]));
                    }
                }
            }
        }
    }

    /// The waiting keys, all at once.
    #[inline(never)]
    fn below(&mut self) {
        while self.waiting > 0 {
            let (visits, keys, parts) = (std::mem::take(&mut self.waiting), self.next, self.parts);
            let mut step = 0;
            loop {
                let (mut active, mut slots) = ([0u8; GROUP], [None; GROUP]);
                let (mut wanted, mut more) = (0, false);
                for v in 0..visits {
                    let Some(partition) = parts[v].get(step) else { continue };
                    more = true;
                    if partition.best < self.ranks[usize::from(keys[v])] {
                        let slot = partition.slot(&self.keys[usize::from(keys[v])]);
                        prefetch(slot);
                        (active[wanted], slots[wanted]) = (keys[v], Some(slot));
                        wanted += 1;
                    }
                }
                if !more {
                    break;
                }
                self.slots(&mut active, &mut slots, wanted);
                step += 1;
            }
        }
    }
}

/// The rule with the lowest rank that matches `key`, among those of rank `least` or higher.
pub(crate) fn find_from<'t, const W: usize>(
    partitions: &'t [Partition<W>],
    key: &Key<W>,
    least: u32,
) -> Option<&'t TernaryRule<W>> {
    let (mut best, mut found) = (NONE, None);
    find_one(partitions, key, least, (&mut best, &mut found));
    found
}

/// The same, among those of a lower rank than `best`.
fn find_one<'t, const W: usize>(
    partitions: &'t [Partition<W>],
    key: &Key<W>,
    least: u32,
    (best, found): (&mut u32, &mut Option<&'t TernaryRule<W>>),
) {
    for partition in partitions {
        if partition.best >= *best {
            continue;
        }
        let slot = partition.slot(key);
        if slot.best >= *best {
            continue;
        }
        match &slot.bucket {
            Bucket::Empty => {}
            Bucket::Rules(rules) => {
                let from = if least == 0 { 0 } else { rules.partition_point(|rule| rule.rank < least) };
                try_rules(&rules[from..], key, best, found);
            }
            Bucket::Partitions(partitions) => find_one(partitions, key, least, (&mut *best, &mut *found)),
        }
    }
}

#[inline(always)]
fn try_rules<'t, const W: usize>(
    rules: &'t [TernaryRule<W>],
    key: &Key<W>,
    best: &mut u32,
    found: &mut Option<&'t TernaryRule<W>>,
) {
    for rule in rules {
        if rule.rank >= *best {
            return;
        }
        if rule.matches(key) {
            (*best, *found) = (rule.rank, Some(rule));
            return;
        }
    }
}
