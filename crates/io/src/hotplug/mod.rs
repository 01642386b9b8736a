//! Ports that survive the absence of their interface. If the interface is down, unplugged, or removed and recreated with the same name, the port is
//! down meanwhile and recovers by itself.
//!
//! One thread for all ports of a router receives link notifications, reopens devices whose interface has returned, and leaves them for the worker. A
//! worker only checks a flag. All blocking operations are on this thread.

mod port;

use crate::advisories::{Advisories, OpenError};
use crate::closer::Closer;
use crate::interface_lock::InterfaceLock;
use crate::netlink::{KernelGroup, KernelObject, KernelWatch, Netlink};
use crate::netns::Namespace;
use crate::wait::{Sleeper, WakeReason, Waker};
use packet::port::Port;
use port::{DeviceSlot, HotplugPort};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::{fmt, thread};
use units::Nanos;

/// The retry interval if an interface exists but cannot be opened yet, and the polling interval for a device without notifications.
const RETRY: Nanos = Nanos::millis(50);

/// Bytes of notifications that may be queued: some thousand links that change at once.
const BACKLOG: u32 = 8 << 20;

/// The result of [`HotplugDevice::reopen`]: one port for each queue.
pub struct OpenedDevice {
    /// The ports.
    pub ports: Vec<Box<dyn Port>>,
    /// The index of the interface.
    pub index: u32,
    /// The longest IP packet that the ports carry, regardless of the interface's MTU.
    pub max_mtu: u16,
    pub(crate) interface_lock: Arc<InterfaceLock>,
}

impl fmt::Debug for OpenedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ports on interface {}", self.ports.len(), self.index)
    }
}

/// Reopens a device.
pub trait HotplugDevice: Send {
    /// Opens it with the same number of queues. Called on a thread in the interface's network namespace.
    fn reopen(&mut self) -> Result<OpenedDevice, OpenError>;
    /// True if it can be opened without an existing interface, because opening it creates the interface.
    fn creates_interface(&self) -> bool {
        false
    }
    /// The interface with this index left the network namespace, and the device does not work in its new place.
    fn interface_left(&mut self, _index: u32) {}
    /// True if it still works although its interface left the network namespace.
    fn works_in_other_namespace(&self) -> bool {
        false
    }
}

/// The interface is operational.
const UP: u8 = 0;
/// It exists.
const DOWN: u8 = 1;
/// It does not exist.
const ABSENT: u8 = 2;

/// The state shared by a worker's part of a port and the thread.
struct PortShared {
    state: AtomicU8,
    /// The longest IP packet that it carries.
    mtu: AtomicU16,
    slots: Vec<DeviceSlot>,
    /// Held together with the interface.
    interface_lock: Mutex<Arc<InterfaceLock>>,
}

impl PortShared {
    fn new((state, mtu): (u8, u16), queues: usize, claim: Arc<InterfaceLock>) -> PortShared {
        let seats = (0..queues).map(|_| DeviceSlot::new()).collect();
        PortShared {
            state: AtomicU8::new(state),
            mtu: AtomicU16::new(mtu),
            slots: seats,
            interface_lock: Mutex::new(claim),
        }
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
struct WatchedPort {
    /// The name of the port, for advisories.
    port: String,
    interface: String,
    index: u32,
    /// See [`OpenedDevice::max_mtu`].
    max_mtu: u16,
    device: Box<dyn HotplugDevice>,
    shared: Weak<PortShared>,
    /// Its interface is gone, and it is not reopened yet.
    is_absent: bool,
    /// It may have changed.
    dirty: bool,
    /// Its interface left the network namespace, and may have returned already.
    left_namespace: bool,
    /// It works in another network namespace, from which no notifications arrive.
    in_other_namespace: bool,
    /// The last reported reason for a failed reopening.
    last_failure: Option<String>,
}

/// The thread, and the channel for new ports. It ends when this value is dropped.
#[derive(Debug)]
pub struct HotplugMonitor {
    new_ports: Sender<WatchedPort>,
    waker: Waker,
    closer: Closer,
}

impl fmt::Debug for WatchedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {} on {}", self.port, self.interface)
    }
}

