//! Interfaces of the kernel for those of the router: tap devices on which programs of the machine work. Frames cross one by one, without offloads.
//!
//! A device stays when the router ends, so that addresses and routes on it survive a restart. The next router attaches to it again. Meanwhile the device has
//! no carrier, unless the service manager keeps its descriptor ([`service_manager`]).

use crate::advisories::OpenError;
use crate::netlink::{KernelError, Netlink};
use crate::offload::Ethtool;
use crate::{service_manager, sys};
use rustix::fs::{Mode, OFlags, open};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use units::Mac;

/// A tap device of the network namespace in which it was opened.
#[derive(Debug)]
pub struct KernelInterface {
    name: String,
    descriptor: OwnedFd,
    index: u32,
}

impl KernelInterface {
    /// Opens the device with this name in the network namespace of the calling thread, and creates it if there is none. It is up afterwards, with this
    /// MAC address and MTU (bytes without the link header). Needs CAP_NET_ADMIN.
    pub fn open(name: &str, mac: Mac, mtu: u16) -> Result<KernelInterface, OpenError> {
        let failed = |error: &io::Error| refused(name, error);
        let kept = service_manager::take(&kept_name(name));
        let descriptor = match kept.filter(|kept| sys::tun_name(kept).as_deref() == Some(name)) {
            Some(descriptor) => descriptor,
            None => {
                // A copy of an earlier device with this name, which was removed.
                let _ = service_manager::forget(&kept_name(name));
                attach(name).map_err(|error| failed(&error))?
            }
        };
        // An earlier owner may have left offloads.
        sys::set_tun_offload(&descriptor, 0).map_err(|error| failed(&error))?;
        sys::keep_tun(&descriptor, true).map_err(|error| failed(&error))?;
        // A kept device has the carrier that the earlier router has set.
        sys::set_tun_carrier(&descriptor, true).map_err(|error| failed(&error))?;
        // Best effort: without it a restart costs the carrier.
        let _ = service_manager::keep(&kept_name(name), descriptor.as_fd());
        let link = Netlink::open().and_then(|mut netlink| netlink.link(name)).map_err(|error| failed(&error.error))?;
        let interface = KernelInterface { name: name.to_owned(), descriptor, index: link.index };
        interface.configure(mac, mtu)?;
        Ok(interface)
    }

    /// Sets the MAC address and the MTU if they differ, and sets the interface up. The calling thread must be in the network namespace of the interface.
    pub fn configure(&self, mac: Mac, mtu: u16) -> Result<(), OpenError> {
        let change = || {
            let mut netlink = Netlink::open()?;
            let link = netlink.link(&self.name)?;
            if link.mac != mac {
                netlink.set_mac(&self.name, mac)?;
            }
            if link.mtu != u32::from(mtu) {
                netlink.set_mtu(&self.name, mtu.into())?;
            }
            if link.up { Ok(()) } else { netlink.set_up(&self.name, true) }
        };
        change().map_err(|error: KernelError| refused(&self.name, &error.error))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number in its network namespace.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Reads the next frame that a program has sent into `buffer`; its length in bytes, or none. Longer frames than the buffer are cut off.
    pub fn receive(&self, buffer: &mut [u8]) -> Option<usize> {
        loop {
            match rustix::io::read(&self.descriptor, &mut *buffer) {
                Ok(length) => return Some(length),
                Err(rustix::io::Errno::INTR) => {}
                // None (EAGAIN), or the device was removed (EBADFD).
                Err(_) => return None,
            }
        }
    }

    /// Gives a frame to the kernel. False if the kernel refuses it: the interface is down, or was removed.
    pub fn send(&self, frame: &[u8]) -> bool {
        loop {
            match rustix::io::write(&self.descriptor, frame) {
                Ok(_) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Sets the state of the cable that the kernel shows on the interface. It has a carrier from the start. The calling thread must be in the network
    /// namespace of the interface.
    pub fn set_carrier(&self, is_present: bool) -> io::Result<()> {
        sys::set_tun_carrier(&self.descriptor, is_present)?;
        // Otherwise the kernel tells programs at most once a second that a carrier is lost.
        Ethtool::open()?.has_carrier(&self.name).map(drop)
    }

    /// True as long as the device exists.
    pub fn exists(&self) -> bool {
        sys::has_tun(&self.descriptor)
    }

    /// Removes the device with its addresses and routes, once the last descriptor is closed.
    pub fn remove(&self) {
        // If it is gone already, nothing remains to be done.
        let _ = sys::keep_tun(&self.descriptor, false);
        let _ = service_manager::forget(&kept_name(&self.name));
    }
}

/// The name under which the service manager keeps the descriptor of an interface.
fn kept_name(name: &str) -> String {
    format!("linux-{name}")
}

/// Opens the device with this name, and creates it if there is none.
fn attach(name: &str) -> io::Result<OwnedFd> {
    let descriptor = open("/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    sys::attach_tun(&descriptor, name, libc::IFF_TAP | libc::IFF_NO_PI)?;
    Ok(descriptor)
}

impl AsFd for KernelInterface {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn refused(name: &str, error: &io::Error) -> OpenError {
    let hint = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => "load the kernel's module: `modprobe tun`",
        Some(libc::EPERM | libc::EACCES) => "it needs CAP_NET_ADMIN: run the router as root",
        Some(libc::EBUSY) => "another router uses it: end that router, or use another namespace",
        Some(libc::EINVAL) => "another interface has this name: rename the port, or set `namespace` of [linux]",
        _ => "`switchpath doctor` reports the abilities of this machine",
    };
    OpenError { reason: format!("cannot make the interface '{name}' of the kernel: {error}"), hint: hint.into() }
}
