//! Raw IP sockets of one protocol (raw(7), ipv6(7)). The kernel writes and reads the IP headers. Opening one needs root or CAP_NET_RAW.

use crate::sys::set_option;
use packet::wire::Ipv4;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};
use std::io;
use std::net::UdpSocket;
use std::num::NonZeroU32;
use std::os::fd::AsFd;

/// A socket for IPv4 or IPv6 packets of this protocol. It is not a datagram socket, but std's type has all the calls for it; ports have no meaning
/// and are 0. Received IPv4 packets begin with their header ([`behind_header`]), IPv6 packets do not.
///
/// # Errors
///
/// `PermissionDenied` without the privilege.
pub fn socket(is_ipv4: bool, protocol: u8) -> io::Result<UdpSocket> {
    let family = if is_ipv4 { AddressFamily::INET } else { AddressFamily::INET6 };
    let protocol = NonZeroU32::new(protocol.into()).map(Protocol::from_raw);
    Ok(socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?.into())
}

/// Sets the priority of the packets of a socket, by which a queueing discipline of the kernel may select their class (socket(7)). Numbers above 6 need
/// CAP_NET_ADMIN.
pub fn set_priority(socket: impl AsFd, priority: u32) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, &priority)
}

/// The payload of an IPv4 packet that was received with its header.
pub fn behind_header(received: &[u8]) -> Option<&[u8]> {
    Ipv4::parse_without_checksum(received).ok().map(|packet| packet.payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::time::Duration;

    /// An unassigned protocol, which no other program uses.
    const PROTOCOL: u8 = 187;

    #[test]
    fn raw_socket_delivers_packets_to_its_peer() {
        for here in [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)] {
            let open = || match socket(here.is_ipv4(), PROTOCOL) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
                opened => Some(opened.unwrap()),
            };
            let (Some(one), Some(other)) = (open(), open()) else { return };
            if other.connect((here, 0)).is_err() {
                continue;
            }
            one.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            other.send(b"without a port").unwrap();
            let mut bytes = [0; 100];
            let (length, from) = one.recv_from(&mut bytes).unwrap();
            let payload = if here.is_ipv4() { behind_header(&bytes[..length]) } else { Some(&bytes[..length]) };
            assert_eq!((payload, from.ip(), from.port()), (Some(&b"without a port"[..]), here, 0));
        }
        assert_eq!(behind_header(&[0x45, 0, 0]), None);
    }
}
