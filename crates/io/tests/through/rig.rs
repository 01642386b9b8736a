//! The router in its thread, and the hosts beside it.

use cpu::meter::ConstantMeter;
use io::advisories::Advisories;
use io::clock;
use io::devices::Devices;
use io::netlink::{KernelRoute, Netlink, Veth, VethEnd};
use io::netns::{Lab, LabHost};
use io::offload::Ethtool;
use io::wait::{Sleeper, Waker};
use packet::event::{Observer, Silent};
use packet::port::WakeSource;
use plane::{Build, Router, StepResult, Worker, WorkerReport};
use stack::LocalProtocolLimits;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use units::Nanos;

/// The time limit of every operation.
pub const PATIENCE: Nanos = Nanos::secs(10);

/// A router that runs until it is stopped or dropped.
pub struct Running {
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<WorkerReport>>,
    /// The advisories of its ports.
    pub advisories: Advisories,
    router: Router,
}

impl Running {
    /// Starts a router with `configuration` on the interfaces of `host`.
    pub fn start(host: &LabHost, configuration: &str) -> Running {
        Running::observed(host, configuration, Box::new(Silent))
    }

    /// The same, with an observer of its events.
    pub fn observed(host: &LabHost, configuration: &str, observer: Box<dyn Observer>) -> Running {
        let mut observer = Some(observer);
        let plan = plan::check(configuration, "through.toml", &plane::catalogue());
        let plan = plan.unwrap_or_else(|wrong| panic!("{wrong}"));
        let build = Build {
            frames: 8192,
            super_frames: 64,
            workers: 1,
            layout: None,
            switch_cost: Nanos::ZERO,
            limits: LocalProtocolLimits::default(),
        };
        let (mut router, mut workers) = Router::new(build, |_| observer.take().unwrap_or(Box::new(Silent)));
        let mut devices = Devices::new(clock::epoch()).in_namespace(host.namespace().clone());
        let prepared = router.prepare(&plan, &mut devices).unwrap_or_else(|errors| panic!("{errors:?}"));
        let mut published = router.publish(prepared);
        let (stop, waker) = (Arc::new(AtomicBool::new(false)), Waker::new().unwrap());
        let (stopped, sleeper, warnings) = (stop.clone(), Sleeper::new(waker.clone()), devices.advisories().clone());
        let worker = workers.pop().expect("one was asked for");
        let thread = thread::spawn(move || {
            let report = drive(worker, &stopped, sleeper);
            devices.finish();
            report
        });
        assert!(published.wait(PATIENCE.into()));
        router.complete(published);
        Running { stop, waker, thread: Some(thread), advisories: warnings, router }
    }

    fn end(&mut self) -> Option<thread::Result<WorkerReport>> {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        self.thread.take().map(JoinHandle::join)
    }

