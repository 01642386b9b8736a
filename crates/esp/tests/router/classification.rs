//! The classifier's hints about packets, compared with their bytes.

use super::*;
use packet::wire::checksum;

/// The same packet with this fragment field.
fn fragment(packet: Vec<u8>, bits: u16) -> Vec<u8> {
    changed(packet, 6, &bits.to_be_bytes())
}

/// The same packet with other header bytes and a valid checksum.
fn changed(mut packet: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    packet[at..at + bytes.len()].copy_from_slice(bytes);
    packet[10..12].fill(0);
    let sum = checksum::checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Several packets in one batch, of different kinds: exactly those with a valid part are executed, in small and in large stores.
#[test]
fn packets_of_different_kinds_in_one_batch_are_classified_separately() {
    let count = part(Locations::INPUT, StateInstruction::Count { counter: 42, threshold: 100, inclusive: false });
    let mark = part(EVERYWHERE, StateInstruction::Mark { tag: 9, value: 1 });
    let sound = dedicated(&CARRIAGES, THERE, &count);
    let mut damaged = sound.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let mut short = dedicated(&CARRIAGES, THERE, &part(Locations::INPUT, StateInstruction::Nop));
    short.truncate(22);
    short[2..4].copy_from_slice(&22u16.to_be_bytes());
    let padded = [&sound[..], &[0; 9]].concat();
    let packets = [
        sound.clone(),
        fragment(sound.clone(), 5),
        fragment(sound.clone(), 0x2000),
        padded,
        damaged,
        fragment(short, 0x4000),
        dedicated(&CARRIAGES, THERE, &mark),
        datagram(&CARRIAGES, THERE, 9, &count).unwrap(),
        // A broadcast address, which the router refuses.
        changed(sound.clone(), 16, &[198, 51, 100, 255]),
        sound,
    ];
    let came = [1000, 20_000].map(|capacity| {
        let mut rig = rig_of(Layout::Three, &format!("{PORTS}[state]\ncapacity = {capacity}\ncentral = 1000\n"));
        packets.iter().for_each(|packet| rig.send("lan", &frame(LAN, packet)));
        rig.settle();
        let told = state_report(&rig);
        let [lan, wan, central] = [Some(0), Some(1), None].map(|port| store(&told, port));
        assert_eq!(executed(lan, "input", "mark"), (1, 0));
        assert_eq!(executed(central, "central", "mark"), (1, 0));
        assert_eq!(executed(wan, "output", "mark"), (1, 0));
        let aborted: Vec<_> = lan.places.iter().flat_map(|place| place.aborted.clone()).collect();
        (executed(lan, "input", "count"), aborted, rig.received("wan"))
    });
    let (counted, aborted, left) = &came[0];
    // Not executed: the later fragment, the damaged packet, the short one, and the refused one.
    assert_eq!((*counted, aborted.len()), ((5, 0), 1), "{aborted:?}");
    assert_eq!(left.len(), packets.len() - 1);
    assert_eq!(came[0], came[1]);
}
