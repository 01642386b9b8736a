//! Keeps the interfaces of the kernel in step with those of the router (`[linux]`), in both directions.
//!
//! One thread, in the network namespace of the interfaces, follows the configuration of the router and the kernel's tables. Another one moves packets.

mod dhcp_relay;
mod exchange;
mod groups;
mod report;
mod routes;
mod static_routes;

use super::{ADOPTION_TIMEOUT, Control, Daemon, StartError};
use crate::events::LoggedEvent;
use dhcp_relay::RelayReport;
use exchange::{Exchange, KernelInterfaces};
use groups::GroupFollower;
use io::advisories::OpenError;
use io::clock;
use io::kernel_interface::KernelInterface;
use io::netlink::{
    FollowedTables, KernelAddress, KernelChange, KernelError, KernelRequest, KernelTables, Netlink, RequestObject,
    ResolvedRoute,
};
use io::netns::Namespace;
use io::wait::{Sleeper, WakeReason, Waker};
use plan::{KernelSettings, Name, Plan, Prefix};
use plane::{ApplyError, snapshot::Snapshot};
pub(super) use routes::protocol_name;
use routes::{RouteBatch, RoutedInterfaces};
use static_routes::StaticRoutes;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use units::{Generation, Mac, Nanos};

/// The longest time until both sides are compared again without a notification.
const INTERVAL: Nanos = Nanos::secs(1);
/// The longest time until the kernel's interface has the state of the port's link, for which there is no notification.
const LINK_INTERVAL: Nanos = Nanos::millis(20);
/// The pause after a failure.
const RETRY: Nanos = Nanos::millis(100);
/// The kernel's main routing table.
const MAIN_TABLE: u32 = 254;

/// The settings that programs of the machine have made, by interface.
pub(super) type SettingsByName = BTreeMap<Name, KernelSettings>;

/// The parts of a router with `[linux]`.
pub(super) struct Linux {
    exchange: Arc<Exchange>,
    waker: Waker,
    relay_waker: Waker,
    relays: RelayReport,
    /// The API has changed routes.
    has_edits: AtomicBool,
}

impl Linux {
    /// Makes the kernel's routes follow a change of those of the API.
    pub fn note_edit(&self) {
        self.has_edits.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Makes both threads look for changes, and at the end of the router.
    pub fn wake(&self) {
        self.waker.wake();
        self.relay_waker.wake();
        self.exchange.wake();
    }

    /// Frames for programs of the machine that the kernel did not accept.
    pub fn refused(&self) -> u64 {
        self.exchange.refused()
    }
}

/// The properties that an interface of the kernel should have.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Wanted {
    id: units::InterfaceId,
    mac: Mac,
    mtu: u16,
    addresses: BTreeSet<(IpAddr, u8)>,
}

/// An interface of the kernel, and what the router has done there.
struct Served {
    device: Arc<KernelInterface>,
    wanted: Wanted,
    /// The addresses that the router has added.
    added: BTreeSet<(IpAddr, u8)>,
    /// The state of its cable, as the kernel shows it.
    carrier: bool,
}

/// The state of the thread that follows both sides.
struct Follower {
    exchange: Arc<Exchange>,
    netlink: Netlink,
    tables: KernelTables,
    groups: GroupFollower,
    /// Links of the kernel with IPv6 next hops of IPv4 routes, as long as the links exist.
    ipv4_links: BTreeSet<u32>,
    served: BTreeMap<Name, Served>,
    /// The forwarding tables, for the state of links.
    forwarding: Arc<fib::Tables>,
    /// The interfaces that the routes were translated for.
    interfaces: RoutedInterfaces,
    /// Addresses of the kernel on other interfaces, such as the loopback: the router passes their packets to the kernel.
    own: BTreeSet<IpAddr>,
    /// The configured routes, as the kernel should have them.
    configured: StaticRoutes,
    /// The generation that `served` was made for.
    generation: Generation,
}

