//! Which flow sends how many bytes in a cycle. It knows flows, bytes and times, but neither packets nor wires.
//!
//! A flow has a rate *r*, a burst *s* and a peak *R*. In a cycle of length *T* it gets at most `R * T` bytes, its quantum. In a service cycle of length
//! `s / r` it gets at most *s* bytes, its credit. A flow without credit is not eligible until its service cycle ends.
//!
//! **When a service cycle begins.** The paper lets it begin at the first quantum after the former one ended. That is up to a cycle late each time, so a flow
//! whose service cycle is not a multiple of *T* would get less than its rate. Here it begins when a fluid server would begin to serve: at the end of the
//! former one or at the arrival of packets, the later of both. So the lag behind the fluid server does not add up. For the same reason bytes that
//! wait at the end of a service cycle use up to a quantum of its credit afterwards. More credit does not accumulate: a service cycle that the link
//! missed as a whole is lost.
//!
//! A cycle serves the flows in ascending order, and each at most once. The next flow is found in the intersection of two bitmaps.

use super::flow_sets::FlowSets;
use super::timers::ServiceTimers;
use crate::Wires;
use alloc::vec::Vec;
use units::{Bytes, Instant, Nanos, Rate};

/// The flow of packets without a share.
pub(super) const BEST_EFFORT: u32 = 0;
/// The first flow with a reservation.
pub(super) const FIRST_FLOW: u32 = 1;
/// Beyond all flows.
const NO_FLOW: u32 = u32::MAX;
/// Bit-nanoseconds of a byte: eight bits over a second.
const BYTE: u128 = 8_000_000_000;
/// A timer may end this much early, so that a service cycle of a whole number of cycles is over in time.
const TICK: Nanos = Nanos::new(1023);

/// Bytes of a flow that one cycle sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Grant {
    pub flow: u32,
    pub bytes: u32,
}

/// The bytes of a time at a rate, rounded up.
pub(super) fn bytes_in(rate: Rate, time: Nanos) -> u64 {
    (u128::from(rate.get()) * u128::from(time.get())).div_ceil(BYTE) as u64
}

/// A flow: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Flow {
    /// The most bytes of a cycle.
    quantum: u32,
    /// The credit of a new service cycle.
    burst: u32,
    credit: u32,
    /// The times at which it had bytes and no credit.
    misses: u32,
    /// Bytes that wait and were not granted.
    backlog: u64,
    /// The length of a service cycle.
    period: Nanos,
    /// When the present service cycle ends, or the last one ended.
    ends: Instant,
    /// The grants so far.
    quanta: u64,
    /// Bytes that were granted and have not left, because they are not a whole packet yet.
    granted: u32,
}

const _: () = assert!(size_of::<Flow>() == 64, "a flow is a cache line");

impl Flow {
    fn new() -> Flow {
        let (period, ends) = (Nanos::ZERO, Instant::START);
        Flow { quantum: 0, burst: 0, credit: 0, misses: 0, backlog: 0, period, ends, quanta: 0, granted: 0 }
    }
}

impl Flow {
    /// The end of the former service cycle, or now if the link missed a whole one. Its bytes may be late by a cycle.
    #[inline(always)]
    fn begin_at_end(&self, now: Instant, cycle: Nanos) -> Instant {
        if self.ends + self.period + cycle > now { self.ends } else { now }
    }

    /// Begins a service cycle.
    #[inline(always)]
    fn renew(&mut self, begins: Instant, late: u32) {
        (self.credit, self.ends) = (self.burst.saturating_add(late), begins + self.period);
    }
}

/// The reservation of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reservation {
    pub rate: Rate,
    /// The rate at which a burst leaves; not below `rate`.
    pub peak: Rate,
    pub burst: Bytes,
}

/// Counters of the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct CycleCounts {
    pub cycles: u64,
    pub quanta: u64,
    /// Timers that were started or ended.
    pub timers: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct QuantumAllocation {
    flows: Vec<Flow>,
    sets: FlowSets,
    /// The flows with reservations that are not eligible, by the ends of their service cycles.
    timers: ServiceTimers,
    cycle: Nanos,
    /// When the present cycle began: the time of all its grants, whenever the link asks for them.
    began: Instant,
    /// The next flow that the present cycle looks at; [`NO_FLOW`] between cycles.
    cursor: u32,
    /// The cycle begins with this flow, and ends before it. Not zero after a cycle that had too many bytes.
    start: u32,
    wrapped: bool,
    /// The present pass over the flows ends before this one: `start` if it has wrapped, otherwise [`NO_FLOW`].
    bound: u32,
    /// Bytes that the present cycle may still grant to flows with reservations.
    room: u64,
    best_effort_is_next: bool,
    /// The next flow that gets excess.
    excess_cursor: u32,
    pub counts: CycleCounts,
}