impl HotplugMonitor {
    /// Starts it in `namespace`, or that of the calling thread. `closer` closes old ports.
    pub(crate) fn start(
        namespace: Option<Arc<Namespace>>,
        closer: Closer,
        warnings: Advisories,
    ) -> Result<HotplugMonitor, OpenError> {
        let failed = |what: &str, error: &dyn fmt::Display| OpenError {
            reason: format!("{what}: {error}"),
            hint: "end other programs and try again".into(),
        };
        let waker = Waker::new().map_err(|error| failed("cannot open an eventfd", &error))?;
        let ((arrivals, inbox), (begun, answer)) = (channel(), channel());
        let bell = waker.clone();
        let run = move || {
            let entered = namespace.map_or(Ok(()), |namespace| namespace.enter()).map_err(|error| error.to_string());
            let opened = entered.and_then(|()| {
                let watch = KernelWatch::open(&[KernelGroup::Links], BACKLOG).map_err(|error| error.to_string())?;
                Ok((watch, Netlink::open().map_err(|error| error.to_string())?))
            });
            match opened {
                Ok((watch, netlink)) => {
                    let _ = begun.send(Ok(()));
                    MonitorThread { watch, netlink, inbox, advisories: warnings, ports: Vec::new() }
                        .run(Sleeper::new(bell));
                }
                Err(error) => drop(begun.send(Err(error))),
            }
        };
        let thread = thread::Builder::new().name("reviver".into()).spawn(run);
        thread.map_err(|error| failed("a thread that watches interfaces cannot be started", &error))?;
        match answer.recv() {
            Ok(Ok(())) => Ok(HotplugMonitor { new_ports: arrivals, waker, closer }),
            Ok(Err(error)) => Err(failed("the interfaces cannot be watched", &error)),
            Err(error) => Err(failed("the interfaces cannot be watched", &error)),
        }
    }

    /// Makes the ports of `opened` follow the interface with this name. `port` is their name in advisories.
    pub fn watch(
        &self,
        port: &str,
        interface: &str,
        opened: OpenedDevice,
        device: Box<dyn HotplugDevice>,
    ) -> Vec<Box<dyn Port>> {
        let OpenedDevice { ports, index, max_mtu: most, interface_lock: claim } = opened;
        let up = ports.iter().all(|port| port.is_up());
        let mtu = ports.iter().filter_map(|port| port.mtu()).fold(most, u16::min);
        let shared = Arc::new(PortShared::new((state_of(up), mtu), ports.len(), claim));
        let watched = WatchedPort {
            port: port.to_owned(),
            interface: interface.to_owned(),
            index,
            max_mtu: most,
            device,
            shared: Arc::downgrade(&shared),
            is_absent: false,
            // It may have changed since it was opened.
            dirty: true,
            left_namespace: false,
            in_other_namespace: false,
            last_failure: None,
        };
        // The thread lives as long as `self`.
        let _ = self.new_ports.send(watched);
        self.waker.wake();
        let wrap = |(queue, port)| -> Box<dyn Port> {
            Box::new(HotplugPort::new(port, shared.clone(), queue, self.closer.clone()))
        };
        ports.into_iter().enumerate().map(wrap).collect()
    }
}

impl Drop for HotplugMonitor {
    fn drop(&mut self) {
        let (nobody, _) = channel();
        // Disconnects the thread's channel; the wakeup makes it notice.
        self.new_ports = nobody;
        self.waker.wake();
    }
}

struct MonitorThread {
    watch: KernelWatch,
    netlink: Netlink,
    inbox: Receiver<WatchedPort>,
    advisories: Advisories,
    ports: Vec<WatchedPort>,
}

