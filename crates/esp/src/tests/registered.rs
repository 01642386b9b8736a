//! Registered instructions, implemented by functions.

use super::{Place, V4, part};
use crate::isa::{Abort, Operator};
use crate::registered::{NoCall, RegisteredInstruction, RegisteredPart, Registry};
use crate::seal::OperatorKey;
use crate::seen::Seen;
use crate::site::{Fate, Location};
use crate::store::StoreSpec;
use crate::wire::{Carriages, Locations, Unread, datagram, dedicated};
use packet::wire::complete_checksum;
use plan::InstructionDeclaration;
use plan::state::RegisteredPlan;
use plane::hook::{UNKNOWN, Variables};
use plane::registered::{Call, Instructs, Outcome, Registered, code};
use proptest::prelude::*;
use std::sync::Arc;
use units::Nanos;

/// An instruction implemented by a function.
#[derive(Clone, Copy)]
struct Function(fn(&mut Call) -> Result<Outcome, String>);

impl Registered for Function {
    fn execute(&mut self, call: &mut Call) -> Result<Outcome, String> {
        (self.0)(call)
    }
}

impl Instructs for Function {
    fn make(&self) -> Result<Box<dyn Registered>, String> {
        Ok(Box::new(*self))
    }
}

fn plan(number: u8, (tags, creates): (u8, u8), function: fn(&mut Call) -> Result<Outcome, String>) -> RegisteredPlan {
    let declared = InstructionDeclaration { name: "ours", summary: "Ours.", tags, creates };
    RegisteredPlan { number, declared, code: code(number.into(), Arc::new(Function(function))) }
}

/// Subtracts the packet's value from the stored one, and forwards the rest.
fn take(call: &mut Call) -> Result<Outcome, String> {
    let Some(there) = call.there[0] else { return Ok(Outcome::Absent) };
    let Some(left) = there.checked_sub(call.value) else { return Ok(Outcome::Underflow) };
    (call.written[0], call.value) = (Some(left), left);
    Ok(if left == 0 { Outcome::Drop } else { Outcome::Forward })
}

fn called(number: u8, tags: &[u64], value: u64) -> RegisteredPart {
    let instruction = RegisteredInstruction::new(number, Operator::Max, tags, value).unwrap();
    let like = part(super::count(1, 2));
    let (locations, computation) = (like.locations, like.computation);
    RegisteredPart { locations, error: false, piggybacked: false, trace: true, computation, instruction }
}

fn pass(place: &mut Place, registry: &mut Registry, packet: &mut Vec<u8>) -> Fate {
    let readings = crate::variables::Readings {
        permitted: crate::variables::Permitted::of(&[plan::state::Variable::Node]),
        of_port: Variables::default(),
        node: 7,
        now: place.now,
    };
    let mut fates = [Fate::Passed];
    place.site.register(registry);
    let packets = std::slice::from_mut(packet);
    let of = (&place.rules, Location::Input);
    place.site.process_reading(of, (&readings, registry), place.now, (packets, UNKNOWN), &mut fates);
    fates[0]
}

#[test]
fn a_registered_instruction_sees_its_tags_and_writes_them() {
    let mut registry = Registry::of(&[plan(130, (1, 0), take)]).unwrap();
    let mut place = Place::small();
    let carriages = Carriages::default();
    place.fate(super::put(5, 10));
    for (value, fate, left) in
        [(3, Fate::Forwarded, 7), (8, Fate::Aborted(Abort::Underflow), 7), (7, Fate::Dropped, 0), (0, Fate::Dropped, 0)]
    {
        let mut packet = datagram(&carriages, V4, 9, &called(130, &[5], value)).unwrap();
        assert_eq!((pass(&mut place, &mut registry, &mut packet), place.value(5)), (fate, Some(left)), "{value}");
        let then = RegisteredPart::read(&packet[28..]).unwrap();
        let goes_on = if fate == Fate::Forwarded { left } else { then.instruction.value };
        assert_eq!((then.instruction.value, then.error), (goes_on, matches!(fate, Fate::Aborted(_))));
        let mut summed = packet.clone();
        assert!(complete_checksum(&mut summed).is_ok() && packet::wire::checksum::sum(&summed[20..]) > 0);
    }
    let mut absent = dedicated(&carriages, V4, &called(130, &[6], 1));
    assert_eq!(pass(&mut place, &mut registry, &mut absent), Fate::Aborted(Abort::AbsentTag));
    let (name, counted) = place.site.executed_at(Location::Input).last().unwrap();
    assert_eq!((name, counted.forwarded, counted.dropped), ("ours", 1, 2));
}

#[test]
fn a_registered_instruction_is_timed_as_any_other() {
    let mut registry = Registry::of(&[plan(130, (1, 0), take)]).unwrap();
    let (mut place, mut seen) = (Place::small(), Seen::default());
    place.fate(super::put(5, 10));
    for (value, time) in [(1, 300), (99, 900), (2, 500)] {
        let mut packet = dedicated(&Carriages::default(), V4, &called(130, &[5], value));
        place.site.register(&registry);
        seen.begin(&place.site, Location::Input);
        pass(&mut place, &mut registry, &mut packet);
        seen.took(Nanos::new(time), 1, (&place.site, Location::Input));
    }
    let (name, spread) = seen.spent_at(Location::Input).last().unwrap();
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
        assert_eq!(pass(&mut place, &mut registry, &mut packet), Fate::Aborted(why), "{part:?}");
        assert!(RegisteredPart::read(&packet[20..]).unwrap().error);
        assert_eq!(pass(&mut place, &mut registry, &mut packet), Fate::Passed, "a router before could not");
    }
    let mut damaged = dedicated(&carriages, V4, &called(130, &[5], 1));
    damaged[40] ^= 1;
    assert_eq!(pass(&mut place, &mut registry, &mut damaged), Fate::Aborted(Abort::BadChecksum));
    assert_eq!(place.inspector.entries(place.now).count(), 0);
}

