//! Registered instructions, implemented by functions.

use super::{Place, V4, part};
use crate::isa::{Abort, Operator};
use crate::registered::{InvalidCall, RegisteredInstruction, RegisteredPart, Registry};
use crate::seal::OperatorKey;
use crate::site::{InstructionFate, Location};
use crate::stats::StoreStats;
use crate::store::StoreSpec;
use crate::wire::{Carriages, Locations, PartError, datagram, dedicated};
use packet::wire::complete_checksum;
use plan::InstructionDeclaration;
use plan::state::RegisteredPlan;
use plane::hook::{PortVariables, UNKNOWN};
use plane::instructions::{CustomInstruction, InstructionCall, InstructionMaker, InstructionOutcome, code};
use proptest::prelude::*;
use std::sync::Arc;
use units::Nanos;

/// An instruction implemented by a function.
#[derive(Clone, Copy)]
struct Function(fn(&mut InstructionCall) -> Result<InstructionOutcome, String>);

impl CustomInstruction for Function {
    fn execute(&mut self, call: &mut InstructionCall) -> Result<InstructionOutcome, String> {
        (self.0)(call)
    }
}

impl InstructionMaker for Function {
    fn make(&self) -> Result<Box<dyn CustomInstruction>, String> {
        Ok(Box::new(*self))
    }
}

fn plan(
    number: u8,
    (tags, creates): (u8, u8),
    function: fn(&mut InstructionCall) -> Result<InstructionOutcome, String>,
) -> RegisteredPlan {
    let declared = InstructionDeclaration { name: "ours", summary: "Ours.", tags, creates };
    RegisteredPlan { number, declared, code: code(number.into(), Arc::new(Function(function))) }
}

/// Subtracts the packet's value from the stored one, and forwards the rest.
fn take(call: &mut InstructionCall) -> Result<InstructionOutcome, String> {
    let Some(there) = call.entries[0] else { return Ok(InstructionOutcome::Absent) };
    let Some(left) = there.checked_sub(call.value) else { return Ok(InstructionOutcome::Underflow) };
    (call.written[0], call.value) = (Some(left), left);
    Ok(if left == 0 { InstructionOutcome::Drop } else { InstructionOutcome::Forward })
}

fn called(number: u8, tags: &[u64], value: u64) -> RegisteredPart {
    let instruction = RegisteredInstruction::new(number, Operator::Max, tags, value).unwrap();
    let like = part(super::count(1, 2));
    let (locations, computation) = (like.locations, like.computation);
    RegisteredPart { locations, error: false, piggybacked: false, trace: true, computation, instruction }
}

fn pass(place: &mut Place, registry: &mut Registry, packet: &mut Vec<u8>) -> InstructionFate {
    let readings = crate::variables::Readings {
        permitted: crate::variables::PermittedVariables::of(&[plan::state::Variable::Node]),
        of_port: PortVariables::default(),
        node: 7,
        now: place.now,
    };
    let mut fates = [InstructionFate::PassedThrough];
    place.site.register(registry);
    let packets = std::slice::from_mut(packet);
    let of = (&place.rules, Location::Input);
    place.site.process_with_variables(of, (&readings, registry), place.now, (packets, UNKNOWN), &mut fates);
    fates[0]
}

#[test]
fn registered_instruction_reads_and_writes_its_tags() {
    let mut registry = Registry::of(&[plan(130, (1, 0), take)]).unwrap();
    let mut place = Place::small();
    let carriages = Carriages::default();
    place.fate(super::put(5, 10));
    for (value, fate, left) in [
        (3, InstructionFate::Forwarded, 7),
        (8, InstructionFate::Aborted(Abort::Underflow), 7),
        (7, InstructionFate::Dropped, 0),
        (0, InstructionFate::Dropped, 0),
    ] {
        let mut packet = datagram(&carriages, V4, 9, &called(130, &[5], value)).unwrap();
        assert_eq!((pass(&mut place, &mut registry, &mut packet), place.value(5)), (fate, Some(left)), "{value}");
        let then = RegisteredPart::read(&packet[28..]).unwrap();
        let goes_on = if fate == InstructionFate::Forwarded { left } else { then.instruction.value };
        assert_eq!((then.instruction.value, then.error), (goes_on, matches!(fate, InstructionFate::Aborted(_))));
        let mut summed = packet.clone();
        assert!(complete_checksum(&mut summed).is_ok() && packet::wire::checksum::sum(&summed[20..]) > 0);
    }
    let mut absent = dedicated(&carriages, V4, &called(130, &[6], 1));
    assert_eq!(pass(&mut place, &mut registry, &mut absent), InstructionFate::Aborted(Abort::AbsentTag));
    let (name, counted) = place.site.executed_at(Location::Input).last().unwrap();
    assert_eq!((name, counted.forwarded, counted.dropped), ("ours", 1, 2));
}

