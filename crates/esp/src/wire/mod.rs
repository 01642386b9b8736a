//! The wire format: the part of a packet that routers execute, and the packets that carry it (spec E-14 to E-17).
//!
//! | file | content |
//! |---|---|
//! | `part` | the part: version, location, instruction, computation, operands, checksum |
//! | `carriage` | finds the part in an IPv4 or IPv6 packet |
//! | `envelope` | builds packets that carry a part, dedicated or piggybacked |
//!
//! Like `packet::wire`, all functions accept arbitrary bytes and never panic.

mod carriage;
mod envelope;
mod exercise;
mod part;

pub use carriage::{Carriage, Carriages, set_error_in};
pub use envelope::{
    Addresses, EncodePart, WrapError, before_data, datagram, dedicated, strip, strip_by, with_data, with_data_by, wrap,
    wrap_option,
};
pub use exercise::exercise;
pub use part::{Locations, Part, PartError, PartHead, SEAL, peek, rewrite, set_error};
pub(crate) use part::{SEALED, piggybacked_payload};
pub(crate) use part::{UsualHead, UsualHeads, computation, is_traced};
