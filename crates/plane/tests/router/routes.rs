//! Routes of every kind through a router in memory: several next hops, VRFs, and changes while it runs.

use fib::{Origin, Outcome};
use packet::DropReason;
use plan::batch::batch;
use plane::rig::{Rig, UdpFrame};
use plane::snapshot::Layout;
use plane::{EditError, EditSummary};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use units::{Mac, VrfId};

/// Port `in` leads to the senders; behind each of `a`, `b` and `c` is a router, and behind `red` another network with the
/// same addresses.
const CONFIG: &str = r#"
version = 1
[port.in]
device = "memory:in"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
[port.a]
device = "memory:a"
address = ["198.51.100.1/26"]
[port.b]
device = "memory:b"
address = ["198.51.100.65/26"]
[port.c]
device = "memory:c"
address = ["198.51.100.129/26"]
[port.red]
device = "memory:red"
mac = "02:00:00:00:00:02"
vrf = "red"
address = ["192.0.2.1/24"]
[port.redder]
device = "memory:redder"
vrf = "red"
address = ["198.51.100.1/26"]
"#;

const NEIGHBOURS: &str = r#"
[[neighbour]]
address = "198.51.100.2"
mac = "02:00:00:00:00:0a"
port = "a"
[[neighbour]]
address = "198.51.100.66"
mac = "02:00:00:00:00:0b"
port = "b"
[[neighbour]]
address = "198.51.100.130"
mac = "02:00:00:00:00:0c"
port = "c"
[[neighbour]]
address = "198.51.100.2"
mac = "02:00:00:00:00:0d"
port = "redder"
"#;

const ALL: &str = "[[route]]\nto = '10.0.0.0/8'\nvia = ['198.51.100.2', '198.51.100.66', '198.51.100.130']\n";
const IN: Mac = Mac([2, 0, 0, 0, 0, 1]);
const RED: Mac = Mac([2, 0, 0, 0, 0, 2]);
const FLOWS: u16 = 600;

fn running(more: &str) -> Rig {
    Rig::running(8192, Layout::Three, &format!("{CONFIG}{NEIGHBOURS}{more}"))
}

fn udp(to: Mac, destination: [u8; 4], flow: u16) -> Vec<u8> {
    let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::from(destination));
    let link = (Mac([2, 0, 0, 0, 0, 0xaa]), to);
    UdpFrame { link, network, ports: (1000 + flow, 53), ttl: 64, length: 60 }.frame(&[])
}

/// Sends a packet of each flow. Returns the wire by which each left.
fn spread(rig: &mut Rig) -> BTreeMap<u16, &'static str> {
    (0..FLOWS).for_each(|flow| rig.send("in", &udp(IN, [10, 1, 2, 3], flow)));
    rig.settle();
    let mut left = BTreeMap::new();
    for wire in ["a", "b", "c"] {
        for frame in rig.received(wire).into_iter().filter(|frame| frame[12..14] == [8, 0]) {
            let flow = u16::from_be_bytes([frame[34], frame[35]]) - 1000;
            assert!(left.insert(flow, wire).is_none(), "flow {flow} left twice");
        }
    }
    left
}

fn count(left: &BTreeMap<u16, &str>, wire: &str) -> usize {
    left.values().filter(|&&other| other == wire).count()
}

fn edit(rig: &mut Rig, text: &str) -> Result<EditSummary, Vec<EditError>> {
    let plan = rig.router.plan().unwrap().clone();
    let batch = batch(text, "changes", &plan).unwrap_or_else(|found| panic!("{found}"));
    let edits = rig.router.prepare_edits(&batch.lines, 100)?;
    let summary = rig.router.apply_edits(edits, |_| {});
    rig.settle();
    Ok(summary)
}

fn dropped(rig: &Rig, reason: DropReason) -> u64 {
    rig.report().ledger.dropped_for(reason)
}

