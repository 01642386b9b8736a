//! DHCP relay agents: pass requests of clients on an interface to servers elsewhere, and their replies back (RFC 1542 4, RFC 3046, RFC 8415 19).
//!
//! One thread serves all interfaces by sockets of the kernel on the interfaces of `[linux]`. Requests arrive at a socket of the interface; servers answer to the
//! router's address on it.

use super::{INTERVAL, enter};
use crate::api::RelayCounters;
use crate::daemon::Daemon;
use crate::events::LoggedEvent;
use io::netlink::{KernelNeighbourEntry, KernelNeighbourState, KernelRequest, Netlink, RequestObject};
use io::wait::{Sleeper, Waker};
use io::{clock, udp};
use packet::wire::dhcp::{self, Recipient4, RelayError};
use parking_lot::Mutex;
use plan::{DhcpRelayPlan, Name, Plan};
use std::collections::BTreeMap;
use std::io::Result;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;

/// Messages of one socket before the others have their turn.
const AT_ONCE: usize = 64;
/// The longest message. Longer ones are fragments of no known client.
const LONGEST: usize = 9000;

/// The counters by interface, which reports read.
pub(super) type RelayReport = Arc<Mutex<BTreeMap<Name, RelayCounters>>>;

/// The settings of a relay agent: it is made anew if they change.
#[derive(Clone, PartialEq, Eq)]
struct RelaySettings {
    plan: DhcpRelayPlan,
    agent4: Option<Ipv4Addr>,
    agent6: Option<Ipv6Addr>,
}

/// The sockets of one address family.
struct Sockets<A> {
    /// The router's address on the interface.
    agent: A,
    /// For messages on the link of the clients.
    link: UdpSocket,
    /// For messages to and from servers.
    server: UdpSocket,
}

/// The relay agent of an interface.
struct Relay {
    settings: RelaySettings,
    /// The number of the kernel's interface.
    index: u32,
    v4: Option<Sockets<Ipv4Addr>>,
    v6: Option<Sockets<Ipv6Addr>>,
    counters: RelayCounters,
}

/// Starts the thread, which ends with the daemon.
pub(super) fn start(daemon: Weak<Daemon>, namespace: Option<String>, waker: Waker, report: RelayReport) -> Result<()> {
    let run = move || {
        // The thread of the tables has reported why, if this fails.
        if enter(namespace.as_deref()).is_err() {
            return;
        }
        let Ok(mut netlink) = Netlink::open() else { return };
        let mut relays: BTreeMap<Name, Relay> = BTreeMap::new();
        let mut last_failure = None;
        let mut sleeper = Sleeper::new(waker);
        let mut buffer = vec![0; LONGEST];
        while let Some(daemon) = daemon.upgrade()
            && !daemon.stop.load(Ordering::Relaxed)
        {
            let plan = daemon.control.lock().router.plan().cloned();
            let failure = plan.and_then(|plan| follow(&plan, &mut relays, &mut netlink).err());
            if let Some(failure) = failure.as_ref().filter(|failure| last_failure.as_ref() != Some(*failure)) {
                daemon.log.push(clock::now(), LoggedEvent::Warning(failure.clone()));
            }
            last_failure = failure;
            drop(daemon);
            relays.values_mut().for_each(|relay| relay.serve(&mut netlink, &mut buffer));
            *report.lock() = relays.iter().map(|(name, relay)| (name.clone(), relay.counters)).collect();
            let _ = sleeper.sleep(relays.values().flat_map(Relay::descriptors), INTERVAL);
        }
    };
    thread::Builder::new().name("dhcp-relay".into()).spawn(run).map(drop)
}

/// Makes, changes and removes relay agents as the plan has them. Returns the reason if one cannot be made; it is tried again later.
fn follow(plan: &Plan, relays: &mut BTreeMap<Name, Relay>, netlink: &mut Netlink) -> std::result::Result<(), String> {
    let wanted: Vec<RelaySettings> =
        plan.linux.iter().flat_map(|linux| &linux.dhcp_relay).map(|relay| settings(plan, relay)).collect();
    relays.retain(|name, _| wanted.iter().any(|settings| settings.plan.interface == *name));
    let mut failure = Ok(());
    for settings in wanted {
        let name = settings.plan.interface.clone();
        if relays.get(&name).is_some_and(|relay| {
            relay.settings == settings && netlink.link(&name).is_ok_and(|link| link.index == relay.index)
        }) {
            continue;
        }
        let counters = relays.remove(&name).map(|relay| relay.counters).unwrap_or_default();
        match Relay::open(settings, counters, netlink) {
            Ok(relay) => drop(relays.insert(name, relay)),
            Err(error) => failure = Err(format!("the DHCP relay of {name} cannot be started: {error}")),
        }
    }
    failure
}

fn settings(plan: &Plan, relay: &DhcpRelayPlan) -> RelaySettings {
    let interface = plan.interfaces().map(|(_, interface)| interface).find(|one| one.name == relay.interface);
    let addresses: Vec<IpAddr> =
        interface.iter().flat_map(|interface| interface.addresses_in_force()).map(|prefix| prefix.address).collect();
    let agent4 = addresses.iter().find_map(|address| match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    });
    let agent6 = addresses.iter().find_map(|address| match address {
        IpAddr::V6(address) if !address.is_unicast_link_local() => Some(*address),
        _ => None,
    });
    RelaySettings { plan: relay.clone(), agent4, agent6 }
}

