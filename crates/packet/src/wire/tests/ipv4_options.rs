use super::frames::{self, Upper, resum4};
use crate::wire::Ipv4;
use crate::wire::ipv4_options::{Ipv4Option, Ipv4OptionIter, OptionRequests, options, record, validate};
use proptest::prelude::*;
use std::net::Ipv4Addr;

/// A packet with these options, padded to whole words with end-of-list options.
fn with_options(bytes: &[u8]) -> Vec<u8> {
    let mut packet = frames::packet4([192, 0, 2, 1], [198, 51, 100, 9], Upper::Udp(1, 2), b"x");
    let padded = bytes.len().next_multiple_of(4);
    let mut field = bytes.to_vec();
    field.resize(padded, 0);
    packet.splice(20..20, field);
    packet[0] += (padded / 4) as u8;
    packet[3] += padded as u8;
    resum4(&mut packet);
    packet
}

#[test]
fn known_options_are_parsed() {
    let bytes = [
        &[1u8][..],                    // no operation
        &[7, 7, 4, 0, 0, 0, 0],        // record route, one slot
        &[68, 8, 5, 0x30, 0, 0, 0, 0], // timestamp, overflow three, one slot
        &[148, 4, 0, 0],               // router alert
        &[131, 7, 8, 192, 0, 2, 77],   // loose source route, completed
        &[0x9e, 3, 0xaa],              // an unknown option
        &[0, 0xff],                    // end; the rest is not read
    ]
    .concat();
    let walked: Vec<_> =
        options(&bytes).map(|placed| placed.unwrap()).map(|p| (p.offset, p.length, p.option)).collect();
    assert_eq!(
        walked,
        [
            (20, 1, Ipv4Option::NoOperation),
            (21, 7, Ipv4Option::RecordRoute { pointer: 4, slots: &[0; 4] }),
            (28, 8, Ipv4Option::Timestamp { pointer: 5, overflow: 3, flag: 0, slots: &[0; 4] }),
            (36, 4, Ipv4Option::RouterAlert(0)),
            (40, 7, Ipv4Option::LooseSourceRoute { pointer: 8, slots: &[192, 0, 2, 77] }),
            (47, 3, Ipv4Option::Unknown { kind: 0x9e, data: &[0xaa] }),
            (50, 1, Ipv4Option::End),
        ]
    );
    let asks = OptionRequests { source_route: true, record_route: true, timestamp: true, router_alert: true };
    assert_eq!(validate(&bytes), Ok(asks));
}

#[test]
fn error_pointer_is_the_offset_of_the_wrong_byte() {
    let cases: &[(&str, &[u8], u8)] = &[
        ("no length", &[7], 20),
        ("length of one", &[7, 1, 4, 0], 20),
        ("length beyond the header", &[1, 7, 12, 4], 21),
        ("record route without a pointer", &[7, 2, 0, 0], 21),
        ("record route pointing at its length", &[7, 7, 3, 0, 0, 0, 0, 0], 22),
        ("record route with half a slot", &[7, 6, 4, 0, 0, 0, 0, 0], 22),
        ("second record route", &[7, 3, 4, 1, 7, 3, 4, 1], 24),
        ("both source routes", &[131, 3, 4, 1, 137, 3, 4, 1], 24),
        ("timestamp without flags", &[68, 3, 5, 0], 21),
        ("timestamp pointing at its flags", &[68, 8, 4, 0, 0, 0, 0, 0], 22),
        ("timestamp with half an address", &[68, 8, 5, 1, 0, 0, 0, 0], 22),
        ("timestamp full of losers", &[68, 4, 5, 0xf0], 23),
        ("short router alert", &[148, 2, 1, 1], 21),
    ];
    for (name, bytes, pointer) in cases {
        assert_eq!(validate(bytes).map_err(|error| error.pointer), Err(*pointer), "{name}");
    }
}

#[test]
fn iteration_ends_after_a_malformed_option() {
    let mut walk: Ipv4OptionIter<'_> = options(&[7, 0, 1, 1]);
    assert!(walk.next().unwrap().is_err());
    assert!(walk.next().is_none());
}

#[test]
fn router_records_in_the_next_free_slot() {
    let me = Ipv4Addr::new(203, 0, 113, 7);
    let cases: &[(&str, &[u8], &[u8])] = &[
        ("record route", &[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0], &[7, 11, 8, 203, 0, 113, 7, 0, 0, 0, 0]),
        ("second slot", &[7, 11, 8, 9, 9, 9, 9, 0, 0, 0, 0], &[7, 11, 12, 9, 9, 9, 9, 203, 0, 113, 7]),
        ("full route", &[7, 7, 8, 9, 9, 9, 9], &[7, 7, 8, 9, 9, 9, 9]),
        ("timestamp", &[68, 8, 5, 0, 0, 0, 0, 0], &[68, 8, 9, 0, 0x01, 0x02, 0x03, 0x04]),
        (
            "address and timestamp",
            &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0],
            &[68, 12, 13, 1, 203, 0, 113, 7, 0x01, 0x02, 0x03, 0x04],
        ),
        (
            "my turn",
            &[68, 12, 5, 3, 203, 0, 113, 7, 0, 0, 0, 0],
            &[68, 12, 13, 3, 203, 0, 113, 7, 0x01, 0x02, 0x03, 0x04],
        ),
        ("another's turn", &[68, 12, 5, 3, 203, 0, 113, 8, 0, 0, 0, 0], &[68, 12, 5, 3, 203, 0, 113, 8, 0, 0, 0, 0]),
        ("no slot left", &[68, 4, 5, 0x20], &[68, 4, 5, 0x30]),
        ("nothing to write", &[148, 4, 0, 0], &[148, 4, 0, 0]),
    ];
    for (name, before, after) in cases {
        let mut packet = with_options(before);
        record(&mut packet, me, 0x0102_0304, |address| address == me).unwrap();
        let signed = Ipv4::parse(&packet).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(&signed.options[..after.len()], *after, "{name}");
        assert_eq!(packet, with_options(after), "{name}");
    }
}

proptest! {
    #[test]
    fn iteration_over_any_bytes_terminates(bytes in prop::collection::vec(prop_oneof![Just(7u8), Just(68), Just(131), 0u8..16, any::<u8>()], 0..60)) {
        let mut at = 20;
        for placed in options(&bytes) {
            match placed {
                Ok(placed) => {
                    prop_assert_eq!(usize::from(placed.offset), at);
                    at += usize::from(placed.length);
                    prop_assert!(at <= 20 + bytes.len().min(40));
                }
                Err(error) => prop_assert!((at..20 + bytes.len()).contains(&usize::from(error.pointer))),
            }
        }
        let mut packet = with_options(&bytes[..bytes.len().min(40)]);
        let before = packet.clone();
        match record(&mut packet, Ipv4Addr::LOCALHOST, 7, |address| address.is_loopback()) {
            Ok(()) => prop_assert!(Ipv4::parse(&packet).is_ok()),
            Err(_) => prop_assert_eq!(packet, before),
        }
    }
}
