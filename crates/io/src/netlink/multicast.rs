//! Multicast forwarding of the kernel: the routes that programs such as pimd maintain, and the links on which they work. RTM_GETROUTE of
//! the families RTNL_FAMILY_IPMR and RTNL_FAMILY_IP6MR, and RTM_GETNETCONF (rtnetlink(7), <linux/netconf.h>).

use super::message::{DUMP, Message, address, attributes, u16_at, u32_at};
use super::{KernelError, KernelGroup, KernelWatch, Netlink, uapi};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes of notifications that may be queued. Lost ones cost nothing: each causes a list.
const BACKLOG: u32 = 256 << 10;
/// The tables of programs that name none: RT_TABLE_DEFAULT for IPv4, RT6_TABLE_DFLT for IPv6.
const TABLES: [u32; 2] = [libc::RT_TABLE_DEFAULT as u32, libc::RT_TABLE_MAIN as u32];
/// Length of `struct rtnexthop`.
const HOP: usize = 8;

/// A multicast route of the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelMulticastRoute {
    /// The group.
    pub group: IpAddr,
    /// The source; `None` for all sources without a route of their own.
    pub source: Option<IpAddr>,
    /// The index of the input link.
    pub from: u32,
    /// The indexes of the output links. A route for all sources has its input link among them.
    pub to: Vec<u32>,
}

/// The kernel's multicast forwarding at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MulticastForwarding {
    /// The routes of the default tables.
    pub routes: Vec<KernelMulticastRoute>,
    /// The indexes of the links on which a program routes multicast.
    pub links: BTreeSet<u32>,
}

impl KernelMulticastRoute {
    /// Parses a message's body. `None` for other families, and for packets that wait for a route.
    fn parse(body: &[u8]) -> Option<KernelMulticastRoute> {
        // `struct rtmsg`: family, and at 8 the flags.
        let family = match *body.first()? {
            uapi::RTNL_FAMILY_IPMR => libc::AF_INET as u8,
            uapi::RTNL_FAMILY_IP6MR => libc::AF_INET6 as u8,
            _ => return None,
        };
        let (mut group, mut source, mut from, mut table, mut to) = (None, None, None, None, Vec::new());
        for (attribute, value) in attributes(body.get(12..)?) {
            match attribute {
                libc::RTA_DST => group = Some(address(family, value)?),
                libc::RTA_SRC => source = Some(address(family, value)?),
                libc::RTA_IIF => from = Some(u32_at(value, 0)?),
                libc::RTA_TABLE => table = Some(u32_at(value, 0)?),
                libc::RTA_MULTIPATH => to = links(value)?,
                _ => {}
            }
        }
        let source = source.filter(|source| !source.is_unspecified());
        // An unresolved one has no input link.
        let route = KernelMulticastRoute { group: group?, source, from: from?, to };
        table.is_none_or(|table| TABLES.contains(&table)).then_some(route)
    }
}

