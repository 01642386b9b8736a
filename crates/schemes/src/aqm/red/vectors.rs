//! Values from the paper of Floyd and Jacobson (1993), and some computed by hand from it, each with its section.

use super::*;

fn average(memory: &RedMemory) -> f64 {
    memory.average as f64 / ONE as f64
}

fn weight(millionths: u32) -> u64 {
    fixed(Parts::millionths(millionths))
}

/// The average after arrivals that found these queue lengths.
fn after(weight: u64, waiting: impl Iterator<Item = u32>) -> f64 {
    let mut memory = RedMemory::default();
    waiting.for_each(|waiting| {
        // In the paper no time passes while packets wait, and the arriving packet counts.
        memory.update(weight, waiting, Instant::START, Rate::mbit(10), Bytes::new(500));
    });
    average(&memory)
}

#[test]
fn red_average_stays_below_5_during_burst_of_50_packets() {
    // Section 6.1, equation (2): L + 1 + ((1 - w)^(L+1) - 1) / w for a burst of L packets. "Given a minimum threshold of 5, and
    // given that we would like to allow bursts of 50 packets, w should be chosen less than 0.0042."
    let burst = |millionths| after(weight(millionths), 1..=50);
    assert!((burst(4_200) - 5.0).abs() < 0.05 && burst(4_100) < 5.0 && burst(4_300) > 5.0, "{}", burst(4_200));
    // w = 0.001, L = 100: 101 + (0.999^101 - 1) / 0.001 = 101 - 96.1127 = 4.887.
    assert!((after(weight(1_000), 1..=100) - 4.887).abs() < 0.001);
}

#[test]
fn red_average_follows_queue_at_configured_weight() {
    // Section 6.2: from 0 to 1 the average takes -1 / ln(1 - w) packets to reach 0.63: 1000 with 0.001, 500 with 0.002, 333 with 0.003.
    for (millionths, packets) in [(1_000, 1000), (2_000, 500), (3_000, 333)] {
        let reached = after(weight(millionths), core::iter::repeat_n(1, packets));
        assert!((reached - 0.632).abs() < 0.001, "{millionths}: {reached}");
    }
}

#[test]
fn red_average_decays_while_queue_is_idle() {
    // Figure 2: avg (1 - w)^m, m = idle time / s. 10 packets at w = 0.002 over 500 packet times: 10 * 0.998^500 = 3.675.
    let (rate, mean) = (Rate::mbit(10), Bytes::new(500));
    let at = |micros| Instant::START + units::Nanos::micros(micros);
    let mut memory = RedMemory { average: 10 * ONE, ..RedMemory::default() };
    memory.mark_busy(at(0));
    // 400 us each; a fraction of a packet time counts once it is complete.
    memory.update(weight(2_000), 0, at(200_399), rate, mean);
    assert!((average(&memory) - 3.675).abs() < 0.001, "{}", average(&memory));
    // The queue was busy since: only time after it became empty again counts.
    memory.mark_busy(at(900_000));
    memory.update(weight(2_000), 0, at(900_000), rate, mean);
    assert!((average(&memory) - 3.675).abs() < 0.001);
    memory.update(weight(2_000), 0, at(900_001), rate, mean);
    assert!((average(&memory) - 3.675 * 0.998).abs() < 0.001);
    // Refused packets leave the queue empty. They neither hide idle time nor make it count twice: 500 packet times in steps of a third.
    (1..=1500).for_each(|third| memory.update(weight(2_000), 0, at(900_001 + third * 400 / 3), rate, mean));
    assert!((average(&memory) - 3.675 * 0.998 * 0.3675).abs() < 0.003, "{}", average(&memory));
}

#[test]
fn average_is_reset_after_an_idle_second_on_any_link() {
    let (rate, mean) = (Rate::bits(10_000), Bytes::new(500));
    let mut memory = RedMemory { average: 100 * ONE, ..RedMemory::default() };
    memory.mark_busy(Instant::START);
    // 400 ms each: two packet times leave nearly all of the average.
    memory.update(weight(2_000), 0, Instant::START + Nanos::millis(999), rate, mean);
    assert!((average(&memory) - 99.6).abs() < 0.01, "{}", average(&memory));
    memory.update(weight(2_000), 0, Instant::START + Nanos::millis(1000), rate, mean);
    assert_eq!(average(&memory), 0.0);
}

#[test]
fn red_probability_is_linear_between_thresholds() {
    // Figure 2: maxp (avg - min) / (max - min), with min 5, max 15 and maxp 1/50 (section 8).
    let red = Red { gentle: false, ..Red::new(5, 15, Parts::percent(2), Parts::millionths(2_000), 1000, 1) };
    let base = |tenths: u64| red.base_probability(tenths * ONE / 10).map(|part| part as f64 / ONE as f64);
    assert_eq!(base(49), None);
    for (tenths, expected) in [(50, 0.0), (75, 0.005), (100, 0.01), (149, 0.0198), (150, 1.0)] {
        let found = base(tenths).expect("it is above the least");
        assert!((found - expected).abs() < 1e-6, "{tenths}: {found} and not {expected}");
    }
}

#[test]
fn red_marks_match_probability_and_are_evenly_spaced() {
    // Section 7, method 2: with pb the gaps are uniform from 1 to 1/pb. The pseudocode counts the packet behind a mark, so its gaps are one shorter.
    // pb = 1/50: 1 to 49, so the marked part is 49 / 2450.
    let mut red = Red::new(5, 15, Parts::percent(4), Parts::millionths(2_000), 1000, 5);
    let mut memory = RedMemory { average: 10 * ONE, ..RedMemory::default() };
    let (mut gaps, mut gap) = ([0u32; 50], 0);
    for _ in 0..200_000 {
        gap += 1;
        if red.decide(&mut memory, 1500) == RedDecision::Hit {
            gaps[gap] += 1;
            gap = 0;
        }
    }
    let marks: u32 = gaps.iter().sum();
    assert!((7_900..8_100).contains(&marks), "one in 25: {marks}");
    assert!(gaps[1..].iter().all(|count| (110..220).contains(count)), "each 163 times or so: {gaps:?}");
}
