//! A world on real packets: the side of the router.

use super::{Measurements, ProgressCallback, RunError, RunningWorld, load_sources};
use crate::describe::{CardPlan, LinkEnd, WorldPlan};
use crate::net::Cable;
use crate::real::{CablePorts, EndNotice, EndSystems, MonotonicClock, Pacer, WORK_NAMES, WorldClock};
use crate::source::Captures;
use packet::Pool;
use packet::port::WakeSource;
use plan::LinkService;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A world on real packets: its router with the cards. They run in the thread that calls [`RealRun::run`], and its processor is that of the router.
pub struct RealRun<'w> {
    live: RunningWorld<'w>,
    common: Arc<WorldClock>,
    slower: u64,
}

/// Checks that a world can run on real packets. The error names the obstacle.
fn check(world: &WorldPlan) -> Result<(), String> {
    let [router] = &world.routers[..] else { return Err("it has several routers".into()) };
    if router.plan.workers > 1 {
        return Err("its router has several workers".into());
    }
    if world.cards.iter().any(|card| matches!(card.end, LinkEnd::Card(_))) {
        return Err("links connect its cards with each other".into());
    }
    let plain = |card: &CardPlan| matches!(card.medium.service, LinkService::Constant(_));
    if !world.cards.iter().all(plain) {
        return Err("a link has no constant rate".into());
    }
    if !world.events.is_empty() {
        return Err("it has events".into());
    }
    Ok(())
}

impl<'w> RealRun<'w> {
    /// Prepares a world on cables, one for each card in order. It runs `slower` times slower than described.
    ///
    /// # Errors
    ///
    /// The world is possible only in virtual time, or cannot run.
    pub fn new(
        world: &'w WorldPlan,
        captures: &mut dyn Captures,
        slower: u64,
        clock: Arc<dyn MonotonicClock>,
        cables: Vec<CablePorts>,
    ) -> Result<(RealRun<'w>, EndSystems), RunError> {
        check(world).map_err(|what| RunError::Real(format!("only in virtual time: {what}")))?;
        assert_eq!(cables.len(), world.cards.len(), "a cable for each card");
        let common = WorldClock::new(clock);
        let mut live = RunningWorld::idle(world, captures)?;
        let mut far = Vec::new();
        for (card, ends) in live.outside.lock().cards.iter_mut().zip(cables) {
            card.cable = Some(Cable::new(ends.router));
            far.push(ends.end_system);
        }
        live.has_real_end_systems = true;
        // The records of the schedulers are not evaluated, because that takes time.
        live.cores.iter_mut().for_each(|core| core.fairness.disable());
        live.start()?;
        let mut stations = EndSystems::new(world, load_sources(world, captures)?, common.clone(), far);
        for (card, mac) in live.addresses(0) {
            stations.net.address(world, card, mac);
        }
        stations.net.begin(world);
        Ok((RealRun { live, common, slower: slower.max(1) }, stations))
    }

    /// Runs the world to its end. The end systems run in another thread meanwhile.
    ///
    /// # Errors
    ///
    /// One of its laws was broken.
    pub fn run(&mut self, progress: ProgressCallback<'_>) -> Result<(), RunError> {
        let leaves = EndNotice::router(&self.common);
        self.live.cores[0].meter.pacer = Some(Box::new(Pacer::new(self.common.clone(), self.slower)));
        let done = self.live.run(progress);
        drop(leaves);
        done
    }

    /// The result, after the end systems have ended too.
    ///
    /// # Errors
    ///
    /// Laws of the world were broken.
    pub fn finish(mut self, stations: EndSystems) -> Result<Measurements, RunError> {
        let live = &mut self.live;
        let end = live.world.duration.get();
        let mut pool = Pool::new(live.nodes[0].router.region().clone());
        let mut net = live.outside.lock();
        (0..net.cards.len()).for_each(|card| net.admit_by_cable(card, end, &mut pool));
        let cables = net.cards.iter().filter_map(|card| card.cable.as_deref());
        let lost = stations.lost() + cables.map(Cable::lost).sum::<u64>();
        // These packets were sent, but their sources are unknown.
        net.others.no_link += lost;
        let mut values = BTreeMap::new();
        values.insert("real.kernel_lost".to_owned(), lost as f64);
        values.insert("real.late_max_us".to_owned(), stations.max_send_delay as f64 / 1e3);
        let width = live.world.sample.get();
        for (source, buckets) in live.world.sources.iter().zip(&stations.sent) {
            let points = (0..(end / width) as usize).map(|index| {
                let sent = buckets.get(index).copied().unwrap_or(0) as f64;
                ((index as u64 + 1) as f64 * width as f64 / 1e9, sent * 1e9 / width as f64)
            });
            live.snapshots.series.insert(format!("source.{}.sent_pps", source.name), points.collect());
        }
        net.merge(stations.net);
        drop(net);
        live.has_real_end_systems = false;
        self.report_overhead(&mut values);
        let mut measured = self.live.finish()?;
        measured.parameters.insert(0, ("slower".into(), self.slower.to_string()));
        measured.values.extend(values);
        Ok(measured)
    }

    /// Reports the overhead of the machine.
    fn report_overhead(&self, values: &mut BTreeMap<String, f64>) {
        let mut put = |name: &str, value: f64| _ = values.insert(format!("real.{name}"), value);
        put("slower", self.slower as f64);
        let Some(pacer) = &self.live.cores[0].meter.pacer else { return };
        let (toll, whole) = (&pacer.overhead, (self.live.world.duration.get() * self.slower) as f64);
        put("dearer_laps", toll.exceeded_laps as f64 / toll.laps.max(1) as f64);
        put("excess", toll.excess as f64 / whole);
        put("stood_still", toll.stopped as f64 / (whole + toll.stopped as f64));
        put("stops", toll.stops as f64);
        for (name, own) in WORK_NAMES.into_iter().zip(&toll.work) {
            put(&format!("own.{name}_ns"), own.each());
        }
    }
}

impl RunningWorld<'_> {
    /// Steps the core until it has reached `time`.
    pub(super) fn run_real_until(&mut self, time: u64) {
        let core = &mut self.cores[0];
        core.skip();
        loop {
            let now = if core.is_idle() { core.read_clock() } else { core.now };
            if now >= time {
                return;
            }
            if core.is_idle() && now < core.wake && !has_frames(core, now) {
                std::hint::spin_loop();
                continue;
            }
            core.step(now);
        }
    }
}

/// True if a port that the idle worker watches has frames.
fn has_frames(core: &super::Core, now: u64) -> bool {
    core.worker.waiters().any(|waiter| matches!(waiter, WakeSource::At(time) if time.get() <= now))
}