impl Daemon {
    /// Starts the threads, if the plan has `[linux]`, and returns once the interfaces exist.
    pub(super) fn start_linux(self: &Arc<Self>, plan: &Plan) -> Result<(), StartError> {
        let Some(linux) = &plan.linux else { return Ok(()) };
        let namespace = linux.namespace.clone();
        let (punt, forwarding) = {
            let control = self.control.lock();
            (control.router.punt().clone(), control.router.tables().clone())
        };
        let exchange = Exchange::start(&punt, &self.stop).map_err(StartError::System)?;
        let waker = Waker::new().map_err(StartError::System)?;
        let (relay_waker, relays) = (Waker::new().map_err(StartError::System)?, RelayReport::default());
        let relay = (Arc::downgrade(self), namespace.clone(), relay_waker.clone(), relays.clone());
        let parts = Linux {
            exchange: exchange.clone(),
            waker: waker.clone(),
            relay_waker,
            relays,
            has_edits: AtomicBool::new(true),
        };
        let _ = self.linux.set(parts);
        let (daemon, (sender, receiver)) = (Arc::downgrade(self), sync_channel(1));
        let follow = move || {
            let begun = Follower::start(exchange, forwarding, namespace.as_deref()).and_then(|mut follower| {
                daemon.upgrade().map_or(Ok(()), |daemon| follower.follow(&daemon))?;
                Ok(follower)
            });
            let (mut follower, begun) = match begun {
                Ok(follower) => (Some(follower), Ok(())),
                Err(error) => (None, Err(error)),
            };
            // The starter may have given up.
            let _ = sender.send(begun);
            let mut sleeper = Sleeper::new(waker);
            while let Some(follower) = &mut follower
                && let Some(daemon) = daemon.upgrade()
                && !daemon.stop.load(Ordering::Relaxed)
            {
                let followed = follower.follow(&daemon);
                let pause = if followed.is_err() { RETRY } else { INTERVAL };
                followed.err().into_iter().for_each(|error| {
                    daemon.log.push(clock::now(), LoggedEvent::Warning(error.to_string()));
                });
                // Without a reference, so that the router can end meanwhile.
                drop(daemon);
                follower.sleep(&mut sleeper, pause);
            }
        };
        thread::Builder::new().name("linux-tables".into()).spawn(follow).map_err(StartError::System)?;
        let begun = receiver.recv().map_err(|_| StartError::AdoptionTimeout)?;
        begun.map_err(|error| StartError::Apply(vec![error]))?;
        // Not before: only one thread may create the namespace.
        let (daemon, namespace, waker, relays) = relay;
        dhcp_relay::start(daemon, namespace, waker, relays).map_err(StartError::System)
    }
}

/// Moves the calling thread to a namespace.
fn enter(namespace: Option<&str>) -> Result<(), ApplyError> {
    let Some(name) = namespace else { return Ok(()) };
    Namespace::named(name).and_then(|namespace| namespace.enter()).map_err(|error| ApplyError {
        place: "linux.namespace".into(),
        reason: format!("cannot enter the network namespace '{name}': {error}"),
        hint: "it needs CAP_SYS_ADMIN: run the router as root".into(),
    })
}

fn failed(error: KernelError) -> ApplyError {
    ApplyError { place: "linux".into(), reason: error.to_string(), hint: "see `ip link` in its namespace".into() }
}

impl Follower {
    /// Enters the namespace, for good.
    fn start(
        exchange: Arc<Exchange>,
        forwarding: Arc<fib::Tables>,
        namespace: Option<&str>,
    ) -> Result<Follower, ApplyError> {
        enter(namespace)?;
        let tables = KernelTables::open(FollowedTables::Only(vec![MAIN_TABLE])).map_err(failed)?;
        let netlink = Netlink::open().map_err(failed)?;
        Ok(Follower {
            exchange,
            netlink,
            tables,
            groups: GroupFollower::start()?,
            ipv4_links: BTreeSet::new(),
            forwarding,
            served: BTreeMap::new(),
            interfaces: RoutedInterfaces::new(),
            own: BTreeSet::new(),
            configured: StaticRoutes::default(),
            generation: Generation(0),
        })
    }

