//! A routing table as disjoint ranges that cover the whole address space (P-17).

use super::address::Address;

/// A route of a table: the prefix, its length in bits, and the encoded outcome.
pub type Route<A> = (A, u8, u32);

/// Disjoint ranges in order. Each has its first address and its outcome, and ends before the next begins. Neighbours have different outcomes.
pub type Starts<A> = Vec<(A, u32)>;

/// Appends a range to others. An empty range before it is removed, and an equal neighbour is merged.
pub(super) fn push<A: Address>(starts: &mut Starts<A>, (start, word): (A, u32)) {
    if starts.last().is_some_and(|last| last.0 == start) {
        starts.pop();
    }
    if starts.last().is_none_or(|last| last.1 != word) {
        starts.push((start, word));
    }
}

/// The ranges of a table over all addresses of `width` bits. Addresses without a route have outcome 0, which a cache keeps like any other.
pub fn flatten<A: Address>(width: u8, routes: impl IntoIterator<Item = Route<A>>) -> Starts<A> {
    flatten_within((A::from(0), 0, 0), width, routes)
}

/// The ranges within one prefix. The prefix has the outcome `within.2` where no route of `routes` covers it; all of these are within it.
pub fn flatten_within<A: Address>(
    within: Route<A>,
    width: u8,
    routes: impl IntoIterator<Item = Route<A>>,
) -> Starts<A> {
    let mut routes: Vec<Route<A>> = routes.into_iter().collect();
    routes.sort_unstable_by_key(|&(prefix, length, _)| (prefix, length));
    let last = |prefix: A, length: u8| prefix | A::mask(width - length);
    let mut starts = vec![(within.0, within.2)];
    // The prefixes that cover the current address, the longest last: the last address and the outcome of each.
    let mut covering = vec![(last(within.0, within.1), within.2)];
    let end_before = |address: Option<A>, covering: &mut Vec<(A, u32)>, starts: &mut Starts<A>| {
        while let &[.., (_, outer), (end, _)] = &covering[..]
            && address.is_none_or(|address| end < address)
        {
            covering.pop();
            // After a prefix at the very end of the space nothing follows.
            if end < covering[0].0 {
                push(starts, (end + A::from(1), outer));
            }
        }
    };
    for (prefix, length, word) in routes {
        end_before(Some(prefix), &mut covering, &mut starts);
        push(&mut starts, (prefix, word));
        covering.push((last(prefix, length), word));
    }
    end_before(None, &mut covering, &mut starts);
    starts
}

/// The range that covers `address`: its position in `starts`, which begin at or before `address`.
#[inline]
pub(super) fn position<A: Address>(starts: &[(A, u32)], address: A) -> usize {
    starts.partition_point(|&(start, _)| start <= address) - 1
}

#[cfg(test)]
mod tests {
    use super::super::super::oracle::{Naive, steps};
    use super::*;
    use proptest::prelude::*;

    fn check(width: u8, changes: Vec<((u128, u8), u32)>) {
        let mut naive = Naive::new(width);
        changes.into_iter().for_each(|change| _ = naive.apply(change));
        let starts = flatten(width, naive.routes.iter().map(|(&(length, prefix), &word)| (prefix, length, word)));
        assert!(starts.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1), "{starts:x?}");
        for address in naive.edges() {
            assert_eq!(starts[position(&starts, address)].1, naive.lookup(address), "{address:x}");
        }
    }

    proptest! {
        #[test]
        fn flattened_table_has_the_outcome_of_every_address(v4 in steps(32), v6 in steps(128), small in steps(8)) {
            check(32, v4);
            check(128, v6);
            check(8, small);
        }
    }

    #[test]
    fn table_without_routes_is_one_range() {
        assert_eq!(flatten::<u32>(32, []), [(0, 0)]);
        assert_eq!(flatten(32, [(0u32, 0, 5)]), [(0, 5)]);
        assert_eq!(flatten(32, [(0xffff_ffffu32, 32, 5)]), [(0, 0), (0xffff_ffff, 5)]);
        assert_eq!(flatten(32, [(0u32, 1, 5), (0x8000_0000, 1, 5)]), [(0, 5)], "neighbours with one outcome merge");
    }
}
