//! The egress side of a trial: the backlog of quanta and the order in which they leave.

use schemes::ShareParameters;
use schemes::dfq::{Quantum, QuantumScheduler, ThreadedBacklog};
use serde::Deserialize;
use std::cell::Cell;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use units::{Bytes, Instant, Nanos, Rate};

/// The scheduler of the egress link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuantaOrder {
    /// The cycles of `dfq`.
    Dfq,
    /// By finish times in a binary heap of all flows with packets: the baseline.
    Heap,
    /// In the order of arrival, in one queue: each quantum is a packet, and needs a transfer of its own.
    Fifo,
}

/// The finish time of a flow. It counts its comparisons.
struct FinishTime {
    finish: u64,
    flow: u32,
    comparisons: Rc<Cell<u64>>,
}

impl Ord for FinishTime {
    fn cmp(&self, other: &FinishTime) -> Ordering {
        self.comparisons.set(self.comparisons.get() + 1);
        (self.finish, self.flow).cmp(&(other.finish, other.flow))
    }
}

impl PartialOrd for FinishTime {
    fn partial_cmp(&self, other: &FinishTime) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for FinishTime {
    fn eq(&self, other: &FinishTime) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for FinishTime {}

/// Self-clocked fair queueing of flows with equal weights. A quantum finishes one unit after the former one of its flow, or after the virtual time, the later
/// of both. The virtual time is the finish time of the quantum that left last.
#[derive(Default)]
struct FinishHeap {
    heap: BinaryHeap<Reverse<FinishTime>>,
    /// By flow: the quanta that wait, and the finish time of the last one that was entered.
    flows: Vec<(u32, u64)>,
    now: u64,
    comparisons: Rc<Cell<u64>>,
    /// Arrivals and grants, which change a flow each.
    changes: u64,
}

impl FinishHeap {
    fn enter(&mut self, flow: u32) {
        let last = &mut self.flows[flow as usize].1;
        *last = self.now.max(*last) + 1;
        let comparisons = Rc::clone(&self.comparisons);
        self.heap.push(Reverse(FinishTime { finish: *last, flow, comparisons }));
    }

    fn arrive(&mut self, flow: u32) {
        self.changes += 1;
        let waiting = &mut self.flows[flow as usize].0;
        *waiting += 1;
        if *waiting == 1 {
            self.enter(flow);
        }
    }

    /// Up to `most` flows, each once.
    fn cycle(&mut self, most: usize) -> Vec<u32> {
        let mut sent = Vec::with_capacity(most);
        while sent.len() < most
            && let Some(Reverse(first)) = self.heap.pop()
        {
            self.now = first.finish;
            self.changes += 1;
            sent.push(first.flow);
        }
        for flow in &sent {
            self.flows[*flow as usize].0 -= 1;
            if self.flows[*flow as usize].0 > 0 {
                self.enter(*flow);
            }
        }
        sent
    }
}

enum Scheduler {
    Dfq(Box<QuantumScheduler>),
    Heap(FinishHeap),
    Fifo(VecDeque<Quantum>),
}

/// `flows` flows from 1, each with a reservation of a quantum in a cycle and of two quanta in the time in which all flows send twice.
pub(super) fn reserved(flows: u32, quantum: Bytes, most: usize, cycle: Nanos) -> QuantumScheduler {
    let mut scheduler = QuantumScheduler::new(cycle);
    let cycles = f64::from(flows).max(most as f64) / most as f64;
    let peak = quantum.rate_within(cycle).get();
    let rate = Rate::bits((peak as f64 / cycles) as u64);
    let (burst, delay) = (Bytes::new(2 * quantum.get()), Nanos::new(2 * cycle.get()));
    let parameters = ShareParameters { rate, burst, delay, ..ShareParameters::default() };
    (1..=flows).for_each(|flow| scheduler.reserve(flow, &parameters, Instant::START));
    scheduler
}

/// See the [module](self).
pub(super) struct Egress {
    backlog: ThreadedBacklog,
    scheduler: Scheduler,
    quantum: Bytes,
    /// The quanta of a batch at most.
    most: usize,
    sent: Vec<Quantum>,
    /// By flow: the place after its last quantum that left.
    next: Vec<u32>,
    counts: EgressCounts,
}

/// Counters of the egress side.
#[derive(Clone, Copy, Default)]
pub(super) struct EgressCounts {
    pub arrived: u64,
    pub sent: u64,
    /// Quanta that left after a later one of their flow.
    pub reordered: u64,
    pub operations: u64,
    pub visits: u64,
    /// Transfers of one for each batch, and of one for each quantum.
    pub transfers: (u64, u64),
    /// Runs of the summaries after each batch.
    pub runs: u64,
}

impl Egress {
    /// `flows` flows, with [`reserved`] rates.
    pub fn new(order: QuantaOrder, flows: u32, quantum: Bytes, most: usize, cycle: Nanos) -> Egress {
        let scheduler = match order {
            QuantaOrder::Dfq => Scheduler::Dfq(Box::new(reserved(flows, quantum, most, cycle))),
            QuantaOrder::Heap => {
                Scheduler::Heap(FinishHeap { flows: vec![(0, 0); flows as usize + 1], ..FinishHeap::default() })
            }
            QuantaOrder::Fifo => Scheduler::Fifo(VecDeque::new()),
        };
        Egress {
            backlog: ThreadedBacklog::new(flows + 1),
            scheduler,
            quantum,
            most,
            sent: Vec::with_capacity(most),
            next: vec![0; flows as usize + 1],
            counts: EgressCounts::default(),
        }
    }

    /// The counters so far.
    pub fn counts(&self) -> EgressCounts {
        let operations = match &self.scheduler {
            Scheduler::Dfq(scheduler) => scheduler.operations(),
            Scheduler::Heap(heap) => heap.changes + heap.comparisons.get(),
            Scheduler::Fifo(_) => self.counts.arrived + self.counts.sent,
        };
        let transfers = match &self.scheduler {
            Scheduler::Fifo(_) => (self.counts.arrived, self.counts.arrived),
            _ => (self.backlog.transfers().batches, self.backlog.transfers().quanta),
        };
        EgressCounts { operations, transfers, visits: self.backlog.visits(), ..self.counts }
    }

    /// The quanta that wait, by the summary of the backlog.
    pub fn waiting(&self) -> u64 {
        match &self.scheduler {
            Scheduler::Fifo(queue) => queue.len() as u64,
            _ => self.backlog.summary().total(),
        }
    }

    /// Threads a batch into the backlog.
    ///
    /// # Errors
    ///
    /// Its flows do not ascend, or are beyond the link.
    pub fn receive(&mut self, batch: &[Quantum], now: Instant) -> Result<(), String> {
        self.counts.arrived += batch.len() as u64;
        if let Scheduler::Fifo(queue) = &mut self.scheduler {
            queue.extend(batch);
            return Ok(());
        }
        self.backlog.thread(batch).map_err(|error| error.to_string())?;
        self.counts.runs += self.backlog.summary().runs().len() as u64;
        for quantum in batch {
            match &mut self.scheduler {
                Scheduler::Dfq(scheduler) => scheduler.arrive(quantum.flow, Bytes::new(quantum.bytes.into()), now),
                Scheduler::Heap(heap) => heap.arrive(quantum.flow),
                Scheduler::Fifo(_) => {}
            }
        }
        Ok(())
    }

    /// The quanta of the last cycle.
    pub fn sent(&self) -> &[Quantum] {
        &self.sent
    }

    /// One cycle: the number of quanta that leave.
    ///
    /// # Errors
    ///
    /// A grant is no quantum, or of a flow without packets.
    pub fn send(&mut self, now: Instant) -> Result<usize, String> {
        self.sent.clear();
        let mut flows: Vec<u32> = match &mut self.scheduler {
            Scheduler::Fifo(queue) => {
                self.sent.extend(queue.drain(..queue.len().min(self.most)));
                self.count_sent();
                return Ok(self.sent.len());
            }
            Scheduler::Dfq(scheduler) => {
                let mut grants = Vec::with_capacity(self.most);
                scheduler.cycle(Bytes::new(self.quantum.get() * self.most as u64), now, &mut grants);
                if let Some((flow, bytes)) = grants.iter().find(|grant| grant.1 != self.quantum) {
                    return Err(format!("flow {flow} was granted {bytes} and not a quantum"));
                }
                grants.into_iter().map(|grant| grant.0).collect()
            }
            Scheduler::Heap(heap) => heap.cycle(self.most),
        };
        // A cycle may begin with any flow. A batch ascends.
        flows.sort_unstable();
        let mut granted = flows.iter().peekable();
        self.backlog.cycle(|quantum| granted.next_if_eq(&&quantum.flow).is_some(), &mut self.sent);
        if let Some(flow) = granted.next() {
            return Err(format!("flow {flow} was granted a quantum that it does not have"));
        }
        self.count_sent();
        Ok(self.sent.len())
    }

    /// Counts the quanta of a cycle.
    fn count_sent(&mut self) {
        for quantum in &self.sent {
            let next = &mut self.next[quantum.flow as usize];
            self.counts.reordered += u64::from(quantum.place < *next);
            *next = quantum.place + 1;
        }
        self.counts.sent += self.sent.len() as u64;
    }
}
