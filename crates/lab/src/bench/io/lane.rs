//! One router between two hosts: the kernel's, or Switchpath on ports of some kind.
//!
//! ```text
//!  hosts: left 198.18.0.2 --- left 198.18.0.1 [router] right 198.19.0.1 --- right 198.19.0.2 :hosts
//! ```
//!
//! Each lane has two network namespaces of its own, so that lanes differ in nothing but the router.

use anyhow::{Context, Result, anyhow};
use control::Daemon;
use io::clock;
use io::devices::Devices;
use io::netlink::{KernelNeighbour, Netlink, Veth, VethEnd};
use io::netns::{Lab, LabHost};
use io::offload::{Ethtool, EthtoolOffload};
use io::traffic::PacketAddresses;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use units::Mac;

/// The router that forwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaneKind {
    /// The kernel.
    Kernel,
    /// Switchpath on `xdp:` ports.
    Xdp,
    /// Switchpath on `packet:` ports.
    Packet,
    /// Switchpath on `tap:` ports.
    Tap,
    /// A program that the caller starts. It has the links for itself: the kernel has no addresses there.
    Program,
}

impl LaneKind {
    /// The name for people, and of the router's ports.
    pub fn name(self) -> &'static str {
        match self {
            LaneKind::Kernel => "kernel",
            LaneKind::Xdp => "xdp",
            LaneKind::Packet => "packet",
            LaneKind::Tap => "tap",
            LaneKind::Program => "program",
        }
    }

    /// True if the router is Switchpath.
    fn is_own(self) -> bool {
        !matches!(self, LaneKind::Kernel | LaneKind::Program)
    }
}

/// One side of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaneSide {
    /// The side of the sender.
    Left,
    /// The side of the receiver.
    Right,
}

impl LaneSide {
    const BOTH: [LaneSide; 2] = [LaneSide::Left, LaneSide::Right];

    /// The name of the links of this side.
    pub fn name(self) -> &'static str {
        if self == LaneSide::Left { "left" } else { "right" }
    }

    /// The addresses of the router and of the host, in the block for benchmarks (RFC 2544).
    pub fn addresses(self) -> (Ipv4Addr, Ipv4Addr) {
        let net = 18 + self as u8;
        (Ipv4Addr::new(198, net, 0, 1), Ipv4Addr::new(198, net, 0, 2))
    }

    /// The link-layer addresses of the router and of the host.
    pub fn macs(self) -> (Mac, Mac) {
        (Mac([2, 0, 0, 0, self as u8 + 1, 1]), Mac([2, 0, 0, 0, self as u8 + 1, 2]))
    }
}

/// The offloads that the hosts use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostOffloads {
    /// None: whole frames, as a wire would carry them.
    Plain,
    /// Checksums and segmentation, as hosts on one machine use: super-frames.
    Offloaded,
}

/// A running lane.
pub struct Lane {
    /// The router.
    pub kind: LaneKind,
    /// The hosts at both ends.
    pub hosts: [LabHost; 2],
    router: LabHost,
    /// More of the router's configuration: keys of both ports, and tables at its end.
    more: (String, String),
    daemon: Option<Arc<Daemon>>,
}

impl Lane {
    /// Creates the cables and starts the router.
    pub fn new(lab: &Lab, kind: LaneKind, wire: HostOffloads) -> Result<Lane> {
        Lane::with_tables(lab, kind, wire, String::new())
    }

    /// The same, with more tables in the router's configuration.
    pub fn with_tables(lab: &Lab, kind: LaneKind, wire: HostOffloads, tables: String) -> Result<Lane> {
        Lane::with_configuration(lab, kind, wire, (String::new(), tables))
    }

    /// The same, with more keys of both ports, too.
    pub fn with_configuration(lab: &Lab, kind: LaneKind, wire: HostOffloads, more: (String, String)) -> Result<Lane> {
        let router = lab.host(kind.name())?;
        if kind == LaneKind::Kernel {
            router.forward_in_kernel()?
        } else {
            router.silence_kernel()?
        }
        let stations = LaneSide::BOTH.map(|side| lab.host(side.name()));
        let [left, right] = stations;
        let mut lane = Lane { kind, hosts: [left?, right?], router, more, daemon: None };
        for side in LaneSide::BOTH.into_iter().filter(|_| kind != LaneKind::Tap) {
            lane.lay(side, wire)?;
        }
        if kind.is_own() {
            lane.start()?;
        }
        for side in LaneSide::BOTH {
            if kind == LaneKind::Tap {
                let namespace = lane.host(side).namespace().clone();
                lane.router.run(|| Netlink::open()?.move_to(side.name(), &*namespace))??;
            }
            lane.configure_host(side)?;
        }
        Ok(lane)
    }

    /// The host at one end.
    pub fn host(&self, side: LaneSide) -> &LabHost {
        &self.hosts[side as usize]
    }

