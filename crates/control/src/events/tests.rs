//! Tests of event floods and of readers.

use super::*;

fn numbers(log: &EventLog, since: u64) -> (Vec<u64>, u64, u64) {
    let (entries, next, missed) = log.since(since);
    (entries.iter().map(|entry| entry.sequence).collect(), next, missed)
}

fn neighbour(n: u32) -> LoggedEvent {
    let address = IpAddr::from(n.to_be_bytes());
    LoggedEvent::Neighbour { interface: InterfaceId(3), address, mac: None, state: NeighbourState::Stale }
}

#[test]
fn a_reader_gets_each_event_once_and_learns_how_many_it_missed() {
    let log = EventLog::default();
    let second = |n: u64| Instant::START + Nanos::secs(n);
    assert_eq!(numbers(&log, 0), (vec![], 1, 0));
    for i in 0..3 {
        log.push(second(i), LoggedEvent::Started);
    }
    assert_eq!(numbers(&log, 0), (vec![1, 2, 3], 4, 0));
    assert_eq!(numbers(&log, 3), (vec![3], 4, 0));
    assert_eq!(numbers(&log, 4), (vec![], 4, 0));
    assert_eq!(numbers(&log, u64::MAX), (vec![], 4, 0));
    for i in 3..MOST_PER_KIND as u64 + 5 {
        log.push(second(i), LoggedEvent::Stopping);
    }
    let (kept, next, missed) = numbers(&log, 4);
    assert_eq!((kept.len(), kept[0], next, missed), (MOST_PER_KIND, 6, MOST_PER_KIND as u64 + 6, 2));
    assert_eq!(numbers(&log, 0).0[..4], [1, 2, 3, 6], "another kind pushes nothing out");
}

#[test]
fn event_flood_is_counted_and_displaces_no_other_kind() {
    let log = EventLog::default();
    let at = |us: u64| Instant::START + Nanos::secs(100) + Nanos::micros(us);
    log.push(at(0), LoggedEvent::PortLink { port: PortId(1), up: false });
    log.push(
        at(0),
        LoggedEvent::AddressConflict { interface: InterfaceId(3), address: IpAddr::from([10; 4]), mac: Mac::default() },
    );
    // 20,000 events a second for ten seconds, with the interval of `write_journal`.
    let mut kept = 0;
    for n in 0..200_000u32 {
        log.push(at(u64::from(n) * 50), neighbour(n));
        if n % 4000 == 0 {
            log.report_old_suppressed(at(u64::from(n) * 50));
        }
    }
    log.report_suppressed(at(10_000_000), Nanos::ZERO);
    let (entries, _, missed) = log.since(0);
    let mut left_out = 0;
    for entry in &entries {
        match &entry.event {
            LoggedEvent::Neighbour { .. } => kept += 1,
            LoggedEvent::Suppressed { count, .. } => left_out += count,
            _ => {}
        }
    }
    assert_eq!((kept + left_out, missed), (200_000, 0), "every event is listed or counted");
    assert!(entries.len() < 250, "{} entries", entries.len());
    let (first, second) = (&entries[0].event, &entries[1].event);
    assert!(matches!(first, LoggedEvent::PortLink { .. }) && matches!(second, LoggedEvent::AddressConflict { .. }));
    let last = entries.last().unwrap();
    assert_eq!(last.event.kind(), api::EventKind::Neighbour);
    assert!(last.event.text().ends_with("the latest: 0.3.13.63 is stale"), "{}", last.event.text());
}

#[test]
fn flapping_port_does_not_suppress_events_of_other_ports() {
    let log = EventLog::default();
    for n in 0..10_000 {
        log.push(Instant::new(n), LoggedEvent::PortLink { port: PortId(1), up: n % 2 == 0 });
    }
    log.push(Instant::new(10_000), LoggedEvent::PortLink { port: PortId(2), up: false });
    let (entries, ..) = log.since(0);
    assert_eq!(entries.len() as u64, BURST + 1);
    assert!(matches!(entries.last().unwrap().event, LoggedEvent::PortLink { port: PortId(2), .. }));
}

#[test]
fn subjects_with_own_buckets_are_bounded() {
    let log = EventLog::default();
    for n in 0..3 * MOST_SOURCES {
        log.push(Instant::START, LoggedEvent::PortDrained(PortId::at(n)));
    }
    assert_eq!(log.stored.lock().sources.len(), MOST_SOURCES + 1, "and one for the rest");
    let later = Instant::START + SOURCE_FORGOTTEN + Nanos::secs(1);
    log.push(later, LoggedEvent::PortDrained(PortId::at(3 * MOST_SOURCES)));
    // The suppressed events of the shared bucket are still to be reported.
    assert_eq!(log.stored.lock().sources.len(), 2);
}

#[test]
fn a_waiting_reader_is_woken() {
    let log = std::sync::Arc::new(EventLog::default());
    let writer = log.clone();
    let thread = std::thread::spawn(move || writer.push(Instant::START, LoggedEvent::Started));
    let mut seen = Vec::new();
    while seen.is_empty() {
        seen = log.wait_since(1, Duration::from_secs(5)).0;
    }
    assert_eq!(seen[0].event, LoggedEvent::Started);
    thread.join().unwrap();
}

#[test]
fn fallback_of_a_wire_has_its_reason_and_a_hint() {
    use packet::port::DfqFallback;
    let log = EventLog::default();
    let peer = Some(Mac([2, 0, 0, 0, 0, 9]));
    log.push(Instant::new(1), LoggedEvent::DfqWire(PortId(1), DfqWireState::Multiplexed, peer));
    let mismatch = DfqFallback::Bitmap { own: 64, peer: 128 };
    log.push(Instant::new(2), LoggedEvent::DfqWire(PortId(1), DfqWireState::Plain(mismatch), peer));
    let (entries, ..) = log.since(0);
    let texts: Vec<String> = entries.iter().map(|entry| entry.event.text()).collect();
    assert_eq!(texts[0], "frames to 02:00:00:00:00:09 leave in batches of quanta");
    assert_eq!(texts[1], "frames leave plain: the bitmap has 64 flows here and 128 at the other end");
    let hint = advisories::dfq_wire_hint(DfqWireState::Plain(mismatch));
    assert_eq!(hint.as_deref(), Some("write the same `bitmap` in `dfq_wire` of both ports"));
    assert!(entries.iter().all(|entry| entry.event.kind() == api::EventKind::DfqWire));
}
