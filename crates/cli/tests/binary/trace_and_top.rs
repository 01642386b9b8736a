//! `trace` and `top`: packets in their stages, and the live view of the router.

use crate::rig::{Router, TestDirectory, config, until};
use io::pcap::{PcapDirection, Reader};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

fn running() -> (TestDirectory, Router) {
    let place = TestDirectory::new(60000);
    let router = place.write("run.toml", &config("2000pps", "")).start();
    (place, router)
}

#[test]
fn trace_prints_packet_stages_and_drop_remedies() {
    let (place, router) = running();
    let said = place.run_ok(&["trace", "-n", "20", "udp", "dport", "53"]);
    assert_eq!(said.lines().filter(|line| line.starts_with(char::is_numeric)).count(), 20, "{said}");
    for wanted in ["received   by lan, 62 bytes", "ip ttl 64 -> 63", "sent       by wan", "dropped    ttl_expired"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert!(said.contains("A traceroute or a routing loop"), "drops have their hint: {said}");
    router.stop();
}

#[test]
fn trace_writes_received_and_sent_frames_and_json_lines() {
    let (place, router) = running();
    let lines =
        place.run_ok(&["trace", "-j", "-n", "5", "--write", "way.pcapng", "ip", "saddr", "192.0.2.0/24", "udp"]);
    let packets: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(packets.len(), 5);
    let sent = packets.iter().filter(|packet| packet["fate"] == "sent").count();
    let mut reader = Reader::new(File::open(place.path("way.pcapng")).unwrap()).unwrap();
    let mut ways = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        // The time to live, and the position of the frame in its way.
        ways.push((record.direction, record.data[22], record.comment.to_owned()));
    }
    assert_eq!(ways.len(), 5 + sent);
    for (direction, ttl, comment) in ways {
        match direction {
            PcapDirection::Out => assert!(ttl == 63 && comment.starts_with("sent wan, +"), "{comment}"),
            _ => assert!(ttl != 63 && comment.starts_with("+0ns received: by lan"), "{comment}"),
        }
    }
    router.stop();
}

