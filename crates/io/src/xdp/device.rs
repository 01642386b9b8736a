//! An interface used by AF_XDP: the program, the sockets of its queues, and the changes to the interface.
//!
//! A port holds the sockets of its queues while it lives and leaves them here at its end. If another port was opened on the interface meanwhile, for
//! example because a configuration renamed it, that port continues with the sockets. The kernel allows one socket on a queue, so no frame is lost in
//! between. Otherwise the interface is returned to the host in the background: see [`crate::closer`].

use super::lent_frames::LentFrames;
use super::redirect::{MOST_QUEUES, Redirect};
use super::socket::{Bind, Failure, Sizes, XdpSocket, is_bound};
use super::{XdpOptions, huge_pages};
use crate::advisories::OpenError;
use crate::bpf::{BpfAttachment, BpfHook};
use crate::clock;
use crate::netlink::KernelLink;
use crate::offload::{DisabledOffloads, Ethtool};
use crate::wait::{Sleeper, Waker};
use packet::{Pool, Region};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use units::Nanos;

/// The minimum of frames for receiving; fewer are of no use.
const LEAST_FILL: usize = 64;
/// The time limit for the kernel to release a queue after its socket was closed (xp_release_deferred).
const RELEASE: Nanos = Nanos::secs(1);
/// The time limit for outgoing frames before their socket is closed.
const DRAIN_TIMEOUT: Nanos = Nanos::millis(100);
/// The polling interval for these.
const TICK: Nanos = Nanos::millis(1);
/// Drivers without zero-copy, for which no advisory is needed.
const COPY_MODE_DRIVERS: &[&str] = &["veth", "tun", "bridge", "macvlan", "ipvlan", "dummy"];

/// Frames that the router's ports lend for receiving: at most half of its region in total.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget(Arc<AtomicUsize>);

/// The share of one interface.
#[derive(Debug)]
struct FrameShare {
    budget: Budget,
    frames: usize,
}

impl Budget {
    /// Reserves a share for `sockets` sockets with at most `most` frames each. Also returns the number of frames for each.
    fn share(&self, frames: usize, sockets: usize, most: usize) -> Result<(FrameShare, usize), OpenError> {
        // Half of the region is for receiving. One interface gets at most an eighth of the region, and at most half of the unused receive frames.
        let left = (frames / 2).saturating_sub(self.0.load(Ordering::Relaxed));
        let each = most.min(frames / 8 / sockets).min(left / 2 / sockets);
        if each < LEAST_FILL {
            return Err(OpenError {
                reason: format!("too few of the router's {frames} frames are free for the receive ring"),
                hint: format!("set frames in [router] to {} or more", (frames * 2).next_power_of_two()),
            });
        }
        // Not one step with the load above. Only `open` adds, one call at a time. A return in between only makes the share smaller than it could be.
        self.0.fetch_add(each * sockets, Ordering::Relaxed);
        Ok((FrameShare { budget: self.clone(), frames: each * sockets }, each))
    }
}

impl Drop for FrameShare {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.frames, Ordering::Relaxed);
    }
}

/// The mode in which an interface is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XdpMode {
    /// XDP in the driver, which receives into and sends from the pool's frames.
    ZeroCopy,
    /// XDP in the driver; the kernel copies.
    Native,
    /// XDP in the kernel's stack, because the driver does not run programs.
    Generic,
}

/// See the module.
#[derive(Debug)]
pub(super) struct XdpDevice {
    pub(super) link: KernelLink,
    pub(super) ethtool: Ethtool,
    pub(super) mode: XdpMode,
    /// True if frames come from this machine, with checksums left to a network card.
    pub(super) is_virtual: bool,
    region: Arc<Region>,
    redirect: Redirect,
    /// Present until it is closed or useless.
    attached: Mutex<Option<BpfAttachment>>,
    /// The first of the sockets, to test if it still has the interface. Present until it is closed.
    first: Option<OwnedFd>,
    /// The sockets of each port while no port holds them, by port number.
    parked_sockets: Mutex<Vec<Option<Vec<XdpSocket>>>>,
    offloads: Vec<Arc<DisabledOffloads>>,
    _share: FrameShare,
}

