//! Applies configurations while packets pass.

use crate::rig::{Rig, config, until};
use control::ApplyFailure;
use control::ClientError;
use control::api::{self, Applied, ErrorKind};

const DNS: &str = "[[path]]\nname = 'dns'\nmatch = 'udp dport 53'";

#[test]
fn apply_changes_only_differences_and_increments_generation() {
    let rig = Rig::start("");
    let applied: Applied = rig.client.post("/v1/apply", "next.toml", &config(DNS)).unwrap();
    assert_eq!(applied.generation, 2);
    assert_eq!((applied.changes.len(), applied.changes_total), (1, 1));
    assert!(applied.changes[0].text.starts_with("+ path dns"), "{applied:?}");
    let again: Applied = rig.client.post("/v1/apply", "same.toml", &config(DNS)).unwrap();
    assert_eq!((again.generation, again.changes.len()), (2, 0));
    let running: api::Config = rig.client.get("/v1/config").unwrap();
    assert_eq!((running.name.as_str(), running.text), ("same.toml", config(DNS)));
    let changes: api::Changes = rig.client.post("/v1/diff", "x", &config("")).unwrap();
    assert_eq!(changes.changes[0].text, "- path dns");
}

#[test]
fn diff_lists_at_most_10000_changes() {
    let rig = Rig::start("");
    let route = |i: u32| format!("[[route]]\nto = '10.{}.{}.0/24'\nblackhole = true\n", i >> 8, i & 255);
    let routes: String = (0..12_000).map(route).collect();
    let changes: api::Changes = rig.client.post("/v1/diff", "routes.toml", &config(&routes)).unwrap();
    assert_eq!((changes.changes.len(), changes.changes_total), (10_000, 12_000));
    let first = &changes.changes[0].values[0];
    assert_eq!(
        (&*first.path, first.old.as_deref(), first.new.as_deref()),
        ("route[10.0.0.0/24]", None, Some("blackhole"))
    );
}

/// A refused configuration, the kind of the refusal, and a word of its reason.
const REFUSED: [(&str, ErrorKind, &str); 4] = [
    ("[[route]]\nto = 'nowhere'", ErrorKind::Configuration, "route"),
    // The first new port can be opened, the second cannot.
    (
        "[port.good]\ndevice = 'memory:good'\naddress = ['10.1.0.1/24']\n\
         [port.none]\ndevice = 'pcap:/nonexistent/in.pcap'\naddress = ['10.2.0.1/24']",
        ErrorKind::CannotRun,
        "port none",
    ),
    ("[router]\nworkers = 7", ErrorKind::RestartNeeded, "workers"),
    ("[router]\nframes = 777", ErrorKind::RestartNeeded, "frames"),
];

#[test]
fn a_refused_configuration_changes_nothing() {
    let mut rig = Rig::start("");
    let before: api::Ports = rig.client.get("/v1/ports").unwrap();
    for (i, (more, kind, said)) in REFUSED.iter().enumerate() {
        let Err(ClientError::Refused(error)) = rig.client.post::<Applied>("/v1/apply", "bad.toml", &config(more))
        else {
            panic!("{more} was not refused");
        };
        assert_eq!(error.error, *kind, "{error}");
        assert!(error.to_string().contains(said), "{error}");
        let status: api::Status = rig.client.get("/v1/status").unwrap();
        assert_eq!((status.generation, status.config.as_str()), (1, "test.toml"));
        rig.send([198, 51, 100, 9], &[64], i as u16);
        assert_eq!(rig.wan.await_ports(1), [i as u16]);
    }
    let after: api::Ports = rig.client.get("/v1/ports").unwrap();
    let names = |ports: &api::Ports| ports.ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&before), names(&after));
}

#[test]
fn apply_returns_after_every_worker_adopted() {
    let mut rig = Rig::start("[router]\nworkers = 3");
    rig.daemon.apply(&config(&format!("[router]\nworkers = 3\n{DNS}")), "t").unwrap();
    let events: api::Events = rig.client.get("/v1/events").unwrap();
    let adopted = events.events.iter().filter(|e| e.text.ends_with("runs generation 2")).count();
    assert_eq!((adopted, rig.client.get::<api::Status>("/v1/status").unwrap().workers), (3, 3));
    rig.send([198, 51, 100, 9], &[64; 4], 1);
    // Four flows, which either worker may get.
    let mut arrived = rig.wan.await_ports(4);
    arrived.sort_unstable();
    assert_eq!(arrived, [1, 2, 3, 4]);
    let closing = rig.daemon.stop();
    assert!(closing.ledgers.balanced && closing.ledgers.workers.len() == 3, "{closing:?}");
}

