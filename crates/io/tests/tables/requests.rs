//! Our own requests: many in one system call, with the error of each refused one.

use crate::rig::rig;
use io::netlink::{
    AddressFlags, HopFlags, KernelAddress, KernelHop, KernelNeighbourEntry, KernelNeighbourState, KernelNextHop,
    KernelRequest, KernelRouteEntry, Netlink, NextHopTarget, RequestObject, RouteHops, RouteKind,
};
use std::net::IpAddr;
use std::num::NonZeroU32;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn routes_that_the_tables_report_can_be_removed_and_added_again() {
    let Some(mut rig) = rig() else { return };
    let (a, b) = (rig.index("a"), rig.index("b"));
    rig.update();
    let by = |gateway: &str, link: u32, weight: u16| KernelHop { weight, ..KernelHop::new(Some(ip(gateway)), link) };
    let new = |destination: &str, prefix, hops: Vec<KernelHop>| {
        KernelRouteEntry::new(ip(destination), prefix, RouteHops::new(hops))
    };
    let onlink = KernelHop { flags: HopFlags::ONLINK, ..by("192.0.2.1", a, 1) };
    let reject = |destination: &str, kind| KernelRouteEntry { kind, ..new(destination, 32, Vec::new()) };
    let v6 = |route: KernelRouteEntry| KernelRouteEntry { metric: 1024, ..route };
    let routes = [
        new("1.0.0.0", 8, vec![by("10.0.0.2", a, 1)]),
        new("2.0.0.0", 8, vec![by("10.0.0.2", a, 7), by("10.0.1.2", b, 256)]),
        new("3.0.0.0", 8, vec![KernelHop::new(None, a)]),
        new("4.0.0.0", 8, vec![by("fe80::2", a, 1)]),
        new("5.0.0.0", 8, vec![onlink]),
        new("6.0.0.0", 8, vec![by("10.0.0.2", a, 2), by("fe80::2", b, 1)]),
        KernelRouteEntry { table: 70000, metric: 20, ..new("7.0.0.0", 8, vec![by("10.0.0.2", a, 1)]) },
        KernelRouteEntry {
            preferred_source: Some(ip("10.0.1.1")),
            tos: 8,
            ..new("8.0.0.0", 8, vec![by("10.0.0.2", a, 1)])
        },
        KernelRouteEntry { mtu: NonZeroU32::new(1400), protocol: 186, ..new("9.0.0.0", 8, vec![by("10.0.0.2", a, 1)]) },
        reject("192.0.2.1", RouteKind::Blackhole),
        reject("192.0.2.2", RouteKind::Unreachable),
        reject("192.0.2.3", RouteKind::Prohibit),
        v6(new("2001:1::", 32, vec![by("fd00::2", a, 1)])),
        v6(new("2001:2::", 32, vec![by("fd00::2", a, 2), by("fd00:1::2", b, 1)])),
        v6(KernelRouteEntry { kind: RouteKind::Blackhole, ..new("2001:3::", 32, Vec::new()) }),
        new("0.0.0.0", 0, vec![by("10.0.0.2", a, 1)]),
        v6(new("::", 0, vec![by("fe80::2", b, 1)])),
    ];
    let mut netlink = rig.host.run(Netlink::open).unwrap().unwrap();
    let before = rig.tables.route_count();
    for _ in 0..2 {
        let refused =
            netlink.apply(routes.iter().map(|route| KernelRequest::Add(RequestObject::Route(route)))).unwrap();
        assert!(refused.is_empty(), "{refused:?}");
        rig.update();
        for route in &routes {
            let found = rig.tables.routes().find(|found| found.route == route);
            assert!(found.is_some(), "{route:?} is not in {:?}", rig.tables.routes().collect::<Vec<_>>());
        }
        rig.check_equal();
        let refused =
            netlink.apply(routes.iter().map(|route| KernelRequest::Delete(RequestObject::Route(route)))).unwrap();
        assert!(refused.is_empty(), "{refused:?}");
        rig.check_equal();
        assert_eq!(rig.tables.route_count(), before);
    }
}