#[test]
fn flows_spread_over_next_hops_and_each_keeps_its_own() {
    let mut rig = running(ALL);
    let first = spread(&mut rig);
    assert_eq!(first.len(), usize::from(FLOWS));
    for wire in ["a", "b", "c"] {
        // Four standard deviations of a third of 600.
        assert!((154..=246).contains(&count(&first, wire)), "{wire}: {}", count(&first, wire));
    }
    assert_eq!(spread(&mut rig), first);
    // The weighted next hop gets a larger share for each key.
    let weighted = ALL.replace("'198.51.100.2'", "'198.51.100.2 weight 6'");
    rig.apply(&format!("{CONFIG}{NEIGHBOURS}{weighted}")).unwrap();
    let now = spread(&mut rig);
    assert!((402..=498).contains(&count(&now, "a")), "{}", count(&now, "a"));
    assert!(now.iter().all(|(flow, wire)| first[flow] == *wire || *wire == "a"), "only towards the larger share");
}

#[test]
fn removed_next_hop_moves_only_its_own_flows() {
    let mut rig = running(ALL);
    let first = spread(&mut rig);
    let two = "[[route]]\nto = '10.0.0.0/8'\nvia = ['198.51.100.2', '198.51.100.130']\n";
    rig.apply(&format!("{CONFIG}{NEIGHBOURS}{two}")).unwrap();
    let now = spread(&mut rig);
    assert_eq!(count(&now, "b"), 0);
    assert!(now.iter().all(|(flow, wire)| first[flow] == *wire || first[flow] == "b"));
}

/// The packets that wait for next hops.
fn waiting(rig: &Rig) -> usize {
    rig.report().neighbours.iter().map(|neighbour| neighbour.pending).sum()
}

#[test]
fn new_route_takes_flow_from_next_hop_that_does_not_answer() {
    // No host has the address 198.51.100.3.
    let mut rig = running("[[route]]\nto = '10.0.0.0/8'\nvia = '198.51.100.3'\n");
    rig.send("in", &udp(IN, [10, 1, 2, 3], 1));
    rig.send("in", &udp(IN, [10, 2, 2, 3], 2));
    rig.send("in", &udp(IN, [10, 1, 2, 3], 3));
    rig.settle();
    assert_eq!(waiting(&rig), 3);
    edit(&mut rig, "add 10.1.0.0/16 via 198.51.100.66").unwrap();
    rig.send("in", &udp(IN, [10, 1, 2, 3], 4));
    rig.settle();
    let left: Vec<u8> = rig
        .received("b")
        .iter()
        .filter(|frame| frame[12..14] == [8, 0])
        .map(|frame| (u16::from_be_bytes([frame[34], frame[35]]) - 1000) as u8)
        .collect();
    assert_eq!(left, [1, 3, 4], "in order, with those that have waited");
    assert_eq!(waiting(&rig), 1, "the other destination still waits");
    // Without another packet: with the next request.
    edit(&mut rig, "add 10.2.0.0/16 via 198.51.100.130").unwrap();
    rig.advance(units::Nanos::millis(1100));
    rig.settle();
    assert_eq!((rig.received("c").len(), waiting(&rig)), (1, 0));
}

#[test]
fn next_hop_is_skipped_while_its_port_is_down() {
    let mut rig = running(ALL);
    let first = spread(&mut rig);
    let far = rig.wires.far.remove("b").unwrap();
    drop(far);
    rig.advance(units::Nanos::millis(300));
    (0..FLOWS).for_each(|flow| rig.send("in", &udp(IN, [10, 1, 2, 3], flow)));
    rig.settle();
    let mut seen = 0;
    for wire in ["a", "c"] {
        for frame in rig.received(wire).into_iter().filter(|frame| frame[12..14] == [8, 0]) {
            let flow = u16::from_be_bytes([frame[34], frame[35]]) - 1000;
            assert!(
                first[&flow] == wire || first[&flow] == "b",
                "flow {flow} was with {} and is with {wire}",
                first[&flow]
            );
            seen += 1;
        }
    }
    assert_eq!((seen, dropped(&rig, DropReason::PortDown)), (FLOWS, 0));
}

