//! Run-length bitmaps over the flows of a link: how many quanta each flow has waiting (Pradhan and Chiueh, section on batch summaries).
//!
//! A run is a number of neighbouring flows with the same number of quanta. The example of 30 flows with `(0,5)(1,10,1)(0,15)`, merged with a batch
//! `(1,10,1)(0,10)(1,10,1)`, is `(1,5,1)(1,5,2)(1,5,1)(0,5)(1,10,1)`.
//!
//! Form: no run is empty, no two neighbours have the same number of quanta, and the lengths add up to the flows of the link. So two equal
//! bitmaps have equal runs. Merging and subtracting walk both lists once: their cost follows the runs, not the flows.

use alloc::vec::Vec;
use core::fmt;

/// Neighbouring flows with the same number of quanta.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowRun {
    /// The number of flows.
    pub flows: u32,
    /// The quanta of each of them; zero for none.
    pub quanta: u32,
}

/// Why two bitmaps cannot be merged or subtracted. Neither is changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunBitmapError {
    /// They are of links with different numbers of flows.
    Flows {
        /// The flows of the first.
        own: u32,
        /// The flows of the other.
        other: u32,
    },
    /// More quanta were to be subtracted than there are.
    Negative {
        /// The first flow with too few quanta.
        flow: u32,
    },
    /// The flows of a batch do not ascend.
    Order {
        /// The first flow that is not above the one before it.
        flow: u32,
    },
    /// A flow would have more quanta than fit 32 bits.
    TooMany {
        /// The first such flow.
        flow: u32,
    },
}

impl fmt::Display for RunBitmapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunBitmapError::Flows { own, other } => write!(f, "one summary has {own} flows and the other {other}"),
            RunBitmapError::Negative { flow } => write!(f, "more quanta of flow {flow} were sent than it has"),
            RunBitmapError::Order { flow } => write!(f, "flow {flow} is not above the flow before it"),
            RunBitmapError::TooMany { flow } => write!(f, "flow {flow} would have more than 2^32 quanta"),
        }
    }
}

impl core::error::Error for RunBitmapError {}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct RunBitmap {
    runs: Vec<FlowRun>,
    /// The result of a merge is built here, so that a merge allocates only when it has more runs than any before.
    spare: Vec<FlowRun>,
}

impl PartialEq for RunBitmap {
    fn eq(&self, other: &RunBitmap) -> bool {
        self.runs == other.runs
    }
}

impl Eq for RunBitmap {}

/// Appends a run, and joins it to the last one if that has the same number of quanta.
#[inline(always)]
fn append(runs: &mut Vec<FlowRun>, run: FlowRun) {
    match runs.last_mut() {
        Some(last) if last.quanta == run.quanta => last.flows += run.flows,
        _ if run.flows == 0 => {}
        _ => runs.push(run),
    }
}

impl RunBitmap {
    /// A link with so many flows, none of which has a quantum.
    pub fn empty(flows: u32) -> RunBitmap {
        RunBitmap::from_runs([FlowRun { flows, quanta: 0 }])
    }

    /// The bitmap of these runs in order. Empty runs are left out, and neighbours with the same number of quanta are joined.
    pub fn from_runs(runs: impl IntoIterator<Item = FlowRun>) -> RunBitmap {
        let mut bitmap = RunBitmap::default();
        runs.into_iter().for_each(|run| append(&mut bitmap.runs, run));
        bitmap
    }

    /// One quantum for each of these flows, which ascend, of a link with `flows` flows. Flows beyond the link are left out.
    pub fn from_flows(flows: u32, with_quantum: impl IntoIterator<Item = u32>) -> RunBitmap {
        let mut bitmap = RunBitmap::default();
        bitmap.set_flows(flows, with_quantum);
        bitmap
    }

    /// The same in place, without a new allocation if there are no more runs than before.
    pub fn set_flows(&mut self, flows: u32, with_quantum: impl IntoIterator<Item = u32>) {
        self.runs.clear();
        let mut next = 0;
        for flow in with_quantum.into_iter().take_while(|flow| *flow < flows) {
            debug_assert!(flow >= next, "flows ascend");
            append(&mut self.runs, FlowRun { flows: flow.saturating_sub(next), quanta: 0 });
            append(&mut self.runs, FlowRun { flows: 1, quanta: 1 });
            next = flow + 1;
        }
        append(&mut self.runs, FlowRun { flows: flows - next, quanta: 0 });
    }

    /// The runs, in order of the flows.
    pub fn runs(&self) -> &[FlowRun] {
        &self.runs
    }

    /// The number of flows of the link.
    pub fn flows(&self) -> u32 {
        self.runs.iter().map(|run| run.flows).sum()
    }

    /// The quanta of a flow. It walks the runs.
    pub fn quanta(&self, flow: u32) -> u32 {
        let mut end = 0;
        let run = self.runs.iter().find(|run| {
            end += run.flows;
            flow < end
        });
        run.map_or(0, |run| run.quanta)
    }

