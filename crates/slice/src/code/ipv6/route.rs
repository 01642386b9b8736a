//! The filters of IPv6 routes.

use super::key::{HAS_HOST, HASH, HOST, NETWORK, host_hash};
use crate::bands::KeyCondition;
use crate::code::ip::mtu_data;
use crate::code::{DATA_BYTES, KEY_BYTES};
use std::net::Ipv6Addr;

/// The band, the condition and the data of a route to `length` leading bits of `address`, by a next hop with this MTU. Bands of longer prefixes are
/// lower. Band 0 is for filters that decide before all routes. `None` for lengths other than 0 to 64, and 128.
pub fn route6(address: Ipv6Addr, length: u8, mtu: u16) -> Option<(u32, KeyCondition, [u8; DATA_BYTES])> {
    let mut condition = KeyCondition { value: [0; KEY_BYTES], mask: [0; KEY_BYTES] };
    let mut data = mtu_data(mtu);
    let (band, leading) = match length {
        0..=64 => (2 + 64 - u32::from(length), u32::from(length)),
        128 => {
            condition.value[HASH].copy_from_slice(&host_hash(address).to_be_bytes());
            condition.mask[HASH].fill(0xff);
            data[HAS_HOST] = 1;
            data[HOST].copy_from_slice(&address.octets());
            (1, 64)
        }
        _ => return None,
    };
    let mask = u64::MAX.checked_shl(64 - leading).unwrap_or(0);
    let network = (address.to_bits() >> 64) as u64 & mask;
    condition.value[NETWORK].copy_from_slice(&network.to_be_bytes());
    condition.mask[NETWORK].copy_from_slice(&mask.to_be_bytes());
    Some((band, condition, data))
}
