//! Tests of event floods and of readers.

use super::*;

fn numbers(log: &EventLog, since: u64) -> (Vec<u64>, u64, u64) {
    let (entries, next, missed) = log.since(since);
    (entries.iter().map(|entry| entry.sequence).collect(), next, missed)
}

fn neighbour(n: u32) -> What {
    let address = IpAddr::from(n.to_be_bytes());
    What::Neighbour { interface: InterfaceId(3), address, mac: None, state: NeighbourState::Stale }
}

#[test]
fn a_reader_gets_each_event_once_and_learns_how_many_it_missed() {
    let log = EventLog::default();
    let second = |n: u64| Instant::START + Nanos::secs(n);
    assert_eq!(numbers(&log, 0), (vec![], 1, 0));
    for i in 0..3 {
        log.push(second(i), What::Started);
    }
    assert_eq!(numbers(&log, 0), (vec![1, 2, 3], 4, 0));
    assert_eq!(numbers(&log, 3), (vec![3], 4, 0));
    assert_eq!(numbers(&log, 4), (vec![], 4, 0));
    assert_eq!(numbers(&log, u64::MAX), (vec![], 4, 0));
    for i in 3..EACH as u64 + 5 {
        log.push(second(i), What::Stopping);
    }
    let (kept, next, missed) = numbers(&log, 4);
    assert_eq!((kept.len(), kept[0], next, missed), (EACH, 6, EACH as u64 + 6, 2));
    assert_eq!(numbers(&log, 0).0[..4], [1, 2, 3, 6], "another kind pushes nothing out");
}

#[test]
fn a_flood_of_one_kind_is_counted_and_pushes_out_nothing() {
    let log = EventLog::default();
    let at = |us: u64| Instant::START + Nanos::secs(100) + Nanos::micros(us);
    log.push(at(0), What::PortLink { port: PortId(1), up: false });
    log.push(
        at(0),
        What::AddressConflict { interface: InterfaceId(3), address: IpAddr::from([10; 4]), mac: Mac::default() },
    );
    // 20,000 events a second for ten seconds, with the interval of `write_journal`.
    let mut kept = 0;
    for n in 0..200_000u32 {
        log.push(at(u64::from(n) * 50), neighbour(n));
        if n % 4000 == 0 {
            log.settle_old(at(u64::from(n) * 50));
        }
    }
    log.settle(at(10_000_000), Nanos::ZERO);
    let (entries, _, missed) = log.since(0);
    let mut left_out = 0;
    for entry in &entries {
        match &entry.what {
            What::Neighbour { .. } => kept += 1,
            What::LeftOut { count, .. } => left_out += count,
            _ => {}
        }
    }
    assert_eq!((kept + left_out, missed), (200_000, 0), "every event is listed or counted");
    assert!(entries.len() < 250, "{} entries", entries.len());
    let (first, second) = (&entries[0].what, &entries[1].what);
    assert!(matches!(first, What::PortLink { .. }) && matches!(second, What::AddressConflict { .. }));
    let last = entries.last().unwrap();
    assert_eq!(last.what.kind(), api::EventKind::Neighbour);
    assert!(last.what.text().ends_with("the last of them: 0.3.13.63 is stale"), "{}", last.what.text());
}

#[test]
fn a_port_that_flaps_silences_no_other_port() {
    let log = EventLog::default();
    for n in 0..10_000 {
        log.push(Instant::new(n), What::PortLink { port: PortId(1), up: n % 2 == 0 });
    }
    log.push(Instant::new(10_000), What::PortLink { port: PortId(2), up: false });
    let (entries, ..) = log.since(0);
    assert_eq!(entries.len() as u64, BURST + 1);
    assert!(matches!(entries.last().unwrap().what, What::PortLink { port: PortId(2), .. }));
}

#[test]
fn subjects_with_own_buckets_are_bounded() {
    let log = EventLog::default();
    for n in 0..3 * SOURCES {
        log.push(Instant::START, What::PortDrained(PortId::at(n)));
    }
    assert_eq!(log.kept.lock().sources.len(), SOURCES + 1, "and one for the rest");
    let later = Instant::START + SOURCE_FORGOTTEN + Nanos::secs(1);
    log.push(later, What::PortDrained(PortId::at(3 * SOURCES)));
    // The suppressed events of the shared bucket are still to be reported.
    assert_eq!(log.kept.lock().sources.len(), 2);
}

#[test]
fn a_waiting_reader_is_woken() {
    let log = std::sync::Arc::new(EventLog::default());
    let writer = log.clone();
    let thread = std::thread::spawn(move || writer.push(Instant::START, What::Started));
    let mut seen = Vec::new();
    while seen.is_empty() {
        seen = log.wait_since(1, Duration::from_secs(5)).0;
    }
    assert_eq!(seen[0].what, What::Started);
    thread.join().unwrap();
}
