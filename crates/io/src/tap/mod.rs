//! `tap:` ports: a virtual Ethernet cable between the router and the machine's kernel, or a guest behind a bridge.
//!
//! The host's end is a network interface, which the operator gives addresses to or puts into a bridge. The router's end is a descriptor of
//! /dev/net/tun. Frames are read from and written to it, one in a system call, each with its offloads ([`crate::vnet`]). A device that the port
//! created is removed with it; a device that an operator created (`ip tuntap add`) stays. The kernel processes a frame within the write call, so the
//! port always has room.

mod port;

pub use port::TapPort;

use crate::advisories::OpenError;
use crate::closer::Closer;
use crate::netlink::Netlink;
use crate::sys;
use crate::vnet;
use rustix::fs::{Mode, OFlags, open as open_file};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

const TCP: u32 = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
/// The offloads requested from the kernel; if it does not support all, a smaller set and its missing part.
const OFFLOAD_SETS: [(u32, Option<&str>); 2] =
    [(TCP | libc::TUN_F_USO4 | libc::TUN_F_USO6, None), (TCP, Some("UDP super-frames (Linux 6.2)"))];

/// Options for opening a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TapOptions {
    /// The MTU of a device that the port creates, in bytes without the link header.
    pub mtu: u32,
    /// Receive and transmit super-frames and partial checksums without preparation.
    pub offloads: bool,
}

/// One device: a descriptor for each queue. It lives until its last port is closed.
#[derive(Debug)]
struct TapDevice {
    name: String,
    queues: Vec<OwnedFd>,
    /// Created by the port: removed with the descriptors.
    created: bool,
}

/// Ports of one device.
#[derive(Debug)]
pub struct OpenedTap {
    /// One for each queue.
    pub ports: Vec<TapPort>,
    /// The index of the interface.
    pub index: u32,
    /// True if the device did not exist before.
    pub created: bool,
    /// Advisories for the operator.
    pub advisories: Vec<String>,
}

/// The devices of the router's ports in one network namespace. A new port on a device whose old port is not closed yet shares its descriptors: the
/// kernel allows one descriptor for each queue.
#[derive(Debug, Default)]
pub struct Taps {
    held: HashMap<String, Weak<TapDevice>>,
}

impl Taps {
    /// Opens a device in the network namespace of the calling thread; `closer` closes the devices before it. Needs CAP_NET_ADMIN, except for a device
    /// that belongs to the user.
    pub(crate) fn open(
        &mut self,
        name: &str,
        options: TapOptions,
        queues: usize,
        closer: &Closer,
    ) -> Result<OpenedTap, OpenError> {
        self.held.retain(|_, device| device.strong_count() > 0);
        let held = self.held.get(name).and_then(Weak::upgrade);
        // A device that was deleted meanwhile has lost its descriptors and must be opened anew.
        let held = held.filter(|device| device.queues.iter().all(sys::has_tun));
        let (device, mut warnings) = match held {
            Some(device) => (device, Vec::new()),
            None => {
                // A released device that is not closed yet would block the name, or be half removed.
                closer.finish();
                let (device, warnings) = TapDevice::open(name, queues)?;
                (Arc::new(device), warnings)
            }
        };
        self.held.insert(name.to_owned(), Arc::downgrade(&device));
        let offloads =
            device.request_offloads(options.offloads, &mut warnings).map_err(|error| refused(name, &error))?;
        let (index, mtu) = device.set_up(options).map_err(|error| refused(name, &error))?;
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        // A shared device may have more queues than this port asks for.
        let queues = device.queues.len().min(queues);
        let ports = (0..queues).map(|queue| TapPort::new(device.clone(), queue, offloads, mtu)).collect();
        Ok(OpenedTap { ports, index, created: device.created, advisories: warnings })
    }
}

