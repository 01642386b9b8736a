//! Routes and next-hop objects: every change that the kernel reports, and those that it does not.

use crate::rig::rig;
use io::netlink::{KernelChange, Netlink};

#[test]
fn ipv4_routes_are_added_replaced_appended_and_removed_as_in_the_kernel() {
    let Some(mut rig) = rig() else { return };
    rig.update();
    rig.check("route add 1.0.0.0/8 via 10.0.0.2", &["+ 1.0.0.0/8 [10.0.0.2@a]"]);
    rig.check("route replace 1.0.0.0/8 via 10.0.1.2", &["~ 1.0.0.0/8 [10.0.1.2@b]"]);
    rig.check("route add 1.0.0.0/8 via 10.0.0.2 metric 5", &["+ 1.0.0.0/8 metric 5 [10.0.0.2@a]"]);
    rig.check("route append 1.0.0.0/8 via 10.0.0.3", &["+ 1.0.0.0/8 [10.0.0.3@a]"]);
    rig.check("route prepend 1.0.0.0/8 via 10.0.0.4", &["+ 1.0.0.0/8 [10.0.0.4@a]"]);
    let used = |rig: &crate::rig::Rig| {
        let used = rig.tables.effective_route(254, [1, 0, 0, 0].into(), 8).unwrap();
        crate::rig::route(&used, &rig.names)
    };
    assert_eq!(used(&rig), "1.0.0.0/8 [10.0.0.4@a]");
    // The first is replaced; the kernel lists the rest unchanged.
    rig.check("route replace 1.0.0.0/8 via 10.0.0.5", &["~ 1.0.0.0/8 [10.0.0.5@a]"]);
    rig.check("route del 1.0.0.0/8 via 10.0.0.5", &["- 1.0.0.0/8 [10.0.0.5@a]"]);
    assert_eq!(used(&rig), "1.0.0.0/8 [10.0.1.2@b]");
    rig.check("route del 1.0.0.0/8 via 10.0.0.3", &["- 1.0.0.0/8 [10.0.0.3@a]"]);
    rig.check("route del 1.0.0.0/8", &["- 1.0.0.0/8 [10.0.1.2@b]"]);
    assert_eq!(used(&rig), "1.0.0.0/8 metric 5 [10.0.0.2@a]");
    rig.check("route change 1.0.0.0/8 via 10.0.0.9 metric 5", &["~ 1.0.0.0/8 metric 5 [10.0.0.9@a]"]);
}

