//! The interfaces of the router's `xdp:` ports in one network namespace.

use super::device::{Budget, XdpDevice};
use super::{XdpOptions, XdpPort};
use crate::advisories::OpenError;
use crate::closer::Closer;
use crate::offload::{DisabledOffloads, EthtoolOffload};
use crate::packet_ring;
use packet::Region;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// See the module.
#[derive(Debug, Default)]
pub struct XdpInterfaces {
    held: HashMap<u32, Weak<XdpDevice>>,
    budget: Budget,
}

impl XdpInterfaces {
    /// Opens an interface of the network namespace of the calling thread; the ports can then be used in any. There is at least one port and at most
    /// `queues`. Each serves its part of the receive queues with frames of `region`. An existing port on the interface continues until it is dropped;
    /// then the new ones use its sockets. Also returns advisories about missing features. Needs CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW.
    pub fn open(
        &mut self,
        interface: &str,
        region: &Arc<Region>,
        queues: usize,
        options: &XdpOptions,
    ) -> Result<(Vec<XdpPort>, Vec<String>), OpenError> {
        self.open_with(interface, region, queues, options, || {})
    }

    /// Like [`XdpInterfaces::open`]; `closer` closes the predecessors of these ports.
    pub(crate) fn open_after(
        &mut self,
        interface: &str,
        region: &Arc<Region>,
        queues: usize,
        options: &XdpOptions,
        closer: &Closer,
    ) -> Result<(Vec<XdpPort>, Vec<String>), OpenError> {
        self.open_with(interface, region, queues, options, || closer.finish())
    }

    /// Notes that the interface with this index left the network namespace: in its new place it gets no program.
    pub(crate) fn detach_left(&self, index: u32) {
        let held = self.held.get(&index).and_then(Weak::upgrade);
        // A bound device belongs to the interface that returned under the same index.
        held.filter(|device| !device.is_bound()).iter().for_each(|device| drop(device.detach_program()));
    }

    fn open_with(
        &mut self,
        interface: &str,
        region: &Arc<Region>,
        queues: usize,
        options: &XdpOptions,
        closed: impl FnOnce(),
    ) -> Result<(Vec<XdpPort>, Vec<String>), OpenError> {
        let link = packet_ring::find(interface)?;
        let mut warnings = Vec::new();
        let held = self.held.get(&link.index).and_then(Weak::upgrade);
        let device = match held {
            Some(device) if device.is_of(region) && device.is_bound() => device,
            Some(device) if !device.is_of(region) => {
                return Err(OpenError {
                    reason: format!("{interface} is a port of another router of this program"),
                    hint: "give each router interfaces of its own".into(),
                });
            }
            before => {
                // A device without a holder may be half closed.
                closed();
                let index = link.index;
                // The interface was away. The port that was open on it is dropped as soon as there is another.
                let mut switched = before.map_or_else(Vec::new, |device| device.detach_program());
                let offloads =
                    [EthtoolOffload::LargeReceive, EthtoolOffload::GenericReceive, EthtoolOffload::TagStripping];
                let offloads = DisabledOffloads::new(interface, &offloads).map_err(|error| OpenError {
                    reason: format!("cannot switch off the offloads of {interface}: {error}"),
                    hint: "it needs CAP_NET_ADMIN: run it as root".into(),
                })?;
                // Offloads that the earlier device switched off are still off, and its record restores them.
                if switched.is_empty() || offloads.has_changed_any() {
                    switched.push(offloads.into());
                }
                let opened = XdpDevice::open(link, region, queues, options, &self.budget, switched)?;
                warnings = opened.1;
                let device = Arc::new(opened.0);
                self.held.retain(|_, held| held.strong_count() > 0);
                self.held.insert(index, Arc::downgrade(&device));
                device
            }
        };
        let port = |number| XdpPort::new(device.clone(), number, options.checksums);
        Ok(((0..device.ports()).map(port).collect(), warnings))
    }
}
