//! Whether packets come in where packets to their source would leave (RFC 3704).

use serde::{Serialize, Serializer};
use std::fmt;

/// How the source of a packet is checked against the routes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ReversePath {
    /// Not at all.
    #[default]
    Off,
    /// Some route leads to it, the default route among them (RFC 3704 2.4).
    Loose,
    /// The best route to it leaves by the interface that the packet came in by (RFC 3704 2.2).
    Strict,
}

crate::cpu::named! { ReversePath { Off "off", Loose "loose", Strict "strict" } }
