//! An access network, a router, and a host of the Internet.

use control::{Daemon, DaemonOptions};
use io::clock;
use io::devices::Devices;
use io::netlink::{Netlink, Veth, VethEnd};
use io::netns::{Lab, LabHost};
use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::Nanos;

/// The address of the host of the Internet behind a router.
pub const INTERNET: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
/// Repetitions of a measurement that the host has spoilt.
pub const ATTEMPTS: usize = 3;

/// The address of a subscriber by its number, from 0: in 100.64.0.0/10, after the first 256 addresses.
pub fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(Ipv4Addr::new(100, 64, 1, 0)) + number as u32)
}

/// subscribers eth0 - lan [router] wan - eth0 internet
pub struct Access {
    pub subscribers: LabHost,
    pub internet: LabHost,
    pub router: LabHost,
}

/// A laboratory, and the turn of the test that has it: tests that load the machine at the same time would spoil each other's measurements. None where
/// namespaces are forbidden.
pub fn lab() -> Option<(Lab, MutexGuard<'static, ()>)> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new().inspect_err(|forbidden| println!("skipped: {forbidden}")).ok()?;
    Some((lab, turn))
}

/// The time before a measurement and that of a measurement, longer in `make soak`.
pub fn spans() -> [Nanos; 2] {
    match std::env::var("SWITCHPATH_SUBSCRIBERS") {
        Ok(_) => [Nanos::secs(2), Nanos::secs(5)],
        Err(_) => [Nanos::millis(1500), Nanos::secs(3)],
    }
}

impl Access {
    /// The hosts without cables.
    pub fn hosts(lab: &Lab) -> Access {
        let [subscribers, router, internet] = ["subscribers", "router", "internet"].map(|name| lab.host(name).unwrap());
        // IPv6 would add packets that belong to no subscriber.
        [&subscribers, &router, &internet].iter().for_each(|host| host.silence_kernel().unwrap());
        Access { subscribers, internet, router }
    }

    /// Hosts, cables and the addresses of the subscribers with these numbers. The router has an address at each end.
    pub fn routed(lab: &Lab, numbers: impl Iterator<Item = usize>) -> Access {
        let access = Access::hosts(lab);
        lab.cable(&access.subscribers.plug("eth0"), &access.router.plug("lan")).unwrap();
        lab.cable(&access.internet.plug("eth0"), &access.router.plug("wan")).unwrap();
        access.configure(numbers);
        access
    }

    /// The same with cables that carry super-frames.
    pub fn routed_with_offloads(lab: &Lab, numbers: impl Iterator<Item = usize>) -> Access {
        let access = Access::hosts(lab);
        for (host, link) in [(&access.subscribers, "lan"), (&access.internet, "wan")] {
            let near = VethEnd { name: "eth0", namespace: None, mac: None };
            let far = VethEnd { name: link, namespace: Some(access.router.namespace().as_fd()), mac: None };
            host.run(|| {
                let mut netlink = Netlink::open().unwrap();
                netlink.add_veth(&Veth { ends: [near, far] }).unwrap();
                netlink.set_up("eth0", true).unwrap();
            })
            .unwrap();
            access.router.run(|| Netlink::open().unwrap().set_up(link, true).unwrap()).unwrap();
        }
        access.configure(numbers);
        access
    }

    fn configure(&self, numbers: impl Iterator<Item = usize>) {
        self.add_addresses(numbers, 10);
        self.subscribers.add_default_route(Ipv4Addr::new(100, 64, 0, 1).into()).unwrap();
        self.internet.add_address("eth0", INTERNET.into(), 24).unwrap();
        self.internet.add_default_route(Ipv4Addr::new(198, 51, 100, 1).into()).unwrap();
    }

    /// Gives the host of the subscribers the addresses of these subscribers.
    pub fn add_addresses(&self, numbers: impl Iterator<Item = usize>, prefix: u8) {
        let addresses: Vec<Ipv4Addr> = numbers.map(address).collect();
        self.subscribers
            .run(|| {
                let mut netlink = Netlink::open().unwrap();
                addresses.iter().for_each(|address| netlink.add_address("eth0", (*address).into(), prefix).unwrap());
            })
            .unwrap();
    }

    /// Starts a router with this configuration and this table of subscribers, whose file the configuration calls `FILE`.
    pub fn start(&self, config: &str, table: &str) -> Running {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("subscribers.csv");
        fs::write(&file, table).unwrap();
        let text = config.replace("FILE", &file.display().to_string());
        let devices = Devices::new(clock::epoch()).in_namespace(self.router.namespace().clone());
        let plan = plan::check(&text, "test.toml", &plane::catalogue()).unwrap_or_else(|wrong| panic!("{wrong}"));
        let options = DaemonOptions::new(devices, &text, "test.toml", |notice| panic!("{notice:?}"));
        let daemon = Daemon::start(&plan, options).unwrap_or_else(|error| panic!("{error}"));
        Running { daemon, _directory: directory }
    }
}

/// A router between the access network and the Internet that shares both links; `more` is appended.
pub fn routed_config(more: &str) -> String {
    let scheme = "scheme = 'share(rate=1gbit){fq(flows=64){codel}}'";
    format!(
        "version = 1\n[port.lan]\ndevice = 'packet:lan'\naddress = ['100.64.0.1/10']\n{scheme}\n\
         [port.wan]\ndevice = 'packet:wan'\naddress = ['198.51.100.1/24']\n{scheme}\n\
         [subscribers]\ninside = ['lan']\noutside = ['wan']\nfile = 'FILE'\n{more}"
    )
}

/// A running router.
pub struct Running {
    pub daemon: Arc<Daemon>,
    _directory: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.daemon.stop();
    }
}

impl Running {
    /// The packets that the router has dropped, and those that its ports lost because the host did not run it.
    pub fn losses(&self) -> (u64, u64) {
        let ports = self.daemon.ports().unwrap();
        let lost = ports.ports.iter().map(|port| port.counters.lost_before_receive + port.counters.lost_after_transmit);
        (self.daemon.drops().unwrap().drops.iter().map(|drop| drop.packets).sum(), lost.sum())
    }
}

/// True if a rate is within this part of the expected one.
pub fn is_near(rate: f64, expected: f64, part: f64) -> bool {
    (rate - expected).abs() <= part * expected
}

/// The value below which 95 % of the samples are.
pub fn p95(samples: &mut [Nanos]) -> Nanos {
    samples.sort_unstable();
    samples.get((samples.len() * 95).div_ceil(100).saturating_sub(1)).copied().unwrap_or(Nanos::MAX)
}

/// Milliseconds, for messages.
pub fn millis(time: Nanos) -> f64 {
    time.as_secs_f64() * 1e3
}
