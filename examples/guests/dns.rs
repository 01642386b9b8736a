//! @NAME@: filters DNS responses over UDP (RFC 1035 4.1): by the name of their question, and by addresses that do not belong into them.
//!
//! The rules are those of the path: `guest_rules = ["*.ads.example drop", "*.corp.example pass"]`. The first rule that matches the name applies. With
//! `rebind` a response is dropped if no rule matches it and it has a private address (RFC 1918, RFC 4193, RFC 3927, loopback): a foreign name that
//! resolves to a host of the own network is an attack on its users (DNS rebinding). Responses over TCP, TLS or HTTPS pass.

#![cfg_attr(not(test), no_std)]

use switchpath_guest::{Needs, Options, Packet, PacketFunction, String, Vec, Verdict, count, function, rules};

function! {
    "summary Filters DNS responses by name, and those that resolve foreign names to private addresses.\n\
    option rebind switch on - - Drop responses with private addresses that no rule matches.\n\
    counter responses\n\
    counter private addresses\n\
    counter malformed",
    Dns
}

/// The option and the counters.
const REBIND: usize = 0;
const RESPONSES: u32 = 0;
const PRIVATE: u32 = 1;
const MALFORMED: u32 = 2;

const UDP: u8 = 17;
const HEADER: usize = 12;
/// The longest name as text (RFC 1035 2.3.4).
const LONGEST: usize = 254;
/// Records that are read.
const RECORDS: usize = 64;
const A: [u8; 2] = [0, 1];
const AAAA: [u8; 2] = [0, 28];

struct Dns {
    rebind: bool,
    /// In lower case; those with a star begin with a dot.
    patterns: Vec<String>,
}

impl PacketFunction for Dns {
    const NEEDS: Needs = Needs { bytes: 1500, packets: 32, fields: true, ..Needs::NOTHING };
    type State = ();
    const INITIAL: () = ();

    fn start(options: &Options) -> Result<Dns, String> {
        let mut patterns = rules();
        for pattern in &mut patterns {
            pattern.make_ascii_lowercase();
            if pattern.starts_with("*.") {
                pattern.remove(0);
            }
        }
        Ok(Dns { rebind: options.value(REBIND) != 0, patterns })
    }

    fn process(&mut self, _: &mut (), packet: &mut Packet<'_>) -> Verdict {
        let from_server = |at: usize| packet.bytes().get(at..at + 2) == Some(&[0, 53]);
        if packet.protocol() != UDP || !packet.transport().is_some_and(from_server) {
            return Verdict::Pass;
        }
        // The first bit of the flags marks a response.
        let Some(message) = packet.payload().filter(|m| m.get(2).is_some_and(|flags| flags & 0x80 != 0)) else {
            return Verdict::Pass;
        };
        count(RESPONSES, 1);
        let mut text = [0; LONGEST];
        let Some((name, behind)) = question(message, &mut text) else {
            count(MALFORMED, 1);
            return Verdict::Pass;
        };
        if let Some(rule) = self.patterns.iter().position(|pattern| matches(pattern.as_bytes(), name)) {
            return Verdict::Rule(rule as u16);
        }
        match self.rebind.then(|| has_private_address(message, behind)) {
            Some(Some(true)) => {
                count(PRIVATE, 1);
                Verdict::Drop
            }
            Some(None) => {
                count(MALFORMED, 1);
                Verdict::Pass
            }
            _ => Verdict::Pass,
        }
    }
}

/// True if a name matches a pattern. With a leading dot the pattern matches all names below, and the name itself.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match name.len().checked_sub(pattern.len()) {
        Some(0) => name.eq_ignore_ascii_case(pattern),
        Some(rest) => pattern.starts_with(b".") && name[rest..].eq_ignore_ascii_case(pattern),
        None => pattern.strip_prefix(b".").is_some_and(|own| name.eq_ignore_ascii_case(own)),
    }
}

/// The name of the only question as text, and the offset behind the question.
fn question<'t>(message: &[u8], text: &'t mut [u8; LONGEST]) -> Option<(&'t [u8], usize)> {
    if message.get(4..6)? != [0, 1] {
        return None;
    }
    let (mut at, mut end) = (HEADER, 0);
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        // A pointer cannot be in the first name of a message: there is nothing to point to.
        let label = message.get(at..at + length).filter(|_| length < 64)?;
        if end > 0 {
            *text.get_mut(end)? = b'.';
            end += 1;
        }
        text.get_mut(end..end + length)?.copy_from_slice(label);
        (at, end) = (at + length, end + length);
    }
    Some((&text[..end], at + 4))
}

/// The offset behind a name that may end with a pointer (RFC 1035 4.1.4).
fn behind_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let length = *message.get(at)?;
        match length >> 6 {
            0 if length == 0 => return Some(at + 1),
            0 => at += 1 + usize::from(length),
            3 => return Some(at + 2),
            _ => return None,
        }
    }
}

/// True if an answer has a private address. `None` if the answers are malformed. Answers beyond the bytes that the function sees do not count.
fn has_private_address(message: &[u8], mut at: usize) -> Option<bool> {
    let answers = usize::from(u16::from_be_bytes([*message.get(6)?, *message.get(7)?]));
    for _ in 0..answers.min(RECORDS) {
        at = behind_name(message, at)?;
        let head = message.get(at..at + 10)?;
        let length = usize::from(u16::from_be_bytes([head[8], head[9]]));
        let data = message.get(at + 10..at + 10 + length)?;
        let kind = [head[0], head[1]];
        let is_private = match *data {
            [a, b, _, _] if kind == A => is_private4(a, b),
            _ if kind == AAAA && length == 16 => is_private6(data),
            _ => false,
        };
        if is_private {
            return Some(true);
        }
        at += 10 + length;
    }
    Some(false)
}

fn is_private4(a: u8, b: u8) -> bool {
    matches!((a, b), (0 | 10 | 127, _) | (172, 16..=31) | (192, 168) | (169, 254) | (100, 64..=127))
}

fn is_private6(address: &[u8]) -> bool {
    let (own, mapped) = (address[..15] == [0; 15], address[..10] == [0; 10] && address[10..12] == [255; 2]);
    own || address[0] & 0xfe == 0xfc
        || address[0] == 0xfe && address[1] & 0xc0 == 0x80
        || mapped && is_private4(address[12], address[13])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_a_name_and_all_names_below() {
        assert!(matches(b".ads.example", b"x.ADS.example") && matches(b".ads.example", b"ads.example"));
        assert!(!matches(b".ads.example", b"bads.example") && !matches(b"ads.example", b"x.ads.example"));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let mut text = [0; LONGEST];
        let mut random = 1u64;
        for length in 0..2000 {
            let bytes: Vec<u8> = (0..length % 90)
                .map(|at| {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    if at == 5 { 1 } else { random as u8 & 0xc3 }
                })
                .collect();
            if let Some((_, behind)) = question(&bytes, &mut text) {
                has_private_address(&bytes, behind);
            }
        }
    }
}
