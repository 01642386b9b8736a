//! Preemptible functions of a path in their own thread, below the worker. The router is in memory, with the real clock, real threads and one
//! processor. One function takes arbitrarily long.

use io::clock::{self, CycleCounter, CycleMeter};
use io::cores;
use io::preempt::PreemptThreads;
use packet::DropReason;
use packet::event::Silent;
use plane::rig::{LAN_AND_WAN, Rig, UdpFrame};
use plane::snapshot::Layout;
use std::thread;
use std::time::Duration;
use units::Nanos;

const EXPENSIVE_PORT: u16 = 7;
const CHEAP_PORT: u16 = 9;
const FRAMES: usize = 2048;
/// The time limit of every operation. On a busy machine all other threads have priority over the preemptible thread, so it has little work here.
const PATIENCE: Nanos = Nanos::secs(60);

fn config(path: &str) -> String {
    format!("{LAN_AND_WAN}[[path]]\nname = \"dear\"\nmatch = \"udp dport 7\"\n{path}\n")
}

/// A router on one core.
struct Real {
    rig: Rig,
    meter: CycleMeter,
    threads: PreemptThreads,
}

impl Real {
    /// A router whose path `dear` has these keys. The calling thread runs it and stays on its core.
    fn running(path: &str) -> Real {
        cores::pin(cores::allowed().unwrap()[0]).unwrap();
        let threads = PreemptThreads::new();
        let mut rig = Rig::new(FRAMES, Layout::Three, Box::new(Silent));
        rig.worker.set_function_threads(Box::new(threads.clone()));
        rig.now = clock::now();
        rig.apply(&config(path)).unwrap();
        let mut real = Real { rig, meter: CycleMeter::new(CycleCounter::calibrated()), threads };
        real.until("it is quiet", |real| real.rig.report().held_packets == 0);
        real.received();
        real
    }

    fn send(&mut self, port: u16, number: u32) {
        self.rig.send("lan", &UdpFrame::between_ports(9, port).frame(&number.to_be_bytes()));
    }

    /// Runs a step and returns its duration.
    fn step(&mut self) -> Nanos {
        let now = clock::now();
        self.rig.now = now;
        self.rig.worker.step(now, &mut self.meter);
        clock::now().since(now)
    }

    /// Port and number of the received frames.
    fn received(&mut self) -> Vec<(u16, u32)> {
        // The router also sends announcements and requests.
        let read = |frame: Vec<u8>| {
            let port = u16::from_be_bytes([frame[36], frame[37]]);
            (frame[12..14] == [8, 0]).then(|| (port, u32::from_be_bytes(frame[42..46].try_into().unwrap())))
        };
        self.rig.received("wan").into_iter().filter_map(read).collect()
    }

    fn until(&mut self, what: &str, mut is: impl FnMut(&mut Real) -> bool) {
        let end = clock::now() + PATIENCE;
        while !is(self) {
            self.step();
            assert!(clock::now() < end, "{what}: {:?}", self.rig.report().ledger);
        }
    }

    fn packets_on_path(&self) -> usize {
        let id = self.rig.router.snapshot().paths.last().expect("there is a path").id;
        self.rig.report().paths.iter().find(|path| path.path == id).map_or(0, |path| path.queued)
    }

    /// The time that the path's task was charged.
    fn charged(&self) -> Nanos {
        let id = self.rig.router.snapshot().paths.last().expect("there is a path").id;
        let report = self.rig.report();
        report.tasks.iter().find(|task| task.paths.contains(&id)).map_or(Nanos::ZERO, |task| task.view.account.used)
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.rig.report().ledger.dropped_for(reason)
    }

    /// Stops the router. Abandoned threads end, and every frame returns.
    fn end(mut self) {
        self.rig.worker.shut_down(clock::now());
        let (threads, region) = (self.threads.clone(), self.rig.router.region().clone());
        drop(self);
        let end = clock::now() + PATIENCE;
        while threads.abandoned() > 0 || region.spare() < FRAMES {
            thread::park_timeout(Duration::from_millis(1));
            assert!(clock::now() < end, "{} threads, {} of {FRAMES} frames", threads.abandoned(), region.spare());
        }
    }
}

