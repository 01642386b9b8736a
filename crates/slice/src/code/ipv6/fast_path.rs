//! The code option `ipv6`: the fast path of an IPv6 router.

use super::key::{HAS_HOST, HOST, lookup_key};
use crate::code::ip::exceeds_mtu;
use crate::code::{
    CodeEnv, CodeOption, CodeRegistration, Diversion, ExceptionCode, Formatted, InnerEdit, KEY_BYTES, LookupKey,
    LookupResult,
};
use packet::wire::Ipv6;
use packet::wire::ipv6::{Ipv6Header, is_link_local};
use packet::wire::ipv6_extensions::LONGEST_CHAIN;

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
        Ok(LookupKey::new(&lookup_key(env.interface(), &packet, &chain)))
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
        if exceeds_mtu(length, &result.data) {
            return exception(ExceptionCode::Mtu);
        }
        // Packets that the slow path sends have passed no parser.
        if packet.header.hop_limit() <= 1 {
            return exception(ExceptionCode::Ttl);
        }
        edit.truncate(length)?;
        let header = Ipv6Header::of_mut(edit.bytes_mut()).ok_or(Diversion::Malformed)?;
        header.decrement_hop_limit().then_some(Formatted::Send).ok_or(Diversion::Malformed)
    }
}
