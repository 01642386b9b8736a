//! Queries of the kernel's tables: the link with an address, the route to an address, and the structure of links.

use super::message::{Message, attributes, text, u32_at};
use super::route::{family, octets};
use super::{KernelError, Netlink};
use std::net::IpAddr;

const DUMP: u16 = libc::NLM_F_DUMP as u16;
const ACK: u16 = libc::NLM_F_ACK as u16;

/// A link and the links that it depends on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkLayers {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// The link below it in the same network namespace: a VLAN's parent, the other end of a veth.
    pub lower: Option<u32>,
    /// The bridge or bond it is a member of.
    pub master: Option<u32>,
}

impl Netlink {
    /// The link with this address.
    pub fn link_with_address(&mut self, address: IpAddr) -> Result<Option<u32>, KernelError> {
        let mut header = [0; 8]; // struct ifaddrmsg
        header[0] = family(address);
        let wanted = octets(address);
        let mut found = None;
        let message = Message::new(libc::RTM_GETADDR, DUMP, &header);
        self.exchange(message, "listing", "the addresses", |kind, body| {
            if kind != libc::RTM_NEWADDR {
                return;
            }
            let ours = body.get(8..).is_some_and(|rest| {
                attributes(rest)
                    .any(|(kind, value)| matches!(kind, libc::IFA_LOCAL | libc::IFA_ADDRESS) && value == wanted)
            });
            if ours {
                found = u32_at(body, 4);
            }
        })?;
        Ok(found)
    }

    /// The link that the kernel would send to this address on. `None` without a route, and for the host's own addresses.
    pub fn link_towards(&mut self, address: IpAddr) -> Result<Option<u32>, KernelError> {
        let octets = octets(address);
        let mut header = [0; 12]; // struct rtmsg
        (header[0], header[1]) = (family(address), octets.len() as u8 * 8);
        let mut message = Message::new(libc::RTM_GETROUTE, ACK, &header);
        message.put(libc::RTA_DST, &octets);
        let mut found = None;
        let asked = self.exchange(message, "asking for the route to", &address.to_string(), |_, body| {
            let unicast = body.get(7) == Some(&libc::RTN_UNICAST);
            found = body.get(12..).filter(|_| unicast).and_then(out_link);
        });
        match asked {
            Err(error)
                if matches!(
                    error.error.raw_os_error(),
                    // No route, an unreachable route, a blackhole.
                    Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EINVAL)
                ) =>
            {
                Ok(None)
            }
            other => other.map(|()| found),
        }
    }

    /// The links of the default routes of both families.
    pub fn default_route_links(&mut self) -> Result<Vec<u32>, KernelError> {
        let mut found = Vec::new();
        let message = Message::new(libc::RTM_GETROUTE, DUMP, &[0; 12]);
        self.exchange(message, "listing", "the routes", |kind, body| {
            // `struct rtmsg`: byte 1 is the length of the destination's prefix, byte 4 the table, byte 7 the type.
            let everywhere = body.get(1) == Some(&0);
            let main = body.get(4) == Some(&libc::RT_TABLE_MAIN) && body.get(7) == Some(&libc::RTN_UNICAST);
            if kind == libc::RTM_NEWROUTE && everywhere && main {
                found.extend(body.get(12..).into_iter().flat_map(out_links));
            }
        })?;
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// All links of the network namespace, with those that they depend on.
    pub fn layers(&mut self) -> Result<Vec<LinkLayers>, KernelError> {
        let mut links = Vec::new();
        let message = Message::new(libc::RTM_GETLINK, DUMP, &[0; 16]);
        self.exchange(message, "listing", "the links", |kind, body| {
            if kind == libc::RTM_NEWLINK {
                links.extend(parse_layers(body));
            }
        })?;
        Ok(links)
    }
}

fn parse_layers(body: &[u8]) -> Option<LinkLayers> {
    let mut link = LinkLayers { index: u32_at(body, 4)?, name: String::new(), lower: None, master: None };
    let mut elsewhere = false;
    for (kind, value) in attributes(body.get(16..)?) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_LINK => link.lower = u32_at(value, 0).filter(|&lower| lower != 0 && lower != link.index),
            libc::IFLA_MASTER => link.master = u32_at(value, 0),
            // The index belongs to another namespace.
            libc::IFLA_LINK_NETNSID => elsewhere = true,
            _ => {}
        }
    }
    link.lower = link.lower.filter(|_| !elsewhere);
    Some(link)
}

/// The link of a route with one next hop.
fn out_link(rest: &[u8]) -> Option<u32> {
    attributes(rest).find(|(kind, _)| *kind == libc::RTA_OIF).and_then(|(_, value)| u32_at(value, 0))
}

/// The links of a route with one or more next hops: RTA_MULTIPATH is a sequence of `struct rtnexthop`, whose third word is the link.
fn out_links(rest: &[u8]) -> Vec<u32> {
    let mut links: Vec<u32> = out_link(rest).into_iter().collect();
    for (_, mut hops) in attributes(rest).filter(|(kind, _)| *kind == libc::RTA_MULTIPATH) {
        while let (Some(length), Some(link)) = (super::message::u16_at(hops, 0), u32_at(hops, 4)) {
            links.push(link);
            let step = usize::from(length).next_multiple_of(4);
            // With a length below that of the structure the loop would not advance.
            hops = if step < 8 { &[] } else { hops.get(step..).unwrap_or(&[]) };
        }
    }
    links
}
