//! What ports on the same interface share.
//!
//! A port on an interface that another one still closes shares what was changed about the interface, so that the old
//! one's end does not undo what the new one needs.

use super::{OpenError, PacketOptions, PacketPort, Tenure};
use crate::closer::Closer;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The interfaces of one network namespace that the `packet:` ports of a router have.
#[derive(Debug, Default)]
pub(crate) struct Tenures {
    held: HashMap<u32, Weak<Tenure>>,
}

impl Tenures {
    /// The interface of that index has left the network namespace: where it is, the host's stack receives from it.
    pub(crate) fn let_go(&self, index: u32) {
        let held = self.held.get(&index).and_then(Weak::upgrade);
        held.iter().for_each(|tenure| tenure.let_go());
    }

    /// As [`PacketPort::open`], at most `queues` ports; `closer` is what closes the ports before it.
    pub(crate) fn open(
        &mut self,
        interface: &str,
        options: &PacketOptions,
        queues: usize,
        closer: &Closer,
    ) -> Result<(Vec<PacketPort>, Vec<String>), OpenError> {
        let held = |index| {
            let held = self.held.get(&index)?;
            // What is not held any more may be half undone yet.
            held.upgrade().or_else(|| {
                closer.finish();
                None
            })
        };
        let (ports, remarks) = PacketPort::open_beside(interface, options, queues, held)?;
        self.held.retain(|_, held| held.strong_count() > 0);
        self.held.extend(ports.first().map(|port| (port.index(), Arc::downgrade(port.tenure()))));
        Ok((ports, remarks))
    }
}
