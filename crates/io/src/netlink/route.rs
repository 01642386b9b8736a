//! Links, addresses, routes and neighbours (rtnetlink(7)).

use super::message::{Message, attributes, text, u32_at};
use super::{KernelError, Netlink};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use units::Mac;

const ACK: u16 = libc::NLM_F_ACK as u16;
const CREATE: u16 = (libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
const DUMP: u16 = libc::NLM_F_DUMP as u16;
/// VETH_INFO_PEER of <linux/veth.h>.
const VETH_PEER: u16 = 1;

/// IFLA_XDP_ATTACHED of <linux/if_link.h>.
const XDP_ATTACHED: u16 = 2;

/// A link of the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelLink {
    /// Its number in its network namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its address; all zeros if it has none.
    pub mac: Mac,
    /// Its MTU, in bytes without the link header.
    pub mtu: u32,
    /// True if it is up (IFF_UP).
    pub up: bool,
    /// True if it has a carrier (IFF_LOWER_UP).
    pub carrier: bool,
    /// True if it is operational (IFF_RUNNING, RFC 2863 operational state).
    pub running: bool,
    /// ARPHRD_*: 1 for Ethernet.
    pub hardware: u16,
    /// True if an XDP program is attached to it.
    pub xdp: bool,
}

/// One end of a pair of virtual Ethernet links.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its network namespace; by default that of the netlink socket.
    pub namespace: Option<BorrowedFd<'a>>,
    /// Its address; by default the kernel generates one.
    pub mac: Option<Mac>,
}

/// A pair of virtual Ethernet links.
#[derive(Clone, Copy, Debug)]
pub struct Veth<'a> {
    /// The two ends.
    pub ends: [VethEnd<'a>; 2],
}

/// A route of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelRoute<'a> {
    /// The destination prefix; the default route is `0.0.0.0` or `::` with length 0.
    pub destination: (IpAddr, u8),
    /// The next hop; none for a directly connected destination.
    pub gateway: Option<IpAddr>,
    /// The egress link; by default the kernel finds it from the next hop.
    pub link: Option<&'a str>,
}

/// A static neighbour of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelNeighbour<'a> {
    /// The link it is on.
    pub link: &'a str,
    /// Its IP address.
    pub address: IpAddr,
    /// Its link-layer address.
    pub mac: Mac,
}

/// `struct ifinfomsg`: the link, and the flags to set among those of `change`.
fn link_header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..].copy_from_slice(&change.to_ne_bytes());
    header
}

pub(super) fn family(address: IpAddr) -> u8 {
    (if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn parse_link(body: &[u8]) -> Option<KernelLink> {
    let (index, flags) = (u32_at(body, 4)?, u32_at(body, 8)?);
    let mut link = KernelLink {
        index,
        name: String::new(),
        mac: Mac::default(),
        mtu: 0,
        up: flags & libc::IFF_UP as u32 != 0,
        carrier: flags & libc::IFF_LOWER_UP as u32 != 0,
        running: flags & libc::IFF_RUNNING as u32 != 0,
        hardware: super::message::u16_at(body, 2)?,
        xdp: false,
    };
    for (kind, value) in attributes(body.get(16..)?) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MTU => link.mtu = u32_at(value, 0)?,
            libc::IFLA_XDP => link.xdp = attributes(value).any(|(kind, mode)| kind == XDP_ATTACHED && mode != [0]),
            // Links other than Ethernet may have addresses of another length.
            libc::IFLA_ADDRESS => link.mac = Mac(<[u8; 6]>::try_from(value).unwrap_or_default()),
            _ => {}
        }
    }
    Some(link)
}

impl Netlink {
    /// Every link of the network namespace.
    pub fn links(&mut self) -> Result<Vec<KernelLink>, KernelError> {
        let mut links = Vec::new();
        let message = Message::new(libc::RTM_GETLINK, DUMP, &link_header(0, 0, 0));
        self.exchange(message, "listing", "the links", |kind, body| {
            if kind == libc::RTM_NEWLINK {
                links.extend(parse_link(body));
            }
        })?;
        Ok(links)
    }

