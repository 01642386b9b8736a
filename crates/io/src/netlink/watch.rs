//! Notifications about links: the multicast group RTNLGRP_LINK (rtnetlink(7)).

use super::message::{attributes, messages, text, u32_at};
use super::{KernelError, Netlink};
use crate::sys;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SocketFlags, SocketType, netlink::SocketAddrNetlink};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// RTMGRP_LINK of <linux/rtnetlink.h>.
const GROUP: u32 = 1;
/// Bytes of notifications that may be queued: a thousand links that change at once.
const BACKLOG: u32 = 4 << 20;

/// A change of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkChange {
    /// Its index.
    pub index: u32,
    /// Its name; the previous one if it was renamed or removed.
    pub name: String,
    /// True if it left the network namespace. A link with this index may exist again by now. A link that is moved away and back keeps its index, but
    /// loses its sockets and its queueing disciplines.
    pub left_namespace: bool,
}

/// The links that changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkChanges {
    /// These links.
    Links(Vec<LinkChange>),
    /// Notifications were lost: any link may have changed.
    Unknown,
}

/// Receives notifications about the links of one network namespace: that of the thread that opened it.
#[derive(Debug)]
pub struct LinkWatch {
    socket: OwnedFd,
    received: Vec<u8>,
}

impl LinkWatch {
    /// Opens it. From now on no change is missed. Needs no privilege.
    pub fn open() -> Result<Self, KernelError> {
        let fail = |error: io::Error| KernelError::new("watching", "the links", error);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None) // NETLINK_ROUTE is 0
            .map_err(|error| fail(error.into()))?;
        net::bind(&socket, &SocketAddrNetlink::new(0, GROUP)).map_err(|error| fail(error.into()))?;
        // Best effort: with a smaller buffer, [`LinkChanges::Unknown`] is more frequent.
        let _ = sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &BACKLOG);
        Ok(LinkWatch { socket, received: vec![0; 64 << 10] })
    }

    /// The changes since the last call. Never blocks: the descriptor is readable if there are changes.
    pub fn changes(&mut self) -> io::Result<LinkChanges> {
        let (mut changed, mut lost) = (Vec::new(), false);
        loop {
            let (got, length) = match net::recv(&self.socket, &mut self.received[..], RecvFlags::TRUNC) {
                Ok(lengths) => lengths,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break,
                // The kernel reports a full buffer once. The notifications in the buffer can still be read.
                Err(Errno::NOBUFS) => {
                    lost = true;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            lost |= length > got;
            for (kind, _, _, body) in messages(&self.received[..got]) {
                if kind != libc::RTM_NEWLINK && kind != libc::RTM_DELLINK {
                    continue;
                }
                let name = attributes(body.get(16..).unwrap_or_default()).find(|(kind, _)| *kind == libc::IFLA_IFNAME);
                let name = name.map_or(String::new(), |(_, value)| text(value));
                // When a member leaves a bridge, the bridge also sends a message, in its own family.
                let left = kind == libc::RTM_DELLINK && body.first() == Some(&(libc::AF_UNSPEC as u8));
                changed.extend(u32_at(body, 4).map(|index| LinkChange { index, name, left_namespace: left }));
            }
        }
        Ok(if lost { LinkChanges::Unknown } else { LinkChanges::Links(changed) })
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Netlink {
    /// Finds the interface with this name: its index, and true if it is operational (IFF_UP and IFF_RUNNING). `None` if there is none.
    pub(crate) fn find_link(&mut self, name: &str) -> Option<(u32, bool)> {
        self.link(name).ok().map(|link| (link.index, link.up && link.running))
    }
}
