//! Random changes: afterwards the tables equal a new list of the kernel's, with and without lost notifications.

use crate::rig::{Rig, rig, rig_with};
use io::netlink::{
    FollowedTables, KernelChange, KernelHop, KernelRequest, KernelRouteEntry, KernelTables, Netlink, RequestObject,
    RouteHops,
};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const VERBS: [&str; 8] = ["add", "add", "append", "prepend", "replace", "replace", "change", "del"];

fn route(random: &mut Random) -> String {
    let verb = random.pick(&VERBS);
    let destination = random.pick(&["1.0.0.0/8", "1.0.0.0/16", "2.0.0.0/8", "3.3.3.3", "default"]);
    let hops = random.pick(&[
        "via 10.0.0.2",
        "via 10.0.0.3 src 10.0.0.1",
        "via 10.0.1.2",
        "via 10.0.1.2 src 10.0.0.1",
        "via 10.0.0.2 mtu 1400",
        "via inet6 fe80::9 dev b",
        "dev a",
        "dev b",
        "nexthop via 10.0.0.2 weight 2 nexthop via 10.0.1.2",
        "nexthop via 10.0.0.2 nexthop via 10.0.0.3",
        "nhid 1",
        "nhid 2",
        "nhid 10",
        "nhid 11",
        "nhid 5",
    ]);
    let rest = random.pick(&["", "", "", "metric 10", "metric 20", "tos 8", "table 100", "proto bgp"]);
    if random.below(8) == 0 {
        return format!("route {verb} {} {destination} {rest}", random.pick(&["blackhole", "unreachable", "throw"]));
    }
    if verb == "del" && random.below(2) == 0 {
        return format!("route del {destination} {rest}");
    }
    format!("route {verb} {destination} {hops} {rest}")
}

fn route6(random: &mut Random) -> String {
    let verb = random.pick(&VERBS);
    let destination = random.pick(&["2001::/32", "2001::/48", "2002::/16", "::/0"]);
    let merged = [
        "via fd00:0::2",
        "via fd00:0::3",
        "via fd00:1::2",
        "via fe80::5 dev a",
        "nexthop via fd00:0::2 weight 2 nexthop via fd00:1::2",
        "nexthop via fd00:0::3 nexthop via fd00:0::4 nexthop via fd00:1::2",
    ];
    // Each with a metric of its own: the kernel's list leaves out a route that lies between the hops of a merged one, and a route that replaces another
    // may come to exist twice.
    let others = [
        ("dev a", "metric 20"),
        ("dev b", "metric 30"),
        ("nhid 20", "metric 40"),
        ("nhid 21", "metric 50"),
        ("nhid 30", "metric 60"),
        ("nhid 30", "metric 60 table 100"),
    ];
    let (hops, rest) = if random.below(2) == 0 {
        (random.pick(&merged), random.pick(&["", "", "metric 10", "table 100", "proto bgp", "mtu 1400"]))
    } else {
        others[random.below(others.len())]
    };
    if random.below(10) == 0 {
        let (kind, metric) = [("blackhole", 70), ("unreachable", 80)][random.below(2)];
        return format!("route {verb} {kind} {destination} metric {metric}");
    }
    if verb == "del" && random.below(2) == 0 {
        return format!("route del {destination} {rest}");
    }
    format!("route {verb} {destination} {hops} {rest}")
}

fn object(random: &mut Random) -> String {
    match random.below(12) {
        0 => format!("nexthop replace id 1 via {} dev a", random.pick(&["10.0.0.2", "10.0.0.3"])),
        1 => "nexthop replace id 2 via 10.0.1.2 dev b".into(),
        2 => "nexthop replace id 5 blackhole".into(),
        3 => format!("nexthop replace id 10 group {}", random.pick(&["1", "1/2", "1,3/2,7", "2"])),
        4 => format!("nexthop replace id 11 group {}", random.pick(&["2", "2/1,9", "5"])),
        5 => format!("nexthop replace id 20 via {}", random.pick(&["fd00:0::2 dev a", "fd00:1::2 dev b"])),
        6 => "nexthop replace id 21 via fd00:0::9 dev a".into(),
        7 => format!("nexthop replace id 30 group {}", random.pick(&["20", "20/21", "21,5"])),
        _ => format!("nexthop del id {}", random.pick(&["1", "2", "5", "10", "11", "20", "21", "30"])),
    }
}

