//! Packets with instructions, and their fates at the places of a router.

use super::{COMPUTATION, Place, V4, count, packet, part, part_of, put};
use crate::host::Computation;
use crate::isa::{Abort, Opcode, Operator, StateInstruction};
use crate::report::ComputationTrace;
use crate::site::{InstructionFate, Location};
use crate::store::StoreSpec;
use crate::wire::{
    Addresses, Carriage, Carriages, Locations, Part, PartError, WrapError, before_data, datagram, dedicated, set_error,
    strip, with_data, wrap, wrap_option,
};
use packet::wire::checksum::sum;
use packet::wire::{Ipv4, Ipv4Header, Ipv4Spec, Ipv6Header, complete_checksum, ipv4, ipv6, protocol, transport};
use proptest::prelude::*;
use units::Nanos;

const V6: Addresses = Addresses::V6(
    std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
);

/// A datagram without an instruction.
fn data(length: usize) -> Vec<u8> {
    let (source, destination) = ([192, 0, 2, 1].into(), [198, 51, 100, 9].into());
    let mut message = [&[0x13, 0xc4, 0, 53][..], &((length + 8) as u16).to_be_bytes(), &[0, 0]].concat();
    message.extend((0..length).map(|n| n as u8));
    transport::seal(std::net::IpAddr::V4(source), std::net::IpAddr::V4(destination), protocol::UDP, &mut message);
    let (ttl, protocol) = (64, protocol::UDP);
    let spec =
        Ipv4Spec { type_of_service: 0, identification: 9, dont_fragment: false, ttl, protocol, source, destination };
    let mut packet = vec![0; 20];
    spec.write(&mut packet, message.len()).unwrap();
    packet.extend(message);
    packet
}

/// The paper's workload: minimum-size frames.
#[test]
fn min_frame_count_fits_64() {
    let packet = packet(&part(count(1, 2)));
    assert_eq!(14 + packet.len() + 4, 64);
    let lengths = Opcode::ALL.map(Opcode::length);
    assert_eq!(lengths, [14, 26, 30, 38, 46, 30, 30, 22, 30, 30, 30]);
}

#[test]
fn parts_are_encoded_as_specified() {
    let (locations, trace) = (Locations { input: true, central: false, output: true }, true);
    let part =
        Part { locations, trace, ..part(StateInstruction::Count { counter: 0xa1, threshold: 2, inclusive: true }) };
    let bytes = part.to_bytes();
    let expected =
        [&[0b0011_0100, 1, 26, 0x80 | 9][..], &COMPUTATION.to_be_bytes(), &0xa1u64.to_be_bytes(), &2u32.to_be_bytes()];
    assert_eq!(bytes[..24], expected.concat());
    assert_eq!(sum(&bytes), 0xffff);
}

#[test]
fn parts_are_found_in_every_carriage_and_in_no_other_packet() {
    let carriages = Carriages::default();
    let part = part(count(1, 2));
    for addresses in [V4, V6] {
        let bytes = dedicated(&carriages, addresses, &part);
        let (range, carriage) = carriages.find(&bytes).unwrap();
        assert_eq!((Part::read(&bytes[range]), carriage), (Ok(part), Carriage::Protocol));
        let bytes = datagram(&carriages, addresses, 4000, &part).unwrap();
        let (range, carriage) = carriages.find(&bytes).unwrap();
        assert_eq!((Part::read(&bytes[range]), carriage), (Ok(part), Carriage::Udp));
        let elsewhere = Carriages { protocol: 200, port: None, option: None };
        assert_eq!(elsewhere.find(&bytes), None);
    }
    assert_eq!(carriages.find(&data(100)), None);
    // IPv4 options before the part.
    let mut bytes = packet(&part);
    bytes.splice(20..20, [1, 1, 1, 0]);
    bytes[0] = 0x46;
    bytes[3] += 4;
    assert_eq!(part_of(&bytes), part);
    // An IPv6 extension header before the part.
    let mut bytes = dedicated(&carriages, V6, &part);
    bytes.splice(40..40, [Carriages::PROTOCOL, 0, 1, 4, 0, 0, 0, 0]);
    let header = Ipv6Header::of_mut(&mut bytes).unwrap();
    header.set_next_header(protocol::DESTINATION_OPTIONS);
    header.set_payload_length(header.payload_length() as u16 + 8);
    assert_eq!(part_of(&bytes), part);
}

