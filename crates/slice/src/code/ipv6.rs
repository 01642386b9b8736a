//! IPv6 packets as a slice. An address alone has 128 bits, so a lookup key of 112 has a part of it, and a hash of the rest.
//!
//! | bytes | field | a filter can match |
//! |---|---|---|
//! | 1 | meta-interface that received the packet | its value |
//! | 1 | protocol behind the extension headers | its value |
//! | 8 | leading half of the destination | a prefix of up to 64 bits |
//! | 2 | hash of the other half of the destination | one whole address, which the formatter compares in full |
//! | 2 | destination port, zero without ports and in fragments other than the first | its value, a prefix of it |
//!
//! Prefixes of 65 to 127 bits, sources and source ports have no filters.

use super::ip::IpAction;
use super::{
    CodeEnv, CodeOption, CodeRegistration, DATA_BYTES, Diversion, ExceptionCode, Formatted, InnerEdit, KEY_BYTES,
    LookupKey, LookupResult,
};
use crate::bands::KeyCondition;
use packet::wire::ipv6::{Ipv6Header, is_link_local};
use packet::wire::ipv6_extensions::LONGEST_CHAIN;
use packet::wire::{Ipv6, transport};
use std::net::Ipv6Addr;
use std::ops::Range;

/// The bytes of the leading half of the destination in a key, and of the hash of the other half.
const NETWORK: Range<usize> = 2..10;
const HASH: Range<usize> = 10..12;
/// The byte of a filter's data that is not zero if an address follows, and the bytes of the address.
const HAS_HOST: usize = 3;
const HOST: Range<usize> = 4..20;

/// The code option.
pub const REGISTRATION: CodeRegistration = CodeRegistration {
    name: "ipv6",
    summary: "Forwards IPv6 packets: looks up meta-interface, protocol, destination and destination port, and decrements the hop limit.",
    version: 1,
    key_bytes: KEY_BYTES,
    parse_steps: LONGEST_CHAIN as u32,
    format_steps: 0,
    memory: 0,
    settings: &[],
    make: |_| Ok(Box::new(Ipv6FastPath)),
};

struct Ipv6FastPath;

impl CodeOption for Ipv6FastPath {
    fn parse(&mut self, packet: &[u8], env: &mut CodeEnv<'_>) -> Result<LookupKey, Diversion> {
        let packet = Ipv6::parse(packet).map_err(|_| Diversion::Malformed)?;
        let exception = |code| Err(Diversion::Exception(code));
        let (from, to) = (packet.header.source(), packet.header.destination());
        if to.is_multicast() || is_link_local(to) || is_link_local(from) {
            return exception(ExceptionCode::Local);
        }
        // The extension headers are followed in a loop with this bound.
        env.step(LONGEST_CHAIN as u32)?;
        let Ok(chain) = packet.chain() else { return exception(ExceptionCode::SoftHeader) };
        if chain.hop_by_hop {
            return exception(ExceptionCode::Options);
        }
        if packet.header.hop_limit() <= 1 {
            return exception(ExceptionCode::Ttl);
        }
        let ports = chain.offset.and_then(|at| transport::ports(chain.protocol, packet.bytes.get(at..)?));
        let mut key = [0; KEY_BYTES];
        (key[0], key[1]) = (u8::try_from(env.interface()).unwrap_or(u8::MAX), chain.protocol);
        key[NETWORK].copy_from_slice(&to.octets()[..8]);
        key[HASH].copy_from_slice(&host_hash(to).to_be_bytes());
        key[12..].copy_from_slice(&ports.map_or(0, |(_, destination)| destination).to_be_bytes());
        Ok(LookupKey::new(&key))
    }

    fn format(
        &mut self,
        edit: &mut InnerEdit<'_>,
        result: &LookupResult,
        _: &mut CodeEnv<'_>,
    ) -> Result<Formatted, Diversion> {
        let exception = |code| Err(Diversion::Exception(code));
        let packet = Ipv6::parse(edit.bytes()).map_err(|_| Diversion::Malformed)?;
        let length = packet.bytes.len();
        // The hash of another address may be the same.
        if result.data[HAS_HOST] != 0 && result.data[HOST] != packet.header.destination().octets() {
            return exception(ExceptionCode::NoMatch);
        }
        match IpAction::of(&result.data) {
            Some(IpAction::Local) => return exception(ExceptionCode::Local),
            Some(IpAction::Forward { mtu }) if length > mtu.into() => return exception(ExceptionCode::Mtu),
            // Packets that the slow path sends have passed no parser.
            Some(IpAction::Forward { .. }) if packet.header.hop_limit() <= 1 => return exception(ExceptionCode::Ttl),
            Some(IpAction::Forward { .. }) => {}
            Some(IpAction::Drop) | None => return Err(Diversion::Policy),
        }
        edit.truncate(length)?;
        let header = Ipv6Header::of_mut(edit.bytes_mut()).ok_or(Diversion::Malformed)?;
        header.decrement_hop_limit().then_some(Formatted::Send).ok_or(Diversion::Malformed)
    }
}

/// The hash of the second half of an address. The product with an odd constant spreads each bit to the upper ones (Fibonacci hashing, Knuth 6.4).
fn host_hash(address: Ipv6Addr) -> u16 {
    let host = address.to_bits() as u64;
    ((host ^ host >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16
}

/// The filter of a route to `length` leading bits of `address`, its data, and its band: those of longer prefixes are lower, after band 0 of filters that
/// decide before all routes. `None` for lengths other than 0 to 64, and 128.
pub fn route6(address: Ipv6Addr, length: u8, action: IpAction) -> Option<(u32, KeyCondition, [u8; DATA_BYTES])> {
    let mut condition = KeyCondition { value: [0; KEY_BYTES], mask: [0; KEY_BYTES] };
    let mut data = action.data();
    let (band, leading) = match length {
        0..=64 => (2 + 64 - u32::from(length), u32::from(length)),
        128 => {
            condition.value[HASH].copy_from_slice(&host_hash(address).to_be_bytes());
            condition.mask[HASH].fill(0xff);
            data[HAS_HOST] = 1;
            data[HOST].copy_from_slice(&address.octets());
            (1, 64)
        }
        _ => return None,
    };
    let mask = u64::MAX.checked_shl(64 - leading).unwrap_or(0);
    let network = (address.to_bits() >> 64) as u64 & mask;
    condition.value[NETWORK].copy_from_slice(&network.to_be_bytes());
    condition.mask[NETWORK].copy_from_slice(&mask.to_be_bytes());
    Some((band, condition, data))
}
