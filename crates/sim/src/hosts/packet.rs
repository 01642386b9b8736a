//! The packets of a world of hosts. They are small records, because a deep buffer holds a million of them.

use crate::tcp::{Ack, TcpSegment};

/// The contents of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Payload {
    /// Data.
    Data(TcpSegment),
    /// An acknowledgement.
    Ack(Ack),
}

/// A packet of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Packet {
    /// Its stream. Each flow has two: the even one has its segments, the odd one its acknowledgements.
    pub stream: u32,
    /// Its number among all packets of its stream, to detect reordering.
    pub number: u32,
    /// Its length on links.
    pub bytes: u32,
    /// The number of links that it has passed.
    pub hop: u8,
    /// The two ECN bits.
    pub ecn: u8,
    /// Its class.
    pub class: u8,
    /// The time at which it arrived at its current link.
    pub arrived_at: u64,
    /// Its contents.
    pub payload: Payload,
}

/// The other fields of a stream's packets that queueing schemes see.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fields {
    /// Hash of addresses, protocol and ports.
    pub flow_hash: u32,
    /// Hash of the source address.
    pub source: u32,
    /// Hash of the destination address.
    pub destination: u32,
    /// Their DSCP.
    pub dscp: u8,
}