    /// The quanta of all flows.
    pub fn total(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.flows) * u64::from(run.quanta)).sum()
    }

    /// Adds the quanta of `arrived`: flow by flow the sum of both.
    ///
    /// # Errors
    ///
    /// The links differ in flows, or a count exceeds 32 bits.
    pub fn merge(&mut self, arrived: &RunBitmap) -> Result<(), RunBitmapError> {
        self.combine(arrived, |own, other, flow| own.checked_add(other).ok_or(RunBitmapError::TooMany { flow }))
    }

    /// Subtracts the quanta of `sent`.
    ///
    /// # Errors
    ///
    /// The links differ in flows, or a flow has fewer quanta than were sent.
    pub fn subtract(&mut self, sent: &RunBitmap) -> Result<(), RunBitmapError> {
        self.combine(sent, |own, other, flow| own.checked_sub(other).ok_or(RunBitmapError::Negative { flow }))
    }

    /// Walks both lists, cut at the boundaries of both.
    #[inline]
    fn combine(
        &mut self,
        other: &RunBitmap,
        sum: impl Fn(u32, u32, u32) -> Result<u32, RunBitmapError>,
    ) -> Result<(), RunBitmapError> {
        self.spare.clear();
        let (mut left, mut right) = (self.runs.iter().copied(), other.runs.iter().copied());
        let (mut own, mut its) = (left.next(), right.next());
        let mut flow = 0;
        while let (Some(one), Some(two)) = (own, its) {
            let flows = one.flows.min(two.flows);
            append(&mut self.spare, FlowRun { flows, quanta: sum(one.quanta, two.quanta, flow)? });
            flow += flows;
            let rest = |run: FlowRun| FlowRun { flows: run.flows - flows, ..run };
            own = if one.flows > flows { Some(rest(one)) } else { left.next() };
            its = if two.flows > flows { Some(rest(two)) } else { right.next() };
        }
        if own.is_some() || its.is_some() {
            return Err(RunBitmapError::Flows { own: self.flows(), other: other.flows() });
        }
        core::mem::swap(&mut self.runs, &mut self.spare);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(flows: u32, quanta: u32) -> FlowRun {
        FlowRun { flows, quanta }
    }

    /// The published example (spec P-42).
    #[test]
    fn merge_adds_counts_as_in_the_published_example() {
        let mut status = RunBitmap::from_runs([run(5, 0), run(10, 1), run(15, 0)]);
        let batch = RunBitmap::from_runs([run(10, 1), run(10, 0), run(10, 1)]);
        let before = status.clone();
        status.merge(&batch).expect("both have 30 flows");
        assert_eq!(status.runs(), [run(5, 1), run(5, 2), run(5, 1), run(5, 0), run(10, 1)]);
        status.subtract(&batch).expect("the batch is in it");
        assert_eq!(status, before);
        assert_eq!((status.flows(), status.total()), (30, 10));
    }

    #[test]
    fn negative_count_is_an_error_that_changes_nothing() {
        let mut status = RunBitmap::from_flows(10, [2, 3]);
        let before = status.clone();
        assert_eq!(status.subtract(&RunBitmap::from_flows(10, [3, 7])), Err(RunBitmapError::Negative { flow: 7 }));
        assert_eq!(status, before);
        let error = status.merge(&RunBitmap::empty(11)).expect_err("the links differ");
        assert_eq!(error, RunBitmapError::Flows { own: 10, other: 11 });
        assert_eq!(status, before);
    }

    /// Counts by flow.
    fn counts(bitmap: &RunBitmap) -> Vec<u32> {
        bitmap.runs().iter().flat_map(|run| core::iter::repeat_n(run.quanta, run.flows as usize)).collect()
    }

    fn of_counts(counts: &[u32]) -> RunBitmap {
        RunBitmap::from_runs(counts.iter().map(|quanta| run(1, *quanta)))
    }

    proptest! {
        #[test]
        fn merge_and_subtract_equal_counts_by_flow(
            pairs in prop::collection::vec((0u32..4, 0u32..4), 1..200),
            stretch in 1usize..5,
        ) {
            let stretched = |pick: fn(&(u32, u32)) -> u32| -> Vec<u32> {
                pairs.iter().flat_map(|pair| core::iter::repeat_n(pick(pair), stretch)).collect()
            };
            let (own, other) = (stretched(|pair| pair.0), stretched(|pair| pair.1));
            let (mut sum, batch) = (of_counts(&own), of_counts(&other));
            sum.merge(&batch).unwrap();
            let expected: Vec<u32> = own.iter().zip(&other).map(|(one, two)| one + two).collect();
            prop_assert_eq!(counts(&sum), expected.clone());
            // The form is unique: equal counts have equal runs.
            prop_assert_eq!(&sum, &of_counts(&expected));
            prop_assert!(sum.runs().windows(2).all(|pair| pair[0].quanta != pair[1].quanta));
            prop_assert!(sum.runs().iter().all(|run| run.flows > 0));
            let mut less = of_counts(&own);
            let short = own.iter().zip(&other).position(|(one, two)| one < two);
            match (less.subtract(&batch), short) {
                (Ok(()), None) => {
                    let expected: Vec<u32> = own.iter().zip(&other).map(|(one, two)| one - two).collect();
                    prop_assert_eq!(less, of_counts(&expected));
                }
                // The error names the first flow of the run in which the count is too small.
                (Err(RunBitmapError::Negative { flow }), Some(short)) => {
                    prop_assert_eq!(flow as usize, short);
                    prop_assert_eq!(less, of_counts(&own));
                }
                (result, short) => prop_assert!(false, "{:?} although the first short flow is {:?}", result, short),
            }
            let single: Vec<u32> = own.iter().map(|quanta| (*quanta).min(1)).collect();
            let ids = single.iter().zip(0u32..).filter(|(quanta, _)| **quanta > 0).map(|(_, flow)| flow);
            prop_assert_eq!(RunBitmap::from_flows(single.len() as u32, ids), of_counts(&single));
        }
    }
}
