//! A router from its start to its end, regular or not.

use crate::rig::{TestDirectory, config, until};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

#[test]
fn a_capture_is_forwarded_to_a_capture_and_every_packet_accounted_for() {
    let place = TestDirectory::new(1000);
    place.write("run.toml", &config("fast", "[router]\nworkers = 2"));
    let summary = place.json(&["run", "run.toml", "--until-idle"]);
    // Each packet is its own flow, so two workers may reorder them.
    let mut forwarded: Vec<u16> = place.read("out.pcapng").into_iter().map(|(sport, _)| sport).collect();
    forwarded.sort_unstable();
    let expected: Vec<u16> = (0..1000).filter(|i| i % 10 != 9).collect();
    assert!(forwarded == expected, "{} packets", forwarded.len());
    let total = &summary["ledger"]["total"];
    assert_eq!(summary["ledger"]["balanced"], true);
    assert_eq!((&total["received_packets"], &total["held_packets"]), (&1000.into(), &0.into()));
    assert_eq!(summary["drops"][0]["reason"], "ttl_expired");
    assert_eq!(summary["drops"][0]["packets"], 100);
}

#[test]
fn closing_summary_is_a_table() {
    let place = TestDirectory::new(20);
    place.write("run.toml", &config("fast", ""));
    let text = place.run_ok(&["run", "run.toml", "--until-idle"]);
    assert!(text.contains("ttl_expired") && text.contains("every packet accounted for"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours where nobody looks: {text}");
}

#[test]
fn signal_stops_the_router_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = TestDirectory::new(1000);
        let router = place.write("run.toml", &config("100pps", "")).start();
        assert_eq!(fs::metadata(place.path("control.sock")).unwrap().permissions().mode() & 0o777, 0o600);
        router.signal(signal);
        let (status, out, err) = router.end();
        assert!(status.success(), "{status}\n{err}");
        assert!(out.contains("every packet accounted for"), "{out}");
        assert!(!place.path("control.sock").exists());
    }
}

#[test]
fn second_router_is_refused_and_the_first_keeps_forwarding() {
    let place = TestDirectory::new(1000);
    let router = place.write("run.toml", &config("100pps", "")).start();
    let said = place.run_failing(1, &["run", "run.toml"]);
    assert!(said.contains("a router uses the socket") && said.contains("--socket"), "{said}");
    place.json(&["show", "ports"]);
    router.stop();
}

#[test]
fn router_starts_after_kill_9_of_its_predecessor() {
    let place = TestDirectory::new(1000);
    place.write("run.toml", &config("100pps", ""));
    place.start().kill();
    assert!(place.path("control.sock").exists());
    let said = place.run_failing(1, &["show", "ports"]);
    assert!(said.contains("cannot connect to a router") && said.contains("switchpath run"), "{said}");
    let router = place.start();
    assert_eq!(place.json(&["show", "status"])["state"], "running");
    router.stop();
}

