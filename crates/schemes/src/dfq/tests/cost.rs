//! The cost of a quantum does not depend on the number of flows. The tests count operations instead of measuring time.

use super::*;
use crate::sched::wf2q_counted::comparisons_per_packet;

/// The mean operations of a quantum: words of bitmaps read, timers, and accesses to queues, of an arrival and a departure.
fn operations_per_quantum(flows: u32, is_sparse: bool) -> f64 {
    let rate = Rate::bits(10_000_000_000);
    let link = LinkParameters { is_strict: true, ..LINK };
    // A quantum is a packet. After two of them the credit is spent.
    let quantum = (bytes_in(rate, link.cycle) * 95 / 100 / u64::from(flows)).clamp(64, 1500);
    let peak = Rate::bits(quantum * 8_000_000);
    let parameters = ShareParameters { rate: Rate::bits(peak.get() / 3), ..share(peak, 2 * quantum, Nanos::millis(2)) };
    let edits: Vec<ShareEdit> = (1..=flows).map(|number| put(number, parameters)).collect();
    let mut one = Link::new(link, rate, &edits);
    // Sparse: every fifth flow has packets.
    let numbers = (1..=flows).step_by(if is_sparse { 5 } else { 1 });
    let busy: Vec<u32> = numbers.collect();
    let before = |one: &Link| {
        let CycleCounts { quanta, timers, .. } = one.scheme.allocation.counts;
        (one.scheme.allocation.reads() + timers + one.model.queue_accesses.get(), quanta)
    };
    let mut counted = (0, 0);
    for round in 0..24 {
        if round == 12 {
            counted = before(&one);
        }
        busy.iter().for_each(|share| one.arrive(*share, quantum as u32));
        let end = one.model.now + Nanos::micros(1500);
        one.run(&[], end);
    }
    let (operations, quanta) = before(&one);
    assert!(quanta - counted.1 >= 10 * busy.len() as u64, "{} quanta", quanta - counted.1);
    (operations - counted.0) as f64 / (quanta - counted.1) as f64
}

#[test]
fn operations_per_quantum_do_not_grow_with_the_number_of_flows() {
    for is_sparse in [false, true] {
        let found = [30, 300, 3000, 10_000].map(|flows| operations_per_quantum(flows, is_sparse));
        let least = found.iter().copied().fold(f64::MAX, f64::min);
        assert!(found.iter().all(|operations| *operations <= 1.1 * least), "{found:?} operations, sparse: {is_sparse}");
    }
    let others = [30, 10_000].map(comparisons_per_packet);
    assert!(others[1] >= 1.3 * others[0], "WF2Q+ compares {others:?} keys for a packet");
}
