//! The hosts beside one router: a sender with the kernel's sockets, and a receiver whose kernel is silent.

use super::processors::ProcessorSplit;
use super::router::AcceptanceRouter;
use super::traffic::{FlowTraffic, TrafficFlow};
use anyhow::{Context, Result};
use io::netns::{Lab, LabHost, Plug};
use std::net::Ipv4Addr;
use units::Mac;

/// The receiver's address. The packets of all flows go there.
const RECEIVER: Mac = Mac([2, 0, 0, 0, 0, 9]);
const SENDER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// sender eth0 - in \[router\] out - eth0 receiver
pub struct LineHosts {
    sender: LabHost,
    router: LabHost,
    receiver: LabHost,
    processors: ProcessorSplit,
    _lab: Lab,
}

impl LineHosts {
    /// The router's port to the sender, without its line rate.
    pub const PORT_IN: &str = "[port.in]\ndevice = 'packet:in'\naddress = ['192.0.2.1/24']\noffloads = false";
    /// The port to the receiver, without its scheme. Its two neighbours are the receiver, so that a route can change.
    pub const PORT_OUT: &str = "[[neighbour]]\naddress = '198.51.100.8'\nmac = '02:00:00:00:00:09'\nport = 'out'\n\
         [[neighbour]]\naddress = '198.51.100.9'\nmac = '02:00:00:00:00:09'\nport = 'out'\n\
         [[route]]\nto = '10.0.0.0/8'\nvia = '198.51.100.9'\n\
         [port.out]\ndevice = 'packet:out'\naddress = ['198.51.100.1/24']\noffloads = false\nline_rate = '1kpps'";

    /// Creates the namespaces and the cables.
    ///
    /// # Errors
    ///
    /// The process may not create them.
    pub fn new(processors: ProcessorSplit) -> Result<LineHosts> {
        let lab = Lab::new().context("real packets need network namespaces: run it as root")?;
        let (sender, router, receiver) = (lab.host("sender")?, lab.host("router")?, lab.host("receiver")?);
        [&sender, &router, &receiver].into_iter().try_for_each(LabHost::silence_kernel)?;
        lab.cable(&sender.plug("eth0"), &router.plug("in"))?;
        lab.cable(&Plug { mac: Some(RECEIVER), ..receiver.plug("eth0") }, &router.plug("out"))?;
        sender.add_address("eth0", SENDER.into(), 24)?;
        sender.add_default_route(GATEWAY.into())?;
        Ok(LineHosts { sender, router, receiver, processors, _lab: lab })
    }

    /// Starts a router with this configuration and these guests.
    ///
    /// # Errors
    ///
    /// The configuration is wrong, or the router cannot start here.
    pub fn start(&self, text: &str, guests: &[(&str, &[u8])]) -> Result<AcceptanceRouter> {
        AcceptanceRouter::start(&self.router, self.processors, text, guests)
    }

    /// The ends of these flows.
    ///
    /// # Errors
    ///
    /// A socket cannot be opened.
    pub fn traffic(&self, flows: Vec<TrafficFlow>) -> Result<FlowTraffic> {
        let flows: Vec<_> = flows.into_iter().map(|flow| (&self.sender, flow)).collect();
        FlowTraffic::new(&flows, &self.receiver, self.processors)
    }
}
