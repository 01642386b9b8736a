//! Takes over the multicast routes of the kernel, which PIM daemons and IGMP proxies maintain.
//!
//! Packets of a group without a route go to the kernel, which asks the program for one and forwards them meanwhile. Afterwards the kernel gets none of them
//! any more, and programs would take the group for unused: so the kernel gets a packet of each group in use at times, which it only counts.

use super::routes::RoutedInterfaces;
use super::{Served, failed};
use crate::daemon::Daemon;
use io::clock;
use io::netlink::{KernelMulticastRoute, MulticastForwarding, MulticastWatch};
use packet::wire::{Ipv4Spec, Ipv6Spec, ethernet, ethertype, ipv4, ipv6, protocol};
use plan::Name;
use plane::ApplyError;
use plane::multicast::{GroupKey, MulticastRoute};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use units::{Instant, Mac, Nanos, VrfId};

/// The interval of packets to the kernel for groups in use. Programs keep a group without packets for minutes (RFC 7761 4.11: 210 s).
const REPORT_INTERVAL: Nanos = Nanos::secs(5);
/// The most routes, as many as a configuration may have.
const MOST_GROUPS: usize = 16_384;
/// The source of these packets, with the locally administered bit. No bridge sees them.
const REPORTER: Mac = Mac([2, 0, 0, 0, 0, 0]);

/// Follows the multicast routes.
pub(super) struct GroupFollower {
    watch: MulticastWatch,
    forwarding: MulticastForwarding,
    /// The packets of each group at the last report.
    reported: BTreeMap<GroupKey, u64>,
    next_report: Instant,
}

impl GroupFollower {
    /// Begins in the network namespace of the calling thread.
    pub fn start() -> Result<GroupFollower, ApplyError> {
        let (forwarding, reported) = (MulticastForwarding::default(), BTreeMap::new());
        let watch = MulticastWatch::open().map_err(failed)?;
        Ok(GroupFollower { watch, forwarding, reported, next_report: clock::now() })
    }

    /// True if a program routes multicast on this link of the kernel.
    pub fn routes_on(&self, link: u32) -> bool {
        self.forwarding.links.contains(&link)
    }

    /// Gives the router the present routes. `is_changed`: its interfaces have changed.
    pub fn follow(
        &mut self,
        daemon: &Daemon,
        interfaces: &RoutedInterfaces,
        is_changed: bool,
    ) -> Result<(), ApplyError> {
        let changed = self.watch.update().map_err(failed)?;
        if changed.is_none() && !is_changed {
            return Ok(());
        }
        if let Some(forwarding) = changed {
            self.forwarding = forwarding;
        }
        let routes = self.forwarding.routes.iter().filter_map(|route| usable(route, interfaces)).take(MOST_GROUPS);
        daemon.control.lock().router.set_kernel_groups(routes.collect());
        Ok(())
    }

    /// Gives the kernel a packet of each group that has had packets since the last time, once in [`REPORT_INTERVAL`].
    pub fn report_use(&mut self, daemon: &Daemon, served: &BTreeMap<Name, Served>) {
        let now = clock::now();
        if now < self.next_report {
            return;
        }
        self.next_report = now + REPORT_INTERVAL;
        let groups = daemon.control.lock().router.snapshot().kernel_groups.latest();
        let mut counted = BTreeMap::new();
        for (route, counters) in groups.iter() {
            counted.insert(route.key, counters.packets);
            let is_used = self.reported.get(&route.key).copied().unwrap_or(0) != counters.packets;
            let input = served.values().find(|served| served.wanted.id == route.from);
            if let (true, Some(input), Some(frame)) = (is_used, input, expiring_packet(&route.key)) {
                // A lost one is made up for by the next.
                input.device.send(&frame);
            }
        }
        self.reported = counted;
    }
}