#[test]
fn unreachable_next_hop_is_skipped_and_probed_until_it_answers() {
    // No neighbour is resolved yet: the hosts behind `a` and `c` answer, the one behind `b` does not.
    let mut rig = Rig::running(8192, Layout::Three, &format!("{CONFIG}{ALL}"));
    let answer = |rig: &mut Rig, wire: &str, own: [u8; 4], mac: u8| {
        for frame in rig.received(wire).into_iter().filter(|f| f[12..14] == [8, 6] && f[38..42] == own) {
            let mut reply = frame.clone();
            reply[..6].copy_from_slice(&frame[6..12]);
            reply[6..12].copy_from_slice(&[2, 0, 0, 0, 0, mac]);
            reply[20..22].copy_from_slice(&[0, 2]);
            reply[22..28].copy_from_slice(&[2, 0, 0, 0, 0, mac]);
            reply[28..32].copy_from_slice(&own);
            reply[32..38].copy_from_slice(&frame[22..28]);
            reply[38..42].copy_from_slice(&frame[28..32]);
            rig.send(wire, &reply);
        }
        rig.settle();
    };
    spread(&mut rig);
    for _ in 0..50 {
        rig.advance(units::Nanos::millis(100));
        answer(&mut rig, "a", [198, 51, 100, 2], 10);
        answer(&mut rig, "c", [198, 51, 100, 130], 12);
    }
    let without = spread(&mut rig);
    assert_eq!(
        (without.len(), count(&without, "b")),
        (usize::from(FLOWS), 0),
        "left out once it was known to be silent"
    );
    // The router keeps resolving the next hop without packets for it.
    for _ in 0..80 {
        rig.advance(units::Nanos::millis(100));
        answer(&mut rig, "a", [198, 51, 100, 2], 10);
        answer(&mut rig, "b", [198, 51, 100, 66], 11);
        answer(&mut rig, "c", [198, 51, 100, 130], 12);
    }
    let with = spread(&mut rig);
    assert!(count(&with, "b") > 150, "{}", count(&with, "b"));
    assert!(with.iter().all(|(flow, wire)| without[flow] == *wire || *wire == "b"));
}

#[test]
fn fragments_of_a_packet_use_one_next_hop() {
    let mut rig = running(ALL);
    for flow in 0..50 {
        let mut frame = udp(IN, [10, 1, 2, 3], flow);
        let place = if flow % 2 == 0 { 0x2000u16 } else { 185 };
        frame[20..22].copy_from_slice(&place.to_be_bytes());
        frame[24..26].fill(0);
        let sum = packet::wire::checksum::checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        rig.send("in", &frame);
    }
    rig.settle();
    let ways: Vec<usize> = ["a", "b", "c"].map(|wire| rig.received(wire).len()).to_vec();
    assert_eq!(ways.iter().filter(|&&packets| packets > 0).sum::<usize>(), 50, "{ways:?}");
}

#[test]
fn vrfs_are_isolated() {
    let more = "[[route]]\nvrf = 'red'\nto = '10.0.0.0/8'\nvia = '198.51.100.2'\n\
                [[route]]\nto = '10.0.0.0/8'\nvia = '198.51.100.66'\n\
                [[route]]\nvrf = 'red'\nto = '172.16.0.0/12'\nvia = '198.51.100.130'\nport = 'c'\nleak = true\n";
    let mut rig = running(more);
    rig.send("in", &udp(IN, [10, 1, 2, 3], 1));
    rig.send("red", &udp(RED, [10, 1, 2, 3], 2));
    rig.send("red", &udp(RED, [172, 16, 0, 1], 3));
    rig.settle();
    let flows = |rig: &mut Rig, wire: &str| -> Vec<u8> { rig.received(wire).iter().map(|frame| frame[35]).collect() };
    let low = |flow: u16| (1000 + flow) as u8;
    assert_eq!(flows(&mut rig, "b"), [low(1)]);
    assert_eq!(flows(&mut rig, "redder"), [low(2)]);
    assert_eq!(flows(&mut rig, "c"), [low(3)], "a route may lead out where that is said");
    assert_eq!(flows(&mut rig, "a"), [0; 0]);
    // 172.16/12 is not in the main VRF; a local address of one VRF is unknown in the other.
    rig.send("in", &udp(IN, [172, 16, 0, 1], 4));
    rig.send("red", &udp(RED, [198, 51, 100, 129], 5));
    rig.settle();
    assert_eq!(dropped(&rig, DropReason::NoRoute), 2);
    // ICMP errors leave by the port on which the packets arrived.
    let errors = |frames: Vec<Vec<u8>>| frames.iter().filter(|f| f[12..14] == [8, 0] && f[23] == 1).count();
    let asked = |rig: &mut Rig, wire: &str| rig.received(wire).iter().filter(|f| f[12..14] == [8, 6]).count();
    assert_eq!(asked(&mut rig, "in") + asked(&mut rig, "red"), 2, "both senders are looked for, each on its own wire");
    assert_eq!(errors(rig.received("redder")), 0);
    let red = rig.router.vrf("red").unwrap();
    assert!(rig.router.tables().vrf(red).unwrap().bytes() < 64 << 10);
}

