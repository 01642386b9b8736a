//! Ports on kernel interfaces of any kind. They are opened in the router's network namespace, claimed for it, and reopened when the interface returns
//! ([`crate::revive`]).

use crate::claim::Claims;
use crate::closer::Closer;
use crate::netlink::Netlink;
use crate::netns::Namespace;
use crate::packet_ring::{PacketOptions, Tenures};
use crate::remarks::{OpenError, Remarks};
use crate::revive::{Device, Opened, Reviver};
use crate::tap::{Pulse, TapOptions, Taps};
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
    /// See [`PacketOptions::stamped`].
    pub(crate) stamped: bool,
    parts: Option<Parts>,
}

/// The parts that exist once there is an interface.
struct Parts {
    shared: Arc<Shared>,
    closer: Closer,
    reviver: Reviver,
}

/// The state for opening and reopening ports.
struct Shared {
    held: Mutex<Held>,
    closer: Closer,
    remarks: Remarks,
}

/// The state that ports on the same interface share.
#[derive(Default)]
struct Held {
    claims: Claims,
    packets: Tenures,
    xdp: xdp::Interfaces,
    taps: Taps,
}

/// The configuration of a port.
#[derive(Clone)]
struct Wanted {
    port: String,
    kind: Kind,
    interface: String,
    queues: usize,
}

