//! Ports that survive the absence of their interface. If the interface is down, unplugged, or removed and recreated with the same name, the port is
//! down meanwhile and recovers by itself.
//!
//! One thread for all ports of a router receives link notifications, reopens devices whose interface has returned, and leaves them for the worker. A
//! worker only checks a flag. All blocking operations are on this thread.

mod port;

use crate::claim::Claim;
use crate::closer::Closer;
use crate::netlink::{LinkNews, LinkWatch, Netlink};
use crate::netns::Namespace;
use crate::remarks::{OpenError, Remarks};
use crate::wait::{Sleeper, Waker, Woken};
use packet::port::Port;
use port::{Revived, Seat};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::{fmt, thread};
use units::Nanos;

/// The retry interval if an interface exists but cannot be opened yet, and the polling interval for a device without notifications.
const RETRY: Nanos = Nanos::millis(50);

/// The result of [`Device::reopen`]: one port for each queue.
pub struct Opened {
    /// The ports.
    pub ports: Vec<Box<dyn Port>>,
    /// The index of the interface.
    pub index: u32,
    /// The longest IP packet that the ports carry, regardless of the interface's MTU.
    pub most: u16,
    pub(crate) claim: Arc<Claim>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ports on interface {}", self.ports.len(), self.index)
    }
}

/// Reopens a device.
pub trait Device: Send {
    /// Opens it with the same number of queues. Called on a thread in the interface's network namespace.
    fn reopen(&mut self) -> Result<Opened, OpenError>;
    /// True if it can be opened without an existing interface, because opening it creates the interface.
    fn makes_its_interface(&self) -> bool {
        false
    }
    /// The interface with this index left the network namespace, and the device does not work in its new place.
    fn let_go(&mut self, _index: u32) {}
    /// True if it still works although its interface left the network namespace.
    fn went_elsewhere(&self) -> bool {
        false
    }
}

/// The interface is operational.
const UP: u8 = 0;
/// It exists.
const DOWN: u8 = 1;
/// It does not exist.
const GONE: u8 = 2;

/// The state shared by a worker's part of a port and the thread.
struct Shared {
    state: AtomicU8,
    /// The longest IP packet that it carries.
    mtu: AtomicU16,
    seats: Vec<Seat>,
    /// Held together with the interface.
    claim: Mutex<Arc<Claim>>,
}

impl Shared {
    fn new((state, mtu): (u8, u16), queues: usize, claim: Arc<Claim>) -> Shared {
        let seats = (0..queues).map(|_| Seat::new()).collect();
        Shared { state: AtomicU8::new(state), mtu: AtomicU16::new(mtu), seats, claim: Mutex::new(claim) }
    }

    fn mtu(&self) -> u16 {
        self.mtu.load(Ordering::Relaxed)
    }

    fn set_mtu(&self, mtu: u32, most: u16) {
        self.mtu.store(u16::try_from(mtu).unwrap_or(u16::MAX).min(most), Ordering::Relaxed);
    }

    #[inline]
    fn state(&self) -> u8 {
        self.state.load(Ordering::Acquire)
    }

    fn set(&self, state: u8) {
        self.state.store(state, Ordering::Release);
    }
}

fn state_of(up: bool) -> u8 {
    if up { UP } else { DOWN }
}

/// The thread's state of a port.
struct Watched {
    /// The name of the port, for advisories.
    port: String,
    interface: String,
    index: u32,
    /// See [`Opened::most`].
    most: u16,
    device: Box<dyn Device>,
    shared: Weak<Shared>,
    /// Its interface is gone, and it is not reopened yet.
    gone: bool,
    /// It may have changed.
    dirty: bool,
    /// Its interface left the network namespace, and may have returned already.
    left: bool,
    /// It works in another network namespace, from which no notifications arrive.
    elsewhere: bool,
    /// The last reported reason for a failed reopening.
    said: Option<String>,
}

/// The thread, and the channel for new ports. It ends when this value is dropped.
#[derive(Debug)]
pub struct Reviver {
    arrivals: Sender<Watched>,
    waker: Waker,
    closer: Closer,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {} on {}", self.port, self.interface)
    }
}

impl Reviver {
    /// Starts it in `namespace`, or that of the calling thread. `closer` closes old ports.
    pub(crate) fn start(
        namespace: Option<Arc<Namespace>>,
        closer: Closer,
        remarks: Remarks,
    ) -> Result<Reviver, OpenError> {
        let failed = |what: &str, error: &dyn fmt::Display| OpenError {
            reason: format!("{what}: {error}"),
            hint: "end other programs and try again".into(),
        };
        let waker = Waker::new().map_err(|error| failed("an eventfd cannot be had", &error))?;
        let ((arrivals, inbox), (begun, answer)) = (channel(), channel());
        let bell = waker.clone();
        let run = move || {
            let entered = namespace.map_or(Ok(()), |namespace| namespace.enter()).map_err(|error| error.to_string());
            let opened = entered.and_then(|()| {
                let watch = LinkWatch::open().map_err(|error| error.to_string())?;
                Ok((watch, Netlink::open().map_err(|error| error.to_string())?))
            });
            match opened {
                Ok((watch, netlink)) => {
                    let _ = begun.send(Ok(()));
                    Thread { watch, netlink, inbox, remarks, ports: Vec::new() }.run(Sleeper::new(bell));
                }
                Err(error) => drop(begun.send(Err(error))),
            }
        };
        let thread = thread::Builder::new().name("reviver".into()).spawn(run);
        thread.map_err(|error| failed("a thread that watches interfaces cannot be started", &error))?;
        match answer.recv() {
            Ok(Ok(())) => Ok(Reviver { arrivals, waker, closer }),
            Ok(Err(error)) => Err(failed("the interfaces cannot be watched", &error)),
            Err(error) => Err(failed("the interfaces cannot be watched", &error)),
        }
    }

