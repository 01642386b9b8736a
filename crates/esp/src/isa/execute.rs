//! The semantics of each instruction (spec E-20 to E-25). `S[...]` of the spec is the view, indexed in the order of [`StateInstruction::tags`]. No
//! function has a loop.

use super::{Abort, InstructionVerdict, Operator, StateInstruction};
use crate::store::{Values, mix};

/// The counter of instructions that have one, otherwise the only tag.
const COUNTER: usize = 0;
/// The result of COLLECT.
const RESULT: usize = 1;
/// The child of RCHLD and RCOLLECT.
const CHILD: usize = 1;
/// The result of RCOLLECT.
const RELIABLE_RESULT: usize = 2;
/// The mark of RCOLLECT; only [`decide_repeat`] reads it.
const MARK: usize = 3;

/// Flags of a child: first to register, has reported, only child at completion.
const FIRST: u64 = 1;
const REPORTED: u64 = 2;
const ONLY: u64 = 4;
/// The bits above the flags hold the last mark that the child saw.
const MARK_SHIFT: u32 = 3;

/// Executes an instruction on the values of its tags, at router number `node`. After [`InstructionVerdict::Rewritten`] its operands have changed. After
/// [`InstructionVerdict::Abort`] they have not, and the caller must discard the view. After [`InstructionVerdict::Repeated`] the view is unchanged, and [`decide_repeat`] decides.
#[inline(always)]
pub fn execute(instruction: &mut StateInstruction, view: &mut impl Values, node: u64) -> InstructionVerdict {
    match instruction {
        StateInstruction::Nop => InstructionVerdict::Forward,
        StateInstruction::Count { threshold, inclusive, .. } => count(view, *threshold, *inclusive),
        StateInstruction::Compare { value, relation, .. } => compare(view, *value, *relation),
        StateInstruction::Collect { value, operator, .. } => collect(view, value, *operator),
        StateInstruction::Rcollect { counter, child, value, operator, .. } => {
            let verdict = rcollect(view, value, *operator);
            // The next router upstream sees this router as the child, not the host that reported last.
            if verdict == InstructionVerdict::Rewritten {
                *child = mix(node, *counter);
            }
            verdict
        }
        StateInstruction::Rchld { counter, child } => {
            let verdict = rchld(view);
            if verdict == InstructionVerdict::Rewritten {
                *child = mix(node, *counter);
            }
            verdict
        }
        StateInstruction::Mark { value, .. } => mark(view, *value),
        StateInstruction::Test { .. } => forward_if(view.get(COUNTER).is_some()),
        StateInstruction::Get { value, .. } => get(view, value),
        StateInstruction::Put { value, .. } => {
            view.set(COUNTER, *value);
            InstructionVerdict::Forward
        }
        StateInstruction::Setfwd { value, relation, .. } => {
            forward_if(view.get(COUNTER).is_some_and(|there| relation.holds(there, *value)))
        }
    }
}

#[inline(always)]
fn forward_if(condition: bool) -> InstructionVerdict {
    if condition { InstructionVerdict::Forward } else { InstructionVerdict::Drop }
}

#[inline(always)]
fn count(view: &mut impl Values, threshold: u32, inclusive: bool) -> InstructionVerdict {
    let count = view.get(COUNTER).map_or(1, |count| count.saturating_add(1));
    view.set(COUNTER, count);
    forward_if(count < u64::from(threshold) + u64::from(inclusive))
}

#[inline(always)]
fn compare(view: &mut impl Values, value: u64, relation: Operator) -> InstructionVerdict {
    let passes = view.get(COUNTER).is_none_or(|there| relation.holds(value, there));
    if passes {
        view.set(COUNTER, value);
    }
    forward_if(passes)
}

#[inline(always)]
fn collect(view: &mut impl Values, value: &mut u64, operator: Operator) -> InstructionVerdict {
    match view.get(COUNTER) {
        None => return InstructionVerdict::Abort(Abort::AbsentTag),
        Some(0) => return InstructionVerdict::Abort(Abort::Underflow),
        Some(_) => {}
    }
    combine_into(RESULT, view, *value, operator);
    // Read the counter again: a sender may give counter and result the same tag, and `combine_into` then wrote to it.
    let left = view.get(COUNTER).map_or(0, |left| left.saturating_sub(1));
    view.set(COUNTER, left);
    if left > 0 {
        return InstructionVerdict::Drop;
    }
    *value = view.get(RESULT).unwrap_or(0);
    InstructionVerdict::Rewritten
}

#[inline(always)]
fn rchld(view: &mut impl Values) -> InstructionVerdict {
    // A retransmission: it passes if the first packet passed, so a loss upstream is repaired. The counter stays.
    if let Some(bits) = view.get(CHILD) {
        return if bits & FIRST != 0 { InstructionVerdict::Rewritten } else { InstructionVerdict::Drop };
    }
    let children = view.get(COUNTER).unwrap_or(0);
    let first = children == 0;
    view.set(CHILD, if first { FIRST } else { 0 });
    view.set(COUNTER, children.saturating_add(1));
    if first { InstructionVerdict::Rewritten } else { InstructionVerdict::Drop }
}