fn other(random: &mut Random) -> String {
    match random.below(16) {
        0..3 => {
            format!("neigh replace 10.0.0.{} lladdr 02:00:00:00:00:0{} dev a", 2 + random.below(4), random.below(9))
        }
        3 => format!("neigh replace fd00:0::{} lladdr 02:00:00:00:00:0{} dev a", 2 + random.below(4), random.below(9)),
        4 => format!("neigh del 10.0.0.{} dev a", 2 + random.below(4)),
        5 => format!("addr add 10.0.1.{}/24 dev b", 1 + random.below(3)),
        6 => format!("addr del 10.0.1.{}/24 dev b", 1 + random.below(3)),
        7 => "addr replace fd00:0::1/64 dev a nodad\naddr replace fd00:1::1/64 dev b nodad".into(),
        8 => format!("rule add from 7.0.0.0/8 table {} prio {}", 1 + random.below(3), 5 + random.below(3)),
        9 => format!("rule del prio {}", 5 + random.below(3)),
        10 => format!("addr {} 10.7.0.1/32 dev lo", random.pick(&["add", "del"])),
        11 => "addr flush dev b".into(),
        12 => "addr add 10.0.1.1/24 dev b\naddr replace fd00:1::1/64 dev b nodad".into(),
        13 => format!("link set dev {} down", random.pick(&["a", "b"])),
        _ => "link set dev a up\nlink set dev b up\naddr replace fd00:0::1/64 dev a nodad".into(),
    }
}

fn commands(random: &mut Random, count: usize) -> String {
    let one = |random: &mut Random| match random.below(20) {
        0..8 => route(random),
        8..14 => route6(random),
        14..18 => object(random),
        _ => other(random),
    };
    (0..count).map(|_| one(random) + "\n").collect()
}

/// Changes the kernel's tables and compares after each batch.
fn run(mut rig: Rig, seed: u64, rounds: usize, batch: usize) -> Rig {
    let mut random = Random(seed);
    rig.check_equal();
    for round in 0..rounds {
        let commands = commands(&mut random, batch);
        rig.ip(&commands);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| rig.check_equal()));
        if let Err(reason) = outcome {
            let reason = reason.downcast_ref::<String>().cloned().unwrap_or_default();
            panic!("seed {seed}, round {round}: after\n{commands}\n{reason}");
        }
    }
    rig
}

#[test]
fn tables_equal_the_kernels_after_random_changes() {
    let Some(rig) = rig() else { return };
    let rig = run(rig, 0x5eed_0001, 60, 30);
    assert_eq!(rig.tables.overruns(), 0);
}

#[test]
fn tables_equal_the_kernels_after_lost_notifications() {
    let Some(rig) = rig_with(|| KernelTables::open_with_backlog(FollowedTables::All, 4096).unwrap()) else { return };
    let rig = run(rig, 0x5eed_0002, 30, 60);
    assert!(rig.tables.overruns() >= 10, "{} overruns", rig.tables.overruns());
}