/// A fault discards everything the instruction did. After three faults it is disabled; other instructions continue.
#[test]
fn fault_aborts_its_packet_and_three_disable_the_instruction() {
    fn faulty(call: &mut Call) -> Result<Outcome, String> {
        call.written = [Some(1), None, None, None];
        if call.value == 0 { Err("nothing there".into()) } else { Ok(Outcome::Forward) }
    }
    let mut registry = Registry::of(&[plan(130, (1, 1), faulty), plan(140, (1, 0), take)]).unwrap();
    let mut place = Place::small();
    let carriages = Carriages::default();
    let mut call = |registry: &mut Registry, number, value| {
        let mut packet = dedicated(&carriages, V4, &called(number, &[5], value));
        (pass(&mut place, registry, &mut packet), place.value(5))
    };
    let failed = Fate::Aborted(Abort::GuestFailed);
    for fault in 1..=3 {
        assert_eq!(call(&mut registry, 130, 0), (failed, None));
        let told = registry.trouble().unwrap();
        assert_eq!((told.instruction, told.what.as_str(), told.for_good), ("ours", "nothing there", fault == 3));
        assert_eq!(registry.trouble(), None, "said once");
    }
    assert_eq!(call(&mut registry, 130, 1), (failed, None), "it is not asked any more");
    assert_eq!((call(&mut registry, 140, 1).0, registry.trouble()), (Fate::Aborted(Abort::AbsentTag), None));
}

/// An instruction reaches no tag that its packet does not name, and creates no more entries than it declares.
#[test]
fn registered_instruction_cannot_exceed_its_declaration() {
    fn all(call: &mut Call) -> Result<Outcome, String> {
        call.written = [Some(1); 4];
        Ok(Outcome::Forward)
    }
    fn creates(call: &mut Call) -> Result<Outcome, String> {
        call.written[..2].fill(Some(call.value));
        Ok(Outcome::Forward)
    }
    let mut registry = Registry::of(&[plan(130, (2, 2), all), plan(131, (2, 1), creates)]).unwrap();
    let mut place = Place::small();
    let mut call = |registry: &mut Registry, part: &RegisteredPart| {
        let mut packet = dedicated(&Carriages::default(), V4, part);
        pass(&mut place, registry, &mut packet)
    };
    let failed = Fate::Aborted(Abort::GuestFailed);
    assert_eq!(call(&mut registry, &called(130, &[1, 2], 1)), failed);
    assert!(registry.trouble().unwrap().what.contains("writes tag 2, and has 2"));
    assert_eq!(call(&mut registry, &called(131, &[1, 2], 1)), failed);
    assert!(registry.trouble().unwrap().what.contains("creates 2 entries"));
    // A router variable can be read and not written.
    let node = crate::variables::tag(plan::state::Variable::Node);
    assert_eq!(call(&mut registry, &called(131, &[1, node], 1)), Fate::Aborted(Abort::NotEnabled));
    assert_eq!(place.inspector.entries(place.now).count(), 0);
}

#[test]
fn a_full_store_aborts_it_whole() {
    fn both(call: &mut Call) -> Result<Outcome, String> {
        call.written[..2].fill(Some(1));
        Ok(Outcome::Forward)
    }
    let mut registry = Registry::of(&[plan(130, (2, 2), both)]).unwrap();
    let mut place = Place::new(StoreSpec::of(3));
    let fates: Vec<Fate> = (0..2)
        .map(|n| {
            pass(&mut place, &mut registry, &mut dedicated(&Carriages::default(), V4, &called(130, &[n, n + 10], 1)))
        })
        .collect();
    assert_eq!(fates, [Fate::Forwarded, Fate::Aborted(Abort::Full)]);
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
    assert_eq!((pass(&mut place, &mut registry, &mut passes), passes), (Fate::Passed, before), "there is no key");
    place.rules.sealed = Some((key, std::mem::take(&mut place.rules.allowed)));
    assert_eq!(pass(&mut place, &mut registry, &mut packet(false)), Fate::Aborted(Abort::Unauthenticated));
    let mut goes = packet(true);
    assert_eq!((pass(&mut place, &mut registry, &mut goes), place.value(5)), (Fate::Forwarded, Some(7)));
    assert_eq!(pass(&mut place, &mut registry, &mut goes), Fate::Dropped, "sealed anew, with the seven that were left");
    assert_eq!(place.value(5), Some(0));
}

proptest! {
    #[test]
    fn a_registered_part_reads_back_the_same(
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
    fn no_bytes_break_a_registered_part(mut bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Some(first) = bytes.first_mut() {
            *first = 0x20 | *first & 0x1f;
        }
        if let Ok(part) = RegisteredPart::read(&bytes) {
            prop_assert_eq!(RegisteredPart::read(&part.to_bytes()), Ok(part));
        }
        prop_assert!(RegisteredPart::read(&bytes[..bytes.len().min(11)]) == Err(Unread::Foreign));
    }
}

#[test]
fn malformed_calls_are_rejected() {
    for text in
        ["", "call", "call 127 add 1", "call 128 1", "call 128 add", "call 128 plus 1 2", "call 128 add 1 2 3 4 5 6"]
    {
        assert_eq!(text.parse::<RegisteredInstruction>(), Err(NoCall), "{text}");
    }
}
