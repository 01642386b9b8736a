//! Values computed by hand from the text of RFC 8033, each with its section.

use super::*;

const MS: fn(u64) -> Nanos = Nanos::millis;

/// The probability after one update, in parts of 10^9. `before` is the old probability; the delay was `old` and is now `delay`.
fn updated(before: u64, old: Nanos, delay: Nanos) -> f64 {
    let pie = Pie::new(MS(15), MS(15), 1000, 1);
    let probability = (i128::from(before) * i128::from(ONE) / 1_000_000_000) as i64;
    let mut memory = PieMemory { probability, delay, previous_delay: old, ..PieMemory::default() };
    pie.update(&mut memory);
    memory.probability as f64 / ONE as f64 * 1e9
}

fn check(before: u64, old: Nanos, delay: Nanos, expected: f64) {
    let found = updated(before, old, delay);
    assert!((found - expected).abs() < 1e-3, "{before} after {old} and {delay}: {found} and not {expected}");
}

#[test]
fn pie_scales_update_by_probability_table() {
    // Section 4.2: alpha (25 - 15) ms + beta (25 - 10) ms = 0.125 * 0.010 + 1.25 * 0.015 = 0.02, divided by the value of the row.
    for (before, by) in [
        (0, 2048.0),
        (999, 2048.0),
        (1_000, 512.0),
        (9_999, 512.0),
        (10_001, 128.0),
        (99_999, 128.0),
        (100_001, 32.0),
        (999_999, 32.0),
        (1_000_001, 8.0),
        (9_999_999, 8.0),
        (10_000_001, 2.0),
        (99_999_999, 2.0),
        (100_000_001, 1.0),
        (700_000_000, 1.0),
    ] {
        check(before, MS(10), MS(25), before as f64 + 0.02e9 / by);
    }
}

#[test]
fn pie_update_matches_rfc8033_vectors() {
    // 0.005: the row of 8. 0.02 / 8 = 0.0025.
    check(5_000_000, MS(10), MS(25), 7_500_000.0);
    // The same delay as before, 10 ms above the reference: alpha alone. 0.125 * 0.010 = 0.00125.
    check(200_000_000, MS(25), MS(25), 201_250_000.0);
    // At the reference, from above: beta alone. 1.25 * -0.020 = -0.025.
    check(200_000_000, MS(35), MS(15), 175_000_000.0);
    // Below it and falling: 0.125 * -0.010 + 1.25 * -0.005 = -0.0075, halved in the row of 2.
    check(50_000_000, MS(10), MS(5), 46_250_000.0);
}

#[test]
fn pie_probability_is_clamped_to_0_and_1() {
    // 0.125 * -0.015 + 1.25 * -0.040 = -0.051875 of 0.03, in the row of 2: -0.0259375.
    check(30_000_000, MS(40), Nanos::ZERO, 4_062_500.0);
    check(20_000_000, MS(40), Nanos::ZERO, 0.0);
    check(1_000_000_000, MS(10), MS(25), 1_000_000_000.0);
}

#[test]
fn pie_step_is_at_most_2_percent_above_10_percent() {
    // Section 5.5. 0.125 * 0.085 + 1.25 * 0.090 = 0.123125.
    check(100_000_000, MS(10), MS(100), 120_000_000.0);
    // Below 0.1 the step counts in full, halved by its row.
    check(90_000_000, MS(10), MS(100), 151_562_500.0);
}

#[test]
fn pie_probability_decays_by_2_percent_while_queue_is_empty() {
    // Section 4.2: 0.5 + 0.125 * -0.015 = 0.498125, times 0.98.
    check(500_000_000, Nanos::ZERO, Nanos::ZERO, 488_162_500.0);
    // Only if the delay was zero before, too: -0.001875 - 1.25 * 0.001 = -0.003125.
    check(500_000_000, MS(1), Nanos::ZERO, 496_875_000.0);
}

#[test]
fn pie_burst_allowance_lasts_ten_updates_and_is_restored() {
    // Section 4.4.
    let pie = Pie::new(MS(15), MS(15), 1000, 1);
    let mut memory = PieMemory { allowance: MS(150), ..PieMemory::default() };
    let updates = |memory: &mut PieMemory, delay: Nanos, count: u64| {
        for _ in 0..count {
            memory.delay = delay;
            pie.update(memory);
        }
    };
    updates(&mut memory, MS(30), 9);
    assert_eq!(memory.allowance, MS(15));
    updates(&mut memory, MS(30), 1);
    assert_eq!(memory.allowance, Nanos::ZERO);
    // Short delay once, but not before; then twice, but the probability is not zero.
    memory.probability = ONE / 2;
    updates(&mut memory, MS(7), 2);
    assert_eq!(memory.allowance, Nanos::ZERO);
    memory.probability = 0;
    updates(&mut memory, MS(7), 1);
    assert_eq!(memory.allowance, MS(150));
    // Half of the reference is 7.5 ms: a delay of that is not below it.
    memory.allowance = Nanos::ZERO;
    updates(&mut memory, Nanos::micros(7500), 2);
    assert_eq!(memory.allowance, Nanos::ZERO);
}

#[test]
fn pie_derandomization_bounds_distance_between_drops() {
    // Section 5.4: with a probability of 1/20 at least 17 packets pass (0.85). After 170 (8.5) one is dropped in any case.
    let mut node = Pie::new(MS(15), MS(15), 1000, 3);
    let mut model = crate::model::Model::default();
    let mut scheme = crate::single::Single::new(node.clone());
    model.arrive(&mut scheme, &[1500; 4]);
    let mut memory = PieMemory { probability: ONE / 20 + 1, previous_delay: MS(30), ..PieMemory::default() };
    let (mut gaps, mut gap) = (alloc::vec::Vec::new(), 0);
    while gaps.len() < 2000 {
        gap += 1;
        let queue = units::QueueId(0);
        let waiting = model.size(queue);
        if node.is_selected(&mut memory, &QueueContext { backlog: Bytes::ZERO, queue, waiting, wires: &mut model }) {
            gaps.push(gap);
            gap = 0;
        }
    }
    let (least, most) = (gaps.iter().min(), gaps.iter().max());
    assert_eq!(least, Some(&17), "{gaps:?}");
    assert!(most <= Some(&170), "{gaps:?}");
    // From the 17th on each packet is dropped with probability 1/20: 16 packets and, on average, 20 more.
    let mean = gaps.iter().sum::<u32>() as f64 / gaps.len() as f64;
    assert!((34.8..37.2).contains(&mean), "{mean}");
}
