//! Hand-made packets, each near an edge of the parser, stored as files. The fuzzer starts from them, and its findings can be added. The test replays
//! every file of `corpus/packets`. `UPDATE_EXPECT=1` writes the hand-made ones.

use super::{V4, count, packet, part};
use crate::isa::{Opcode, Operator, StateInstruction};
use crate::registered::{RegisteredInstruction, RegisteredPart};
use crate::seal::OperatorKey;
use crate::wire::{Addresses, Carriages, Part, datagram, dedicated, exercise, wrap, wrap_option};
use std::path::Path;

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/packets");

fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = packet(&part(count(1, 2)));
    change(&mut bytes);
    bytes
}

fn made() -> Vec<(String, Vec<u8>)> {
    let carriages = Carriages::default();
    let v6 = Addresses::V6("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let mut all: Vec<(String, Vec<u8>)> = Opcode::ALL
        .iter()
        .filter_map(|opcode| super::conformance::variants().into_iter().find(|i| i.opcode() == *opcode))
        .map(|instruction| (format!("v4-{}", instruction.opcode()), packet(&part(instruction))))
        .collect();
    let ours = part(count(1, 2));
    let instruction = RegisteredInstruction::new(130, Operator::Max, &[5, 6], 7).unwrap();
    let (locations, computation) = (ours.locations, ours.computation);
    let own = RegisteredPart { locations, error: false, piggybacked: false, trace: true, computation, instruction };
    let nested = wrap(&carriages, &packet(&ours), &part(StateInstruction::Test { tag: 1 })).unwrap();
    for (name, bytes) in [
        ("empty", vec![]),
        ("part-alone", ours.to_bytes()),
        ("v6-count", dedicated(&carriages, v6, &ours)),
        ("udp-count", datagram(&carriages, V4, 4000, &ours).unwrap()),
        ("udp6-count", datagram(&carriages, v6, 4000, &ours).unwrap()),
        ("piggybacked", wrap(&carriages, &datagram(&carriages, V4, 4000, &ours).unwrap(), &ours).unwrap()),
        ("piggybacked-twice", nested),
        ("option", wrap_option(&carriages, &packet(&ours), &ours).unwrap()),
        ("piggybacked-nothing", packet(&Part { piggybacked: true, ..ours })),
        ("sealed", {
            let key = OperatorKey::new([1; 16]);
            dedicated(&carriages, V4, &key.sealed(ours))
        }),
        ("sealed-otherwise", dedicated(&carriages, v6, &OperatorKey::new([2; 16]).sealed(ours))),
        ("registered", dedicated(&carriages, V4, &own)),
        ("registered-sealed", dedicated(&carriages, V4, &OperatorKey::new([1; 16]).sealed(own))),
        ("failed", packet(&Part { error: true, ..ours })),
        ("version-2", changed(|bytes| bytes[20] = 0x50)),
        ("opcode-11", changed(|bytes| bytes[21] = 11)),
        ("opcode-128", changed(|bytes| bytes[21] = 128)),
        ("length-0", changed(|bytes| bytes[22] = 0)),
        ("length-255", changed(|bytes| bytes[22] = 255)),
        ("operator-15", changed(|bytes| bytes[23] = 15)),
        ("checksum", changed(|bytes| bytes[45] ^= 1)),
        ("cut-in-head", changed(|bytes| bytes.truncate(28))),
        ("cut-in-operands", changed(|bytes| bytes.truncate(40))),
        ("total-length-short", changed(|bytes| bytes[3] = 30)),
        ("header-length-4", changed(|bytes| bytes[0] = 0x44)),
        ("header-length-15", changed(|bytes| bytes[0] = 0x4f)),
        ("later-fragment", changed(|bytes| bytes[7] = 1)),
    ] {
        all.push((name.to_owned(), bytes));
    }
    all
}

#[test]
fn corpus_contains_the_handmade_packets_and_replays() {
    for (name, bytes) in made() {
        let path = Path::new(DIRECTORY).join(name + ".bin");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::create_dir_all(DIRECTORY).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
        assert_eq!(std::fs::read(&path).ok(), Some(bytes), "{}: UPDATE_EXPECT=1 writes it", path.display());
    }
    for entry in std::fs::read_dir(DIRECTORY).unwrap() {
        exercise(&std::fs::read(entry.unwrap().path()).unwrap());
    }
}