#[test]
fn diagnostics_keep_file_and_line() {
    let rig = Rig::start("");
    let Err(ApplyFailure::Configuration(found)) = rig.daemon.apply("version = 1\nport = 7", "a.toml") else { panic!() };
    assert!(found.list().iter().any(|d| d.line == 2 && !d.hint.is_empty()));
    let checked: api::CheckReply = rig.client.post("/v1/check", "a.toml", "version = 1\nport = 7").unwrap();
    assert!(!checked.ok && checked.diagnostics.iter().any(|d| d.line == 2 && d.file == "a.toml"), "{checked:?}");
}

#[test]
fn applies_neither_lose_nor_reorder_packets() {
    let mut rig = Rig::start("");
    let changes = [
        DNS,
        "[[route]]\nto = '203.0.113.0/24'\nblackhole = true",
        "[port.more]\ndevice = 'memory:more'\naddress = ['10.0.0.1/24']",
        "[[path]]\nname = 'dns'\nmatch = 'udp dport 53'\nqueue = 99",
        "",
    ];
    let (daemon, texts) = (rig.daemon.clone(), changes.map(config));
    let applier = std::thread::spawn(move || {
        for i in 0..30 {
            daemon.apply(&texts[i % texts.len()], "t").unwrap_or_else(|failure| panic!("{failure}"));
        }
    });
    let (mut sent, mut seen) = (0u32, Vec::new());
    while !applier.is_finished() || sent < 3000 {
        rig.send([198, 51, 100, 9], &[64; 32], sent as u16);
        sent += 32;
        // Never more packets in flight than a memory link and its queues hold.
        rig.await_delivery(&mut seen, sent as usize - 32);
    }
    applier.join().unwrap();
    rig.await_delivery(&mut seen, sent as usize);
    let expected: Vec<u16> = (0..sent).map(|i| i as u16).collect();
    assert!(seen == expected, "{} of {sent} came in another order", seen.len());
    // The first of the thirty applies also changes the configuration.
    assert_eq!(rig.client.get::<api::Status>("/v1/status").unwrap().generation, 31);
}

#[test]
fn a_scheme_change_is_reported_as_an_event() {
    let mut rig = Rig::start("");
    let apply = |rig: &Rig, scheme: &str| {
        let lines = format!("[port.wan]\nscheme = '{scheme}'\nscheme_change = 'flush'");
        rig.daemon.apply(&config("").replace("[port.wan]", &lines), "test.toml").unwrap();
    };
    // One packet every two and a half seconds.
    apply(&rig, "shape(rate=1kbit, burst=0b, overhead=256b){fifo}");
    rig.send([198, 51, 100, 9], &[64; 100], 0);
    let waits = |rig: &Rig| rig.client.get::<api::Ports>("/v1/ports").unwrap().ports[1].backlog_packets;
    until(|| (waits(&rig) > 90).then_some(()));
    apply(&rig, "shape(rate=2kbit, burst=0b, overhead=256b){fifo(limit=500)}");
    apply(&rig, "fq");
    let events: api::Events = rig.client.get("/v1/events").unwrap();
    let told: Vec<_> = events.events.into_iter().filter(|event| event.kind == api::EventKind::SchemeChanged).collect();
    assert!(told.iter().all(|event| event.subject.as_deref() == Some("wan")), "{told:?}");
    let (mut ways, mut packets) = (Vec::new(), Vec::new());
    for event in &told {
        let (way, counts) = event.text.split_once(": ").unwrap();
        let numbers: Vec<u64> = counts.split(' ').filter_map(|word| word.parse().ok()).collect();
        ways.push(way);
        packets.push((numbers[0], numbers[1]));
    }
    let flushed = "a new queueing scheme begins without packets";
    assert_eq!(ways, [flushed, "its queueing scheme has new parameters", flushed]);
    assert_eq!((packets[0], packets[1].1, packets[2].0), ((0, 0), 0, packets[2].1));
    assert!(packets[1].0 > 90 && packets[2].0 > 80 && waits(&rig) == 0, "{packets:?}");
    // The version of the scheme, and the counters of the previous one.
    let ends: Vec<&str> = told.iter().filter_map(|event| event.text.split_once("It is ")).map(|(_, end)| end).collect();
    let offered = |end: &str| end.split([' ', ',', ';']).filter_map(|word| word.parse::<u64>().ok()).nth(1).unwrap();
    assert!(ends[1].starts_with("version 3; the previous one received ") && offered(ends[1]) >= 100, "{ends:?}");
    assert!(ends[2].starts_with("version 4; the previous one received ") && offered(ends[2]) < 100, "{ends:?}");
    let links: api::Links = rig.client.get("/v1/links?port=wan").unwrap();
    assert!(links.links.iter().all(|link| link.version == 4 && link.put_aside.is_none()), "{links:?}");
}
