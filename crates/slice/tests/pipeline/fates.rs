//! Each packet has one fate: forwarded with new outer headers, given to the slow path, or dropped with a reason.

use crate::node::{CONFIG, LAN, Node, filter, frame, place, spec, to_wan};
use crate::trial::{AGAIN, EXCEPTION, MALFORMED, POLICY};
use packet::pool::PartialChecksum;
use packet::wire::checksum::checksum;
use packet::wire::protocol;
use packet::wire::transport::seal;
use packet::{DropReason, Offload};
use slice::code::ExceptionCode;
use slice::{FilterAction, FilterEdit, SliceError, SliceQuota, SliceSpec};
use std::net::{IpAddr, Ipv4Addr};
use units::{Nanos, PacketRate};

#[test]
fn packet_of_a_slice_leaves_with_new_outer_headers() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.insert("a", 10, filter(b"hello", to_wan(1)));
    let ttl_is_no_matter = b"hello, overlay of a slice";
    node.send(20_000, ttl_is_no_matter);
    let mut expected = ttl_is_no_matter.to_vec();
    *expected.last_mut().unwrap() = 0x5a;
    assert_eq!(node.received(), [(20_000, expected)]);
    let report = node.report("a");
    assert_eq!((report.counters.received, report.counters.forwarded), (1, 1));
    assert_eq!(report.queues[0].counts.packets, 1);
    assert_eq!(node.slices.memory("a").unwrap().load(0), Some(1), "the code option counts in its memory");
    assert_eq!(node.slices.filters("a", 0, 9).unwrap()[0].hits, 1);
    assert_eq!((node.drops(), node.rig.report().ledger.outstanding()), (vec![], 0));
}

#[test]
fn decap_unknown_port_drops() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.send(20_001, b"no slice has this port");
    // An address of the router without a meta-interface.
    let mut elsewhere = frame(20_000, b"x");
    elsewhere[30..34].copy_from_slice(&[198, 51, 100, 1]);
    elsewhere[24..26].fill(0);
    let sum = checksum(&elsewhere[14..34]);
    elsewhere[24..26].copy_from_slice(&sum.to_be_bytes());
    node.slices.delete_interface("a", 1).unwrap();
    node.rig.send("lan", &elsewhere);
    // The path matches a packet for another host too, which is forwarded.
    elsewhere[30..34].copy_from_slice(&[198, 51, 100, 9]);
    elsewhere[24..26].fill(0);
    let sum = checksum(&elsewhere[14..34]);
    elsewhere[24..26].copy_from_slice(&sum.to_be_bytes());
    node.rig.send("lan", &elsewhere);
    node.rig.settle();
    assert_eq!(node.drops(), [(DropReason::SlicePort, 2)]);
    assert_eq!(node.report("a").counters.received, 0);
    node.rig.advance(Nanos::millis(5));
    let forwarded = node.rig.received("wan");
    assert_eq!(forwarded.len(), 1);
    assert_eq!((forwarded[0][22], &forwarded[0][34..]), (elsewhere[22] - 1, &elsewhere[34..]), "one hop less");
}

#[test]
fn decap_wrong_lengths_and_checksums_drop() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.insert("a", 0, filter(b"", to_wan(1)));
    let whole = frame(20_000, b"payload");
    let sealed = |mut frame: Vec<u8>| {
        let (from, to): (IpAddr, IpAddr) = (Ipv4Addr::new(192, 0, 2, 9).into(), LAN.into());
        assert!(seal(from, to, protocol::UDP, &mut frame[34..]));
        frame
    };
    let with = |mut frame: Vec<u8>, at: usize, value: u8| {
        frame[at] = value;
        frame
    };
    // The length of UDP is beyond the packet, or below its own header; the checksum is wrong.
    for wrong in [with(whole.clone(), 39, 200), with(whole.clone(), 39, 7), with(sealed(whole.clone()), 45, 0)] {
        node.rig.send("lan", &wrong);
    }
    let fragment = with(whole.clone(), 20, 0x20);
    let mut fragment = with(fragment, 24, 0);
    fragment[25] = 0;
    let sum = checksum(&fragment[14..34]);
    fragment[24..26].copy_from_slice(&sum.to_be_bytes());
    node.rig.send("lan", &fragment);
    node.rig.settle();
    assert_eq!(node.drops(), [(DropReason::SliceHeader, 4)]);
    assert_eq!(node.received().len(), 0);
    // Right checksums, and bytes behind the message: only the message is the packet.
    node.rig.send("lan", &sealed(whole.clone()));
    node.rig.send("lan", &with(whole, 39, 8 + 3));
    node.rig.settle();
    let payloads: Vec<_> = node.received().into_iter().map(|(_, payload)| payload).collect();
    assert_eq!(payloads, [b"payloaZ".to_vec(), b"paZ".to_vec()]);
    assert!(node.report("a").counters.header_drops > 0);
}

