//! Trials of quanta in batches through a pipeline, in virtual time (spec P, F1 to F5).
//!
//! An ingress side sends batches of quanta of many flows. Each batch crosses the steps of a router. The egress side threads it into its backlog, and its
//! scheduler selects the batch that leaves. Backlog, summaries and scheduler are those of the router (`schemes::dfq`). The time of a step is a cost of its
//! work: bytes, transfers, operations of the scheduler, and quanta that the backlog passes on its scans.

mod egress;
mod load;
mod pipeline;

pub use egress::QuantaOrder;
pub use load::EgressLoad;
pub use pipeline::{PipelineSide, StepPlan, StepWork};

use crate::Measurements;
use crate::random::RandomStream;
use egress::{Egress, EgressCounts};
use pipeline::{Amounts, Pipeline};
use schemes::dfq::{Quantum, ThreadedBacklog};
use serde::Deserialize;
use std::collections::BTreeMap;
use units::{Bytes, Instant, Nanos};

/// Bounds of a trial.
const MOST_FLOWS: u32 = 1 << 17;
const MOST_QUANTA: usize = 4096;
const MOST_BATCHES: usize = 1 << 20;
const MOST_STEPS: usize = 64;

/// A batch of a given sequence, and the flows of which a quantum leaves after it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenBatch {
    /// Flows with a quantum, which ascend.
    pub arrives: Vec<u32>,
    /// Flows that send.
    pub sends: Vec<u32>,
}

/// How a trial on a machine's processor transfers quanta. In virtual time a transfer only has a cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MachineTransfer {
    /// Not at all: only the backlog and the scheduler are measured.
    None,
    /// A batch, or each quantum, is copied in memory.
    Copy,
    /// A batch, or each quantum, is a datagram of the kernel.
    Send,
    /// A batch, or each packet, is received as a datagram, and each quantum leaves as one.
    Forward,
}

/// A trial.
// Large: a field for each key of a trial.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuantaPlan {
    /// Flows, each with a reservation.
    pub flows: u32,
    /// The part of the flows that send when their turn comes, from a random draw.
    pub active: f64,
    /// Quanta of every flow that wait when the trial begins.
    pub backlog: u32,
    /// Bytes of a quantum.
    pub quantum: u32,
    /// Bytes of a packet, for rates in packets.
    pub packet: u32,
    /// Bytes before each packet in the stream of its flow: its length on the router's wire between two nodes.
    pub prefix: u32,
    /// The most quanta of a batch.
    pub batch: usize,
    /// The scheduler of the egress link.
    pub scheduler: QuantaOrder,
    /// The length of the scheduler's cycle in nanoseconds. The reservations of all flows are a batch in each.
    pub cycle: u64,
    /// True if a batch is received with one transfer and threaded; false if each of its quanta needs a transfer.
    pub threads: bool,
    /// How a machine transfers quanta, in place of the costs of `step`.
    pub transfer: MachineTransfer,
    /// Batches that wait between two stages at most.
    pub buffers: usize,
    /// Batches that cross the empty pipeline one by one, for latencies.
    pub single: usize,
    /// Batches that follow each other as fast as possible. The first quarter is not measured.
    pub batches: usize,
    /// Cycles of the processor per second.
    pub clock: f64,
    /// The seed.
    pub seed: u64,
    /// A sequence of batches to count the transfers of.
    pub given: Vec<GivenBatch>,
    /// The steps in order.
    pub step: Vec<StepPlan>,
}

