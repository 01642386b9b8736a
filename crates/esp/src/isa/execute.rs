//! What each instruction does (spec E-20 to E-25). `S[...]` of the spec is the view, by the order of
//! [`Instruction::tags`]; every function is a straight line.

use super::{Abort, Instruction, Operator, Verdict};
use crate::store::{Values, mix};

/// The counter of instructions that have one, or the only tag of the others.
const COUNTER: usize = 0;
/// The result of COLLECT.
const RESULT: usize = 1;
/// The child of RCHLD and RCOLLECT.
const CHILD: usize = 1;
/// The result of RCOLLECT.
const RELIABLE_RESULT: usize = 2;

/// The number of results sent again of RCOLLECT.
const SENT_AGAIN: usize = 3;

/// What a router knows of a child: that it was the first, that it has reported, and in the bits above how many results
/// had been sent again when the child reported last.
const FIRST: u64 = 1;
const REPORTED: u64 = 2;
const SEEN: u32 = 2;

/// Executes an instruction on the values of its tags, at the router `node`. Where the answer is [`Verdict::Rewritten`] its
/// operands have changed; where it is [`Verdict::Abort`] nothing has, and nothing of the view is to be kept.
#[inline(always)]
pub fn execute(instruction: &mut Instruction, view: &mut impl Values, node: u64) -> Verdict {
    match instruction {
        Instruction::Nop => Verdict::Forward,
        Instruction::Count { threshold, inclusive, .. } => count(view, *threshold, *inclusive),
        Instruction::Compare { value, relation, .. } => compare(view, *value, *relation),
        Instruction::Collect { value, operator, .. } => collect(view, value, *operator),
        Instruction::Rcollect { counter, child, value, operator, .. } => {
            let verdict = rcollect(view, value, *operator);
            if verdict == Verdict::Rewritten {
                *child = mix(node, *counter);
            }
            verdict
        }
        Instruction::Rchld { counter, child } => {
            let verdict = rchld(view);
            if verdict == Verdict::Rewritten {
                *child = mix(node, *counter);
            }
            verdict
        }
        Instruction::Mark { value, .. } => mark(view, *value),
        Instruction::Test { .. } => forward_if(view.get(COUNTER).is_some()),
        Instruction::Get { value, .. } => get(view, value),
        Instruction::Put { value, .. } => {
            view.set(COUNTER, *value);
            Verdict::Forward
        }
        Instruction::Setfwd { value, relation, .. } => {
            forward_if(view.get(COUNTER).is_some_and(|there| relation.holds(there, *value)))
        }
    }
}

#[inline(always)]
fn forward_if(condition: bool) -> Verdict {
    if condition { Verdict::Forward } else { Verdict::Drop }
}

#[inline(always)]
fn count(view: &mut impl Values, threshold: u32, inclusive: bool) -> Verdict {
    let count = view.get(COUNTER).map_or(1, |count| count.saturating_add(1));
    view.set(COUNTER, count);
    forward_if(count < u64::from(threshold) + u64::from(inclusive))
}

#[inline(always)]
fn compare(view: &mut impl Values, value: u64, relation: Operator) -> Verdict {
    let passes = view.get(COUNTER).is_none_or(|there| relation.holds(value, there));
    if passes {
        view.set(COUNTER, value);
    }
    forward_if(passes)
}

#[inline(always)]
fn collect(view: &mut impl Values, value: &mut u64, operator: Operator) -> Verdict {
    match view.get(COUNTER) {
        None => return Verdict::Abort(Abort::AbsentTag),
        Some(0) => return Verdict::Abort(Abort::Underflow),
        Some(_) => {}
    }
    combine_into(RESULT, view, *value, operator);
    // The counter may be the result, as far as a sender is concerned.
    let left = view.get(COUNTER).map_or(0, |left| left.saturating_sub(1));
    view.set(COUNTER, left);
    if left > 0 {
        return Verdict::Drop;
    }
    *value = view.get(RESULT).unwrap_or(0);
    Verdict::Rewritten
}

