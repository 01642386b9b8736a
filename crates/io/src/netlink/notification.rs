//! Notifications about changes of the kernel's tables.

use super::message::messages;
use super::uapi::{RTM_DELNEXTHOP, RTM_NEWNEXTHOP};
use super::{KernelAddress, KernelLink, KernelNeighbourEntry, KernelNextHop, KernelRouteEntry, KernelRule};

/// An object of the kernel's tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KernelObject {
    /// A link.
    Link(KernelLink),
    /// An address.
    Address(KernelAddress),
    /// A neighbour.
    Neighbour(KernelNeighbourEntry),
    /// A route.
    Route(KernelRouteEntry),
    /// A next-hop object.
    NextHop(KernelNextHop),
    /// A rule.
    Rule(KernelRule),
}

/// The place of a new route among those with its destination, metric and type of service (NLM_F_* of <linux/netlink.h>).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoutePlacement {
    /// It is the only one.
    Only,
    /// Before them, so that the kernel uses it (IPv4).
    First,
    /// Behind them.
    Last,
    /// In the place of the first.
    Replace,
}

/// A change of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelNotification {
    /// The object as it is now, or was.
    pub object: KernelObject,
    /// True if it was removed. A link may have left to another network namespace; one with its index may exist again by now.
    pub is_removed: bool,
    /// The place of a new route.
    pub placement: RoutePlacement,
}

impl KernelNotification {
    /// Parses the messages of a datagram and passes them to `each`.
    pub fn parse_datagram(datagram: &[u8], each: impl FnMut(KernelNotification)) {
        messages(datagram).filter_map(|(kind, flags, _, body)| Self::parse(kind, flags, body)).for_each(each);
    }

    /// Parses a message: its type, its NLM_F_* flags and its body. `None` for messages of other types, and for objects that are not followed, such as the
    /// forwarding entries of bridges.
    fn parse(kind: u16, flags: u16, body: &[u8]) -> Option<KernelNotification> {
        let object = match kind {
            libc::RTM_NEWLINK | libc::RTM_DELLINK => KernelObject::Link(KernelLink::parse(body)?),
            libc::RTM_NEWADDR | libc::RTM_DELADDR => KernelObject::Address(KernelAddress::parse(body)?),
            libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => KernelObject::Neighbour(KernelNeighbourEntry::parse(body)?),
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => KernelObject::Route(KernelRouteEntry::parse(body)?),
            RTM_NEWNEXTHOP | RTM_DELNEXTHOP => KernelObject::NextHop(KernelNextHop::parse(body)?),
            libc::RTM_NEWRULE | libc::RTM_DELRULE => KernelObject::Rule(KernelRule::parse(body)?),
            _ => return None,
        };
        // Each kind of object has four types of messages: new, del, get, set.
        let is_removed = kind % 4 == 1;
        let has = |flag: i32| i32::from(flags) & flag != 0;
        let placement = match () {
            () if has(libc::NLM_F_REPLACE) => RoutePlacement::Replace,
            () if has(libc::NLM_F_APPEND) => RoutePlacement::Last,
            () if has(libc::NLM_F_EXCL) => RoutePlacement::Only,
            () if has(libc::NLM_F_CREATE) => RoutePlacement::First,
            () => RoutePlacement::Last,
        };
        Some(KernelNotification { object, is_removed, placement })
    }
}