    /// Makes the ports of `opened` follow the interface with this name. `port` is their name in advisories.
    pub fn follow(&self, port: &str, interface: &str, opened: Opened, device: Box<dyn Device>) -> Vec<Box<dyn Port>> {
        let Opened { ports, index, most, claim } = opened;
        let up = ports.iter().all(|port| port.is_up());
        let mtu = ports.iter().filter_map(|port| port.mtu()).fold(most, u16::min);
        let shared = Arc::new(Shared::new((state_of(up), mtu), ports.len(), claim));
        let watched = Watched {
            port: port.to_owned(),
            interface: interface.to_owned(),
            index,
            most,
            device,
            shared: Arc::downgrade(&shared),
            gone: false,
            // It may have changed since it was opened.
            dirty: true,
            left: false,
            elsewhere: false,
            said: None,
        };
        // The thread lives as long as `self`.
        let _ = self.arrivals.send(watched);
        self.waker.wake();
        let wrap = |(queue, port)| -> Box<dyn Port> {
            Box::new(Revived::new(port, shared.clone(), queue, self.closer.clone()))
        };
        ports.into_iter().enumerate().map(wrap).collect()
    }
}

impl Drop for Reviver {
    fn drop(&mut self) {
        let (nobody, _) = channel();
        // Disconnects the thread's channel; the wakeup makes it notice.
        self.arrivals = nobody;
        self.waker.wake();
    }
}

struct Thread {
    watch: LinkWatch,
    netlink: Netlink,
    inbox: Receiver<Watched>,
    remarks: Remarks,
    ports: Vec<Watched>,
}

impl Thread {
    fn run(mut self, mut sleeper: Sleeper) {
        use std::sync::mpsc::TryRecvError;
        loop {
            loop {
                match self.inbox.try_recv() {
                    Ok(port) => self.ports.push(port),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            // Ports that their workers have dropped.
            self.ports.retain(|port| port.shared.strong_count() > 0);
            for port in self.ports.iter_mut().filter(|port| port.dirty || port.gone || port.elsewhere) {
                port.look(&mut self.netlink, &self.remarks);
            }
            // No notification arrives for these, so they are polled.
            let waits = self.ports.iter().any(|port| port.elsewhere || port.gone && port.said.is_some());
            let timeout = if waits { RETRY } else { Nanos::MAX };
            match sleeper.sleep([self.watch.as_fd()], timeout) {
                Ok(Woken::Ready) => self.hear(),
                Ok(_) => {}
                // Has never occurred; without a sleep the loop would use a whole processor.
                Err(_) => thread::park_timeout(RETRY.into()),
            }
        }
    }

    fn hear(&mut self) {
        // After lost notifications every port is checked.
        let news = self.watch.news().unwrap_or(LinkNews::Unknown);
        for port in &mut self.ports {
            let LinkNews::Of(links) = &news else {
                port.dirty = true;
                continue;
            };
            port.dirty |= links.iter().any(|link| link.index == port.index || link.name == port.interface);
            port.left |= links.iter().any(|link| link.left && link.index == port.index);
        }
    }
}

impl Watched {
    fn look(&mut self, netlink: &mut Netlink, remarks: &Remarks) {
        self.dirty = false;
        let Some(shared) = self.shared.upgrade() else { return };
        let found = netlink.link(&self.interface).ok();
        // A device that works in any namespace lost nothing when its interface moved.
        let lost = std::mem::take(&mut self.left) && !self.device.went_elsewhere();
        if lost {
            self.device.let_go(self.index);
        }
        if let (Some(link), false) = (&found, self.gone || lost)
            && link.index == self.index
        {
            shared.set_mtu(link.mtu, self.most);
            return shared.set(state_of(link.up && link.running));
        }
        self.elsewhere = !self.gone && found.is_none() && self.device.went_elsewhere();
        if self.elsewhere {
            return shared.set(UP);
        }
        shared.set(GONE);
        if !self.gone {
            self.gone = true;
            let (port, interface) = (&self.port, &self.interface);
            remarks.add(format!("port {port}: {interface} is gone; the port works again when there is one"));
        }
        if found.is_some() || self.device.makes_its_interface() {
            self.reopen(&shared, netlink, remarks);
        }
    }

    fn reopen(&mut self, shared: &Shared, netlink: &mut Netlink, remarks: &Remarks) {
        let (port, interface) = (&self.port, &self.interface);
        let opened = self.device.reopen().map_err(|error| error.to_string()).and_then(|opened| {
            let (had, has) = (shared.seats.len(), opened.ports.len());
            let fewer = || format!("it had {had} queues and has {has} now; restart the router");
            if has < had { Err(fewer()) } else { Ok(opened) }
        });
        match opened {
            Err(why) => {
                if self.said.as_ref() != Some(&why) {
                    remarks.add(format!("port {port}: {interface} is back but cannot be opened yet: {why}"));
                }
                self.said = Some(why);
            }
            Ok(Opened { ports, index, most, claim }) => {
                *shared.claim.lock().unwrap_or_else(PoisonError::into_inner) = claim;
                for (seat, port) in shared.seats.iter().zip(ports) {
                    seat.lay(port);
                }
                (self.index, self.most, self.gone, self.said) = (index, most, false, None);
                let link = netlink.link(interface).ok().filter(|link| link.index == index);
                link.iter().for_each(|link| shared.set_mtu(link.mtu, most));
                shared.set(state_of(link.is_some_and(|link| link.up && link.running)));
                remarks.add(format!("port {port}: {interface} is back"));
            }
        }
    }
}
