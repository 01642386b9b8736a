//! The cost of a quantum of `dfq` beside that of a packet of WF2Q+ and DRR, and the cost of its summaries of batches.

use super::components::{nanos_per_operation, sequence};
use super::schemes::{Busy, PACKETS, built};
use super::{BenchFigure, Rounds, median};
use schemes::dfq::{FlowRun, Quantum, RunBitmap, ThreadedBacklog};
use schemes::{ShareEdit, ShareParameters};
use std::hint::black_box;
use units::{Bytes, Nanos, Rate, ShareId};

/// The numbers of flows.
const FLOWS: [usize; 4] = [30, 1000, 10_000, 100_000];
/// The bytes of a packet, which are a quantum.
const QUANTUM: u64 = 1000;
/// Packets that arrive together.
const BATCH: usize = 30;
/// Bit-nanoseconds of a byte.
const BYTE: u64 = 8_000_000_000;
const GROUP: &str = "dfq";

/// Flows that all send a packet in each cycle, with a quantum of a packet.
struct Cycles {
    busy: Busy,
    /// The batches of a measurement: those of a whole number of service cycles, which are two cycles. The timers of all flows end in it once.
    batches: usize,
    /// The time of a batch.
    step: Nanos,
}

impl Cycles {
    fn new(flows: usize) -> Cycles {
        // A cycle of a link of 10 Gbit/s has room for all, is not shorter than the shortest one, and is a whole number of microseconds: otherwise
        // service cycles end before their credit is spent, and no timers run.
        let packet = Nanos::new(50_000_u64.div_ceil(flows as u64).max(850).next_multiple_of(50));
        let cycle = Nanos::new(packet.get() * flows as u64);
        let scheme = built(&format!("dfq(rate=10gbit, cycle={}us, strict=on){{fifo}}", cycle.get() / 1000), flows + 1);
        let rate = Rate::bits(QUANTUM * BYTE / (cycle.get() / 1000 * 1000));
        // Credit for two quanta: every second one starts a timer.
        let burst = Bytes::new(2 * QUANTUM);
        let put = |share| ShareEdit::Put(ShareId(share), ShareParameters { rate, burst, ..ShareParameters::default() });
        let edits: Vec<ShareEdit> = (1..=flows as u32).map(put).collect();
        let batches = PACKETS.max(2 * flows).div_ceil(BATCH);
        Cycles { busy: Busy::of_shares(scheme, &edits, 2), batches, step: Nanos::new(packet.get() * BATCH as u64) }
    }

    fn cost(&mut self) -> f64 {
        let before = self.busy.waiting();
        let Cycles { batches, step, .. } = *self;
        let cost = nanos_per_operation(Rounds(1), batches * BATCH, || {
            (0..batches).for_each(|_| self.busy.pass(BATCH, step));
        });
        // At most a cycle of packets more or less wait: all others were sent.
        let flows = before.max(1);
        assert!(self.busy.waiting().abs_diff(before) <= flows, "{} packets wait after {before}", self.busy.waiting());
        cost
    }
}

/// All figures.
pub fn measure(rounds: Rounds) -> Vec<BenchFigure> {
    let mut figures = quanta(rounds);
    figures.extend([10, 100, 1000, 10_000].map(|runs| summaries(rounds, runs)).into_iter().flatten());
    figures.extend([30, 10_000].map(|flows| backlog(rounds, flows)));
    figures
}

