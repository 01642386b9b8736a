//! Closing ports without keeping their worker.
//!
//! The kernel closes a packet socket in some 50 ms: three times it waits until no processor can be inside it any more
//! (packet_release, packet_set_ring: synchronize_net). A worker that waited as long would leave its other ports to fill up
//! and lose packets, so a thread of its own does. A port on an interface that another one still closes shares what was
//! changed about the interface, so that the old one's end does not undo what the new one needs.

use super::{OpenError, PacketOptions, PacketPort, Tenure};
use packet::{Batch, Pool};
use plane::port::{Port, PortStatistics, Waiter};
use std::collections::HashMap;
use std::fmt;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;
use units::{Instant, Mac, Rate};

/// How long the end of the program waits for ports to be closed; what is left then the kernel closes, or the next start.
const PATIENCE: Duration = Duration::from_secs(5);

/// The interfaces of one network namespace that the ports of a router have.
#[derive(Debug, Default)]
pub struct Interfaces {
    held: HashMap<u32, Weak<Tenure>>,
    closer: Option<Sender<Job>>,
}

enum Job {
    Close(PacketPort),
    /// Answers when everything before it is done.
    Say(Sender<()>),
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Job::Close(_)) { "Close" } else { "Say" })
    }
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
                finish(&closer);
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
        self.closer.iter().for_each(finish);
    }

    fn closer(&mut self) -> std::io::Result<Sender<Job>> {
        if let Some(closer) = &self.closer {
            return Ok(closer.clone());
        }
        let (sender, jobs) = channel();
        // Ends when these interfaces and all of their ports are gone.
        thread::Builder::new().name("closer".into()).spawn(move || {
            for job in jobs {
                match job {
                    Job::Close(port) => drop(port),
                    // Whoever asked may have lost patience.
                    Job::Say(done) => drop(done.send(())),
                }
            }
        })?;
        Ok(self.closer.insert(sender).clone())
    }
}

fn finish(closer: &Sender<Job>) {
    let (sender, done) = channel();
    if closer.send(Job::Say(sender)).is_ok() {
        let _ = done.recv_timeout(PATIENCE);
    }
}

/// A port that goes to the closer in the end.
struct Leased {
    /// There until it is dropped.
    port: Option<PacketPort>,
    closer: Sender<Job>,
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
            // Without the closer it is closed here and now.
            let _ = self.closer.send(Job::Close(port));
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
