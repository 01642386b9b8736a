//! Sealed parts.

use super::{Place, V4, packet, part, part_of, put};
use crate::isa::{Abort, Operator, StateInstruction};
use crate::seal::{self, OperatorKey};
use crate::site::{InstructionFate, Location};
use crate::store::StoreSpec;
use crate::wire::{Addresses, Carriages, Locations, Part, PartError, datagram, dedicated, strip, strip_by, wrap};
use packet::wire::complete_checksum;
use proptest::prelude::*;
use siphasher::sip::SipHasher24;

const KEY: OperatorKey = OperatorKey::new([0x5a; 16]);
const OTHER: OperatorKey = OperatorKey::new([0x5b; 16]);

/// A place that executes parts sealed with [`KEY`].
fn guarded() -> Place {
    let mut place = Place::new(StoreSpec::of(100));
    place.rules.sealed = Some((KEY, std::mem::take(&mut place.rules.allowed)));
    place
}

fn sealed(key: OperatorKey, instruction: StateInstruction) -> Vec<u8> {
    dedicated(&Carriages::default(), V4, &key.sealed(part(instruction)))
}

/// The example of the paper's appendix A: the seal is SipHash-2-4.
#[test]
fn seal_is_siphash_2_4() {
    let (key, input): ([u8; 16], [u8; 15]) = (std::array::from_fn(|n| n as u8), std::array::from_fn(|n| n as u8));
    assert_eq!(SipHasher24::new_with_key(&key).hash(&input), 0xa129_ca61_49be_45e5);
    let part = part(StateInstruction::Test { tag: 1 });
    let bytes = OperatorKey::new(key).seal(&part);
    assert_eq!((bytes.len(), bytes[2], bytes[3]), (30, 30, 0x40));
    let said = SipHasher24::new_with_key(&key).hash(&bytes[..20]).to_le_bytes();
    assert_eq!(bytes[20..28], said);
    assert_eq!(packet::wire::checksum::sum(&bytes), 0xffff);
}

#[test]
fn only_parts_sealed_with_the_key_are_executed() {
    let mut place = guarded();
    let unauthenticated = InstructionFate::Aborted(Abort::Unauthenticated);
    assert_eq!(place.pass(Location::Input, &mut sealed(KEY, put(1, 5))), InstructionFate::Forwarded);
    assert_eq!(place.pass(Location::Input, &mut sealed(OTHER, put(1, 6))), unauthenticated);
    assert_eq!(place.pass(Location::Input, &mut packet(&part(put(1, 7)))), unauthenticated);
    assert_eq!(place.value(1), Some(5));
    // They are forwarded with the error bit, and later routers do not try again.
    for mut bytes in [sealed(OTHER, put(1, 6)), packet(&part(put(1, 7)))] {
        place.pass(Location::Input, &mut bytes);
        assert_eq!(place.pass(Location::Input, &mut bytes), InstructionFate::PassedThrough);
        assert!(seal::read(&bytes[20..]).unwrap().error);
    }
    let counters = place.site.counters();
    assert_eq!((counters.aborted(Abort::Unauthenticated), counters.failed_before), (4, 2));
}

/// A router without the key cannot seal a rewritten part, so it passes sealed parts unexecuted.
#[test]
fn sealed_parts_pass_unexecuted_at_a_router_without_a_key() {
    let mut place = Place::small();
    for instruction in [put(1, 5), StateInstruction::Get { tag: 1, value: 0 }] {
        let mut bytes = sealed(KEY, instruction);
        let before = bytes.clone();
        assert_eq!((place.pass(Location::Input, &mut bytes), bytes), (InstructionFate::PassedThrough, before));
    }
    assert_eq!(place.value(1), None);
}

