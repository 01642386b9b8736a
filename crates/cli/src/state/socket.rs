//! Sockets that carry instruction parts: in datagrams, or directly behind the header of IP packets (spec E-16).

use anyhow::{Context, Error, Result, anyhow};
use io::icmp_errors::{self, QuotedDatagram};
use io::raw;
use packet::wire::transport;
use rustix::io::Errno;
use rustix::net::sockopt::set_ipv6_multicast_hops;
use std::io::{Error as IoError, ErrorKind, Result as IoResult};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// How often to retry a send that fails because of the answer to an earlier packet.
const TRIES: usize = 4;
/// The answers of a host that does not support the protocol, for IPv4 and IPv6. The standard library has no names for these errors.
const NO_PROTOCOL: [Errno; 2] = [Errno::NOPROTOOPT, Errno::PROTO];

/// The carriage of instruction parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encapsulation {
    /// Datagrams to this port.
    Datagrams(u16),
    /// IP packets of this protocol.
    Packets(u8),
}

impl Encapsulation {
    /// The destination port; 0 for IP packets.
    const fn port(self) -> u16 {
        match self {
            Encapsulation::Datagrams(port) => port,
            Encapsulation::Packets(_) => 0,
        }
    }

    /// Bytes between an IP header and a part.
    pub const fn header(self) -> usize {
        match self {
            Encapsulation::Datagrams(_) => transport::UDP_HEADER,
            Encapsulation::Packets(_) => 0,
        }
    }
}

/// A socket for instruction parts.
pub struct PartSocket {
    socket: UdpSocket,
    /// True if received data begins with an IPv4 header.
    has_header: bool,
}

impl PartSocket {
    /// Opens a socket that sends to a host and receives its answers.
    pub fn connect(by: Encapsulation, host: IpAddr) -> Result<PartSocket> {
        let socket = PartSocket::open(by, host.is_ipv4(), 0)?;
        socket.socket.connect((host, by.port())).with_context(|| format!("{host} cannot be reached"))?;
        Ok(socket)
    }

