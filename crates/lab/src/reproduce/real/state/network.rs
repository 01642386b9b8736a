//! A tree of routers between hosts, each in a network namespace of its own.

use anyhow::{Context, Result, anyhow};
use control::api::EphemeralStore;
use control::{Daemon, DaemonOptions, Notice};
use esp::wire::{Carriages, Part};
use io::clock;
use io::devices::Devices;
use io::netns::{Lab, LabHost, Plug};
use sim::ephemeral::{HostLocation, Tree, TreePort};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The configurations' name in messages.
const CONFIGURATION: &str = "laboratory";
/// The settings of every router: one worker that sleeps when idle, so that many routers share a core.
pub const ROUTER: &str = "[router]\nworkers = 1\nframes = 4096\nsuper_frames = 0\nbusy_poll = \"0ns\"";
/// The settings of every port: frames as a wire carries them.
const PORT: &str = "offloads = false";
/// The interface of a host.
const INTERFACE: &str = "eth0";

/// The hosts and routers of a tree.
pub struct Network {
    /// The positions of routers and hosts.
    pub tree: Tree,
    /// The root's host.
    pub root: LabHost,
    /// The receivers' hosts, in order.
    pub receivers: Vec<LabHost>,
    daemons: Vec<(Arc<Daemon>, Receiver<Notice>)>,
    _lab: Lab,
}

impl Network {
    /// Builds a tree of routers. `state` is the configuration table of their stores. `keys` returns further keys for a port, by the numbers of its
    /// router and of the port.
    ///
    /// # Errors
    ///
    /// Why this machine cannot provide it.
    pub fn new(receivers: &[usize], state: &str, keys: impl Fn(usize, usize) -> String) -> Result<Network> {
        let tree = Tree::new(receivers).map_err(anyhow::Error::msg)?;
        let lab = Lab::new().context("real packets need network namespaces: run it as root")?;
        let names = (0..tree.routers.len()).map(|number| format!("router{number}"));
        let routers = names.map(|name| lab.host(&name)).collect::<Result<Vec<LabHost>, _>>()?;
        routers.iter().try_for_each(LabHost::silence_kernel)?;
        for (number, router) in tree.routers.iter().enumerate() {
            for port in &router.ports {
                // Create each cable only once: from the router nearer to the root.
                let Some((other, at)) = port.router.filter(|(other, _)| *other > number) else { continue };
                let far = &tree.routers[other].ports[at];
                lab.cable(&plug(&routers[number], port), &plug(&routers[other], far)).context("laying a cable")?;
            }
        }
        let host = |name: &str, seat: HostLocation| -> Result<LabHost> {
            let (host, port) = (lab.host(name)?, tree.port(seat));
            let here = Plug { host: &host, link: INTERFACE, mac: Some(port.remote.1) };
            lab.cable(&here, &plug(&routers[seat.router], port)).context("laying a cable")?;
            host.add_address(INTERFACE, port.remote.0.into(), 24)?;
            host.add_default_route(port.local.0.into())?;
            Ok(host)
        };
        let root = host("root", tree.root)?;
        let seats = tree.receivers.iter().enumerate();
        let receivers = seats.map(|(n, seat)| host(&format!("receiver{n}"), *seat)).collect::<Result<_>>()?;
        let start = |(number, host): (usize, &LabHost)| -> Result<(Arc<Daemon>, Receiver<Notice>)> {
            let keys = |port| format!("{PORT}\n{}", keys(number, port));
            let text = tree.routers[number].configuration("packet", keys, &format!("{ROUTER}\n{state}"));
            started(&text, host)
        };
        let daemons = routers.iter().enumerate().map(start).collect::<Result<_>>()?;
        Ok(Network { tree, root, receivers, daemons, _lab: lab })
    }

    /// A socket of a host on the UDP port of instructions.
    pub fn socket(host: &LabHost) -> Result<UdpSocket> {
        Ok(host.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, Carriages::PORT)))??)
    }

    /// `number` sockets of a host, each on a UDP port of its own.
    pub fn sockets(host: &LabHost, number: usize) -> Result<Vec<UdpSocket>> {
        Ok(host.run(|| (0..number).map(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))).collect::<Result<_, _>>())??)
    }

    /// The address of the root.
    pub fn root_address(&self) -> IpAddr {
        self.tree.host(self.tree.root).into()
    }

    /// The status of the store of a router's port.
    ///
    /// # Errors
    ///
    /// The router has failed.
    pub fn store(&self, seat: HostLocation) -> Result<EphemeralStore> {
        let (daemon, notices) = &self.daemons[seat.router];
        if let Some(Notice::Failed(reason)) = notices.try_iter().next() {
            return Err(anyhow!("a router has failed: {reason}"));
        }
        let told = daemon.ephemeral().map_err(|error| anyhow!("a router does not answer: {error:?}"))?;
        let name = &self.tree.port(seat).name;
        let store = told.stores.into_iter().find(|store| store.port.as_ref() == Some(name));
        store.with_context(|| format!("port {name} has no store"))
    }

    /// Packets that the kernel lost at all routers.
    ///
    /// # Errors
    ///
    /// A router does not answer.
    pub fn lost(&self) -> Result<u64> {
        let mut lost = 0;
        for (daemon, _) in &self.daemons {
            let ports = daemon.ports().map_err(|error| anyhow!("a router does not answer: {error:?}"))?.ports;
            lost += ports.iter().map(|p| p.counters.lost_before_receive + p.counters.lost_after_transmit).sum::<u64>();
        }
        Ok(lost)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.daemons.iter().for_each(|(daemon, _)| drop(daemon.stop()));
    }
}

/// Starts a router with this configuration in a host's namespace.
///
/// # Errors
///
/// The configuration is invalid, or the router cannot start.
pub fn started(text: &str, host: &LabHost) -> Result<(Arc<Daemon>, Receiver<Notice>)> {
    let plan = plan::check(text, CONFIGURATION, &plane::catalogue()).map_err(|wrong| anyhow!("{wrong}"))?;
    let devices = Devices::new(clock::epoch()).in_namespace(host.namespace().clone());
    let (notice, notices) = channel();
    let options = DaemonOptions::new(devices, text, CONFIGURATION, move |what| _ = notice.send(what));
    let daemon = Daemon::start(&plan, options).map_err(|error| anyhow!("a router cannot start: {error}"))?;
    Ok((daemon, notices))
}

fn plug<'a>(host: &'a LabHost, port: &'a TreePort) -> Plug<'a> {
    Plug { host, link: &port.name, mac: Some(port.local.1) }
}

/// No further keys for any port.
pub fn plain(_: usize, _: usize) -> String {
    String::new()
}

/// The next datagram with an instruction, and the length of the data after it. `None` if none arrives in time.
pub fn receive(socket: &UdpSocket, patience: Duration) -> Result<Option<(Part, usize)>> {
    let mut bytes = [0; 2048];
    socket.set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
    loop {
        match socket.recv(&mut bytes) {
            Ok(length) => {
                if let Ok(part) = Part::read(&bytes[..length]) {
                    return Ok(Some((part, length - part.length())));
                }
            }
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                return Ok(None);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("nothing can be received"),
        }
    }
}
