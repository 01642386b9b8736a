//! The changes to an interface, shared by its ports.
//!
//! A new port shares the changes of an old one that is still closing. The end of the old port therefore does not undo settings that the new one
//! needs.

use super::{InterfaceChanges, OpenError, PacketOptions, PacketPort};
use crate::closer::Closer;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The interfaces of the router's `packet:` ports in one network namespace.
#[derive(Debug, Default)]
pub(crate) struct PacketInterfaces {
    held: HashMap<u32, Weak<InterfaceChanges>>,
}

impl PacketInterfaces {
    /// Notes that the interface with this index left the network namespace: in its new place the host's stack receives from it.
    pub(crate) fn mark_left(&self, index: u32) {
        let held = self.held.get(&index).and_then(Weak::upgrade);
        held.iter().for_each(|tenure| tenure.mark_left());
    }

    /// Like [`PacketPort::open`], for at most `queues` ports; `closer` closes their predecessors.
    pub(crate) fn open(
        &mut self,
        interface: &str,
        options: &PacketOptions,
        queues: usize,
        closer: &Closer,
    ) -> Result<(Vec<PacketPort>, Vec<String>), OpenError> {
        let held = |index| {
            let held = self.held.get(&index)?;
            // Changes without a holder may be partly undone already.
            held.upgrade().or_else(|| {
                closer.finish();
                None
            })
        };
        let (ports, warnings) = PacketPort::open_queues(interface, options, queues, held)?;
        self.held.retain(|_, held| held.strong_count() > 0);
        self.held.extend(ports.first().map(|port| (port.index(), Arc::downgrade(port.changes()))));
        Ok((ports, warnings))
    }
}
