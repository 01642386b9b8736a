//! Filters of slices: order, isolation, queues by the slice's own numbers, and changes as a whole.

use crate::node::{Node, filter, spec, to_wan};
use classifier::{KeyRange, TenantFilters};
use slice::code::ExceptionCode;
use slice::{FilterAction, FilterEdit, FilterSpec, SliceError, SliceQuota, SliceSpec, Slices};
use std::net::Ipv4Addr;

fn reason(result: Result<Vec<u32>, SliceError>) -> String {
    result.unwrap_err().reason
}

/// Sends by queue `queue` to the host at `wan`, with a mark in the last byte.
fn marked(queue: u16, mark: u8) -> FilterAction {
    let FilterAction::Send { interface, next, .. } = to_wan(queue) else { unreachable!() };
    FilterAction::Send { queue, interface, next, data: [mark; 32] }
}

fn marks(node: &mut Node) -> Vec<u8> {
    node.received().into_iter().map(|(_, payload)| *payload.last().unwrap()).collect()
}

#[test]
fn tcam_priority_first_match() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    // Inserted in no order: the position decides.
    node.insert("a", 30, filter(b"", marked(1, 3)));
    node.insert("a", 10, filter(b"ab", marked(1, 1)));
    node.insert("a", 20, filter(b"a", marked(1, 2)));
    ["ab.", "ac.", "bb."].into_iter().for_each(|payload| node.send(20_000, payload.as_bytes()));
    assert_eq!(marks(&mut node), [1, 2, 3]);
    node.slices.edit_filters("a", &[FilterEdit::Delete(10)]).unwrap();
    node.insert("a", 5, filter(b"b", marked(1, 5)));
    ["ab.", "ac.", "bb."].into_iter().for_each(|payload| node.send(20_000, payload.as_bytes()));
    assert_eq!(marks(&mut node), [2, 2, 5]);
    let hits: Vec<_> = node.slices.filters("a", 0, 9).unwrap().iter().map(|f| (f.position, f.hits)).collect();
    assert_eq!(hits, [(5, 1), (20, 3), (30, 1)]);
}

/// Equal keys of two slices, and equal positions: neither sees the other's filters.
#[test]
fn tcam_slice_id_hidden() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.slice("b", 20_100);
    node.insert("a", 0, filter(b"key", marked(1, 1)));
    node.send(20_100, b"key.");
    assert_eq!((marks(&mut node), node.exceptions("b")), (vec![], vec![ExceptionCode::NoMatch]));
    node.insert("b", 0, filter(b"key", marked(1, 2)));
    node.send(20_000, b"key.");
    node.send(20_100, b"key.");
    assert_eq!(marks(&mut node), [1, 2]);
    node.slices.edit_filters("a", &[FilterEdit::Delete(0)]).unwrap();
    node.send(20_100, b"key.");
    assert_eq!(marks(&mut node), [2]);
    assert_eq!(node.slices.filters("a", 0, 9).unwrap().len(), 0);
}

#[test]
fn queue_id_remap_no_foreign() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.slice("b", 20_100);
    node.queue("b", 2, 1);
    let insert = |node: &mut Node, name: &str, queue| {
        node.slices.edit_filters(name, &[FilterEdit::Insert(u32::from(queue), filter(&[], to_wan(queue)))])
    };
    // The same number is another queue for each slice.
    assert_eq!(insert(&mut node, "a", 1), Ok(vec![1]));
    assert_eq!(insert(&mut node, "b", 1), Ok(vec![1]));
    assert_eq!(reason(insert(&mut node, "a", 2)), "the slice has no queue 2");
    node.send(20_000, b"x");
    node.send(20_000, b"x");
    node.send(20_100, b"x");
    node.received();
    let packets = |node: &Node, name: &str| node.report(name).queues[0].counts.packets;
    assert_eq!((packets(&node, "a"), packets(&node, "b")), (2, 1));
    let used = node.slices.delete_queue(&mut node.rig.router, "a", 1);
    assert_eq!(used.unwrap_err().reason, "the filter at position 1 uses queue 1");
    assert_eq!(
        node.slices.delete_interface("a", 1).unwrap_err().reason,
        "the filter at position 1 sends by meta-interface 1"
    );
    node.slices.edit_filters("a", &[FilterEdit::Delete(1)]).unwrap();
    assert_eq!(node.slices.delete_queue(&mut node.rig.router, "a", 1), Ok(()));
    assert_eq!(reason(insert(&mut node, "a", 1)), "the slice has no queue 1");
}