impl TapDevice {
    fn open(name: &str, wanted: usize) -> Result<(TapDevice, Vec<String>), OpenError> {
        // Asked before the open, because opening creates a missing device.
        let made = Netlink::open().is_ok_and(|mut netlink| netlink.find_link(name).is_none());
        let first = open_queue().map_err(|error| refused(name, &error))?;
        let plain = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        let several = plain | libc::IFF_MULTI_QUEUE;
        // An existing device keeps the kind it was created with; the kernel refuses the other (EINVAL).
        let wishes = if wanted > 1 { [several, plain] } else { [plain, several] };
        let attach = |flags| sys::attach_tun(&first, name, flags).map(|()| flags);
        let attached = attach(wishes[0]).or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => attach(wishes[1]),
            _ => Err(error),
        });
        let flags = attached.map_err(|error| refused(name, &error))?;
        let (mut queues, mut warnings) = (vec![first], Vec::new());
        if wanted > 1 && flags == plain {
            warnings.push(format!(
                "{name} has one queue, so one worker serves it; `ip tuntap add {name} mode tap multi_queue` creates more"
            ));
        }
        while flags == several && queues.len() < wanted {
            let queue = open_queue().and_then(|queue| sys::attach_tun(&queue, name, flags).map(|()| queue));
            match queue {
                Ok(queue) => queues.push(queue),
                Err(error) => {
                    let count = queues.len();
                    warnings.push(format!("{name} has {count} queues, not {}: {error}", wanted));
                    break;
                }
            }
        }
        for queue in &queues {
            // An earlier owner of a persistent device may have set another length.
            sys::set_tun_header(queue, vnet::HEADER as i32).map_err(|error| refused(name, &error))?;
        }
        Ok((TapDevice { name: name.to_owned(), queues, created: made }, warnings))
    }

    /// Requests segmentation and checksum offloads from the kernel, or none. Returns true if the kernel uses them.
    fn request_offloads(&self, offloads: bool, warnings: &mut Vec<String>) -> io::Result<bool> {
        let name = &self.name;
        for (flags, without) in if offloads { &OFFLOAD_SETS[..] } else { &[] } {
            if self.queues.iter().try_for_each(|queue| sys::set_tun_offload(queue, *flags)).is_ok() {
                let lacks = without.map(|what| format!("the kernel supports no {what} on {name}"));
                warnings.extend(lacks);
                return Ok(true);
            }
        }
        if offloads {
            warnings.push(format!(
                "the kernel supports no segmentation offload on {name}: TCP needs a packet for each segment"
            ));
        }
        // A persistent device may still have the offloads of an earlier owner.
        self.queues.iter().try_for_each(|queue| sys::set_tun_offload(queue, 0))?;
        Ok(false)
    }

    /// Sets the host's end up. Returns its index and its MTU.
    fn set_up(&self, options: TapOptions) -> io::Result<(u32, u32)> {
        let mut netlink = Netlink::open().map_err(|error| error.error)?;
        let link = netlink.link(&self.name).map_err(|error| error.error)?;
        // The MTU of an operator's device is the operator's choice.
        let mtu = if self.created { options.mtu } else { link.mtu };
        if link.mtu != mtu {
            netlink.set_mtu(&self.name, mtu).map_err(|error| error.error)?;
        }
        if !link.up {
            netlink.set_up(&self.name, true).map_err(|error| error.error)?;
        }
        Ok((link.index, mtu))
    }
}

fn open_queue() -> io::Result<OwnedFd> {
    Ok(open_file("/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?)
}

fn refused(name: &str, error: &io::Error) -> OpenError {
    let hint = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => "load the kernel's module: `modprobe tun`",
        Some(libc::EPERM | libc::EACCES) => {
            "it needs CAP_NET_ADMIN: run as root, or `setcap cap_net_raw,cap_net_admin=ep` the program, or create the device \
             for your user: `ip tuntap add NAME mode tap user YOU`"
        }
        Some(libc::EBUSY) => "another program uses it: end that program, or use another name",
        Some(libc::EINVAL) => "an interface of that name exists and is no tap device: use another name, or `packet:`",
        _ => "`switchpath doctor` reports the abilities of this machine",
    };
    OpenError { reason: format!("opening the tap device '{name}' failed: {error}"), hint: hint.into() }
}

/// A device that is not held: its ports may be closed meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct WeakTap {
    device: Weak<TapDevice>,
    /// True if the port created it.
    pub(crate) created: bool,
}

impl WeakTap {
    pub(crate) fn of(port: &TapPort, made: bool) -> WeakTap {
        WeakTap { device: Arc::downgrade(port.device()), created: made }
    }

    /// True if it still works, in any network namespace.
    pub(crate) fn is_alive(&self) -> bool {
        self.device.upgrade().is_some_and(|device| device.queues.iter().all(sys::has_tun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::Namespace;

    #[test]
    fn carrier_of_a_device_is_that_of_its_interface() {
        // Without the permission, or without the driver, there is no device to test.
        let Ok(namespace) = Namespace::new() else { return };
        if !std::path::Path::new("/dev/net/tun").exists() {
            return;
        }
        let test = || {
            let closer = Closer::start().unwrap();
            let options = TapOptions { mtu: 1400, offloads: false };
            let opened = Taps::default().open("tap0", options, 1, &closer).unwrap();
            let mut netlink = Netlink::open().unwrap();
            let mut carrier = || netlink.link("tap0").map(|link| (link.up, link.carrier)).unwrap();
            assert_eq!(carrier(), (true, true));
            for is_present in [false, true] {
                opened.ports[0].set_carrier(is_present).unwrap();
                assert_eq!(carrier(), (true, is_present));
            }
        };
        namespace.run(test).unwrap();
    }
}
