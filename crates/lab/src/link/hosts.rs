//! The networks at both ends of a link.

use super::configuration::{DualAddress, NestingLevel};
use anyhow::{Context, Result};
use io::netlink::{KernelError, KernelNeighbour, Netlink};
use io::netns::{Lab, LabHost, Plug};
use io::wait::{Sleeper, Waker};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::read_to_string;
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use units::{Mac, Nanos};

/// Interval and timeout of polling for a listening server.
const LOOK: Nanos = Nanos::millis(10);
const LOOKS: usize = 200;
/// Buffer sizes of a TCP connection: the least, the default and the most of tcp(7).
const TCP_WINDOW: &str = "4096 131072 1073741824";
/// The state of a listening TCP socket in /proc/net/tcp.
const LISTENS: &str = "0A";

/// The command's host, the namespace with the router's links, and the far end.
pub struct LinkHosts {
    inside: LabHost,
    router: LabHost,
    far: LabHost,
    /// Settings of the far end to restore at the end, with their old values.
    before: Vec<(&'static str, String)>,
    _lab: Lab,
}

impl LinkHosts {
    /// Creates the namespaces and the cables.
    pub fn new(level: &NestingLevel) -> Result<LinkHosts> {
        let lab = Lab::new()?;
        let router = lab.host("switchpath")?;
        router.silence_kernel()?;
        let [inside_mac, far_mac] = level.macs();
        let [to_inside, to_far] = level.router_macs();
        let inside = lab.host("inside")?;
        lab.cable(&plug(&inside, "eth0", inside_mac), &plug(&router, "inside", to_inside))?;
        join(&inside, "eth0", level.inside_host(), (level.inside_router(), to_inside))?;
        for gateway in families(level.inside_router(), &inside)? {
            inside.add_default_route(gateway)?;
        }
        let far = if level.outside { lab.current_host("outside")? } else { lab.host("far")? };
        let name = if level.outside { format!("spath{}", std::process::id()) } else { "eth0".to_owned() };
        let laid = lab.cable(&plug(&far, &name, far_mac), &plug(&router, "far", to_far));
        laid.with_context(|| match level.outside {
            true => "--outside needs root, or must run inside another link",
            false => "cannot enter the namespace of the far end",
        })?;
        join(&far, &name, level.far_host(), (level.far_router(), to_far))?;
        for host in [Some(&inside), Some(&far).filter(|_| !level.outside)].into_iter().flatten() {
            // Large limits, so that the link determines the window and not the machine's default.
            for setting in ["net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem"] {
                host.sysctl(setting, TCP_WINDOW)?;
            }
        }
        let mut before = Vec::new();
        if level.outside {
            for networks in level.deeper().chain([level.networks()]) {
                for (network, gateway) in networks.into_iter().zip(families(level.far_router(), &far)?) {
                    far.add_route(network, gateway)?;
                }
            }
            // Do not set IPv6 forwarding on the machine itself: a forwarding host ignores router advertisements. Its operator has to decide that.
            let settings = [Some("net/ipv4/ip_forward"), level.is_inside().then_some("net/ipv6/conf/all/forwarding")];
            for setting in settings.into_iter().flatten() {
                let Ok(was) = read_to_string(Path::new("/proc/sys").join(setting)) else { continue };
                before.push((setting, was));
                far.sysctl(setting, "1")?;
            }
        } else {
            for gateway in families(level.far_router(), &far)? {
                far.add_default_route(gateway)?;
            }
        }
        Ok(LinkHosts { inside, router, far, before, _lab: lab })
    }

    /// The command's host.
    pub fn inside(&self) -> &LabHost {
        &self.inside
    }

    /// The far end's host.
    pub fn far(&self) -> &LabHost {
        &self.far
    }

    /// The namespace with the router's links.
    pub fn router(&self) -> &LabHost {
        &self.router
    }

    /// Starts a shell command at the far end.
    pub fn start_far(&self, command: &str) -> Result<Child> {
        let mut shell = Command::new("/bin/sh");
        // Its output goes to standard error: standard output belongs to the inner command.
        shell.args(["-c", command]).stdin(Stdio::null()).stdout(std::io::stderr()).process_group(0);
        self.far.spawn(shell).with_context(|| format!("cannot start '{command}' at the far end"))
    }

    /// Kills the command at the far end with all its children.
    pub fn end_far(&self, mut server: Child) {
        // It may have exited already.
        _ = kill_process_group(Pid::from_child(&server), Signal::KILL);
        _ = server.wait();
    }

    /// Waits up to two seconds until a socket listens at the far end. Returns true if one does.
    pub fn wait_until_it_listens(&self) -> Result<bool> {
        let mut sleeper = Sleeper::new(Waker::new()?);
        for _ in 0..LOOKS {
            if self.far.run(listens)? {
                return Ok(true);
            }
            sleeper.sleep([], LOOK)?;
        }
        Ok(false)
    }
}

impl Drop for LinkHosts {
    fn drop(&mut self) {
        for (setting, was) in &self.before {
            // Ignore the error: there is no one left to report it to.
            _ = self.far.sysctl(setting, was.trim());
        }
    }
}

fn plug<'a>(host: &'a LabHost, link: &'a str, mac: Mac) -> Plug<'a> {
    Plug { host, link, mac: Some(mac) }
}

/// Configures the addresses of a host's link and a static neighbour entry for its router. Otherwise the router would answer ARP and ND across the
/// link, with the link's rate and delay.
fn join(host: &LabHost, link: &str, own: DualAddress, (router, mac): (DualAddress, Mac)) -> Result<(), KernelError> {
    for (address, length) in own.on_link().take(families(own, host)?.len()) {
        host.add_address(link, address, length)?;
    }
    for address in families(router, host)? {
        let neighbour = KernelNeighbour { link, address, mac };
        host.run(|| Netlink::open()?.add_neighbour(&neighbour))??;
    }
    Ok(())
}

/// The addresses of the families that the kernel supports at a host: it may lack IPv6.
fn families(addresses: DualAddress, host: &LabHost) -> Result<Vec<IpAddr>, KernelError> {
    let setting = || read_to_string("/proc/sys/net/ipv6/conf/default/disable_ipv6");
    let speaks = host.run(setting)?.is_ok_and(|disabled| disabled.trim() == "0");
    Ok(addresses.each().into_iter().take(if speaks { 2 } else { 1 }).collect())
}

/// True if a TCP socket listens in the calling thread's network.
fn listens() -> bool {
    let lines = |file: &str| read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
    let tcp = ["tcp", "tcp6"]
        .iter()
        .any(|file| lines(file).lines().skip(1).any(|line| line.split_whitespace().nth(3) == Some(LISTENS)));
    tcp || ["udp", "udp6"].iter().any(|file| lines(file).lines().count() > 1)
}