#[test]
fn kinds_tables_and_attributes_of_routes_are_parsed() {
    let Some(mut rig) = rig() else { return };
    rig.update();
    for (commands, expected) in [
        ("route add blackhole 2.0.0.0/8", "2.0.0.0/8 Blackhole []"),
        ("route add unreachable 2.1.0.0/16 metric 7", "2.1.0.0/16 metric 7 Unreachable []"),
        ("route add prohibit 2.2.0.0/16", "2.2.0.0/16 Prohibit []"),
        ("route add throw 2.3.0.0/16 table 100", "2.3.0.0/16 table 100 Throw []"),
        ("route add 2.4.0.0/16 dev a", "2.4.0.0/16 [@a]"),
        ("route add 2.5.0.0/16 via 10.0.0.2 table 100000", "2.5.0.0/16 table 100000 [10.0.0.2@a]"),
        ("route add 2.6.0.0/16 via 10.0.0.2 tos 0x10", "2.6.0.0/16 tos 16 [10.0.0.2@a]"),
        ("route add 2.7.0.0/16 via 10.0.0.2 mtu 1400", "2.7.0.0/16 mtu 1400 [10.0.0.2@a]"),
        ("route add 2.8.0.0/16 via 10.0.0.2 src 10.0.1.1", "2.8.0.0/16 src 10.0.1.1 [10.0.0.2@a]"),
        ("route add 2.9.0.0/16 via 192.0.2.1 dev a onlink", "2.9.0.0/16 [192.0.2.1@a onlink]"),
        ("route add 2.10.0.0/16 via inet6 fe80::2 dev a", "2.10.0.0/16 [fe80::2@a]"),
        ("route add default via 10.0.0.2", "0.0.0.0/0 [10.0.0.2@a]"),
        (
            "route add 2.11.0.0/16 nexthop via 10.0.0.2 weight 2 nexthop via 10.0.1.2",
            "2.11.0.0/16 [10.0.0.2@a*2, 10.0.1.2@b]",
        ),
        (
            "route add 2.12.0.0/16 nexthop via 10.0.0.2 nexthop via inet6 fe80::2 dev b weight 256",
            "2.12.0.0/16 [10.0.0.2@a, fe80::2@b*256]",
        ),
        ("route add 2.13.0.0/16 encap ip dst 192.0.2.1 dev a", "2.13.0.0/16 [@a encapsulated]"),
        ("route add blackhole 2001:2::/32", "2001:2::/32 Blackhole []"),
        ("route add unreachable 2001:3::/32", "2001:3::/32 Unreachable []"),
        ("route add 2001:4::/32 via fd00:0::2", "2001:4::/32 [fd00::2@a]"),
        ("route add 2001:5::/32 from 2001:6::/32 dev a", "2001:5::/32 from 2001:6::/32 [@a]"),
        ("route add ::/0 via fe80::2 dev b mtu 1300 metric 9", "::/0 metric 9 mtu 1300 [fe80::2@b]"),
        ("route add 2001:7::/32 encap seg6 mode encap segs fd00::5 dev a", "2001:7::/32 [@a encapsulated]"),
    ] {
        rig.check(commands, &[&format!("+ {expected}")]);
    }
}

#[test]
fn ipv6_routes_with_gateways_are_merged_and_lose_single_hops() {
    let Some(mut rig) = rig() else { return };
    rig.update();
    rig.check("route add 2001::/32 via fd00:0::2", &["+ 2001::/32 [fd00::2@a]"]);
    rig.check("route append 2001::/32 via fd00:1::2", &["~ 2001::/32 [fd00::2@a, fd00:1::2@b]"]);
    rig.check("route append 2001::/32 via fd00:0::3", &["~ 2001::/32 [fd00::2@a, fd00::3@a, fd00:1::2@b]"]);
    rig.check("route del 2001::/32 via fd00:0::2", &["~ 2001::/32 [fd00::3@a, fd00:1::2@b]"]);
    rig.check(
        "route replace 2001::/32 nexthop via fd00:0::7 weight 3 nexthop via fd00:1::8",
        &["~ 2001::/32 [fd00::7@a*3, fd00:1::8@b]"],
    );
    rig.check("route replace 2001::/32 via fd00:0::9", &["~ 2001::/32 [fd00::9@a]"]);
    // Other routes of the same destination and metric, which the kernel does not merge.
    rig.check("route append 2001::/32 dev a", &["+ 2001::/32 [@a]"]);
    rig.check("route append 2001::/32 dev b", &["+ 2001::/32 [@b]"]);
    rig.check("route replace 2001::/32 via fd00:0::8", &["~ 2001::/32 [fd00::8@a]"]);
    rig.check("route del 2001::/32 dev b", &["- 2001::/32 [@b]"]);
    rig.check("route replace unreachable 2001::/32", &["~ 2001::/32 Unreachable []"]);
    rig.check("route del 2001::/32 via fd00:0::8", &["- 2001::/32 [fd00::8@a]"]);
    // Without a route of its sort, a route replaces the first of another.
    rig.check("route replace 2001::/32 via fd00:0::8", &["~ 2001::/32 [fd00::8@a]"]);
    rig.check("route append 2001::/32 via fd00:0::9", &["~ 2001::/32 [fd00::8@a, fd00::9@a]"]);
    rig.check("route del 2001::/32", &["- 2001::/32 [fd00::8@a, fd00::9@a]"]);
}