#[test]
fn packet_of_a_vrf_waits_for_the_next_hop_of_its_vrf() {
    // The main VRF has a route to the same destination, whose next hop is known.
    let more = "[[route]]\nvrf = 'red'\nto = '10.0.0.0/8'\nvia = '198.51.100.3'\n\
                [[route]]\nto = '10.0.0.0/8'\nvia = '198.51.100.66'\n";
    let mut rig = running(more);
    rig.received("redder");
    rig.send("red", &udp(RED, [10, 1, 2, 3], 1));
    rig.settle();
    let asked = |frame: &Vec<u8>| frame[12..14] == [8, 6] && frame[38..42] == [198, 51, 100, 3];
    assert_eq!(rig.received("redder").iter().filter(|frame| asked(frame)).count(), 1);
    edit(&mut rig, "neighbour add 198.51.100.3 mac 02:00:00:00:00:0e port redder\n").unwrap();
    rig.settle();
    assert_eq!(rig.received("redder").iter().filter(|frame| frame[12..14] == [8, 0]).count(), 1);
    assert_eq!(dropped(&rig, DropReason::NeighbourFailed), 0);
}

#[test]
fn a_port_may_move_to_another_vrf_and_back() {
    let more = "[[route]]\nto = '10.0.0.0/8'\nvia = '198.51.100.66'\n";
    let mut rig = running(more);
    let moved = format!("{CONFIG}{NEIGHBOURS}{more}").replace("memory:in\"", "memory:in\"\nvrf = \"blue\"");
    rig.apply(&moved).unwrap();
    rig.send("in", &udp(IN, [10, 1, 2, 3], 1));
    rig.settle();
    assert_eq!((rig.received("b").len(), dropped(&rig, DropReason::NoRoute)), (0, 1));
    rig.apply(&format!("{CONFIG}{NEIGHBOURS}{more}")).unwrap();
    rig.received("b");
    rig.send("in", &udp(IN, [10, 1, 2, 3], 1));
    rig.settle();
    assert_eq!(rig.received("b").iter().filter(|f| f[12..14] == [8, 0]).count(), 1);
    let blue = rig.router.vrf("blue").unwrap();
    assert_eq!(rig.router.tables().vrf(blue).unwrap().nodes(), (0, 0), "nothing of it is left");
}

#[test]
fn routes_and_neighbours_change_at_run_time() {
    let mut rig = Rig::running(8192, Layout::Three, &format!("{CONFIG}{NEIGHBOURS}").replace("66", "67"));
    let lines = "add 10.0.0.0/8 via 198.51.100.66\nneighbour add 198.51.100.66 mac 02:00:00:00:00:0b port b\n";
    let summary = edit(&mut rig, lines).unwrap();
    assert_eq!((summary.routes_added, summary.neighbours_added), (1, 1));
    assert_eq!(count(&spread(&mut rig), "b"), usize::from(FLOWS));
    edit(&mut rig, "add 10.0.0.0/8 via 198.51.100.2 via 198.51.100.66\n").unwrap();
    let both = spread(&mut rig);
    assert!(count(&both, "a") > 200 && count(&both, "b") > 200, "{both:?}");
    edit(&mut rig, "del 10.0.0.0/8\nneighbour del 198.51.100.66 port b\n").unwrap();
    assert_eq!(spread(&mut rig).len(), 0);
    assert_eq!(rig.router.tables().groups_in_use(), 0);
}

