//! Golden vectors: every instruction on absent, present and expired tags, in a full store, and on present tags in a full store, as the bytes of
//! packets. Other implementations can be tested against them. `UPDATE_EXPECT=1 cargo test -p esp` writes them. The plain model checks them.

use super::model::Model;
use super::{Place, part, part_of, put};
use crate::isa::{Opcode, Operator, StateInstruction};
use crate::seal::OperatorKey;
use crate::site::{InstructionFate, Location};
use crate::store::{LIFETIME, StoreSpec};
use std::fmt::Write;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/conformance/vectors.txt");
const CAPACITY: u64 = 8;
const KEY: &str = "000102030405060708090a0b0c0d0e0f";
const COUNTER: u64 = 0x11;
const RESULT: u64 = 0x22;
const CHILD: u64 = 0x33;

/// Every instruction with each of its operators.
pub fn variants() -> Vec<StateInstruction> {
    let (tag, counter, result, child, value) = (COUNTER, COUNTER, RESULT, CHILD, 5);
    let combining = || Operator::ALL.into_iter().filter(|operator| operator.combines());
    let comparing = || Operator::ALL.into_iter().filter(|operator| !operator.combines());
    let mut all = vec![StateInstruction::Nop];
    all.extend([false, true].map(|inclusive| StateInstruction::Count { counter, threshold: 4, inclusive }));
    all.extend(comparing().map(|relation| StateInstruction::Compare { tag, value, relation }));
    all.extend(combining().map(|operator| StateInstruction::Collect { counter, result, value, operator }));
    all.extend(combining().map(|operator| StateInstruction::Rcollect { counter, result, child, value, operator }));
    all.push(StateInstruction::Rchld { counter, child });
    all.extend([
        StateInstruction::Mark { tag, value },
        StateInstruction::Test { tag },
        StateInstruction::Get { tag, value },
    ]);
    all.push(put(tag, value));
    all.extend(comparing().map(|relation| StateInstruction::Setfwd { tag, value, relation }));
    all
}

