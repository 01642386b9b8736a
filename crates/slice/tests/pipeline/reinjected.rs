//! Packets that the slow path returns: they are processed like received ones, with a key or a queue of the slow path's choice, and their number is bounded.

use crate::node::{CONFIG, LAN, Node, filter, frame, spec, to_wan};
use crate::trial::{EXCEPTION, MALFORMED};
use packet::{DropReason, frames::UdpFrame};
use slice::code::{CodeConfig, ExceptionCode, LookupKey};
use slice::{CodeSwap, FilterAction, Reinjection, SliceException, SliceQuota, SliceSpec};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use units::{Nanos, PacketRate};

fn plain(packet: &[u8]) -> Reinjection {
    Reinjection { interface: 0, key: None, queue: None, rounds: 0, packet: packet.to_vec() }
}

impl Node {
    /// Returns packets, and the numbers of the accepted and of the limited ones.
    fn reinject(&mut self, name: &str, packets: &[Reinjection]) -> (u64, u64) {
        let returned = self.slices.reinject(&self.rig.router, name, packets, self.rig.now).unwrap();
        self.rig.settle();
        (returned.accepted.recv().unwrap(), returned.limited)
    }

    fn refusal(&self, packet: Reinjection) -> String {
        self.slices.reinject(&self.rig.router, "a", &[packet], self.rig.now).unwrap_err().reason
    }

    fn taken(&self, name: &str) -> Vec<SliceException> {
        self.slices.take_exceptions(name, 1000).unwrap()
    }
}

#[test]
fn returned_packet_is_processed_like_a_received_one() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.insert("a", 10, filter(b"hello", to_wan(1)));
    let before = node.rig.report().ledger.generated();
    assert_eq!(node.reinject("a", &[plain(b"hello x"), plain(&[MALFORMED]), plain(b"other")]), (3, 0));
    assert_eq!(node.received(), [(20_000, b"hello Z".to_vec())]);
    assert_eq!(node.exceptions("a"), [ExceptionCode::NoMatch]);
    assert_eq!(node.drops(), [(DropReason::SliceMalformed, 1)]);
    let counters = node.report("a").counters;
    assert_eq!((counters.received, counters.reinjected, counters.forwarded, counters.exceptions), (3, 3, 1, 1));
    // The bytes of the outer packet that its meta-interface would have received.
    assert_eq!(counters.received_bytes, 3 * 28 + 7 + 1 + 5);
    let ledger = node.rig.report().ledger;
    assert_eq!((ledger.generated() - before, ledger.outstanding()), (3, 0));
}

#[test]
fn returned_packet_under_way_survives_a_replaced_code_option() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.insert("a", 0, filter(b"", to_wan(1)));
    let returned = node.slices.reinject(&node.rig.router, "a", &[plain(b"x")], node.rig.now).unwrap();
    node.slices.set_code("a", ("null", CodeConfig::default()), CodeSwap::Drain).unwrap();
    node.rig.settle();
    assert_eq!((returned.accepted.recv(), node.received()), (Ok(1), vec![(20_000, b"x".to_vec())]));
}

#[test]
fn key_of_the_slow_path_replaces_the_parser() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.insert("a", 0, filter(b"by key", to_wan(1)));
    let keyed = Reinjection { key: Some(LookupKey::new(b"by key")), ..plain(&[MALFORMED, 0]) };
    node.reinject("a", &[keyed]);
    assert_eq!(node.received(), [(20_000, vec![MALFORMED, 0x5a])], "the parser would have dropped it");
    // A key that no filter matches leads to the slow path again.
    let unknown = Reinjection { key: Some(LookupKey::new(b"no filter")), interface: 1, ..plain(b"x") };
    node.reinject("a", &[unknown]);
    let exceptions = node.taken("a");
    assert_eq!((exceptions[0].key, exceptions[0].interface), (LookupKey::new(b"no filter"), 1));
}