#[test]
fn batch_with_an_invalid_line_changes_nothing() {
    let mut rig = running("[[route]]\nto = '10.9.0.0/16'\nblackhole = true\n");
    let lines = "add 10.0.0.0/8 blackhole\ndel 10.9.0.0/16\ndel 10.0.0.0/8\ndel 10.0.0.0/8\n\
                 neighbour add 198.51.100.2 mac 02:00:00:00:00:0f port a\nneighbour del 198.51.100.3 port a\n";
    let errors = edit(&mut rig, lines).unwrap_err();
    assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [2, 4, 5, 6], "{errors:?}");
    assert!(errors[0].hint.contains("configuration"), "{errors:?}");
    let route = rig.router.tables().route(VrfId::MAIN, "10.0.0.0/8".parse().unwrap(), Origin::Api);
    assert_eq!(route, Outcome::NoRoute);
}

#[test]
fn added_routes_survive_reload_while_their_interface_exists() {
    let mut rig = running("");
    let lines = "add 10.0.0.0/8 via 198.51.100.2 via 198.51.100.66\nadd 10.1.0.0/16 via 198.51.100.66\n\
                 add vrf red 10.0.0.0/8 blackhole\nadd 10.2.0.0/16 blackhole\n";
    edit(&mut rig, lines).unwrap();
    let tables = rig.router.tables().clone();
    let of = |vrf, to: &str| tables.route(vrf, to.parse().unwrap(), Origin::Api);
    let red = rig.router.vrf("red").unwrap();
    rig.apply(&format!("{CONFIG}{NEIGHBOURS}[router]\nicmp_rate = 7\n")).unwrap();
    assert!(matches!(of(VrfId::MAIN, "10.0.0.0/8"), Outcome::Group(_)));
    // A configured route shadows the API's route to the same destination, and uncovers it when removed.
    let own = "[[route]]\nto = '10.2.0.0/16'\nunreachable = true\n";
    rig.apply(&format!("{CONFIG}{NEIGHBOURS}{own}")).unwrap();
    assert_eq!(tables.lookup("10.2.0.1".parse().unwrap()), Outcome::Unreachable);
    assert_eq!(edit(&mut rig, "add 10.2.0.0/16 blackhole\n").unwrap().routes_shadowed, 1);
    rig.apply(&format!("{CONFIG}{NEIGHBOURS}")).unwrap();
    assert_eq!(tables.lookup("10.2.0.1".parse().unwrap()), Outcome::Blackhole);
    // Removing port b removes its routes. Then the VRF is removed.
    let (start, end) = (CONFIG.find("[port.b]").unwrap(), CONFIG.find("[port.c]").unwrap());
    let without = format!("{}{}", &CONFIG[..start], &CONFIG[end..]);
    rig.apply(&without).unwrap();
    assert_eq!(of(VrfId::MAIN, "10.1.0.0/16"), Outcome::NoRoute);
    let Outcome::Group(group) = of(VrfId::MAIN, "10.0.0.0/8") else { panic!("the other member is still there") };
    assert_eq!(tables.members(group).len(), 1);
    assert_eq!(of(red, "10.0.0.0/8"), Outcome::Blackhole);
    rig.apply(&without[..without.find("[port.red]").unwrap()]).unwrap();
    assert_eq!(of(red, "10.0.0.0/8"), Outcome::NoRoute);
    edit(&mut rig, "add 10.3.0.0/16 blackhole\nflush\nadd 10.4.0.0/16 blackhole\n").unwrap();
    assert_eq!(of(VrfId::MAIN, "10.0.0.0/8"), Outcome::NoRoute);
    assert_eq!(
        (of(VrfId::MAIN, "10.3.0.0/16"), of(VrfId::MAIN, "10.4.0.0/16")),
        (Outcome::NoRoute, Outcome::Blackhole)
    );
}
