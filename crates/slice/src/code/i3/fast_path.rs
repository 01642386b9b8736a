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

use super::header::{FIRST_HOP, FIXED, HOP_LIMIT, I3Packet, ID, OPTIONS, RingMark, fixed_header};
use super::id::{BLOCK_BITS, I3Id, LEAST_PREFIX};
use crate::code::{
    CodeEnv, CodeOption, CodeRegistration, DATA_BYTES, Diversion, ExceptionCode, Formatted, InnerEdit, KEY_BYTES,
    LookupKey, LookupResult,
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

/// The kind of packets with the last-hop mark. All others have 0.
pub(super) const LAST_KIND: u8 = 1;

/// The lookup key of a packet of this kind for an identifier with these leading 104 bits.
pub(super) fn key_of(kind: u8, block: u128) -> [u8; KEY_BYTES] {
    let [_, _, key @ ..] = (u128::from(kind) << BLOCK_BITS | block).to_be_bytes();
    key
}

/// The order of a filter to the formatter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FilterOrder {
    /// Forward to a router, with the last-hop mark or without it.
    Forward { is_last: bool },
    /// Deliver to an end system, if the packet's identifier agrees with that of the trigger in so many bits. A lookup key has room for its first 104
    /// bits; these are the rest.
    Deliver { rest: [u8; 19], prefix: u16 },
}

const FORWARD: u8 = 0;
const FORWARD_LAST: u8 = 1;
const DELIVER: u8 = 2;

impl FilterOrder {
    pub fn deliver(id: &I3Id, prefix: u16) -> FilterOrder {
        FilterOrder::Deliver { rest: id.rest(), prefix }
    }

    /// The order as data of a filter: its kind in the first byte. To deliver, the next two have the prefix length, and those behind the rest.
    pub fn data(self) -> [u8; DATA_BYTES] {
        let mut data = [0; DATA_BYTES];
        match self {
            FilterOrder::Forward { is_last } => data[0] = if is_last { FORWARD_LAST } else { FORWARD },
            FilterOrder::Deliver { rest, prefix } => {
                data[0] = DELIVER;
                data[1..3].copy_from_slice(&prefix.to_be_bytes());
                data[3..22].copy_from_slice(&rest);
            }
        }
        data
    }

    /// The order in the data of a filter. `None` for data of no order.
    fn of(data: &[u8; DATA_BYTES]) -> Option<FilterOrder> {
        match data[0] {
            FORWARD => Some(FilterOrder::Forward { is_last: false }),
            FORWARD_LAST => Some(FilterOrder::Forward { is_last: true }),
            DELIVER => {
                let rest = *data[3..].first_chunk()?;
                Some(FilterOrder::Deliver { rest, prefix: u16::from_be_bytes([data[1], data[2]]) })
            }
            _ => None,
        }
    }
}

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
        let kind = if packet.mark.is_last { LAST_KIND } else { 0 };
        Ok(LookupKey::new(&key_of(kind, packet.id().block())))
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