/// A first fragment with a complete part is executed; other fragments pass (spec E-16).
#[test]
fn fragment_passthrough() {
    let mut place = Place::small();
    let mut first = packet(&part(count(1, 2)));
    Ipv4Header::of_mut(&mut first).unwrap().set_fragment(false, true, 0);
    assert_eq!(place.pass(Location::Input, &mut first), InstructionFate::Forwarded);
    let mut later = packet(&part(count(1, 2)));
    Ipv4Header::of_mut(&mut later).unwrap().set_fragment(false, false, 48);
    let before = later.clone();
    assert_eq!((place.pass(Location::Input, &mut later), later), (InstructionFate::PassedThrough, before));
    assert_eq!(place.value(1), Some(1));
    // A first fragment with an incomplete part.
    let cut = packet(&part(count(1, 2)));
    for (length, fate) in [
        (cut.len() - 1, InstructionFate::PassedThrough),
        (ipv4::HEADER + 12, InstructionFate::PassedThrough),
        (cut.len(), InstructionFate::Dropped),
    ] {
        let mut first = cut[..length].to_vec();
        let header = Ipv4Header::of_mut(&mut first).unwrap();
        header.set_total_length(length as u16);
        header.set_fragment(false, true, 0);
        let before = first.clone();
        assert_eq!((place.pass(Location::Input, &mut first), first), (fate, before), "{length}");
    }
    // The same with IPv6: the fragment header precedes the part.
    let whole = dedicated(&Carriages::DEFAULT, V6, &part(count(2, 9)));
    for (first, length, fate) in [
        (true, 26, InstructionFate::Forwarded),
        (true, 25, InstructionFate::PassedThrough),
        (false, 26, InstructionFate::PassedThrough),
    ] {
        let mut bytes = whole[..ipv6::HEADER + length].to_vec();
        let offset = if first { 0 } else { 48 };
        bytes.splice(ipv6::HEADER..ipv6::HEADER, [Carriages::PROTOCOL, 0, 0, offset | 1, 0, 0, 0, 1]);
        bytes[4..6].copy_from_slice(&(length as u16 + 8).to_be_bytes());
        bytes[6] = protocol::FRAGMENT;
        assert_eq!(place.pass(Location::Input, &mut bytes), fate, "{first}, {length}");
    }
    // A short packet that is no fragment.
    let mut short = cut[..cut.len() - 1].to_vec();
    Ipv4Header::of_mut(&mut short).unwrap().set_total_length(cut.len() as u16 - 1);
    assert_eq!(place.pass(Location::Input, &mut short), InstructionFate::Aborted(Abort::BadLength));
}

/// Traces (spec E-15).
#[test]
fn traced_packets_have_their_fates_recorded_by_computation() {
    let noted = |scoped: bool, order: [u32; 4]| {
        let mut place = Place::small();
        place.rules.scoped = scoped;
        let mut send = |computation: u64, trace: bool, instruction: StateInstruction| {
            let part = Part { computation, trace, ..part(instruction) };
            place.pass(Location::Input, &mut packet(&part));
        };
        for below in order {
            send(1, true, count(1, below));
        }
        // One of another computation, and one without a trace.
        send(2, true, StateInstruction::Get { tag: 9, value: 0 });
        send(3, false, count(1, 2));
        assert_eq!(place.site.traced_at(Location::Output).count(), 0);
        place.site.traced_at(Location::Input).collect::<Vec<ComputationTrace>>()
    };
    let (near, fetched) = (noted(false, [9, 9, 2, 9]), noted(true, [9, 9, 2, 9]));
    assert_eq!(near, fetched, "whichever way they are executed");
    let counts = |trace: &ComputationTrace| (trace.computation, [trace.forwarded, trace.dropped, trace.aborted]);
    assert_eq!(near.iter().map(counts).collect::<Vec<_>>(), [(1, [3, 1, 0]), (2, [0, 0, 1])]);
    let others = noted(false, [9, 9, 9, 2]);
    assert_eq!(others.iter().map(counts).collect::<Vec<_>>(), near.iter().map(counts).collect::<Vec<_>>());
    assert!(others[0].digest != near[0].digest && others[1] == near[1], "it tells orders apart");
}