#[test]
fn registered_instructions_are_timed() {
    let mut registry = Registry::of(&[plan(130, (1, 0), take)]).unwrap();
    let (mut place, mut seen) = (Place::small(), StoreStats::default());
    place.fate(super::put(5, 10));
    for (value, time) in [(1, 300), (99, 900), (2, 500)] {
        let mut packet = dedicated(&Carriages::default(), V4, &called(130, &[5], value));
        place.site.register(&registry);
        seen.begin_timing(&place.site, Location::Input);
        pass(&mut place, &mut registry, &mut packet);
        seen.record_time(Nanos::new(time), 1, (&place.site, Location::Input));
    }
    let (name, spread) = seen.execution_times_at(Location::Input).last().unwrap();
    assert_eq!((name, spread.count()), ("ours", 2), "one was aborted, which is not timed");
    assert_eq!(spread.most(), Nanos::new(500));
}

#[test]
fn unregistered_instructions_and_wrong_lengths_are_aborted() {
    let mut registry = Registry::of(&[plan(130, (1, 0), take)]).unwrap();
    let mut place = Place::small();
    let carriages = Carriages::default();
    for (part, why) in [
        (called(131, &[5], 1), Abort::NotEnabled),
        (called(130, &[5, 6], 1), Abort::BadLength),
        (called(130, &[], 1), Abort::BadLength),
    ] {
        let mut packet = dedicated(&carriages, V4, &part);
        assert_eq!(pass(&mut place, &mut registry, &mut packet), InstructionFate::Aborted(why), "{part:?}");
        assert!(RegisteredPart::read(&packet[20..]).unwrap().error);
        assert_eq!(
            pass(&mut place, &mut registry, &mut packet),
            InstructionFate::PassedThrough,
            "an earlier router could not execute it"
        );
    }
    let mut damaged = dedicated(&carriages, V4, &called(130, &[5], 1));
    damaged[40] ^= 1;
    assert_eq!(pass(&mut place, &mut registry, &mut damaged), InstructionFate::Aborted(Abort::BadChecksum));
    assert_eq!(place.inspector.entries(place.now).count(), 0);
}

/// A fault discards everything the instruction did. After three faults it is disabled; other instructions continue.
#[test]
fn fault_aborts_its_packet_and_three_disable_the_instruction() {
    fn faulty(call: &mut InstructionCall) -> Result<InstructionOutcome, String> {
        call.written = [Some(1), None, None, None];
        if call.value == 0 { Err("nothing there".into()) } else { Ok(InstructionOutcome::Forward) }
    }
    let mut registry = Registry::of(&[plan(130, (1, 1), faulty), plan(140, (1, 0), take)]).unwrap();
    let mut place = Place::small();
    let carriages = Carriages::default();
    let mut call = |registry: &mut Registry, number, value| {
        let mut packet = dedicated(&carriages, V4, &called(number, &[5], value));
        (pass(&mut place, registry, &mut packet), place.value(5))
    };
    let failed = InstructionFate::Aborted(Abort::GuestFailed);
    for fault in 1..=3 {
        assert_eq!(call(&mut registry, 130, 0), (failed, None));
        let told = registry.take_fault().unwrap();
        assert_eq!((told.instruction, told.fault.as_str(), told.is_disabled), ("ours", "nothing there", fault == 3));
        assert_eq!(registry.take_fault(), None, "said once");
    }
    assert_eq!(call(&mut registry, 130, 1), (failed, None), "it is not asked any more");
    assert_eq!(
        (call(&mut registry, 140, 1).0, registry.take_fault()),
        (InstructionFate::Aborted(Abort::AbsentTag), None)
    );
}

/// An instruction reaches no tag that its packet does not name, and creates no more entries than it declares.
#[test]
fn registered_instruction_cannot_exceed_its_declaration() {
    fn all(call: &mut InstructionCall) -> Result<InstructionOutcome, String> {
        call.written = [Some(1); 4];
        Ok(InstructionOutcome::Forward)
    }
    fn creates(call: &mut InstructionCall) -> Result<InstructionOutcome, String> {
        call.written[..2].fill(Some(call.value));
        Ok(InstructionOutcome::Forward)
    }
    let mut registry = Registry::of(&[plan(130, (2, 2), all), plan(131, (2, 1), creates)]).unwrap();
    let mut place = Place::small();
    let mut call = |registry: &mut Registry, part: &RegisteredPart| {
        let mut packet = dedicated(&Carriages::default(), V4, part);
        pass(&mut place, registry, &mut packet)
    };
    let failed = InstructionFate::Aborted(Abort::GuestFailed);
    assert_eq!(call(&mut registry, &called(130, &[1, 2], 1)), failed);
    assert!(registry.take_fault().unwrap().fault.contains("writes tag 2, but has only 2"));
    assert_eq!(call(&mut registry, &called(131, &[1, 2], 1)), failed);
    assert!(registry.take_fault().unwrap().fault.contains("creates 2 entries"));
    // A router variable can be read and not written.
    let node = crate::variables::tag(plan::state::Variable::Node);
    assert_eq!(call(&mut registry, &called(131, &[1, node], 1)), InstructionFate::Aborted(Abort::NotEnabled));
    assert_eq!(place.inspector.entries(place.now).count(), 0);
}

