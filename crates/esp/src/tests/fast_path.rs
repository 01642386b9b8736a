//! The fast path does the same as the two stages, with and without the classifier's hints: the same packets, to stores that are otherwise identical.

use super::{Place, V4, model::meeting, part};
use crate::registered::Registry;
use crate::site::{InstructionFate, Location};
use crate::store::StoreSpec;
use crate::wire::{Addresses, Carriages, Locations, datagram, dedicated};
use packet::wire::{Ipv4, ipv4};
use plane::hook::UNKNOWN;
use proptest::prelude::*;
use std::net::Ipv6Addr;
use units::Nanos;

/// A packet with an instruction, in any carriage, for any locations. Sometimes one byte is changed.
fn packets() -> impl Strategy<Value = Vec<u8>> {
    let changed = proptest::option::weighted(0.3, (any::<proptest::sample::Index>(), 1u8..));
    let locations = (any::<bool>(), any::<bool>(), any::<bool>());
    (meeting(), locations, 0u8..3, changed, 0usize..4).prop_map(
        |(instruction, (input, central, output), how, changed, cut)| {
            let mut part = part(instruction);
            part.locations = Locations { input, central, output };
            let v6 = Addresses::V6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
            let mut packet = match how {
                0 => dedicated(&Carriages::default(), V4, &part),
                1 => dedicated(&Carriages::default(), v6, &part),
                _ => datagram(&Carriages::default(), V4, 9, &part).expect("datagrams are carried by default"),
            };
            if let Some((index, bits)) = changed {
                let index = index.index(packet.len());
                packet[index] ^= bits;
                packet.truncate(packet.len() - cut);
            }
            packet
        },
    )
}

/// The classifier's hint for a packet cut to its length.
fn is_dedicated(packet: &[u8]) -> bool {
    let plain = Ipv4::parse(packet).is_ok_and(|parsed| {
        let header = parsed.header;
        header.header_length() == ipv4::HEADER && header.is_first() && header.protocol() == Carriages::DEFAULT.protocol
    });
    plain && packet.len() == usize::from(u16::from_be_bytes([packet[2], packet[3]]))
}

proptest! {
    #[test]
    fn fast_path_equals_the_two_stages(
        batches in proptest::collection::vec((proptest::collection::vec(packets(), 1..20), 0u64..4_000), 1..30),
        capacity in 1u64..12,
        allowed: u16,
    ) {
        // Only a store that does not record creators uses the fast path.
        let place = |(diagnostics, knows)| (Place::new(StoreSpec { diagnostics, ..StoreSpec::of(capacity) }), knows);
        let mut places = [(false, true), (false, false), (true, false), (true, true)].map(place);
        for (number, (batch, milliseconds)) in batches.into_iter().enumerate() {
            let location = Location::ALL[number % 3];
            let known: Vec<bool> = batch.iter().map(|packet| is_dedicated(packet)).collect();
            let mut seen = places.iter_mut().map(|(place, knows)| {
                place.rules.allowed = allowed | 1 << (number % 16);
                place.wait(Nanos::millis(milliseconds));
                let (mut packets, mut fates) = (batch.clone(), vec![InstructionFate::PassedThrough; batch.len()]);
                let readings = place.readings();
                let (of, with) = ((&place.rules, location), (&readings, &mut Registry::default()));
                let known = if *knows { &known[..] } else { UNKNOWN };
                place.site.process_with_variables(of, with, place.now, (&mut packets, known), &mut fates);
                let entries: Vec<_> = place.inspector.entries(place.now).map(|entry| (entry.tag, entry.value)).collect();
                (packets, fates, entries, *place.site.counters_at(location))
            });
            let first = seen.next();
            for other in seen {
                prop_assert_eq!(&Some(other), &first);
            }
        }
    }
}
