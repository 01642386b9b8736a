//! Routes: RTM_NEWROUTE and RTM_DELROUTE (rtnetlink(7), <linux/rtnetlink.h>).

use super::message::{ACK, CREATE, DUMP, Message, REPLACE, address, attributes, family, octets, u16_at, u32_at};
use super::{KernelError, Netlink, uapi};
use std::fmt;
use std::mem;
use std::net::IpAddr;
use std::num::NonZeroU32;

/// Length of `struct rtnexthop`.
const HOP_HEADER: usize = 8;

/// The kind of a route (RTN_* of <linux/rtnetlink.h>).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum RouteKind {
    /// Packets are sent to a next hop, or to the destination on a link.
    Unicast = libc::RTN_UNICAST,
    /// An address of the host.
    Local = libc::RTN_LOCAL,
    /// A broadcast address of a link.
    Broadcast = libc::RTN_BROADCAST,
    /// An anycast address of the host.
    Anycast = libc::RTN_ANYCAST,
    /// Multicast groups.
    Multicast = libc::RTN_MULTICAST,
    /// Packets are dropped.
    Blackhole = libc::RTN_BLACKHOLE,
    /// Packets are dropped, and their sender gets an ICMP message: host unreachable.
    Unreachable = libc::RTN_UNREACHABLE,
    /// Packets are dropped, and their sender gets an ICMP message: administratively prohibited.
    Prohibit = libc::RTN_PROHIBIT,
    /// The search ends in this table, and continues at the next rule.
    Throw = libc::RTN_THROW,
}

impl RouteKind {
    const ALL: [RouteKind; 9] = [
        RouteKind::Unicast,
        RouteKind::Local,
        RouteKind::Broadcast,
        RouteKind::Anycast,
        RouteKind::Multicast,
        RouteKind::Blackhole,
        RouteKind::Unreachable,
        RouteKind::Prohibit,
        RouteKind::Throw,
    ];

    /// True if packets are dropped, or not routed by this table.
    pub fn is_reject(self) -> bool {
        matches!(self, RouteKind::Blackhole | RouteKind::Unreachable | RouteKind::Prohibit | RouteKind::Throw)
    }
}

/// Flags of a hop (RTNH_F_* of <linux/rtnetlink.h>).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct HopFlags(u8);

impl HopFlags {
    /// The gateway is on the link, even if no route of the link says so (RTNH_F_ONLINK).
    pub const ONLINK: HopFlags = HopFlags(uapi::RTNH_F_ONLINK);
    /// RTNH_F_PERVASIVE, which the kernel does not use.
    const ENCAPSULATED: u8 = 2;
    /// The flags that change with the state of the link.
    const OF_LINK: u8 = uapi::RTNH_F_DEAD | uapi::RTNH_F_LINKDOWN;

    fn from_kernel(flags: u8) -> HopFlags {
        HopFlags(flags & (uapi::RTNH_F_ONLINK | Self::OF_LINK))
    }

    /// The link is down: the kernel does not use this hop (RTNH_F_DEAD).
    pub fn is_dead(self) -> bool {
        self.0 & uapi::RTNH_F_DEAD != 0
    }

    /// The link has no carrier (RTNH_F_LINKDOWN). The kernel uses the hop, except with the sysctl `ignore_routes_with_linkdown`.
    pub fn is_link_down(self) -> bool {
        self.0 & uapi::RTNH_F_LINKDOWN != 0
    }

    /// See [`HopFlags::ONLINK`].
    pub fn is_onlink(self) -> bool {
        self.0 & uapi::RTNH_F_ONLINK != 0
    }

    /// Packets to this hop are encapsulated (RTA_ENCAP): MPLS, SRv6, IP tunnels. The encapsulation itself is not parsed.
    pub fn is_encapsulated(self) -> bool {
        self.0 & Self::ENCAPSULATED != 0
    }
}