    /// Opens non-blocking sockets that receive parts over IPv6, and over IPv4 if the system supports both; also those sent to a multicast group.
    pub fn listen(by: Encapsulation, group: Option<IpAddr>) -> Result<Vec<PartSocket>> {
        let open = |is_ipv4| PartSocket::open(by, is_ipv4, by.port());
        let sockets = match (group, by) {
            (Some(group), _) => vec![open(group.is_ipv4())?],
            // An IPv6 socket for datagrams also receives IPv4.
            (None, Encapsulation::Datagrams(_)) => vec![open(false).or_else(|_| open(true))?],
            (None, Encapsulation::Packets(_)) => [open(true)?].into_iter().chain(open(false).ok()).collect(),
        };
        for socket in &sockets {
            let joined = match group {
                None => Ok(()),
                Some(IpAddr::V4(group)) => socket.socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED),
                Some(IpAddr::V6(group)) => socket.socket.join_multicast_v6(&group, 0),
            };
            joined.with_context(|| format!("the group {} cannot be joined", group.unwrap_or(unspecified(true))))?;
            socket.socket.set_nonblocking(true)?;
        }
        Ok(sockets)
    }

    fn open(by: Encapsulation, is_ipv4: bool, port: u16) -> Result<PartSocket> {
        let Encapsulation::Packets(protocol) = by else {
            let what = || match port {
                0 => "cannot open a UDP socket".to_owned(),
                port => format!("cannot receive datagrams on port {port}"),
            };
            let socket = UdpSocket::bind((unspecified(is_ipv4), port)).with_context(what)?;
            return Ok(PartSocket { socket, has_header: false });
        };
        let socket = raw::socket(is_ipv4, protocol).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => {
                anyhow!("IP packets of protocol {protocol} need CAP_NET_RAW: run as root, or write --carriage udp")
            }
            _ => Error::new(error).context(format!("cannot open a socket for IP packets of protocol {protocol}")),
        })?;
        Ok(PartSocket { socket, has_header: is_ipv4 })
    }

    /// Sends a part. A socket first reports the ICMP error of an earlier packet, so a failed send is repeated.
    pub fn send(&self, bytes: &[u8]) -> IoResult<()> {
        let mut sent = self.socket.send(bytes);
        for _ in 1..TRIES {
            if !sent.as_ref().is_err_and(is_icmp_answer) {
                break;
            }
            sent = self.socket.send(bytes);
        }
        sent.map(drop)
    }

    /// Sends to the sender of a received packet.
    pub fn send_to(&self, bytes: &[u8], to: SocketAddr) -> IoResult<()> {
        self.socket.send_to(bytes, to).map(drop)
    }

    /// Receives a part, without the headers before it, and its sender; none if nothing has arrived.
    pub fn receive<'a>(&self, buffer: &'a mut [u8]) -> IoResult<Option<(&'a [u8], SocketAddr)>> {
        let (length, from) = loop {
            match self.socket.recv_from(buffer) {
                // The ICMP error of an earlier packet does not end the reception.
                Err(error) if is_icmp_answer(&error) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(None),
                came => break came?,
            }
        };
        let came = &buffer[..length];
        // The kernel has already discarded packets with a wrong header.
        let came = if self.has_header { raw::behind_header(came).unwrap_or_default() } else { came };
        Ok(Some((came, from)))
    }

    /// Makes the socket keep the ICMP errors of sent packets, with the packets they quote, and never block.
    pub fn keep_quotes(&self) -> IoResult<()> {
        self.socket.set_nonblocking(true)?;
        icmp_errors::enable(&self.socket)
    }

    /// Returns the next quoted packet, if one has arrived.
    pub fn quote(&self) -> IoResult<Option<QuotedDatagram>> {
        icmp_errors::next_error(&self.socket)
    }

    /// Sets the hop limit of packets sent from now on.
    pub fn set_hops(&self, hops: u8) -> IoResult<()> {
        icmp_errors::set_hops(&self.socket, hops)
    }

    /// Sets the hop limit of multicast packets sent from now on.
    pub fn set_group_hops(&self, is_ipv4: bool, hops: u32) -> IoResult<()> {
        if is_ipv4 { self.socket.set_multicast_ttl_v4(hops) } else { Ok(set_ipv6_multicast_hops(&self.socket, hops)?) }
    }
}

impl AsFd for PartSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn unspecified(is_ipv4: bool) -> IpAddr {
    if is_ipv4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

/// Returns whether a socket error reports the answer to an earlier packet.
pub fn is_icmp_answer(error: &IoError) -> bool {
    use ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | ConnectionReset | HostUnreachable | NetworkUnreachable | Interrupted)
        || Errno::from_io_error(error).is_some_and(|error| NO_PROTOCOL.contains(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Over loopback, the ICMP error of each packet arrives before the next packet is sent.
    #[test]
    fn send_succeeds_despite_icmp_errors_of_earlier_packets() {
        let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        for by in [Encapsulation::Datagrams(free), Encapsulation::Packets(186)] {
            for host in [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)] {
                // Raw sockets need a privilege, and a machine may have no IPv6.
                let Ok(sender) = PartSocket::connect(by, host) else { continue };
                (0..3).for_each(|_| sender.send(b"nobody is there").unwrap());
                let receivers = PartSocket::listen(by, None).unwrap();
                sender.send(b"somebody is").unwrap();
                let mut bytes = [0; 100];
                let came = receivers.iter().find_map(|socket| {
                    socket.receive(&mut bytes).unwrap().map(|(came, from)| (came.to_vec(), from.ip().to_canonical()))
                });
                assert_eq!(came, Some((b"somebody is".to_vec(), host)));
            }
        }
    }
}