#[test]
fn seal_covers_every_bit_except_the_error_bit() {
    let bytes = KEY.seal(&part(StateInstruction::Get { tag: 1, value: 3 }));
    for bit in 0..8 * (bytes.len() - 2) {
        let mut forged = bytes.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        let end = forged.len() - 2;
        let sum = packet::wire::checksum::checksum(&forged[..end]);
        forged[end..].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(KEY.read(&forged).is_ok(), bit == 1, "bit {bit}");
    }
}

/// A router seals a rewritten part, so the next one accepts the seal and reads the new value.
#[test]
fn router_seals_a_part_again_after_rewriting_it() {
    let mut places = [guarded(), guarded()];
    for (place, value) in places.iter_mut().zip([7, 9]) {
        assert_eq!(place.pass(Location::Input, &mut sealed(KEY, put(1, value))), InstructionFate::Forwarded);
    }
    let mut bytes = sealed(KEY, StateInstruction::Get { tag: 1, value: 0 });
    for (place, value) in places.iter_mut().zip([7, 9]) {
        assert_eq!(place.pass(Location::Input, &mut bytes), InstructionFate::Forwarded);
        assert_eq!(KEY.read(&bytes[20..]).unwrap().instruction, StateInstruction::Get { tag: 1, value });
    }
    // The child that a router writes is sealed as well.
    let mut bytes = sealed(KEY, StateInstruction::Rchld { counter: 2, child: 77 });
    assert_eq!(places[0].pass(Location::Input, &mut bytes), InstructionFate::Forwarded);
    assert!(
        matches!(KEY.read(&bytes[20..]).unwrap().instruction, StateInstruction::Rchld { counter: 2, child } if child != 77)
    );
    assert_eq!(places[1].pass(Location::Input, &mut bytes), InstructionFate::Forwarded);
}

#[test]
fn data_behind_a_sealed_part_is_recovered() {
    let carriages = Carriages::default();
    let v6 = Addresses::V6("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    for addresses in [V4, v6] {
        let data = datagram(&Carriages { port: Some(9), ..carriages }, addresses, 4000, &part(put(9, 9))).unwrap();
        let mut wrapped = wrap(&carriages, &data, &KEY.sealed(part(put(1, 5)))).unwrap();
        assert_eq!(guarded().pass(Location::Input, &mut wrapped), InstructionFate::Forwarded);
        assert_eq!(strip(&carriages, &wrapped), Err(PartError::Sealed));
        let (inner, part) = strip_by(&carriages, &wrapped, |bytes| KEY.read(bytes)).unwrap();
        assert_eq!((part.instruction, part.piggybacked), (put(1, 5), true));
        assert_eq!(inner[inner.len() - 30..], data[data.len() - 30..]);
        assert_eq!(
            strip_by(&carriages, &wrapped, |bytes| OTHER.read(bytes)),
            Err(PartError::Invalid(Abort::Unauthenticated))
        );
    }
}

/// During a key change a part is sealed again with the key it had.
#[test]
fn rewritten_part_keeps_the_key_of_its_seal() {
    let both = KEY.with_secondary([0x5b; 16]);
    let mut place = guarded();
    place.rules.sealed = place.rules.sealed.map(|(_, allowed)| (both, allowed));
    assert_eq!(place.pass(Location::Input, &mut sealed(KEY, put(1, 5))), InstructionFate::Forwarded);
    for key in [KEY, OTHER, both] {
        let mut bytes = sealed(key, StateInstruction::Get { tag: 1, value: 0 });
        assert_eq!(place.pass(Location::Input, &mut bytes), InstructionFate::Forwarded);
        let own = if key == OTHER { OTHER } else { KEY };
        assert_eq!(own.read(&bytes[20..]).unwrap().instruction, StateInstruction::Get { tag: 1, value: 5 });
    }
    let third = OperatorKey::new([0x5c; 16]);
    assert_eq!(
        place.pass(Location::Input, &mut sealed(third, put(1, 6))),
        InstructionFate::Aborted(Abort::Unauthenticated)
    );
    assert_eq!(both.seal(&part(put(1, 5))), KEY.seal(&part(put(1, 5))), "what is made has the first");
    let prints = [KEY, OTHER, both, OTHER.with_secondary([0x5a; 16])].map(|key| key.fingerprint(1));
    assert!((0..4).all(|one| (0..one).all(|other| prints[one] != prints[other])), "{prints:?}");
    assert_ne!(KEY.fingerprint(1), KEY.fingerprint(2), "nobody finds out without the secret");
}