/// A hop of a route or of a next-hop object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KernelHop {
    /// The next hop; none if the destination is on the link. A route of IPv4 may have a gateway of IPv6 (RFC 8950).
    pub gateway: Option<IpAddr>,
    /// The index of the egress link.
    pub link: Option<NonZeroU32>,
    /// Its share of the packets among the hops of the route.
    pub weight: u16,
    /// Its state.
    pub flags: HopFlags,
}

impl KernelHop {
    /// A hop of weight 1 on the link with this index; zero for none, which the kernel then finds from the gateway.
    pub fn new(gateway: Option<IpAddr>, link: u32) -> KernelHop {
        KernelHop { gateway, link: NonZeroU32::new(link), weight: 1, flags: HopFlags::default() }
    }

    /// The hop without the flags that change with the state of its link.
    pub(super) fn without_link_state(self) -> KernelHop {
        KernelHop { flags: HopFlags(self.flags.0 & !HopFlags::OF_LINK), ..self }
    }

    pub(super) fn parse(flags: u8, weight: u16) -> KernelHop {
        KernelHop { gateway: None, link: None, weight, flags: HopFlags::from_kernel(flags) }
    }

    /// Applies an attribute of a route or of a hop in it. `kind` is the family of the route. `None` if it is invalid.
    fn apply(&mut self, kind: u8, attribute: u16, value: &[u8]) -> Option<()> {
        match attribute {
            libc::RTA_OIF => self.link = NonZeroU32::new(u32_at(value, 0)?),
            libc::RTA_GATEWAY => self.gateway = Some(address(kind, value)?),
            // `struct rtvia`: the family of the address, and the address.
            libc::RTA_VIA => self.gateway = Some(address(u16_at(value, 0)?.try_into().ok()?, value.get(2..)?)?),
            libc::RTA_ENCAP_TYPE => self.encapsulate(),
            _ => {}
        }
        Some(())
    }

    pub(super) fn encapsulate(&mut self) {
        self.flags.0 |= HopFlags::ENCAPSULATED;
    }

    fn put(&self, kind: u8, message: &mut Message) {
        if let Some(gateway) = self.gateway {
            if family(gateway) == kind {
                message.put(libc::RTA_GATEWAY, &octets(gateway));
            } else {
                let via = [&u16::from(family(gateway)).to_ne_bytes()[..], &octets(gateway)].concat();
                message.put(libc::RTA_VIA, &via);
            }
        }
        if let Some(link) = self.link {
            message.put_u32(libc::RTA_OIF, link.get());
        }
    }
}

/// The hops of a route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RouteHops {
    /// None: packets are dropped.
    None,
    /// One. It lies in the route: such a route needs no memory of its own.
    One(KernelHop),
    /// Two or more, which share the packets.
    Many(Box<[KernelHop]>),
    /// Those of the next-hop object with this id (since Linux 5.3).
    Object(NonZeroU32),
}

impl RouteHops {
    /// The hops of this list, in its order.
    pub fn new(hops: Vec<KernelHop>) -> RouteHops {
        match hops[..] {
            [] => RouteHops::None,
            [hop] => RouteHops::One(hop),
            _ => RouteHops::Many(hops.into()),
        }
    }

    /// The hops that the route itself has.
    pub fn own(&self) -> &[KernelHop] {
        match self {
            RouteHops::One(hop) => std::slice::from_ref(hop),
            RouteHops::Many(hops) => hops,
            RouteHops::None | RouteHops::Object(_) => &[],
        }
    }

    pub(super) fn own_mut(&mut self) -> &mut [KernelHop] {
        match self {
            RouteHops::One(hop) => std::slice::from_mut(hop),
            RouteHops::Many(hops) => hops,
            RouteHops::None | RouteHops::Object(_) => &mut [],
        }
    }
}