/// A capture arrives through a pipe whose writer pauses, so the worker that reads it really blocks.
#[test]
fn watchdog_notifications_stop_while_a_worker_is_stuck() {
    let place = TestDirectory::new(1000);
    let capture = fs::read(place.path("in.pcapng")).unwrap();
    mknodat(CWD, place.path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let (pipe, (go_on, going)) = (place.path("pipe"), channel());
    let writer = thread::spawn(move || {
        let mut file = fs::File::options().write(true).open(pipe).unwrap();
        let (first, rest) = capture.split_at(capture.len() / 2);
        file.write_all(first).unwrap();
        going.recv().unwrap();
        file.write_all(rest).unwrap();
    });
    place.write("run.toml", &config("400pps", "[router]\nworkers = 2").replace("pcap:in.pcapng", "pcap:pipe"));
    let mut command = place.command(&["run", "run.toml"]);
    command.env("WATCHDOG_USEC", "400000");
    let router = place.start_as(command);
    router.await_notice("WATCHDOG=1");
    let states = || {
        let workers = place.json(&["show", "workers"]);
        [0, 1].map(|worker| workers["workers"][worker]["state"].as_str().unwrap().to_owned())
    };
    let stuck = |states: [String; 2]| states.iter().filter(|state| *state == "stuck").count();
    until(|| (stuck(states()) == 1).then_some(()));
    let table = place.run_ok(&["show", "workers"]);
    assert!(table.contains("STUCK") && table.contains("heartbeat"), "{table}");
    // Discard notifications sent before the block was noticed.
    while router.notice_within(Duration::from_millis(1)).is_some() {}
    assert_eq!(router.notice_within(Duration::from_millis(1200)), None, "three times as long as it promised");
    go_on.send(()).unwrap();
    router.await_notice("WATCHDOG=1");
    assert_eq!(stuck(states()), 0);
    router.signal(Signal::TERM);
    router.await_notice("STOPPING=1");
    let (status, _, err) = router.end();
    assert!(status.success(), "{status}\n{err}");
    for said in ["has made no progress for", "makes progress again after"] {
        assert_eq!(err.matches(said).count(), 1, "{err}");
    }
    writer.join().unwrap();
}

#[test]
fn sighup_applies_the_file_and_a_bad_file_changes_nothing() {
    let place = TestDirectory::new(60000);
    let router = place.write("run.toml", &config("1000pps", "")).start();
    let generation = || place.json(&["show", "status"])["generation"].clone();
    place.write("run.toml", &config("1000pps", "[[path]]\nname = 'dns'\nmatch = 'udp dport 53'"));
    router.signal(Signal::HUP);
    router.await_notice("RELOADING=1");
    router.await_notice("READY=1");
    assert_eq!(generation(), 2);
    let dns = until(|| {
        let paths = place.json(&["show", "paths"]);
        let path = paths["paths"].as_array().unwrap().iter().find(|path| path["name"] == "dns").cloned().unwrap();
        (path["left_packets"].as_u64() > Some(0)).then_some(path)
    });
    assert_eq!(dns["match"], "udp dport 53");
    for bad in
        ["version = 1\n[port", &config("1000pps", "[port.no]\ndevice = 'pcap:no.pcap'\naddress = ['10.0.0.1/8']")]
    {
        place.write("run.toml", bad);
        router.signal(Signal::HUP);
        router.await_notice("RELOADING=1");
        router.await_notice("READY=1");
        assert_eq!(generation(), 2);
    }
    let (_, err) = router.stop();
    assert_eq!(err.matches("the previous one stays in force").count(), 2, "{err}");
    assert!(err.contains("no.pcap") && err.contains("run.toml:2:"), "{err}");
}

#[test]
fn start_errors_are_reported_for_each_port() {
    let place = TestDirectory::new(1);
    let two = "[port.a]\ndevice = 'pcap:a.pcap'\naddress = ['10.0.0.1/8']\n\
               [port.b]\ndevice = 'pcap:b.pcap'\naddress = ['11.0.0.1/8']";
    place.write("run.toml", &config("fast", two));
    let said = place.run_failing(1, &["run", "run.toml"]);
    assert!(said.contains("port a: ") && said.contains("port b: "), "{said}");
    assert!(!place.path("control.sock").exists());
}

/// A limit on the file size simulates a full disk: writing fails in the same way, without root.
#[test]
fn full_disk_ends_the_capture_but_not_forwarding() {
    let place = TestDirectory::new(60000);
    place.write("run.toml", &config("20000pps", "").replace("out.pcapng\"", "/dev/null\"\ncapture = \"all.pcapng\""));
    let mut command = Command::new("sh");
    let script = "ulimit -f 64; exec \"$0\" run run.toml";
    place.prepare(command.args(["-c", script, env!("CARGO_BIN_EXE_switchpath")]));
    let router = place.start_as(command);
    let warning = until(|| {
        let events = place.json(&["show", "events"]);
        let events = events["events"].as_array().unwrap().clone();
        events.into_iter().find(|event| event["kind"] == "warning")
    });
    let text = warning["text"].as_str().unwrap();
    assert!(text.contains("all.pcapng") && text.contains("failed"), "{text}");
    let sent = || place.json(&["show", "ports"])["ports"][1]["sent_packets"].as_u64().unwrap();
    let before = sent();
    until(|| (sent() > before + 1000).then_some(()));
    // Packets written before are complete.
    let written = place.read("all.pcapng");
    assert!(!written.is_empty() && fs::metadata(place.path("all.pcapng")).unwrap().len() <= 64 * 1024);
    let (out, _) = router.stop();
    assert!(out.contains("every packet accounted for"), "{out}");
}

#[test]
fn absurd_configurations_are_refused_with_an_error() {
    let place = TestDirectory::new(1);
    for text in ["", "version = 9", "\u{0}", "version = 1", &"[port.a]\n".repeat(10_000), &"[".repeat(100_000)] {
        let said = place.write("run.toml", text).run_failing(1, &["run", "run.toml"]);
        assert!(said.contains("error"), "{said}");
    }
    let said = place.run_failing(1, &["run", "."]);
    assert!(said.contains("cannot be read"), "{said}");
}

#[test]
fn slices_of_a_file_are_made_at_the_start() {
    let place = TestDirectory::new(1000);
    place.write("run.toml", &config("100pps", ""));
    let lines = "create overlay code null filters 10\nfilter insert overlay 5 drop\nmem write overlay 8 0102\n";
    place.write("all.slices", lines);
    let router = place.start_as(place.command(&["run", "run.toml", "--slices", "all.slices"]));
    let exported = place.run_ok(&["slice", "export", "overlay"]);
    assert!(exported.lines().count() == 3 && exported.contains("filter insert overlay 5 drop\n"), "{exported}");
    assert_eq!(place.json(&["slice", "export"])["lines"].as_array().unwrap().len(), 3);
    router.signal(Signal::TERM);
    router.end();
    place.write("all.slices", &format!("{lines}filter insert overlei 6 drop\n"));
    let said = place.run_failing(1, &["run", "run.toml", "--slices", "all.slices"]);
    assert!(said.contains("all.slices:4") && said.contains("did you mean 'overlay'?"), "{said}");
    let said = place.run_failing(1, &["run", "run.toml", "--slices", "none"]);
    assert!(said.contains("cannot read the slices in none"), "{said}");
}
