//! UDP sockets of services on one interface.

use crate::sys;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// A socket for packets of any destination on one interface of the calling thread's network namespace, broadcasts included. It joins `group`, if given, and its
/// family is that of the group; otherwise it is of IPv4. Several sockets may use the port on other interfaces. Needs CAP_NET_RAW before Linux 5.7.
pub fn on_interface(interface: &str, index: u32, port: u16, group: Option<Ipv6Addr>) -> io::Result<UdpSocket> {
    let address = if group.is_some() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let socket = open(address)?;
    sys::bind_to_device(&socket, interface)?;
    match &group {
        Some(group) => sockopt::set_ipv6_add_membership(&socket, group, index)?,
        None => sockopt::set_socket_broadcast(&socket, true)?,
    }
    bind(socket, address, port)
}

/// A socket for packets to this address, at any interface. The address may be missing yet.
pub fn at_address(address: IpAddr, port: u16) -> io::Result<UdpSocket> {
    let socket = open(address)?;
    let (level, option) = match address {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_FREEBIND),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_FREEBIND),
    };
    sys::set_option(&socket, level, option, &1u32)?;
    bind(socket, address, port)
}

fn open(address: IpAddr) -> io::Result<std::os::fd::OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::DGRAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}

fn bind(socket: std::os::fd::OwnedFd, address: IpAddr, port: u16) -> io::Result<UdpSocket> {
    net::bind(&socket, &SocketAddr::new(address, port))?;
    Ok(socket.into())
}