impl QuantumAllocation {
    /// Only best effort, with a quantum that follows with each cycle.
    pub fn new(cycle: Nanos) -> QuantumAllocation {
        let mut allocation = QuantumAllocation {
            flows: Vec::new(),
            sets: FlowSets::default(),
            timers: ServiceTimers::default(),
            cycle,
            began: Instant::START,
            cursor: NO_FLOW,
            start: 0,
            wrapped: false,
            bound: NO_FLOW,
            room: 0,
            best_effort_is_next: false,
            excess_cursor: 0,
            counts: CycleCounts::default(),
        };
        allocation.grow(1);
        allocation
    }

    /// Makes room for flows below `flows`.
    pub fn grow(&mut self, flows: usize) {
        if flows > self.flows.len() {
            self.flows.resize(flows, Flow::new());
            self.sets.grow(flows);
            self.timers.grow(flows);
        }
    }

    /// Prefetches a flow.
    #[inline(always)]
    pub fn prefetch<W: Wires>(&self, flow: u32, wires: &W) {
        if let Some(flow) = self.flows.get(flow as usize) {
            wires.prefetch(flow);
        }
    }

    /// Words of bitmaps read so far to find flows.
    pub fn reads(&self) -> u64 {
        self.sets.reads
    }

    /// Sets the length of a cycle. The caller reserves all flows anew.
    pub fn set_cycle(&mut self, cycle: Nanos) {
        self.cycle = cycle;
    }

    /// Gives a flow a reservation, from `now` on. A present service cycle goes on with at most the new credit.
    pub fn reserve(&mut self, flow: u32, reservation: &Reservation, now: Instant) {
        self.grow(flow as usize + 1);
        let Reservation { rate, peak, burst } = *reservation;
        // Less than a cycle's bytes would be less than the rate: one service cycle follows another in each cycle at best.
        let burst = burst.get().max(bytes_in(rate, self.cycle)).clamp(1, u32::MAX.into());
        let period = (u128::from(burst) * BYTE / u128::from(rate.get().max(1))).min(u64::MAX.into()) as u64;
        let quantum = bytes_in(peak.max(rate), self.cycle).clamp(1, u32::MAX.into());
        let state = &mut self.flows[flow as usize];
        self.timers.stop(flow, state.ends);
        (state.quantum, state.burst, state.period) = (quantum as u32, burst as u32, Nanos::new(period));
        state.credit = state.credit.min(burst as u32);
        state.ends = state.ends.min(now + state.period);
        let is_eligible = state.credit > 0 || state.ends <= now;
        self.sets.set_eligible(flow, is_eligible);
        if !is_eligible {
            self.start_timer(flow);
        }
    }

    /// Takes the reservation from a flow without backlog.
    pub fn release(&mut self, flow: u32) {
        self.timers.stop(flow, self.flows[flow as usize].ends);
        self.sets.set_backlogged(flow, false);
        self.sets.set_eligible(flow, false);
        self.flows[flow as usize] = Flow::new();
    }

    fn start_timer(&mut self, flow: u32) {
        self.counts.timers += 1;
        self.timers.start(flow, self.flows[flow as usize].ends);
    }

    /// Sets the bytes of a flow that wait and were not granted.
    #[inline(always)]
    pub fn set_backlog(&mut self, flow: u32, bytes: u64, now: Instant) {
        let cycle = self.cycle;
        let state = &mut self.flows[flow as usize];
        let before = core::mem::replace(&mut state.backlog, bytes);
        if bytes > before && now >= state.ends && flow != BEST_EFFORT {
            // A fluid server has sent the late bytes in the former service cycle. With more bytes it began the next one at its end.
            let late = u64::from(state.credit.min(state.quantum)).min(before);
            let begins = if before > late { state.begin_at_end(now, cycle) } else { now };
            if !self.sets.is_eligible(flow) {
                self.timers.stop(flow, state.ends);
                self.sets.set_eligible(flow, true);
            }
            state.renew(begins, late as u32);
        }
        if flow != BEST_EFFORT && (before == 0) != (bytes == 0) {
            state.misses += u32::from(bytes > 0 && now < state.ends && state.credit == 0);
            self.sets.set_backlogged(flow, bytes > 0);
        }
    }

    /// The bytes of a flow that wait and were not granted.
    #[inline(always)]
    pub fn backlog(&self, flow: u32) -> u64 {
        self.flows[flow as usize].backlog
    }

    /// The bytes of a flow that were granted and have not left.
    #[inline(always)]
    pub fn granted(&self, flow: u32) -> u32 {
        self.flows[flow as usize].granted
    }

