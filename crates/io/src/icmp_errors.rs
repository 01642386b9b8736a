//! Reads the ICMP errors about undelivered datagrams. Routers and hosts on the path quote the datagram, and the kernel passes the quote to the socket
//! that sent it, without privileges (ip(7) and ipv6(7), IP_RECVERR).

use crate::sys::set_option;
use std::io::{self, ErrorKind};
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;

/// The maximum number of quoted bytes to read.
const MOST: usize = 2048;

/// The reason for an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpErrorReason {
    /// The time to live expired there.
    Expired,
    /// It arrived, but no process listens on its port.
    PortUnreachable,
    /// Another reason: no route, prohibited, too long.
    Unreachable,
}

/// An undelivered datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuotedDatagram {
    /// The sender of the error; `None` if this host itself detected it.
    pub from: Option<IpAddr>,
    /// The reason.
    pub reason: IcmpErrorReason,
    /// The datagram's payload as it arrived there, as far as it was quoted.
    pub data: Vec<u8>,
}

/// Makes the kernel keep the errors of a socket for [`next_error`].
pub fn enable(socket: &UdpSocket) -> io::Result<()> {
    let on: libc::c_int = 1;
    if socket.local_addr()?.is_ipv4() {
        set_option(socket, libc::IPPROTO_IP, libc::IP_RECVERR, &on)
    } else {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &on)
    }
}

/// Sets the hop limit of a socket.
pub fn set_hops(socket: &UdpSocket, hops: u8) -> io::Result<()> {
    let hops = libc::c_int::from(hops);
    if socket.local_addr()?.is_ipv4() {
        set_option(socket, libc::IPPROTO_IP, libc::IP_TTL, &hops)
    } else {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, &hops)
    }
}

/// The next error, `None` if there is none yet. Never blocks.
pub fn next_error(socket: &UdpSocket) -> io::Result<Option<QuotedDatagram>> {
    let mut data = vec![0u8; MOST];
    // Aligned like `struct cmsghdr`, and larger than the two structures that the kernel stores there.
    let mut control = [0u64; 64];
    let mut part = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: all zeros is a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of_val(&control) as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: `message` points to memory of this function with the stated lengths, which outlives the call.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    let Ok(length) = usize::try_from(length) else {
        let error = io::Error::last_os_error();
        let none = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
        return if none { Ok(None) } else { Err(error) };
    };
    data.truncate(length);
    let used = (message.msg_controllen as usize).min(mem::size_of_val(&control));
    let bytes: Vec<u8> = control.iter().flat_map(|word| word.to_ne_bytes()).take(used).collect();
    Ok(Some(read(&bytes, data)))
}

/// Parses control messages with headers of 16 bytes (length, level, type). One of them contains `struct sock_extended_err` of 16 bytes and the
/// address of the error's sender.
fn read(mut control: &[u8], data: Vec<u8>) -> QuotedDatagram {
    let header = mem::size_of::<libc::cmsghdr>();
    let mut quote = QuotedDatagram { from: None, reason: IcmpErrorReason::Unreachable, data };
    while control.len() >= header {
        let length = usize::from_ne_bytes(control[..8].try_into().unwrap_or_default());
        let number = |at: usize| i32::from_ne_bytes(control[at..at + 4].try_into().unwrap_or_default());
        let (level, kind) = (number(8), number(12));
        let Some(said) = control.get(header..length).filter(|said| said.len() >= 16) else { break };
        match (level, kind) {
            // `struct sock_extended_err`: bytes 4 to 6 are origin, ICMP type and code (RFC 792; RFC 4443 for IPv6).
            (libc::IPPROTO_IP, libc::IP_RECVERR) => {
                quote.reason = match (said[4], said[5], said[6]) {
                    (libc::SO_EE_ORIGIN_ICMP, 11, _) => IcmpErrorReason::Expired,
                    (libc::SO_EE_ORIGIN_ICMP, 3, 3) => IcmpErrorReason::PortUnreachable,
                    _ => IcmpErrorReason::Unreachable,
                };
                let address = said.get(20..24).and_then(|bytes| bytes.first_chunk::<4>());
                quote.from = address.filter(|_| said[4] == libc::SO_EE_ORIGIN_ICMP).map(|a| Ipv4Addr::from(*a).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                quote.reason = match (said[4], said[5], said[6]) {
                    (libc::SO_EE_ORIGIN_ICMP6, 3, 0) => IcmpErrorReason::Expired,
                    (libc::SO_EE_ORIGIN_ICMP6, 1, 4) => IcmpErrorReason::PortUnreachable,
                    _ => IcmpErrorReason::Unreachable,
                };
                let address = said.get(24..40).and_then(|bytes| bytes.first_chunk::<16>());
                quote.from = address.filter(|_| said[4] == libc::SO_EE_ORIGIN_ICMP6).map(|a| Ipv6Addr::from(*a).into());
            }
            _ => {}
        }
        // The next header is aligned.
        control = control.get(length.next_multiple_of(mem::size_of::<usize>())..).unwrap_or_default();
    }
    quote
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::{Sleeper, WakeReason, Waker};
    use std::os::fd::AsFd;
    use units::Nanos;

    /// On this host the error arrives at once: no process listens on a port that was just released.
    #[test]
    fn undelivered_datagram_is_quoted_to_its_sender() {
        for here in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(other) = UdpSocket::bind(here) else { continue };
            let (socket, port) = (UdpSocket::bind(here).unwrap(), other.local_addr().unwrap());
            drop(other);
            enable(&socket).unwrap();
            set_hops(&socket, 3).unwrap();
            assert_eq!(next_error(&socket).unwrap(), None);
            socket.send_to(b"as it was", port).unwrap();
            let mut sleeper = Sleeper::new(Waker::new().unwrap());
            assert_eq!(sleeper.sleep([socket.as_fd()], Nanos::secs(10)).unwrap(), WakeReason::Ready);
            let quote = next_error(&socket).unwrap().unwrap();
            let told = QuotedDatagram {
                from: Some(port.ip()),
                reason: IcmpErrorReason::PortUnreachable,
                data: b"as it was".to_vec(),
            };
            assert_eq!(quote, told);
            assert_eq!(next_error(&socket).unwrap(), None);
        }
    }

    #[test]
    fn quote_without_sender_address_has_none() {
        for control in [&[][..], &[1; 9], &[0; 64], &[0xff; 64]] {
            assert_eq!(
                read(control, Vec::new()),
                QuotedDatagram { from: None, reason: IcmpErrorReason::Unreachable, data: Vec::new() }
            );
        }
    }
}
