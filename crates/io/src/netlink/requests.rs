//! Many changes in a few system calls.

use super::message::{ACK, Message, messages};
use super::{
    KernelAddress, KernelError, KernelNeighbourEntry, KernelNextHop, KernelRouteEntry, Netlink, acknowledgement,
};
use crate::sys;
use rustix::net::{self, RecvFlags, SendFlags};
use std::fmt;
use std::io;

/// Requests in one system call.
const BATCH: usize = 256;
/// Bytes of answers that may be queued. The kernel answers a batch before the system call returns: up to [`BATCH`] refusals, each with its request, a
/// message and about 700 bytes of the kernel's own.
const BACKLOG: u32 = 1 << 20;

/// The object of a request.
#[derive(Clone, Copy, Debug)]
pub enum RequestObject<'a> {
    /// A route. Requests to remove an IPv4 route must have its type of service, kind, scope, protocol and hops.
    Route(&'a KernelRouteEntry),
    /// An address. It is replaced in its flags and its protocol only.
    Address(&'a KernelAddress),
    /// A neighbour.
    Neighbour(&'a KernelNeighbourEntry),
    /// A next-hop object. Removal removes the routes that name it too.
    NextHop(&'a KernelNextHop),
}

/// A change of the kernel's tables.
#[derive(Clone, Copy, Debug)]
pub enum KernelRequest<'a> {
    /// Adds the object, which must not exist.
    Add(RequestObject<'a>),
    /// Adds the object, or replaces the one in its place.
    Replace(RequestObject<'a>),
    /// Removes the object.
    Delete(RequestObject<'a>),
}

/// A request that the kernel refused.
#[derive(Debug)]
pub struct RefusedRequest {
    /// Its place among the requests.
    pub index: usize,
    /// The reason.
    pub error: KernelError,
}

impl fmt::Display for RequestObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestObject::Route(route) => write!(f, "route {route}"),
            RequestObject::Address(address) => {
                write!(f, "address {}/{} of link {}", address.address, address.prefix, address.link)
            }
            RequestObject::Neighbour(neighbour) => {
                write!(f, "neighbour {} of link {}", neighbour.address, neighbour.link)
            }
            RequestObject::NextHop(object) => write!(f, "next-hop object {}", object.id),
        }
    }
}

impl KernelRequest<'_> {
    fn message(self) -> Message {
        let to_add = |object, replace| match object {
            RequestObject::Route(route) => route.to_add(replace),
            RequestObject::Address(address) => address.to_add(replace),
            RequestObject::Neighbour(neighbour) => neighbour.to_add(replace),
            RequestObject::NextHop(object) => object.to_add(replace),
        };
        match self {
            KernelRequest::Add(object) => to_add(object, false),
            KernelRequest::Replace(object) => to_add(object, true),
            KernelRequest::Delete(object) => match object {
                RequestObject::Route(route) => route.to_delete(),
                RequestObject::Address(address) => address.to_delete(),
                RequestObject::Neighbour(neighbour) => neighbour.to_delete(),
                RequestObject::NextHop(object) => KernelNextHop::to_delete(object.id),
            },
        }
    }

    fn refused(self, (error, message): (io::Error, String)) -> KernelError {
        let (operation, object) = match self {
            KernelRequest::Add(object) => ("adding the", object),
            KernelRequest::Replace(object) => ("replacing the", object),
            KernelRequest::Delete(object) => ("removing the", object),
        };
        KernelError { operation, object: object.to_string(), message, error }
    }
}

impl Netlink {
    /// Makes these changes in their order, and returns those that the kernel refused. Needs CAP_NET_ADMIN.
    pub fn apply<'a>(
        &mut self,
        requests: impl IntoIterator<Item = KernelRequest<'a>>,
    ) -> Result<Vec<RefusedRequest>, KernelError> {
        for option in [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF] {
            // The first needs CAP_NET_ADMIN; the second is bounded by net.core.rmem_max.
            if sys::set_option(&self.socket, libc::SOL_SOCKET, option, &BACKLOG).is_ok() {
                break;
            }
        }
        let (mut refused, mut begin) = (Vec::new(), 0);
        let mut requests = requests.into_iter();
        loop {
            let batch: Vec<KernelRequest<'_>> = requests.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return Ok(refused);
            }
            self.apply_batch(&batch, begin, &mut refused)?;
            begin += batch.len();
        }
    }

    /// Sends one batch and reads the answers. `begin` is the place of its first request.
    fn apply_batch(
        &mut self,
        batch: &[KernelRequest<'_>],
        begin: usize,
        refused: &mut Vec<RefusedRequest>,
    ) -> Result<(), KernelError> {
        let fail = |error: io::Error| KernelError::new("changing", "the kernel's tables", error);
        let (mut bytes, first) = (Vec::new(), self.sequence.wrapping_add(1));
        for (place, request) in batch.iter().enumerate() {
            self.sequence = self.sequence.wrapping_add(1);
            let mut message = request.message().finish(self.sequence);
            if place + 1 < batch.len() {
                // The kernel reports errors in any case. Success is only reported of the last request.
                let flags = u16::from_ne_bytes([message[6], message[7]]) & !ACK;
                message[6..8].copy_from_slice(&flags.to_ne_bytes());
            }
            bytes.extend_from_slice(&message);
        }
        net::send(&self.socket, &bytes, SendFlags::empty()).map_err(|error| fail(error.into()))?;
        loop {
            let (got, _) = match net::recv(&self.socket, &mut self.received[..], RecvFlags::TRUNC) {
                Ok(lengths) => lengths,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(fail(error.into())),
            };
            for (kind, flags, sequence, body) in messages(&self.received[..got]) {
                let place = sequence.wrapping_sub(first) as usize;
                if i32::from(kind) != libc::NLMSG_ERROR || place >= batch.len() {
                    continue;
                }
                if let Err(error) = acknowledgement(body, flags) {
                    refused.push(RefusedRequest { index: begin + place, error: batch[place].refused(error) });
                }
                if place + 1 == batch.len() {
                    return Ok(());
                }
            }
        }
    }
}