/// A packet enqueued and dequeued, by three schemes in turns.
fn quanta(Rounds(rounds): Rounds) -> Vec<BenchFigure> {
    let mut cycles: Vec<Cycles> = FLOWS.map(Cycles::new).into();
    let others =
        ["wf2q", "drr"].map(|name| FLOWS.map(|flows| Busy::new(built(&format!("{name}{{fifo}}"), flows), flows, 2)));
    let mut others: Vec<Busy> = others.into_iter().flatten().collect();
    let mut costs: Vec<Vec<f64>> = Vec::new();
    for _ in 0..rounds * 4 {
        let dfq = cycles.iter_mut().map(Cycles::cost);
        let mut row: Vec<f64> = dfq.collect();
        let packets = PACKETS / BATCH * BATCH;
        row.extend(
            others.iter_mut().map(|busy| nanos_per_operation(Rounds(1), packets, || busy.batches(packets, BATCH))),
        );
        costs.push(row);
    }
    let of = |which: usize| median(costs.iter().map(|row| row[which]).collect());
    let mut figures = Vec::new();
    for (number, name) in ["dfq", "wf2q", "drr"].into_iter().enumerate() {
        for (at, flows) in FLOWS.iter().enumerate() {
            let budget = (name == "dfq" && *flows == 100_000).then_some(40.0);
            let name = format!("{name}: a quantum of {flows} flows");
            figures.push(BenchFigure::alone(GROUP, name, of(number * FLOWS.len() + at), "ns", budget));
        }
        let (first, last) = (number * FLOWS.len(), number * FLOWS.len() + FLOWS.len() - 1);
        let ratio = median(costs.iter().map(|row| row[last] / row[first]).collect());
        let budget = (name == "dfq").then_some(2.0);
        let title = format!("{name}: 100000 flows against 30");
        figures.push(BenchFigure::against(GROUP, title, (of(last), of(first), ratio), "ns", budget));
    }
    figures
}

/// A summary of so many runs over 100,000 flows, and one of a batch of half as many runs: merged, and subtracted again.
fn summaries(rounds: Rounds, runs: u32) -> [BenchFigure; 2] {
    let flows = 100_000;
    let of = |runs: u32, first: u32| {
        let run = |run: u32| FlowRun { flows: flows / runs, quanta: (run + first) % 2 };
        RunBitmap::from_runs((0..runs).map(run))
    };
    let (status, batch) = (of(runs, 1), of(runs / 2, 0));
    let mut merged = status.clone();
    let times = 20_000 / runs as usize + 1;
    let both = nanos_per_operation(rounds, times, || {
        for _ in 0..times {
            let done = merged.merge(&batch).and_then(|()| merged.subtract(&batch));
            assert!(done.is_ok(), "a batch that was merged is subtracted");
        }
    });
    assert_eq!(merged, status);
    let name = |what: &str| format!("summary of {runs} runs: {what}");
    [
        BenchFigure::alone(GROUP, name("merge and subtract a batch"), both, "ns", None),
        BenchFigure::alone(GROUP, name("of these, a run"), both / f64::from(runs), "ns", None),
    ]
}

/// Batches of 32 quanta threaded into a backlog, of which each cycle sends 32.
fn backlog(rounds: Rounds, flows: u32) -> BenchFigure {
    const QUANTA: usize = 32;
    let mut numbers = sequence(17);
    let mut batches: Vec<Vec<Quantum>> = Vec::new();
    for _ in 0..64 {
        let mut ids: Vec<u32> =
            numbers.by_ref().take(2 * QUANTA).map(|number| (number % u64::from(flows)) as u32).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.truncate(QUANTA);
        batches.push(ids.into_iter().map(|flow| Quantum { flow, bytes: 64, place: 0 }).collect());
    }
    let quanta: usize = batches.iter().map(Vec::len).sum();
    let mut backlog = ThreadedBacklog::new(flows);
    let mut sent = Vec::new();
    let cost = nanos_per_operation(rounds, quanta, || {
        for batch in &batches {
            assert!(backlog.thread(batch).is_ok(), "flows ascend");
            sent.clear();
            let mut left = batch.len();
            backlog.cycle(
                |_| {
                    let sends = left > 0;
                    left -= usize::from(sends);
                    sends
                },
                &mut sent,
            );
        }
    });
    black_box(&sent);
    BenchFigure::alone(GROUP, format!("backlog of {flows} flows: a quantum threaded and sent"), cost, "ns", None)
}
