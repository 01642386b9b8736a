//! @NAME@: an instruction of ephemeral state that keeps the mean of what packets report, which the built-in ones need two rounds for.
//!
//! A packet has two tags, how many have reported and what they have together, and a value. It goes on with the mean of all values so far,
//! its own among them; with the operator `lt` or `gt` only where its own value is below or above that, so that whoever is near the mean is
//! not heard. A sum that would be more than 64 bits is not executed.

#![cfg_attr(not(test), no_std)]

use switchpath_guest::{Call, Outcome, instruction};

instruction! {
    "summary Goes on with the mean of what was reported.\n\
    tags 2\n\
    creates 2",
    mean
}

const COUNT: usize = 0;
const SUM: usize = 1;
/// Numbers of operators (docs/ephemeral-state.md).
const LT: u8 = 8;
const GT: u8 = 13;

fn mean(call: &mut Call) -> Outcome {
    let (count, sum) = (call.get(COUNT).unwrap_or(0), call.get(SUM).unwrap_or(0));
    let (Some(count), Some(sum)) = (count.checked_add(1), sum.checked_add(call.value)) else {
        return Outcome::Underflow;
    };
    call.set(COUNT, count);
    call.set(SUM, sum);
    let (own, mean) = (call.value, sum / count);
    call.value = mean;
    match call.operator() {
        LT if own >= mean => Outcome::Drop,
        GT if own <= mean => Outcome::Drop,
        _ => Outcome::Forward,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_what_was_reported_goes_on() {
        let mut call = Call::of(0, 10, &[None, None]);
        assert_eq!(
            (mean(&mut call), call.value, call.get(COUNT), call.get(SUM)),
            (Outcome::Forward, 10, Some(1), Some(10))
        );
        let mut call = Call::of(0, 20, &[Some(1), Some(10)]);
        assert_eq!((mean(&mut call), call.value), (Outcome::Forward, 15));
        for (operator, value, outcome) in
            [(LT, 5, Outcome::Forward), (LT, 60, Outcome::Drop), (GT, 60, Outcome::Forward)]
        {
            let mut call = Call::of(operator, value, &[Some(2), Some(30)]);
            assert_eq!(mean(&mut call), outcome);
        }
        assert_eq!(mean(&mut Call::of(0, 1, &[Some(1), Some(u64::MAX)])), Outcome::Underflow);
    }
}
