//! The egress side of a trial without its pipeline: the work that a machine's processor can be measured with.

use super::egress::{Egress, reserved};
use super::{Batches, QuantaPlan, begin};
use schemes::dfq::{Quantum, QuantumScheduler};
use std::collections::VecDeque;
use units::{Bytes, Instant, Nanos};

/// The quanta that wait.
enum Backlog {
    /// Threaded, as in the trial.
    Threaded(Box<Egress>),
    /// In a queue for each flow: that of a trial without threading.
    Queues { scheduler: Box<QuantumScheduler>, queues: Vec<VecDeque<Quantum>>, sent: Vec<Quantum> },
}

/// The batches of a trial, and the egress side that receives and sends them. Its time advances by four thirds of a cycle from batch to batch, so that
/// the reservations of all flows are a third more than the batches.
pub struct EgressLoad {
    plan: QuantaPlan,
    batches: Batches,
    backlog: Backlog,
    now: Instant,
    grants: Vec<(u32, Bytes)>,
}

impl EgressLoad {
    /// The egress side of a trial, with the quanta that wait from the start.
    ///
    /// # Errors
    ///
    /// A rule of the backlog is broken.
    pub fn new(plan: &QuantaPlan) -> Result<EgressLoad, String> {
        let (batches, egress) = begin(plan)?;
        let backlog = if plan.threads {
            Backlog::Threaded(Box::new(egress))
        } else {
            let quantum = Bytes::new(plan.quantum.into());
            let scheduler = Box::new(reserved(plan.flows, quantum, plan.batch, Nanos::new(plan.cycle)));
            let queues = vec![VecDeque::with_capacity(4); plan.flows as usize + 1];
            Backlog::Queues { scheduler, queues, sent: Vec::with_capacity(plan.batch) }
        };
        Ok(EgressLoad { plan: plan.clone(), batches, backlog, now: Instant::START, grants: Vec::new() })
    }

    /// The next batch.
    pub fn draw(&mut self) -> Vec<Quantum> {
        self.batches.next(&self.plan)
    }

    /// Receives a batch, then sends one: the quanta that leave.
    ///
    /// # Errors
    ///
    /// A rule of the backlog is broken.
    pub fn pass(&mut self, batch: &[Quantum]) -> Result<&[Quantum], String> {
        self.now += Nanos::new(self.plan.cycle * 4 / 3);
        match &mut self.backlog {
            Backlog::Threaded(egress) => {
                egress.receive(batch, self.now)?;
                egress.send(self.now)?;
                Ok(egress.sent())
            }
            Backlog::Queues { scheduler, queues, sent } => {
                for quantum in batch {
                    queues[quantum.flow as usize].push_back(*quantum);
                    scheduler.arrive(quantum.flow, Bytes::new(quantum.bytes.into()), self.now);
                }
                let room = Bytes::new(u64::from(self.plan.quantum) * self.plan.batch as u64);
                self.grants.clear();
                scheduler.cycle(room, self.now, &mut self.grants);
                sent.clear();
                sent.extend(self.grants.iter().filter_map(|(flow, _)| queues[*flow as usize].pop_front()));
                Ok(sent)
            }
        }
    }
}