#[test]
fn key_is_parsed_and_never_printed() {
    let key: OperatorKey = " 000102030405060708090a0b0c0d0e0f\n".parse().unwrap();
    assert_eq!(key, OperatorKey::new(std::array::from_fn(|n| n as u8)));
    assert_eq!(format!("{key:?}"), "OperatorKey");
    assert!(!format!("{:?}", guarded().rules).contains("90"), "0x5a");
    let lines = "000102030405060708090a0b0c0d0e0f\r\n5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b\n";
    assert_eq!(lines.parse::<OperatorKey>().unwrap(), key.with_secondary([0x5b; 16]));
    let third = lines.to_owned() + &"1".repeat(32);
    assert!(third.parse::<OperatorKey>().is_err() && lines[..60].parse::<OperatorKey>().is_err());
    let with_sign = format!("+{}", "1".repeat(31));
    for text in ["", "00", &"g".repeat(32), &"0".repeat(33), &with_sign, &"é".repeat(16)] {
        let error = text.parse::<OperatorKey>().unwrap_err().to_string();
        assert!(text.is_empty() || !error.contains(text), "{error}");
    }
}

fn any_instruction() -> impl Strategy<Value = StateInstruction> {
    prop_oneof![
        any::<u8>().prop_map(|threshold| StateInstruction::Count {
            counter: 1,
            threshold: threshold.into(),
            inclusive: true
        }),
        any::<u64>().prop_map(|value| StateInstruction::Compare { tag: 2, value, relation: Operator::Gt }),
        any::<u64>().prop_map(|value| StateInstruction::Collect {
            counter: 3,
            result: 4,
            value,
            operator: Operator::Max
        }),
        any::<u8>().prop_map(|child| StateInstruction::Rchld { counter: 5, child: child.into() }),
        (any::<u8>(), any::<u64>()).prop_map(|(child, value)| StateInstruction::Rcollect {
            counter: 5,
            result: 6,
            child: child.into(),
            value,
            operator: Operator::Add,
        }),
        any::<u64>().prop_map(|value| StateInstruction::Get { tag: 2, value }),
        any::<u8>().prop_map(|value| put(3, value.into())),
    ]
}

proptest! {
    /// A sealed part has the same effect as a plain one, and the enclosing checksum stays valid.
    #[test]
    fn sealed_and_plain_parts_have_the_same_effect(
        instructions in proptest::collection::vec((any_instruction(), 0u8..8, any::<bool>()), 1..40),
    ) {
        let (mut open, mut guarded) = (Place::small(), guarded());
        let carriages = Carriages::default();
        for (instruction, bits, trace) in instructions {
            let bit = |n: u8| bits >> n & 1 != 0;
            let locations = Locations { input: bit(0), central: bit(1), output: bit(2) };
            let part = Part { locations, trace, ..part(instruction) };
            let (mut plain, mut sealed) = (
                datagram(&carriages, V4, 4000, &part).unwrap(),
                datagram(&carriages, V4, 4000, &KEY.sealed(part)).unwrap(),
            );
            let fate = open.pass(Location::Input, &mut plain);
            prop_assert_eq!(guarded.pass(Location::Input, &mut sealed), fate);
            prop_assert_eq!(KEY.read(&sealed[28..]), Ok(part_of(&plain)));
            let mut summed = sealed.clone();
            prop_assert!(complete_checksum(&mut summed).is_ok());
            let sum = packet::wire::checksum::sum;
            prop_assert!(summed == sealed || sum(&summed) == sum(&sealed), "the datagram's sum");
        }
    }
}
