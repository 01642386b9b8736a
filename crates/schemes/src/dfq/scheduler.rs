//! The cycles of quanta without packets: for links between routers that send the quanta themselves, and for counts of the work.

use super::grants::{FIRST_FLOW, QuantumAllocation, Reservation};
use crate::ShareParameters;
use alloc::vec::Vec;
use units::{Bytes, Instant, Nanos, Rate};

/// Grants quanta to flows, as the scheme `dfq` does for packets. Flows are numbered from 1.
#[derive(Debug)]
pub struct QuantumScheduler {
    allocation: QuantumAllocation,
    arrivals: u64,
}

impl QuantumScheduler {
    /// No flows. A cycle has this length.
    pub fn new(cycle: Nanos) -> QuantumScheduler {
        QuantumScheduler { allocation: QuantumAllocation::new(cycle), arrivals: 0 }
    }

    /// Gives a flow a reservation: its rate, burst and delay. Its quantum is a cycle's bytes of [`ShareParameters::peak`].
    pub fn reserve(&mut self, flow: u32, parameters: &ShareParameters, now: Instant) {
        assert!(flow >= FIRST_FLOW, "flow 0 is best effort");
        let (rate, peak) = (parameters.rate.max(Rate::bits(1)), parameters.peak());
        self.allocation.reserve(flow, &Reservation { rate, peak, burst: parameters.burst }, now);
    }

    /// Adds bytes to the backlog of a flow with a reservation.
    pub fn arrive(&mut self, flow: u32, bytes: Bytes, now: Instant) {
        self.arrivals += 1;
        self.allocation.set_backlog(flow, self.allocation.backlog(flow) + bytes.get(), now);
    }

    /// One cycle: appends the flows that send in it, with their bytes, which are `room` together at most.
    pub fn cycle(&mut self, room: Bytes, now: Instant, grants: &mut Vec<(u32, Bytes)>) {
        self.allocation.begin_cycle(room.get(), 0, now);
        grants.extend(
            core::iter::from_fn(|| self.allocation.next_grant())
                .map(|grant| (grant.flow, Bytes::new(grant.bytes.into()))),
        );
    }

    /// The operations so far: arrivals and grants, which change a flow each; words of bitmaps read; timers that were started or ended.
    pub fn operations(&self) -> u64 {
        let counts = &self.allocation.counts;
        self.arrivals + counts.quanta + counts.timers + self.allocation.reads()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycle_grants_a_quantum_to_each_flow_with_packets_and_credit() {
        let cycle = Nanos::micros(100);
        let mut scheduler = QuantumScheduler::new(cycle);
        // 64 bytes a cycle, and credit for two of them in four cycles.
        let (rate, burst, delay) = (Rate::bits(2_560_000), Bytes::new(128), Nanos::micros(200));
        let parameters = ShareParameters { rate, burst, delay, ..ShareParameters::default() };
        (1..=5).for_each(|flow| scheduler.reserve(flow, &parameters, Instant::START));
        for flow in [1, 3, 5] {
            scheduler.arrive(flow, Bytes::new(192), Instant::START);
        }
        let sent = |scheduler: &mut QuantumScheduler, number: u64| {
            let mut grants = Vec::new();
            scheduler.cycle(Bytes::new(128), Instant::START + Nanos::micros(100 * number), &mut grants);
            assert!(grants.iter().all(|grant| grant.1 == Bytes::new(64)), "{grants:?}");
            grants.into_iter().map(|grant| grant.0).collect::<Vec<u32>>()
        };
        // A cycle has room for two. The next one goes on with the third flow.
        assert_eq!(sent(&mut scheduler, 0), [1, 3]);
        assert_eq!(sent(&mut scheduler, 1), [5, 1]);
        assert_eq!(sent(&mut scheduler, 2), [3, 5]);
        assert_eq!(sent(&mut scheduler, 3), [0; 0], "no flow has credit");
        assert_eq!(sent(&mut scheduler, 4), [1, 3]);
        assert!(scheduler.operations() >= 3 + 8 + 6, "arrivals, grants and timers");
    }
}