/// A sender on this machine leaves the checksum to a network card. The outer header that the router writes has a complete one.
#[test]
fn partial_checksum_is_completed() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.insert("a", 0, filter(b"", to_wan(1)));
    let checksum = Some(PartialChecksum { start: 34, offset: 6 });
    node.rig.send_as("lan", &frame(20_000, b"partial"), Offload { checksum, ..Offload::NONE });
    node.rig.settle();
    assert_eq!(node.received().len(), 1);
}

#[test]
fn filters_drop_and_divert_packets() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.insert("a", 0, filter(b"drop", FilterAction::Drop));
    node.insert("a", 1, filter(b"local", FilterAction::Exception(ExceptionCode::Local)));
    for payload in [&b"drop it"[..], b"local", b"no filter", &[POLICY], &[MALFORMED], &[EXCEPTION, 1]] {
        node.send(20_000, payload);
    }
    assert_eq!(node.drops(), [(DropReason::SliceMalformed, 1), (DropReason::SlicePolicy, 2)]);
    let exceptions = node.slices.take_exceptions("a", 10).unwrap();
    let codes: Vec<_> = exceptions.iter().map(|exception| (exception.code, &*exception.packet)).collect();
    assert_eq!(
        codes,
        [
            (ExceptionCode::Local, &b"local"[..]),
            (ExceptionCode::NoMatch, b"no filter"),
            (ExceptionCode::Own(3), &[EXCEPTION, 1])
        ]
    );
    assert_eq!(exceptions[0].key.bytes::<6>(), *b"local\0");
    assert_eq!((node.report("a").counters.exceptions, node.rig.report().ledger.consumed()), (3, 3));
}

#[test]
fn slice_may_drop_packets_without_a_filter() {
    let mut node = Node::new();
    node.slices.create(SliceSpec { drops_unmatched: true, ..spec("a") }).unwrap();
    node.furnish("a", 20_000);
    node.send(20_000, b"no filter");
    assert_eq!(node.drops(), [(DropReason::SlicePolicy, 1)]);
    assert_eq!(node.exceptions("a"), []);
}

#[test]
fn exceptions_have_a_limit_and_a_bounded_queue() {
    let mut node = Node::new();
    let quota = SliceQuota { exceptions: PacketRate::pps(100), ..spec("a").quota };
    node.slices.create(SliceSpec { quota, ..spec("a") }).unwrap();
    node.furnish("a", 20_000);
    node.rig.advance(Nanos::secs(1));
    (0..50).for_each(|_| node.send(20_000, b"x"));
    // The packets of 100 ms at once, then one each 10 ms.
    assert_eq!(node.exceptions("a").len(), 10);
    assert_eq!(node.drops(), [(DropReason::SliceException, 40)]);
    for _ in 0..300 {
        node.rig.advance(Nanos::millis(10));
        node.send(20_000, b"x");
    }
    assert_eq!(node.exceptions("a").len(), 256, "the program of the slice did not receive them in time");
    assert_eq!(node.report("a").counters.lost_exceptions, 40 + 44);
}

#[test]
fn format_may_ask_for_one_more_look_up() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.queue("a", 7, 1);
    node.insert("a", 0, filter(&[AGAIN], to_wan(1)));
    node.insert("a", 1, filter(&[1], to_wan(7)));
    node.insert("a", 2, filter(&[2], to_wan(1)));
    node.send(20_000, &[AGAIN, 1, 0]);
    assert_eq!(node.received().len(), 1);
    assert_eq!(node.report("a").queues[1].counts.packets, 1, "the second result decides");
    // A third look-up is a fault, and so is a code option that asks for it again and again.
    node.send(20_000, &[AGAIN, 2, 0]);
    node.send(20_000, &[AGAIN, AGAIN, 0]);
    assert_eq!(node.drops(), [(DropReason::SliceFault, 2)]);
    let hits: Vec<u64> = node.slices.filters("a", 0, 9).unwrap().iter().map(|filter| filter.hits).collect();
    assert_eq!(hits, [4, 1, 1]);
}

