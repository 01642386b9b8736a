//! The corpus of the fuzz target: messages behind their lengths. It replays here, and the generated files have what the code writes.

use super::dissect::frames;
use super::*;
use std::fs;
use std::path::PathBuf;

/// Bytes of the messages, each behind its length.
fn file(messages: &[&[u8]]) -> Vec<u8> {
    messages.iter().flat_map(|message| [&(message.len() as u16).to_be_bytes()[..], message].concat()).collect()
}

/// Generated files by name.
fn generated() -> Vec<(&'static str, Vec<u8>)> {
    let frames = frames();
    let messages: Vec<&[u8]> = frames.iter().map(|frame| &frame[HEADER..]).collect();
    let of = |kind: u8| messages.iter().copied().find(|message| message[0] == 0x10 | kind).unwrap();
    let changed = |at: usize, value: u8| {
        let mut message = of(4).to_vec();
        message[at] = value;
        file(&[of(1), of(2), &message])
    };
    let mut stream = vec![0x14, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0x80, 0x80, 0];
    stream.extend([0, 6, 0xff, 0xff, 1, 2, 3, 4]);
    let continued = [0x14, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0x80, 0x80, 0x80, 0, 3, 0xff, 0xff, 0xff, 0xff, 9, 9, 9];
    vec![
        ("session", file(&messages)),
        ("hello", file(&[of(1)])),
        ("map", file(&[of(1), of(2), of(3)])),
        ("lost-batches", file(&messages.iter().copied().step_by(3).collect::<Vec<_>>())),
        ("twice", file(&[of(1), of(2), of(4), of(4)])),
        ("truncated", file(&[of(1), of(2), &of(4)[..of(4).len() / 2]])),
        ("unknown-flows", file(&[of(4)])),
        ("bitmap-without-first-flow", changed(13, 0x01)),
        ("bitmap-longer-than-batch", changed(12, 255)),
        ("bitmap-of-no-octets", changed(12, 0)),
        ("unused-bits", changed(21, 0xff)),
        ("packet-too-long", file(&[of(1), &stream])),
        ("continues-nothing", file(&[of(1), &continued])),
    ]
}

#[test]
fn corpus_replays_and_is_up_to_date() {
    let directory = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/dfq_wire"));
    for (name, bytes) in generated() {
        let path = directory.join(format!("{name}.bin"));
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, &bytes).unwrap();
        }
        assert!(fs::read(&path).ok() == Some(bytes), "{}: UPDATE_EXPECT=1 writes it", path.display());
    }
    for entry in fs::read_dir(directory).unwrap() {
        crate::dfq_wire::exercise(&fs::read(entry.unwrap().path()).unwrap());
    }
}
