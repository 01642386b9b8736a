//! Preemptible functions of a path in their own thread, below the worker. The router is in memory, with the real clock, real threads and one
//! processor. One function takes arbitrarily long.

use io::aside::Threads;
use io::clock::{self, CycleCounter, CycleMeter};
use io::cores;
use packet::DropReason;
use packet::event::Silent;
use plane::rig::{LAN_AND_WAN, Rig, Udp};
use plane::snapshot::Layout;
use std::thread;
use std::time::Duration;
use units::Nanos;

const DEAR: u16 = 7;
const QUICK: u16 = 9;
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
    threads: Threads,
}

impl Real {
    /// A router whose path `dear` has these keys. The calling thread runs it and stays on its core.
    fn running(path: &str) -> Real {
        cores::pin(cores::allowed().unwrap()[0]).unwrap();
        let threads = Threads::new();
        let mut rig = Rig::new(FRAMES, Layout::Three, Box::new(Silent));
        rig.worker.lend_to(Box::new(threads.clone()));
        rig.now = clock::now();
        rig.apply(&config(path)).unwrap();
        let mut real = Real { rig, meter: CycleMeter::new(CycleCounter::calibrated()), threads };
        real.until("it is quiet", |real| real.rig.report().held == 0);
        real.came();
        real
    }

    fn send(&mut self, port: u16, number: u32) {
        self.rig.send("lan", &Udp::crossing(9, port).frame(&number.to_be_bytes()));
    }

    /// Runs a step and returns its duration.
    fn step(&mut self) -> Nanos {
        let now = clock::now();
        self.rig.now = now;
        self.rig.worker.step(now, &mut self.meter);
        clock::now().since(now)
    }

    /// Port and number of the received frames.
    fn came(&mut self) -> Vec<(u16, u32)> {
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

    fn on_path(&self) -> usize {
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
        while threads.left() > 0 || region.spare() < FRAMES {
            thread::park_timeout(Duration::from_millis(1));
            assert!(clock::now() < end, "{} threads, {} of {FRAMES} frames", threads.left(), region.spare());
        }
    }
}

/// A separate thread, so that pinning affects no other code.
fn alone(test: impl FnOnce() + Send + 'static) {
    if let Err(panic) = thread::spawn(test).join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_function_that_does_not_return_gives_the_core_back_after_each_slice() {
    alone(|| {
        let mut real = Real::running("functions = [\"spin(cost=3600s)\", \"ip\"]\npreemptible = true");
        real.send(DEAR, 0);
        real.until("it is begun", |real| real.charged() > Nanos::ZERO);
        let mut steps = Vec::new();
        for number in 0..300 {
            real.send(QUICK, number);
            let end = clock::now() + PATIENCE;
            while real.came() != [(QUICK, number)] {
                steps.push(real.step());
                assert!(clock::now() < end, "others are served");
            }
        }
        steps.sort();
        let (median, charged) = (steps[steps.len() / 2], real.charged());
        assert_eq!(real.on_path(), 1, "it is away still");
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
        real.send(DEAR, 1);
        real.until("the path forwards again", |real| real.came() == [(DEAR, 1)]);
        real.end();
    });
}

#[test]
fn packets_that_take_many_slices_come_back_in_order_and_others_leave_between_them() {
    alone(|| {
        let mut real = Real::running("functions = [\"spin(cost=500us)\", \"ip\"]\npreemptible = true");
        (0..6).for_each(|number| real.send(DEAR, number));
        let (mut dear, mut between, mut number) = (Vec::new(), 0, 0);
        real.until("all are back", |real| {
            real.send(QUICK, number);
            number += 1;
            let came = real.came();
            between += came.iter().filter(|(port, _)| *port == QUICK).count();
            dear.extend(came.into_iter().filter_map(|(port, number)| (port == DEAR).then_some(number)));
            dear.len() == 6
        });
        assert_eq!(dear, (0..6).collect::<Vec<u32>>());
        // 3 ms are 30 slices; other tasks get a turn after each.
        assert!(between > 15, "{between} of others");
        assert!(real.charged() >= Nanos::millis(3), "{}", real.charged());
        real.until("all are out", |real| real.rig.report().held == 0);
        real.came();
        real.end();
    });
}

#[test]
fn a_packet_that_has_used_what_its_path_allows_of_a_processor_is_dropped() {
    alone(|| {
        let mut real =
            Real::running("functions = [\"spin(cost=3600s)\", \"ip\"]\npreemptible = true\nlimit = \"300us\"");
        (0..3).for_each(|number| real.send(DEAR, number));
        real.until("all are dropped", |real| real.rig.report().ledger.dropped() == 3);
        assert_eq!(real.dropped(DropReason::CpuLimit) + real.dropped(DropReason::FunctionFailed), 3);
        assert!(real.dropped(DropReason::CpuLimit) > 0);
        assert!(real.charged() >= Nanos::micros(300), "{}", real.charged());
        real.end();
    });
}
