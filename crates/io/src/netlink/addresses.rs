//! Addresses of links: RTM_NEWADDR and RTM_DELADDR (rtnetlink(7), <linux/if_addr.h>).

use super::message::{ACK, CREATE, DUMP, Message, REPLACE, address, attributes, family, octets, u32_at};
use super::{KernelError, Netlink, uapi};
use std::net::IpAddr;

/// Flags of an address (IFA_F_* of <linux/if_addr.h>).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct AddressFlags(pub u32);

impl AddressFlags {
    /// Set on request: the address is usable at once, without duplicate address detection (IFA_F_NODAD, RFC 4862 5.4).
    pub const NO_DETECTION: AddressFlags = AddressFlags(libc::IFA_F_NODAD);
    /// Set on request: the kernel adds no route to the prefix (IFA_F_NOPREFIXROUTE).
    pub const NO_PREFIX_ROUTE: AddressFlags = AddressFlags(libc::IFA_F_NOPREFIXROUTE);

    fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    /// IPv4: the link has another address of the same prefix that packets are sent from. IPv6: a temporary address (RFC 8981).
    pub fn is_secondary(self) -> bool {
        self.has(libc::IFA_F_SECONDARY)
    }

    /// Duplicate address detection is not complete: the address may not be used yet (RFC 4862 5.4).
    pub fn is_tentative(self) -> bool {
        self.has(libc::IFA_F_TENTATIVE)
    }

    /// Another host has this address: it may not be used.
    pub fn is_duplicate(self) -> bool {
        self.has(libc::IFA_F_DADFAILED)
    }

    /// New connections should use another address (RFC 4862 5.5.4).
    pub fn is_deprecated(self) -> bool {
        self.has(libc::IFA_F_DEPRECATED)
    }

    /// It has no lifetime.
    pub fn is_permanent(self) -> bool {
        self.has(libc::IFA_F_PERMANENT)
    }
}

/// An address of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelAddress {
    /// The index of the link.
    pub link: u32,
    /// The address.
    pub address: IpAddr,
    /// The length of its prefix, in bits.
    pub prefix: u8,
    /// The other end of a point-to-point link; the prefix is that of this address.
    pub peer: Option<IpAddr>,
    /// Its state.
    pub flags: AddressFlags,
    /// The distance within which it is valid: RT_SCOPE_UNIVERSE (0), RT_SCOPE_LINK (253) or RT_SCOPE_HOST (254).
    pub scope: u8,
    /// The program that added it: IFAPROT_* of <linux/if_addr.h>, or another number. Zero if unknown, and before Linux 5.18.
    pub protocol: u8,
}

impl KernelAddress {
    /// A permanent address of global scope, without flags.
    pub fn new(link: u32, address: IpAddr, prefix: u8) -> KernelAddress {
        let flags = AddressFlags::default();
        KernelAddress { link, address, prefix, peer: None, flags, scope: libc::RT_SCOPE_UNIVERSE, protocol: 0 }
    }

    /// Parses a message's body. `None` for other families.
    pub(super) fn parse(body: &[u8]) -> Option<KernelAddress> {
        // `struct ifaddrmsg`: family, length of the prefix, flags, scope, link.
        let [kind, prefix, flags, scope] = *body.first_chunk()?;
        let (link, mut flags) = (u32_at(body, 4)?, u32::from(flags));
        let (mut local, mut other, mut protocol) = (None, None, 0);
        for (attribute, value) in attributes(body.get(8..)?) {
            match attribute {
                libc::IFA_LOCAL => local = Some(address(kind, value)?),
                libc::IFA_ADDRESS => other = Some(address(kind, value)?),
                libc::IFA_FLAGS => flags = u32_at(value, 0)?,
                uapi::IFA_PROTO => protocol = *value.first()?,
                _ => {}
            }
        }
        // Without a peer IPv6 has only IFA_ADDRESS, and IPv4 has both with the same value.
        let own = local.or(other)?;
        let peer = other.filter(|&other| other != own);
        let flags = AddressFlags(flags);
        Some(KernelAddress { link, address: own, prefix, peer, flags, scope, protocol })
    }

    fn message(&self, kind: u16, flags: u16) -> Message {
        let link = self.link.to_ne_bytes();
        let header = [family(self.address), self.prefix, self.flags.0 as u8, self.scope];
        let mut message = Message::new(kind, flags, &[header, link].concat());
        message.put(libc::IFA_LOCAL, &octets(self.address));
        message.put(libc::IFA_ADDRESS, &octets(self.peer.unwrap_or(self.address)));
        message.put_u32(libc::IFA_FLAGS, self.flags.0);
        if self.protocol != 0 {
            message.put(uapi::IFA_PROTO, &[self.protocol]);
        }
        message
    }

    /// The request to add it, or to change the flags and the protocol that it has.
    pub(super) fn to_add(self, replace: bool) -> Message {
        self.message(libc::RTM_NEWADDR, if replace { REPLACE } else { CREATE })
    }

    /// The request to remove it.
    pub(super) fn to_delete(self) -> Message {
        self.message(libc::RTM_DELADDR, ACK)
    }

    /// The request for all addresses.
    pub(super) fn to_dump() -> Message {
        Message::new(libc::RTM_GETADDR, DUMP, &[0; 8])
    }
}

impl Netlink {
    /// All addresses of the network namespace.
    pub fn addresses(&mut self) -> Result<Vec<KernelAddress>, KernelError> {
        self.list("the addresses", KernelAddress::to_dump, libc::RTM_NEWADDR, KernelAddress::parse)
    }

    /// Adds an address and the route to its prefix to a link, unless the link has it. IPv6 addresses are usable at once, without duplicate address detection (RFC 4862 5.4).
    pub fn add_address(&mut self, link: &str, address: IpAddr, prefix: u8) -> Result<(), KernelError> {
        let mut added = KernelAddress::new(self.link(link)?.index, address, prefix);
        if address.is_ipv6() {
            added.flags = AddressFlags::NO_DETECTION;
        }
        self.change(added.to_add(true), "adding the address", &format!("{address}/{prefix} of {link}"))
    }
}
