//! The code option `ipv4`: the fast path of an IPv4 router.

use super::key::key_words;
use crate::code::ip::exceeds_mtu;
use crate::code::{
    CodeEnv, CodeOption, CodeRegistration, Diversion, ExceptionCode, Formatted, InnerEdit, KEY_BYTES, LookupKey,
    LookupResult,
};
use packet::wire::{Ipv4, Ipv4Header, ipv4};

/// The code option.
pub const REGISTRATION: CodeRegistration = CodeRegistration {
    name: "ipv4",
    summary: "Forwards IPv4 packets: looks up meta-interface, addresses, ports and protocol, and decrements the time to live.",
    version: 1,
    key_bytes: KEY_BYTES,
    parse_steps: 0,
    format_steps: 0,
    memory: 0,
    settings: &[],
    make: |_| Ok(Box::new(Ipv4FastPath)),
};

struct Ipv4FastPath;

impl CodeOption for Ipv4FastPath {
    fn parse(&mut self, packet: &[u8], env: &mut CodeEnv<'_>) -> Result<LookupKey, Diversion> {
        let packet = Ipv4::parse(packet).map_err(|_| Diversion::Malformed)?;
        let exception = |code| Err(Diversion::Exception(code));
        let to = packet.header.destination();
        if to.is_multicast() || to.is_broadcast() {
            return exception(ExceptionCode::Local);
        }
        // The slow path knows the addresses of the router: a packet to one of them needs no time to live (RFC 1812 5.3.1).
        if !packet.options.is_empty() {
            return exception(ExceptionCode::Options);
        }
        if packet.header.ttl() <= 1 {
            return exception(ExceptionCode::Ttl);
        }
        Ok(LookupKey::from_words(key_words(env.interface(), &packet)))
    }

    fn format(
        &mut self,
        edit: &mut InnerEdit<'_>,
        result: &LookupResult,
        _: &mut CodeEnv<'_>,
    ) -> Result<Formatted, Diversion> {
        let header = Ipv4Header::of(edit.bytes()).ok_or(Diversion::Malformed)?;
        let length = header.total_length();
        if exceeds_mtu(length, &result.data) {
            return Err(Diversion::Exception(ExceptionCode::Mtu));
        }
        // Packets that the slow path sends have passed no parser.
        if header.ttl() <= 1 {
            return Err(Diversion::Exception(ExceptionCode::Ttl));
        }
        // Padding behind the packet ends here.
        edit.truncate(length)?;
        let header = edit.bytes_mut().first_chunk_mut().ok_or(Diversion::Malformed)?;
        ipv4::decrement_ttl(header).then_some(Formatted::Send).ok_or(Diversion::Malformed)
    }
}
