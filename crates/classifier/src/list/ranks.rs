//! Ranks with gaps: a rule between two others gets a rank between theirs.

use std::collections::BTreeMap;

/// A new rule takes this part of the gap, on the far side of the rule that its place names. So many rules in a row before or behind one rule find room:
/// halves of the gap would be used up after 31 rules.
const PART: u32 = 16;
/// The most ranks between the first rule and a new one before it, and between the last and a new one behind it.
const END_STEP: u32 = 1 << 14;

/// The choice of ranks.
pub(super) struct Ranks;

/// A rank, and the ranks of others that have to move first: from, to. None of them moves beyond another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RankChoice {
    pub rank: u32,
    pub moves: Vec<(u32, u32)>,
}

impl Ranks {
    /// Ranks for `count` rules, as far apart as possible.
    pub fn spread(count: usize) -> impl Iterator<Item = u32> {
        // The highest number is no rank.
        let step = (u64::from(u32::MAX) - 1) / (count as u64 + 1);
        (1..=count as u64).map(move |position| (position * step) as u32)
    }

    /// A rank between two others; `None` stands for the begin or the end of the list. `near_upper`: the next rules will stand between the new one and
    /// `upper`, so the new one leaves room there.
    pub fn between<T>(
        entries: &BTreeMap<u32, T>,
        (lower, upper): (Option<u32>, Option<u32>),
        near_upper: bool,
    ) -> RankChoice {
        if let Some(rank) = room(lower, upper, near_upper) {
            return RankChoice { rank, moves: Vec::new() };
        }
        // The rules around it get new ranks: those of the smallest aligned range that has room. A range of 2^n ranks has room for 2^(n/2) rules, or the
        // next rules would find none soon. The range of all ranks has room for all rules.
        let near = u64::from(lower.or(upper).unwrap_or(0));
        for bits in 2..=32 {
            let start = near >> bits << bits;
            let end = (start + (1 << bits)).min(u64::from(u32::MAX));
            let inside = entries.range(start as u32..=(end - 1) as u32).map(|(rank, _)| *rank);
            let ranks: Vec<u32> = inside.collect();
            if bits < 32 && ranks.len() as u64 >= 1 << (bits / 2) {
                continue;
            }
            return spread_within(&ranks, lower, (start, end));
        }
        unreachable!("a range of 32 bits is taken")
    }
}

/// A rank in the gap, if there is any.
fn room(lower: Option<u32>, upper: Option<u32>, near_upper: bool) -> Option<u32> {
    let (low, high) = (lower.map_or(0, |rank| rank + 1), upper.unwrap_or(u32::MAX));
    // `high` is no rank for the new rule.
    let gap = high.checked_sub(low).filter(|gap| *gap > 0)?;
    let part = gap / PART;
    // At the begin and the end of the list a small step is enough: most of the room is for the next rules there.
    let is_end = lower.is_none() || upper.is_none();
    let part = if is_end { part.min(END_STEP) } else { part }.min(gap - 1);
    let is_low = if is_end { upper.is_none() } else { near_upper };
    Some(if is_low { low + part } else { high - 1 - part })
}

/// New ranks for the rules at `ranks` and one behind the rule at `lower`, in this range.
fn spread_within(ranks: &[u32], lower: Option<u32>, (start, end): (u64, u64)) -> RankChoice {
    let step = (end - start) / (ranks.len() as u64 + 1);
    let own = ranks.partition_point(|rank| Some(*rank) <= lower) as u64;
    let place = |position: u64| (start + position * step + step / 2) as u32;
    let moved = |(position, from): (usize, &u32)| {
        let position = position as u64;
        (*from, place(if position < own { position } else { position + 1 }))
    };
    let moves = ranks.iter().enumerate().map(moved).filter(|(from, to)| from != to).collect();
    RankChoice { rank: place(own), moves }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A list of rules by their ids, changed both as a vector and by ranks.
    #[derive(Default)]
    struct Both {
        entries: BTreeMap<u32, u32>,
        order: Vec<u32>,
        moves: usize,
    }

    impl Both {
        fn insert(&mut self, id: u32, at: usize, near_upper: bool) {
            let ranks: Vec<u32> = self.entries.keys().copied().collect();
            let lower = at.checked_sub(1).map(|before| ranks[before]);
            let choice = Ranks::between(&self.entries, (lower, ranks.get(at).copied()), near_upper);
            let taken: Vec<(u32, u32)> =
                choice.moves.iter().map(|(from, to)| (*to, self.entries.remove(from).unwrap())).collect();
            self.moves += taken.len();
            for (to, id) in taken {
                assert_eq!(self.entries.insert(to, id), None, "two rules have one rank");
            }
            assert_eq!(self.entries.insert(choice.rank, id), None, "the rank is taken");
            assert!(choice.rank < u32::MAX);
            self.order.insert(at, id);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// Wherever rules are added, they stay in order.
        #[test]
        fn rules_stay_in_order(first in 0usize..40, places in proptest::collection::vec((any::<u16>(), any::<bool>()), 1..200)) {
            let mut both = Both::default();
            for (id, rank) in Ranks::spread(first).enumerate() {
                both.entries.insert(rank, id as u32);
                both.order.push(id as u32);
            }
            for (number, (place, near_upper)) in places.into_iter().enumerate() {
                let at = usize::from(place) % (both.order.len() + 1);
                both.insert((first + number) as u32, at, near_upper);
            }
            prop_assert_eq!(both.entries.into_values().collect::<Vec<_>>(), both.order);
        }
    }

    #[test]
    fn many_rules_at_one_place_move_few_others() {
        // Before the first, behind the first, before the last, and always in the middle.
        type Position = fn(usize, usize) -> usize;
        let cases: [(&str, Position, bool); 4] = [
            ("at the begin", |_, _| 0, false),
            ("behind the first", |_, _| 1, false),
            ("in a row before the last", |length, _| length - 1, true),
            ("in a row in the middle", |_, number| 50 + number, true),
        ];
        for (name, place, near_upper) in cases {
            let mut both = Both::default();
            for (id, rank) in Ranks::spread(100).enumerate() {
                both.entries.insert(rank, id as u32);
                both.order.push(id as u32);
            }
            for number in 0..2000 {
                both.insert(100 + number as u32, place(both.order.len(), number), near_upper);
            }
            assert_eq!(both.entries.values().copied().collect::<Vec<_>>(), both.order, "{name}");
            assert!(both.moves < 2000 * 4, "{name}: {} moves", both.moves);
        }
    }
}