#[inline(always)]
fn rcollect(view: &mut impl Values, value: &mut u64, operator: Operator) -> InstructionVerdict {
    let (Some(bits), Some(left)) = (view.get(CHILD), view.get(COUNTER)) else {
        return InstructionVerdict::Abort(Abort::AbsentTag);
    };
    if bits & REPORTED != 0 {
        if left != 0 {
            return InstructionVerdict::Drop;
        }
        // An only child shares its router with no other child, so each of its repeats passes without a mark.
        if bits & ONLY == 0 {
            return InstructionVerdict::Repeated;
        }
    } else {
        if left == 0 {
            return InstructionVerdict::Abort(Abort::Underflow);
        }
        let is_only = view.get(RELIABLE_RESULT).is_none();
        view.set(CHILD, bits | REPORTED);
        combine_into(RELIABLE_RESULT, view, *value, operator);
        // Read again, as in `collect`: counter and result may have the same tag.
        view.set(COUNTER, view.get(COUNTER).map_or(0, |left| left.saturating_sub(1)));
        if view.get(COUNTER) != Some(0) {
            return InstructionVerdict::Drop;
        }
        if is_only {
            view.set(CHILD, bits | REPORTED | ONLY);
        }
    }
    let Some(result) = view.get(RELIABLE_RESULT) else { return InstructionVerdict::Abort(Abort::AbsentTag) };
    *value = result;
    InstructionVerdict::Rewritten
}

/// The tag of the mark that all children of a counter share. The store scopes it like the counter's tag.
pub(crate) const fn mark_tag(counter: u64) -> u64 {
    // A child's tag is `mix(child, counter)`. Here the counter is the first argument, so the mark's tag is another one.
    mix(counter, 0x6d61_726b_2d6f_6662)
}

/// Decides an RCOLLECT for which [`execute`] returned [`InstructionVerdict::Repeated`]: a child repeats its report after completion.
///
/// The packet that the router sent upstream may be lost, so a repeat must pass, no matter which child sends it (spec E-23). If every
/// repeat passed, the root would receive as many packets as the group has members. So the children share a mark. A child
/// that saw the present mark passes and raises it by one. Any other child only learns the present mark, and its packet is dropped.
///
/// - One repeat of every child is a wave: at most one of a wave passes. The next child has not seen the raised mark.
/// - A child that repeats alone passes from its second repeat on, and from its first if it missed no wave.
///
/// `view` has the tags of the instruction and the mark's tag ([`mark_tag`]). If the store has no room for the mark (`has_mark` is false), only the
/// first child's repeats pass, and the view does not change.
pub(crate) fn decide_repeat(
    instruction: &mut StateInstruction,
    view: &mut impl Values,
    node: u64,
    has_mark: bool,
) -> InstructionVerdict {
    let StateInstruction::Rcollect { counter, child, value, .. } = instruction else { return InstructionVerdict::Drop };
    let (Some(bits), Some(result)) = (view.get(CHILD), view.get(RELIABLE_RESULT)) else {
        return InstructionVerdict::Abort(Abort::AbsentTag);
    };
    let passes = if has_mark { passes_by_mark(view, bits) } else { bits & FIRST != 0 };
    if !passes {
        return InstructionVerdict::Drop;
    }
    (*value, *child) = (result, mix(node, *counter));
    InstructionVerdict::Rewritten
}

/// Compares the mark that the child saw with the present mark, in the bits that a child has for it. Updates both.
fn passes_by_mark(view: &mut impl Values, bits: u64) -> bool {
    let mark = view.get(MARK).unwrap_or(0);
    let passes = bits >> MARK_SHIFT == mark & u64::MAX >> MARK_SHIFT;
    let next_mark = mark.wrapping_add(passes.into());
    if passes {
        view.set(MARK, next_mark);
    }
    view.set(CHILD, next_mark << MARK_SHIFT | bits & (FIRST | REPORTED | ONLY));
    passes
}

#[inline(always)]
fn combine_into(result: usize, view: &mut impl Values, value: u64, operator: Operator) {
    let combined = view.get(result).map_or(value, |there| operator.combine(there, value));
    view.set(result, combined);
}

#[inline(always)]
fn mark(view: &mut impl Values, value: u64) -> InstructionVerdict {
    if view.get(COUNTER).is_none() {
        view.set(COUNTER, value);
    }
    InstructionVerdict::Forward
}

#[inline(always)]
fn get(view: &mut impl Values, value: &mut u64) -> InstructionVerdict {
    match view.get(COUNTER) {
        None => InstructionVerdict::Abort(Abort::AbsentTag),
        Some(there) => {
            *value = there;
            InstructionVerdict::Rewritten
        }
    }
}
