//! The arithmetic of the batching throttle: how many packets amortise a switch to their task (Qie et al. 2001, section 4.2).

use units::{Nanos, Parts};

/// The number of packets from which on a switch to their task costs at most `overhead` of its work. It is the least B of at least 1 with `switch / (B
/// * packet) <= overhead`. If packets cost nothing, it is the largest number.
pub fn threshold(switch: Nanos, overhead: Parts, packet: Nanos) -> u32 {
    let work = u128::from(overhead.get()) * u128::from(packet.get());
    if work == 0 {
        return if switch == Nanos::ZERO { 1 } else { u32::MAX };
    }
    let packets = (u128::from(switch.get()) * 1_000_000).div_ceil(work);
    u32::try_from(packets).unwrap_or(u32::MAX).max(1)
}

/// The number that a task really waits for. A task whose queues hold fewer would wait forever, so the number is limited to their capacity, unless
/// `strict` is set.
pub fn effective_threshold(threshold: u32, input: u32, output: u32, strict: bool) -> u32 {
    if strict { threshold } else { threshold.min(input).min(output).max(1) }
}

/// True if a task waits for so many packets that its queue is more than half full by then: the next delay causes drops.
pub fn is_near_capacity(threshold: u32, capacity: u32) -> bool {
    u64::from(threshold) * 2 > u64::from(capacity)
}

/// The shortest slice in which a batch of `threshold` packets ends: `switch / overhead`, rounded up. Infinite for an overhead of zero, unless a
/// switch costs nothing either.
pub fn least_slice(switch: Nanos, overhead: Parts) -> Nanos {
    if switch == Nanos::ZERO {
        return Nanos::ZERO;
    }
    if overhead == Parts::default() {
        return Nanos::MAX;
    }
    let slice = (u128::from(switch.get()) * 1_000_000).div_ceil(u128::from(overhead.get()));
    Nanos::new(u64::try_from(slice).unwrap_or(u64::MAX))
}

/// The part of the processor that is left for work at this overhead: `1 / (1 + overhead)`, rounded down.
pub fn reachable_share(overhead: Parts) -> Parts {
    // At most a million.
    Parts::millionths((1_000_000_000_000u64 / (1_000_000 + u64::from(overhead.get()))) as u32)
}

/// The highest overhead at which the demand still fits: `1 / demand - 1`, rounded down. Zero if the demand takes the whole processor or more.
pub fn highest_overhead(demand: Parts) -> Parts {
    match u64::from(demand.get()) {
        0 => Parts::millionths(u32::MAX),
        1_000_000.. => Parts::default(),
        // At most 10^12 - 10^6, for a demand of one millionth.
        demand => Parts::millionths(u32::try_from(1_000_000_000_000 / demand - 1_000_000).unwrap_or(u32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: Nanos = Nanos::micros(3);

    /// The table of the paper's thirteen flows: costs of 1, 3 and 10 us at five overheads.
    #[test]
    fn throttle_thresholds_match_the_paper() {
        for (percent, expected) in
            [(30, [10, 4, 1]), (20, [15, 5, 2]), (10, [30, 10, 3]), (5, [60, 20, 6]), (2, [150, 50, 15])]
        {
            let b = [1, 3, 10].map(|us| threshold(SWITCH, Parts::percent(percent), Nanos::micros(us)));
            assert_eq!(b, expected, "{percent} %");
        }
    }

    #[test]
    fn throttle_slices_and_reachable_share_match_the_paper() {
        let slices = [30, 20, 10, 5, 2].map(|t| least_slice(SWITCH, Parts::percent(t)));
        assert_eq!(slices, [10, 15, 30, 60, 150].map(Nanos::micros));
        let reached = [30, 20, 10, 5, 2].map(|t| reachable_share(Parts::percent(t)).get() / 1000);
        assert_eq!(reached, [769, 833, 909, 952, 980]);
    }

    #[test]
    fn task_waits_for_at_most_its_queue_capacity_unless_strict() {
        let b = threshold(SWITCH, Parts::percent(2), Nanos::micros(1));
        assert_eq!(effective_threshold(b, 128, 128, false), 128);
        assert_eq!(effective_threshold(b, 512, 100, false), 100);
        assert_eq!(effective_threshold(b, 128, 128, true), 150);
        assert!(is_near_capacity(65, 128) && !is_near_capacity(64, 128));
    }

    #[test]
    fn zero_cost_and_zero_overhead_have_a_result() {
        assert_eq!(threshold(SWITCH, Parts::percent(10), Nanos::ZERO), u32::MAX);
        assert_eq!(threshold(SWITCH, Parts::default(), SWITCH), u32::MAX);
        assert_eq!(threshold(Nanos::ZERO, Parts::default(), Nanos::ZERO), 1);
        assert_eq!(least_slice(SWITCH, Parts::default()), Nanos::MAX);
        assert_eq!(least_slice(Nanos::ZERO, Parts::default()), Nanos::ZERO);
        assert_eq!(threshold(Nanos::MAX, Parts::millionths(1), Nanos::new(1)), u32::MAX);
        assert_eq!(least_slice(Nanos::MAX, Parts::millionths(1)), Nanos::MAX);
    }
}