/// A route in a table of the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelRouteEntry {
    /// The table: 254 is the main table, 255 that of the host's addresses.
    pub table: u32,
    /// The destination.
    pub destination: IpAddr,
    /// The length of its prefix, in bits; 0 for the default route.
    pub prefix: u8,
    /// The prefix of the packets' source, if the route is only for some sources (IPv6).
    pub source: Option<Box<(IpAddr, u8)>>,
    /// The kernel uses the route with the lowest metric among those of one destination. IPv6 replaces 0 by 1024.
    pub metric: u32,
    /// The type of service that the route is for (IPv4); 0 for all.
    pub tos: u8,
    /// The kind.
    pub kind: RouteKind,
    /// The program that added it: RTPROT_* of <linux/rtnetlink.h>.
    pub protocol: u8,
    /// The distance to the destination (RT_SCOPE_*); always RT_SCOPE_UNIVERSE (0) for IPv6.
    pub scope: u8,
    /// The source of the host's own packets.
    pub preferred_source: Option<IpAddr>,
    /// The MTU towards the destination, in bytes, if the route sets one (RTAX_MTU).
    pub mtu: Option<NonZeroU32>,
    /// The hops. The kernel's link of a route that drops packets is left out.
    pub hops: RouteHops,
}

/// A route of the kernel's main table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelRoute<'a> {
    /// The destination prefix; the default route is `0.0.0.0` or `::` with length 0.
    pub destination: (IpAddr, u8),
    /// The next hop; none for a directly connected destination.
    pub gateway: Option<IpAddr>,
    /// The egress link; by default the kernel finds it from the next hop.
    pub link: Option<&'a str>,
}

impl KernelRouteEntry {
    /// A static unicast route of the main table, without a metric. Its scope follows from the hops: IPv4 routes without a gateway have that of a link.
    pub fn new(destination: IpAddr, prefix: u8, hops: RouteHops) -> KernelRouteEntry {
        let is_direct = destination.is_ipv4() && hops.own().first().is_some_and(|hop| hop.gateway.is_none());
        KernelRouteEntry {
            table: u32::from(libc::RT_TABLE_MAIN),
            destination,
            prefix,
            source: None,
            metric: 0,
            tos: 0,
            kind: RouteKind::Unicast,
            protocol: libc::RTPROT_STATIC,
            scope: if is_direct { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE },
            preferred_source: None,
            mtu: None,
            hops,
        }
    }

    /// Parses a message's body. `None` for other families, for entries of the kernel's route cache, and for kinds without a use.
    pub(super) fn parse(body: &[u8]) -> Option<KernelRouteEntry> {
        // `struct rtmsg`: family, lengths of the prefixes, type of service, table, protocol, scope, kind, flags.
        let [kind, prefix, source_prefix, tos, table, protocol, scope, number] = *body.first_chunk()?;
        let flags = u32_at(body, 8)?;
        if flags & libc::RTM_F_CLONED != 0 {
            return None;
        }
        let any = address(kind, &[0; 16][..if i32::from(kind) == libc::AF_INET { 4 } else { 16 }])?;
        let mut route = KernelRouteEntry {
            table: u32::from(table),
            prefix,
            tos,
            kind: RouteKind::ALL.into_iter().find(|kind| *kind as u8 == number)?,
            protocol,
            scope,
            ..KernelRouteEntry::new(any, 0, RouteHops::None)
        };
        let (mut hop, mut hops, mut object) = (KernelHop::parse(flags as u8, 1), Vec::new(), None);
        for (attribute, value) in attributes(body.get(12..)?) {
            match attribute {
                libc::RTA_DST => route.destination = address(kind, value)?,
                libc::RTA_SRC => route.source = Some(Box::new((address(kind, value)?, source_prefix))),
                libc::RTA_PRIORITY => route.metric = u32_at(value, 0)?,
                libc::RTA_PREFSRC => route.preferred_source = Some(address(kind, value)?),
                libc::RTA_TABLE => route.table = u32_at(value, 0)?,
                libc::RTA_METRICS => route.mtu = mtu(value),
                libc::RTA_MULTIPATH => hops = multipath(kind, value)?,
                uapi::RTA_NH_ID => object = NonZeroU32::new(u32_at(value, 0)?),
                _ => hop.apply(kind, attribute, value)?,
            }
        }
        route.settle(hop, hops, object);
        Some(route)
    }