/// Only so many computations are kept, the most recent ones among them.
#[test]
fn traces_keep_the_32_most_recent_computations() {
    let mut place = Place::small();
    for computation in 0..100 {
        place.wait(Nanos::new(1));
        place.pass(Location::Input, &mut packet(&Part { computation, trace: true, ..part(StateInstruction::Nop) }));
        // This computation is active all the time.
        place.pass(Location::Input, &mut packet(&Part { computation: 0, trace: true, ..part(StateInstruction::Nop) }));
    }
    let mut traced: Vec<(u64, u64)> =
        place.site.traced_at(Location::Input).map(|trace| (trace.computation, trace.forwarded)).collect();
    traced.sort_unstable();
    assert_eq!((traced.len(), traced[0], traced[1], traced[31]), (32, (0, 101), (69, 1), (99, 1)));
}

#[test]
fn err_packet_not_executed() {
    let mut place = Place::small();
    let mut failed = packet(&Part { error: true, ..part(count(1, 2)) });
    let before = failed.clone();
    assert_eq!((place.pass(Location::Input, &mut failed), failed), (InstructionFate::PassedThrough, before));
    assert_eq!((place.value(1), place.site.counters().failed_before), (None, 1));
    // A packet that fails here carries the error bit from here on.
    let mut fails = packet(&part(StateInstruction::Get { tag: 1, value: 0 }));
    assert_eq!(place.pass(Location::Input, &mut fails), InstructionFate::Aborted(Abort::AbsentTag));
    assert!(part_of(&fails).error);
    assert_eq!(place.pass(Location::Input, &mut fails), InstructionFate::PassedThrough);
}

/// One packet at its input and its output port: executed at both, each on its own store.
#[test]
fn loc_in_then_out_same_packet() {
    let (mut input, mut output) = (Place::small(), Place::small());
    let both = Locations { input: true, central: false, output: true };
    let mut bytes = packet(&Part { locations: both, ..part(count(1, 3)) });
    let fates = [
        input.pass(Location::Input, &mut bytes),
        input.pass(Location::Central, &mut bytes),
        output.pass(Location::Output, &mut bytes),
    ];
    assert_eq!(fates, [InstructionFate::Forwarded, InstructionFate::PassedThrough, InstructionFate::Forwarded]);
    assert_eq!((input.value(1), output.value(1)), (Some(1), Some(1)));
    // The second place executes the instruction as the first rewrote it.
    input.fate(super::put(2, 9));
    let get = StateInstruction::Get { tag: 2, value: 0 };
    let mut bytes = packet(&Part { locations: both, ..part(get) });
    assert_eq!(input.pass(Location::Input, &mut bytes), InstructionFate::Forwarded);
    assert_eq!(output.pass(Location::Output, &mut bytes), InstructionFate::Aborted(Abort::AbsentTag));
    assert_eq!(part_of(&bytes).instruction, StateInstruction::Get { tag: 2, value: 9 });
}

