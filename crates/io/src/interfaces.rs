//! Ports on kernel interfaces of any kind. They are opened in the router's network namespace, claimed for it, and reopened when the interface returns
//! ([`crate::hotplug`]).

use crate::advisories::{Advisories, OpenError};
use crate::closer::Closer;
use crate::hotplug::{HotplugDevice, HotplugMonitor, OpenedDevice};
use crate::interface_lock::InterfaceLocks;
use crate::netlink::Netlink;
use crate::netns::Namespace;
use crate::packet_ring::{PacketInterfaces, PacketOptions};
use crate::tap::{TapOptions, Taps, WeakTap};
use crate::xdp::{self, XdpOptions};
use packet::Region;
use packet::port::Port;
use plan::PortPlan;
use std::sync::{Arc, Mutex, PoisonError};

/// The kinds of port that are kernel interfaces.
pub(crate) const KINDS: [&str; 3] = ["packet", "xdp", "tap"];

/// The interfaces of one router.
#[derive(Default)]
pub(crate) struct Interfaces {
    /// See [`PacketOptions::kernel_timestamps`].
    pub(crate) kernel_timestamps: bool,
    parts: Option<Parts>,
}

/// The parts that exist once there is an interface.
struct Parts {
    shared: Arc<Shared>,
    closer: Closer,
    monitor: HotplugMonitor,
}

/// The state for opening and reopening ports.
struct Shared {
    interfaces: Mutex<SharedInterfaces>,
    closer: Closer,
    advisories: Advisories,
}

/// The state that ports on the same interface share.
#[derive(Default)]
struct SharedInterfaces {
    locks: InterfaceLocks,
    packets: PacketInterfaces,
    xdp: xdp::XdpInterfaces,
    taps: Taps,
}

/// The configuration of a port.
#[derive(Clone)]
struct DeviceSpec {
    port: String,
    kind: DeviceKind,
    interface: String,
    queues: usize,
}

#[derive(Clone)]
enum DeviceKind {
    Packet(PacketOptions),
    /// With the router's frames.
    Xdp(XdpOptions, Arc<Region>),
    Tap(TapOptions),
}

impl Interfaces {
    /// Opens the device of `plan`, of one of [`KINDS`], in `namespace` or that of the calling thread: one port for each of its queues, at most
    /// `queues`.
    pub(crate) fn open(
        &mut self,
        plan: &PortPlan,
        region: &Arc<Region>,
        queues: usize,
        namespace: &Option<Arc<Namespace>>,
        warnings: &Advisories,
    ) -> Result<Vec<Box<dyn Port>>, OpenError> {
        let mtu = plan.interfaces.first().map_or(1500, |interface| interface.mtu.into());
        // Without super-frames in the pool, received super-frames cannot be stored.
        let offloads = plan.device.offloads && region.super_frames() > 0;
        let kind = match &*plan.device.kind {
            "packet" => DeviceKind::Packet(PacketOptions {
                offloads,
                kernel_timestamps: self.kernel_timestamps,
                ..PacketOptions::default()
            }),
            "xdp" => {
                let options = XdpOptions { checksums: plan.device.checksums, ..XdpOptions::default() };
                DeviceKind::Xdp(options, region.clone())
            }
            "tap" => DeviceKind::Tap(TapOptions { mtu, offloads }),
            other => unreachable!("'{other}' is no interface of the kernel"),
        };
        let wanted = DeviceSpec { port: plan.name.to_string(), kind, interface: plan.device.target.clone(), queues };
        let parts = self.parts(namespace, warnings)?;
        let open = || parts.shared.open(&wanted);
        let (opened, pulse) = match namespace {
            None => open(),
            Some(namespace) => namespace.run(open).unwrap_or_else(|error| {
                let reason = format!("cannot enter the network namespace of the router: {error}");
                Err(OpenError { reason, hint: "it needs CAP_SYS_ADMIN: run it as root".into() })
            }),
        }?;
        if opened.ports.iter().any(|port| !port.is_up()) {
            let (port, interface) = (&wanted.port, &wanted.interface);
            let hint = format!("set it up with `ip link set {interface} up` unless this is intended");
            warnings.add(format!("port {port}: {interface} is down; {hint}"));
        }
        // A reopened port must have the same number of queues, one for each worker that has one now.
        let wanted = DeviceSpec { queues: opened.ports.len(), ..wanted };
        let again = Reopener { shared: parts.shared.clone(), wanted: wanted.clone(), tap: pulse };
        Ok(parts.monitor.watch(&wanted.port, &wanted.interface, opened, Box::new(again)))
    }

    fn parts(&mut self, namespace: &Option<Arc<Namespace>>, warnings: &Advisories) -> Result<&Parts, OpenError> {
        if self.parts.is_none() {
            let closer = Closer::start().map_err(|error| OpenError {
                reason: format!("cannot start the thread that closes ports: {error}"),
                hint: "end other programs and try again".into(),
            })?;
            let shared = Shared { interfaces: Mutex::default(), closer: closer.clone(), advisories: warnings.clone() };
            let reviver = HotplugMonitor::start(namespace.clone(), closer.clone(), warnings.clone())?;
            self.parts = Some(Parts { shared: Arc::new(shared), closer, monitor: reviver });
        }
        Ok(self.parts.as_ref().expect("made just now"))
    }