impl XdpDevice {
    /// Opens a link, in the network namespace of the calling thread, for at most `ports` ports. Also returns advisories about missing features.
    pub(super) fn open(
        link: KernelLink,
        region: &Arc<Region>,
        ports: usize,
        options: &XdpOptions,
        budget: &Budget,
        offloads: Vec<Arc<DisabledOffloads>>,
    ) -> Result<(XdpDevice, Vec<String>), OpenError> {
        let name = link.name.clone();
        let ethtool = Ethtool::open().map_err(|error| refused(&name, "asking about it", &error))?;
        let driver = ethtool.driver(&name).unwrap_or_default();
        let is_virtual = COPY_MODE_DRIVERS.contains(&&*driver);
        let redirect = Redirect::load().map_err(|error| refused(&name, "loading an XDP program", &error))?;
        let mut warnings = Vec::new();
        let (attached, hook) = attach(&redirect, &link, options, &mut warnings)?;
        let sizes = Sizes { ring: options.ring, fill: options.fill };
        // Zero-copy first, then copying in the driver; in the stack there is only copying.
        let mut way = if hook == BpfHook::XdpNative { XdpMode::ZeroCopy } else { XdpMode::Generic };
        let mut sockets = Err(Failure { what: "asking for zero-copy", error: io::ErrorKind::Unsupported.into() });
        if way == XdpMode::ZeroCopy {
            if options.zero_copy {
                sockets = open_queues(region, &link, libc::XDP_ZEROCOPY, sizes).and_then(in_huge_pages(region));
            }
            if let Err(failure) = &sockets {
                if options.zero_copy && !is_virtual {
                    let Failure { what, error } = failure;
                    warnings.push(format!("frames of {name} are copied: no zero-copy, for {what} failed: {error}"));
                }
                way = XdpMode::Native;
            }
        }
        let mut sockets = match sockets {
            Ok(sockets) => sockets,
            Err(_) => open_queues(region, &link, libc::XDP_COPY, sizes)
                .map_err(|Failure { what, error }| refused(&name, what, &error))?,
        };
        if sockets.len() == MOST_QUEUES as usize {
            warnings.push(format!("the router serves only the first {MOST_QUEUES} receive queues of {name}"));
        }
        let (share, fill) = budget.share(region.frames(), sockets.len(), options.fill)?;
        sockets.iter_mut().for_each(|socket| socket.fill_up_to(fill));
        // The sockets move to their ports; this duplicate lets the device test the binding.
        let first = sockets.first().map(|socket| socket.as_fd().try_clone_to_owned()).transpose();
        let first = first.map_err(|error| refused(&name, "keeping a socket", &error))?;
        // Port n has the queues n, n + ports, n + 2 ports ...
        let ports = ports.clamp(1, sockets.len());
        let mut parked: Vec<Vec<XdpSocket>> = (0..ports).map(|_| Vec::new()).collect();
        sockets.into_iter().for_each(|socket| parked[socket.queue() as usize % ports].push(socket));
        let parked = Mutex::new(parked.into_iter().map(Some).collect());
        let region = region.clone();
        let attached = Mutex::new(Some(attached));
        let device = XdpDevice {
            link,
            ethtool,
            mode: way,
            is_virtual,
            region,
            redirect,
            attached,
            first,
            parked_sockets: parked,
            offloads,
            _share: share,
        };
        Ok((device, warnings))
    }

