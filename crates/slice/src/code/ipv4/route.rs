//! The filters of IPv4 routes.

use super::key::DESTINATION;
use crate::bands::KeyCondition;
use crate::code::KEY_BYTES;
use std::net::Ipv4Addr;

/// The band and the condition of a route to `length` leading bits of `address`. Bands of longer prefixes are lower, so the longest prefix that matches
/// decides. Band 0 is for filters that decide before all routes. `None` for more than 32 bits.
pub fn route4(address: Ipv4Addr, length: u8) -> Option<(u32, KeyCondition)> {
    let host_bits = 32_u8.checked_sub(length)?;
    let mask = u32::MAX.checked_shl(host_bits.into()).unwrap_or(0);
    let mut condition = KeyCondition { value: [0; KEY_BYTES], mask: [0; KEY_BYTES] };
    condition.value[DESTINATION].copy_from_slice(&(address.to_bits() & mask).to_be_bytes());
    condition.mask[DESTINATION].copy_from_slice(&mask.to_be_bytes());
    Some((1 + u32::from(host_bits), condition))
}