    /// Sets the hops, in the one form that describes them.
    fn settle(&mut self, hop: KernelHop, mut hops: Vec<KernelHop>, object: Option<NonZeroU32>) {
        if let Some(object) = object {
            // The kernel repeats the hops and the kind of the object, which may change.
            if self.kind == RouteKind::Blackhole {
                self.kind = RouteKind::Unicast;
            }
            self.hops = RouteHops::Object(object);
        } else if self.kind.is_reject() {
            // IPv6 gives such routes the loopback link.
            self.hops = RouteHops::None;
        } else if hops.is_empty() {
            self.hops = RouteHops::One(hop);
        } else {
            // The order of IPv6 hops depends on the message. That of IPv4 hops is the operator's.
            if self.destination.is_ipv6() {
                hops.sort_unstable();
            }
            self.hops = RouteHops::new(hops);
        }
    }

    /// True if the kernel merges it with routes of the same destination and metric into one that has all hops: IPv6 routes whose hops all have
    /// gateways, except those from router advertisements.
    pub(super) fn is_merged(&self) -> bool {
        let hops = self.hops.own();
        self.destination.is_ipv6()
            && self.protocol != uapi::RTPROT_RA
            && !hops.is_empty()
            && hops.iter().all(|hop| hop.gateway.is_some())
    }

    fn message(&self, kind: u16, flags: u16) -> Message {
        let own = family(self.destination);
        // The attribute has the whole number.
        let table = u8::try_from(self.table).unwrap_or(libc::RT_TABLE_UNSPEC);
        let source_prefix = self.source.as_ref().map_or(0, |source| source.1);
        let mut header = [0; 12];
        header[..8].copy_from_slice(&[
            own,
            self.prefix,
            source_prefix,
            self.tos,
            table,
            self.protocol,
            self.scope,
            self.kind as u8,
        ]);
        let onlink = |hop: &KernelHop| hop.flags.0 & uapi::RTNH_F_ONLINK;
        if let RouteHops::One(hop) = &self.hops {
            header[8] = onlink(hop);
        }
        let mut message = Message::new(kind, flags, &header);
        message.put(libc::RTA_DST, &octets(self.destination)).put_u32(libc::RTA_TABLE, self.table);
        if let Some(source) = &self.source {
            message.put(libc::RTA_SRC, &octets(source.0));
        }
        if self.metric != 0 {
            message.put_u32(libc::RTA_PRIORITY, self.metric);
        }
        if let Some(source) = self.preferred_source {
            message.put(libc::RTA_PREFSRC, &octets(source));
        }
        if let Some(mtu) = self.mtu {
            message.nest(libc::RTA_METRICS, &[], |metrics| {
                metrics.put_u32(uapi::RTAX_MTU, mtu.get());
            });
        }
        match &self.hops {
            RouteHops::None => {}
            RouteHops::One(hop) => hop.put(own, &mut message),
            RouteHops::Object(object) => {
                message.put_u32(uapi::RTA_NH_ID, object.get());
            }
            RouteHops::Many(hops) => {
                message.nest(libc::RTA_MULTIPATH, &[], |message| {
                    for hop in hops {
                        let extra = hop.weight.saturating_sub(1).min(255) as u8;
                        let link = hop.link.map_or(0, NonZeroU32::get);
                        message.structure(&[0, 0, onlink(hop), extra], link, |message| {
                            KernelHop { link: None, ..*hop }.put(own, message);
                        });
                    }
                });
            }
        }
        message
    }

    /// The request to add it, or to replace the first route with its destination and metric.
    pub(super) fn to_add(&self, replace: bool) -> Message {
        self.message(libc::RTM_NEWROUTE, if replace { REPLACE } else { CREATE })
    }

    /// The request to remove it. With hops of IPv6 it removes these hops.
    pub(super) fn to_delete(&self) -> Message {
        self.message(libc::RTM_DELROUTE, ACK)
    }