#[test]
fn full_store_aborts_registered_instruction_without_writes() {
    fn both(call: &mut InstructionCall) -> Result<InstructionOutcome, String> {
        call.written[..2].fill(Some(1));
        Ok(InstructionOutcome::Forward)
    }
    let mut registry = Registry::of(&[plan(130, (2, 2), both)]).unwrap();
    let mut place = Place::new(StoreSpec::of(3));
    let fates: Vec<InstructionFate> = (0..2)
        .map(|n| {
            pass(&mut place, &mut registry, &mut dedicated(&Carriages::default(), V4, &called(130, &[n, n + 10], 1)))
        })
        .collect();
    assert_eq!(fates, [InstructionFate::Forwarded, InstructionFate::Aborted(Abort::Full)]);
    assert_eq!(place.inspector.entries(place.now).count(), 2);
}

#[test]
fn registered_instructions_can_be_sealed() {
    let key = OperatorKey::new([3; 16]);
    let mut registry = Registry::of(&[plan(130, (1, 0), take)]).unwrap();
    let mut place = Place::small();
    place.fate(super::put(5, 10));
    let carriages = Carriages::default();
    let packet = |sealed: bool| {
        let part = called(130, &[5], 3);
        if sealed { dedicated(&carriages, V4, &key.sealed(part)) } else { dedicated(&carriages, V4, &part) }
    };
    let (mut passes, before) = (packet(true), packet(true));
    assert_eq!(
        (pass(&mut place, &mut registry, &mut passes), passes),
        (InstructionFate::PassedThrough, before),
        "the router has no key"
    );
    place.rules.sealed = Some((key, std::mem::take(&mut place.rules.allowed)));
    assert_eq!(pass(&mut place, &mut registry, &mut packet(false)), InstructionFate::Aborted(Abort::Unauthenticated));
    let mut goes = packet(true);
    assert_eq!((pass(&mut place, &mut registry, &mut goes), place.value(5)), (InstructionFate::Forwarded, Some(7)));
    assert_eq!(
        pass(&mut place, &mut registry, &mut goes),
        InstructionFate::Dropped,
        "sealed anew, with the seven that were left"
    );
    assert_eq!(place.value(5), Some(0));
}

proptest! {
    #[test]
    fn registered_parts_round_trip(
        number in 128u8..,
        operator in 0usize..14,
        tags in proptest::collection::vec(any::<u64>(), 0..5),
        (value, computation) in any::<(u64, u64)>(),
        bits in 0u8..64,
    ) {
        let bit = |n: u8| bits >> n & 1 != 0;
        let instruction = RegisteredInstruction::new(number, Operator::ALL[operator], &tags, value).unwrap();
        prop_assert_eq!(instruction.to_string().parse(), Ok(instruction));
        let locations = Locations { input: bit(0), central: bit(1), output: bit(2) };
        let part =
            RegisteredPart { locations, error: bit(3), piggybacked: bit(4), trace: bit(5), computation, instruction };
        let bytes = part.to_bytes();
        prop_assert_eq!(RegisteredPart::read(&bytes), Ok(part));
        prop_assert_eq!(bytes.len(), 22 + 8 * tags.len());
        crate::wire::exercise(&bytes);
        for end in 0..bytes.len() {
            prop_assert!(RegisteredPart::read(&bytes[..end]).is_err());
        }
    }

    #[test]
    fn registered_part_parser_accepts_any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Some(first) = bytes.first_mut() {
            *first = 0x20 | *first & 0x1f;
        }
        if let Ok(part) = RegisteredPart::read(&bytes) {
            prop_assert_eq!(RegisteredPart::read(&part.to_bytes()), Ok(part));
        }
        prop_assert!(RegisteredPart::read(&bytes[..bytes.len().min(11)]) == Err(PartError::NotAPart));
    }
}

#[test]
fn malformed_calls_are_rejected() {
    for text in
        ["", "call", "call 127 add 1", "call 128 1", "call 128 add", "call 128 plus 1 2", "call 128 add 1 2 3 4 5 6"]
    {
        assert_eq!(text.parse::<RegisteredInstruction>(), Err(InvalidCall), "{text}");
    }
}