impl QuantaPlan {
    /// Parses the trial that `text`, of `file`, describes.
    ///
    /// # Errors
    ///
    /// The description is invalid; the message names the file.
    pub fn read(text: &str, file: &str) -> Result<QuantaPlan, String> {
        let plan: QuantaPlan = toml::from_str(text).map_err(|error| format!("{file}: {error}"))?;
        plan.check().map_err(|why| format!("{file}: {why}"))?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: usize, least: usize, most: usize| {
            let is = (least..=most).contains(&value);
            is.then_some(()).ok_or_else(|| format!("`{name}` is {value}, not from {least} to {most}"))
        };
        within("flows", self.flows as usize, 1, MOST_FLOWS as usize)?;
        within("backlog", self.backlog as usize, 0, 16)?;
        within("quantum", self.quantum as usize, 1, 1 << 16)?;
        within("packet", self.packet as usize, 1, 1 << 16)?;
        within("prefix", self.prefix as usize, 0, 1 << 16)?;
        within("batch", self.batch, 1, MOST_QUANTA)?;
        within("buffers", self.buffers, 0, 1024)?;
        within("single", self.single, 1, MOST_BATCHES)?;
        within("batches", self.batches, 8, MOST_BATCHES)?;
        within("step", self.step.len(), 1, MOST_STEPS)?;
        within("cycle", self.cycle as usize, 1000, 1_000_000_000)?;
        if !(0.001..=1.0).contains(&self.active) || !(1e3..=1e12).contains(&self.clock) {
            return Err("`active` is from 0.001 to 1, and `clock` from 1e3 to 1e12".into());
        }
        let quanta = (self.single + self.batches) as u64 * self.batch as u64;
        if quanta + u64::from(self.flows) * u64::from(self.backlog) > u32::MAX.into() {
            return Err("there are more than 2^32 quanta; lower `batches` or `batch`".into());
        }
        let rates = |step: &StepPlan| [step.per_byte, step.per_transfer, step.per_operation, step.per_visit];
        let is_cost = |cost: f64| (0.0..=1e9).contains(&cost);
        if !self.step.iter().all(|step| (1.0..=1e9).contains(&step.fixed) && rates(step).into_iter().all(is_cost)) {
            return Err("costs of a step are from 0 to 1e9, and `fixed` is at least 1".into());
        }
        let works: Vec<StepWork> =
            self.step.iter().map(|step| step.work).filter(|work| *work != StepWork::None).collect();
        if works != [StepWork::Receive, StepWork::Schedule] {
            return Err("one step receives (`work`), and a later one schedules".into());
        }
        let first = self.step.iter().position(|step| step.side == PipelineSide::Egress).unwrap_or(0);
        if first == 0 || self.step[first..].iter().any(|step| step.side == PipelineSide::Ingress) {
            return Err("the steps of the ingress side are first, and there is one of each side".into());
        }
        Ok(())
    }

    fn time(&self, cycles: u64) -> Instant {
        Instant::new((cycles as f64 * 1e9 / self.clock) as u64)
    }
}

/// An endless sequence of batches. The flows send in ascending order, again and again.
#[derive(Debug)]
struct Batches {
    flow: u32,
    place: u32,
    chance: RandomStream,
}

impl Batches {
    fn new(plan: &QuantaPlan) -> Batches {
        Batches { flow: 0, place: 0, chance: RandomStream::new(plan.seed, "quanta") }
    }

    fn next(&mut self, plan: &QuantaPlan) -> Vec<Quantum> {
        let mut batch = Vec::with_capacity(plan.batch);
        while batch.len() < plan.batch {
            if self.flow == plan.flows {
                self.flow = 0;
                // A batch ascends.
                if !batch.is_empty() {
                    break;
                }
            }
            self.flow += 1;
            if plan.active == 1.0 || self.chance.unit() < plan.active {
                batch.push(Quantum { flow: self.flow, bytes: plan.quantum, place: self.place });
                self.place += 1;
            }
        }
        batch
    }
}

/// The times of a batch.
struct Passage {
    begins: u64,
    /// The end of the last step of the ingress side.
    middle: u64,
    ends: u64,
}

/// A running trial.
struct Trial<'a> {
    plan: &'a QuantaPlan,
    batches: Batches,
    pipeline: Pipeline,
    egress: Egress,
}