    /// Stops it and returns its counters. Every packet has a fate, and every frame has returned.
    pub fn stop(mut self) -> WorkerReport {
        let report = self.end().expect("it runs").unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert_eq!(report.held_packets, 0);
        let region = self.router.region();
        assert_eq!(region.spare(), region.frames(), "the interfaces have given every frame back");
        report
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Driven like a worker of the daemon, but without spinning, because tests have few processors.
fn drive(mut worker: Worker, stop: &AtomicBool, mut sleeper: Sleeper) -> WorkerReport {
    let mut meter = ConstantMeter(Nanos::new(10));
    while !stop.load(Ordering::Acquire) {
        let now = clock::now();
        let StepResult::Idle(until) = worker.step(now, &mut meter) else { continue };
        let polled = worker.waiters().any(|waiter| waiter == WakeSource::Poll);
        let nap = if polled { Nanos::micros(100) } else { until.since(now) };
        let descriptors = worker.waiters().filter_map(|waiter| match waiter {
            WakeSource::Descriptor(descriptor) => Some(descriptor),
            _ => None,
        });
        sleeper.sleep_on(descriptors, nap).unwrap();
    }
    // An interface accepts frames only a moment after its settings have changed.
    let patience = clock::now() + Nanos::secs(1);
    while worker.report().held_packets > 0 && clock::now() < patience {
        worker.step(clock::now(), &mut meter);
    }
    worker.shut_down(clock::now());
    worker.report()
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The kind of connection between a host and the router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cable {
    /// A veth pair whose near end is a `packet:` port.
    Packet,
    /// The same, without any offloads.
    Plain,
    /// A veth pair whose near end is an `xdp:` port.
    Xdp,
    /// A `tap:` port whose interface is moved to the host.
    Tap,
}

impl Cable {
    /// True if it carries super-frames.
    pub fn carries_super_frames(self) -> bool {
        matches!(self, Cable::Packet | Cable::Tap)
    }

    /// The device of the router's port on this side.
    pub fn device(self, side: &str) -> String {
        match self {
            Cable::Packet | Cable::Plain => format!("packet:{side}"),
            Cable::Xdp => format!("xdp:{side}"),
            Cable::Tap => format!("tap:{side}"),
        }
    }
}

/// client - left [router] right - server: 10.0.1.2 and fd00:1::2 talk to 10.0.2.2 and fd00:2::2.
pub struct Line {
    pub router: LabHost,
    pub client: LabHost,
    pub server: LabHost,
    pub cables: [Cable; 2],
}

impl Line {
    /// The hosts, and the cables that exist before the router.
    pub fn lay(lab: &Lab, cables: [Cable; 2]) -> Line {
        let [router, client, server] = ["router", "client", "server"].map(|name| lab.host(name).unwrap());
        router.silence_kernel().unwrap();
        let line = Line { router, client, server, cables };
        for side in 0..2 {
            line.plug(side);
        }
        line
    }

    /// Each side: the host, the router's interface, and the number in the addresses.
    pub fn side(&self, side: usize) -> (&LabHost, &'static str, u8) {
        [(&self.client, "left", 1), (&self.server, "right", 2)][side]
    }

    /// Creates the cable of a side, if it has one. The host has its addresses before the router's end is set up last: requests are then answered.
    pub fn plug(&self, side: usize) {
        let (host, near, _) = self.side(side);
        if self.cables[side] == Cable::Tap {
            return;
        }
        let end = |name, namespace| VethEnd { name, namespace, mac: None };
        let ends = [end("eth0", None), end(near, Some(self.router.namespace().as_fd()))];
        host.run(|| Netlink::open().unwrap().add_veth(&Veth { ends }).unwrap()).unwrap();
        if self.cables[side] == Cable::Plain {
            for (host, link) in [(host, "eth0"), (&self.router, near)] {
                host.run(|| Ethtool::open().unwrap().switch_all_off(link).unwrap()).unwrap();
            }
        }
        self.address(side, "eth0");
        self.router.run(|| Netlink::open().unwrap().set_up(near, true).unwrap()).unwrap();
    }

    /// Configures addresses and routes of the host on a side.
    pub fn address(&self, side: usize, link: &str) {
        let (host, _, number) = self.side(side);
        host.run(|| {
            let mut netlink = Netlink::open().unwrap();
            netlink.set_up(link, true).unwrap();
            for (prefix, length, everywhere) in [("10.0.{}", 24, "0.0.0.0"), ("fd00:{}:", 64, "::")] {
                let separator = if length == 24 { "." } else { ":" };
                let of = |last: u8| ip(&format!("{}{separator}{last}", prefix.replace("{}", &number.to_string())));
                netlink.add_address(link, of(2), length).unwrap();
                let route = KernelRoute { destination: (ip(everywhere), 0), gateway: Some(of(1)), link: None };
                netlink.add_route(&route).unwrap();
            }
        })
        .unwrap();
    }

    /// Moves the interface that the router created for a tap port to its host.
    pub fn hand_over(&self, side: usize) {
        let (host, near, _) = self.side(side);
        let namespace = host.namespace().clone();
        self.router.run(|| Netlink::open().unwrap().move_to(near, &*namespace).unwrap()).unwrap();
        self.address(side, near);
    }

    /// The router's port on a side; `more` is added to it.
    pub fn port(&self, side: usize, more: &str) -> String {
        let (_, near, number) = self.side(side);
        let device = self.cables[side].device(near);
        let offloads = if self.cables[side] == Cable::Plain { "offloads = false\n" } else { "" };
        let addresses = format!("['10.0.{number}.1/24', 'fd00:{number}::1/64']");
        format!("[port.{near}]\ndevice = '{device}'\naddress = {addresses}\n{offloads}{more}\n")
    }

    /// The router's configuration; `more` is added to each port.
    pub fn configuration(&self, more: &str) -> String {
        format!("version = 1\n{}{}", self.port(0, more), self.port(1, more))
    }

    /// Starts the router, and connects the interfaces that it created.
    pub fn start(&self, more: &str) -> Running {
        let running = Running::start(&self.router, &self.configuration(more));
        self.connect();
        running
    }

    /// Connects the interfaces that routers create.
    pub fn connect(&self) {
        for side in (0..2).filter(|&side| self.cables[side] == Cable::Tap) {
            self.hand_over(side);
        }
    }
}
