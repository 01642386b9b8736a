//! Next-hop objects, which routes name by their id: RTM_NEWNEXTHOP and RTM_DELNEXTHOP (ip-nexthop(8), <linux/nexthop.h>; since Linux 5.3).

use super::message::{ACK, CREATE, DUMP, Message, REPLACE, address, attributes, family, octets, u32_at};
use super::routes::KernelHop;
use super::{KernelError, Netlink, uapi};
use std::num::NonZeroU32;

/// The contents of a next-hop object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NextHopTarget {
    /// One hop.
    Hop(KernelHop),
    /// Other objects, with their weights.
    Group(Box<[(u32, u16)]>),
    /// Packets are dropped.
    Blackhole,
}

/// A next-hop object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelNextHop {
    /// Its id, not zero.
    pub id: u32,
    /// The program that added it: RTPROT_* of <linux/rtnetlink.h>.
    pub protocol: u8,
    /// The contents.
    pub target: NextHopTarget,
}

impl KernelNextHop {
    /// Parses a message's body. `None` for objects of bridges (NHA_FDB), which routes cannot name.
    pub(super) fn parse(body: &[u8]) -> Option<KernelNextHop> {
        // `struct nhmsg`: family, scope, protocol, a reserved byte, flags.
        let [kind, _, protocol, _] = *body.first_chunk()?;
        let mut hop = KernelHop::parse(u32_at(body, 4)? as u8, 1);
        let (mut id, mut group, mut is_blackhole) = (0, None, false);
        for (attribute, value) in attributes(body.get(8..)?) {
            match attribute {
                uapi::NHA_ID => id = u32_at(value, 0)?,
                // `struct nexthop_grp`: the id, the weight less one, and its high byte (since Linux 6.12).
                uapi::NHA_GROUP => {
                    let (members, _) = value.as_chunks::<8>();
                    let weight = |member: &[u8; 8]| u16::from_le_bytes([member[4], member[5]]).saturating_add(1);
                    group = Some(members.iter().map(|m| Some((u32_at(m, 0)?, weight(m)))).collect::<Option<_>>()?);
                }
                uapi::NHA_BLACKHOLE => is_blackhole = true,
                uapi::NHA_OIF => hop.link = NonZeroU32::new(u32_at(value, 0)?),
                uapi::NHA_GATEWAY => hop.gateway = Some(address(kind, value)?),
                uapi::NHA_ENCAP_TYPE => hop.encapsulate(),
                uapi::NHA_FDB => return None,
                _ => {}
            }
        }
        let target = match group {
            Some(members) => NextHopTarget::Group(members),
            None if is_blackhole => NextHopTarget::Blackhole,
            None => NextHopTarget::Hop(hop),
        };
        Some(KernelNextHop { id, protocol, target }).filter(|object| object.id != 0)
    }

    fn message(&self, kind: u16, flags: u16) -> Message {
        let mut header = [0; 8];
        header[2] = self.protocol;
        match &self.target {
            NextHopTarget::Hop(hop) => {
                // A hop without a gateway serves the routes of IPv4.
                header[0] = hop.gateway.map_or(libc::AF_INET as u8, family);
                header[4] = if hop.flags.is_onlink() { uapi::RTNH_F_ONLINK } else { 0 };
            }
            NextHopTarget::Group(_) => header[0] = libc::AF_UNSPEC as u8,
            NextHopTarget::Blackhole => header[0] = libc::AF_INET as u8,
        }
        let mut message = Message::new(kind, flags, &header);
        message.put_u32(uapi::NHA_ID, self.id);
        match &self.target {
            NextHopTarget::Hop(hop) => {
                if let Some(gateway) = hop.gateway {
                    message.put(uapi::NHA_GATEWAY, &octets(gateway));
                }
                if let Some(link) = hop.link {
                    message.put_u32(uapi::NHA_OIF, link.get());
                }
            }
            NextHopTarget::Group(members) => {
                let member = |(id, weight): &(u32, u16)| {
                    let [low, high] = weight.saturating_sub(1).to_le_bytes();
                    let [a, b, c, d] = id.to_ne_bytes();
                    [a, b, c, d, low, high, 0, 0]
                };
                message.put(uapi::NHA_GROUP, &members.iter().flat_map(member).collect::<Vec<u8>>());
            }
            NextHopTarget::Blackhole => {
                message.put(uapi::NHA_BLACKHOLE, &[]);
            }
        }
        message
    }

    /// The request to add it, or to replace the object with its id.
    pub(super) fn to_add(&self, replace: bool) -> Message {
        self.message(uapi::RTM_NEWNEXTHOP, if replace { REPLACE } else { CREATE })
    }

    /// The request to remove the object with this id, and the routes that name it.
    pub(super) fn to_delete(id: u32) -> Message {
        let mut message = Message::new(uapi::RTM_DELNEXTHOP, ACK, &[0; 8]);
        message.put_u32(uapi::NHA_ID, id);
        message
    }

    /// The request for all objects.
    pub(super) fn to_dump() -> Message {
        Message::new(uapi::RTM_GETNEXTHOP, DUMP, &[0; 8])
    }

    /// The object without the flags that change with the state of its link.
    pub(super) fn without_link_state(mut self) -> KernelNextHop {
        if let NextHopTarget::Hop(hop) = &mut self.target {
            *hop = hop.without_link_state();
        }
        self
    }
}

impl Netlink {
    /// All next-hop objects of the network namespace. None if the kernel does not support them.
    pub fn next_hops(&mut self) -> Result<Vec<KernelNextHop>, KernelError> {
        match self.list("the next hops", KernelNextHop::to_dump, uapi::RTM_NEWNEXTHOP, KernelNextHop::parse) {
            Err(error) if error.error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(Vec::new()),
            listed => listed,
        }
    }
}
