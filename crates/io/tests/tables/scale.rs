//! Many routes: the time to add them, to list them and to follow their changes, and the memory for each.

#![allow(clippy::print_stdout)]

use crate::rig::rig;
use io::clock;
use io::netlink::{
    FollowedTables, KernelHop, KernelRequest, KernelRouteEntry, KernelTables, Netlink, RequestObject, RouteHops,
};
use std::fs;
use std::net::IpAddr;

/// The number of routes: `SWITCHPATH_ROUTES`.
fn count() -> usize {
    std::env::var("SWITCHPATH_ROUTES").map_or(10_000, |text| text.parse().expect("a number"))
}

/// Bytes of memory that this process uses (proc(5), the second number of statm in pages of 4 KiB).
fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn many_routes_are_added_listed_and_followed() {
    let Some(mut rig) = rig() else { return };
    let (count, links) = (count(), [rig.index("a"), rig.index("b")]);
    // Of 7 routes one is of IPv6.
    let routes: Vec<KernelRouteEntry> = (0..count as u32)
        .map(|at| {
            let hop = |gateway: IpAddr| RouteHops::One(KernelHop::new(Some(gateway), links[at as usize % 2]));
            if at % 7 == 0 {
                let destination = IpAddr::from([0x2001, (at >> 16) as u16, at as u16, 0, 0, 0, 0, 0]);
                let gateway = IpAddr::from([0xfd00, at as u16 % 2, 0, 0, 0, 0, 0, 2]);
                return KernelRouteEntry { metric: 1024, ..KernelRouteEntry::new(destination, 48, hop(gateway)) };
            }
            let destination = IpAddr::from((0x1400_0000 + (at << 8)).to_be_bytes());
            KernelRouteEntry::new(destination, 24, hop([10, 0, (at % 2) as u8, 2].into()))
        })
        .collect();
    rig.update();
    let own = rig.tables.route_count();
    let mut netlink = rig.host.run(Netlink::open).unwrap().unwrap();
    let begin = clock::now();
    let refused = netlink.apply(routes.iter().map(|route| KernelRequest::Add(RequestObject::Route(route)))).unwrap();
    let added = clock::now().since(begin);
    assert!(refused.is_empty(), "{:?}", refused.first());
    let begin = clock::now();
    rig.update();
    let followed = clock::now().since(begin);
    assert_eq!(rig.tables.route_count(), own + count);
    let overruns = rig.tables.overruns();

    let before = resident();
    let mut fresh = rig.host.run(|| KernelTables::open(FollowedTables::Only(vec![254])).unwrap()).unwrap();
    let (begin, mut reported) = (clock::now(), 0);
    assert!(fresh.update(|_| reported += 1).unwrap().is_complete);
    let listed = clock::now().since(begin);
    let bytes = (resident() - before) / count;
    assert!(reported >= count && fresh.route_count() >= count);
    assert!(count < 100_000 || bytes <= 200, "{bytes} bytes a route");
    let begin = clock::now();
    fresh.verify();
    fresh.update(|change| panic!("nothing has changed: {change:?}")).unwrap();
    let verified = clock::now().since(begin);

    // The kernel removes half of the IPv4 routes silently, and reports each of IPv6.
    rig.ip("link set dev b down");
    let begin = clock::now();
    let mut removed = 0;
    assert!(fresh.update(|_| removed += 1).unwrap().is_complete);
    let lost = clock::now().since(begin);
    assert!(
        removed >= count / 2
            && fresh
                .routes()
                .all(|route| route.hops.iter().all(|hop| hop.link.is_none_or(|link| link.get() != links[1])))
    );
    println!(
        "{count} routes: added in {added}, followed in {followed} with {overruns} overruns, listed in {listed}, {bytes} bytes each, \
         listed again in {verified}, {removed} differences of a lost link in {lost}"
    );
}
