//! @NAME@: an instruction of ephemeral state that computes the mean of reported values, for which the built-in ones need two rounds.
//!
//! A packet has two tags, one for the number of reports and one for their sum, and a value. It is forwarded with the mean of all values
//! so far, including its own. With the operator `lt` or `gt` it is forwarded only if its own value is below or above the mean, so that
//! hosts near the mean stay silent. The instruction aborts if the sum would exceed 64 bits.

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
/// Numbers of operators (docs/operate/ephemeral-state.md).
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
