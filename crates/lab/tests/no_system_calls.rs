//! Forwarding makes no system call per packet: strace counts those of a whole benchmark run.

#![allow(clippy::print_stdout)]

use std::process::Command;

#[test]
fn forwarding_in_memory_makes_no_system_call_per_packet() {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: strace is not installed");
        return;
    }
    let log = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-U", "calls,name", "-o"]).arg(log.path());
    command.args([env!("CARGO_BIN_EXE_switchpath-lab"), "bench", "forwarding", "--quick", "-j"]);
    let output = command.output().expect("strace runs");
    let figures: serde_json::Value = match serde_json::from_slice(&output.stdout) {
        Ok(figures) => figures,
        Err(_) => {
            println!("skipped: strace cannot trace here: {}", String::from_utf8_lossy(&output.stderr));
            return;
        }
    };
    assert!(figures.as_array().is_some_and(|figures| figures.len() >= 4), "{figures}");
    let counts = std::fs::read_to_string(log.path()).expect("strace wrote its counts");
    let calls: u64 =
        counts.lines().filter_map(|line| line.trim().strip_suffix(" total")?.trim().parse::<u64>().ok()).sum();
    assert!(calls > 0, "no total in {counts}");
    // Three layouts forward some 1.2 million packets each. The counted calls are those of the program's start.
    assert!(calls < 20_000, "{calls} system calls for millions of packets:\n{counts}");
}