#[test]
fn queue_of_the_slow_path_replaces_that_of_the_filter() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.queue("a", 7, 1);
    node.insert("a", 0, filter(b"", to_wan(1)));
    node.reinject("a", &[Reinjection { queue: Some(7), ..plain(b"in band") }, plain(b"as usual")]);
    assert_eq!(node.received().len(), 2);
    let packets: Vec<u64> = node.report("a").queues.iter().map(|queue| queue.counts.packets).collect();
    assert_eq!(packets, [1, 1]);
    // Queue 3 is that of another slice.
    node.slice("b", 20_100);
    node.queue("b", 3, 1);
    let foreign = Reinjection { queue: Some(3), ..plain(b"x") };
    assert_eq!(node.refusal(foreign), "the slice has no queue 3");
    // A queue that is deleted while the packet is under way.
    let packets = [Reinjection { queue: Some(7), ..plain(b"late") }];
    let returned = node.slices.reinject(&node.rig.router, "a", &packets, node.rig.now).unwrap();
    node.slices.delete_queue(&mut node.rig.router, "a", 7).unwrap();
    node.rig.settle();
    assert_eq!((returned.accepted.recv(), node.drops()), (Ok(1), vec![(DropReason::SliceRoute, 1)]));
    node.report("a");
}

#[test]
fn wrong_packets_are_refused_before_any_returns() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    assert_eq!(node.refusal(Reinjection { interface: 9, ..plain(b"x") }), "the slice has no meta-interface 9");
    assert_eq!(node.refusal(plain(b"")), "0 bytes are no packet");
    assert_eq!(node.refusal(plain(&[1; 16_385])), "16385 bytes are no packet");
    assert_eq!(node.refusal(Reinjection { rounds: 4, ..plain(b"x") }), "a packet returns at most 4 times");
    let second = [plain(b"x"), Reinjection { interface: 5, ..plain(b"x") }];
    let refused = node.slices.reinject(&node.rig.router, "a", &second, node.rig.now).unwrap_err();
    assert_eq!(refused.reason, "packet 2: the slice has no meta-interface 5");
    node.rig.settle();
    assert_eq!(node.report("a").counters.received, 0);
    assert!(node.slices.reinject(&node.rig.router, "c", &[], node.rig.now).is_err());
}

#[test]
fn packet_that_always_returns_ends() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.send(20_000, &[EXCEPTION, 1]);
    let mut rounds = Vec::new();
    // A program that returns each exception as it is.
    while let Some(exception) = node.taken("a").pop() {
        rounds.push(exception.rounds);
        let SliceException { interface, rounds, packet, .. } = exception;
        node.reinject("a", &[Reinjection { interface, rounds, ..plain(&packet) }]);
    }
    assert_eq!(rounds, [0, 1, 2, 3]);
    assert_eq!(node.drops(), [(DropReason::SliceException, 1)]);
    let counters = node.report("a").counters;
    assert_eq!((counters.received, counters.exceptions, counters.lost_exceptions), (5, 4, 1));
}

#[test]
fn returned_packets_have_the_limit_of_exceptions() {
    let mut node = Node::new();
    let quota = SliceQuota { exceptions: PacketRate::pps(100), ..spec("a").quota };
    node.slices.create(SliceSpec { quota, ..spec("a") }).unwrap();
    node.furnish("a", 20_000);
    node.insert("a", 0, filter(b"", to_wan(1)));
    node.rig.advance(Nanos::secs(1));
    let many = vec![plain(b"x"); 40];
    assert_eq!(node.reinject("a", &many), (10, 30), "the packets of a tenth of a second");
    node.rig.advance(Nanos::millis(50));
    assert_eq!(node.reinject("a", &many), (5, 35));
    let counters = node.report("a").counters;
    assert_eq!((counters.received, counters.limited_reinjections), (15, 65));
}

