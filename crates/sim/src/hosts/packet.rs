//! Packets as they are in a world of hosts: small records, for a deep buffer holds a million of them.

use crate::tcp::{Ack, Segment};

/// What a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Load {
    /// Data.
    Data(Segment),
    /// An acknowledgement.
    Ack(Ack),
}

/// A packet of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Packet {
    /// The stream it is of: two for each flow, the even one its segments, the odd one its acknowledgements.
    pub stream: u32,
    /// Its place among all packets of its stream, to see whether one has overtaken another.
    pub place: u32,
    /// Its length on links.
    pub bytes: u32,
    /// Links that it has behind it.
    pub hop: u8,
    /// The two ECN bits.
    pub ecn: u8,
    /// Its class.
    pub class: u8,
    /// When it came to the link where it is.
    pub came: u64,
    /// What it carries.
    pub load: Load,
}

/// What a queueing scheme may know of the packets of a stream besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fields {
    /// Hash of addresses, protocol and ports.
    pub flow_hash: u32,
    /// Hash of the address they come from.
    pub source: u32,
    /// Hash of the address they go to.
    pub destination: u32,
    /// Their code point.
    pub dscp: u8,
}
