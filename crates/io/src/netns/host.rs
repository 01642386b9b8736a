//! One host of the laboratory.

use super::Namespace;
use super::spawner::Spawner;
use crate::netlink::{KernelError, KernelRoute, Netlink};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use units::Mac;

/// A host with its own network namespace. Clones are the same host.
#[derive(Clone, Debug)]
pub struct LabHost {
    name: Arc<str>,
    namespace: Arc<Namespace>,
    spawner: Arc<Spawner>,
}

/// One end of a cable.
#[derive(Clone, Copy, Debug)]
pub struct Plug<'a> {
    /// The host.
    pub host: &'a LabHost,
    /// The name of the link at the host.
    pub link: &'a str,
    /// Its address; by default the kernel generates one.
    pub mac: Option<Mac>,
}

impl LabHost {
    pub(super) fn new(name: &str, spawner: Arc<Spawner>) -> Result<Self, KernelError> {
        let made = Namespace::new().map_err(|error| KernelError::new("making a network namespace for", name, error))?;
        let host = LabHost { name: name.into(), namespace: Arc::new(made), spawner };
        host.run(|| Netlink::open()?.set_up("lo", true))??;
        // A new namespace inherits the IPv4 settings of the initial one, which may forward.
        host.sysctl("net/ipv4/ip_forward", "0")?;
        // The laboratory's addresses are known to be unique and it has no advertising routers, so both checks are skipped.
        for (setting, value) in [("accept_dad", "0"), ("router_solicitations", "0"), ("accept_ra", "0")] {
            host.sysctl_v6(setting, value)?;
        }
        Ok(host)
    }

    /// The network namespace of the calling thread, unchanged.
    pub(super) fn current(name: &str, spawner: Arc<Spawner>) -> Result<Self, KernelError> {
        let here = Namespace::of_this_thread();
        let namespace = here.map_err(|error| KernelError::new("opening the network namespace of", name, error))?;
        Ok(LabHost { name: name.into(), namespace: Arc::new(namespace), spawner })
    }

    /// Adds a route to a network, with the length of its prefix, by `gateway`.
    pub fn add_route(&self, destination: (IpAddr, u8), gateway: IpAddr) -> Result<(), KernelError> {
        let route = KernelRoute { destination, gateway: Some(gateway), link: None };
        self.run(|| Netlink::open()?.add_route(&route))?
    }

    /// Its name in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its network namespace.
    pub fn namespace(&self) -> &Arc<Namespace> {
        &self.namespace
    }

    /// The plug of a cable at this host.
    pub fn plug<'a>(&'a self, link: &'a str) -> Plug<'a> {
        Plug { host: self, link, mac: None }
    }

    /// Runs `work` on a thread of this host and waits for its result. Sockets that it opens belong to this host permanently.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, KernelError> {
        self.namespace.run(work).map_err(|error| KernelError::new("entering the host", &*self.name, error))
    }

    /// Gives a link an address.
    pub fn add_address(&self, link: &str, address: IpAddr, prefix: u8) -> Result<(), KernelError> {
        self.run(|| Netlink::open()?.add_address(link, address, prefix))?
    }

    /// Adds a default route by `gateway`.
    pub fn add_default_route(&self, gateway: IpAddr) -> Result<(), KernelError> {
        let everywhere = match gateway {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let route = KernelRoute { destination: (everywhere, 0), gateway: Some(gateway), link: None };
        self.run(|| Netlink::open()?.add_route(&route))?
    }

    /// Writes a sysctl of this host; `setting` is its path below /proc/sys.
    pub fn sysctl(&self, setting: &str, value: &str) -> Result<(), KernelError> {
        let path = Path::new("/proc/sys").join(setting);
        // /proc/sys/net shows the namespace of the thread that opens it.
        let written: io::Result<()> = self.run(|| fs::write(&path, value))?;
        written.map_err(|error| KernelError::new("setting", format!("{setting} to {value}"), error))
    }

    /// Writes an IPv6 sysctl for all present and future links. Does nothing if the kernel has no IPv6.
    fn sysctl_v6(&self, setting: &str, value: &str) -> Result<(), KernelError> {
        if !Path::new("/proc/sys/net/ipv6").exists() {
            return Ok(());
        }
        ["all", "default"].iter().try_for_each(|links| self.sysctl(&format!("net/ipv6/conf/{links}/{setting}"), value))
    }

    /// Enables forwarding in the host's kernel for both families: the reference router of comparisons.
    pub fn forward_in_kernel(&self) -> Result<(), KernelError> {
        self.sysctl("net/ipv4/ip_forward", "1")?;
        // Switchpath checks the reverse path only on request. A link uses the higher of `all` and its own value, which begins as `default`.
        for links in ["all", "default"] {
            self.sysctl(&format!("net/ipv4/conf/{links}/rp_filter"), "0")?;
        }
        self.sysctl_v6("forwarding", "1")
    }

    /// Keeps the host's kernel silent on links that the router will own: without an address it sends no IPv4, and IPv6 is disabled. Applies to later
    /// cables.
    pub fn silence_kernel(&self) -> Result<(), KernelError> {
        self.sysctl_v6("disable_ipv6", "1")
    }

    /// Starts a program in this host. The program is killed when this process or the whole laboratory ends; the caller waits for it.
    pub fn spawn(&self, command: Command) -> io::Result<Child> {
        self.spawner.spawn(self.namespace.clone(), command)
    }
}
