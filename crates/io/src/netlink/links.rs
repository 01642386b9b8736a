//! Links: RTM_NEWLINK and RTM_DELLINK (rtnetlink(7), <linux/if_link.h>).

use super::message::{ACK, CREATE, DUMP, Message, attributes, text, u16_at, u32_at};
use super::{KernelError, Netlink};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use units::Mac;

/// VETH_INFO_PEER of <linux/veth.h>.
const VETH_PEER: u16 = 1;
/// IFLA_VRF_TABLE of <linux/if_link.h>.
const VRF_TABLE: u16 = 1;

/// IFLA_XDP_ATTACHED of <linux/if_link.h>.
const XDP_ATTACHED: u16 = 2;

/// A link of the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
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
    /// Its operational state (IF_OPER_* of <linux/if.h>, RFC 2863 3.1.12): 6 is up.
    pub operational_state: u8,
    /// The kind of a virtual link: `tun`, `veth`, `vlan`, `vrf`, `bridge`; empty for others.
    pub kind: String,
    /// The link below it in the same network namespace: a VLAN's parent, the other end of a veth.
    pub lower: Option<u32>,
    /// The bridge, bond or VRF it is a member of.
    pub master: Option<u32>,
    /// A VRF's routing table.
    pub vrf_table: Option<u32>,
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

/// `struct ifinfomsg`: the link, and the flags to set among those of `change`.
fn link_header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..].copy_from_slice(&change.to_ne_bytes());
    header
}

impl KernelLink {
    /// Parses a message's body. `None` for messages of a bridge about its members, and for those of wireless drivers without a name.
    pub(super) fn parse(body: &[u8]) -> Option<KernelLink> {
        let (hardware, index, flags) = (u16_at(body, 2)?, u32_at(body, 4)?, u32_at(body, 8)?);
        let is_set = |flag: i32| flags & flag as u32 != 0;
        let (up, carrier, running) = (is_set(libc::IFF_UP), is_set(libc::IFF_LOWER_UP), is_set(libc::IFF_RUNNING));
        let mut link = KernelLink { index, up, carrier, running, hardware, ..KernelLink::default() };
        let mut has_foreign_lower = false;
        for (kind, value) in attributes(body.get(16..).filter(|_| body[0] == libc::AF_UNSPEC as u8)?) {
            match kind {
                libc::IFLA_IFNAME => link.name = text(value),
                libc::IFLA_MTU => link.mtu = u32_at(value, 0)?,
                libc::IFLA_XDP => link.xdp = attributes(value).any(|(kind, mode)| kind == XDP_ATTACHED && mode != [0]),
                // Links other than Ethernet may have addresses of another length.
                libc::IFLA_ADDRESS => link.mac = Mac(<[u8; 6]>::try_from(value).unwrap_or_default()),
                libc::IFLA_OPERSTATE => link.operational_state = *value.first()?,
                libc::IFLA_LINK => link.lower = u32_at(value, 0).filter(|&lower| lower != 0 && lower != index),
                libc::IFLA_MASTER => link.master = u32_at(value, 0).filter(|&master| master != 0),
                // The index of the lower link belongs to another namespace.
                libc::IFLA_LINK_NETNSID => has_foreign_lower = true,
                libc::IFLA_LINKINFO => link.parse_kind(value),
                _ => {}
            }
        }
        link.lower = link.lower.filter(|_| !has_foreign_lower);
        Some(link).filter(|link| !link.name.is_empty())
    }

    fn parse_kind(&mut self, information: &[u8]) {
        let find = |wanted| attributes(information).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
        self.kind = find(libc::IFLA_INFO_KIND).map_or(String::new(), text);
        let data = find(libc::IFLA_INFO_DATA).filter(|_| self.kind == "vrf");
        let table = data.and_then(|data| attributes(data).find(|(kind, _)| *kind == VRF_TABLE));
        self.vrf_table = table.and_then(|(_, value)| u32_at(value, 0));
    }

    /// The request for all links.
    pub(super) fn to_dump() -> Message {
        Message::new(libc::RTM_GETLINK, DUMP, &link_header(0, 0, 0))
    }
}

impl Netlink {
    /// Every link of the network namespace.
    pub fn links(&mut self) -> Result<Vec<KernelLink>, KernelError> {
        self.list("the links", KernelLink::to_dump, libc::RTM_NEWLINK, KernelLink::parse)
    }

    /// Waits until the kernel has completed the change that it is making. It reports some changes before it makes them, and lists may be read meanwhile:
    /// the removal of an IPv4 route, and of the routes of a link. One lock protects these changes and this request.
    pub(super) fn wait_for_change(&mut self) -> Result<(), KernelError> {
        let loopback = Message::new(libc::RTM_GETLINK, ACK, &link_header(1, 0, 0));
        self.change(loopback, "asking for the link", "lo")
    }

    /// Finds the interface with this name: its index, and true if it is operational (IFF_UP and IFF_RUNNING). `None` if there is none.
    pub(crate) fn find_link(&mut self, name: &str) -> Option<(u32, bool)> {
        self.link(name).ok().map(|link| (link.index, link.up && link.running))
    }

    /// The link with this name, `ENODEV` if there is none.
    pub fn link(&mut self, name: &str) -> Result<KernelLink, KernelError> {
        let mut found = None;
        // The acknowledgement ends the exchange, because the answer about a single link has no NLMSG_DONE.
        let mut message = Message::new(libc::RTM_GETLINK, ACK, &link_header(0, 0, 0));
        message.put_text(libc::IFLA_IFNAME, name);
        self.exchange(message, "asking for the link", name, |_, body| found = KernelLink::parse(body))?;
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
}
