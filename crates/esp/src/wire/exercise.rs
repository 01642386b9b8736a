//! Runs every parser of parts on arbitrary bytes and checks invariants of the results. The entry point of fuzzing and of the corpus tests.

use super::{Carriages, Part, PartError, PartHead, peek, rewrite, set_error, set_error_in, strip, wrap, wrap_option};
use crate::isa::{Abort, execute};
use crate::registered::{RegisteredPart, rewrite_value as rewrite_registered};
use crate::seal::{self, OperatorKey};
use crate::store::TagView;
use packet::wire::checksum::sum;
use packet::wire::transport::{find_checksummed, verify_checksum};
use std::ops::Range;

/// Parses `bytes` as a part, and as an IP packet with a part.
///
/// # Panics
/// If a result violates an invariant: that is a bug of this crate, never of the input.
pub fn exercise(bytes: &[u8]) {
    of_part(bytes);
    of_registered(bytes);
    let carriages = Carriages::default();
    if let Some((range, _)) = carriages.find(bytes) {
        of_part(&bytes[range.clone()]);
        of_registered(&bytes[range.clone()]);
        of_failed(bytes, range);
    }
    if let Ok((inner, part)) = strip(&carriages, bytes) {
        assert!(part.piggybacked && inner.len() < bytes.len(), "something was taken out");
    }
    let probe = Part { piggybacked: false, ..PROBE };
    for wrapped in [wrap(&carriages, bytes, &probe), wrap_option(&carriages, bytes, &probe)].into_iter().flatten() {
        let (inner, part) = strip(&carriages, &wrapped).expect("what was wrapped is there");
        assert_eq!(part, Part { piggybacked: true, ..probe });
        assert!(bytes.len() >= inner.len(), "without what was behind the packet");
        let (range, _) = carriages.find(&wrapped).expect("a router finds it");
        assert_eq!(Part::read(&wrapped[range]), Ok(part));
    }
}

const PROBE: Part = Part {
    locations: super::Locations::INPUT,
    error: false,
    piggybacked: false,
    trace: false,
    computation: 7,
    instruction: crate::isa::StateInstruction::Test { tag: 8 },
};

/// Sets the error bit in a packet.
fn of_failed(bytes: &[u8], part: Range<usize>) {
    let mut failed = bytes.to_vec();
    set_error_in(&mut failed, part.start);
    assert!(peek(&failed[part.clone()]).is_none_or(PartHead::error));
    let is_in_datagram =
        find_checksummed(bytes).is_ok_and(|summed| summed.is_some_and(|summed| summed.range.end == part.end));
    let right = verify_checksum(bytes);
    if is_in_datagram && right == Ok(Some(true)) {
        assert_eq!(verify_checksum(&failed), right, "what is right stays right");
    }
}

/// A registered instruction.
fn of_registered(bytes: &[u8]) {
    let plain = seal::unsealed(bytes);
    let Ok(part) = RegisteredPart::read(&plain) else { return };
    let length = part.to_bytes().len();
    assert_eq!(RegisteredPart::read(&part.to_bytes()), Ok(part), "what is written reads the same");
    let mut changed = plain.clone();
    rewrite_registered(&mut changed, 9);
    set_error(&mut changed);
    let mut after = RegisteredPart { error: true, ..part };
    after.instruction.value = 9;
    assert_eq!(RegisteredPart::read(&changed), Ok(after));
    assert_eq!(changed[length..], plain[length..], "nothing behind it is touched");
    let key = OperatorKey::new([1; 16]);
    assert_eq!(key.unsealed(&key.seal(&part)).as_deref(), Ok(&part.to_bytes()[..]));
}

/// A sealed part. Without the key one can set its error bit, and nothing else.
fn of_sealed(bytes: &[u8]) {
    let key = OperatorKey::new([1; 16]);
    if let Ok(part) = key.read(bytes) {
        assert_eq!(seal::read(bytes), Ok(part));
    }
    let mut changed = bytes.to_vec();
    set_error(&mut changed);
    let (before, after) = (seal::read(bytes), seal::read(&changed));
    assert_eq!(after, before.map(|part| Part { error: true, ..part }));
    let Ok(part) = before else { return };
    let sealed = key.seal(&part);
    assert_eq!((key.read(&sealed), seal::read(&sealed)), (Ok(part), Ok(part)));
    let mut failed = sealed.clone();
    set_error(&mut failed);
    assert_eq!(key.read(&failed), Ok(Part { error: true, ..part }), "the error bit is anybody's to set");
    for at in (0..sealed.len()).filter(|at| *at != 2) {
        let mut forged = sealed.clone();
        forged[at] ^= 0x20;
        assert_ne!(key.read(&forged), Ok(part), "byte {at} is of the seal");
    }
}

fn of_part(bytes: &[u8]) {
    let (peeked, read) = (peek(bytes), Part::read(bytes));
    match read {
        Err(PartError::NotAPart) => return assert_eq!(peeked, None, "whoever peeks knows a version too"),
        Err(PartError::Invalid(why)) => {
            assert!(peeked.is_some());
            let mut changed = bytes.to_vec();
            set_error(&mut changed);
            if changed != bytes {
                // The part still has the same error.
                assert_eq!(Part::read(&changed), Err(PartError::Invalid(why)));
                assert_eq!(peek(&changed).map(PartHead::error), Some(true));
            }
            return;
        }
        Err(PartError::Sealed) => return of_sealed(bytes),
        Ok(part) => {
            let peeked = peeked.map(|head| (head.locations(), head.error(), head.computation));
            assert_eq!(peeked, Some((part.locations, part.error, part.computation)));
        }
    }
    let Ok(part) = read else { return };
    let length = part.length();
    assert_eq!(sum(&bytes[..length]), 0xffff);
    assert_eq!(Part::read(&part.to_bytes()), Ok(part), "what is written reads the same");
    let mut changed = bytes.to_vec();
    set_error(&mut changed);
    assert_eq!(Part::read(&changed), Ok(Part { error: true, ..part }));
    for present in [0, 0b1111] {
        let mut view: TagView = TagView::new();
        (0..4).filter(|tag| present >> tag & 1 != 0).for_each(|tag| view.set_stored(tag, 1));
        let mut executed = part;
        let verdict = execute(&mut executed.instruction, &mut view, 9);
        assert!(
            !matches!(verdict, crate::isa::InstructionVerdict::Abort(why) if why == Abort::Full),
            "only a store is full"
        );
        let mut rewritten = bytes.to_vec();
        rewrite(&mut rewritten, &executed.instruction);
        assert_eq!(Part::read(&rewritten), Ok(executed), "what was executed is what goes on");
        assert_eq!(sum(&rewritten[..length]), 0xffff);
        assert_eq!(rewritten[length..], bytes[length..], "nothing behind it is touched");
    }
}
