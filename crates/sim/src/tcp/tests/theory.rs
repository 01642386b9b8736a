//! One connection over a link: what theory says of its sawtooth.

use super::dumbbell::Dumbbell;
use crate::tcp::application::Application;
use crate::tcp::{Control, Reno, Settings};
use units::{Instant, Nanos};

/// What one bulk flow did over a link: part of the link used, and the times and windows of the reductions, after a minute.
fn saw(settings: Settings, control: Box<dyn Control>, room: usize, seconds: u64) -> (f64, Vec<(f64, f64)>, Dumbbell) {
    // 10 Mbit/s of 1260-byte packets, 100 ms.
    let mut world = Dumbbell::new(Nanos::micros(1008), room, Nanos::millis(100));
    world.flow(settings, control, Application::Bulk);
    let warm = Instant::START + Nanos::secs(60);
    world.run(warm, |_, _, _| ());
    let begun = world.left;
    let (mut teeth, mut recoveries, mut window) = (Vec::new(), world.flows[0].sender.told().recoveries, 0.0);
    world.run(warm + Nanos::secs(seconds), |now, _, flow| {
        let told = flow.sender.told();
        if told.recoveries > recoveries {
            recoveries = told.recoveries;
            teeth.push((now.get() as f64 / 1e9, window));
        }
        window = flow.sender.window();
    });
    let used = (world.left - begun) as f64 * 1008e-6 / seconds as f64;
    (used, teeth, world)
}

#[test]
fn newreno_with_a_buffer_of_a_bandwidth_delay_product_keeps_the_link_busy() {
    let settings = Settings::plain();
    // 101 ms / 1.008 ms = 100.2 packets fill the link; 100 more the queue: the window goes from 100 to 201 and back.
    let (used, teeth, world) = saw(settings, Box::new(Reno::new(&settings)), 100, 600);
    assert!(used > 0.995, "{used}");
    let period = (teeth[teeth.len() - 1].0 - teeth[0].0) / (teeth.len() - 1) as f64;
    // A packet more each round trip, which is the window over the rate: the sum of 101..=201 packets' times.
    let expected: f64 = (101..=201).map(|window| f64::from(window) * 1.008e-3).sum();
    assert!((period / expected - 1.0).abs() < 0.04, "{period} s, by theory {expected} s");
    let highest = teeth.iter().map(|tooth| tooth.1).sum::<f64>() / teeth.len() as f64;
    assert!((highest - 202.0).abs() < 1.5, "{highest}");
    assert_eq!((world.dropped - teeth.len() as u64 > 1_000, world.longest), (false, 100));
}

#[test]
fn newreno_with_a_small_buffer_uses_what_theory_says() {
    let settings = Settings::plain();
    // The window goes from (100 + b)/2 to 100 + b; it fills the link only above 100.2.
    let (used, ..) = saw(settings, Box::new(Reno::new(&settings)), 20, 600);
    let (high, full) = (121.2, 100.2);
    // Round trips take 101 ms below `full` packets, longer above: packets carried over time taken.
    let rounds = (60..=121).map(f64::from);
    let (sent, took) =
        rounds.fold((0.0, 0.0), |(sent, took), window| (sent + window, took + (window / full).max(1.0) * 101e-3));
    let expected = sent * 1.008e-3 / took;
    assert!((used / expected - 1.0).abs() < 0.02, "{used}, by theory {expected} up to {high}");
}

#[test]
fn two_newreno_flows_share_alike() {
    let settings = Settings::plain();
    let mut world = Dumbbell::new(Nanos::micros(1008), 100, Nanos::millis(100));
    (0..2).for_each(|_| world.flow(settings, Box::new(Reno::new(&settings)), Application::Bulk));
    world.run(Instant::START + Nanos::secs(600), |_, _, _| ());
    let [a, b] = [0, 1].map(|flow| world.flows[flow].sender.acknowledged() as f64);
    assert!(a / b < 1.25 && b / a < 1.25, "{a} and {b} packets");
    assert!((a + b) * 1.008e-3 / 600.0 > 0.98);
}

#[test]
fn a_queue_without_bound_grows_with_the_root_of_time() {
    // Bufferbloat: nothing is ever lost, slow start never ends, and the round trip becomes half of the time that has passed.
    let settings = Settings::plain();
    let mut world = Dumbbell::new(Nanos::micros(1008), usize::MAX, Nanos::millis(150));
    world.flow(settings, Box::new(Reno::new(&settings)), Application::Bulk);
    world.run(Instant::START + Nanos::secs(60), |_, _, _| ());
    let smoothed = world.flows[0].sender.smoothed_rtt().unwrap().as_secs_f64();
    assert!((smoothed / 30.0 - 1.0).abs() < 0.05, "{smoothed} s after 60 s");
    assert_eq!((world.dropped, world.flows[0].sender.told().timeouts), (0, 0));
}