/// A separate thread, so that pinning affects no other code.
fn in_own_thread(test: impl FnOnce() + Send + 'static) {
    if let Err(panic) = thread::spawn(test).join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn endless_function_yields_the_core_after_each_slice() {
    in_own_thread(|| {
        let mut real = Real::running("functions = [\"spin(cost=3600s)\", \"ip\"]\npreemptible = true");
        real.send(EXPENSIVE_PORT, 0);
        real.until("it is begun", |real| real.charged() > Nanos::ZERO);
        let mut steps = Vec::new();
        for number in 0..300 {
            real.send(CHEAP_PORT, number);
            let end = clock::now() + PATIENCE;
            while real.received() != [(CHEAP_PORT, number)] {
                steps.push(real.step());
                assert!(clock::now() < end, "others are served");
            }
        }
        steps.sort();
        let (median, charged) = (steps[steps.len() / 2], real.charged());
        assert_eq!(real.packets_on_path(), 1, "it is away still");
        // A slice is 100 us; other programs take the core for milliseconds at a time.
        assert!(median < Nanos::millis(5), "{median}");
        assert!(charged > Nanos::millis(5), "it was lent the core all the time: {charged}");

        // A new configuration waits one second for it.
        let plan = plan::check(&config(""), "rig.toml", &plane::catalogue()).unwrap();
        let prepared = real.rig.router.prepare(&plan, &mut real.rig.wires).unwrap();
        let (mut published, began) = (real.rig.router.publish(prepared), clock::now());
        real.until("it is adopted", |_| published.is_adopted());
        assert!(clock::now().since(began) >= Nanos::secs(1));
        real.rig.router.complete(published);
        assert_eq!(real.dropped(DropReason::FunctionFailed), 1);
        real.send(EXPENSIVE_PORT, 1);
        real.until("the path forwards again", |real| real.received() == [(EXPENSIVE_PORT, 1)]);
        real.end();
    });
}

#[test]
fn multi_slice_packets_keep_order_while_other_paths_proceed() {
    in_own_thread(|| {
        let mut real = Real::running("functions = [\"spin(cost=500us)\", \"ip\"]\npreemptible = true");
        (0..6).for_each(|number| real.send(EXPENSIVE_PORT, number));
        let (mut dear, mut between, mut number) = (Vec::new(), 0, 0);
        real.until("all are back", |real| {
            real.send(CHEAP_PORT, number);
            number += 1;
            let came = real.received();
            between += came.iter().filter(|(port, _)| *port == CHEAP_PORT).count();
            dear.extend(came.into_iter().filter_map(|(port, number)| (port == EXPENSIVE_PORT).then_some(number)));
            dear.len() == 6
        });
        assert_eq!(dear, (0..6).collect::<Vec<u32>>());
        // 3 ms are 30 slices; other tasks get a turn after each.
        assert!(between > 15, "{between} of others");
        assert!(real.charged() >= Nanos::millis(3), "{}", real.charged());
        real.until("all are out", |real| real.rig.report().held_packets == 0);
        real.received();
        real.end();
    });
}

#[test]
fn packet_over_its_paths_processor_limit_is_dropped() {
    in_own_thread(|| {
        let mut real =
            Real::running("functions = [\"spin(cost=3600s)\", \"ip\"]\npreemptible = true\ncpu_limit = \"300us\"");
        (0..3).for_each(|number| real.send(EXPENSIVE_PORT, number));
        real.until("all are dropped", |real| real.rig.report().ledger.dropped() == 3);
        assert_eq!(real.dropped(DropReason::CpuLimit) + real.dropped(DropReason::FunctionFailed), 3);
        assert!(real.dropped(DropReason::CpuLimit) > 0);
        assert!(real.charged() >= Nanos::micros(300), "{}", real.charged());
        real.end();
    });
}