impl AsFd for GroupFollower {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

/// The router's route for one of the kernel. `None` if a link of the route is not one of the router, such as that of a PIM daemon which registers
/// sources (RFC 7761 4.4.1): the kernel forwards these packets.
fn usable(route: &KernelMulticastRoute, interfaces: &RoutedInterfaces) -> Option<MulticastRoute> {
    let id = |link: &u32| interfaces.get(link).map(|(_, id)| *id);
    let outputs = route.to.iter().filter(|link| **link != route.from);
    let key = GroupKey { vrf: VrfId::MAIN, group: route.group, source: route.source };
    Some(MulticastRoute { key, from: id(&route.from)?, to: outputs.map(id).collect::<Option<_>>()? })
}

/// A frame of a group with an empty packet whose time to live ends here: the kernel counts it, and forwards it nowhere. `None` for a route of all
/// sources, whose packets no program counts.
fn expiring_packet(key: &GroupKey) -> Option<Vec<u8>> {
    const LONGEST: usize = ethernet::HEADER + ipv6::HEADER;
    let mut frame = vec![0; LONGEST];
    let (header, rest) = frame.split_at_mut(ethernet::HEADER);
    let (mac, kind, length) = match (key.source?, key.group) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let spec = Ipv4Spec {
                type_of_service: 0,
                identification: 0,
                dont_fragment: true,
                ttl: 1,
                protocol: protocol::NO_NEXT_HEADER,
                source,
                destination,
            };
            (ipv4::multicast_mac(destination), ethertype::IPV4, spec.write(rest, 0)?)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let (traffic_class, flow_label, next_header, hop_limit) = (0, 0, protocol::NO_NEXT_HEADER, 1);
            let spec = Ipv6Spec { traffic_class, flow_label, next_header, hop_limit, source, destination };
            (ipv6::multicast_mac(destination), ethertype::IPV6, spec.write(rest, 0)?)
        }
        _ => return None,
    };
    ethernet::write_header(header, mac, REPORTER, None, kind)?;
    frame.truncate(ethernet::HEADER + length);
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::wire::PacketFields;
    use units::InterfaceId;

    fn route(source: Option<[u8; 4]>, from: u32, to: &[u32]) -> KernelMulticastRoute {
        let (group, source) = ([239, 1, 2, 3].into(), source.map(IpAddr::from));
        KernelMulticastRoute { group, source, from, to: to.to_vec() }
    }

    #[test]
    fn route_with_a_foreign_link_stays_with_the_kernel() {
        let interfaces: RoutedInterfaces =
            [("lan", 4, 0), ("wan", 5, 1)].map(|(name, link, id)| (link, (name.into(), InterfaceId(id)))).into();
        let source = Some([192, 0, 2, 7]);
        let of = |route: &KernelMulticastRoute| usable(route, &interfaces).map(|route| (route.from.0, route.to));
        assert_eq!(of(&route(source, 4, &[5])), Some((0, vec![InterfaceId(1)])));
        // The input link of a route for all sources is among its output links.
        assert_eq!(of(&route(None, 5, &[5, 4])), Some((1, vec![InterfaceId(0)])));
        // Pruned: packets are dropped.
        assert_eq!(of(&route(source, 4, &[])), Some((0, vec![])));
        assert_eq!(of(&route(source, 4, &[5, 9])), None);
        assert_eq!(of(&route(source, 9, &[5])), None);
    }

    #[test]
    fn packet_for_the_counters_of_the_kernel_expires_there() {
        for (source, group, ttl_at) in [("192.0.2.7", "239.1.2.3", 22), ("2001:db8::7", "ff3e::1", 21)] {
            let (source, group): (IpAddr, IpAddr) = (source.parse().expect("source"), group.parse().expect("group"));
            let key = GroupKey { vrf: VrfId::MAIN, group, source: Some(source) };
            let frame = expiring_packet(&key).expect("it has a source");
            let fields = PacketFields::of(&frame).expect("it is a packet");
            assert_eq!((fields.source, fields.destination, frame[ttl_at]), (source, group, 1));
            assert!(expiring_packet(&GroupKey { source: None, ..key }).is_none());
        }
    }
}
