//! Receives notifications about the kernel's tables: the multicast groups of rtnetlink(7).

use super::{KernelError, KernelNotification};
use crate::sys;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SocketFlags, SocketType, netlink::SocketAddrNetlink};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Datagrams that one call reads at most, so that it ends even if the kernel sends as fast as they are read.
const MOST_DATAGRAMS: usize = 1 << 18;

/// The kinds of notifications.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelGroup {
    /// Links.
    Links,
    /// Addresses of both families.
    Addresses,
    /// Neighbours.
    Neighbours,
    /// Routes of both families.
    Routes,
    /// Next-hop objects.
    NextHops,
    /// Rules of both families.
    Rules,
    /// Multicast routes of both families, and whether a link has them.
    Multicast,
}

impl KernelGroup {
    /// The kinds with notifications that [`KernelNotification`] parses.
    pub const ALL: [KernelGroup; 6] = [
        KernelGroup::Links,
        KernelGroup::Addresses,
        KernelGroup::Neighbours,
        KernelGroup::Routes,
        KernelGroup::NextHops,
        KernelGroup::Rules,
    ];

    /// The bits of its multicast groups. RTNLGRP_NEXTHOP, number 32, is the last with a bit.
    fn bits(self) -> u32 {
        let groups: &[u32] = match self {
            KernelGroup::Links => &[libc::RTNLGRP_LINK],
            KernelGroup::Addresses => &[libc::RTNLGRP_IPV4_IFADDR, libc::RTNLGRP_IPV6_IFADDR],
            KernelGroup::Neighbours => &[libc::RTNLGRP_NEIGH],
            KernelGroup::Routes => &[libc::RTNLGRP_IPV4_ROUTE, libc::RTNLGRP_IPV6_ROUTE],
            KernelGroup::NextHops => &[libc::RTNLGRP_NEXTHOP],
            KernelGroup::Rules => &[libc::RTNLGRP_IPV4_RULE, libc::RTNLGRP_IPV6_RULE],
            KernelGroup::Multicast => &[
                libc::RTNLGRP_IPV4_MROUTE,
                libc::RTNLGRP_IPV6_MROUTE,
                libc::RTNLGRP_IPV4_NETCONF,
                libc::RTNLGRP_IPV6_NETCONF,
            ],
        };
        groups.iter().fold(0, |bits, group| bits | 1 << (group - 1))
    }
}

/// The result of a call of [`KernelWatch::changes`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    /// Notifications were lost, because more were queued than the buffer holds: any object may have changed.
    pub is_incomplete: bool,
    /// More may be queued: the call ended at its bound.
    pub has_more: bool,
}

/// Receives notifications of one network namespace: that of the thread that opened it.
#[derive(Debug)]
pub struct KernelWatch {
    socket: OwnedFd,
    received: Vec<u8>,
}

impl KernelWatch {
    /// Opens it. From now on no change is missed. `backlog` is the number of bytes of notifications that may be queued; one takes about 800. Needs no
    /// privilege. Without CAP_NET_ADMIN the sysctl `net.core.rmem_max` bounds the backlog.
    pub fn open(groups: &[KernelGroup], backlog: u32) -> Result<Self, KernelError> {
        let fail = |error: io::Error| KernelError::new("watching", "the kernel's tables", error);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None) // NETLINK_ROUTE is 0
            .map_err(|error| fail(error.into()))?;
        // Best effort: with a smaller buffer, lost notifications are more frequent. The kernel doubles the number.
        for option in [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF] {
            if sys::set_option(&socket, libc::SOL_SOCKET, option, &(backlog / 2)).is_ok() {
                break;
            }
        }
        let bits = groups.iter().fold(0, |bits, group| bits | group.bits());
        net::bind(&socket, &SocketAddrNetlink::new(0, bits)).map_err(|error| fail(error.into()))?;
        Ok(KernelWatch { socket, received: vec![0; 64 << 10] })
    }

    /// Passes the changes since the last call to `each`, in their order. Never blocks: the descriptor is readable if there are changes.
    pub fn changes(&mut self, mut each: impl FnMut(KernelNotification)) -> io::Result<Reading> {
        self.read(|datagram| KernelNotification::parse_datagram(datagram, &mut each))
    }

    /// Reads the notifications since the last call. True if there were some, or if some were lost.
    pub(super) fn drain(&mut self) -> io::Result<bool> {
        let mut any = false;
        let reading = self.read(|_| any = true)?;
        Ok(any || reading.is_incomplete)
    }

    fn read(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<Reading> {
        let mut reading = Reading { is_incomplete: false, has_more: true };
        for _ in 0..MOST_DATAGRAMS {
            let (got, length) = match net::recv(&self.socket, &mut self.received[..], RecvFlags::TRUNC) {
                Ok(lengths) => lengths,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    reading.has_more = false;
                    break;
                }
                // The kernel reports a full buffer once. The notifications in the buffer can still be read.
                Err(Errno::NOBUFS) => {
                    reading.is_incomplete = true;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            reading.is_incomplete |= length > got;
            each(&self.received[..got]);
        }
        Ok(reading)
    }
}

impl AsFd for KernelWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
