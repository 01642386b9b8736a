//! Hosts in memory, for systems that forbid network namespaces. Three machines run the TCP/IP stack smoltcp, which is independent of the router's, on
//! wires to `memory:` ports. One thread runs them all.

mod endpoints;
mod link;

use super::network::{DemoHost, IpFamily};
use super::traffic::{PATIENCE, Traffic};
use super::{Hosts, Notify};
use anyhow::{Context, Result};
use endpoints::FlowEnd;
use io::clock;
use io::devices::Devices;
use io::wait::{Sleeper, Waker};
use link::WireDevice;
use packet::port::{MemoryPort, Port};
use packet::{Pool, Region};
use plan::PortPlan;
use plane::{ApplyError, Decorate, Opener};
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::time::Instant as Timestamp;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use units::{Instant, Nanos};

/// How long the hosts poll before they sleep, and how long they sleep.
const NAP: Nanos = Nanos::micros(50);

/// The far end of a wire, with the memory of its frames.
type FarEnd = (String, MemoryPort, Arc<Region>);

/// The hosts after the router has opened its ports.
pub struct MemoryHosts {
    wires: Receiver<FarEnd>,
    sender: Sender<FarEnd>,
}

/// Opens ports and passes the other ends of their wires to the hosts.
struct Wires {
    devices: Devices,
    far: Sender<FarEnd>,
}

impl Opener for Wires {
    fn open(&mut self, plan: &PortPlan, region: &Arc<Region>, queues: usize) -> Result<Vec<Box<dyn Port>>, ApplyError> {
        let ports = self.devices.open(plan, region, queues)?;
        let far = self.devices.take_end(&plan.device.target);
        // Ports that are opened after the hosts have stopped are connected to no one.
        let _ = self.far.send((plan.device.target.clone(), far, region.clone()));
        Ok(ports)
    }

    fn decorate(&mut self, plan: &PortPlan, queues: usize) -> Result<Vec<Decorate>, ApplyError> {
        self.devices.decorate(plan, queues)
    }
}

impl MemoryHosts {
    /// Hosts before they have their wires.
    pub fn new() -> MemoryHosts {
        let (sender, wires) = channel();
        MemoryHosts { wires, sender }
    }
}

impl Hosts for MemoryHosts {
    fn place(&self) -> &'static str {
        "in memory, with the TCP/IP stack smoltcp"
    }

    fn ports(&self) -> &'static str {
        "memory"
    }

    fn router(&mut self, text: &str, notice: Notify) -> control::DaemonOptions {
        let devices = Devices::new(clock::epoch());
        let unused = Devices::new(clock::epoch());
        control::DaemonOptions {
            advisories: devices.advisories().clone(),
            opener: Box::new(Wires { devices, far: self.sender.clone() }),
            finish: Box::new(|| ()),
            ..control::DaemonOptions::new(unused, text, super::CONFIGURATION, notice)
        }
    }

    fn begin(&mut self, traffic: &Arc<Traffic>) -> Result<Vec<JoinHandle<()>>> {
        let mut wires: Vec<FarEnd> = self.wires.try_iter().collect();
        let now = clock::now();
        let mut machine = |station: DemoHost| -> Result<Machine> {
            let wire = wires.iter().position(|(name, ..)| name == station.name());
            let (_, end, region) = wires.swap_remove(wire.context("the router has not opened all of its ports")?);
            Ok(Machine::new(station, WireDevice::new(end, Pool::new(region)), now))
        };
        let [alice, bob, server] = DemoHost::ALL.map(&mut machine);
        let mut machines = [alice?, bob?, server?];
        let ends = endpoints::open(traffic, &mut machines)?;
        let traffic = traffic.clone();
        let sleeper = Sleeper::new(Waker::new()?);
        let run = move || run(&traffic, &mut machines, ends, sleeper);
        Ok(vec![Builder::new().name("hosts".into()).spawn(run)?])
    }
}

/// A host: its stack, its sockets, its wire.
struct Machine {
    link: WireDevice,
    interface: Interface,
    sockets: SocketSet<'static>,
}

/// The stack's time.
fn timestamp(now: Instant) -> Timestamp {
    Timestamp::from_micros((now.get() / 1000) as i64)
}

impl Machine {
    fn new(station: DemoHost, mut link: WireDevice, now: Instant) -> Machine {
        let mut config = Config::new(EthernetAddress(station.mac().0).into());
        // Any number will do, if it differs between the machines: it seeds their sequence numbers.
        config.random_seed = station.mac().number();
        let mut interface = Interface::new(config, &mut link, timestamp(now));
        interface.update_ip_addrs(|addresses| {
            for family in IpFamily::BOTH {
                let address = IpCidr::new(station.address(family).into(), DemoHost::prefix(family));
                addresses.push(address).expect("a stack has room for two addresses");
            }
        });
        for family in IpFamily::BOTH {
            let routed = match IpAddress::from(station.gateway(family)) {
                IpAddress::Ipv4(gateway) => interface.routes_mut().add_default_ipv4_route(gateway),
                IpAddress::Ipv6(gateway) => interface.routes_mut().add_default_ipv6_route(gateway),
            };
            routed.expect("a stack has room for two routes");
        }
        Machine { link, interface, sockets: SocketSet::new(Vec::new()) }
    }

    /// Receives, lets the stack work, sends. Returns true if it moved a frame.
    fn poll(&mut self, now: Instant) -> bool {
        let received = self.link.receive_frames(now);
        self.interface.poll(timestamp(now), &mut self.link, &mut self.sockets);
        self.link.send_frames(now) || received
    }
}

/// Runs the hosts until their ends are done or the time limit after the end has passed.
fn run(traffic: &Traffic, machines: &mut [Machine; 3], mut ends: Vec<FlowEnd>, mut sleeper: Sleeper) {
    let (mut ended, mut busy) = (None, clock::now());
    loop {
        let now = clock::now();
        let mut worked = false;
        for machine in &mut *machines {
            worked |= machine.poll(now);
        }
        let (mut done, mut due) = (true, now + Nanos::millis(1));
        for end in &mut ends {
            worked |= end.act(traffic, machines, now);
            done &= end.is_done(traffic, now);
            due = due.min(end.due());
        }
        if traffic.is_ending() && (done || now.since(*ended.get_or_insert(now)) > PATIENCE) {
            return;
        }
        if worked {
            busy = now;
        } else if now.since(busy) > NAP {
            let _ = sleeper.sleep([], NAP.min(due.since(now)));
        }
    }
}