/// A packet that leaves by a port finds the marks of packets that arrived there: subcast needs this (spec E-09, E-45).
#[test]
fn one_store_per_port_both_directions() {
    let mut ports = [Place::small(), Place::small()];
    let mut setup = packet(&part(StateInstruction::Mark { tag: 1, value: 1 }));
    assert_eq!(ports[0].pass(Location::Input, &mut setup), InstructionFate::Forwarded);
    let test = Part { locations: Locations::OUTPUT, ..part(StateInstruction::Test { tag: 1 }) };
    let fates = ports.each_mut().map(|port| port.pass(Location::Output, &mut packet(&test)));
    assert_eq!(fates, [InstructionFate::Forwarded, InstructionFate::Dropped], "only the branch that was marked");
    // With one store for all ports every branch is marked, and subcast fails.
    let mut all = Place::small();
    all.pass(Location::Input, &mut packet(&part(StateInstruction::Mark { tag: 1, value: 1 })));
    let fates = [0, 1].map(|_| all.pass(Location::Output, &mut packet(&test)));
    assert_eq!(fates, [InstructionFate::Forwarded, InstructionFate::Forwarded]);
}

#[test]
fn piggyback_drop_drops_data() {
    let carriages = Carriages::default();
    let mut place = Place::small();
    let original = data(100);
    let first = wrap(&carriages, &original, &part(count(1, 2))).unwrap();
    assert_eq!(first.len(), original.len() + 26 + 2);
    let (mut first, mut second) = (first.clone(), first);
    assert_eq!(place.pass(Location::Input, &mut first), InstructionFate::Forwarded);
    assert_eq!(place.pass(Location::Input, &mut second), InstructionFate::Dropped, "and the data with it");
    let (inner, part) = strip(&carriages, &first).unwrap();
    assert_eq!((part.piggybacked, part.instruction), (true, count(1, 2)));
    let (inner, before) = (Ipv4::parse(&inner).unwrap(), Ipv4::parse(&original).unwrap());
    assert_eq!((inner.payload, inner.header.protocol()), (before.payload, protocol::UDP));
    assert!(inner.header.dont_fragment(), "it was not to be cut on its way");
}

/// A part in an IPv4 option. No instruction changes the header's checksum (spec E-17).
#[test]
fn ipv4_option_carries_a_part() {
    let carriages = Carriages::default();
    let original = data(100);
    let mut recorded = original.clone();
    recorded.splice(20..20, [7, 7, 4, 0, 0, 0, 0, 0]);
    recorded[0] = 0x47;
    recorded[3] += 8;
    for (inner, instruction, options) in [
        (&original, StateInstruction::Get { tag: 1, value: 0 }, 32),
        (&original, StateInstruction::Collect { counter: 1, result: 2, value: 3, operator: Operator::Add }, 40),
        (&recorded, StateInstruction::Get { tag: 1, value: 0 }, 40),
    ] {
        let mut place = Place::small();
        place.fate(put(1, 1));
        place.fate(put(2, 5));
        let mut bytes = wrap_option(&carriages, inner, &part(instruction)).unwrap();
        assert_eq!((bytes.len() - original.len(), bytes[0]), (options, 0x40 + 5 + options as u8 / 4));
        let before = bytes.clone();
        assert_eq!(place.pass(Location::Input, &mut bytes), InstructionFate::Forwarded);
        assert_ne!(bytes, before);
        assert_eq!(carriages.find(&bytes).map(|(_, carriage)| carriage), Some(Carriage::Option));
        assert_eq!(Ipv4::parse(&bytes).unwrap().payload, Ipv4::parse_without_checksum(inner).unwrap().payload);
        let (back, part) = strip(&carriages, &bytes).unwrap();
        let (back, inner) = (Ipv4::parse(&back).unwrap(), Ipv4::parse_without_checksum(inner).unwrap());
        assert_eq!((back.options, back.payload), (inner.options, inner.payload));
        assert!(part.piggybacked && part.instruction != instruction, "it has been executed");
        let again = [wrap(&carriages, &bytes, &part), wrap_option(&carriages, &bytes, &part)];
        assert_eq!(again, [Err(WrapError::Carries), Err(WrapError::Carries)]);
        assert_eq!(Carriages { option: None, ..carriages }.find(&bytes), None, "an option like others");
    }
    let long = StateInstruction::Rcollect { counter: 1, result: 2, child: 3, value: 4, operator: Operator::Add };
    assert_eq!(wrap_option(&carriages, &original, &part(long)), Err(WrapError::NoRoom));
    assert_eq!(
        wrap_option(&carriages, &recorded, &part(count(1, 2))).map(|bytes| bytes.len()),
        Ok(original.len() + 36)
    );
}