/// A packet at another port would wait outside of the share of its slice.
#[test]
fn route_by_another_port_than_the_queue_drops() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    let next = (Ipv4Addr::new(192, 0, 2, 9), 9000).into();
    let action = FilterAction::Send { queue: 1, interface: 0, next, data: [0; 32] };
    node.insert("a", 0, filter(b"", action.clone()));
    node.send(20_000, b"x");
    let FilterAction::Send { data, .. } = action else { unreachable!() };
    let next = (Ipv4Addr::new(203, 0, 113, 1), 9000).into();
    let no_route = FilterAction::Send { queue: 1, interface: 1, next, data };
    node.slices.edit_filters("a", &[FilterEdit::Replace(0, filter(b"", no_route))]).unwrap();
    node.send(20_000, b"x");
    assert_eq!(node.drops(), [(DropReason::SliceRoute, 2)]);
    assert_eq!((node.rig.received("lan").len(), node.report("a").counters.route_drops), (0, 2));
}

#[test]
fn packet_above_the_mtu_goes_to_the_slow_path_without_outer_headers() {
    let mut node = Node::new();
    node.rig.apply(&CONFIG.replace("[port.wan]\n", "[port.wan]\nmtu = 1000\n")).unwrap();
    node.slice("a", 20_000);
    node.insert("a", 0, filter(b"", to_wan(1)));
    node.send(20_000, &[7; 1000 - 28]);
    assert_eq!(node.received()[0].1.len(), 1000 - 28);
    node.send(20_000, &[7; 1001 - 28]);
    let exceptions = node.slices.take_exceptions("a", 9).unwrap();
    assert_eq!((exceptions[0].code, exceptions[0].packet.len()), (ExceptionCode::Mtu, 1001 - 28));
    assert_eq!(exceptions[0].packet[..10], [7; 10]);
    assert_eq!((node.received().len(), node.drops()), (0, vec![]));
}

/// Both slices are on the same node: the packet passes both, and the second one sends it on.
#[test]
fn slices_of_one_node_send_to_each_other() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.slice("b", 20_100);
    let next = place(LAN, 20_100);
    let action = FilterAction::Send { queue: 1, interface: 0, next, data: [0; 32] };
    node.insert("a", 0, filter(b"", action));
    node.insert("b", 0, filter(b"", to_wan(1)));
    node.send(20_000, b"x");
    // The next hop is the node itself, which is behind no queue.
    assert_eq!(node.drops(), [(DropReason::SliceRoute, 1)]);
}

#[test]
fn meta_interface_needs_a_path_and_an_address_of_the_router() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    let mut create = |number, at| node.slices.create_interface(&node.rig.router, "a", (number, at));
    let reason = |result: Result<(), SliceError>| result.unwrap_err().reason;
    assert_eq!(reason(create(2, place(Ipv4Addr::new(192, 0, 2, 2), 1))), "192.0.2.2 is no address of the router");
    assert_eq!(reason(create(2, place(LAN, 20_000))), "192.0.2.1:20000 is meta-interface 0 of the slice");
    assert_eq!(reason(create(0, place(LAN, 20_002))), "there is a meta-interface 0 already");
    assert_eq!(create(2, place(LAN, 20_002)), Ok(()));
    node.slices.create(spec("b")).unwrap();
    let taken = node.slices.create_interface(&node.rig.router, "b", (0, place(LAN, 20_000)));
    assert_eq!(reason(taken), "192.0.2.1:20000 is in use", "the other slice is not named");
    let without = CONFIG.split("[[path]]").next().unwrap();
    node.rig.apply(without).unwrap();
    let none = node.slices.create_interface(&node.rig.router, "b", (0, place(LAN, 20_500)));
    assert_eq!(reason(none), "no path of the configuration has the function 'slice'");
}
