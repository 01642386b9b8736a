//! `capture`: packets and their fates, printed as lines and written to files.

use crate::rig::{PATIENCE, TestDirectory, config, until};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn a_file_has_each_packet_with_its_fate() {
    let place = TestDirectory::new(60000);
    let router = place.write("run.toml", &config("2000pps", "")).start();
    let said = place.run(&["capture", "-c", "40", "-w", "fates.pcapng", "--snaplen", "64", "udp", "dport", "53"]);
    assert!(said.status.success());
    assert_eq!(String::from_utf8_lossy(&said.stderr), "40 packets\n");
    let packets = place.read("fates.pcapng");
    // One record for each received packet, and a second one for each that was sent.
    let sent = packets.iter().filter(|(_, comment)| comment.starts_with("sent ")).count();
    assert_eq!(packets.len(), 40 + sent / 2);
    for (sport, comment) in packets {
        let expected = match sport % 10 {
            9 => "dropped ttl_expired, path general, in lan",
            _ => "sent wan, path best-effort, in lan",
        };
        assert_eq!(comment, expected, "packet {sport}");
    }
    router.stop();
}

/// Replays a capture, and returns the report and whether the command succeeded.
fn replayed(place: &TestDirectory, arguments: &[&str]) -> (serde_json::Value, bool) {
    let output = place.run(&[&["replay"], arguments, &["-j"]].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let json = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {said}{complaint}"));
    (json, output.status.success())
}

#[test]
fn captured_and_traced_packets_meet_the_same_fates_when_they_are_replayed() {
    let place = TestDirectory::new(60000);
    let router = place.write("run.toml", &config("2000pps", "")).start();
    place.run_ok(&["capture", "-c", "200", "-w", "captured.pcapng", "udp", "dport", "53"]);
    place.run_ok(&["trace", "-n", "50", "-w", "traced.pcapng", "udp", "dport", "53"]);
    router.stop();
    // Other MAC addresses than those of the capturing router, which now appear in the captures only.
    let other = config("fast", "").replace("02:00:00:00:00:01", "02:00:00:00:01:01");
    let dropping = format!("{other}[[route]]\nto = '203.0.113.0/24'\nblackhole = true\n");
    place.write("same.toml", &other).write("dropping.toml", &dropping);
    for (file, packets) in [("captured.pcapng", 200), ("traced.pcapng", 50)] {
        // Sent packets have a second record.
        let sent = place.read(file).len() as u64 - packets;
        let (told, good) = replayed(&place, &[file, "--config", "same.toml", "--against", "run.toml"]);
        assert!(good, "{file}: {told}");
        assert_eq!((&told["packets"], &told["unjudged_packets"]), (&packets.into(), &0.into()), "{file}: {told}");
        assert!(told["sent"]["wan"] == sent && sent < packets, "{sent} {file}: {told}");
        let dropped = &told["dropped"][0];
        assert_eq!((&dropped["reason"], &dropped["packets"]), (&"ttl_expired".into(), &(packets - sent).into()));
        assert_eq!(told["against"]["same_packets"], packets, "{file}: {told}");
        let (told, good) = replayed(&place, &[file, "--config", "dropping.toml", "--against", "same.toml"]);
        assert!(!good, "{file}: {told}");
        assert_eq!(told["against"]["changed_packets"], packets, "{file}: {told}");
    }
}

#[test]
fn capture_without_a_file_prints_a_line_per_packet() {
    let place = TestDirectory::new(60000);
    let router = place.write("run.toml", &config("2000pps", "")).start();
    let lines = place.run_ok(&["capture", "-c", "20", "iif", "lan", "udp"]);
    assert_eq!(lines.lines().count(), 20, "{lines}");
    assert!(
        lines.lines().any(|line| line.contains(" wan out ") && line.ends_with("[sent wan, path best-effort, in lan]"))
    );
    assert!(lines.lines().any(|line| line.contains(" lan in ") && line.contains("[dropped ttl_expired")), "{lines}");
    let said = place.run_failing(1, &["capture", "iif", "nowhere"]);
    assert!(said.contains("the interfaces are lan, wan"), "{said}");
    router.stop();
}

#[test]
fn a_signal_ends_a_capture_and_leaves_a_whole_file() {
    let place = TestDirectory::new(60000);
    let router = place.write("run.toml", &config("5000pps", "")).start();
    let capture = place.command(&["capture", "-w", "live.pcapng"]).stderr(Stdio::piped()).spawn().unwrap();
    // The file already has packets while the capture is still running.
    let path = place.path("live.pcapng");
    until(|| (std::fs::metadata(&path).ok()?.len() > 20_000).then_some(()));
    kill_process(Pid::from_child(&capture), Signal::INT).unwrap();
    let output = capture.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let count: usize = said.split(' ').next().unwrap().parse().unwrap();
    let udp = place.read("live.pcapng").len();
    // A sent packet has two records.
    assert!(udp > 0 && udp <= 2 * count, "{udp} of {said}");
    router.stop();
}

#[test]
fn the_end_of_the_router_ends_a_capture() {
    let place = TestDirectory::new(60000);
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