#[test]
fn only_differences_are_reported_after_lost_notifications() {
    let Some(mut rig) = rig_with(|| KernelTables::open_with_backlog(FollowedTables::All, 4096).unwrap()) else {
        return;
    };
    rig.ip("route add 1.0.0.0/8 via 10.0.0.2\nroute add 2.0.0.0/8 via 10.0.0.2\nroute add 3.0.0.0/8 via 10.0.0.2");
    rig.ip("nexthop add id 1 via 10.0.0.2 dev a\nroute add 4.0.0.0/8 nhid 1\nroute add 2001::/32 via fd00:0::2");
    rig.update();
    let before = rig.tables.overruns();
    let noise = "route add 99.0.0.0/8 via 10.0.0.2\nroute del 99.0.0.0/8\n".repeat(100);
    rig.ip(&format!(
        "{noise}route del 1.0.0.0/8\nroute replace 2.0.0.0/8 via 10.0.1.2\nroute add 5.0.0.0/8 via 10.0.0.2\n\
         nexthop replace id 1 via 10.0.0.3 dev a\naddr add 10.0.0.77/24 dev a\nneigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev a\n\
         route append 2001::/32 via fd00:1::2\nrule add prio 7 table 7"
    ));
    assert_eq!(
        rig.differences(|change| match change {
            // The notifications before the first lost one.
            KernelChange::Route { route, .. } => route.route.destination != IpAddr::from([99, 0, 0, 0]),
            _ => true,
        }),
        [
            "+ 10.0.0.77/32 table 255 src 10.0.0.1 Local [@a]",
            "+ 5.0.0.0/8 [10.0.0.2@a]",
            "+ address 10.0.0.77/24",
            "+ neighbour 10.0.0.2",
            "+ rule 7",
            "- 1.0.0.0/8 [10.0.0.2@a]",
            "~ 2.0.0.0/8 [10.0.1.2@b]",
            "~ 2001::/32 [fd00::2@a, fd00:1::2@b]",
            "~ 4.0.0.0/8 [10.0.0.3@a]",
        ]
    );
    assert!(rig.tables.overruns() > before);
    rig.check_equal();
    rig.tables.verify();
    assert_eq!(rig.differences(|_| true), [""; 0], "nothing has changed");
}

/// Ends a thread, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The tables are listed anew again and again while routes of both families change all the time.
#[test]
fn no_change_is_missed_while_the_tables_are_listed() {
    let Some(mut rig) = rig_with(|| KernelTables::open_with_backlog(FollowedTables::All, 64 << 10).unwrap()) else {
        return;
    };
    let link = rig.index("a");
    let route = |at: usize, gateway: u8| {
        let (destination, gateway) = if at.is_multiple_of(2) {
            (IpAddr::from([30, (at >> 8) as u8, at as u8, 0]), IpAddr::from([10, 0, 0, gateway]))
        } else {
            let v6 = |net, last| IpAddr::from([net, at as u16, 0, 0, 0, 0, 0, last]);
            (v6(0x2001, 0), IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, gateway.into()]))
        };
        let hops = RouteHops::One(KernelHop::new(Some(gateway), link));
        KernelRouteEntry::new(destination, if at.is_multiple_of(2) { 24 } else { 48 }, hops)
    };
    let (is_over, made) = (AtomicBool::new(false), AtomicUsize::new(0));
    let host = rig.host.clone();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut netlink = host.run(Netlink::open).unwrap().unwrap();
            let mut random = Random(0x5eed_0003);
            while !is_over.load(Ordering::Relaxed) {
                let routes: Vec<_> = (0..100).map(|_| route(random.below(4000), 2 + random.below(3) as u8)).collect();
                let request = |(at, route)| match at % 3 {
                    0 => KernelRequest::Delete(RequestObject::Route(route)),
                    _ => KernelRequest::Replace(RequestObject::Route(route)),
                };
                netlink.apply(routes.iter().enumerate().map(request)).unwrap();
                made.fetch_add(100, Ordering::Relaxed);
            }
        });
        let _stop = Stop(&is_over);
        let mut lists = 0;
        while lists < 20 || made.load(Ordering::Relaxed) < 10_000 {
            rig.tables.verify();
            rig.tables.update(|_| {}).unwrap();
            lists += 1;
        }
    });
    rig.check_equal();
}
