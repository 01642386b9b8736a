use super::pacer::{EndNotice, MonotonicClock, Pacer, WorldClock};
use cpu::meter::{Work, WorkKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that advances by ten nanoseconds at each look.
struct Ticking(AtomicU64);

impl MonotonicClock for Ticking {
    fn now(&self) -> u64 {
        self.0.fetch_add(10, Ordering::Relaxed) + 10
    }
}

const SLOWER: u64 = 8;

/// A pacer without end systems, so that it waits for none, and its clock.
fn pacer() -> (Pacer, Arc<Ticking>, Arc<WorldClock>) {
    let clock = Arc::new(Ticking(AtomicU64::new(1_000_000)));
    let common = WorldClock::new(clock.clone());
    drop(EndNotice::end_systems(&common));
    (Pacer::new(common.clone(), SLOWER), clock, common)
}

fn pass(clock: &Ticking, nanos: u64) {
    clock.0.fetch_add(nanos, Ordering::Relaxed);
}

#[test]
fn work_lasts_declared_cost_times_slowdown() {
    let (mut pacer, clock, common) = pacer();
    let (began, mut world) = (clock.0.load(Ordering::Relaxed), 0);
    for cost in [1_600, 300, 50, 17_500].repeat(50) {
        assert_eq!(pacer.spend(Work::new(WorkKind::Input, 1, 0), cost), cost);
        world += cost;
        // The overshoot of waiting does not add up.
        assert!((world..=world + 3).contains(&pacer.now()), "{} for {world}", pacer.now());
        assert_eq!(common.read(), pacer.now());
    }
    let real = clock.0.load(Ordering::Relaxed) - began;
    assert!(real.abs_diff(world * SLOWER) < 2_100, "{real} for {world}: besides, each look of the stations took ten");
    assert_eq!(pacer.overhead.exceeded_laps, 0, "ten nanoseconds are cheaper than all of them");
}

#[test]
fn work_above_declared_cost_is_counted() {
    let (mut pacer, clock, _) = pacer();
    pass(&clock, 40_000);
    let took = pacer.spend(Work::new(WorkKind::Output, 4, 0), 2_000);
    assert!((5_000..5_010).contains(&took), "{took}");
    assert_eq!((pacer.overhead.exceeded_laps, pacer.overhead.laps), (1, 1));
    assert!(pacer.overhead.excess.abs_diff(24_000) < 40, "{}", pacer.overhead.excess);
    assert!((pacer.overhead.work[4].each() - 10_000.0).abs() < 10.0, "{:?}", pacer.overhead.work[4]);
}

#[test]
fn world_time_stops_while_router_is_preempted() {
    let (mut pacer, clock, _) = pacer();
    pass(&clock, 3_000_000);
    assert_eq!((pacer.advance(), pacer.overhead.stops), (0, 1));
    assert!(pacer.overhead.stopped > 3_000_000);
    pass(&clock, 100_000);
    pacer.skip();
    assert_eq!(pacer.advance(), 1);
}

#[test]
fn world_time_stops_while_end_systems_are_silent() {
    let clock = Arc::new(Ticking(AtomicU64::new(0)));
    let common = WorldClock::new(clock.clone());
    let mut pacer = Pacer::new(common.clone(), SLOWER);
    for _ in 0..3 {
        pass(&clock, 200_000);
        assert_eq!(pacer.advance(), 0);
    }
    assert_eq!(common.read(), 0);
    pass(&clock, 80_000);
    assert!((10_000..10_010).contains(&pacer.advance()));
    assert_eq!(common.read(), pacer.now(), "they have the time of the router");
}