impl Relay {
    fn open(
        settings: RelaySettings,
        counters: RelayCounters,
        netlink: &mut Netlink,
    ) -> std::result::Result<Relay, String> {
        let name = settings.plan.interface.clone();
        let index = netlink.link(&name).map_err(|error| error.to_string())?.index;
        let has = |is_ipv6: bool| settings.plan.servers.iter().any(|server| server.is_ipv6() == is_ipv6);
        let missing = |family: &str| format!("the interface has no {family} address");
        let v4 = if has(false) {
            let agent = settings.agent4.ok_or_else(|| missing("IPv4"))?;
            let link = udp::on_interface(&name, index, dhcp::SERVER4, None);
            Some(sockets(agent, link, udp::at_address(agent.into(), dhcp::SERVER4))?)
        } else {
            None
        };
        let v6 = if has(true) {
            let agent = settings.agent6.ok_or_else(|| missing("routable IPv6"))?;
            let link = udp::on_interface(&name, index, dhcp::SERVER6, Some(dhcp::ALL_AGENTS6));
            Some(sockets(agent, link, udp::at_address(agent.into(), dhcp::SERVER6))?)
        } else {
            None
        };
        Ok(Relay { settings, index, v4, v6, counters })
    }

    fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let v4 = self.v4.iter().flat_map(|sockets| [sockets.link.as_fd(), sockets.server.as_fd()]);
        v4.chain(self.v6.iter().flat_map(|sockets| [sockets.link.as_fd(), sockets.server.as_fd()]))
    }

    /// Passes on the messages that have arrived, at most [`AT_ONCE`] of each socket.
    fn serve(&mut self, netlink: &mut Netlink, buffer: &mut [u8]) {
        let Relay { settings, index, v4, v6, counters } = self;
        let circuit = settings.plan.interface.as_bytes();
        if let Some(Sockets { agent, link, server }) = v4 {
            for _ in 0..AT_ONCE {
                let Ok((length, _)) = link.recv_from(buffer) else { break };
                let servers = settings.plan.servers.iter().filter(|server| server.is_ipv4());
                let message = dhcp::relay_request4(&buffer[..length], *agent, circuit);
                counters.pass_to_servers(message, server, servers.map(|to| SocketAddr::new(*to, dhcp::SERVER4)));
            }
            for _ in 0..AT_ONCE {
                let Ok((length, from)) = server.recv_from(buffer) else { break };
                let is_known = settings.plan.servers.contains(&from.ip());
                let reply = dhcp::relay_reply4(&buffer[..length], *agent);
                let Ok((message, recipient)) =
                    reply.and_then(|reply| if is_known { Ok(reply) } else { Err(RelayError::OtherAgent) })
                else {
                    counters.refused += 1;
                    continue;
                };
                let to = match recipient {
                    Recipient4::Broadcast => Ipv4Addr::BROADCAST,
                    Recipient4::Known(address) => address,
                    Recipient4::New(address, mac) => {
                        // The client does not answer ARP for its new address yet. If the kernel refuses, it asks, and the client repeats its request.
                        let neighbour = KernelNeighbourEntry {
                            state: Some(KernelNeighbourState::Stale),
                            ..KernelNeighbourEntry::new(*index, address.into(), mac)
                        };
                        let _ = netlink.apply([KernelRequest::Replace(RequestObject::Neighbour(&neighbour))]);
                        address
                    }
                };
                counters.count_reply(link.send_to(&message, (to, dhcp::CLIENT4)));
            }
        }
        if let Some(Sockets { agent, link, server }) = v6 {
            for _ in 0..AT_ONCE {
                let Ok((length, SocketAddr::V6(from))) = link.recv_from(buffer) else { break };
                let servers = settings.plan.servers.iter().filter(|server| server.is_ipv6());
                let message = dhcp::relay_request6(&buffer[..length], *from.ip(), *agent, circuit);
                counters.pass_to_servers(message, server, servers.map(|to| SocketAddr::new(*to, dhcp::SERVER6)));
            }
            for _ in 0..AT_ONCE {
                let Ok((length, from)) = server.recv_from(buffer) else { break };
                let is_known = settings.plan.servers.contains(&from.ip());
                match dhcp::relay_reply6(&buffer[..length], circuit) {
                    Ok((message, to)) if is_known => {
                        let scope = if to.address.is_unicast_link_local() { *index } else { 0 };
                        counters.count_reply(link.send_to(message, SocketAddrV6::new(to.address, to.port, 0, scope)));
                    }
                    _ => counters.refused += 1,
                }
            }
        }
    }
}

impl RelayCounters {
    fn pass_to_servers(
        &mut self,
        message: std::result::Result<Vec<u8>, RelayError>,
        socket: &UdpSocket,
        servers: impl Iterator<Item = SocketAddr>,
    ) {
        let Ok(message) = message else {
            self.refused += 1;
            return;
        };
        for server in servers {
            match socket.send_to(&message, server) {
                Ok(_) => self.requests += 1,
                Err(_) => self.failed += 1,
            }
        }
    }

    fn count_reply(&mut self, sent: Result<usize>) {
        match sent {
            Ok(_) => self.replies += 1,
            Err(_) => self.failed += 1,
        }
    }
}

fn sockets<A>(agent: A, link: Result<UdpSocket>, server: Result<UdpSocket>) -> std::result::Result<Sockets<A>, String> {
    let (link, server) = link.and_then(|link| Ok((link, server?))).map_err(|error| error.to_string())?;
    Ok(Sockets { agent, link, server })
}
