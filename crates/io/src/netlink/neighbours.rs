//! Neighbours: RTM_NEWNEIGH and RTM_DELNEIGH (rtnetlink(7), <linux/neighbour.h>).

use super::message::{ACK, CREATE, DUMP, Message, REPLACE, address, attributes, family, octets, u16_at, u32_at};
use super::{KernelError, Netlink};
use std::net::IpAddr;
use units::Mac;

/// The state of a neighbour (NUD_* of <linux/neighbour.h>, RFC 4861 7.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelNeighbourState {
    /// Address resolution is in progress.
    Incomplete,
    /// Confirmed recently.
    Reachable,
    /// Not confirmed for some time. The kernel confirms it when a packet needs it.
    Stale,
    /// Stale, in use, and soon probed. The kernel reports no change to this state.
    Delay,
    /// Probes are sent.
    Probe,
    /// It does not answer.
    Failed,
    /// The link needs no address resolution.
    NoArp,
    /// Configured by an operator or a program.
    Permanent,
}

impl KernelNeighbourState {
    const ALL: [(KernelNeighbourState, u16); 8] = [
        (KernelNeighbourState::Incomplete, libc::NUD_INCOMPLETE),
        (KernelNeighbourState::Reachable, libc::NUD_REACHABLE),
        (KernelNeighbourState::Stale, libc::NUD_STALE),
        (KernelNeighbourState::Delay, libc::NUD_DELAY),
        (KernelNeighbourState::Probe, libc::NUD_PROBE),
        (KernelNeighbourState::Failed, libc::NUD_FAILED),
        (KernelNeighbourState::NoArp, libc::NUD_NOARP),
        (KernelNeighbourState::Permanent, libc::NUD_PERMANENT),
    ];

    fn number(self) -> u16 {
        Self::ALL.iter().find(|(state, _)| *state == self).map_or(0, |(_, number)| *number)
    }

    /// True if packets can be sent to the neighbour's link-layer address.
    pub fn is_valid(self) -> bool {
        !matches!(self, KernelNeighbourState::Incomplete | KernelNeighbourState::Failed)
    }
}

/// A neighbour in the kernel's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelNeighbourEntry {
    /// The index of the link.
    pub link: u32,
    /// Its IP address.
    pub address: IpAddr,
    /// Its link-layer address. `None` if unknown, and on links whose addresses are not of six bytes.
    pub mac: Option<Mac>,
    /// Its state. `None` for an entry that was never used (NUD_NONE).
    pub state: Option<KernelNeighbourState>,
    /// It is a router (NTF_ROUTER, RFC 4861 7.3.3).
    pub is_router: bool,
    /// The host answers on its behalf (NTF_PROXY). The kernel lists such entries on request only, and reports no change of them.
    pub is_proxy: bool,
    /// A program maintains it: the kernel neither ages nor probes it (NTF_EXT_LEARNED).
    pub is_extern_learned: bool,
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

impl KernelNeighbourEntry {
    /// A permanent neighbour.
    pub fn new(link: u32, address: IpAddr, mac: Mac) -> KernelNeighbourEntry {
        let state = Some(KernelNeighbourState::Permanent);
        let (is_router, is_proxy, is_extern_learned) = (false, false, false);
        KernelNeighbourEntry { link, address, mac: Some(mac), state, is_router, is_proxy, is_extern_learned }
    }

    /// Parses a message's body. `None` for other families, such as the forwarding entries of bridges.
    pub(super) fn parse(body: &[u8]) -> Option<KernelNeighbourEntry> {
        // `struct ndmsg`: family, link, state, flags.
        let (kind, link, state, flags) = (*body.first()?, u32_at(body, 4)?, u16_at(body, 8)?, *body.get(10)?);
        let (mut found, mut mac) = (None, None);
        for (attribute, value) in attributes(body.get(12..)?) {
            match attribute {
                libc::NDA_DST => found = Some(address(kind, value)?),
                libc::NDA_LLADDR => mac = value.try_into().ok().map(Mac),
                _ => {}
            }
        }
        Some(KernelNeighbourEntry {
            link,
            address: found?,
            mac,
            state: KernelNeighbourState::ALL.iter().find(|(_, number)| *number == state).map(|(state, _)| *state),
            is_router: flags & libc::NTF_ROUTER != 0,
            is_proxy: flags & libc::NTF_PROXY != 0,
            is_extern_learned: flags & libc::NTF_EXT_LEARNED != 0,
        })
    }

    fn message(&self, kind: u16, flags: u16) -> Message {
        let mut header = [0; 12];
        header[0] = family(self.address);
        header[4..8].copy_from_slice(&self.link.to_ne_bytes());
        header[8..10].copy_from_slice(&self.state.map_or(0, KernelNeighbourState::number).to_ne_bytes());
        let marks = [
            (self.is_router, libc::NTF_ROUTER),
            (self.is_proxy, libc::NTF_PROXY),
            (self.is_extern_learned, libc::NTF_EXT_LEARNED),
        ];
        header[10] = marks.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, mark)| all | mark);
        let mut message = Message::new(kind, flags, &header);
        message.put(libc::NDA_DST, &octets(self.address));
        if let Some(mac) = self.mac {
            message.put(libc::NDA_LLADDR, &mac.0);
        }
        message
    }

    /// The request to add it, or to replace the entry with this address.
    pub(super) fn to_add(self, replace: bool) -> Message {
        self.message(libc::RTM_NEWNEIGH, if replace { REPLACE } else { CREATE })
    }

    /// The request to remove it.
    pub(super) fn to_delete(self) -> Message {
        self.message(libc::RTM_DELNEIGH, ACK)
    }

    /// The request for all neighbours of both families.
    pub(super) fn to_dump() -> Message {
        Message::new(libc::RTM_GETNEIGH, DUMP, &[0; 12])
    }
}

impl Netlink {
    /// All neighbours of the network namespace, without those that the host answers for.
    pub fn neighbours(&mut self) -> Result<Vec<KernelNeighbourEntry>, KernelError> {
        self.list("the neighbours", KernelNeighbourEntry::to_dump, libc::RTM_NEWNEIGH, KernelNeighbourEntry::parse)
    }

    /// Adds or replaces a permanent neighbour.
    pub fn add_neighbour(&mut self, neighbour: &KernelNeighbour<'_>) -> Result<(), KernelError> {
        let KernelNeighbour { link, address, mac } = *neighbour;
        let entry = KernelNeighbourEntry::new(self.link(link)?.index, address, mac);
        self.change(entry.to_add(true), "adding the neighbour", &format!("{address} of {link}"))
    }
}
