//! One connection over a link, compared with the theory of its sawtooth.

use super::dumbbell::Dumbbell;
use crate::tcp::application::TcpApplication;
use crate::tcp::{AckPolicy, Bbr, CongestionControl, Cubic, Dctcp, Reno, Settings};
use units::{Instant, Nanos};

/// The end of a tooth: its time in seconds, and the window.
pub type Tooth = (f64, f64);

/// Runs one bulk flow over a link with a transmission time of `service` per packet, a queue of `room` packets, and 100 ms of delay. Returns the
/// utilization and the teeth during `seconds` after `warm`.
pub fn saw(
    (settings, control): (Settings, Box<dyn CongestionControl>),
    (service, room): (Nanos, usize),
    (warm, seconds): (u64, u64),
) -> (f64, Vec<Tooth>, Dumbbell) {
    let mut world = Dumbbell::new(service, room, Nanos::millis(100));
    world.flow(settings, control, TcpApplication::Bulk);
    let warm = Instant::START + Nanos::secs(warm);
    world.run(warm, |_, _, _| ());
    let begun = world.left;
    let (mut teeth, mut recoveries, mut window) = (Vec::new(), world.flows[0].sender.counters().recoveries, 0.0);
    world.run(warm + Nanos::secs(seconds), |now, _, flow| {
        let told = flow.sender.counters();
        if told.recoveries > recoveries {
            recoveries = told.recoveries;
            teeth.push((now.get() as f64 / 1e9, window));
        }
        window = flow.sender.window();
    });
    let used = (world.left - begun) as f64 * service.as_secs_f64() / seconds as f64;
    (used, teeth, world)
}

/// The mean period of the teeth, in seconds.
pub fn period(teeth: &[Tooth]) -> f64 {
    (teeth[teeth.len() - 1].0 - teeth[0].0) / (teeth.len() - 1) as f64
}

/// 10 Mbit/s with 1260-byte packets.
pub const TEN: Nanos = Nanos::micros(1008);
/// Ten minutes after a minute of warm-up.
const LONG: (u64, u64) = (60, 600);

#[test]
fn newreno_with_bdp_buffer_fills_link() {
    let settings = Settings::plain();
    // 101 ms / 1.008 ms = 100.2 packets fill the link, and 100 more the queue: the window moves between 100 and 201.
    let (used, teeth, world) = saw((settings, Box::new(Reno::new(&settings))), (TEN, 100), LONG);
    assert!(used > 0.995, "{used}");
    let period = period(&teeth);
    // One packet more per round trip, which takes the window over the rate: the sum of the times of 101..=201 packets.
    let expected: f64 = (101..=201).map(|window| f64::from(window) * 1.008e-3).sum();
    assert!((period / expected - 1.0).abs() < 0.04, "{period} s, by theory {expected} s");
    let highest = teeth.iter().map(|tooth| tooth.1).sum::<f64>() / teeth.len() as f64;
    assert!((highest - 202.0).abs() < 1.5, "{highest}");
    assert_eq!(world.longest, 100);
}

#[test]
fn newreno_small_buffer_matches_theory() {
    let settings = Settings::plain();
    // The window moves between (100 + b)/2 and 100 + b; it fills the link only above 100.2.
    let (used, ..) = saw((settings, Box::new(Reno::new(&settings))), (TEN, 20), LONG);
    let (high, full) = (121.2, 100.2);
    // Round trips take 101 ms below `full` packets, and longer above: packets carried over time taken.
    let rounds = (60..=121).map(f64::from);
    let (sent, took) =
        rounds.fold((0.0, 0.0), |(sent, took), window| (sent + window, took + (window / full).max(1.0) * 101e-3));
    let expected = sent * 1.008e-3 / took;
    assert!((used / expected - 1.0).abs() < 0.02, "{used}, by theory {expected} up to {high}");
}

#[test]
fn two_newreno_flows_share_equally() {
    let settings = Settings::plain();
    let mut world = Dumbbell::new(Nanos::micros(1008), 100, Nanos::millis(100));
    (0..2).for_each(|_| world.flow(settings, Box::new(Reno::new(&settings)), TcpApplication::Bulk));
    world.run(Instant::START + Nanos::secs(600), |_, _, _| ());
    let [a, b] = [0, 1].map(|flow| world.flows[flow].sender.acknowledged() as f64);
    assert!(a / b < 1.25 && b / a < 1.25, "{a} and {b} packets");
    assert!((a + b) * 1.008e-3 / 600.0 > 0.98);
}

#[test]
fn an_unbounded_queue_grows_to_half_of_the_elapsed_time() {
    // Bufferbloat: nothing is lost, slow start never ends, and the round-trip time becomes half of the elapsed time.
    let settings = Settings::plain();
    let mut world = Dumbbell::new(Nanos::micros(1008), usize::MAX, Nanos::millis(150));
    world.flow(settings, Box::new(Reno::new(&settings)), TcpApplication::Bulk);
    world.run(Instant::START + Nanos::secs(60), |_, _, _| ());
    let smoothed = world.flows[0].sender.smoothed_rtt().unwrap().as_secs_f64();
    assert!((smoothed / 30.0 - 1.0).abs() < 0.05, "{smoothed} s after 60 s");
    assert_eq!((world.dropped, world.flows[0].sender.counters().timeouts), (0, 0));
}

