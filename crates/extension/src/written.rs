//! Takes over the bytes of a packet that a guest has changed. The fields of the IP header on which the router's later work depends must stay.

use packet::{Exception, Meta, Packet};

/// Fields of the IPv4 header that a guest must not change (RFC 791 3.1): bytes and their name.
const KEPT4: &[(usize, usize, &str)] = &[
    (0, 1, "version and header length"),
    (2, 4, "total length"),
    (6, 8, "fragment offset"),
    (8, 9, "time to live"),
    (9, 10, "protocol"),
];
/// The same of the IPv6 header (RFC 8200 3), without the version, which shares its byte with the traffic class.
const KEPT6: &[(usize, usize, &str)] = &[(4, 6, "payload length"), (6, 7, "next header"), (7, 8, "hop limit")];

/// The bytes of the packet that the guest has seen, from its IP header on.
fn seen(packet: &Packet, length: usize) -> Option<&[u8]> {
    packet.bytes().get(usize::from(packet.meta().l3)..)?.get(..length)
}

/// Checks `shown`, the packet from its IP header on as the guest has left it. The error gives the header field that must not change.
pub(crate) fn check(packet: &Packet, shown: &[u8]) -> Result<(), &'static str> {
    let Some(before) = seen(packet, shown.len()).filter(|before| *before != shown) else { return Ok(()) };
    let v6 = before.first().is_some_and(|byte| byte >> 4 == 6);
    if v6 && shown.first().is_some_and(|byte| byte >> 4 != 6) {
        return Err("version");
    }
    // The guest may see only a part of the header.
    let part = |bytes: &[u8], from: usize, to: usize| bytes.get(from..to.min(bytes.len())).map(<[u8]>::to_owned);
    let kept = if v6 { KEPT6 } else { KEPT4 };
    match kept.iter().find(|(from, to, _)| part(before, *from, *to) != part(shown, *from, *to)) {
        Some((.., field)) => Err(field),
        None => Ok(()),
    }
}

/// Copies `shown`, which was checked, into the packet. A packet with another destination becomes [`Exception::Again`].
pub(crate) fn take_over(packet: &mut Packet, shown: &[u8]) {
    let Some(before) = seen(packet, shown.len()).filter(|before| *before != shown) else { return };
    let v6 = before.first().is_some_and(|byte| byte >> 4 == 6);
    let address = if v6 { 24..40 } else { 16..20 };
    let redirected = before.get(address.clone()) != shown.get(address);
    let l3 = usize::from(packet.meta().l3);
    packet.bytes_mut()[l3..l3 + shown.len()].copy_from_slice(shown);
    // RFC 3168 5: the two lowest bits of the traffic class.
    let ecn = match shown {
        [first, second, ..] if v6 => Some((first << 4 | second >> 4) & 3),
        [_, second, ..] => Some(second & 3),
        _ => None,
    };
    let meta = packet.meta_mut();
    meta.ecn = ecn.unwrap_or(meta.ecn);
    if redirected && meta.flags & Meta::LOCAL == 0 {
        meta.exception = Exception::Again as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Pool, Region};

    /// A packet with a link header of 14 bytes and these bytes.
    fn packet(pool: &mut Pool, bytes: &[u8]) -> Packet {
        let mut packet = pool.take().unwrap();
        assert!(packet.fill(&[&[0; 14], bytes].concat()));
        packet.meta_mut().l3 = 14;
        packet
    }

    #[test]
    fn only_fields_that_the_router_does_not_rely_on_can_change() {
        let mut pool = Pool::new(Region::new(1));
        for (first, kept) in [(0x45, vec![0, 2, 3, 6, 7, 8, 9]), (0x60, vec![4, 5, 6, 7])] {
            let before: Vec<u8> = (0..60).map(|at| if at == 0 { first } else { 0x11 }).collect();
            for at in 0..60 {
                let mut one = packet(&mut pool, &before);
                let mut after = before.clone();
                // The low bits: the first byte of IPv6 keeps its version.
                after[at] ^= 1;
                let checked = check(&one, &after);
                assert_eq!(checked.is_err(), kept.contains(&at), "byte {at} of {first:#x}: {checked:?}");
                if checked.is_ok() {
                    take_over(&mut one, &after);
                    assert_eq!(&one.bytes()[14..], &after);
                }
                let redirected = if first == 0x60 { (24..40).contains(&at) } else { (16..20).contains(&at) };
                assert_eq!(one.meta().exception == Exception::Again as u8, redirected, "byte {at}");
                pool.give(one);
            }
        }
        let one = packet(&mut pool, &[0x60; 40]);
        assert_eq!(check(&one, &[0x40; 1]), Err("version"));
        pool.give(one);
    }

    #[test]
    fn changed_congestion_bits_are_known_to_the_link() {
        let mut pool = Pool::new(Region::new(1));
        for (before, after) in [([0x45, 0], [0x45, 3]), ([0x60, 0], [0x60, 0x30])] {
            let mut one = packet(&mut pool, &before);
            take_over(&mut one, &after);
            assert_eq!(one.meta().ecn, 3);
            pool.give(one);
        }
    }
}