#[test]
fn packets_that_cannot_carry_a_part_give_the_reason() {
    let (carriages, nop) = (Carriages::default(), part(StateInstruction::Nop));
    assert_eq!(wrap(&carriages, &[0x45; 10], &nop), Err(WrapError::Malformed));
    assert_eq!(wrap(&carriages, &[], &nop), Err(WrapError::Malformed));
    assert_eq!(wrap(&carriages, &data(65_535 - 28), &nop), Err(WrapError::TooLong));
    let mut fragment = data(100);
    Ipv4Header::of_mut(&mut fragment).unwrap().set_fragment(false, true, 0);
    assert_eq!(wrap(&carriages, &fragment, &nop), Err(WrapError::Fragment));
    assert_eq!(strip(&carriages, &data(100)), Err(PartError::NotAPart));
    assert_eq!(strip(&carriages, &packet(&nop)), Err(PartError::NotAPart), "nothing is in it");
}

#[test]
fn malformed_packets_are_aborted_with_the_right_reason() {
    let check = |change: &dyn Fn(&mut Vec<u8>), expected: InstructionFate| {
        let mut place = Place::small();
        let mut bytes = packet(&part(count(1, 2)));
        change(&mut bytes);
        assert_eq!(place.pass(Location::Input, &mut bytes), expected);
        assert_eq!(place.inspector.entries(place.now).count(), 0, "nothing is written");
    };
    let aborted = InstructionFate::Aborted;
    check(&|packet| packet[20 + 23] ^= 1, aborted(Abort::BadChecksum));
    check(&|packet| packet[20 + 2] = 30, aborted(Abort::BadLength));
    check(&|packet| packet[3] -= 2, aborted(Abort::BadLength));
    check(&|packet| packet[20 + 1] = 11, aborted(Abort::BadOpcode));
    check(&|packet| packet[20 + 1] = 200, aborted(Abort::NotEnabled));
    check(&|packet| packet[20] = 0x50, InstructionFate::PassedThrough);
    check(&|packet| packet[3] = 25, InstructionFate::PassedThrough);
    let with_operator = |number: u8| {
        move |packet: &mut Vec<u8>| {
            let mut bytes = part(count(1, 2)).to_bytes();
            bytes[3] = number;
            let end = bytes.len() - 2;
            let sum = packet::wire::checksum::checksum(&bytes[..end]);
            bytes[end..].copy_from_slice(&sum.to_be_bytes());
            packet[20..].copy_from_slice(&bytes);
        }
    };
    check(&with_operator(10), aborted(Abort::BadOpcode));
    check(&with_operator(15), aborted(Abort::BadOpcode));
    let mut place = Place::small();
    place.rules.allowed &= !(1 << Opcode::Count.number());
    assert_eq!(place.fate(count(1, 2)), aborted(Abort::NotEnabled));
    assert_eq!(place.site.counters().aborted(Abort::NotEnabled), 1);
}