/// A host that copies the bytes of a returned packet sends an ordinary packet: only the record of a packet says that it returns.
#[test]
fn received_packet_is_never_a_returned_one() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.insert("a", 0, filter(b"secret", to_wan(1)));
    // Serial number 1, slice 1, meta-interface 0, queue 1, one round, with key and queue, and the key.
    let mut forged = vec![0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 1, 3];
    forged.extend(*b"secret");
    forged.resize(16 + 40, 0);
    forged.extend(*b"inner packet");
    node.send(20_000, &forged);
    // The same with the address of the router as its source.
    let own = UdpFrame { network: (LAN, LAN), ..UdpFrame::between_ports(20_000, 20_000) };
    let whole = UdpFrame { length: 42 + forged.len(), link: link_of(&frame(20_000, b"x")), ..own }.frame(&forged);
    node.rig.send("lan", &whole);
    node.rig.settle();
    assert_eq!(node.received(), []);
    let exceptions = node.taken("a");
    assert_eq!((exceptions.len(), &*exceptions[0].packet), (1, &forged[..]), "its first bytes are the key");
    assert_eq!(node.drops(), [(DropReason::MartianSource, 1)]);
    assert_eq!(node.report("a").counters.reinjected, 0);
}

/// The source and destination on the link.
fn link_of(frame: &[u8]) -> (units::Mac, units::Mac) {
    let mac = |at: usize| units::Mac(*frame[at..].first_chunk().unwrap());
    (mac(6), mac(0))
}

#[test]
fn packet_of_a_deleted_slice_does_not_reach_its_successor() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.insert("a", 0, filter(b"", to_wan(1)));
    let returned = node.slices.reinject(&node.rig.router, "a", &[plain(b"late")], node.rig.now).unwrap();
    node.slices.delete(&mut node.rig.router, "a").unwrap();
    node.slice("b", 20_000);
    node.insert("b", 0, filter(b"", to_wan(1)));
    node.rig.settle();
    assert_eq!((returned.accepted.recv(), node.received()), (Ok(1), vec![]));
    assert_eq!(node.drops(), [(DropReason::SlicePort, 1)]);
    assert_eq!(node.report("b").counters.received, 0);
}

#[test]
fn packet_returns_by_its_path_whatever_other_functions_do() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    node.insert("a", 0, filter(b"", to_wan(1)));
    // The filter in front of the slices drops what hosts send. The slow path has its own packets.
    let filtered =
        CONFIG.replace(r#"functions = ["slice"]"#, "functions = [\"filter\", \"slice\"]\nfilter = [\"drop\"]");
    node.rig.apply(&filtered).unwrap();
    node.rig.settle();
    node.send(20_000, b"x");
    node.reinject("a", &[plain(b"returned")]);
    assert_eq!(node.received().len(), 1);
    // Without the function the packet has nowhere to go.
    node.rig.apply(CONFIG.split("[[path]]").next().unwrap()).unwrap();
    node.rig.settle();
    let before: u64 = node.drops().iter().map(|(_, count)| count).sum();
    node.reinject("a", &[plain(b"returned")]);
    let after: u64 = node.drops().iter().map(|(_, count)| count).sum();
    assert_eq!((after - before, node.received().len()), (1, 0));
    assert_eq!(node.rig.report().ledger.outstanding(), 0);
}

#[test]
fn one_program_is_woken_for_exceptions_and_for_the_end() {
    let mut node = Node::new();
    node.slice("a", 20_000);
    let wakeups = Arc::new(AtomicUsize::new(0));
    let wake = |wakeups: &Arc<AtomicUsize>| {
        let wakeups = wakeups.clone();
        move || _ = wakeups.fetch_add(1, Relaxed)
    };
    let reader = node.slices.open_exceptions("a", wake(&wakeups)).unwrap();
    let second = node.slices.open_exceptions("a", || ()).unwrap_err();
    assert_eq!(second.reason, "a program receives the packets of the slow path of 'a' already");
    node.insert("a", 0, filter(b"", FilterAction::Exception(ExceptionCode::Local)));
    (0..3).for_each(|_| node.send(20_000, b"x"));
    assert_eq!((wakeups.load(Relaxed), reader.take(2).map(|taken| taken.len())), (1, Some(2)));
    assert_eq!((reader.take(9).map(|taken| taken.len()), reader.take(9).map(|taken| taken.len())), (Some(1), Some(0)));
    drop(reader);
    let next = node.slices.open_exceptions("a", wake(&wakeups)).unwrap();
    node.slices.delete(&mut node.rig.router, "a").unwrap();
    assert_eq!((wakeups.load(Relaxed), next.take(1)), (2, None));
}
