//! Route caches on the path of packets: the same routes with and without them, while routes, neighbours and the configuration change.

use fib::route_cache::RouteCacheCounters;
use plan::batch::batch;
use plane::rig::{Rig, UdpFrame};
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use units::Mac;

const IN: Mac = Mac([2, 0, 0, 0, 0, 1]);
const RED: Mac = Mac([2, 0, 0, 0, 0, 2]);

/// The main VRF leads out of `a` and `b`, the VRF `red` out of `c`.
fn config(ranges: u32) -> String {
    let port = |name: &str, more: &str| format!("[port.{name}]\ndevice = \"memory:{name}\"\n{more}\n");
    let neighbour = |port: &str, address: &str| {
        format!("[[neighbour]]\naddress = \"{address}\"\nmac = \"02:00:00:00:00:0{port}\"\nport = \"{port}\"\n")
    };
    [
        format!("version = 1\n[router]\nroute_cache = {ranges}\n"),
        port("in", "mac = \"02:00:00:00:00:01\"\naddress = [\"192.0.2.1/24\"]"),
        port("red", "mac = \"02:00:00:00:00:02\"\nvrf = \"red\"\naddress = [\"192.0.2.1/24\"]"),
        port("a", "address = [\"198.51.100.1/26\"]"),
        port("b", "address = [\"198.51.100.65/26\"]"),
        port("c", "vrf = \"red\"\naddress = [\"198.51.100.1/26\"]"),
        neighbour("a", "198.51.100.2"),
        neighbour("b", "198.51.100.66"),
        neighbour("c", "198.51.100.2"),
        "[[route]]\nto = '10.0.0.0/8'\nvia = '198.51.100.2'\n".to_owned(),
        "[[route]]\nvrf = 'red'\nto = '10.0.0.0/8'\nvia = '198.51.100.2'\n".to_owned(),
    ]
    .concat()
}

/// Sends a packet to each of 32 networks from `in` and from `red`. Returns how many left by `a`, `b` and `c`.
fn send(rig: &mut Rig) -> [usize; 3] {
    for n in 0..32 {
        for (wire, mac) in [("in", IN), ("red", RED)] {
            let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(10, n, 0, 9));
            let link = (Mac([2, 0, 0, 0, 0, 0xaa]), mac);
            rig.send(wire, &UdpFrame { link, network, ports: (1000, 53), ttl: 64, length: 60 }.frame(&[]));
        }
    }
    rig.settle();
    ["a", "b", "c"].map(|wire| rig.received(wire).iter().filter(|frame| frame[12..14] == [8, 0]).count())
}

fn edit(rig: &mut Rig, text: &str) {
    let plan = rig.router.plan().expect("it runs").clone();
    let batch = batch(text, "changes", &plan).unwrap_or_else(|found| panic!("{found}"));
    let edits = rig.router.prepare_edits(&batch.lines, 100).expect("they are possible");
    rig.router.apply_edits(edits, |_| {});
    rig.settle();
}

fn counters(rig: &Rig) -> RouteCacheCounters {
    rig.report().ports.iter().fold(RouteCacheCounters::default(), |mut sum, port| {
        sum += port.route_cache;
        sum
    })
}

#[test]
fn packets_follow_changed_routes_through_route_caches() {
    let mut rig = Rig::running(1024, Layout::Three, &config(64));
    assert_eq!([send(&mut rig), send(&mut rig)], [[32, 0, 32]; 2]);
    let RouteCacheCounters { hits, fills, .. } = counters(&rig);
    assert!(hits >= 64 && fills > 0, "the second packets hit: {:?}", counters(&rig));
    edit(&mut rig, "add 10.4.0.0/14 via 198.51.100.66\nadd vrf red 10.16.0.0/12 blackhole\n");
    assert_eq!([send(&mut rig), send(&mut rig)], [[28, 4, 16]; 2]);
    edit(&mut rig, "del 10.4.0.0/14\ndel vrf red 10.16.0.0/12\n");
    assert_eq!([send(&mut rig), send(&mut rig)], [[32, 0, 32]; 2]);
    assert!(counters(&rig).invalidations > 0);
}

#[test]
fn route_caches_can_be_changed_and_removed_at_run_time() {
    let mut rig = Rig::running(1024, Layout::Three, &config(0));
    assert_eq!(send(&mut rig), [32, 0, 32]);
    assert_eq!(counters(&rig), RouteCacheCounters::default());
    for ranges in [1024, 16, 0, 64] {
        rig.apply(&config(ranges)).unwrap();
        let before = counters(&rig);
        assert_eq!([send(&mut rig), send(&mut rig)], [[32, 0, 32]; 2], "{ranges} ranges");
        let now = counters(&rig);
        assert_eq!(now.hits + now.misses > before.hits + before.misses, ranges > 0, "{ranges} ranges: {now:?}");
        // Without caches the routes change too. A later cache must not have missed it.
        edit(&mut rig, "add 10.4.0.0/14 via 198.51.100.66\n");
        assert_eq!(send(&mut rig), [28, 4, 32]);
        edit(&mut rig, "del 10.4.0.0/14\n");
    }
}
