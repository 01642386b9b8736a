//! `capture`: packets with their fates, as lines and as files.

use crate::rig::{PATIENCE, Place, config, until};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn a_file_has_each_packet_with_its_fate() {
    let place = Place::new(60000);
    let router = place.write("run.toml", &config("2000pps", "")).start();
    let said = place.run(&["capture", "-c", "40", "-w", "fates.pcapng", "--snaplen", "64", "udp", "dport", "53"]);
    assert!(said.status.success());
    assert_eq!(String::from_utf8_lossy(&said.stderr), "40 packets\n");
    let packets = place.read("fates.pcapng");
    assert_eq!(packets.len(), 40);
    for (sport, comment) in packets {
        let expected = match sport % 10 {
            9 => "dropped ttl_expired, path general, in lan",
            _ => "sent wan, path best-effort, in lan",
        };
        assert_eq!(comment, expected, "packet {sport}");
    }
    router.stop();
}

#[test]
fn without_a_file_there_is_a_line_a_packet() {
    let place = Place::new(60000);
    let router = place.write("run.toml", &config("2000pps", "")).start();
    let lines = place.good(&["capture", "-c", "20", "iif", "lan", "udp"]);
    assert_eq!(lines.lines().count(), 20, "{lines}");
    assert!(
        lines.lines().any(|line| line.contains(" wan out ") && line.ends_with("[sent wan, path best-effort, in lan]"))
    );
    assert!(lines.lines().any(|line| line.contains(" lan in ") && line.contains("[dropped ttl_expired")), "{lines}");
    let said = place.bad(1, &["capture", "iif", "nowhere"]);
    assert!(said.contains("the interfaces are lan, wan"), "{said}");
    router.stop();
}

#[test]
fn a_signal_ends_a_capture_and_leaves_a_whole_file() {
    let place = Place::new(60000);
    let router = place.write("run.toml", &config("5000pps", "")).start();
    let capture = place.command(&["capture", "-w", "live.pcapng"]).stderr(Stdio::piped()).spawn().unwrap();
    // Packets are in the file while it is still being written.
    let path = place.path("live.pcapng");
    until(|| (std::fs::metadata(&path).ok()?.len() > 20_000).then_some(()));
    kill_process(Pid::from_child(&capture), Signal::INT).unwrap();
    let output = capture.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let count: usize = said.split(' ').next().unwrap().parse().unwrap();
    let udp = place.read("live.pcapng").len();
    assert!(udp > 0 && udp <= count, "{udp} of {said}");
    router.stop();
}

#[test]
fn the_end_of_the_router_ends_a_capture() {
    let place = Place::new(60000);
    let router = place.write("run.toml", &config("2000pps", "")).start();
    let mut capture = place.command(&["capture"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(capture.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().any(|line| line.unwrap().contains("UDP")));
    router.stop();
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(lines.map_while(Result::ok).count()));
    ended.recv_timeout(PATIENCE).expect("the capture did not end");
    assert!(capture.wait().unwrap().success());
}
