//! RCOLLECT over trees of routers with losses towards the parents (spec E-23). A repeated report of any member below the loss repairs it. In each
//! wave in which all members repeat, the root receives one packet.

use super::{NODE, Place};
use crate::isa::{Operator, StateInstruction};
use crate::site::InstructionFate;
use crate::store::StoreSpec;
use proptest::collection::vec;
use proptest::prelude::*;

const COUNTER: u64 = 1;
const RESULT: u64 = 2;

/// The router of a member.
type Member = usize;

/// Routers; the first is next to the root. Each other router is below an earlier one.
struct Tree {
    routers: Vec<Place>,
    parents: Vec<usize>,
    members: Vec<Member>,
    /// The router whose upstream packets are lost at present.
    lossy: Option<usize>,
}

impl Tree {
    /// A tree in which every member has registered.
    fn new(parents: &[usize], members: &[usize]) -> Tree {
        let count = parents.len() + 1;
        let place = |number| {
            let mut place = Place::small();
            place.rules.node = NODE + number as u64;
            place
        };
        // A router without routers below it needs at least one member.
        let at = |router: usize| members[router].max(usize::from(!parents.contains(&router)));
        let members = (0..count).flat_map(|router| std::iter::repeat_n(router, at(router))).collect();
        let mut tree =
            Tree { routers: (0..count).map(place).collect(), parents: parents.to_vec(), members, lossy: None };
        for member in 0..tree.members.len() {
            tree.send(member, StateInstruction::Rchld { counter: COUNTER, child: name(member) });
        }
        tree
    }

    /// Sends an instruction up from a member. Returns the instruction that reaches the root.
    fn send(&mut self, member: usize, mut instruction: StateInstruction) -> Option<StateInstruction> {
        let mut router = self.members[member];
        loop {
            let (fate, after) = self.routers[router].run(instruction);
            if fate != InstructionFate::Forwarded || self.lossy == Some(router) {
                return None;
            }
            match router.checked_sub(1) {
                None => return Some(after),
                Some(index) => (router, instruction) = (self.parents[index], after),
            }
        }
    }

    /// A member reports, or repeats its report. Returns the result if one reaches the root.
    fn report(&mut self, member: usize) -> Option<u64> {
        let (child, value) = (name(member), value(member));
        let report =
            StateInstruction::Rcollect { counter: COUNTER, result: RESULT, child, value, operator: Operator::Add };
        match self.send(member, report)? {
            StateInstruction::Rcollect { value, .. } => Some(value),
            _ => None,
        }
    }

    /// The routers from a member to the root.
    fn way(&self, member: usize) -> Vec<usize> {
        let up = |router: &usize| router.checked_sub(1).map(|index| self.parents[index]);
        std::iter::successors(Some(self.members[member]), up).collect()
    }

    fn expected(&self) -> u64 {
        (0..self.members.len()).map(value).sum()
    }
}

fn name(member: usize) -> u64 {
    1000 + member as u64
}

fn value(member: usize) -> u64 {
    2 * member as u64 + 1
}

/// The parents of all routers except the first, and the number of members of each router.
fn shapes() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
    (vec(any::<usize>(), 0..8), vec(0usize..5, 9)).prop_map(|(parents, members)| {
        (parents.iter().enumerate().map(|(index, parent)| parent % (index + 1)).collect(), members)
    })
}

/// The members in some order.
fn order(count: usize, seed: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |n| (n + seed) % count)
}

proptest! {
    #[test]
    fn any_member_below_a_loss_repairs_it(
        (parents, members) in shapes(), lossy in any::<usize>(), rounds in vec(any::<usize>(), 0..4)
    ) {
        let tree = || Tree::new(&parents, &members);
        let count = tree().members.len();
        let lossy = lossy % (parents.len() + 1);
        for member in (0..count).filter(|member| tree().way(*member).contains(&lossy)) {
            let mut tree = tree();
            tree.lossy = Some(lossy);
            for member in 0..count {
                prop_assert_eq!(tree.report(member), None);
            }
            // Others have repeated meanwhile, and those packets were lost too.
            for seed in &rounds {
                for member in order(count, *seed).step_by(1 + seed % 3) {
                    prop_assert_eq!(tree.report(member), None);
                }
            }
            tree.lossy = None;
            // Each router on the path may drop one repeat, while the child learns the present mark.
            let tries = if rounds.is_empty() { 1 } else { 1 + tree.way(member).len() };
            let repaired = (0..tries).find_map(|_| tree.report(member));
            prop_assert_eq!(repaired, Some(tree.expected()), "member {} of {:?}", member, tree.members);
        }
    }

    #[test]
    fn root_receives_one_packet_per_wave_of_repeats(
        (parents, members) in shapes(), seeds in vec(any::<usize>(), 3)
    ) {
        let mut tree = Tree::new(&parents, &members);
        let count = tree.members.len();
        let first: Vec<u64> = (0..count).filter_map(|member| tree.report(member)).collect();
        prop_assert_eq!(first, [tree.expected()]);
        for seed in seeds {
            let again: Vec<u64> = order(count, seed).filter_map(|member| tree.report(member)).collect();
            prop_assert_eq!(again, [tree.expected()]);
        }
    }
}

/// An only child needs no mark entry. In a full store without a mark, only the first child's repeats pass.
#[test]
fn only_child_needs_no_mark_and_full_store_works_without() {
    let report = |child| StateInstruction::Rcollect {
        counter: COUNTER,
        result: RESULT,
        child,
        value: 5,
        operator: Operator::Add,
    };
    let mut place = Place::small();
    place.fate(StateInstruction::Rchld { counter: COUNTER, child: 9 });
    for _ in 0..3 {
        assert_eq!(place.fate(report(9)), InstructionFate::Forwarded);
    }
    assert_eq!(place.inspector.entries(place.now).count(), 3, "counter, child, result");
    // Four entries are enough for two children, but not for the mark.
    let mut place = Place::new(StoreSpec::of(4));
    for child in [10, 11] {
        place.fate(StateInstruction::Rchld { counter: COUNTER, child });
    }
    let reports = [10, 11, 10, 11, 11, 10].map(|child| place.fate(report(child)) == InstructionFate::Forwarded);
    assert_eq!(reports, [false, true, true, false, false, true]);
    assert_eq!(place.inspector.entries(place.now).count(), 4);
}