#[derive(Clone)]
enum Kind {
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
        remarks: &Remarks,
    ) -> Result<Vec<Box<dyn Port>>, OpenError> {
        let mtu = plan.interfaces.first().map_or(1500, |interface| interface.mtu.into());
        // Without super-frames in the pool, received super-frames cannot be stored.
        let offloads = plan.device.offloads && region.super_frames() > 0;
        let kind = match &*plan.device.kind {
            "packet" => Kind::Packet(PacketOptions { offloads, stamped: self.stamped, ..PacketOptions::default() }),
            "xdp" => {
                let options = XdpOptions { checksums: plan.device.checksums, ..XdpOptions::default() };
                Kind::Xdp(options, region.clone())
            }
            "tap" => Kind::Tap(TapOptions { mtu, offloads }),
            other => unreachable!("'{other}' is no interface of the kernel"),
        };
        let wanted = Wanted { port: plan.name.to_string(), kind, interface: plan.device.target.clone(), queues };
        let parts = self.parts(namespace, remarks)?;
        let open = || parts.shared.open(&wanted);
        let (opened, pulse) = match namespace {
            None => open(),
            Some(namespace) => namespace.run(open).unwrap_or_else(|error| {
                let reason = format!("the network namespace of the router cannot be entered: {error}");
                Err(OpenError { reason, hint: "it needs CAP_SYS_ADMIN: run it as root".into() })
            }),
        }?;
        if opened.ports.iter().any(|port| !port.is_up()) {
            let (port, interface) = (&wanted.port, &wanted.interface);
            let hint = format!("`ip link set {interface} up` where it should not be");
            remarks.add(format!("port {port}: {interface} is down; {hint}"));
        }
        // A reopened port must have the same number of queues, one for each worker that has one now.
        let wanted = Wanted { queues: opened.ports.len(), ..wanted };
        let again = Again { shared: parts.shared.clone(), wanted: wanted.clone(), pulse };
        Ok(parts.reviver.follow(&wanted.port, &wanted.interface, opened, Box::new(again)))
    }

    fn parts(&mut self, namespace: &Option<Arc<Namespace>>, remarks: &Remarks) -> Result<&Parts, OpenError> {
        if self.parts.is_none() {
            let closer = Closer::start().map_err(|error| OpenError {
                reason: format!("a thread that closes ports could not be started: {error}"),
                hint: "end other programs and try again".into(),
            })?;
            let shared = Shared { held: Mutex::default(), closer: closer.clone(), remarks: remarks.clone() };
            let reviver = Reviver::start(namespace.clone(), closer.clone(), remarks.clone())?;
            self.parts = Some(Parts { shared: Arc::new(shared), closer, reviver });
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
    fn open(&self, wanted: &Wanted) -> Result<(Opened, Option<Pulse>), OpenError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Held { claims, packets, xdp, taps } = &mut *held;
        let interface = &wanted.interface;
        let claim_first = |claims: &mut Claims| {
            // If there is no interface, opening reports it.
            let found = Netlink::open().ok().and_then(|mut netlink| netlink.find_link(interface));
            found.map(|(index, _)| claims.claim(interface, index)).transpose()
        };
        let mut open_packet = |claims: &mut Claims, options: &PacketOptions| {
            let claim = claim_first(claims)?;
            let (ports, remarks) = packets.open(interface, options, wanted.queues, &self.closer)?;
            let index = ports[0].index();
            let claim = claim.map_or_else(|| claims.claim(interface, index), Ok)?;
            let ports = ports.into_iter().map(|port| Box::new(port) as Box<dyn Port>).collect();
            Ok((Opened { ports, index, most: u16::MAX, claim }, None, remarks))
        };
        let (opened, pulse, remarks) = match &wanted.kind {
            Kind::Packet(options) => open_packet(claims, options)?,
            Kind::Xdp(options, region) => {
                let claim = claim_first(claims)?;
                match xdp.open_after(interface, region, wanted.queues, options, &self.closer) {
                    Ok((opened, mut remarks)) => {
                        let index = opened[0].index();
                        let mtu = Netlink::open()
                            .ok()
                            .and_then(|mut netlink| netlink.link(interface).ok())
                            .map(|link| link.mtu);
                        let most = u32::from(xdp::MOST_MTU);
                        remarks.extend(mtu.filter(|mtu| *mtu > most).map(|mtu| {
                            format!(
                                "{interface} has an MTU of {mtu}, and AF_XDP carries {most} at most: longer packets are lost before \
                                 they are received; `ip link set {interface} mtu {most}`, or use packet:{interface}"
                            )
                        }));
                        let claim = claim.map_or_else(|| claims.claim(interface, index), Ok)?;
                        let ports = opened.into_iter().map(|port| Box::new(port) as Box<dyn Port>).collect();
                        (Opened { ports, index, most: xdp::MOST_MTU, claim }, None, remarks)
                    }
                    Err(OpenError { reason, hint }) => {
                        // If that fails as well, the operator gets one error, not two.
                        let offloads = region.super_frames() > 0;
                        let options = PacketOptions { offloads, ..PacketOptions::default() };
                        let (opened, pulse, mut remarks) = open_packet(claims, &options)?;
                        let instead = "AF_PACKET in place of AF_XDP, which is slower";
                        remarks.push(format!("{instead}: {reason}; {hint}"));
                        (opened, pulse, remarks)
                    }
                }
            }
            Kind::Tap(options) => {
                // A queue of an existing device could be opened beside another router's.
                let claim = claim_first(claims)?;
                let opened = taps.open(interface, *options, wanted.queues, &self.closer)?;
                let claim = claim.map_or_else(|| claims.claim(interface, opened.index), Ok)?;
                let pulse = opened.ports.first().map(|port| Pulse::of(port, opened.made));
                let ports = opened.ports.into_iter().map(|port| Box::new(port) as Box<dyn Port>).collect();
                (Opened { ports, index: opened.index, most: u16::MAX, claim }, pulse, opened.remarks)
            }
        };
        remarks.into_iter().for_each(|remark| self.remarks.add(format!("port {}: {remark}", wanted.port)));
        Ok((opened, pulse))
    }
}

/// Reopens a port.
struct Again {
    shared: Arc<Shared>,
    wanted: Wanted,
    /// For tap devices.
    pulse: Option<Pulse>,
}

impl Device for Again {
    fn reopen(&mut self) -> Result<Opened, OpenError> {
        let (opened, pulse) = self.shared.open(&self.wanted)?;
        let made = self.makes_its_interface();
        // A device made by the router counts as made by it again, even if another process recreated it first.
        self.pulse = pulse.map(|mut pulse| {
            pulse.made |= made;
            pulse
        });
        Ok(opened)
    }

    fn let_go(&mut self, index: u32) {
        let held = self.shared.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.packets.let_go(index);
        held.xdp.let_go(index);
    }

    fn makes_its_interface(&self) -> bool {
        self.pulse.as_ref().is_some_and(|pulse| pulse.made)
    }

    fn went_elsewhere(&self) -> bool {
        self.pulse.as_ref().is_some_and(Pulse::beats)
    }
}
