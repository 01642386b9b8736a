//! The interfaces that the ports of a router have: closed in the background, and shared where one follows another.
//!
//! A port on an interface that another one still closes shares what was changed about the interface, so that the old
//! one's end does not undo what the new one needs.

use super::{OpenError, PacketOptions, PacketPort, Tenure};
use crate::closer::Closer;
use packet::{Batch, Pool};
use plane::port::{Offloads, Port, PortStatistics, Waiter};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use units::{Instant, Mac, Rate};

/// The interfaces of one network namespace that the ports of a router have.
#[derive(Debug, Default)]
pub struct Interfaces {
    held: HashMap<u32, Weak<Tenure>>,
    closer: Option<Closer>,
}

impl Interfaces {
    /// As [`PacketPort::open`]. Dropping the port takes no time: it is closed in the background.
    pub fn open(
        &mut self,
        interface: &str,
        options: &PacketOptions,
    ) -> Result<(Box<dyn Port>, Vec<String>), OpenError> {
        let closer = self.closer().map_err(|error| OpenError {
            reason: format!("a thread that closes ports could not be started: {error}"),
            hint: "end other programs and try again".into(),
        })?;
        let held = |index| {
            let held = self.held.get(&index)?;
            // What is not held any more may be half undone yet.
            held.upgrade().or_else(|| {
                closer.finish();
                None
            })
        };
        let (port, remarks) = PacketPort::open_beside(interface, options, held)?;
        let (index, tenure) = port.tenure();
        self.held.retain(|_, held| held.strong_count() > 0);
        self.held.insert(index, Arc::downgrade(tenure));
        Ok((Box::new(Leased { port: Some(port), closer }), remarks))
    }

    /// Waits until the ports that were dropped are closed.
    pub fn finish(&self) {
        self.closer.iter().for_each(Closer::finish);
    }

    fn closer(&mut self) -> std::io::Result<Closer> {
        match &self.closer {
            Some(closer) => Ok(closer.clone()),
            None => Ok(self.closer.insert(Closer::start()?).clone()),
        }
    }
}

/// A port that goes to the closer in the end.
struct Leased {
    /// There until it is dropped.
    port: Option<PacketPort>,
    closer: Closer,
}

impl Leased {
    #[inline]
    fn port(&self) -> &PacketPort {
        self.port.as_ref().expect("it is there until it is dropped")
    }

    #[inline]
    fn port_mut(&mut self) -> &mut PacketPort {
        self.port.as_mut().expect("it is there until it is dropped")
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        if let Some(port) = self.port.take() {
            self.closer.close(port);
        }
    }
}

impl Port for Leased {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        self.port_mut().receive(now, batch, pool);
    }

    fn room(&self) -> usize {
        self.port().room()
    }

    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        self.port_mut().transmit(now, batch, pool);
    }

    fn link_rate(&self) -> Rate {
        self.port().link_rate()
    }

    fn is_up(&self) -> bool {
        self.port().is_up()
    }

    fn offloads(&self) -> Offloads {
        self.port().offloads()
    }

    fn waiter(&self) -> Waiter {
        self.port().waiter()
    }

    fn mac(&self) -> Option<Mac> {
        self.port().mac()
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }

    fn statistics(&self) -> PortStatistics {
        self.port().statistics()
    }
}
