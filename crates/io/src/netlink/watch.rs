//! Being told what happens to links: the multicast group RTNLGRP_LINK (rtnetlink(7)).

use super::message::{attributes, messages, text, u32_at};
use super::{KernelError, Netlink};
use crate::sys;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SocketFlags, SocketType, netlink::SocketAddrNetlink};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// RTMGRP_LINK of <linux/rtnetlink.h>.
const GROUP: u32 = 1;
/// Bytes of news that may wait: a thousand links that change at once.
const BACKLOG: u32 = 4 << 20;

/// Something happened to a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkChange {
    /// Its index.
    pub index: u32,
    /// Its name; the one it had, where it was renamed or removed.
    pub name: String,
    /// It has left the network namespace. There may be a link of this index again by now: one that is moved away and back keeps
    /// its index, and loses its sockets and its queueing disciplines.
    pub left: bool,
}

/// Which links something happened to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkNews {
    /// To these.
    Of(Vec<LinkChange>),
    /// More happened than could be kept: to any.
    Unknown,
}

/// Hears of links of one network namespace: that of the thread that opened it.
#[derive(Debug)]
pub struct LinkWatch {
    socket: OwnedFd,
    received: Vec<u8>,
}

impl LinkWatch {
    /// From now on nothing is missed. Needs no privilege.
    pub fn open() -> Result<Self, KernelError> {
        let fail = |error: io::Error| KernelError::new("watching", "the links", error);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None) // NETLINK_ROUTE is 0
            .map_err(|error| fail(error.into()))?;
        net::bind(&socket, &SocketAddrNetlink::new(0, GROUP)).map_err(|error| fail(error.into()))?;
        // A wish: with less, [`LinkNews::Unknown`] comes sooner.
        let _ = sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &BACKLOG);
        Ok(LinkWatch { socket, received: vec![0; 64 << 10] })
    }

    /// What has happened since it was last asked. Never waits: the descriptor is readable when there is something.
    pub fn news(&mut self) -> io::Result<LinkNews> {
        let (mut changed, mut lost) = (Vec::new(), false);
        loop {
            let (got, length) = match net::recv(&self.socket, &mut self.received[..], RecvFlags::TRUNC) {
                Ok(lengths) => lengths,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break,
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
                // A bridge that gives up a member says so in a message of its own family.
                let left = kind == libc::RTM_DELLINK && body.first() == Some(&(libc::AF_UNSPEC as u8));
                changed.extend(u32_at(body, 4).map(|index| LinkChange { index, name, left }));
            }
        }
        Ok(if lost { LinkNews::Unknown } else { LinkNews::Of(changed) })
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Netlink {
    /// Whether the interface of that name is the one of that index, and carries packets (IFF_UP and IFF_RUNNING); its
    /// index otherwise. Nothing where there is none.
    pub(crate) fn find_link(&mut self, name: &str) -> Option<(u32, bool)> {
        self.link(name).ok().map(|link| (link.index, link.up && link.running))
    }
}