    /// The request for the routes of a family, of one table, and with a hop on one link, if they are given.
    pub(super) fn to_dump(family: u8, table: Option<u32>, link: Option<u32>) -> Message {
        let mut header = [0; 12];
        header[0] = family;
        let mut message = Message::new(libc::RTM_GETROUTE, DUMP, &header);
        for (attribute, value) in [(libc::RTA_TABLE, table), (libc::RTA_OIF, link)] {
            if let Some(value) = value {
                message.put_u32(attribute, value);
            }
        }
        message
    }
}

impl fmt::Display for KernelRouteEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.destination, self.prefix)?;
        match &self.hops {
            RouteHops::None => write!(f, " ({:?})", self.kind)?,
            RouteHops::Object(object) => write!(f, " by next-hop object {object}")?,
            hops => {
                for gateway in hops.own().iter().filter_map(|hop| hop.gateway) {
                    write!(f, " by {gateway}")?;
                }
            }
        }
        write!(f, " in table {}", self.table)
    }
}

/// The MTU in RTA_METRICS.
fn mtu(metrics: &[u8]) -> Option<NonZeroU32> {
    let (_, value) = attributes(metrics).find(|(kind, _)| *kind == uapi::RTAX_MTU)?;
    NonZeroU32::new(u32_at(value, 0)?)
}

/// The hops in RTA_MULTIPATH: each is a `struct rtnexthop` with its length, flags, weight and link, followed by attributes.
fn multipath(kind: u8, mut value: &[u8]) -> Option<Vec<KernelHop>> {
    let mut hops = Vec::new();
    while !value.is_empty() {
        // `None` for a length below the structure's, so that every step advances.
        let length = usize::from(u16_at(value, 0)?);
        let inside = value.get(HOP_HEADER..length)?;
        let mut hop = KernelHop::parse(value[2], u16::from(value[3]) + 1);
        hop.link = NonZeroU32::new(u32_at(value, 4)?);
        for (attribute, value) in attributes(inside) {
            hop.apply(kind, attribute, value)?;
        }
        hops.push(hop);
        value = value.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Some(hops)
}

impl Netlink {
    /// Passes each route of both families to `each`: those of one table and with a hop on one link, if they are given. Routes that change meanwhile
    /// may be passed twice, or not at all.
    pub fn routes(
        &mut self,
        table: Option<u32>,
        link: Option<u32>,
        mut each: impl FnMut(KernelRouteEntry),
    ) -> Result<(), KernelError> {
        for kind in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
            self.routes_of_family(kind, table, link, &mut each)?;
        }
        Ok(())
    }

    /// As [`Netlink::routes`], for one family.
    pub(super) fn routes_of_family(
        &mut self,
        kind: u8,
        table: Option<u32>,
        link: Option<u32>,
        each: &mut dyn FnMut(KernelRouteEntry),
    ) -> Result<(), KernelError> {
        let request = KernelRouteEntry::to_dump(kind, table, link);
        let listed = self.exchange(request, "listing", "the routes", |kind, body| {
            if kind == libc::RTM_NEWROUTE
                && let Some(route) = KernelRouteEntry::parse(body)
                // Kernels before Linux 4.20 list all routes.
                && table.is_none_or(|table| table == route.table)
            {
                each(route);
            }
        });
        match listed {
            // The kernel makes a table with its first route, and the link may be gone.
            Err(error) if matches!(error.error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => Ok(()),
            listed => listed.map(drop),
        }
    }

    /// Adds a route to the main table.
    pub fn add_route(&mut self, route: &KernelRoute<'_>) -> Result<(), KernelError> {
        let (destination, prefix) = route.destination;
        let link = route.link.map_or(Ok(0), |link| self.link(link).map(|link| link.index))?;
        let added = KernelRouteEntry::new(destination, prefix, RouteHops::One(KernelHop::new(route.gateway, link)));
        let by = route.gateway.map_or(String::new(), |gateway| format!(" by {gateway}"));
        self.change(added.to_add(false), "adding the route", &format!("{destination}/{prefix}{by}"))
    }
}

// A table of a million routes has a million of these.
const _: () = assert!(mem::size_of::<KernelRouteEntry>() <= 96 && mem::size_of::<KernelHop>() <= 24);