    /// The link with this name, `ENODEV` if there is none.
    pub fn link(&mut self, name: &str) -> Result<KernelLink, KernelError> {
        let mut found = None;
        // The acknowledgement ends the exchange, because the answer about a single link has no NLMSG_DONE.
        let mut message = Message::new(libc::RTM_GETLINK, ACK, &link_header(0, 0, 0));
        message.put_text(libc::IFLA_IFNAME, name);
        self.exchange(message, "asking for the link", name, |_, body| found = parse_link(body))?;
        found.ok_or_else(|| KernelError::new("asking for the link", name, io::Error::from_raw_os_error(libc::ENODEV)))
    }

    /// Creates a pair of virtual Ethernet links, both down.
    pub fn add_veth(&mut self, veth: &Veth<'_>) -> Result<(), KernelError> {
        let describe = |message: &mut Message, end: &VethEnd<'_>| {
            message.put_text(libc::IFLA_IFNAME, end.name);
            if let Some(mac) = end.mac {
                message.put(libc::IFLA_ADDRESS, &mac.0);
            }
            if let Some(namespace) = end.namespace {
                message.put_u32(libc::IFLA_NET_NS_FD, namespace.as_raw_fd() as u32);
            }
        };
        let mut message = Message::new(libc::RTM_NEWLINK, CREATE, &link_header(0, 0, 0));
        let [near, far] = &veth.ends;
        describe(&mut message, near);
        message.nest(libc::IFLA_LINKINFO, &[], |message| {
            message.put(libc::IFLA_INFO_KIND, b"veth").nest(libc::IFLA_INFO_DATA, &[], |message| {
                message.nest(VETH_PEER, &link_header(0, 0, 0), |message| describe(message, far));
            });
        });
        self.change(message, "creating the veth pair", &format!("{} and {}", near.name, far.name))
    }

    /// Removes a link. The other end of a veth pair is removed with it.
    pub fn delete_link(&mut self, name: &str) -> Result<(), KernelError> {
        let mut message = Message::new(libc::RTM_DELLINK, ACK, &link_header(0, 0, 0));
        message.put_text(libc::IFLA_IFNAME, name);
        self.change(message, "removing the link", name)
    }

    /// Sets a link up or down.
    pub fn set_up(&mut self, name: &str, up: bool) -> Result<(), KernelError> {
        let bit = libc::IFF_UP as u32;
        let mut message = Message::new(libc::RTM_NEWLINK, ACK, &link_header(0, if up { bit } else { 0 }, bit));
        message.put_text(libc::IFLA_IFNAME, name);
        self.change(message, if up { "switching on" } else { "switching off" }, name)
    }

    /// Changes a link's address.
    pub fn set_mac(&mut self, name: &str, mac: Mac) -> Result<(), KernelError> {
        let mut message = Message::new(libc::RTM_NEWLINK, ACK, &link_header(0, 0, 0));
        message.put_text(libc::IFLA_IFNAME, name).put(libc::IFLA_ADDRESS, &mac.0);
        self.change(message, "setting the MAC address of", name)
    }

    /// Changes a link's MTU, in bytes without the link header.
    pub fn set_mtu(&mut self, name: &str, mtu: u32) -> Result<(), KernelError> {
        let mut message = Message::new(libc::RTM_NEWLINK, ACK, &link_header(0, 0, 0));
        message.put_text(libc::IFLA_IFNAME, name).put_u32(libc::IFLA_MTU, mtu);
        self.change(message, "setting the MTU of", name)
    }

    /// Gives a link another name.
    pub fn rename(&mut self, name: &str, new: &str) -> Result<(), KernelError> {
        // By the index, because IFLA_IFNAME is the new name here.
        let index = self.link(name)?.index;
        let mut message = Message::new(libc::RTM_NEWLINK, ACK, &link_header(index, 0, 0));
        message.put_text(libc::IFLA_IFNAME, new);
        self.change(message, "renaming", name)
    }

    /// Moves a link to another network namespace, where it is down and without addresses.
    pub fn move_to(&mut self, name: &str, namespace: impl AsFd) -> Result<(), KernelError> {
        let mut message = Message::new(libc::RTM_NEWLINK, ACK, &link_header(0, 0, 0));
        let namespace = namespace.as_fd().as_raw_fd() as u32;
        message.put_text(libc::IFLA_IFNAME, name).put_u32(libc::IFLA_NET_NS_FD, namespace);
        self.change(message, "moving to another namespace", name)
    }

    /// Adds an address and the route to its prefix to a link. IPv6 addresses are usable at once, without duplicate address detection (RFC 4862 5.4).
    pub fn add_address(&mut self, link: &str, address: IpAddr, prefix: u8) -> Result<(), KernelError> {
        let index = self.link(link)?.index;
        let mut header = [0; 8]; // struct ifaddrmsg
        (header[0], header[1]) = (family(address), prefix);
        header[2] = if address.is_ipv6() { libc::IFA_F_NODAD as u8 } else { 0 };
        header[4..].copy_from_slice(&index.to_ne_bytes());
        let mut message = Message::new(libc::RTM_NEWADDR, CREATE, &header);
        message.put(libc::IFA_LOCAL, &octets(address)).put(libc::IFA_ADDRESS, &octets(address));
        self.change(message, "adding the address", &format!("{address}/{prefix} of {link}"))
    }

    /// Adds a route to the main table.
    pub fn add_route(&mut self, route: &KernelRoute<'_>) -> Result<(), KernelError> {
        let (destination, prefix) = route.destination;
        // IPv4 distinguishes direct routes by their scope, IPv6 does not.
        let scope = if route.gateway.is_some() { libc::RT_SCOPE_UNIVERSE } else { libc::RT_SCOPE_LINK };
        let mut header = [0; 12]; // struct rtmsg
        (header[0], header[1]) = (family(destination), prefix);
        (header[4], header[5]) = (libc::RT_TABLE_MAIN, libc::RTPROT_STATIC);
        (header[6], header[7]) =
            (if destination.is_ipv6() { libc::RT_SCOPE_UNIVERSE } else { scope }, libc::RTN_UNICAST);
        let mut message = Message::new(libc::RTM_NEWROUTE, CREATE, &header);
        if prefix != 0 {
            message.put(libc::RTA_DST, &octets(destination));
        }
        if let Some(gateway) = route.gateway {
            message.put(libc::RTA_GATEWAY, &octets(gateway));
        }
        if let Some(link) = route.link {
            let index = self.link(link)?.index;
            message.put_u32(libc::RTA_OIF, index);
        }
        let by = route.gateway.map_or(String::new(), |gateway| format!(" by {gateway}"));
        self.change(message, "adding the route", &format!("{destination}/{prefix}{by}"))
    }

    /// Adds or replaces a permanent neighbour.
    pub fn add_neighbour(&mut self, neighbour: &KernelNeighbour<'_>) -> Result<(), KernelError> {
        let index = self.link(neighbour.link)?.index;
        let mut header = [0; 12]; // struct ndmsg
        header[0] = family(neighbour.address);
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        header[8..10].copy_from_slice(&libc::NUD_PERMANENT.to_ne_bytes());
        let flags = ACK | (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
        let mut message = Message::new(libc::RTM_NEWNEIGH, flags, &header);
        message.put(libc::NDA_DST, &octets(neighbour.address)).put(libc::NDA_LLADDR, &neighbour.mac.0);
        self.change(message, "adding the neighbour", &format!("{} of {}", neighbour.address, neighbour.link))
    }
}
