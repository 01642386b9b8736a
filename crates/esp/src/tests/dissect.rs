//! A capture with every instruction, and its dissection by tshark with this crate's dissector.

#![allow(clippy::print_stdout)]

use super::{V4, count, packet, part};
use crate::isa::Operator;
use crate::registered::{RegisteredInstruction, RegisteredPart};
use crate::seal::OperatorKey;
use crate::wire::{Addresses, Carriages, Locations, Part, datagram, dedicated, wrap, wrap_option};
use std::path::Path;
use std::process::Command;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// A packet of each instruction and each carriage, and some malformed packets.
fn packets() -> Vec<Vec<u8>> {
    let carriages = Carriages::default();
    let v6 = Addresses::V6("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let locations = Locations { input: false, central: true, output: true };
    let mut all: Vec<Vec<u8>> = super::conformance::variants().into_iter().map(|i| packet(&part(i))).collect();
    let ours = Part { locations, trace: true, ..part(count(0xabc, 2)) };
    let data = datagram(&Carriages { port: Some(9), ..carriages }, V4, 4000, &ours).unwrap();
    all.push(dedicated(&carriages, v6, &ours));
    all.push(datagram(&carriages, V4, 4000, &ours).unwrap());
    all.push(datagram(&carriages, v6, 4000, &ours).unwrap());
    all.push(wrap(&carriages, &data, &ours).unwrap());
    all.push(packet(&Part { error: true, ..ours }));
    all.push(dedicated(&carriages, V4, &OperatorKey::new([7; 16]).sealed(ours)));
    all.push(wrap(&carriages, &data, &OperatorKey::new([7; 16]).sealed(part(count(1, 2)))).unwrap());
    let (locations, computation) = (ours.locations, ours.computation);
    let instruction = RegisteredInstruction::new(130, Operator::Max, &[0xabc, 0xdef], 77).unwrap();
    let own = RegisteredPart { locations, error: false, piggybacked: false, trace: false, computation, instruction };
    all.push(dedicated(&carriages, V4, &own));
    all.push(dedicated(&carriages, V4, &OperatorKey::new([7; 16]).sealed(own)));
    all.push(wrap_option(&carriages, &data, &ours).unwrap());
    all.push(wrap_option(&carriages, &data, &OperatorKey::new([7; 16]).sealed(part(count(1, 2)))).unwrap());
    all.push(wrap_option(&carriages, &data, &Part { error: true, ..ours }).unwrap());
    for (at, value) in [(21, 11), (21, 200), (22, 20), (45, 0)] {
        let mut wrong = packet(&ours);
        wrong[at] = value;
        all.push(wrong);
    }
    all
}

/// A capture in tcpdump's format (draft-ietf-opsawg-pcap), of IP packets without link headers.
fn capture() -> Vec<u8> {
    const RAW_IP: u32 = 101;
    let mut bytes = [0xa1b2_c3d4u32, 2 << 16 | 4, 0, 0, 65_535, RAW_IP].map(u32::to_be_bytes).as_flattened().to_vec();
    for (number, packet) in packets().into_iter().enumerate() {
        let length = packet.len() as u32;
        bytes.extend([number as u32, 0, length, length].map(u32::to_be_bytes).as_flattened());
        bytes.extend(packet);
    }
    bytes
}

#[test]
fn the_capture_has_every_instruction() {
    let path = Path::new(HERE).join("conformance/instructions.pcap");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, capture()).unwrap();
    }
    assert!(std::fs::read(&path).ok() == Some(capture()), "{}: UPDATE_EXPECT=1 writes it", path.display());
}

#[test]
fn tshark_reads_every_field() {
    let path = std::env::temp_dir().join(format!("ephemeral-{}.pcap", std::process::id()));
    std::fs::write(&path, capture()).unwrap();
    let fields = [
        "_ws.col.Protocol",
        "_ws.col.Info",
        "ephemeral.location.input",
        "ephemeral.location.output",
        "ephemeral.computation",
        "ephemeral.tag",
        "ephemeral.counter",
        "ephemeral.result",
        "ephemeral.child",
        "ephemeral.value",
        "ephemeral.threshold",
        "ephemeral.trace",
        "ephemeral.sealed",
        "ephemeral.seal",
        "ephemeral.next",
        "_ws.expert.message",
    ];
    let mut tshark = Command::new("tshark");
    tshark.arg("-X").arg(format!("lua_script:{HERE}/wireshark/ephemeral.lua"));
    tshark.args(["-n", "-T", "fields", "-E", "separator= ", "-E", "occurrence=a"]);
    tshark.args(fields.iter().flat_map(|field| ["-e", field])).arg("-r").arg(&path);
    let output = tshark.output();
    let _ = std::fs::remove_file(&path);
    let Ok(output) = output else { return println!("skipped: there is no tshark") };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("Lua"), "{errors}");
    let lines: String =
        String::from_utf8_lossy(&output.stdout).lines().map(|line| line.trim_end().to_owned() + "\n").collect();
    expect_test::expect_file![format!("{HERE}/conformance/dissected.txt")].assert_eq(&lines);
}