#[inline(always)]
fn rchld(view: &mut impl Values) -> Verdict {
    if let Some(bits) = view.get(CHILD) {
        return if bits & FIRST != 0 { Verdict::Rewritten } else { Verdict::Drop };
    }
    let children = view.get(COUNTER).unwrap_or(0);
    let first = children == 0;
    view.set(CHILD, if first { FIRST } else { 0 });
    view.set(COUNTER, children.saturating_add(1));
    if first { Verdict::Rewritten } else { Verdict::Drop }
}

#[inline(always)]
fn rcollect(view: &mut impl Values, value: &mut u64, operator: Operator) -> Verdict {
    let (Some(bits), Some(left)) = (view.get(CHILD), view.get(COUNTER)) else {
        return Verdict::Abort(Abort::AbsentTag);
    };
    let again = bits & REPORTED != 0;
    if !again {
        if left == 0 {
            return Verdict::Abort(Abort::Underflow);
        }
        view.set(CHILD, bits | REPORTED);
        combine_into(RELIABLE_RESULT, view, *value, operator);
        view.set(COUNTER, view.get(COUNTER).map_or(0, |left| left.saturating_sub(1)));
    }
    if view.get(COUNTER) != Some(0) {
        return Verdict::Drop;
    }
    if again {
        return Verdict::Repeated;
    }
    let Some(result) = view.get(RELIABLE_RESULT) else { return Verdict::Abort(Abort::AbsentTag) };
    *value = result;
    Verdict::Rewritten
}

/// Executes an RCOLLECT for which [`execute`] said [`Verdict::Repeated`], on its tags and [`sent_again`] of its counter: all children have
/// reported, and one of them repeats its report, because what went upstream may be lost (spec E-23).
///
/// Children that repeat in turn would bring the root as many packets as it has members. So a router counts the results that it sends again, and knows for
/// each child how many there were when it reported last. A child for which there was none since sends one; another only takes note of the
/// new number. Of one round of repeats so the first passes, whichever child it is from; and a child that goes on repeating by itself gets
/// through at its second at the latest.
#[cold]
pub fn repeat(instruction: &mut Instruction, view: &mut impl Values, node: u64) -> Verdict {
    let Instruction::Rcollect { counter, child, value, .. } = instruction else { return Verdict::Drop };
    let (Some(bits), Some(result)) = (view.get(CHILD), view.get(RELIABLE_RESULT)) else {
        return Verdict::Abort(Abort::AbsentTag);
    };
    let sent = view.get(SENT_AGAIN).unwrap_or(0);
    let is_answered = bits >> SEEN != sent;
    let sent = if is_answered { sent } else { sent + 1 & u64::MAX >> SEEN };
    view.set(CHILD, sent << SEEN | bits & (FIRST | REPORTED));
    if is_answered {
        return Verdict::Drop;
    }
    view.set(SENT_AGAIN, sent);
    (*value, *child) = (result, mix(node, *counter));
    Verdict::Rewritten
}

/// The tag of the number of results sent again, by that of the counter as the store has it.
pub fn sent_again(counter: u64) -> u64 {
    /// Any number will do that nobody has for a child.
    const SENT_AGAIN: u64 = 0x5e47_a6a1_4e5e_4731;
    mix(SENT_AGAIN, counter)
}

#[inline(always)]
fn combine_into(result: usize, view: &mut impl Values, value: u64, operator: Operator) {
    let combined = view.get(result).map_or(value, |there| operator.combine(there, value));
    view.set(result, combined);
}

#[inline(always)]
fn mark(view: &mut impl Values, value: u64) -> Verdict {
    if view.get(COUNTER).is_none() {
        view.set(COUNTER, value);
    }
    Verdict::Forward
}

#[inline(always)]
fn get(view: &mut impl Values, value: &mut u64) -> Verdict {
    match view.get(COUNTER) {
        None => Verdict::Abort(Abort::AbsentTag),
        Some(there) => {
            *value = there;
            Verdict::Rewritten
        }
    }
}