/// The entries of the "present" condition: two children have registered, one has reported.
fn setup(instruction: &StateInstruction) -> Vec<StateInstruction> {
    let (counter, child) = (COUNTER, CHILD);
    match instruction.opcode() {
        Opcode::Collect => vec![put(COUNTER, 1), put(RESULT, 12)],
        Opcode::Rcollect => vec![StateInstruction::Rchld { counter, child }, put(RESULT, 12)],
        Opcode::Rchld => {
            vec![StateInstruction::Rchld { counter, child }, StateInstruction::Rchld { counter, child: CHILD + 1 }]
        }
        _ => vec![put(COUNTER, 3)],
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .chunks(4)
        .map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        .collect::<Vec<_>>()
        .join(" ")
}

fn entries(place: &Place) -> String {
    let mut entries: Vec<_> =
        place.inspector.entries(place.now).map(|e| format!("{:x}={:x}", e.tag, e.value)).collect();
    entries.sort();
    if entries.is_empty() { "nothing".to_owned() } else { entries.join(" ") }
}

/// Instructions that fill the store.
fn filling(entries: u64) -> impl Iterator<Item = StateInstruction> {
    (0..entries).map(|n| put(0xf0 + n, 0))
}

/// The entries of the "expired" condition. If they were live, most instructions would have another fate. One entry is unrelated to the instruction.
fn expired(instruction: &StateInstruction) -> Vec<StateInstruction> {
    let mut before = match *instruction {
        StateInstruction::Compare { tag, value, relation } => {
            let fails = |there: &u64| !relation.holds(value, *there);
            [3, 5, 9].into_iter().find(fails).map(|there| put(tag, there)).into_iter().collect()
        }
        _ => setup(instruction),
    };
    before.extend(filling(1));
    before
}

fn vector(text: &mut String, instruction: StateInstruction, condition: &str) {
    let mut place = Place::new(StoreSpec::of(CAPACITY));
    let mut model = Model::new(CAPACITY as usize);
    let before = match condition {
        "absent" => Vec::new(),
        "full" => filling(CAPACITY).collect(),
        "expired" => expired(&instruction),
        _ => setup(&instruction),
    };
    model.at(place.now);
    for instruction in before {
        assert_eq!(place.run(instruction), model.run(instruction), "what comes before");
    }
    if condition == "present in full" {
        let room = CAPACITY - place.inspector.entries(place.now).count() as u64;
        for instruction in filling(room) {
            assert_eq!(place.run(instruction), model.run(instruction), "what comes before");
        }
    }
    let there = entries(&place);
    let mut lines = vec![("there", there)];
    if condition == "expired" {
        place.wait(LIFETIME);
        model.at(place.now);
        lines.push(("later", LIFETIME.to_string()));
    }
    let mut packet = super::packet(&part(instruction));
    let came = hex(&packet[20..]);
    let fate = place.pass(Location::Input, &mut packet);
    let goes = hex(&packet[20..]);
    let after = part_of(&packet);
    assert_eq!((fate, after.instruction), model.run(instruction), "{instruction:?} {condition}");
    assert_eq!(after.error, matches!(fate, InstructionFate::Aborted(_)));
    let operator = match instruction {
        StateInstruction::Count { inclusive, .. } => if inclusive { " le" } else { " lt" }.to_owned(),
        StateInstruction::Compare { relation: operator, .. }
        | StateInstruction::Setfwd { relation: operator, .. }
        | StateInstruction::Collect { operator, .. }
        | StateInstruction::Rcollect { operator, .. } => format!(" {operator}"),
        _ => String::new(),
    };
    let fate = match fate {
        InstructionFate::Forwarded => "forwarded".to_owned(),
        InstructionFate::Dropped => "dropped".to_owned(),
        InstructionFate::Aborted(why) => format!("aborted {why}"),
        InstructionFate::PassedThrough => "passed".to_owned(),
    };
    let goes = if goes == came { "the same".to_owned() } else { goes };
    writeln!(text, "\n{}{operator}, {condition}", instruction.opcode()).unwrap();
    lines.extend([("packet", came), ("fate", fate), ("then", goes), ("leaves", entries(&place))]);
    for (name, line) in lines {
        writeln!(text, "  {name:<7}{line}").unwrap();
    }
}

/// The same at a router with a key: sealed, sealed with another key, modified, not sealed.
fn sealed(text: &mut String, instruction: StateInstruction) {
    let key: OperatorKey = KEY.parse().unwrap();
    let right = key.seal(&part(instruction));
    let mut changed = part(instruction);
    changed.computation ^= 1;
    let mut changed = key.seal(&changed);
    // The part of another computation with the original number: only its seal is wrong.
    changed[4..12].copy_from_slice(&right[4..12]);
    let end = changed.len() - 2;
    let sum = packet::wire::checksum::checksum(&changed[..end]);
    changed[end..].copy_from_slice(&sum.to_be_bytes());
    let other = OperatorKey::new([0xff; 16]).seal(&part(instruction));
    for (how, bytes) in [
        ("sealed", right),
        ("otherwise sealed", other),
        ("changed", changed),
        ("unsealed", part(instruction).to_bytes()),
    ] {
        let mut place = Place::new(StoreSpec::of(CAPACITY));
        for instruction in setup(&instruction) {
            place.fate(instruction);
        }
        let there = entries(&place);
        place.rules.sealed = Some((key, std::mem::take(&mut place.rules.allowed)));
        let mut packet = super::packet(&part(StateInstruction::Nop));
        packet.truncate(20);
        packet.extend(&bytes);
        packet[3] = packet.len() as u8;
        let fate = match place.pass(Location::Input, &mut packet) {
            InstructionFate::Aborted(why) => format!("aborted {why}"),
            InstructionFate::Dropped => "dropped".to_owned(),
            fate => format!("{fate:?}").to_lowercase(),
        };
        assert_eq!(fate == "aborted unauthenticated", how != "sealed", "{instruction} {how}");
        let goes = if packet[20..] == bytes { "the same".to_owned() } else { hex(&packet[20..]) };
        writeln!(text, "\n{how} {}, present", instruction.opcode()).unwrap();
        let lines =
            [("key", KEY.to_owned()), ("there", there), ("packet", hex(&bytes)), ("fate", fate), ("then", goes)];
        for (name, line) in lines.into_iter().chain([("leaves", entries(&place))]) {
            writeln!(text, "  {name:<7}{line}").unwrap();
        }
    }
}

#[test]
fn printed_instructions_parse_back_the_same() {
    for instruction in variants() {
        assert_eq!(instruction.to_string().parse(), Ok(instruction));
    }
    for text in ["", "nop 1", "count 1 under 3", "collect 1 2 lt 3", "compare 1 add 2", "mark 1", "test 0xg"] {
        assert!(text.parse::<StateInstruction>().is_err(), "{text}");
    }
}

#[test]
fn conform_golden_vectors() {
    let mut text = String::from(
        "# The effect of each instruction on a packet and on a store, as bytes of the part that routers execute (without its carriage).\n\
         # The node has number 7. The store holds eight entries, which live for 10 s. Tags and values are in hexadecimal.\n\
         # The entries present were created before the packet. The packet arrives at once, or after the time that a line gives.\n\
         # With a key, the router executes only sealed parts.\n",
    );
    for instruction in variants() {
        for condition in ["absent", "present", "expired", "full", "present in full"] {
            vector(&mut text, instruction, condition);
        }
    }
    for opcode in Opcode::ALL {
        let one = variants().into_iter().find(|instruction| instruction.opcode() == opcode).unwrap();
        sealed(&mut text, one);
    }
    expect_test::expect_file![FILE].assert_eq(&text);
}
