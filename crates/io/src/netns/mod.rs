//! A laboratory of hosts on one machine: network namespaces with the kernel's own TCP, UDP and ping, connected by veth cables.
//!
//! Nothing of it has a name outside this process: descriptors hold the namespaces, and processes die with the thread that started them, so even kill
//! -9 leaves nothing behind. Without root it works in a user namespace, which a process can only enter while it has one thread: call [`enter`] first
//! in `main`.

mod host;
mod permission;
mod spawner;

pub use host::{LabHost, Plug};
pub use permission::{NamespaceError, Permission, enter, probe};

use crate::netlink::{KernelError, Netlink, Veth, VethEnd};
use crate::offload::Ethtool;
use crate::sys;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use spawner::Spawner;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;

/// The directory in which `ip netns` mounts namespaces by name.
const NAMED: &str = "/run/netns";

/// A network namespace. It lives as long as something holds it: this value, a process in it, or one of its sockets.
#[derive(Debug)]
pub struct Namespace {
    descriptor: OwnedFd,
}

impl Namespace {
    /// A new namespace with only a loopback link that is down. Needs CAP_SYS_ADMIN in the user namespace: see [`enter`].
    pub fn new() -> io::Result<Self> {
        // A separate thread, so that the caller stays in its namespace.
        let made = thread::scope(|scope| {
            let maker = thread::Builder::new().name("namespace".into()).spawn_scoped(scope, || {
                // SAFETY: a network namespace, unlike a descriptor table, affects neither Rust's memory model nor the ownership of descriptors.
                unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
                Namespace::of_this_thread()
            })?;
            maker.join().map_err(|_| io::Error::other("the thread that creates the namespace panicked"))?
        })?;
        Ok(made)
    }

    /// The namespace of the calling thread.
    pub fn of_this_thread() -> io::Result<Self> {
        Ok(Namespace { descriptor: File::open("/proc/thread-self/ns/net")?.into() })
    }

    /// The namespace with this name, as of `ip netns` (ip-netns(8)): it is created if it does not exist. Needs CAP_SYS_ADMIN.
    pub fn named(name: &str) -> io::Result<Self> {
        let path = Path::new(NAMED).join(name);
        // A file without a mounted namespace on it remains after a failure.
        if let Ok(file) = File::open(&path)
            && fs::metadata(&path)?.dev() == fs::metadata("/proc/self/ns/net")?.dev()
        {
            return Ok(Namespace { descriptor: file.into() });
        }
        fs::create_dir_all(NAMED)?;
        File::create(&path)?;
        let target = CString::new(path.as_os_str().as_encoded_bytes())?;
        let made = Namespace::new()?;
        let source = format!("/proc/self/fd/{}", made.descriptor.as_raw_fd());
        sys::bind_mount(&CString::new(source)?, &target)?;
        made.run(|| Netlink::open().and_then(|mut netlink| netlink.set_up("lo", true)).map_err(|error| error.error))??;
        Ok(made)
    }

    /// Moves only the calling thread into the namespace. Sockets that it opens from now on belong there.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.descriptor.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Runs `work` on a thread in the namespace and waits for its result. Panics of `work` are propagated.
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

/// The laboratory. Hosts keep the parts that they need; processes in them die when the laboratory and all its hosts are dropped.
#[derive(Debug)]
pub struct Lab {
    spawner: Arc<Spawner>,
}

impl Lab {
    /// An empty laboratory, or the reason why there can be none (see [`probe`]).
    pub fn new() -> Result<Self, NamespaceError> {
        permission::check_new_namespace()?;
        let spawner = Spawner::start().map_err(|error| NamespaceError {
            reason: format!("cannot start a thread: {error}"),
            hint: "end other programs and try again".into(),
        })?;
        Ok(Lab { spawner: Arc::new(spawner) })
    }

    /// A new host: its loopback link is up, it does not forward, and its IPv6 addresses are usable at once.
    pub fn host(&self, name: &str) -> Result<LabHost, KernelError> {
        LabHost::new(name, self.spawner.clone())
    }

    /// The network of the calling thread as a host, unchanged. The caller undoes its own changes.
    pub fn current_host(&self, name: &str) -> Result<LabHost, KernelError> {
        LabHost::current(name, self.spawner.clone())
    }

    /// Connects two hosts by a cable. Both plugs are up and all offloads are off, so that it carries the same frames and checksums as a physical
    /// wire.
    pub fn cable(&self, one: &Plug<'_>, other: &Plug<'_>) -> Result<(), KernelError> {
        let far = VethEnd { name: other.link, namespace: Some(other.host.namespace().as_fd()), mac: other.mac };
        let near = VethEnd { name: one.link, namespace: None, mac: one.mac };
        // Done from a host: in the caller's namespace the root of a user namespace may change nothing.
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
