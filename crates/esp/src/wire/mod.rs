//! Instructions on the wire: the part of a packet that routers execute, and what carries it (spec E-14 to E-17).
//!
//! | file | what |
//! |---|---|
//! | `part` | the part: version, location, instruction, computation, operands, checksum |
//! | `carriage` | where in an IPv4 or IPv6 packet it lies |
//! | `envelope` | packets that carry one: of their own, or with somebody else's data |
//!
//! Like `packet::wire`, everything here takes any bytes and panics on none.

mod carriage;
mod envelope;
mod exercise;
mod part;

pub use carriage::{Carriage, Carriages, set_error_in};
pub use envelope::{
    Addresses, Carried, WrapError, before_data, datagram, dedicated, strip, strip_by, with_data, with_data_by, wrap,
    wrap_option,
};
pub use exercise::exercise;
pub(crate) use part::{Heads, Ordinary, computation, is_traced};
pub use part::{Locations, Part, Peeked, SEAL, Unread, peek, rewrite, set_error};
pub(crate) use part::{SEALED, behind};