impl Trial<'_> {
    /// Sends a batch into the pipeline, at a time or when the first stage is free.
    fn pass(&mut self, arrives: u64) -> Result<Passage, String> {
        let (plan, egress) = (self.plan, &mut self.egress);
        let batch = self.batches.next(plan);
        let before = egress.counts();
        let mut quanta = batch.len();
        let mut failed = None;
        let (begins, ends) = self.pipeline.pass(arrives, |number, now| {
            let step = &plan.step[number];
            let result = match step.work {
                StepWork::None => Ok(()),
                StepWork::Receive => egress.receive(&batch, plan.time(now)),
                StepWork::Schedule => egress.send(plan.time(now)).map(|sent| quanta = sent),
            };
            failed = failed.take().or(result.err());
            let counts = egress.counts();
            let transfers = match plan.threads {
                true => counts.transfers.0 - before.transfers.0,
                false => counts.transfers.1 - before.transfers.1,
            };
            step.cost(Amounts {
                bytes: quanta as u64 * u64::from(plan.quantum),
                transfers,
                operations: counts.operations - before.operations,
                visits: counts.visits - before.visits,
            })
        });
        let last = plan.step.iter().rposition(|step| step.side == PipelineSide::Ingress);
        let (middle, ends) = (last.map_or(begins, |last| ends[last]), ends.last().copied().unwrap_or(begins));
        failed.map_or(Ok(Passage { begins, middle, ends }), Err)
    }
}

/// Runs the trial that `text`, of `file`, describes.
///
/// | value | meaning |
/// |---|---|
/// | `ingress_cycles`, `egress_cycles` | mean latency of a batch alone in each half, from its begin to the end of the last step |
/// | `loaded_cycles` | mean latency of a batch among others, from its begin to the end of the last step |
/// | `pipeline_cycles` | the mean time between the departures of two batches that follow each other |
/// | `overlap` | ingress and egress latency, divided by the pipeline cycle |
/// | `stages`, `slowest_cycles`, `busy_cycles` | the stages; the mean time of a batch in the slowest one, and in all together |
/// | `quanta_pps`, `rate_pps`, `throughput_bps` | quanta, packets, and bits of packets that left per second |
/// | `transfers`, `batch_quanta` | transfers and quanta of a received batch |
/// | `operations`, `visits` | operations of the scheduler, and quanta that the backlog passed on its scans, for each quantum that left |
/// | `runs` | mean runs of the summary of the backlog |
/// | `lost`, `reordered` | quanta neither waiting nor sent; quanta that left after a later one of their flow |
/// | `given_batches`, `given_quanta` | transfers of the given sequence: one for each batch, and one for each quantum |
///
/// # Errors
///
/// The description is invalid; the message names the file. Or a rule of the backlog is broken.
pub fn run(text: &str, file: &str) -> Result<Measurements, String> {
    let plan = QuantaPlan::read(text, file)?;
    let values = measure(&plan).map_err(|why| format!("{file}: {why}"))?;
    Ok(Measurements {
        parameters: vec![("trial".to_owned(), text.trim().to_owned())],
        values: values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        ..Measurements::default()
    })
}

/// The ingress side, and the egress side with the quanta that wait from the start.
fn begin(plan: &QuantaPlan) -> Result<(Batches, Egress), String> {
    let (quantum, cycle) = (Bytes::new(plan.quantum.into()), Nanos::new(plan.cycle));
    let mut batches = Batches::new(plan);
    let mut egress = Egress::new(plan.scheduler, plan.flows, quantum, plan.batch, cycle);
    for _ in 0..plan.backlog {
        let all = (1..=plan.flows).map(|flow| Quantum { flow, bytes: plan.quantum, place: batches.place + flow - 1 });
        egress.receive(&all.collect::<Vec<Quantum>>(), Instant::START)?;
        batches.place += plan.flows;
    }
    Ok((batches, egress))
}

