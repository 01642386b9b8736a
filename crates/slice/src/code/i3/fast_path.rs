//! The code option `i3`: the fast path of an I3 router.
//!
//! It forwards along the ring, and delivers packets with one trigger. All others are for the slow path:
//!
//! | code | packets |
//! |---|---|
//! | `options` | with an option list |
//! | `slice_2` | with more than one identifier |
//! | `ttl` | forwarded by 64 routers |
//! | `no_match` | for this router, without a trigger |
//! | `multi_match` | for several triggers that share 104 bits |
//! | `slice_0` | for a place so near a router's that 104 bits do not decide |
//! | `slice_1` | for a trigger that leads to other identifiers |

use super::header::{FIRST_HOP, FIXED, I3Packet, ID, OPTIONS, RingMark, fixed_header};
use super::id::LEAST_PREFIX;
use super::node::HOP_LIMIT;
use super::tables::{FilterOrder, I3Exception, lookup_key};
use crate::code::{
    CodeEnv, CodeOption, CodeRegistration, Diversion, ExceptionCode, Formatted, InnerEdit, KEY_BYTES, LookupKey,
    LookupResult,
};

/// The code of packets near the place of a router.
pub const BOUNDARY: ExceptionCode = ExceptionCode::Own(0);
/// The code of packets for a trigger that leads to other identifiers.
pub const STACK_TARGET: ExceptionCode = ExceptionCode::Own(1);
/// The code of packets with more than one identifier.
pub const STACK: ExceptionCode = ExceptionCode::Own(2);

/// The code option.
pub const REGISTRATION: CodeRegistration = CodeRegistration {
    name: "i3",
    summary: "Forwards packets of the Internet Indirection Infrastructure along a Chord ring, and delivers them to the address of their trigger.",
    version: 1,
    key_bytes: KEY_BYTES,
    parse_steps: 0,
    format_steps: 0,
    memory: 0,
    settings: &[],
    make: |_| Ok(Box::new(I3FastPath)),
};

struct I3FastPath;

impl CodeOption for I3FastPath {
    fn parse(&mut self, packet: &[u8], _: &mut CodeEnv<'_>) -> Result<LookupKey, Diversion> {
        let packet = I3Packet::parse(packet).map_err(|_| Diversion::Malformed)?;
        if packet.flags & OPTIONS != 0 {
            return Err(Diversion::Exception(ExceptionCode::Options));
        }
        if packet.stack.len() > 1 {
            return Err(Diversion::Exception(STACK));
        }
        Ok(LookupKey::new(&lookup_key(&packet)))
    }

    fn format(
        &mut self,
        edit: &mut InnerEdit<'_>,
        result: &LookupResult,
        _: &mut CodeEnv<'_>,
    ) -> Result<Formatted, Diversion> {
        let packet = I3Packet::parse(edit.bytes()).map_err(|_| Diversion::Malformed)?;
        let exception = |code| Err(Diversion::Exception(code));
        let (skip, header) = match FilterOrder::of(&result.data).ok_or(Diversion::Policy)? {
            FilterOrder::Exception(I3Exception::NoTrigger) => return exception(ExceptionCode::NoMatch),
            FilterOrder::Exception(I3Exception::SharedBlock) => return exception(ExceptionCode::MultiMatch),
            FilterOrder::Exception(I3Exception::Boundary) => return exception(BOUNDARY),
            FilterOrder::Exception(I3Exception::StackTarget) => return exception(STACK_TARGET),
            FilterOrder::Forward { .. } if packet.mark.hops >= HOP_LIMIT => return exception(ExceptionCode::Ttl),
            FilterOrder::Forward { is_last } => {
                let mark = RingMark { hops: packet.mark.hops + 1, is_last };
                (0, fixed_header(packet.flags & !FIRST_HOP, mark, packet.stack.len()))
            }
            FilterOrder::Deliver { rest, prefix } => {
                // The filter compared 104 bits. A trigger asks for at least 192.
                let id = packet.id();
                if id.with_rest(rest).common_prefix(&id) < LEAST_PREFIX.max(prefix) {
                    return exception(ExceptionCode::NoMatch);
                }
                (ID, fixed_header(packet.flags & !FIRST_HOP, RingMark::default(), packet.stack.len() - 1))
            }
        };
        edit.remove_front(skip)?;
        *edit.bytes_mut().first_chunk_mut::<FIXED>().ok_or(Diversion::Malformed)? = header;
        Ok(Formatted::Send)
    }
}
