//! The messages: one encoding for each, vectors, and bytes that are none.

use super::super::batch::{Continuation, MOST_BITMAP, QuantumHeader, header_length, write_header};
use super::super::header::{MessageError, MessageKind};
use super::super::message::{Hello, MapEntry, Terms, write_hello, write_map};
use super::*;
use expect_test::{Expect, expect};
use proptest::prelude::*;

fn hex(bytes: &[u8]) -> String {
    bytes
        .chunks(16)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ") + "\n")
        .collect()
}

/// The quantum of every flow in these tests.
fn usual(_: u16) -> Option<u16> {
    Some(64)
}

fn encode(bitmap: u8, quanta: &[QuantumHeader]) -> Vec<u8> {
    let payload: usize = quanta.iter().map(|quantum| usize::from(quantum.length)).sum();
    let mut message = vec![0; 2048 + payload];
    let header = write_header(&mut message, (0xaabb_ccdd, 7), bitmap, quanta).unwrap();
    message.truncate(header + payload);
    for (at, byte) in message[header..].iter_mut().enumerate() {
        *byte = at as u8;
    }
    message
}

fn decoded(message: &[u8]) -> Result<Vec<QuantumHeader>, MessageError> {
    let (_, Message::Batch(batch)) = parse(message, &usual)? else { return Err(MessageError::Malformed) };
    let quanta = batch.quanta(&usual).map(|quantum| QuantumHeader {
        flow: quantum.flow,
        length: quantum.bytes.len() as u16,
        has_length: quantum.bytes.len() != 64,
        continues: quantum.continues,
    });
    Ok(quanta.collect())
}

fn any_quanta() -> impl Strategy<Value = (u8, Vec<QuantumHeader>)> {
    let continuation = (1..=u16::MAX, 1..=u16::MAX).prop_map(|(back, remaining)| Continuation { back, remaining });
    let quantum = (any::<bool>(), prop_oneof![Just(64u16), 1..400u16], prop::option::of(continuation));
    (1..=MOST_BITMAP, 0..60_000u16, prop::collection::vec(quantum, 1..=256)).prop_map(|(bitmap, first, choices)| {
        let flows = choices.into_iter().take(usize::from(bitmap) * 8).zip(first..).enumerate();
        // The first flow always has a quantum.
        let present = flows.filter(|(at, ((present, ..), _))| *present || *at == 0);
        let quanta = present.map(|(_, ((_, length, continues), flow))| QuantumHeader {
            flow,
            length,
            has_length: length != 64,
            continues,
        });
        (bitmap, quanta.collect())
    })
}

proptest! {
    #[test]
    fn batches_are_read_as_they_were_written((bitmap, quanta) in any_quanta()) {
        let message = encode(bitmap, &quanta);
        prop_assert_eq!(decoded(&message), Ok(quanta));
    }

    #[test]
    fn truncated_batches_are_refused((bitmap, quanta) in any_quanta(), cut in 1..4000usize) {
        let message = encode(bitmap, &quanta);
        let short = &message[..message.len().saturating_sub(cut)];
        prop_assert!(decoded(short).is_err());
    }

    /// Never a panic, and never more bytes than the frame has.
    #[test]
    fn damaged_batches_yield_at_most_their_own_bytes(
        (bitmap, quanta) in any_quanta(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut message = encode(bitmap, &quanta);
        for (at, value) in damage {
            let at = at.index(message.len());
            message[at] = value;
        }
        if let Ok(quanta) = decoded(&message) {
            let bytes: usize = quanta.iter().map(|quantum| usize::from(quantum.length)).sum();
            prop_assert!(bytes <= message.len());
        }
        let framed = [&(message.len() as u16).to_be_bytes()[..], &message].concat();
        crate::dfq_wire::exercise(&framed);
    }

    #[test]
    fn random_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes, &usual);
        crate::dfq_wire::exercise(&bytes);
        // The same behind a correct header.
        for kind in 1..=4 {
            let _ = parse(&[&[0x10 | kind, 0, 0, 0, 0, 1][..], &bytes].concat(), &usual);
        }
    }
}

#[test]
fn padding_of_short_frames_is_ignored_and_that_of_long_ones_refused() {
    let quantum = QuantumHeader { flow: 3, length: 20, has_length: true, continues: None };
    let mut message = encode(1, &[quantum]);
    assert!(message.len() < 46);
    message.resize(46, 0);
    assert_eq!(decoded(&message), Ok(vec![quantum]));
    message.push(0);
    assert_eq!(decoded(&message), Err(MessageError::Malformed));
}