    /// The number of ports that it was opened for.
    pub(super) fn ports(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn is_of(&self, region: &Arc<Region>) -> bool {
        Arc::ptr_eq(&self.region, region)
    }

    /// True if its sockets still have the interface.
    pub(super) fn is_bound(&self) -> bool {
        self.first.as_ref().is_some_and(is_bound)
    }

    /// Detaches its program in favour of another. Offloads that were switched off for it stay off as long as the returned values live.
    pub(super) fn detach_program(&self) -> Vec<Arc<DisabledOffloads>> {
        *self.attached.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.offloads.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Option<Vec<XdpSocket>>>> {
        // Each change is one assignment, so a panic elsewhere leaves it consistent.
        self.parked_sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sockets of a port, unless another port holds them.
    pub(super) fn take_sockets(&self, port: usize) -> Option<Vec<XdpSocket>> {
        self.lock()[port].take()
    }

    /// Leaves the sockets of a port for its successor.
    pub(super) fn park_sockets(&self, port: usize, sockets: Vec<XdpSocket>) {
        self.lock()[port] = Some(sockets);
    }

    /// Lends a socket its first frames and directs the frames of its queue to it.
    pub(super) fn start(&self, socket: &mut XdpSocket, pool: &mut Pool) -> io::Result<()> {
        // Frames first: a frame of the queue that finds an empty fill ring is lost.
        socket.refill(pool);
        self.redirect.direct(socket.queue(), socket.as_fd())
    }
}

impl Drop for XdpDevice {
    /// Returns the interface to the host and the frames to the region. The kernel takes some 50 ms for each queue.
    fn drop(&mut self) {
        let mut sockets: Vec<XdpSocket> = self.lock().drain(..).flatten().flatten().collect();
        let mut pool = Pool::new(self.region.clone());
        let waker = Waker::new();
        let wait = |span| {
            if let Ok(waker) = &waker {
                let _ = Sleeper::new(waker.clone()).sleep([], span);
            }
        };
        // Frames that are still to be sent get a last chance.
        let deadline = clock::now() + DRAIN_TIMEOUT;
        loop {
            for socket in &mut sockets {
                socket.kick();
                socket.collect(&mut pool);
            }
            if clock::now() >= deadline || sockets.iter().all(|socket| socket.sending() == 0) {
                break;
            }
            wait(TICK);
        }
        // No more frames arrive: the driver has set up its rings without the program.
        self.detach_program();
        // The kernel has finished with the sockets when the last descriptor is closed.
        self.first = None;
        let lent: Vec<LentFrames> = sockets.into_iter().map(XdpSocket::close).collect();
        if self.mode == XdpMode::ZeroCopy {
            // The driver releases the queue at a time that the kernel does not report.
            wait(RELEASE);
        }
        for mut lent in lent {
            // SAFETY: the sockets are closed: no processor copies to or from their frames any more (xsk_release waits for them). A driver with
            // zero-copy has torn down its rings with the program, and has had time for it.
            unsafe {
                lent.take_all_back(|packet| {
                    pool.import(1);
                    pool.give(packet);
                });
            }
        }
    }
}

/// Attaches the program to the driver if it supports programs, otherwise to the stack.
fn attach(
    redirect: &Redirect,
    link: &KernelLink,
    options: &XdpOptions,
    warnings: &mut Vec<String>,
) -> Result<(BpfAttachment, BpfHook), OpenError> {
    let name = &link.name;
    if options.native {
        match redirect.attach(BpfHook::XdpNative, link.index) {
            Ok(attached) => return Ok((attached, BpfHook::XdpNative)),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                return Err(OpenError {
                    reason: format!("another XDP program is attached to {name}"),
                    hint: format!("end the program that attached it, or detach it: `ip link set {name} xdp off`"),
                });
            }
            Err(error) => warnings.push(format!(
                "the driver of {name} supports no XDP program ({error}): it runs in the kernel's stack, which is slower"
            )),
        }
    }
    match redirect.attach(BpfHook::XdpGeneric, link.index) {
        Ok(attached) => Ok((attached, BpfHook::XdpGeneric)),
        Err(error) => Err(refused(name, "attaching an XDP program", &error)),
    }
}

/// Opens a socket for each queue of the link.
fn open_queues(region: &Arc<Region>, link: &KernelLink, mode: u16, sizes: Sizes) -> Result<Vec<XdpSocket>, Failure> {
    let mut sockets: Vec<XdpSocket> = Vec::new();
    for queue in 0..MOST_QUEUES {
        let bind = Bind { index: link.index, queue, mode, shared_with: sockets.first().map(|first| first.as_fd()) };
        match XdpSocket::open(region, &bind, sizes) {
            Ok(socket) => sockets.push(socket),
            // The queue does not exist.
            Err(failure) if queue > 0 && failure.error.raw_os_error() == Some(libc::EINVAL) => break,
            Err(failure) => return Err(failure),
        }
    }
    Ok(sockets)
}

/// A driver accesses pages by physical addresses, and the pool's frames cross page boundaries.
fn in_huge_pages(region: &Arc<Region>) -> impl FnOnce(Vec<XdpSocket>) -> Result<Vec<XdpSocket>, Failure> {
    let umem = region.umem();
    move |sockets| {
        if huge_pages::is_backed(umem.base.addr().get(), umem.length) {
            return Ok(sockets);
        }
        let error = io::Error::other("the frames of the router lie in pages of 4 KB");
        Err(Failure { what: "having them in huge pages", error })
    }
}

/// The reason why AF_XDP is not available on an interface, and a remedy.
fn refused(interface: &str, what: &str, error: &io::Error) -> OpenError {
    let hint = match error.raw_os_error() {
        Some(libc::ENOBUFS) => {
            "the memory of the frames may not be locked: raise RLIMIT_MEMLOCK (`ulimit -l unlimited`, LimitMEMLOCK=infinity \
             in a unit of systemd), give the program CAP_IPC_LOCK, or set a smaller frames in [router]"
        }
        Some(libc::EPERM | libc::EACCES) => {
            "it needs CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW, outside of user namespaces: run as root, or `setcap \
             cap_bpf,cap_net_admin,cap_net_raw,cap_ipc_lock=ep` the program"
        }
        Some(libc::EBUSY) => "another program has an AF_XDP socket on it: end that program",
        Some(libc::EAFNOSUPPORT) => "the kernel must be 5.9 or later, with CONFIG_XDP_SOCKETS and CONFIG_BPF_SYSCALL",
        Some(libc::ENOMEM) => "the kernel has no memory for it: close other programs",
        Some(libc::ENODEV | libc::ENXIO) => "the interface disappeared during the opening: try again",
        _ => "`switchpath doctor` reports the abilities of this machine",
    };
    OpenError { reason: format!("{what} failed on {interface}: {error}"), hint: hint.into() }
}
