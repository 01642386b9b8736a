//! Queries and changes of kernel links: rtnetlink(7), synchronously, one request at a time.

mod lookup;
pub(crate) mod message;
mod route;
mod watch;

pub use lookup::LinkLayers;
pub use route::{KernelLink, KernelNeighbour, KernelRoute, Veth, VethEnd};
pub use watch::{LinkChange, LinkChanges, LinkWatch};

use crate::sys;
use message::{HEADER, Message, attributes, messages, text};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

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
        // Asks for messages with error numbers (since Linux 4.12).
        let _ = sys::set_option(&socket, libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, &1u32);
        Ok(Netlink { socket, sequence: 0, received: vec![0; 64 << 10] })
    }

    /// Sends a request and waits for its completion.
    pub(crate) fn change(
        &mut self,
        message: Message,
        operation: &'static str,
        object: &str,
    ) -> Result<(), KernelError> {
        self.exchange(message, operation, object, |_, _| {})
    }

    /// Sends a request and passes each message of the answer, with its type, to `each`.
    pub(crate) fn exchange(
        &mut self,
        message: Message,
        operation: &'static str,
        object: &str,
        mut each: impl FnMut(u16, &[u8]),
    ) -> Result<(), KernelError> {
        let fail = |error: io::Error| KernelError::new(operation, object, error);
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = message.finish(self.sequence);
        net::send(&self.socket, &bytes, SendFlags::empty()).map_err(|error| fail(error.into()))?;
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
                match i32::from(kind) {
                    libc::NLMSG_DONE => return Ok(()),
                    libc::NLMSG_ERROR => {
                        return acknowledgement(body, flags).map_err(|(error, warning)| KernelError {
                            operation,
                            object: object.into(),
                            message: warning,
                            error,
                        });
                    }
                    _ => each(kind, body),
                }
            }
        }
    }
}

/// Parses an NLMSG_ERROR. Zero is success. The echoed header may be followed by a message (NLMSGERR_ATTR_MSG).
fn acknowledgement(body: &[u8], flags: u16) -> Result<(), (io::Error, String)> {
    const CAPPED: u16 = 0x100;
    const ATTRIBUTES: u16 = 0x200;
    const WORDS: u16 = 1;
    let code = message::u32_at(body, 0).map_or(libc::EBADMSG, |code| -(code as i32));
    if code == 0 {
        return Ok(());
    }
    // The kernel echoes the whole request, or its header only (NLM_F_CAPPED).
    let echoed = if flags & CAPPED != 0 { HEADER } else { message::u32_at(body, 4).unwrap_or(0) as usize };
    let rest = body.get(4 + echoed.next_multiple_of(4)..).filter(|_| flags & ATTRIBUTES != 0).unwrap_or(&[]);
    let words = attributes(rest).find(|(kind, _)| *kind == WORDS).map_or(String::new(), |(_, value)| text(value));
    Err((io::Error::from_raw_os_error(code), words))
}