    /// Sleeps until the kernel has changes, another thread wakes this one, or the time is over. Meanwhile the kernel's interfaces follow the links of the
    /// router's ports.
    fn sleep(&mut self, sleeper: &mut Sleeper, pause: Nanos) {
        let until = clock::now() + pause;
        while clock::now() < until {
            for Served { device, wanted, carrier, .. } in self.served.values_mut() {
                let up = self.forwarding.is_up(wanted.id);
                if up != *carrier && device.set_carrier(up).is_ok() {
                    *carrier = up;
                }
            }
            match sleeper.sleep([self.tables.as_fd(), self.groups.as_fd()], LINK_INTERVAL) {
                Ok(WakeReason::Timeout) => {}
                _ => return,
            }
        }
    }

    /// Compares both sides and carries over what differs.
    fn follow(&mut self, daemon: &Daemon) -> Result<(), ApplyError> {
        let (snapshot, plan) = {
            let control = daemon.control.lock();
            (control.router.snapshot().clone(), control.router.plan().cloned())
        };
        let Some(plan) = plan else { return Ok(()) };
        let is_new = snapshot.generation != self.generation;
        if is_new {
            self.follow_router(&snapshot, &plan)?;
            self.generation = snapshot.generation;
        }
        let interfaces: RoutedInterfaces = (self.served.iter())
            .map(|(name, served)| (served.device.index(), (name.clone(), served.wanted.id)))
            .collect();
        let mut routes = RouteBatch::new(daemon, &interfaces);
        let interfaces_changed = interfaces != self.interfaces;
        let mut own_changed = interfaces_changed;
        let Follower { tables, configured, own, .. } = &mut *self;
        let follow = |change: KernelChange<'_>| {
            configured.observe(&change);
            // Routes to addresses of the machine must not take their place.
            own_changed |=
                matches!(change, KernelChange::Route { route, .. } if own.contains(&route.route.destination));
            routes.add_change(change);
        };
        tables.update(follow).map_err(failed)?;
        if interfaces_changed {
            // A route may lead to an interface that exists only now.
            for ResolvedRoute { route, .. } in self.tables.routes() {
                let effective = self.tables.effective_route(route.table, route.destination, route.prefix);
                routes.set((route.destination, route.prefix), effective);
            }
        }
        let own = self.own_addresses(&interfaces);
        if own_changed || own != self.own {
            for &address in self.own.difference(&own) {
                let length = Prefix::host(address).length;
                routes.set((address, length), self.tables.effective_route(MAIN_TABLE, address, length));
            }
            let owner = interfaces.values().map(|(name, _)| name).min();
            own.iter().for_each(|&address| routes.set_own(address, owner));
        }
        self.ipv4_links.extend(routes.finish());
        self.groups.follow(daemon, &interfaces, interfaces_changed)?;
        self.groups.report_use(daemon, &self.served);
        (self.interfaces, self.own) = (interfaces, own);
        let settings = self.follow_kernel().map_err(failed)?;
        let is_edited = daemon.linux.get().is_some_and(|linux| linux.has_edits.swap(false, Ordering::Acquire));
        if is_new || interfaces_changed || is_edited {
            self.configured.set(&plan, &self.served, (&self.tables, &self.forwarding));
        }
        if let Some(refusal) = self.configured.apply(&self.tables, &mut self.netlink).map_err(failed)? {
            daemon.log.push(clock::now(), LoggedEvent::Warning(refusal));
        }
        daemon.adopt_kernel_settings(&settings);
        Ok(())
    }

    /// The addresses of the kernel on interfaces that the router does not have, except those that no other host can reach.
    fn own_addresses(&self, interfaces: &RoutedInterfaces) -> BTreeSet<IpAddr> {
        let elsewhere = self.tables.addresses().filter(|address| !interfaces.contains_key(&address.link));
        elsewhere.map(|address| address.address).filter(|&address| routes::is_routed(address)).collect()
    }

    /// Makes, changes and removes interfaces of the kernel as the router has them.
    fn follow_router(&mut self, snapshot: &Snapshot, plan: &Plan) -> Result<(), ApplyError> {
        let mut all: BTreeMap<Name, Wanted> = BTreeMap::new();
        for (_, interface) in plan.interfaces() {
            let Some(known) = snapshot.interface_named(&interface.name).filter(|known| known.kernel.is_some()) else {
                continue;
            };
            let addresses = interface.addresses.iter().map(|prefix| (prefix.address, prefix.length)).collect();
            let wanted = Wanted { id: known.id, mac: known.mac, mtu: interface.mtu, addresses };
            all.insert(interface.name.clone(), wanted);
        }
        self.served.retain(|name, served| {
            let stays = all.contains_key(name);
            if !stays {
                served.device.remove();
            }
            stays
        });
        for (name, wanted) in all {
            let failed = |error: OpenError| ApplyError {
                place: format!("linux, interface {name}"),
                reason: error.reason,
                hint: error.hint,
            };
            match self.served.get_mut(&name).filter(|served| served.device.exists()) {
                Some(served) => {
                    if (served.wanted.mac, served.wanted.mtu) != (wanted.mac, wanted.mtu) {
                        served.device.configure(wanted.mac, wanted.mtu).map_err(failed)?;
                    }
                    served.wanted = wanted;
                }
                None => {
                    self.served.remove(&name);
                    let device = KernelInterface::open(&name, wanted.mac, wanted.mtu).map_err(failed)?;
                    let (device, added) = (Arc::new(device), BTreeSet::new());
                    self.served.insert(name, Served { device, wanted, added, carrier: true });
                }
            }
        }
        let interfaces: KernelInterfaces =
            self.served.values().map(|served| (served.wanted.id, served.device.clone())).collect();
        self.exchange.set_interfaces(interfaces);
        Ok(())
    }

    /// Gives the kernel the configured addresses, and returns what programs of the machine have set.
    fn follow_kernel(&mut self) -> Result<SettingsByName, KernelError> {
        let netlink = &mut self.netlink;
        let mut settings = BTreeMap::new();
        for (name, served) in &mut self.served {
            let index = served.device.index();
            let here = || self.tables.addresses().filter(move |address| address.link == index);
            let present: BTreeSet<(IpAddr, u8)> = here().map(|address| (address.address, address.prefix)).collect();
            let Some(link) = self.tables.links().find(|link| link.index == index) else {
                // A program has removed the interface: the router has no addresses there.
                settings.insert(name.clone(), KernelSettings { down: true, ..KernelSettings::default() });
                continue;
            };
            for &(address, length) in served.wanted.addresses.difference(&present) {
                if link.up {
                    netlink.add_address(name, address, length)?;
                    served.added.insert((address, length));
                }
            }
            let superfluous: Vec<(IpAddr, u8)> = served.added.difference(&served.wanted.addresses).copied().collect();
            for (address, length) in superfluous {
                let old = KernelAddress::new(index, address, length);
                // If it is gone already, nothing remains to be done.
                netlink.apply([KernelRequest::Delete(RequestObject::Address(&old))])?;
                served.added.remove(&(address, length));
            }
            let usable = here().filter(|address| !address.flags.is_tentative() && !address.flags.is_duplicate());
            let own: BTreeSet<(IpAddr, u8)> = usable.map(|address| (address.address, address.prefix)).collect();
            let foreign = own.difference(&served.wanted.addresses);
            let addresses = foreign.map(|&(address, length)| Prefix { address, length }).collect();
            let mtu = u16::try_from(link.mtu).ok().filter(|mtu| *mtu < served.wanted.mtu);
            let upper = self.tables.links().filter(|upper| upper.kind == "macvlan" && upper.lower == Some(index));
            let mut stations: Vec<Mac> = upper.filter(|upper| upper.up).map(|upper| upper.mac).collect();
            stations.retain(|mac| *mac != served.wanted.mac);
            stations.sort_unstable();
            let (down, routes_groups, carries_ipv4) =
                (!link.up, self.groups.routes_on(index), self.ipv4_links.contains(&index));
            let set = KernelSettings { addresses, mtu, down, stations, routes_groups, carries_ipv4 };
            settings.insert(name.clone(), set);
        }
        Ok(settings)
    }
}