/// A part with a wrong length gets the error bit, and later routers pass it. The enclosing checksums stay valid (spec E-06).
#[test]
fn wrong_length_sets_the_error_bit_and_keeps_checksums_valid() {
    let carriages = Carriages::default();
    let whole = part(count(1, 2));
    let extended = |packet: Vec<u8>| {
        // Behind an extension header with destination options that are padding.
        let length = (packet.len() - 40 + 8) as u16;
        [
            &packet[..4],
            &length.to_be_bytes(),
            &[60, packet[7]],
            &packet[8..40],
            &[packet[6], 0, 1, 4, 0, 0, 0, 0],
            &packet[40..],
        ]
        .concat()
    };
    let packets = [
        dedicated(&carriages, V4, &whole),
        dedicated(&carriages, V6, &whole),
        datagram(&carriages, V4, 4000, &whole).unwrap(),
        datagram(&carriages, V6, 4000, &whole).unwrap(),
        extended(datagram(&carriages, V6, 4000, &whole).unwrap()),
        wrap_option(&carriages, &data(40), &whole).unwrap(),
    ];
    for (number, right) in packets.iter().enumerate() {
        let (at, _) = carriages.find(right).unwrap();
        for length in [0, 1, 13, 15, 24, 25, 28, 200, 255] {
            // The sender made the same error, so all its checksums are valid.
            let mut sent = right.clone();
            sent[at.start + 2] = length;
            let is_option = number == 5;
            if is_option {
                let old = u16::from_be_bytes([sent[10], sent[11]]);
                let new =
                    packet::wire::checksum::update(old, u16::from_be_bytes([26, 8]), u16::from_be_bytes([length, 8]));
                sent[10..12].copy_from_slice(&new.to_be_bytes());
            }
            complete_checksum(&mut sent).unwrap();
            let mut place = Place::small();
            assert_eq!(
                place.pass(Location::Input, &mut sent),
                InstructionFate::Aborted(Abort::BadLength),
                "{number}: {length}"
            );
            assert_eq!(sent[at.start] & 2, 2, "{number}: {length}: the error bit");
            let mut summed = sent.clone();
            complete_checksum(&mut summed).unwrap();
            assert!(summed == sent || sum(&summed) == sum(&sent), "{number}: {length}: the sum of the datagram");
            if right[0] >> 4 == 4 {
                let header = usize::from(sent[0] & 0xf) * 4;
                assert_eq!(sum(&sent[..header]), 0xffff, "{number}: {length}: the sum of the header");
            }
            assert_eq!(place.pass(Location::Input, &mut sent), InstructionFate::PassedThrough, "{number}: {length}");
        }
    }
}

/// A batch is executed in order, even if it is longer than the batch size.
#[test]
fn packets_of_a_batch_are_executed_in_their_order() {
    for batch in [1, 2, 7, 32, 64, 1000] {
        let mut place = Place::new(StoreSpec::of(1000));
        place.rules.batch = batch;
        let compare = |value| StateInstruction::Compare { tag: 1, value, relation: Operator::Gt };
        let values = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9].repeat(20);
        let mut packets: Vec<Vec<u8>> = values.iter().map(|value| packet(&part(compare(*value)))).collect();
        let mut fates = vec![InstructionFate::PassedThrough; packets.len()];
        place.site.process((&place.rules, Location::Input), place.now, &mut packets, &mut fates);
        let passed: Vec<u64> = values
            .iter()
            .zip(&fates)
            .filter(|(_, fate)| **fate == InstructionFate::Forwarded)
            .map(|(value, _)| *value)
            .collect();
        assert_eq!(passed, [3, 4, 5, 9], "batches of {batch}");
    }
}

fn any_instruction() -> impl Strategy<Value = StateInstruction> {
    let variants = super::conformance::variants();
    (0..variants.len(), any::<[u64; 4]>()).prop_map(move |(which, [a, b, c, d])| match variants[which] {
        StateInstruction::Nop => StateInstruction::Nop,
        StateInstruction::Count { inclusive, .. } => {
            StateInstruction::Count { counter: a, threshold: b as u32, inclusive }
        }
        StateInstruction::Compare { relation, .. } => StateInstruction::Compare { tag: a, value: b, relation },
        StateInstruction::Collect { operator, .. } => {
            StateInstruction::Collect { counter: a, result: b, value: c, operator }
        }
        StateInstruction::Rcollect { operator, .. } => {
            StateInstruction::Rcollect { counter: a, result: b, child: c, value: d, operator }
        }
        StateInstruction::Rchld { .. } => StateInstruction::Rchld { counter: a, child: b },
        StateInstruction::Mark { .. } => StateInstruction::Mark { tag: a, value: b },
        StateInstruction::Test { .. } => StateInstruction::Test { tag: a },
        StateInstruction::Get { .. } => StateInstruction::Get { tag: a, value: b },
        StateInstruction::Put { .. } => StateInstruction::Put { tag: a, value: b },
        StateInstruction::Setfwd { relation, .. } => StateInstruction::Setfwd { tag: a, value: b, relation },
    })
}

