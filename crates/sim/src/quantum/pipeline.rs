//! A pipeline of steps, each with a resource and a cost. Steps that share a resource form a stage, with all steps between them.
//!
//! A stage serves one batch at a time, and the next one only after the batch has left. A batch leaves when the next stage serves it or has a free buffer
//! for it. So the times of a batch follow from those of the batches before it, and no queue of events is needed.

use serde::Deserialize;
use std::collections::VecDeque;

/// The work of a step with quanta, apart from their transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepWork {
    /// None.
    #[default]
    None,
    /// The batch is threaded into the backlog.
    Receive,
    /// The scheduler selects the batch that leaves.
    Schedule,
}

/// The half of the router in which a step is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PipelineSide {
    /// That of the interface which receives.
    Ingress,
    /// That of the interface which sends.
    Egress,
}

/// A step and its cost: the sum of the products of these rates in processor cycles with the amounts of a batch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepPlan {
    /// The resource that it occupies.
    pub resource: String,
    /// Its half of the router.
    pub side: PipelineSide,
    /// Its work.
    #[serde(default)]
    pub work: StepWork,
    /// Cycles of a batch.
    pub fixed: f64,
    /// Cycles of a byte.
    #[serde(default)]
    pub per_byte: f64,
    /// Cycles of a transfer.
    #[serde(default)]
    pub per_transfer: f64,
    /// Cycles of an operation of the scheduler.
    #[serde(default)]
    pub per_operation: f64,
    /// Cycles of a quantum that the backlog passes on its scans.
    #[serde(default)]
    pub per_visit: f64,
}

/// The amounts of a batch that a step is charged for.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Amounts {
    pub bytes: u64,
    pub transfers: u64,
    pub operations: u64,
    pub visits: u64,
}

impl StepPlan {
    /// The cycles of the step for a batch.
    pub(super) fn cost(&self, batch: Amounts) -> u64 {
        let Amounts { bytes, transfers, operations, visits } = batch;
        let cycles = self.fixed
            + self.per_byte * bytes as f64
            + self.per_transfer * transfers as f64
            + self.per_operation * operations as f64
            + self.per_visit * visits as f64;
        cycles.round() as u64
    }
}

/// The stage of each step, from 0. All steps from the first to the last use of a resource are in one stage.
pub(super) fn stages(steps: &[StepPlan]) -> Vec<usize> {
    let (mut stage, mut last) = (0, 0);
    let mut of_step = Vec::with_capacity(steps.len());
    for (number, step) in steps.iter().enumerate() {
        let again = steps.iter().rposition(|other| other.resource == step.resource);
        last = last.max(again.unwrap_or(number));
        of_step.push(stage);
        if number == last {
            (stage, last) = (stage + 1, number + 1);
        }
    }
    of_step
}

/// A stage.
#[derive(Clone, Default)]
struct Stage {
    /// When it is free for the next batch.
    free: u64,
    /// When it began to serve the last batches, as many as it has buffers.
    began: VecDeque<u64>,
    busy: u64,
}

/// See the [module](self). Times are cycles of the processor.
pub(super) struct Pipeline {
    of_step: Vec<usize>,
    stages: Vec<Stage>,
    /// Batches that wait between two stages at most.
    buffers: usize,
}

impl Pipeline {
    pub fn new(steps: &[StepPlan], buffers: usize) -> Pipeline {
        let of_step = stages(steps);
        let count = of_step.last().map_or(0, |last| last + 1);
        Pipeline { of_step, stages: vec![Stage::default(); count], buffers }
    }

    /// The number of stages.
    pub fn len(&self) -> usize {
        self.stages.len()
    }

    /// When the first stage is free.
    pub fn is_free_at(&self) -> u64 {
        self.stages[0].free
    }

    /// The cycles for which each stage has served batches.
    pub fn busy(&self) -> Vec<u64> {
        self.stages.iter().map(|stage| stage.busy).collect()
    }