#[test]
fn batches_with_unknown_flows_are_refused() {
    let quantum = QuantumHeader { flow: 9, length: 64, has_length: false, continues: None };
    let message = encode(1, &[quantum]);
    let known = |flow: u16| (flow != 9).then_some(64);
    assert_eq!(parse(&message, &known).unwrap_err(), MessageError::Malformed);
}

#[test]
fn header_length_is_that_of_the_written_header() {
    let continues = Some(Continuation { back: 1, remaining: 2 });
    let quanta = [
        QuantumHeader { flow: 1, length: 64, has_length: false, continues },
        QuantumHeader { flow: 9, length: 5, has_length: true, continues: None },
    ];
    let mut out = [0; 64];
    assert_eq!(write_header(&mut out, (1, 1), 2, &quanta), Some(header_length(2, 2, 1, 1)));
    let short = header_length(2, 2, 1, 1) - 1;
    assert_eq!(write_header(&mut out[..short], (1, 1), 2, &quanta), None);
}

fn check(message: &[u8], expected: &Expect) {
    expected.assert_eq(&hex(message));
}

/// These bytes may not change without another version: both ends of a wire may be of different releases.
#[test]
fn messages_have_the_documented_bytes() {
    let terms = Terms { bitmap: 8, flows: 1024, frame: 1500, quantum: 256, cycle: 1_000_000 };
    let mut message = Vec::new();
    write_hello(&mut message, 0x0102_0304, &Hello { heard: 0x0a0b_0c0d, refuses: true, leaves: false, terms });
    check(
        &message,
        &expect![[r#"
            11 00 01 02 03 04 0a 0b 0c 0d 01 08 04 00 05 dc
            01 00 00 0f 42 40
        "#]],
    );
    message.clear();
    let entries = [MapEntry { flow: 1, label: 70_000, quantum: 256 }, MapEntry { flow: 2, label: 5, quantum: 64 }];
    write_map(&mut message, MessageKind::Map, 0x0102_0304, &entries);
    check(
        &message,
        &expect![[r#"
            12 00 01 02 03 04 00 02 00 01 00 01 11 70 01 00
            00 02 00 00 00 05 00 40
        "#]],
    );
    let quanta = [
        QuantumHeader { flow: 2, length: 64, has_length: false, continues: None },
        QuantumHeader {
            flow: 4,
            length: 3,
            has_length: true,
            continues: Some(Continuation { back: 1, remaining: 300 }),
        },
    ];
    check(
        &encode(1, &quanta),
        &expect![[r#"
            14 00 aa bb cc dd 00 00 00 07 00 02 01 a0 40 40
            00 03 00 01 01 2c 00 01 02 03 04 05 06 07 08 09
            0a 0b 0c 0d 0e 0f 10 11 12 13 14 15 16 17 18 19
            1a 1b 1c 1d 1e 1f 20 21 22 23 24 25 26 27 28 29
            2a 2b 2c 2d 2e 2f 30 31 32 33 34 35 36 37 38 39
            3a 3b 3c 3d 3e 3f 40 41 42
        "#]],
    );
}

#[test]
fn hellos_and_maps_are_read_as_they_were_written() {
    let terms = Terms { bitmap: 8, flows: 1024, frame: 1500, quantum: 256, cycle: 1_000_000 };
    let hello = Hello { heard: 77, refuses: false, leaves: true, terms };
    let mut message = Vec::new();
    write_hello(&mut message, 5, &hello);
    let Ok((5, Message::Hello(read))) = parse(&message, &usual) else { panic!("{message:?}") };
    assert_eq!(read, hello);
    // Later versions may append fields: the rest is ignored. No field may be missing.
    message.push(9);
    assert!(parse(&message, &usual).is_ok());
    for length in 0..message.len() - 1 {
        assert!(parse(&message[..length], &usual).is_err(), "{length}");
    }
    let entries: Vec<MapEntry> = (1..=30).map(|flow| MapEntry { flow, label: flow.into(), quantum: 64 }).collect();
    message.clear();
    write_map(&mut message, MessageKind::MapAnswer, 5, &entries);
    let Ok((5, Message::MapAnswer(read))) = parse(&message, &usual) else { panic!("{message:?}") };
    assert_eq!(read.iter().collect::<Vec<_>>(), entries);
    assert_eq!(parse(&[0x21, 0, 0, 0, 0, 1], &usual).unwrap_err(), MessageError::Version(2));
}