    /// Waits until the dropped ports are closed.
    pub(crate) fn finish(self) {
        self.parts.iter().for_each(|parts| parts.closer.finish());
    }
}

impl Shared {
    /// Opens a device in the network namespace of the calling thread.
    fn open(&self, wanted: &DeviceSpec) -> Result<(OpenedDevice, Option<WeakTap>), OpenError> {
        // Held to the end, because the monitor's thread may reopen another port of the same interface.
        let mut held = self.interfaces.lock().unwrap_or_else(PoisonError::into_inner);
        let SharedInterfaces { locks: claims, packets, xdp, taps } = &mut *held;
        let interface = &wanted.interface;
        let claim_first = |claims: &mut InterfaceLocks| {
            // If there is no interface, opening reports it.
            let found = Netlink::open().ok().and_then(|mut netlink| netlink.find_link(interface));
            found.map(|(index, _)| claims.lock(interface, index)).transpose()
        };
        let mut open_packet = |claims: &mut InterfaceLocks, options: &PacketOptions| {
            let claim = claim_first(claims)?;
            let (ports, warnings) = packets.open(interface, options, wanted.queues, &self.closer)?;
            let index = ports[0].index();
            let claim = claim.map_or_else(|| claims.lock(interface, index), Ok)?;
            let ports = ports.into_iter().map(|port| Box::new(port) as Box<dyn Port>).collect();
            Ok((OpenedDevice { ports, index, max_mtu: u16::MAX, interface_lock: claim }, None, warnings))
        };
        let (opened, pulse, warnings) = match &wanted.kind {
            DeviceKind::Packet(options) => open_packet(claims, options)?,
            DeviceKind::Xdp(options, region) => {
                let claim = claim_first(claims)?;
                match xdp.open_after(interface, region, wanted.queues, options, &self.closer) {
                    Ok((opened, mut warnings)) => {
                        let index = opened[0].index();
                        let mtu = Netlink::open()
                            .ok()
                            .and_then(|mut netlink| netlink.link(interface).ok())
                            .map(|link| link.mtu);
                        let most = u32::from(xdp::MOST_MTU);
                        warnings.extend(mtu.filter(|mtu| *mtu > most).map(|mtu| {
                            format!(
                                "{interface} has an MTU of {mtu}, and AF_XDP carries {most} at most: longer packets are lost before \
                                 they are received; `ip link set {interface} mtu {most}`, or use packet:{interface}"
                            )
                        }));
                        let claim = claim.map_or_else(|| claims.lock(interface, index), Ok)?;
                        let ports = opened.into_iter().map(|port| Box::new(port) as Box<dyn Port>).collect();
                        (OpenedDevice { ports, index, max_mtu: xdp::MOST_MTU, interface_lock: claim }, None, warnings)
                    }
                    Err(OpenError { reason, hint }) => {
                        // If that fails as well, the operator gets one error, not two.
                        let offloads = region.super_frames() > 0;
                        let options = PacketOptions { offloads, ..PacketOptions::default() };
                        // A claim made above is still held, and this one shares it.
                        let (opened, pulse, mut warnings) = open_packet(claims, &options)?;
                        let instead = "AF_PACKET instead of AF_XDP, which is slower";
                        warnings.push(format!("{instead}: {reason}; {hint}"));
                        (opened, pulse, warnings)
                    }
                }
            }
            DeviceKind::Tap(options) => {
                // A queue of an existing device could be opened beside another router's.
                let claim = claim_first(claims)?;
                let opened = taps.open(interface, *options, wanted.queues, &self.closer)?;
                let claim = claim.map_or_else(|| claims.lock(interface, opened.index), Ok)?;
                let pulse = opened.ports.first().map(|port| WeakTap::of(port, opened.created));
                let ports = opened.ports.into_iter().map(|port| Box::new(port) as Box<dyn Port>).collect();
                (
                    OpenedDevice { ports, index: opened.index, max_mtu: u16::MAX, interface_lock: claim },
                    pulse,
                    opened.advisories,
                )
            }
        };
        warnings.into_iter().for_each(|warning| self.advisories.add(format!("port {}: {warning}", wanted.port)));
        Ok((opened, pulse))
    }
}

/// Reopens a port.
struct Reopener {
    shared: Arc<Shared>,
    wanted: DeviceSpec,
    /// For tap devices.
    tap: Option<WeakTap>,
}

impl HotplugDevice for Reopener {
    fn reopen(&mut self) -> Result<OpenedDevice, OpenError> {
        let (opened, pulse) = self.shared.open(&self.wanted)?;
        let made = self.creates_interface();
        // A device made by the router counts as made by it again, even if another process recreated it first.
        self.tap = pulse.map(|mut pulse| {
            pulse.created |= made;
            pulse
        });
        Ok(opened)
    }

    fn interface_left(&mut self, index: u32) {
        let held = self.shared.interfaces.lock().unwrap_or_else(PoisonError::into_inner);
        held.packets.mark_left(index);
        held.xdp.detach_left(index);
    }

    fn creates_interface(&self) -> bool {
        self.tap.as_ref().is_some_and(|pulse| pulse.created)
    }

    fn works_in_other_namespace(&self) -> bool {
        self.tap.as_ref().is_some_and(WeakTap::is_alive)
    }
}
