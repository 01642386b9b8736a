//! Decisions about outer packets, which packets with equal headers share: each change of the router ends them.

use crate::node::{CONFIG, Node, filter, frame, to_wan};
use classifier::{SetEdit, SetElement};
use fib::{Origin, Outcome, RouteChange};
use std::net::IpAddr;
use units::{Instant, Mac, Nanos, VrfId};

const NEXT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 9));

/// A node with a path for outer packets to the ports of a set, which is nearly empty.
fn node() -> Node {
    let mut node = Node::new();
    let more = "[set.marked]\ntype = \"port\"\nelements = [\"1\"]\n[[path]]\nname = \"marked\"\nmatch = \"udp dport @marked\"\n";
    node.rig.apply(&format!("{CONFIG}{more}")).unwrap_or_else(|errors| panic!("{errors:?}"));
    node.slice("a", 20_000);
    node.insert("a", 0, filter(b"x", to_wan(1)));
    node
}

/// Sends some packets at once. Returns the addresses of the neighbours that got them.
fn neighbours(node: &mut Node) -> Vec<Mac> {
    (0..100).for_each(|_| node.rig.send("lan", &frame(20_000, b"x.")));
    node.rig.advance(Nanos::millis(20));
    let frames = node.rig.received("wan");
    frames.iter().filter(|frame| frame[12..14] == [8, 0]).map(|frame| Mac(*frame.first_chunk().unwrap())).collect()
}

fn entered(node: &Node, path: &str) -> u64 {
    let id = node.rig.router.snapshot().paths.iter().find(|known| *known.name == *path).unwrap().id;
    let report = node.rig.report();
    report.paths.iter().filter(|path| path.path == id).map(|path| path.counters.entered).sum()
}

#[test]
fn neighbour_that_moves_gets_the_next_packet() {
    let mut node = node();
    let [first, second] = [0x22, 0x23].map(|last| Mac([2, 0, 0, 0, 0, last]));
    assert_eq!(neighbours(&mut node), [first; 100]);
    let out = node.rig.router.snapshot().interface_named("wan").unwrap().id;
    assert!(node.rig.router.tables().resolve(out, NEXT, second));
    assert_eq!(neighbours(&mut node), [second; 100]);
}

#[test]
fn route_that_changes_leads_the_next_packet() {
    let mut node = node();
    assert_eq!(neighbours(&mut node).len(), 100);
    let tables = node.rig.router.tables().clone();
    let out = node.rig.router.snapshot().interface_named("wan").unwrap().id;
    let (gateway, mac) = (IpAddr::from([198, 51, 100, 8]), Mac([2, 0, 0, 0, 0, 0x28]));
    assert!(tables.resolve(out, gateway, mac));
    let hop = tables.adjacency_for(out, gateway).unwrap();
    let change = RouteChange {
        vrf: VrfId::MAIN,
        prefix: "198.51.100.8/30".parse().unwrap(),
        origin: Origin::Static,
        outcome: Outcome::Via(hop),
    };
    tables.apply_routes([change]).unwrap();
    let more = RouteChange { prefix: "198.51.100.9/32".parse().unwrap(), ..change };
    tables.apply_routes([more]).unwrap();
    let after = neighbours(&mut node);
    assert_eq!(after.len(), 100);
    assert!(after.iter().all(|neighbour| *neighbour == mac), "{after:?}");
}

#[test]
fn set_that_changes_selects_the_path_of_the_next_packet() {
    let mut node = node();
    assert_eq!((neighbours(&mut node).len(), entered(&node, "marked")), (100, 0));
    let element = SetElement { value: "9000".parse().unwrap(), expires: Instant::NEVER };
    node.rig.router.sets().edit("marked", [SetEdit::Add(element)], Instant::START).unwrap();
    assert_eq!((neighbours(&mut node).len(), entered(&node, "marked")), (100, 100));
    let element = "9000".parse().unwrap();
    node.rig.router.sets().edit("marked", [SetEdit::Remove(element)], Instant::START).unwrap();
    assert_eq!((neighbours(&mut node).len(), entered(&node, "marked")), (100, 100));
}

#[test]
fn generation_without_the_path_of_a_decision_uses_another() {
    let mut node = node();
    let element = SetElement { value: "9000".parse().unwrap(), expires: Instant::NEVER };
    node.rig.router.sets().edit("marked", [SetEdit::Add(element)], Instant::START).unwrap();
    assert_eq!((neighbours(&mut node).len(), entered(&node, "marked")), (100, 100));
    node.rig.apply(CONFIG).unwrap_or_else(|errors| panic!("{errors:?}"));
    assert_eq!(neighbours(&mut node).len(), 100);
    let counters = node.report("a").counters;
    assert_eq!((counters.forwarded, counters.route_drops), (200, 0));
}

#[test]
fn route_by_another_port_drops_the_next_packet() {
    let mut node = node();
    assert_eq!(neighbours(&mut node).len(), 100);
    let tables = node.rig.router.tables().clone();
    let lan = node.rig.router.snapshot().interface_named("lan").unwrap().id;
    let hop = tables.adjacency_for(lan, IpAddr::from([192, 0, 2, 7])).unwrap();
    let prefix = "198.51.100.9/32".parse().unwrap();
    let change = RouteChange { vrf: VrfId::MAIN, prefix, origin: Origin::Static, outcome: Outcome::Via(hop) };
    tables.apply_routes([change]).unwrap();
    assert_eq!(neighbours(&mut node).len(), 0);
    tables.clear_route(prefix, Origin::Static);
    assert_eq!(neighbours(&mut node).len(), 100);
    let counters = node.report("a").counters;
    assert_eq!((counters.forwarded, counters.route_drops), (200, 100));
}

#[test]
fn mtu_that_shrinks_ends_the_next_packet() {
    let mut node = node();
    assert_eq!(neighbours(&mut node).len(), 100);
    let tables = node.rig.router.tables().clone();
    let wan = node.rig.router.snapshot().interface_named("wan").unwrap().id;
    tables.set_link_mtu(wan, Some(29));
    assert_eq!(neighbours(&mut node).len(), 0, "an outer packet has 30 bytes");
    tables.set_link_mtu(wan, Some(30));
    assert_eq!(neighbours(&mut node).len(), 100);
    let counters = node.report("a").counters;
    assert_eq!((counters.forwarded, counters.exceptions + counters.lost_exceptions), (200, 100));
}