proptest! {
    /// The checksums of the part, of the enclosing datagram and of the IP header are valid after any rewrite.
    #[test]
    fn checksum_incremental(before in any_instruction(), after in any::<[u64; 2]>(), v6: bool) {
        let carriages = Carriages::default();
        let addresses = if v6 { V6 } else { V4 };
        let mut bytes = datagram(&carriages, addresses, 4000, &part(before)).unwrap();
        let (range, _) = carriages.find(&bytes).unwrap();
        let mut changed = before;
        match &mut changed {
            StateInstruction::Collect { value, .. } | StateInstruction::Get { value, .. } => *value = after[0],
            StateInstruction::Rchld { child, .. } => *child = after[0],
            StateInstruction::Rcollect { child, value, .. } => (*child, *value) = (after[0], after[1]),
            _ => {}
        }
        crate::wire::rewrite(&mut bytes[range.clone()], &changed);
        set_error(&mut bytes[range.clone()]);
        prop_assert_eq!(Part::read(&bytes[range]), Ok(Part { error: true, ..part(changed) }));
        let mut summed = bytes.clone();
        prop_assert!(complete_checksum(&mut summed).is_ok());
        // A checksum of zero has two forms (RFC 768), and the incremental update may give the other one.
        prop_assert!(summed == bytes || sum(&bytes) == sum(&summed), "the datagram's sum");
    }

    #[test]
    fn parts_round_trip(instruction in any_instruction(), bits in 0u8..32, computation: u64) {
        let bit = |n: u8| bits >> n & 1 != 0;
        let locations = Locations { input: bit(0), central: bit(1), output: bit(2) };
        let part = Part { locations, error: bit(3), piggybacked: bit(4), trace: bit(1), computation, instruction };
        prop_assert_eq!(Part::read(&part.to_bytes()), Ok(part));
        crate::wire::exercise(&part.to_bytes());
        crate::wire::exercise(&packet(&part));
    }

    #[test]
    fn part_parsers_accept_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        crate::wire::exercise(&bytes);
    }

    #[test]
    fn part_parsers_accept_damaged_packets(
        instruction in any_instruction(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<proptest::sample::Index>(),
        wrapped: bool,
    ) {
        let carriages = Carriages::default();
        let part = part(instruction);
        let mut bytes = if wrapped { wrap(&carriages, &data(40), &part).unwrap() } else { packet(&part) };
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        crate::wire::exercise(&bytes);
        let mut place = Place::small();
        place.pass(Location::Input, &mut bytes);
    }
}

/// Hosts that send datagrams put a part in front of their data, where routers find it.
#[test]
fn part_precedes_the_data_of_a_datagram() {
    let part = Computation::seeded([1, 2]).if_marked(9);
    let bytes = before_data(&part, b"data");
    assert_eq!(with_data(&bytes), Ok((Part { piggybacked: true, ..part }, Some(&b"data"[..]))));
    assert_eq!(with_data(&before_data(&part, b"")).map(|(_, data)| data), Ok(Some(&b""[..])));
    assert_eq!(with_data(&part.to_bytes()), Ok((part, None)));
    assert_eq!(with_data(&[part.to_bytes(), b"data".to_vec()].concat()), Ok((part, None)), "it does not say so");
    assert!(with_data(&bytes[..21]).is_err());
}
