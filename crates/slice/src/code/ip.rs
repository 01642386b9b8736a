//! The data of filters for IP packets, of both families.

use crate::code::DATA_BYTES;

/// The data of a filter whose next hop has this MTU in bytes: longer packets are exceptions. Zero is no limit.
pub fn mtu_data(mtu: u16) -> [u8; DATA_BYTES] {
    let mut data = [0; DATA_BYTES];
    data[..2].copy_from_slice(&mtu.to_be_bytes());
    data
}

/// The MTU in the data of a filter; none without a limit.
pub(crate) fn data_mtu(data: &[u8; DATA_BYTES]) -> Option<u16> {
    Some(u16::from_be_bytes([data[0], data[1]])).filter(|mtu| *mtu != 0)
}

/// True if a packet is longer than the MTU in the data of its filter.
pub(super) fn exceeds_mtu(length: usize, data: &[u8; DATA_BYTES]) -> bool {
    data_mtu(data).is_some_and(|mtu| length > mtu.into())
}
