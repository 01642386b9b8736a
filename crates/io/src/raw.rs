//! Sockets for IP packets of a protocol of one's own (raw(7), ipv6(7)). The kernel writes and reads their headers; to open one takes root or CAP_NET_RAW.

use packet::wire::Ipv4;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};
use std::io;
use std::net::UdpSocket;
use std::num::NonZeroU32;

/// A socket for packets of IPv4 or IPv6 with this protocol. It is no datagram socket, but std's type has all the calls for it; ports mean nothing and are 0.
/// What is received by IPv4 begins with its header ([`behind_header`]), by IPv6 it does not.
///
/// # Errors
///
/// `PermissionDenied` without the privilege.
pub fn socket(is_ipv4: bool, protocol: u8) -> io::Result<UdpSocket> {
    let family = if is_ipv4 { AddressFamily::INET } else { AddressFamily::INET6 };
    let protocol = NonZeroU32::new(protocol.into()).map(Protocol::from_raw);
    Ok(socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?.into())
}

/// What the IPv4 header carries that was received with it.
pub fn behind_header(received: &[u8]) -> Option<&[u8]> {
    Ipv4::parse_unsummed(received).ok().map(|packet| packet.payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::time::Duration;

    /// One that is not assigned, so that nobody else sends it here.
    const PROTOCOL: u8 = 187;

    #[test]
    fn what_one_sends_the_other_receives() {
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
