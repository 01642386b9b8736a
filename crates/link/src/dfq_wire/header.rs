//! The header of each message, and the reasons why bytes are none.

/// IEEE 802 local experimental Ethertype 1 (IEEE 802, 9.2.3).
pub(super) const ETHERTYPE: u16 = 0x88b5;
/// The version of all messages.
pub(super) const VERSION: u8 = 1;
/// Octets of the header of each message.
pub(super) const HEADER: usize = 6;

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MessageKind {
    Hello = 1,
    Map = 2,
    MapAnswer = 3,
    Batch = 4,
}

/// Why a frame is no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MessageError {
    /// It is a hello of another version.
    Version(u8),
    /// It is truncated, contradicts itself, or uses a flow without an entry in the map.
    Malformed,
}

/// Splits the first octets off `bytes`.
pub(super) fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], MessageError> {
    let (first, rest) = bytes.split_first_chunk::<N>().ok_or(MessageError::Malformed)?;
    *bytes = rest;
    Ok(*first)
}