    /// The router, if it is ours.
    pub fn daemon(&self) -> Option<&Daemon> {
        self.daemon.as_deref()
    }

    /// The host with the router's ends of the cables.
    pub fn router(&self) -> &LabHost {
        &self.router
    }

    /// The headers of packets from left to right.
    pub fn headers() -> PacketAddresses {
        let ((router, station), (_, from), (_, to)) =
            (LaneSide::Left.macs(), LaneSide::Left.addresses(), LaneSide::Right.addresses());
        PacketAddresses { link: (station, router), network: (from, to) }
    }

    /// The index of a link of a host.
    pub fn index(host: &LabHost, side: LaneSide) -> Result<u32> {
        Ok(host.run(|| Netlink::open()?.link(side.name()))??.index)
    }

    fn lay(&self, side: LaneSide, wire: HostOffloads) -> Result<()> {
        let ((near, far), name) = (side.macs(), side.name());
        let station = self.host(side);
        let ends = [
            VethEnd { name, namespace: None, mac: Some(far) },
            VethEnd { name, namespace: Some(std::os::fd::AsFd::as_fd(&**self.router.namespace())), mac: Some(near) },
        ];
        station.run(|| Netlink::open()?.add_veth(&Veth { ends }))??;
        for host in [station, &self.router] {
            host.run(|| -> Result<()> {
                let ethtool = Ethtool::open()?;
                if wire == HostOffloads::Plain {
                    ethtool.switch_all_off(name)?;
                }
                Ok(Netlink::open()?.set_up(name, true)?)
            })??;
        }
        if self.kind == LaneKind::Kernel {
            let ((router, to), (_, mac)) = (side.addresses(), side.macs());
            self.router.add_address(name, IpAddr::V4(router), 24)?;
            let neighbour = KernelNeighbour { link: name, address: IpAddr::V4(to), mac };
            self.router.run(|| Netlink::open()?.add_neighbour(&neighbour))??;
        }
        Ok(())
    }

    /// Configures the addresses of a host and its default route.
    fn configure_host(&self, side: LaneSide) -> Result<()> {
        let ((router, station), (router_mac, station_mac)) = (side.addresses(), side.macs());
        let host = self.host(side);
        if self.kind == LaneKind::Tap {
            host.run(|| Netlink::open()?.set_mac(side.name(), station_mac))??;
            host.run(|| Netlink::open()?.set_up(side.name(), true))??;
        }
        host.add_address(side.name(), IpAddr::V4(station), 24)?;
        let neighbour = KernelNeighbour { link: side.name(), address: IpAddr::V4(router), mac: router_mac };
        host.run(|| Netlink::open()?.add_neighbour(&neighbour))??;
        Ok(host.add_default_route(IpAddr::V4(router))?)
    }

    fn start(&mut self) -> Result<()> {
        let text = self.configuration();
        let plan = plan::check(&text, "bench.toml", &plane::catalogue()).map_err(|wrong| anyhow!("{wrong}"))?;
        let devices = Devices::new(clock::epoch()).in_namespace(self.router.namespace().clone());
        let remarks = devices.advisories().clone();
        let options = control::DaemonOptions::new(devices, &text, "bench.toml", |_| {});
        let daemon = Daemon::start(&plan, options).map_err(|error| anyhow!(error)).context("the router")?;
        if let Some(remark) = remarks.take().into_iter().find(|remark| remark.contains("in place of")) {
            daemon.stop();
            anyhow::bail!("{remark}");
        }
        self.daemon = Some(daemon);
        Ok(())
    }

    /// Switches the router's ports to polling by the estimators' schedule.
    pub fn enable_estimators(&self) -> Result<()> {
        let Some(daemon) = &self.daemon else { return Ok(()) };
        let text = self.configuration().replace("device =", "estimator = true\ndevice =");
        daemon.apply(&text, "bench.toml").map_err(|failure| anyhow!("{failure}"))?;
        Ok(())
    }

    fn configuration(&self) -> String {
        let (mut text, (keys, tables)) = (String::from("version = 1\n"), &self.more);
        for side in LaneSide::BOTH {
            let ((router, station), (router_mac, station_mac)) = (side.addresses(), side.macs());
            let (name, kind) = (side.name(), self.kind.name());
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "[port.{name}]\ndevice = '{kind}:{name}'\nmac = '{router_mac}'\naddress = ['{router}/24']\n{keys}\n\
                 [[neighbour]]\naddress = '{station}'\nmac = '{station_mac}'\nport = '{name}'\n"
            );
        }
        text + tables
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.stop();
        }
    }
}

/// Makes the driver below the kernel's router poll for frames (NAPI), as it does with an XDP program, but without one: with a program it would not
/// merge frames. A virtual link accepts redirected frames only in this mode.
pub fn poll_in_driver(lane: &Lane) -> Result<()> {
    lane.router.run(|| Ethtool::open()?.switch(LaneSide::Left.name(), EthtoolOffload::GenericReceive, true))??;
    Ok(())
}