#[test]
fn routes_have_the_hops_of_their_next_hop_objects() {
    let Some(mut rig) = rig() else { return };
    rig.update();
    rig.ip("nexthop add id 1 via 10.0.0.2 dev a\nnexthop add id 2 via 10.0.1.2 dev b\nnexthop add id 3 blackhole");
    rig.ip("nexthop add id 10 group 1,2/2\nnexthop add id 20 via fd00:0::2 dev a");
    assert_eq!(rig.update(), [""; 0], "objects without routes");
    rig.check(
        "route add 1.0.0.0/8 nhid 10\nroute add 2.0.0.0/8 nhid 1\nroute add 3.0.0.0/8 nhid 3\nroute add 2001::/32 nhid 20",
        &[
            "+ 1.0.0.0/8 [10.0.0.2@a*2, 10.0.1.2@b]",
            "+ 2.0.0.0/8 [10.0.0.2@a]",
            "+ 2001::/32 [fd00::2@a]",
            "+ 3.0.0.0/8 Blackhole []",
        ],
    );
    // The kernel repeats the routes; each is reported once.
    rig.check(
        "nexthop replace id 1 via 10.0.0.9 dev a",
        &["~ 1.0.0.0/8 [10.0.0.9@a*2, 10.0.1.2@b]", "~ 2.0.0.0/8 [10.0.0.9@a]"],
    );
    rig.check("nexthop replace id 10 group 2", &["~ 1.0.0.0/8 [10.0.1.2@b]"]);
    rig.check("nexthop replace id 3 via 10.0.0.3 dev a", &["~ 3.0.0.0/8 [10.0.0.3@a]"]);
    rig.check("nexthop replace id 10 group 1/2,4", &["~ 1.0.0.0/8 [10.0.0.9@a, 10.0.1.2@b*4]"]);
    rig.check("route replace 2.0.0.0/8 via 10.0.0.2", &["~ 2.0.0.0/8 [10.0.0.2@a]"]);
    // The kernel removes the routes of an object without notifications, and the object from its groups.
    rig.check("nexthop del id 1", &["~ 1.0.0.0/8 [10.0.1.2@b*4]"]);
    rig.check("nexthop del id 3", &["- 3.0.0.0/8 []"]);
    rig.check("nexthop del id 20", &["- 2001::/32 []"]);
    rig.check("nexthop del id 2", &["- 1.0.0.0/8 []"]);
    assert_eq!(rig.tables.next_hops().count(), 0, "a group without members is removed");
}

#[test]
fn routes_and_objects_that_the_kernel_removes_silently_are_noticed() {
    let Some(mut rig) = rig() else { return };
    rig.ip("route add 1.0.0.0/8 via 10.0.0.2\nroute add 2.0.0.0/8 nexthop via 10.0.0.2 nexthop via 10.0.1.2");
    rig.ip("route add blackhole 3.0.0.0/8\nnexthop add id 1 via 10.0.0.2 dev a\nroute add 4.0.0.0/8 nhid 1");
    rig.ip("nexthop add id 2 via fd00:0::2 dev a\nroute add 2001::/32 nhid 2\nroute add 5.0.0.0/8 via 10.0.1.2");
    rig.update();
    let removed = |rig: &mut crate::rig::Rig| {
        let all = rig.update();
        all.into_iter().filter(|line| line.starts_with("- ") && !line.contains("table 255")).collect::<Vec<_>>()
    };
    // A lost carrier removes the next-hop objects of the link. The routes themselves stay.
    crate::rig::batch(&rig.peer, "link set dev a down");
    rig.check_equal();
    assert_eq!(rig.tables.next_hops().count(), 0);
    let used = |rig: &crate::rig::Rig, first: u8| rig.tables.effective_route(254, [first, 0, 0, 0].into(), 8).is_some();
    assert_eq!([1, 2, 3, 4, 5].map(|first| used(&rig, first)), [true, true, true, false, true]);
    crate::rig::batch(&rig.peer, "link set dev a up");
    rig.check_equal();
    rig.ip("link set dev a down");
    assert_eq!(
        removed(&mut rig),
        ["- 1.0.0.0/8 [10.0.0.2@a]", "- 10.0.0.0/24 src 10.0.0.1 [@a]", "- fd00::/64 metric 256 [@a]"]
            .into_iter()
            .chain(["- fe80::/64 metric 256 [@a]"])
            .collect::<Vec<_>>()
    );
    rig.check_equal();
    // The other hop goes with the last address of its link.
    rig.ip("addr del 10.0.1.1/24 dev b");
    assert_eq!(
        removed(&mut rig),
        ["- 10.0.1.0/24 src 10.0.1.1 [@b]", "- 2.0.0.0/8 [10.0.0.2@a, 10.0.1.2@b]", "- 5.0.0.0/8 [10.0.1.2@b]"]
    );
    rig.check_equal();
    rig.ip("link del dev b");
    rig.check_equal();
    assert!(used(&rig, 3) && rig.tables.links().all(|link| link.name != "b"));
}