#[test]
fn cpu_trace_prints_a_table_and_writes_a_viewer_file() {
    let (place, router) = running();
    let table = place.run_ok(&["trace", "--cpu", "--time", "200ms", "-w", "cpu.json"]);
    for wanted in ["forwarding best-effort", "input lan", "output wan", "switch", "poll"] {
        assert!(table.lines().any(|line| line.trim_start().starts_with(wanted)), "{wanted}: {table}");
    }
    let trace: Value = serde_json::from_reader(File::open(place.path("cpu.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let runs = events.iter().filter(|event| event["ph"] == "X" && event["name"] == "runs");
    let packets: u64 = runs.map(|event| event["args"]["packets"].as_u64().unwrap()).sum();
    assert!(packets > 100, "{packets} of some 400, by three tasks each");
    let names = events.iter().filter(|event| event["name"] == "thread_name").map(|event| &event["args"]["name"]);
    assert!(names.clone().any(|name| name == "core 0") && names.clone().any(|name| name == "forwarding best-effort"));
    let told = place.json(&["trace", "--cpu", "--time", "50ms", "--events", "100"]);
    assert!(told["lost_events"].as_u64().is_some() && told["took_ns"].as_u64().unwrap() >= 50_000_000, "{told}");
    assert!(place.run_failing(2, &["trace", "--cpu", "--rate", "10/s"]).contains("cannot be used with"));
    assert!(place.run_failing(2, &["trace", "--cpu", "--time", "61s"]).contains("from 1ms to 60s"));
    router.stop();
}

#[test]
fn invalid_traces_are_refused_before_the_router_is_asked() {
    let place = TestDirectory::new(1);
    let said = place.run_failing(2, &["trace", "udp", "dprt", "53"]);
    assert!(said.contains("  udp dprt 53\n      ^^^^"), "{said}");
    assert!(place.run_failing(2, &["trace", "--rate", "0/s"]).contains("from 1/s to 10000/s"));
    let said = place.run_failing(1, &["trace", "--write", "nowhere/way.pcapng"]);
    assert!(said.contains("nowhere/way.pcapng cannot be written"), "{said}");
    assert!(place.run_failing(1, &["trace"]).contains("cannot connect to a router at"));
}

#[test]
fn top_without_a_terminal_prints_once() {
    let (place, router) = running();
    let text = place.run_ok(&["top", "--interval", "300ms"]);
    assert!(
        text.contains("forwards  generation 1") && text.contains("best-effort") && !text.contains("q quit"),
        "{text}"
    );
    let (panes, links) = text.split_once(" links ").unwrap();
    let named = |text: &str| text.lines().filter(|line| line.starts_with("lan ") || line.starts_with("wan ")).count();
    assert_eq!((named(panes), named(links)), (2, 2), "{text}");
    assert!(links.contains("  backlog ") && links.contains("  sojourn "), "{text}");
    let told = place.json(&["top", "--interval", "300ms"]);
    let rate = told["ports"][0]["received_pps"].as_f64().unwrap();
    assert!((200.0..20_000.0).contains(&rate), "{told}");
    assert!(told["links"][1]["p99_ns"].as_u64() > Some(0) && told["links"][1]["name"] == "wan", "{told}");
    assert!(place.run_failing(2, &["top", "--interval", "1ms"]).contains("from 100ms to 3600s"));
    router.stop();
    assert!(place.run_failing(1, &["top"]).contains("cannot connect to a router at"));
}

#[test]
fn top_shows_an_idle_worker_as_idle() {
    let place = TestDirectory::new(1);
    let router = place.write("run.toml", &config("fast", "")).start();
    until(|| (place.json(&["show", "ports"])["ports"][0]["received_packets"] == 1).then_some(()));
    let busy = place.json(&["top", "--interval", "500ms"])["workers"][0]["busy"].as_f64().unwrap();
    assert!(busy < 0.5, "{busy}");
    router.stop();
}

/// `top` on a pseudoterminal.
struct Live {
    top: Child,
    terminal: OwnedFd,
    screen: Receiver<Vec<u8>>,
}

impl Live {
    fn start(place: &TestDirectory) -> Live {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        resize(&terminal, (80, 24));
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let end = || File::options().read(true).write(true).open(&name).unwrap();
        let mut command = place.command(&["top", "--interval", "100ms"]);
        let top = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let mut reader = File::from(terminal.try_clone().unwrap());
        let (sender, screen) = channel();
        // Ends with the terminal.
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Live { top, terminal, screen }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.top), signal).unwrap();
    }

    /// Waits until the screen shows this text. Each resize makes `top` draw the whole screen again.
    fn await_text(&self, text: &str) {
        let mut wide = false;
        until(|| {
            wide = !wide;
            resize(&self.terminal, if wide { (120, 40) } else { (80, 24) });
            self.signal(Signal::WINCH);
            thread::park_timeout(std::time::Duration::from_millis(100));
            let drawn: Vec<u8> = self.screen.try_iter().flatten().collect();
            String::from_utf8_lossy(&drawn).contains(text).then_some(())
        });
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.top.kill();
        let _ = self.top.wait();
    }
}

fn resize(terminal: &OwnedFd, (width, height): (u16, u16)) {
    tcsetwinsize(terminal, Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

#[test]
fn top_survives_a_router_restart_and_quits_on_a_key() {
    let (place, router) = running();
    let mut live = Live::start(&place);
    live.await_text("forwards");
    router.kill();
    live.await_text("DOES NOT ANSWER");
    let router = place.start();
    live.await_text("forwards");
    File::from(live.terminal.try_clone().unwrap()).write_all(b"q").unwrap();
    assert!(until(|| live.top.try_wait().unwrap()).success());
    router.stop();
}

#[test]
fn top_ends_on_terminal_hangup() {
    let (place, router) = running();
    let mut live = Live::start(&place);
    live.await_text("forwards");
    live.signal(Signal::HUP);
    assert_eq!(until(|| live.top.try_wait().unwrap()).code(), Some(1));
    router.stop();
}