#[test]
fn tcam_atomic_update() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    let edits = |first, second| [FilterEdit::Insert(first, filter(b"x", marked(1, 1))), second];
    let wrong = edits(1, FilterEdit::Delete(9));
    assert_eq!(reason(node.slices.edit_filters("a", &wrong)), "change 2: there is no filter at position 9");
    let foreign = edits(1, FilterEdit::Insert(2, filter(b"y", to_wan(5))));
    assert_eq!(reason(node.slices.edit_filters("a", &foreign)), "change 2: the slice has no queue 5");
    assert_eq!(node.report("a").filters, 0, "none of the changes was made");
    node.slices.edit_filters("a", &edits(1, FilterEdit::Insert(2, filter(b"y", marked(1, 2))))).unwrap();
    // Both change at once, and the counters of replaced filters continue.
    node.send(20_000, b"x.");
    let swap =
        [FilterEdit::Replace(1, filter(b"y", marked(1, 3))), FilterEdit::Replace(2, filter(b"x", FilterAction::Drop))];
    node.slices.edit_filters("a", &swap).unwrap();
    ["x.", "y."].into_iter().for_each(|payload| node.send(20_000, payload.as_bytes()));
    assert_eq!(marks(&mut node), [1, 3]);
    let hits: Vec<_> = node.slices.filters("a", 0, 9).unwrap().iter().map(|f| f.hits).collect();
    assert_eq!(hits, [2, 1]);
}

/// Results of replaced filters are not used for others while a worker may read them, and are used again afterwards.
#[test]
fn rows_are_reused_without_end() {
    let mut node = Node::with(Slices::new(TenantFilters::new(4)));
    node.slices.create(SliceSpec { quota: SliceQuota { filters: 4, ..spec("a").quota }, ..spec("a") }).unwrap();
    node.furnish("a", 20_000);
    node.insert("a", 0, filter(b"x", marked(1, 0)));
    for mark in 1..=100 {
        node.slices.edit_filters("a", &[FilterEdit::Replace(0, filter(b"x", marked(1, mark)))]).unwrap();
        node.send(20_000, b"x.");
        assert_eq!(marks(&mut node), [mark]);
    }
}

#[test]
fn tcam_128k_flexible_split() {
    let mut slices = Slices::default();
    slices.register_code(&crate::trial::TRIAL);
    let with = |name: &str, filters| SliceSpec { quota: SliceQuota { filters, ..spec(name).quota }, ..spec(name) };
    slices.create(with("a", 128 << 10)).unwrap();
    assert!(slices.create(with("b", 1)).is_err(), "all entries are a's");
    let mut node = Node::with(slices);
    let edits: Vec<_> = (0..128u32 << 10)
        .map(|n| FilterEdit::Insert(n, filter(&n.to_be_bytes(), FilterAction::Exception(ExceptionCode::Local))))
        .collect();
    node.slices.edit_filters("a", &edits).unwrap();
    assert_eq!(node.report("a").entries, 128 << 10);
    let one_more = FilterEdit::Insert(1 << 20, filter(b"", FilterAction::Drop));
    assert!(node.slices.edit_filters("a", &[one_more]).is_err());
    node.slices.delete(&mut node.rig.router, "a").unwrap();
    (0..64).for_each(|n| node.slices.create(with(&format!("s{n}"), 2 << 10)).unwrap());
}

#[test]
fn ranges_become_entries_and_keys_are_bounded() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    let ranges = vec![KeyRange { first_bit: 8, width: 16, low: 1, high: 1000 }];
    let range = FilterSpec { ranges, ..filter(b"r", marked(1, 1)) };
    // The prefixes of 1..=1000.
    assert_eq!(node.insert("a", 0, range.clone()), [15]);
    for number in [0u16, 1, 1000, 1001] {
        let [high, low] = number.to_be_bytes();
        node.send(20_000, &[b'r', high, low, 0]);
    }
    assert_eq!(marks(&mut node), [1, 1]);
    let ends = vec![KeyRange { first_bit: 104, width: 16, low: 1, high: 2 }];
    let mut insert = |filter| reason(node.slices.edit_filters("a", &[FilterEdit::Insert(1, filter)]));
    assert_eq!(insert(FilterSpec { ranges: ends, ..range }), "a range ends beyond the key");
    assert_eq!(insert(filter(&[0; 15], to_wan(1))), "a value of 15 and a mask of 15 bytes");
    assert_eq!(
        insert(FilterSpec { index: Some(256), ..filter(b"", to_wan(1)) }),
        "the slice has no statistics index 256"
    );
    let FilterAction::Send { queue, next, data, .. } = to_wan(1) else { unreachable!() };
    let foreign = FilterAction::Send { queue, interface: 9, next, data };
    assert_eq!(insert(filter(b"", foreign)), "the slice has no meta-interface 9");
    let next = "[2001:db8::1]:5".parse().unwrap();
    let family = FilterAction::Send { queue, interface: 1, next, data };
    let expected = format!("{}:20000 of meta-interface 1 cannot send to {next}", Ipv4Addr::new(198, 51, 100, 1));
    assert_eq!(insert(filter(b"", family)), expected);
}