#[test]
fn flags_of_hops_are_in_lists_and_left_out_of_the_tables() {
    let Some(mut rig) = rig() else { return };
    rig.ip("route add 2.0.0.0/8 nexthop via 10.0.0.2 nexthop via 10.0.1.2");
    rig.update();
    rig.ip("link set dev a down");
    let flags = |rig: &crate::rig::Rig| {
        let mut found = Vec::new();
        let list = || {
            Netlink::open().unwrap().routes(Some(254), None, |route| {
                if route.destination == std::net::IpAddr::from([2, 0, 0, 0]) {
                    found.extend(route.hops.own().iter().map(|hop| (hop.flags.is_dead(), hop.flags.is_link_down())));
                }
            })
        };
        rig.host.run(list).unwrap().unwrap();
        found
    };
    assert_eq!(flags(&rig), [(true, true), (false, false)]);
    let routes = rig.differences(|change| {
        matches!(change, KernelChange::Route { route, .. } if route.route.destination.to_string() == "2.0.0.0")
    });
    assert_eq!(routes, [""; 0]);
    rig.check_equal();
}

#[test]
fn links_of_default_routes_and_destinations_are_found() {
    let Some(rig) = rig() else { return };
    let (a, b) = (rig.index("a"), rig.index("b"));
    let mut netlink = rig.host.run(Netlink::open).unwrap().unwrap();
    let ip = |text: &str| text.parse().unwrap();
    assert_eq!(netlink.default_route_links().unwrap(), [0; 0]);
    rig.ip("route add default via 10.0.0.2\nroute add default via 10.0.1.2 table 100\nroute add blackhole 4.0.0.0/8");
    assert_eq!(netlink.default_route_links().unwrap(), [a]);
    rig.ip("nexthop add id 1 via fd00:0::2 dev a\nnexthop add id 2 via fd00:1::2 dev b\nnexthop add id 3 group 2");
    rig.ip("route add ::/0 nhid 3");
    assert_eq!(netlink.default_route_links().unwrap(), [a, b]);
    rig.ip("route replace default nexthop via 10.0.0.2 nexthop via 10.0.1.2\nroute del ::/0");
    assert_eq!(netlink.default_route_links().unwrap(), [a, b]);
    rig.ip("route add ::/0 nhid 3\nroute add 5.0.0.0/8 via 10.0.1.2");
    for (address, link) in [
        ("10.0.0.9", Some(a)),
        ("5.1.1.1", Some(b)),
        ("2001::1", Some(b)),
        ("fd00:0::9", Some(a)),
        ("4.1.1.1", None),
        ("10.0.0.1", None),
    ] {
        assert_eq!(netlink.link_towards(ip(address)).unwrap(), link, "{address}");
    }
    for (address, link) in [("10.0.0.1", Some(a)), ("fd00:1::1", Some(b)), ("10.0.0.2", None)] {
        assert_eq!(netlink.link_with_address(ip(address)).unwrap(), link, "{address}");
    }
}
