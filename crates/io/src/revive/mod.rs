//! Ports that outlive their interface: switched off, unplugged, removed and made anew under the same name, the port is down
//! meanwhile and works again by itself.
//!
//! One thread for the ports of a router listens to what the kernel tells of links, opens what has come back, and lays
//! it ready; a worker only looks at a flag and takes it. Everything a worker could have to wait for happens here.

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

/// How soon opening is tried again where an interface is there but cannot be opened yet, and how often a device is asked
/// for that no news comes from.
const RETRY: Nanos = Nanos::millis(50);

/// What [`Device::reopen`] has opened: one port for each queue.
pub struct Opened {
    /// The ports.
    pub ports: Vec<Box<dyn Port>>,
    /// The index of the interface.
    pub index: u32,
    /// The longest IP packet that the ports carry, however much their interface does.
    pub most: u16,
    pub(crate) claim: Arc<Claim>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ports on interface {}", self.ports.len(), self.index)
    }
}

/// How a device is had again.
pub trait Device: Send {
    /// Opens it, as many queues as it had. Called on a thread in the network namespace of the interface.
    fn reopen(&mut self) -> Result<Opened, OpenError>;
    /// Whether there can be something to open where the kernel has no interface of that name: a device that is made by
    /// opening it.
    fn makes_its_interface(&self) -> bool {
        false
    }
    /// The interface of that index has left the network namespace, and the device does not work there.
    fn let_go(&mut self, _index: u32) {}
    /// Whether it still works though its interface has left the network namespace.
    fn went_elsewhere(&self) -> bool {
        false
    }
}

/// The interface is there and carries packets.
const UP: u8 = 0;
/// It is there.
const DOWN: u8 = 1;
/// It is not there.
const GONE: u8 = 2;

/// What a worker's part of a port and the thread have in common.
struct Shared {
    state: AtomicU8,
    /// The longest IP packet it carries.
    mtu: AtomicU16,
    seats: Vec<Seat>,
    /// Held with the interface.
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

/// A port as the thread knows it.
struct Watched {
    /// The name of the port, for remarks.
    port: String,
    interface: String,
    index: u32,
    /// See [`Opened::most`].
    most: u16,
    device: Box<dyn Device>,
    shared: Weak<Shared>,
    /// Gone, and not yet opened again.
    gone: bool,
    /// Something may have happened to it.
    dirty: bool,
    /// Its interface has left the network namespace, and may be back already.
    left: bool,
    /// It works, but in another network namespace, from which no news comes.
    elsewhere: bool,
    /// Why it could not be opened again, as last said.
    said: Option<String>,
}

/// The thread, and where new ports are handed to it. It ends when this is dropped.
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
    /// Starts it in `namespace`, or that of the calling thread. Old ports are closed by `closer`.
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

    /// From now on the ports of `opened` follow the interface of that name; `port` is what remarks call them.
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
            self.ports.retain(|port| port.shared.strong_count() > 0);
            for port in self.ports.iter_mut().filter(|port| port.dirty || port.gone || port.elsewhere) {
                port.look(&mut self.netlink, &self.remarks);
            }
            let waits = self.ports.iter().any(|port| port.elsewhere || port.gone && port.said.is_some());
            let timeout = if waits { RETRY } else { Nanos::MAX };
            match sleeper.sleep([self.watch.as_fd()], timeout) {
                Ok(Woken::Ready) => self.hear(),
                Ok(_) => {}
                // Never seen; without sleep it would take a whole processor.
                Err(_) => thread::park_timeout(RETRY.into()),
            }
        }
    }

    fn hear(&mut self) {
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
        // A device that works wherever its interface is has lost nothing on the way.
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