/// The links of the hops in RTA_MULTIPATH (`struct rtnexthop`).
fn links(mut value: &[u8]) -> Option<Vec<u32>> {
    let mut links = Vec::new();
    while !value.is_empty() {
        let length = usize::from(u16_at(value, 0)?);
        // `None` for a length below the structure's, so that every step advances.
        value.get(HOP..length)?;
        links.push(u32_at(value, 4)?);
        value = value.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Some(links)
}

/// The link of RTM_NEWNETCONF if a program routes multicast on it.
fn routing_link(body: &[u8]) -> Option<u32> {
    let (mut link, mut routes) = (None, false);
    // `struct netconfmsg`: the family, padded.
    for (attribute, value) in attributes(body.get(4..)?) {
        match attribute {
            uapi::NETCONFA_IFINDEX => link = u32_at(value, 0),
            uapi::NETCONFA_MC_FORWARDING => routes = u32_at(value, 0)? != 0,
            _ => {}
        }
    }
    link.filter(|_| routes)
}

/// A list, which is empty if the kernel was built or booted without the family.
fn or_none<T>(listed: Result<Vec<T>, KernelError>) -> Result<Vec<T>, KernelError> {
    match listed {
        Err(error) if error.error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(Vec::new()),
        listed => listed,
    }
}

impl Netlink {
    /// The multicast routes of both families, and the links on which programs route multicast.
    pub fn multicast_forwarding(&mut self) -> Result<MulticastForwarding, KernelError> {
        let mut all = MulticastForwarding::default();
        for family in [uapi::RTNL_FAMILY_IPMR, uapi::RTNL_FAMILY_IP6MR] {
            let mut header = [0; 12];
            header[0] = family;
            let request = || Message::new(libc::RTM_GETROUTE, DUMP, &header);
            let listed = self.list("the multicast routes", request, libc::RTM_NEWROUTE, KernelMulticastRoute::parse);
            all.routes.extend(or_none(listed)?);
        }
        for family in [libc::AF_INET, libc::AF_INET6] {
            let request = || Message::new(libc::RTM_GETNETCONF, DUMP, &[family as u8, 0, 0, 0]);
            let listed = self.list("the settings of links", request, libc::RTM_NEWNETCONF, routing_link);
            // Negative indexes are the defaults.
            all.links.extend(or_none(listed)?.into_iter().filter(|&link| i32::try_from(link).is_ok()));
        }
        Ok(all)
    }
}

/// Follows the kernel's multicast forwarding in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct MulticastWatch {
    netlink: Netlink,
    watch: KernelWatch,
    is_stale: bool,
}

impl MulticastWatch {
    /// Opens it.
    pub fn open() -> Result<MulticastWatch, KernelError> {
        let watch = KernelWatch::open(&[KernelGroup::Multicast], BACKLOG)?;
        Ok(MulticastWatch { netlink: Netlink::open()?, watch, is_stale: true })
    }

    /// The present state, or `None` if nothing has changed since the last call.
    pub fn update(&mut self) -> Result<Option<MulticastForwarding>, KernelError> {
        let changed = self.watch.drain();
        self.is_stale |= changed.map_err(|error| KernelError::new("watching", "multicast routes", error))?;
        if !self.is_stale {
            return Ok(None);
        }
        let listed = self.netlink.multicast_forwarding()?;
        self.is_stale = false;
        Ok(Some(listed))
    }
}

impl AsFd for MulticastWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(family: u8, more: impl FnOnce(&mut Message)) -> Vec<u8> {
        let mut header = [0; 12];
        header[0] = family;
        let mut message = Message::new(libc::RTM_NEWROUTE, 0, &header);
        more(&mut message);
        message.finish(0)[super::super::message::HEADER..].to_vec()
    }

    #[test]
    fn route_has_its_links_and_an_unresolved_one_is_none() {
        let addresses = |message: &mut Message| {
            message.put(libc::RTA_SRC, &[192, 0, 2, 7]).put(libc::RTA_DST, &[239, 1, 2, 3]);
            message.put_u32(libc::RTA_TABLE, 253);
        };
        let resolved = route(uapi::RTNL_FAMILY_IPMR, |message| {
            addresses(message);
            message.put_u32(libc::RTA_IIF, 4);
            message.nest(libc::RTA_MULTIPATH, &[], |message| {
                message.structure(&[0, 0, 0, 1], 5, |_| {});
                message.structure(&[0, 0, 0, 1], 6, |_| {});
            });
        });
        let (group, source) = ([239, 1, 2, 3].into(), Some([192, 0, 2, 7].into()));
        assert_eq!(
            KernelMulticastRoute::parse(&resolved),
            Some(KernelMulticastRoute { group, source, from: 4, to: vec![5, 6] })
        );
        assert_eq!(KernelMulticastRoute::parse(&route(uapi::RTNL_FAMILY_IPMR, addresses)), None);
        assert_eq!(KernelMulticastRoute::parse(&route(libc::AF_INET as u8, addresses)), None);
    }

    #[test]
    fn lists_are_empty_without_a_program_that_routes_multicast() {
        let listed = Netlink::open().and_then(|mut netlink| netlink.multicast_forwarding());
        let listed = listed.unwrap();
        assert!(listed.routes.iter().all(|route| listed.links.contains(&route.from)), "{listed:?}");
    }
}
