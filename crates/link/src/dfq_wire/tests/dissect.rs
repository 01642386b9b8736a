//! The frames of a session, and their dissection by tshark with this crate's dissector.

#![allow(clippy::print_stdout)]

use super::*;
use std::path::Path;
use std::process::Command;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The frames of a session: the agreement, a map, batches of several flows, of which some are lost.
pub(super) fn frames() -> Vec<Vec<u8>> {
    let mut pair = Pair::new([options(0), options(1)]);
    let mut all = Vec::new();
    pair.elapse_with(Nanos::millis(200), &mut |_, frame| {
        all.push(frame.to_vec());
        true
    });
    for round in 0..4 {
        let lengths = [60, 126, 400, 1514];
        let packets: Vec<_> = lengths.iter().zip(0..).map(|(length, n)| (ShareId(n), frame(1, n, *length))).collect();
        pair.send(0, &packets);
        pair.carry_from(0, &mut |frame| {
            // The capture lacks the batches of the third round.
            let is_lost = round == 2 && is_batch(frame);
            if !is_lost {
                all.push(frame.to_vec());
            }
            !is_lost
        });
        pair.receive(1);
        pair.carry_from(1, &mut |frame| {
            all.push(frame.to_vec());
            true
        });
        pair.receive(0);
    }
    let mut other = all[0].clone();
    other[HEADER] = 0x21;
    all.push(other);
    all.push(all[0][..HEADER + 20].to_vec());
    all
}

/// A capture in tcpdump's format (draft-ietf-opsawg-pcap).
fn capture() -> Vec<u8> {
    const ETHERNET: u32 = 1;
    let mut bytes = [0xa1b2_c3d4u32, 2 << 16 | 4, 0, 0, 65_535, ETHERNET].map(u32::to_be_bytes).as_flattened().to_vec();
    for (number, frame) in frames().into_iter().enumerate() {
        let length = frame.len() as u32;
        bytes.extend([number as u32, 0, length, length].map(u32::to_be_bytes).as_flattened());
        bytes.extend(frame);
    }
    bytes
}

#[test]
fn tshark_reads_every_field() {
    let path = std::env::temp_dir().join(format!("dfq-{}.pcap", std::process::id()));
    std::fs::write(&path, capture()).unwrap();
    let fields = [
        "_ws.col.Protocol",
        "_ws.col.Info",
        "dfq.heard",
        "dfq.share",
        "dfq.quantum",
        "dfq.sequence",
        "dfq.flow",
        "dfq.length",
        "dfq.back",
        "dfq.remaining",
        "dfq.packet",
        "_ws.expert.message",
    ];
    let mut tshark = Command::new("tshark");
    tshark.arg("-X").arg(format!("lua_script:{}", Path::new(HERE).join("wireshark/dfq.lua").display()));
    tshark.args(["-n", "-T", "fields", "-E", "separator= ", "-E", "occurrence=a"]);
    tshark.args(fields.iter().flat_map(|field| ["-e", field])).arg("-r").arg(&path);
    let output = tshark.output();
    let _ = std::fs::remove_file(&path);
    let Ok(output) = output else { return println!("skipped: there is no tshark") };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("Lua"), "{errors}");
    let lines: String =
        String::from_utf8_lossy(&output.stdout).lines().map(|line| line.trim_end().to_owned() + "\n").collect();
    expect_test::expect_file![format!("{HERE}/conformance/dfq-dissected.txt")].assert_eq(&lines);
}