fn measure(plan: &QuantaPlan) -> Result<BTreeMap<&'static str, f64>, String> {
    let (batches, egress) = begin(plan)?;
    let mut trial = Trial { plan, batches, pipeline: Pipeline::new(&plan.step, plan.buffers), egress };
    let (mut ingress, mut egress, mut end) = (0, 0, 0);
    for _ in 0..plan.single {
        let passage = trial.pass(end)?;
        ingress += passage.middle - passage.begins;
        egress += passage.ends - passage.middle;
        end = passage.ends;
    }
    let mut before = (EgressCounts::default(), Vec::new(), 0);
    let (mut loaded, mut last) = (0, 0);
    let warmup = plan.batches / 4;
    for number in 0..plan.batches {
        let passage = trial.pass(trial.pipeline.is_free_at().max(end))?;
        last = passage.ends;
        if number + 1 == warmup {
            before = (trial.egress.counts(), trial.pipeline.busy(), last);
        } else if number >= warmup {
            loaded += passage.ends - passage.begins;
        }
    }
    let measured = (plan.batches - warmup) as f64;
    let mut values = report(plan, &trial, &before, last, measured);
    let (ingress, egress) = (ingress as f64 / plan.single as f64, egress as f64 / plan.single as f64);
    values.extend([
        ("ingress_cycles", ingress),
        ("egress_cycles", egress),
        ("overlap", (ingress + egress) / values["pipeline_cycles"]),
        ("loaded_cycles", loaded as f64 / measured),
    ]);
    values.extend(given(&plan.given)?);
    Ok(values)
}

/// The values of the batches that followed each other. `before` has the counters, the busy cycles and the time after the warm-up.
fn report(
    plan: &QuantaPlan,
    trial: &Trial<'_>,
    before: &(EgressCounts, Vec<u64>, u64),
    last: u64,
    batches: f64,
) -> BTreeMap<&'static str, f64> {
    let (start, now) = (&before.0, trial.egress.counts());
    let busy = trial.pipeline.busy().into_iter().zip(&before.1).map(|(now, before)| (now - before) as f64 / batches);
    let busy: Vec<f64> = busy.collect();
    let cycles = (last - before.2) as f64;
    let sent = (now.sent - start.sent) as f64;
    let rate = sent * plan.clock / cycles;
    let packets = rate * f64::from(plan.quantum) / f64::from(plan.packet + plan.prefix);
    let transfers =
        if plan.threads { now.transfers.0 - start.transfers.0 } else { now.transfers.1 - start.transfers.1 };
    let lost = now.arrived as f64 - now.sent as f64 - trial.egress.waiting() as f64;
    [
        ("pipeline_cycles", cycles / batches),
        ("stages", trial.pipeline.len() as f64),
        ("slowest_cycles", busy.iter().copied().fold(0.0, f64::max)),
        ("busy_cycles", busy.iter().sum()),
        ("quanta_pps", rate),
        ("rate_pps", packets),
        ("throughput_bps", packets * f64::from(plan.packet) * 8.0),
        ("transfers", transfers as f64 / batches),
        ("batch_quanta", (now.arrived - start.arrived) as f64 / batches),
        ("operations", (now.operations - start.operations) as f64 / sent),
        ("visits", (now.visits - start.visits) as f64 / sent),
        ("runs", (now.runs - start.runs) as f64 / batches),
        ("lost", lost),
        ("reordered", now.reordered as f64),
    ]
    .into()
}

/// The transfers of a given sequence, counted by the router's backlog.
fn given(sequence: &[GivenBatch]) -> Result<[(&'static str, f64); 2], String> {
    let flows = sequence.iter().flat_map(|batch| &batch.arrives).max().map_or(1, |flow| flow.saturating_add(1));
    let mut backlog = ThreadedBacklog::new(flows);
    let mut sent = Vec::new();
    for GivenBatch { arrives, sends } in sequence {
        let batch = arrives.iter().map(|flow| Quantum { flow: *flow, bytes: 1, place: 0 });
        backlog.thread(&batch.collect::<Vec<Quantum>>()).map_err(|error| error.to_string())?;
        sent.clear();
        backlog.cycle(|quantum| sends.contains(&quantum.flow), &mut sent);
        if sent.len() != sends.len() {
            return Err(format!("a cycle sends {sends:?}, and not all of these flows have a quantum"));
        }
    }
    let transfers = backlog.transfers();
    Ok([("given_batches", transfers.batches as f64), ("given_quanta", transfers.quanta as f64)])
}

#[cfg(test)]
mod tests;