    /// Sets the bytes of a flow that were granted and have not left.
    #[inline(always)]
    pub fn set_granted(&mut self, flow: u32, bytes: u32) {
        self.flows[flow as usize].granted = bytes;
    }

    /// Begins a cycle that may grant `room` bytes, of which best effort gets up to `best_effort`, after the flows with reservations.
    #[inline]
    pub fn begin_cycle(&mut self, room: u64, best_effort: u32, now: Instant) {
        self.counts.cycles += 1;
        if self.timers.is_due(now) {
            let flows = &self.flows;
            self.timers.expire(
                now,
                |flow| flows[flow as usize].ends,
                |word, ended| {
                    self.counts.timers += u64::from(ended.count_ones());
                    self.sets.add_eligible(word, ended);
                },
            );
        }
        self.began = now;
        self.cursor = self.start;
        self.wrapped = self.start == 0;
        self.bound = NO_FLOW;
        self.room = room.saturating_sub(best_effort.into());
        self.best_effort_is_next = true;
        self.flows[BEST_EFFORT as usize].quantum = best_effort;
    }

    /// True while the present cycle may have more grants.
    #[inline(always)]
    pub fn is_in_cycle(&self) -> bool {
        self.best_effort_is_next
    }

    /// The next flow of the present cycle and its bytes. None at the end of the cycle.
    #[inline(always)]
    pub fn next_grant(&mut self) -> Option<Grant> {
        let found = self.sets.next_ready(self.cursor);
        match found {
            Some(flow) if flow < self.bound && self.room > 0 => Some(self.grant(flow)),
            found => self.next_grant_at_end(found),
        }
    }

    /// The same if the present pass over the flows ends, with the flow that was found.
    #[inline(never)]
    fn next_grant_at_end(&mut self, mut found: Option<u32>) -> Option<Grant> {
        while self.cursor != NO_FLOW {
            match found.filter(|flow| *flow < self.bound) {
                Some(flow) if self.room == 0 => {
                    // The reservations are more than the link: the next cycle goes on here, so that all are served in turn.
                    (self.start, self.cursor) = (flow, NO_FLOW);
                    break;
                }
                Some(flow) => return Some(self.grant(flow)),
                None if self.wrapped => (self.start, self.cursor) = (0, NO_FLOW),
                None => (self.wrapped, self.bound, self.cursor) = (true, self.start, 0),
            }
            found = self.sets.next_ready(self.cursor);
        }
        if !core::mem::take(&mut self.best_effort_is_next) {
            return None;
        }
        let state = &mut self.flows[BEST_EFFORT as usize];
        let bytes = u64::from(state.quantum).min(state.backlog);
        state.backlog -= bytes;
        if bytes == 0 {
            return None;
        }
        state.quanta += 1;
        self.counts.quanta += 1;
        Some(Grant { flow: BEST_EFFORT, bytes: bytes as u32 })
    }

    #[inline(always)]
    fn grant(&mut self, flow: u32) -> Grant {
        self.cursor = flow + 1;
        let (now, cycle) = (self.began, self.cycle);
        let state = &mut self.flows[flow as usize];
        if now + TICK >= state.ends {
            // A fluid server would have sent this much in the former service cycle: it is late by a quantum at most, because cycles are discrete.
            let late = state.credit.min(state.quantum);
            if state.backlog > late.into() {
                state.renew(state.begin_at_end(now, cycle), late);
            }
        }
        let bytes = u64::from(state.quantum.min(state.credit)).min(state.backlog).min(self.room);
        self.room -= bytes;
        state.credit -= bytes as u32;
        state.backlog -= bytes;
        state.quanta += 1;
        self.counts.quanta += 1;
        let (is_empty, is_spent) = (state.backlog == 0, state.credit == 0);
        if is_spent {
            state.misses += u32::from(!is_empty);
            self.sets.set_eligible(flow, false);
            self.start_timer(flow);
        }
        if is_empty {
            self.sets.set_backlogged(flow, false);
        }
        Grant { flow, bytes: bytes as u32 }
    }

    /// The next flow with a reservation that has bytes which were not granted, in turn.
    #[inline]
    pub fn next_excess(&mut self) -> Option<u32> {
        let cursor = self.excess_cursor;
        let found = self.sets.next_backlogged(cursor).or_else(|| self.sets.next_backlogged(0))?;
        self.excess_cursor = found + 1;
        Some(found)
    }

    /// The credit of a flow, its grants, and how often it had bytes but no credit.
    pub fn state(&self, flow: u32) -> (u32, u64, u32) {
        self.flows.get(flow as usize).map_or((0, 0, 0), |flow| (flow.credit, flow.quanta, flow.misses))
    }
}
