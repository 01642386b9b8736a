//! The kernel's tables of links, addresses, neighbours, routes and rules: rtnetlink(7).
//!
//! [`Netlink`] lists and changes them, synchronously. [`KernelWatch`] receives their changes. [`KernelTables`] is a copy of them in memory that
//! follows the changes, and reports each difference once.

mod addresses;
mod change;
mod links;
mod lookup;
pub(crate) mod message;
mod multicast;
mod neighbours;
mod next_hop_table;
mod next_hops;
mod notification;
mod requests;
mod route_table;
mod routes;
mod rules;
mod table_state;
mod tables;
mod uapi;
mod watch;

pub use addresses::{AddressFlags, KernelAddress};
pub use change::{ChangeKind, KernelChange, ResolvedRoute};
pub use links::{KernelLink, Veth, VethEnd};
pub use multicast::{KernelMulticastRoute, MulticastForwarding, MulticastWatch};
pub use neighbours::{KernelNeighbour, KernelNeighbourEntry, KernelNeighbourState};
pub use next_hops::{KernelNextHop, NextHopTarget};
pub use notification::{KernelNotification, KernelObject, RoutePlacement};
pub use requests::{KernelRequest, RefusedRequest, RequestObject};
pub use routes::{HopFlags, KernelHop, KernelRoute, KernelRouteEntry, RouteHops, RouteKind};
pub use rules::{KernelRule, RuleAction};
pub use tables::{FollowedTables, KernelTables, UpdateResult};
pub use watch::{KernelGroup, KernelWatch, Reading};

use crate::sys;
use message::{HEADER, Message, attributes, messages, text};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

/// A list whose objects change while the kernel lists them is requested this often. Lists of links, addresses and rules are short, so the second is
/// usually consistent.
const MOST_LISTINGS: usize = 16;

/// A request that the kernel refused: the operation, its object, and the error.
#[derive(Debug)]
pub struct KernelError {
    /// The operation: `adding the address`.
    pub operation: &'static str,
    /// Its object: `10.0.0.1/24 of eth0`.
    pub object: String,
    /// The kernel's message, often empty.
    pub message: String,
    /// The kernel's error number.
    pub error: io::Error,
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} failed: {}", self.operation, self.object, self.error)?;
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

impl std::error::Error for KernelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl KernelError {
    /// An error without a message.
    pub(crate) fn new(operation: &'static str, object: impl Into<String>, error: impl Into<io::Error>) -> Self {
        KernelError { operation, object: object.into(), message: String::new(), error: error.into() }
    }
}

/// A netlink socket. It belongs to the network namespace of the thread that opened it, even if another thread uses it later.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    received: Vec<u8>,
}

impl Netlink {
    /// Opens it in the network namespace of the calling thread. Needs no privilege; changes need CAP_NET_ADMIN.
    pub fn open() -> Result<Self, KernelError> {
        let flags = SocketFlags::CLOEXEC;
        let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None) // NETLINK_ROUTE is 0
            .map_err(|error| KernelError::new("opening", "a netlink socket", error))?;
        // Asks for messages with error numbers (since Linux 4.12), and for lists of exactly the requested objects (since Linux 4.20).
        let _ = sys::set_option(&socket, libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, &1u32);
        let _ = sys::set_option(&socket, libc::SOL_NETLINK, libc::NETLINK_GET_STRICT_CHK, &1u32);
        Ok(Netlink { socket, sequence: 0, received: vec![0; 64 << 10] })
    }

    /// Sends a request and waits for its completion.
    pub(crate) fn change(
        &mut self,
        message: Message,
        operation: &'static str,
        object: &str,
    ) -> Result<(), KernelError> {
        self.exchange(message, operation, object, |_, _| {}).map(drop)
    }

    /// Parses each object of a list. `request` is made anew if the objects changed meanwhile.
    pub(super) fn list<T>(
        &mut self,
        object: &str,
        request: impl Fn() -> Message,
        answer: u16,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, KernelError> {
        for _ in 0..MOST_LISTINGS {
            let mut listed = Vec::new();
            let is_consistent = self.exchange(request(), "listing", object, |kind, body| {
                listed.extend((kind == answer).then(|| parse(body)).flatten());
            })?;
            if is_consistent {
                return Ok(listed);
            }
        }
        Err(KernelError::new("listing", object, io::Error::from_raw_os_error(libc::EINTR)))
    }

    /// Sends a request and passes each message of the answer, with its type, to `each`. Returns false if the answer is a list whose objects changed
    /// while the kernel listed them (NLM_F_DUMP_INTR): it may lack objects.
    pub(crate) fn exchange(
        &mut self,
        message: Message,
        operation: &'static str,
        object: &str,
        mut each: impl FnMut(u16, &[u8]),
    ) -> Result<bool, KernelError> {
        let fail = |error: io::Error| KernelError::new(operation, object, error);
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = message.finish(self.sequence);
        net::send(&self.socket, &bytes, SendFlags::empty()).map_err(|error| fail(error.into()))?;
        let mut is_consistent = true;
        loop {
            // MSG_TRUNC returns the full length, so that a truncated datagram is detected.
            let (got, length) = match net::recv(&self.socket, &mut self.received[..], RecvFlags::TRUNC) {
                Ok(lengths) => lengths,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(fail(error.into())),
            };
            if length > got {
                return Err(fail(io::Error::from_raw_os_error(libc::EMSGSIZE)));
            }
            for (kind, flags, sequence, body) in messages(&self.received[..got]) {
                if sequence != self.sequence {
                    continue; // the rest of an answer that was given up
                }
                is_consistent &= i32::from(flags) & libc::NLM_F_DUMP_INTR == 0;
                let end = match i32::from(kind) {
                    libc::NLMSG_DONE => listing_end(body, flags),
                    libc::NLMSG_ERROR => acknowledgement(body, flags),
                    _ => {
                        each(kind, body);
                        continue;
                    }
                };
                return end.map(|()| is_consistent).map_err(|(error, message)| KernelError {
                    operation,
                    object: object.into(),
                    message,
                    error,
                });
            }
        }
    }
}

/// Parses an NLMSG_ERROR: an error number and the request.
fn acknowledgement(body: &[u8], flags: u16) -> Result<(), (io::Error, String)> {
    const CAPPED: u16 = 0x100;
    // The kernel echoes the whole request, or its header only (NLM_F_CAPPED).
    let echoed = if flags & CAPPED != 0 { HEADER } else { message::u32_at(body, 4).unwrap_or(0) as usize };
    let code = message::u32_at(body, 0).unwrap_or(-libc::EBADMSG as u32);
    result(code, body.get(4usize.saturating_add(echoed.next_multiple_of(4))..), flags)
}

/// Parses an NLMSG_DONE: an error number, if it has one.
fn listing_end(body: &[u8], flags: u16) -> Result<(), (io::Error, String)> {
    result(message::u32_at(body, 0).unwrap_or(0), body.get(4..), flags)
}

/// A negative error number; zero is success. The attributes behind it may include a message (NLMSGERR_ATTR_MSG).
fn result(code: u32, rest: Option<&[u8]>, flags: u16) -> Result<(), (io::Error, String)> {
    const ATTRIBUTES: u16 = 0x200;
    const WORDS: u16 = 1;
    if code == 0 {
        return Ok(());
    }
    let rest = rest.filter(|_| flags & ATTRIBUTES != 0).unwrap_or(&[]);
    let words = attributes(rest).find(|(kind, _)| *kind == WORDS).map_or(String::new(), |(_, value)| text(value));
    Err((io::Error::from_raw_os_error((code as i32).wrapping_neg()), words))
}
