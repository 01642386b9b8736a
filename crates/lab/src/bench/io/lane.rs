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
use io::netlink::{Neighbour, Netlink, Veth, VethEnd};
use io::netns::{Host, Lab};
use io::offload::{Ethtool, Offload};
use io::traffic::Journey;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use units::Mac;

/// The router that forwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The kernel.
    Kernel,
    /// Switchpath on `xdp:` ports.
    Xdp,
    /// Switchpath on `packet:` ports.
    Packet,
    /// Switchpath on `tap:` ports.
    Tap,
}

impl Kind {
    /// The name for people, and of the router's ports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Kernel => "kernel",
            Kind::Xdp => "xdp",
            Kind::Packet => "packet",
            Kind::Tap => "tap",
        }
    }
}

/// One side of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The side of the sender.
    Left,
    /// The side of the receiver.
    Right,
}

impl Side {
    const BOTH: [Side; 2] = [Side::Left, Side::Right];

    /// The name of the links of this side.
    pub fn name(self) -> &'static str {
        if self == Side::Left { "left" } else { "right" }
    }

    /// The addresses of the router and of the host, in the block for benchmarks (RFC 2544).
    pub fn addresses(self) -> (Ipv4Addr, Ipv4Addr) {
        let net = 18 + self as u8;
        (Ipv4Addr::new(198, net, 0, 1), Ipv4Addr::new(198, net, 0, 2))
    }

    fn macs(self) -> (Mac, Mac) {
        (Mac([2, 0, 0, 0, self as u8 + 1, 1]), Mac([2, 0, 0, 0, self as u8 + 1, 2]))
    }
}

/// The offloads that the hosts use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wire {
    /// None: whole frames, as a wire would carry them.
    Plain,
    /// Checksums and segmentation, as hosts on one machine use: super-frames.
    Offloaded,
}

/// A running lane.
pub struct Lane {
    /// The router.
    pub kind: Kind,
    /// The hosts at both ends.
    pub stations: [Host; 2],
    router: Host,
    daemon: Option<Arc<Daemon>>,
}

impl Lane {
    /// Creates the cables and starts the router.
    pub fn new(lab: &Lab, kind: Kind, wire: Wire) -> Result<Lane> {
        let router = lab.host(kind.name())?;
        if kind == Kind::Kernel {
            router.forward_in_kernel()?
        } else {
            router.silence_kernel()?
        }
        let stations = Side::BOTH.map(|side| lab.host(side.name()));
        let [left, right] = stations;
        let mut lane = Lane { kind, stations: [left?, right?], router, daemon: None };
        for side in Side::BOTH.into_iter().filter(|_| kind != Kind::Tap) {
            lane.lay(side, wire)?;
        }
        if kind != Kind::Kernel {
            lane.start()?;
        }
        for side in Side::BOTH {
            if kind == Kind::Tap {
                let namespace = lane.station(side).namespace().clone();
                lane.router.run(|| Netlink::open()?.move_to(side.name(), &*namespace))??;
            }
            lane.settle_station(side)?;
        }
        Ok(lane)
    }

    /// The host at one end.
    pub fn station(&self, side: Side) -> &Host {
        &self.stations[side as usize]
    }

    /// The host with the router's ends of the cables.
    pub fn router(&self) -> &Host {
        &self.router
    }

    /// The headers of packets from left to right.
    pub fn journey() -> Journey {
        let ((router, station), (_, from), (_, to)) =
            (Side::Left.macs(), Side::Left.addresses(), Side::Right.addresses());
        Journey { link: (station, router), network: (from, to) }
    }

    /// The index of a link of a host.
    pub fn index(host: &Host, side: Side) -> Result<u32> {
        Ok(host.run(|| Netlink::open()?.link(side.name()))??.index)
    }

    fn lay(&self, side: Side, wire: Wire) -> Result<()> {
        let ((near, far), name) = (side.macs(), side.name());
        let station = self.station(side);
        let ends = [
            VethEnd { name, namespace: None, mac: Some(far) },
            VethEnd { name, namespace: Some(std::os::fd::AsFd::as_fd(&**self.router.namespace())), mac: Some(near) },
        ];
        station.run(|| Netlink::open()?.add_veth(&Veth { ends }))??;
        for host in [station, &self.router] {
            host.run(|| -> Result<()> {
                let ethtool = Ethtool::open()?;
                if wire == Wire::Plain {
                    ethtool.switch_all_off(name)?;
                }
                Ok(Netlink::open()?.set_up(name, true)?)
            })??;
        }
        if self.kind == Kind::Kernel {
            let ((router, to), (_, mac)) = (side.addresses(), side.macs());
            self.router.add_address(name, IpAddr::V4(router), 24)?;
            let neighbour = Neighbour { link: name, address: IpAddr::V4(to), mac };
            self.router.run(|| Netlink::open()?.add_neighbour(&neighbour))??;
        }
        Ok(())
    }

    /// Configures the addresses of a host and its default route.
    fn settle_station(&self, side: Side) -> Result<()> {
        let ((router, station), (router_mac, station_mac)) = (side.addresses(), side.macs());
        let host = self.station(side);
        if self.kind == Kind::Tap {
            host.run(|| Netlink::open()?.set_mac(side.name(), station_mac))??;
            host.run(|| Netlink::open()?.set_up(side.name(), true))??;
        }
        host.add_address(side.name(), IpAddr::V4(station), 24)?;
        let neighbour = Neighbour { link: side.name(), address: IpAddr::V4(router), mac: router_mac };
        host.run(|| Netlink::open()?.add_neighbour(&neighbour))??;
        Ok(host.add_default_route(IpAddr::V4(router))?)
    }

    fn start(&mut self) -> Result<()> {
        let text = self.configuration();
        let plan = plan::check(&text, "bench.toml", &plane::catalogue()).map_err(|wrong| anyhow!("{wrong}"))?;
        let devices = Devices::new(clock::epoch()).in_namespace(self.router.namespace().clone());
        let remarks = devices.remarks().clone();
        let options = control::Options::new(devices, &text, "bench.toml", |_| {});
        let daemon = Daemon::start(&plan, options).map_err(|error| anyhow!(error)).context("the router")?;
        if let Some(remark) = remarks.take().into_iter().find(|remark| remark.contains("in place of")) {
            daemon.stop();
            anyhow::bail!("{remark}");
        }
        self.daemon = Some(daemon);
        Ok(())
    }

    /// Switches the router's ports to polling by the estimators' schedule.
    pub fn estimate(&self) -> Result<()> {
        let Some(daemon) = &self.daemon else { return Ok(()) };
        let text = self.configuration().replace("device =", "estimator = true\ndevice =");
        daemon.apply(&text, "bench.toml").map_err(|failure| anyhow!("{failure}"))?;
        Ok(())
    }

    fn configuration(&self) -> String {
        let mut text = String::from("version = 1\n");
        for side in Side::BOTH {
            let ((router, station), (router_mac, station_mac)) = (side.addresses(), side.macs());
            let (name, kind) = (side.name(), self.kind.name());
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "[port.{name}]\ndevice = '{kind}:{name}'\nmac = '{router_mac}'\naddress = ['{router}/24']\n\
                 [[neighbour]]\naddress = '{station}'\nmac = '{station_mac}'\nport = '{name}'\n"
            );
        }
        text
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
    lane.router.run(|| Ethtool::open()?.switch(Side::Left.name(), Offload::ReceiveJoining, true))??;
    Ok(())
}
