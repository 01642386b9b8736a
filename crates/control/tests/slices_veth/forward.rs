//! Packets, counters and rates of two slices.

use crate::site::{SHARED_PATH, Site, WAN, inner, without_stall};
use io::clock;
use io::thread_priority::NicePriority;
use io::wait::{Sleeper, Waker};
use packet::wire::Ipv4;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use units::Nanos;

/// Bytes of a payload under overload, and of its frame on the link: spec S-22, without the tag of a VLAN.
const PAYLOAD: usize = 972;
const ON_LINK: u64 = PAYLOAD as u64 + 98 - 4;
/// Packets of each slice in a millisecond: 77 and 34 Mbit/s.
const OFFERED: [usize; 2] = [9, 4];
/// Seconds in which the rates are measured, until the machine has not stalled in one.
const ATTEMPTS: usize = 10;

/// The parts run one after the other: each needs the machine.
#[test]
fn slices_forward_between_sockets_of_the_kernel() {
    let Some(site) = Site::new(SHARED_PATH, None, "unmatched drop") else { return };
    packets_arrive_with_outer_headers_of_the_slice(&site);
    reservations_hold_under_overload(&site);
    site.daemon.stop();
}

fn packets_arrive_with_outer_headers_of_the_slice(site: &Site) {
    const PACKETS: u8 = 100;
    for number in 0..PACKETS {
        for (slice, socket) in site.near.iter().enumerate() {
            socket.send(&inner([10, 0, 3, 4], &[slice as u8, number])).unwrap();
        }
        // No filter matches it.
        site.near[0].send(&inner([10, 1, 3, 4], &[number])).unwrap();
        for (slice, socket) in site.far.iter().enumerate() {
            let mut bytes = [0; 2000];
            let (length, from) = socket.recv_from(&mut bytes).unwrap();
            assert_eq!(from, SocketAddr::from((WAN, 20_000 + slice as u16)));
            let packet = Ipv4::parse(&bytes[..length]).expect("the header and its checksum are right");
            assert_eq!((packet.header.ttl(), packet.header.destination()), (8, Ipv4Addr::new(10, 0, 3, 4)));
            assert_eq!(packet.payload[8..], [slice as u8, number]);
        }
    }
    let packets = u64::from(PACKETS);
    let [a, b] = ["a", "b"].map(|name| site.slice(name));
    let counters = &a.counters.0;
    assert_eq!((counters.received, counters.forwarded, counters.policy_drops), (2 * packets, packets, packets));
    let counters = &b.counters.0;
    assert_eq!((counters.received, counters.forwarded), (packets, packets));
    for slice in [a, b] {
        assert_eq!((slice.queues[0].packets, slice.queues[0].dropped_packets), (packets, 0));
    }
}

/// Both slices get more packets than they may send: each sends at its reserved rate.
fn reservations_hold_under_overload(site: &Site) {
    let is_over = AtomicBool::new(false);
    let rates = thread::scope(|scope| {
        for (slice, offered) in OFFERED.into_iter().enumerate() {
            let (near, far, is_over) = (&site.near[slice], &site.far[slice], &is_over);
            far.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            scope.spawn(move || {
                let mut bytes = [0; 2000];
                while !is_over.load(Relaxed) {
                    _ = far.recv(&mut bytes);
                }
            });
            scope.spawn(move || {
                let _first = NicePriority::acquire().ok();
                let packet = inner([10, 0, 3, 4], &[0; PAYLOAD]);
                let mut sleeper = Sleeper::new(Waker::new().unwrap());
                let mut due = clock::now();
                while !is_over.load(Relaxed) {
                    (0..offered).for_each(|_| _ = near.send(&packet));
                    due += Nanos::millis(1);
                    sleeper.sleep([], due.since(clock::now())).unwrap();
                }
            });
        }
        let mut sleeper = Sleeper::new(Waker::new().unwrap());
        sleeper.sleep([], Nanos::millis(400)).unwrap();
        let sent = |name: &str| (clock::now(), site.slice(name).queues[0].packets);
        let rates = without_stall(ATTEMPTS, || {
            let before = ["a", "b"].map(sent);
            sleeper.sleep([], Nanos::secs(1)).unwrap();
            let after = ["a", "b"].map(sent);
            [0, 1].map(|slice| {
                let ((began, before), (ended, after)) = (before[slice], after[slice]);
                ((after - before) * ON_LINK * 8) as f64 / ended.since(began).as_secs_f64() / 1e6
            })
        });
        is_over.store(true, Relaxed);
        rates
    });
    let Some(rates) = rates else { return println!("this machine has stalled in each second") };
    println!("under overload: {:.2} and {:.2} Mbit/s of 60 and 20", rates[0], rates[1]);
    for (rate, expected) in rates.into_iter().zip([60.0, 20.0]) {
        assert!((rate / expected - 1.0).abs() < 0.05, "a slice sends {rate:.2} Mbit/s of {expected}");
    }
    for name in ["a", "b"] {
        let slice = site.slice(name);
        let (c, queue) = (slice.counters.0, &slice.queues[0]);
        assert!(queue.dropped_packets > 0, "the slice was overloaded: {queue:?}");
        assert_eq!(c.received, c.forwarded + c.policy_drops, "{c:?}");
        // Packets between the function and the queue are on the path `best-effort`.
        let counted = queue.packets + queue.dropped_packets + queue.waiting_packets;
        assert!(c.forwarded.abs_diff(counted) < 4096, "{c:?} {queue:?}");
    }
}
