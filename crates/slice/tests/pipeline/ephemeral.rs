//! Slices whose packets carry instructions of ephemeral state: each has a store of its own.

use crate::node::{Node, filter, spec, to_wan};
use esp::isa::StateInstruction;
use esp::wire::{Addresses, Carriages, Locations, Part, dedicated};
use slice::code::CodeConfig;
use slice::{CodeSwap, SliceQuota, SliceSpec};
use std::net::Ipv4Addr;
use units::{Bytes, Nanos};

/// A packet of the overlay that counts under a tag, and is forwarded the first two times.
fn counts(tag: u64, locations: Locations) -> Vec<u8> {
    let instruction = StateInstruction::Count { counter: tag, threshold: 2, inclusive: true };
    let part = Part { locations, error: false, piggybacked: false, trace: false, computation: 7, instruction };
    let addresses = Addresses::V4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 2, 0, 1));
    dedicated(&Carriages::default(), addresses, &part)
}

/// Two slices with the code option `esp`, which send all packets to `wan`.
fn two_slices() -> Node {
    let mut node = Node::new();
    for (name, port) in [("a", 20_000), ("b", 20_100)] {
        node.slices.create(SliceSpec { code: "esp".into(), ..spec(name) }).unwrap();
        node.furnish(name, port);
        node.insert(name, 0, filter(b"", to_wan(1)));
    }
    node
}

#[test]
fn slices_share_no_tag_of_ephemeral_state() {
    let mut node = two_slices();
    let sent = |node: &mut Node, port: u16, packet: &[u8]| {
        node.send(port, packet);
        node.received().len()
    };
    let packet = counts(5, Locations::CENTRAL);
    assert_eq!([1, 2, 3, 4].map(|_| sent(&mut node, 20_000, &packet)), [1, 1, 0, 0]);
    assert_eq!(
        [1, 2, 3].map(|_| sent(&mut node, 20_100, &packet)),
        [1, 1, 0],
        "the other slice counts from the beginning"
    );
    assert_eq!(sent(&mut node, 20_000, &counts(6, Locations::CENTRAL)), 1, "another tag");
    // A slice is the centre: instructions for ports pass it.
    assert_eq!([1, 2, 3].map(|_| sent(&mut node, 20_000, &counts(8, Locations::INPUT))), [1; 3]);
    let report = node.report("a");
    assert_eq!((report.counters.forwarded, report.counters.policy_drops), (6, 2));
    // The state stays when words of the memory change at once, and when the code option is started anew.
    node.slices.stage_memory("a", 0, vec![1]).unwrap();
    node.slices.commit_memory("a").unwrap();
    node.slices.set_code("a", ("esp", CodeConfig::default()), CodeSwap::Drain).unwrap();
    assert_eq!(sent(&mut node, 20_000, &packet), 0);
    // It ends after ten seconds.
    node.rig.advance(Nanos::secs(11));
    drop(node.rig.received("wan"));
    assert_eq!(sent(&mut node, 20_000, &packet), 1);
}

#[test]
fn store_of_a_slice_is_within_its_memory() {
    let mut node = two_slices();
    let quota = SliceQuota { memory: Bytes::new(1 << 10), ..spec("c").quota };
    let error = node.slices.create(SliceSpec { code: "esp".into(), quota, ..spec("c") }).unwrap_err();
    assert!(error.reason.contains("the code option 'esp' needs 16384 bytes of memory"), "{error}");
    // More tags than the store of 64 KiB has room for: packets pass with the mark of an error, and none is lost.
    for tag in 0..3000 {
        node.rig.send("lan", &crate::node::frame(20_000, &counts(tag, Locations::CENTRAL)));
        if tag % 50 == 0 {
            node.rig.advance(Nanos::millis(5));
        }
    }
    node.rig.advance(Nanos::millis(50));
    let arrived = node.arrived();
    let marked = arrived.iter().filter(|(_, packet)| Part::read(&packet[20..]).unwrap().error).count();
    assert_eq!((arrived.len(), node.report("a").counters.forwarded), (3000, 3000));
    assert!((500..2900).contains(&marked), "{marked} are not executed");
    node.send(20_100, &counts(1, Locations::CENTRAL));
    let (_, packet) = node.received().remove(0);
    assert!(!Part::read(&packet[20..]).unwrap().error, "the other slice has room");
}