impl MonitorThread {
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
            for port in self.ports.iter_mut().filter(|port| port.dirty || port.is_absent || port.in_other_namespace) {
                port.check_interface(&mut self.netlink, &self.advisories);
            }
            // No notification arrives for these, so they are polled.
            let waits =
                self.ports.iter().any(|port| port.in_other_namespace || port.is_absent && port.last_failure.is_some());
            let timeout = if waits { RETRY } else { Nanos::MAX };
            match sleeper.sleep([self.watch.as_fd()], timeout) {
                Ok(WakeReason::Ready) => self.read_changes(),
                Ok(_) => {}
                // Has never occurred; without a sleep the loop would use a whole processor.
                Err(_) => thread::park_timeout(RETRY.into()),
            }
        }
    }

    fn read_changes(&mut self) {
        let Self { watch, ports, .. } = self;
        let read = watch.changes(|change| {
            let KernelObject::Link(link) = change.object else { return };
            for port in &mut *ports {
                // By the name too, because a recreated interface has another index. A renamed link has the new name, a removed one the old.
                port.dirty |= link.index == port.index || link.name == port.interface;
                port.left_namespace |= change.is_removed && link.index == port.index;
            }
        });
        // After lost notifications every port is checked.
        if read.is_ok_and(|read| !read.is_incomplete) {
            return;
        }
        self.ports.iter_mut().for_each(|port| port.dirty = true);
    }
}

impl WatchedPort {
    fn check_interface(&mut self, netlink: &mut Netlink, warnings: &Advisories) {
        self.dirty = false;
        let Some(shared) = self.shared.upgrade() else { return };
        let found = netlink.link(&self.interface).ok();
        // A device that works in any namespace lost nothing when its interface moved.
        let lost = std::mem::take(&mut self.left_namespace) && !self.device.works_in_other_namespace();
        if lost {
            self.device.interface_left(self.index);
        }
        if let (Some(link), false) = (&found, self.is_absent || lost)
            && link.index == self.index
        {
            shared.set_mtu(link.mtu, self.max_mtu);
            return shared.set(state_of(link.up && link.running));
        }
        self.in_other_namespace = !self.is_absent && found.is_none() && self.device.works_in_other_namespace();
        if self.in_other_namespace {
            // Its state cannot be read from this namespace.
            return shared.set(UP);
        }
        shared.set(ABSENT);
        if !self.is_absent {
            self.is_absent = true;
            let (port, interface) = (&self.port, &self.interface);
            warnings
                .add(format!("port {port}: {interface} has disappeared; the port resumes when the interface returns"));
        }
        // Otherwise a notification arrives when there is an interface again.
        if found.is_some() || self.device.creates_interface() {
            self.reopen(&shared, netlink, warnings);
        }
    }

    fn reopen(&mut self, shared: &PortShared, netlink: &mut Netlink, warnings: &Advisories) {
        let (port, interface) = (&self.port, &self.interface);
        let opened = self.device.reopen().map_err(|error| error.to_string()).and_then(|opened| {
            let (had, has) = (shared.slots.len(), opened.ports.len());
            let fewer = || format!("it had {had} queues and has {has} now; restart the router");
            if has < had { Err(fewer()) } else { Ok(opened) }
        });
        match opened {
            Err(why) => {
                // Each reason is reported once, because the attempts recur every 50 ms.
                if self.last_failure.as_ref() != Some(&why) {
                    warnings.add(format!("port {port}: {interface} is back but cannot be opened yet: {why}"));
                }
                self.last_failure = Some(why);
            }
            Ok(OpenedDevice { ports, index, max_mtu: most, interface_lock: claim }) => {
                *shared.interface_lock.lock().unwrap_or_else(PoisonError::into_inner) = claim;
                for (seat, port) in shared.slots.iter().zip(ports) {
                    seat.put(port);
                }
                (self.index, self.max_mtu, self.is_absent, self.last_failure) = (index, most, false, None);
                // If the interface was replaced again meanwhile, the port is down until the next notification.
                let link = netlink.link(interface).ok().filter(|link| link.index == index);
                link.iter().for_each(|link| shared.set_mtu(link.mtu, most));
                // Set after the devices are in their slots: a worker that sees the port up must not use the old device.
                shared.set(state_of(link.is_some_and(|link| link.up && link.running)));
                warnings.add(format!("port {port}: {interface} is back"));
            }
        }
    }
}