/// Like Linux, but every packet is acknowledged, and none is delayed to form super-frames.
fn each() -> Settings {
    Settings { acknowledging: AckPolicy::Each, super_frames: false, ..Settings::kernel() }
}

#[test]
fn sack_has_same_sawtooth_as_newreno() {
    let settings = each();
    let (used, teeth, world) = saw((settings, Box::new(Reno::new(&settings))), (TEN, 100), LONG);
    let period = period(&teeth);
    let expected: f64 = (101..=201).map(|window| f64::from(window) * 1.008e-3).sum();
    assert!(used > 0.995 && (period / expected - 1.0).abs() < 0.04, "{used}; {period} s, by theory {expected} s");
    assert_eq!(world.flows[0].sender.counters().timeouts, 0);
}

#[test]
fn cubic_sawtooth_has_theoretical_period() {
    // A link of 100 Mbit/s: with a window of 1100 packets the Reno-friendly region is small.
    let settings = each();
    let control = Box::new(Cubic::new(&settings));
    let (_, teeth, _) = saw((settings, control), (Nanos::new(100_800), 100), (100, 400));
    let period = period(&teeth);
    // The link and its queue hold 1094 packets. After fast convergence a flow aims at 0.85 of its last window. It passes the plateau halfway, is fast
    // when it reaches the limit, and overshoots it by the time it detects the loss, a round trip later. The next epoch aims at that overshoot and
    // meets the limit before its plateau, so its maximum is lower, and fast convergence applies again. So long and short teeth alternate.
    let (limit, trip) = (1094.0f64, 0.110);
    let half = (0.15 * limit / 0.4).cbrt();
    let overshot = limit + 3.0 * 0.4 * half * half * trip;
    let short = (0.3 * overshot / 0.4).cbrt() - ((overshot - limit) / 0.4).cbrt();
    let expected = (2.0 * half + short) / 2.0;
    assert!((period / expected - 1.0).abs() < 0.03, "{period} s, by theory {expected} s: {teeth:?}");
    let highest = teeth.iter().map(|tooth| tooth.1).fold(0.0, f64::max);
    assert!((highest / overshot - 1.0).abs() < 0.002, "{highest}, by theory {overshot}");
}

#[test]
fn bbr_fills_link_with_short_queue() {
    let settings = each();
    let mut world = Dumbbell::new(Nanos::micros(1008), 1000, Nanos::millis(100));
    world.flow(settings, Box::new(Bbr::new(&settings)), TcpApplication::Bulk);
    let warm = Instant::START + Nanos::secs(5);
    world.run(warm, |_, _, _| ());
    let (begun, dropped) = (world.left, world.dropped);
    let (mut sum, mut count, mut least) = (0.0, 0.0, f64::MAX);
    world.run(warm + Nanos::secs(60), |_, _, flow| {
        sum += flow.sender.rtt().map_or(0.0, |(latest, _)| latest.as_secs_f64());
        least = flow.sender.window().min(least);
        count += 1.0;
    });
    let used = (world.left - begun) as f64 * 1008e-6 / 60.0;
    assert!(used > 0.95, "{used}");
    assert!(sum / count < 0.115, "a round trip of {} s where 0.101 would be an empty queue", sum / count);
    // A single flow sees an empty queue in each cycle, so it need not drain the queue to probe the round-trip time.
    assert!(world.dropped == dropped && least > 100.0, "{} {least}", world.dropped - dropped);
}

#[test]
fn two_bbr_flows_empty_the_queue_every_ten_seconds_and_share() {
    let settings = each();
    let mut world = Dumbbell::new(Nanos::micros(1008), 1000, Nanos::millis(100));
    (0..2).for_each(|_| world.flow(settings, Box::new(Bbr::new(&settings)), TcpApplication::Bulk));
    let mut few = [Vec::new(), Vec::new()];
    world.run(Instant::START + Nanos::secs(60), |now, number, flow| {
        if flow.sender.window() == 4.0 && few[number].last().is_none_or(|&last| now.get() > last + 1_000_000_000) {
            few[number].push(now.get());
        }
    });
    assert!(few.iter().all(|times| (4..=6).contains(&times.len())), "{few:?}");
    let [a, b] = [0, 1].map(|flow| world.flows[flow].sender.acknowledged() as f64);
    assert!(a / b < 1.5 && b / a < 1.5, "{a} and {b} packets");
    assert!((a + b) * 1.008e-3 / 60.0 > 0.93, "{}", (a + b) * 1.008e-3 / 60.0);
}

#[test]
fn dctcp_keeps_the_queue_at_its_threshold() {
    let settings = Settings { marks: true, ..each() };
    let mut world = Dumbbell::new(Nanos::micros(10), 1000, Nanos::micros(500));
    world.mark = 20;
    world.flow(settings, Box::new(Dctcp::new(&settings)), TcpApplication::Bulk);
    let warm = Instant::START + Nanos::millis(500);
    world.run(warm, |_, _, _| ());
    let begun = world.left;
    world.longest = 0;
    world.run(warm + Nanos::secs(2), |_, _, _| ());
    let used = (world.left - begun) as f64 * 10e-6 / 2.0;
    assert!(used > 0.99 && (20..40).contains(&world.longest) && world.dropped == 0, "{used} {}", world.longest);
    assert!(world.marked > 1000);
}