impl Daemon {
    /// Adopts what programs of the machine have set on the kernel's interfaces, in a new generation. It is no part of the history: the configuration
    /// stays the same.
    fn adopt_kernel_settings(&self, settings: &SettingsByName) {
        let Some(mut guard) = self.lock_adopted(ADOPTION_TIMEOUT) else { return };
        let control = &mut *guard;
        // The usual case, before the plan is copied: it may have a million routes. An apply takes the settings over by itself.
        if control.kernel_settings == *settings {
            return;
        }
        let Some(running) = control.router.plan().cloned() else { return };
        let mut plan = (*running).clone();
        control.kernel_settings = settings.clone();
        let skipped = control.with_kernel_settings(&mut plan);
        if plan == *running {
            return;
        }
        let now = clock::now();
        for (interface, prefix) in skipped {
            let text = format!(
                "interface {interface}: the address {prefix} of the kernel is not used: its network is on another interface"
            );
            self.log.push(now, LoggedEvent::Warning(text));
        }
        control.router.set_time(now);
        // Measurements must not refuse what the kernel has done already.
        match control.router.prepare_rollback(&plan, &mut *control.opener) {
            Ok(prepared) => {
                let published = control.router.publish(prepared);
                control.adopting = Some((published, control.text.clone(), control.name.clone()));
            }
            Err(errors) => {
                // The next change of the kernel, or the next apply, tries again.
                let text = errors.iter().map(ApplyError::to_string).collect::<Vec<_>>().join("; ");
                self.log
                    .push(now, LoggedEvent::Warning(format!("the settings of the kernel cannot be adopted: {text}")));
                return;
            }
        }
        drop(guard);
        drop(self.lock_adopted(ADOPTION_TIMEOUT));
    }
}

