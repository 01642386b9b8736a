//! This router on packet ports, run in the thread of the test.

use cpu::meter::ConstantMeter;
use io::clock;
use io::devices::Devices;
use io::netns::LabHost;
use io::wait::{Sleeper, Waker};
use packet::event::{Observer, Silent};
use packet::port::WakeSource;
use plane::{Build, Router, StepResult, Worker};
use stack::LocalProtocolLimits;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{Instant, Nanos};

/// The number of busy steps in a row that indicates an endless loop.
const STEPS: usize = 1_000_000;

/// A router with one worker.
pub struct TestRouter {
    worker: Worker,
    _router: Router,
    _devices: Devices,
    /// The offset of its clock.
    clock_offset: Nanos,
}

impl TestRouter {
    /// Starts it with `configuration` on the links of `host`, and waits for its announcements. Fails with the advisories of its ports, if any.
    pub fn start(host: &LabHost, configuration: &str) -> Result<TestRouter, String> {
        let mut ours = TestRouter::start_with_observer(host, configuration, Box::new(Silent))?;
        for _ in 0..4 {
            ours.pass_time(Nanos::secs(2));
        }
        Ok(ours)
    }

    /// Starts it, before its announcements.
    pub fn start_with_observer(
        host: &LabHost,
        configuration: &str,
        observer: Box<dyn Observer>,
    ) -> Result<TestRouter, String> {
        let plan = plan::check(configuration, "bench.toml", &plane::catalogue());
        let plan = plan.unwrap_or_else(|wrong| panic!("{wrong}"));
        // No limit, like the kernel's settings.
        let limits = LocalProtocolLimits {
            neighbour_messages: 1_000_000,
            fragments: 1 << 14,
            reassembly: Nanos::secs(600),
            ..LocalProtocolLimits::default()
        };
        let mut observer = Some(observer);
        let build =
            Build { frames: 1 << 16, super_frames: 64, workers: 1, layout: None, switch_cost: Nanos::ZERO, limits };
        let (mut router, mut workers) = Router::new(build, |_| observer.take().expect("for one worker"));
        let mut devices = Devices::new(clock::epoch()).in_namespace(host.namespace().clone());
        let mut worker = workers.pop().expect("one was asked for");
        let prepared = router.prepare(&plan, &mut devices).unwrap_or_else(|errors| panic!("{errors:?}"));
        let warnings = devices.advisories().take();
        if !warnings.is_empty() {
            return Err(warnings.join("; "));
        }
        let mut published = router.publish(prepared);
        while !published.is_adopted() {
            worker.step(clock::now(), &mut ConstantMeter(Nanos::new(10)));
        }
        router.complete(published);
        Ok(TestRouter { worker, _router: router, _devices: devices, clock_offset: Nanos::ZERO })
    }

    /// Stops it in order.
    pub fn end(&mut self) {
        self.worker.shut_down(self.now());
    }

    fn now(&self) -> Instant {
        clock::now() + self.clock_offset
    }

    /// Runs it until it is idle at this time.
    pub fn settle(&mut self) {
        for _ in 0..STEPS {
            let now = self.now();
            if let StepResult::Idle(_) = self.worker.step(now, &mut ConstantMeter(Nanos::new(10))) {
                return;
            }
        }
        panic!("still busy after {STEPS} steps: {:?}", self.worker.report());
    }

    /// Advances its clock and runs it.
    pub fn pass_time(&mut self, span: Nanos) {
        self.clock_offset += span;
        self.settle();
    }

    /// Runs it until `stop` is set, asleep while it is idle.
    pub fn run(&mut self, stop: &AtomicBool) {
        let mut sleeper = Sleeper::new(Waker::new().unwrap());
        while !stop.load(Ordering::Relaxed) {
            self.settle();
            let descriptors = self.worker.waiters().filter_map(|waiter| match waiter {
                WakeSource::Descriptor(descriptor) => Some(descriptor),
                _ => None,
            });
            sleeper.sleep_on(descriptors, Nanos::millis(1)).unwrap();
        }
    }

    /// Checks its ledgers.
    pub fn audit(&self) {
        self.worker.audit();
    }
}