    /// The next batch arrives at the first stage. `cost` gives the cycles of each step, which begins at a time. Returns the begin of the first step, and the
    /// end of each.
    pub fn pass(&mut self, arrives: u64, mut cost: impl FnMut(usize, u64) -> u64) -> (u64, Vec<u64>) {
        let mut ends = Vec::with_capacity(self.of_step.len());
        let mut arrived = arrives;
        let begins = arrives.max(self.is_free_at());
        for number in 0..self.stages.len() {
            let stage = &mut self.stages[number];
            let began = arrived.max(stage.free);
            if self.buffers > 0 {
                stage.began.truncate(self.buffers - 1);
                stage.began.push_front(began);
            }
            let mut now = began;
            while self.of_step.get(ends.len()) == Some(&number) {
                now += cost(ends.len(), now);
                ends.push(now);
            }
            stage.busy += now - began;
            // The buffer of the next stage that the batch needs is free when that stage begins an earlier batch, or, without buffers, when it is free.
            let room = self.stages.get(number + 1).map_or(0, |next| match self.buffers {
                0 => next.free,
                buffers => next.began.get(buffers - 1).copied().unwrap_or(0),
            });
            arrived = now.max(room);
            self.stages[number].free = arrived;
        }
        (begins, ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn steps(resources: &str) -> Vec<StepPlan> {
        let step = |resource: &str| StepPlan {
            resource: resource.to_owned(),
            side: PipelineSide::Ingress,
            work: StepWork::None,
            fixed: 1.0,
            per_byte: 0.0,
            per_transfer: 0.0,
            per_operation: 0.0,
            per_visit: 0.0,
        };
        resources.split(' ').map(step).collect()
    }

    #[test]
    fn steps_that_share_a_resource_are_one_stage() {
        for (resources, expected) in [
            ("in bus bus bus switch out cpu out wire", [0, 1, 1, 1, 2, 3, 3, 3, 4].as_slice()),
            ("in bus bus bus switch bus cpu bus wire", &[0, 1, 1, 1, 1, 1, 1, 1, 2]),
            ("in bus bus bus switch out cpu other wire", &[0, 1, 1, 1, 2, 3, 4, 5, 6]),
            ("a b a c b d", &[0, 0, 0, 0, 0, 1]),
        ] {
            assert_eq!(stages(&steps(resources)), expected, "{resources}");
        }
    }

    proptest! {
        /// The oracle moves all batches in steps of one cycle.
        #[test]
        fn times_of_batches_equal_those_of_a_clock(
            costs in prop::collection::vec((1u64..9, 1u64..9, 1u64..9), 1..12),
            buffers in 0usize..3,
        ) {
            let cost = |batch: usize, stage: usize| [costs[batch].0, costs[batch].1, costs[batch].2][stage];
            let mut pipeline = Pipeline::new(&steps("a b c"), buffers);
            let found: Vec<u64> =
                (0..costs.len()).map(|batch| pipeline.pass(0, |step, _| cost(batch, step)).1[2]).collect();
            // By stage: the batches that wait, and the one that is served with its remaining time.
            let mut waiting = [(0..costs.len()).collect::<VecDeque<usize>>(), VecDeque::new(), VecDeque::new()];
            let mut served: [Option<(usize, u64)>; 3] = [None; 3];
            let mut left = vec![0; costs.len()];
            for now in 0..=400 {
                // From the last stage to the first, so that a place that becomes free is used at the same time.
                for stage in (0..3).rev() {
                    if let Some((batch, 0)) = served[stage] {
                        if stage == 2 {
                            left[batch] = now;
                            served[stage] = None;
                        } else if served[stage + 1].is_none() && waiting[stage + 1].is_empty()
                            || waiting[stage + 1].len() < buffers
                        {
                            waiting[stage + 1].push_back(batch);
                            served[stage] = None;
                            if served[stage + 1].is_none() {
                                let next = waiting[stage + 1].pop_front();
                                served[stage + 1] = next.map(|batch| (batch, cost(batch, stage + 1)));
                            }
                        }
                    }
                    if served[stage].is_none() {
                        served[stage] = waiting[stage].pop_front().map(|batch| (batch, cost(batch, stage)));
                    }
                }
                served.iter_mut().flatten().for_each(|(_, rest)| *rest = rest.saturating_sub(1));
            }
            prop_assert_eq!(found, left);
        }
    }
}