impl Control {
    /// Adds the settings of the kernel's interfaces to a plan. Returns the addresses that it cannot use: their networks are on other interfaces.
    pub(super) fn with_kernel_settings(&self, plan: &mut Plan) -> Vec<(Name, Prefix)> {
        let mut skipped = Vec::new();
        let configured = plan.interfaces().flat_map(|(_, interface)| {
            interface
                .addresses
                .iter()
                .map(move |prefix| (interface.vrf.clone(), prefix.network(), interface.name.clone()))
        });
        let mut networks: Vec<(Option<Name>, Prefix, Name)> = configured.collect();
        for interface in plan.ports.iter_mut().flat_map(|port| &mut port.interfaces) {
            let Some(settings) = self.kernel_settings.get(&interface.name) else {
                interface.kernel = KernelSettings::default();
                continue;
            };
            interface.kernel = settings.clone();
            interface.kernel.addresses.retain(|prefix| {
                let link_local = matches!(prefix.address, IpAddr::V6(address) if address.is_unicast_link_local());
                let elsewhere = |(vrf, network, name): &(Option<Name>, Prefix, Name)| {
                    *vrf == interface.vrf && *network == prefix.network() && *name != interface.name
                };
                let usable = link_local || !networks.iter().any(elsewhere);
                if usable {
                    networks.push((interface.vrf.clone(), prefix.network(), interface.name.clone()));
                } else {
                    skipped.push((interface.name.clone(), *prefix));
                }
                usable
            });
        }
        skipped
    }
}
