//! A laboratory of hosts on one machine: network namespaces with the kernel's own TCP, UDP and ping, joined by virtual
//! Ethernet cables.
//!
//! Nothing of it has a name outside this process: namespaces are held by descriptors and processes die with the thread
//! that started them, so that even kill -9 leaves nothing behind. Without root it works in a user namespace, which a
//! process can only enter while it has one thread: call [`enter`] first thing in `main`.

mod host;
mod permission;
mod spawner;

pub use host::{Host, Plug};
pub use permission::{Forbidden, Permission, enter, probe};

use crate::netlink::{KernelError, Netlink, Veth, VethEnd};
use crate::offload::Ethtool;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use spawner::Spawner;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;

/// A network namespace, which lives as long as something holds it: this, a process in it, or a socket of it.
#[derive(Debug)]
pub struct Namespace {
    descriptor: OwnedFd,
}

impl Namespace {
    /// A new one with nothing in it but a loopback link that is switched off. Needs CAP_SYS_ADMIN in the user namespace:
    /// see [`enter`].
    pub fn new() -> io::Result<Self> {
        // A thread of its own, so that the caller stays where it is.
        let made = thread::scope(|scope| {
            let maker = thread::Builder::new().name("namespace".into()).spawn_scoped(scope, || {
                // SAFETY: a network namespace, unlike a table of descriptors, is no part of Rust's model of memory
                // or of the ownership of descriptors.
                unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
                Namespace::of_this_thread()
            })?;
            maker.join().map_err(|_| io::Error::other("the thread that makes the namespace panicked"))?
        })?;
        Ok(made)
    }

    /// That of the calling thread.
    pub fn of_this_thread() -> io::Result<Self> {
        Ok(Namespace { descriptor: File::open("/proc/thread-self/ns/net")?.into() })
    }

    /// Moves the calling thread, and no other, into the namespace. Sockets it opens from now on belong there.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.descriptor.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Runs `work` on a thread in the namespace and waits for its answer. A panic of `work` is passed on.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> io::Result<R> {
        thread::scope(|scope| {
            let thread = thread::Builder::new().spawn_scoped(scope, || self.enter().map(|()| work()))?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The laboratory. Hosts keep what they need of it; processes started in them die when it and all its hosts are gone.
#[derive(Debug)]
pub struct Lab {
    spawner: Arc<Spawner>,
}

impl Lab {
    /// An empty laboratory, or why there can be none here (see [`probe`]).
    pub fn new() -> Result<Self, Forbidden> {
        permission::check_new_namespace()?;
        let spawner = Spawner::start().map_err(|error| Forbidden {
            reason: format!("a thread could not be started: {error}"),
            hint: "end other programs and try again".into(),
        })?;
        Ok(Lab { spawner: Arc::new(spawner) })
    }

    /// A new host: its loopback link is on, it forwards nothing, and its IPv6 addresses are usable at once.
    pub fn host(&self, name: &str) -> Result<Host, KernelError> {
        Host::new(name, self.spawner.clone())
    }

    /// The network that the calling thread is in, as a host: as it is, and what is done to it is left to the caller to undo.
    pub fn here(&self, name: &str) -> Result<Host, KernelError> {
        Host::here(name, self.spawner.clone())
    }

    /// Lays a cable between two hosts: both plugs are switched on, and all offloads are off, so that what crosses it are
    /// the frames and checksums a wire would carry.
    pub fn cable(&self, one: &Plug<'_>, other: &Plug<'_>) -> Result<(), KernelError> {
        let far = VethEnd { name: other.link, namespace: Some(other.host.namespace().as_fd()), mac: other.mac };
        let near = VethEnd { name: one.link, namespace: None, mac: one.mac };
        // From a host, because in the namespace of the caller root of a user namespace may change nothing.
        one.host.run(|| Netlink::open()?.add_veth(&Veth { ends: [near, far] }))??;
        for plug in [one, other] {
            plug.host.run(|| {
                let refused = |error| KernelError::new("switching off the offloads of", plug.link, error);
                Ethtool::open().and_then(|ethtool| ethtool.switch_all_off(plug.link)).map_err(refused)?;
                Netlink::open()?.set_up(plug.link, true)
            })??;
        }
        Ok(())
    }
}