#[test]
fn refused_requests_are_named_and_the_others_are_made() {
    let Some(mut rig) = rig() else { return };
    let link = rig.index("a");
    let routes: Vec<KernelRouteEntry> = (0..600u16)
        .map(|at| {
            let gateway = if at % 300 == 7 { "203.0.113.1" } else { "10.0.0.2" };
            let hop = KernelHop::new(Some(ip(gateway)), link);
            KernelRouteEntry::new(IpAddr::from([20, (at >> 8) as u8, at as u8, 0]), 24, RouteHops::One(hop))
        })
        .collect();
    let mut netlink = rig.host.run(Netlink::open).unwrap().unwrap();
    let add = || routes.iter().map(|route| KernelRequest::Add(RequestObject::Route(route)));
    let refused = netlink.apply(add()).unwrap();
    assert_eq!(refused.iter().map(|refused| refused.index).collect::<Vec<_>>(), [7, 307]);
    assert_eq!(
        refused[0].error.to_string(),
        "adding the route 20.0.7.0/24 by 203.0.113.1 in table 254 failed: Network is unreachable (os error 101): Nexthop has invalid gateway"
    );
    // Each request of whole batches is refused, and each refusal has its answer.
    let refused = netlink.apply(add()).unwrap();
    assert_eq!(refused.len(), 600);
    assert!(refused.iter().map(|refused| refused.index).eq(0..600));
    let replaced =
        netlink.apply(routes[100..110].iter().map(|route| KernelRequest::Replace(RequestObject::Route(route))));
    assert!(replaced.unwrap().is_empty());
    rig.check_equal();
    assert_eq!(rig.tables.routes().filter(|route| route.route.prefix == 24 && route.route.protocol == 4).count(), 598);
}

#[test]
fn addresses_neighbours_and_next_hops_are_added_replaced_and_removed() {
    let Some(mut rig) = rig() else { return };
    let link = rig.index("a");
    rig.update();
    let mut netlink = rig.host.run(Netlink::open).unwrap().unwrap();
    let flags = AddressFlags(AddressFlags::NO_DETECTION.0 | AddressFlags::NO_PREFIX_ROUTE.0);
    let addresses = [
        KernelAddress { protocol: 66, ..KernelAddress::new(link, ip("10.5.0.1"), 24) },
        KernelAddress { flags: AddressFlags::NO_PREFIX_ROUTE, ..KernelAddress::new(link, ip("10.6.0.1"), 24) },
        KernelAddress { peer: Some(ip("10.7.0.2")), ..KernelAddress::new(link, ip("10.7.0.1"), 32) },
        KernelAddress { flags, protocol: 67, ..KernelAddress::new(link, ip("fd00:5::1"), 64) },
    ];
    let neighbours = [
        KernelNeighbourEntry::new(link, ip("10.0.0.9"), "02:00:00:00:00:09".parse().unwrap()),
        KernelNeighbourEntry {
            state: Some(KernelNeighbourState::Reachable),
            is_extern_learned: true,
            is_router: true,
            ..KernelNeighbourEntry::new(link, ip("fd00::9"), "02:00:00:00:00:09".parse().unwrap())
        },
    ];
    let hop = |gateway: &str| NextHopTarget::Hop(KernelHop::new(Some(ip(gateway)), link));
    let objects = [
        KernelNextHop { id: 1, protocol: 186, target: hop("10.0.0.2") },
        KernelNextHop { id: 2, protocol: 4, target: hop("fd00::2") },
        KernelNextHop { id: 3, protocol: 4, target: NextHopTarget::Blackhole },
        KernelNextHop { id: 4, protocol: 4, target: NextHopTarget::Group(vec![(1, 300)].into()) },
    ];
    let all: Vec<RequestObject<'_>> = (addresses.iter().map(RequestObject::Address))
        .chain(neighbours.iter().map(RequestObject::Neighbour))
        .chain(objects.iter().map(RequestObject::NextHop))
        .collect();
    for request in [KernelRequest::Add, KernelRequest::Replace] {
        let refused = netlink.apply(all.iter().copied().map(request)).unwrap();
        assert!(refused.is_empty(), "{refused:?}");
        rig.check_equal();
        for added in &addresses {
            let found = rig.tables.addresses().find(|own| own.address == added.address).unwrap();
            // The kernel sets further flags.
            let expected = KernelAddress { flags: AddressFlags(found.flags.0 | added.flags.0), ..*added };
            assert_eq!(*found, expected);
        }
        for added in &neighbours {
            let found = rig.tables.neighbours().find(|neighbour| neighbour.address == added.address).unwrap();
            assert_eq!(found, added);
        }
        assert!(rig.tables.next_hops().eq(&objects));
    }
    assert!(!rig.tables.routes().any(|route| route.route.destination == ip("10.6.0.0")), "no route to the prefix");
    let refused = netlink.apply(all.iter().rev().copied().map(KernelRequest::Delete)).unwrap();
    assert!(refused.is_empty(), "{refused:?}");
    rig.check_equal();
    assert_eq!(rig.tables.next_hops().count(), 0);
}
