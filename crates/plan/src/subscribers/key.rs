//! The keys of circuits as tables write them.

use crate::element::addresses;
use crate::names::vlan_id;
use crate::text::{TextError, quote};
use units::CircuitKey;
use units::Mac;

/// The words of a cell with several values, which blanks or commas separate, each with its offset.
pub(super) fn words(cell: &str) -> impl Iterator<Item = (usize, &str)> {
    cell.split(|c: char| c == ',' || c == ';' || c.is_whitespace())
        .filter(|word| !word.is_empty())
        .map(move |word| (word.as_ptr().addr() - cell.as_ptr().addr(), word))
}

/// Parses an address, or a prefix without host bits.
pub(super) fn address(text: &str) -> Result<CircuitKey, TextError> {
    addresses(text).map(|prefix| CircuitKey::Prefix(prefix.address, prefix.length))
}

/// Parses a MAC address of one host: twelve hexadecimal digits, with or without `:`, `-` or `.` between them.
pub(super) fn mac(text: &str) -> Result<CircuitKey, TextError> {
    let wrong = |reason: String, hint: &str| Err(TextError::whole(text, reason, hint));
    let digits: String = text.chars().filter(|c| !matches!(c, ':' | '-' | '.')).collect();
    let number = if digits.len() == 12 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        u64::from_str_radix(&digits, 16).ok()
    } else {
        None
    };
    match number.map(Mac::from_number) {
        None => wrong(format!("{} is no MAC address", quote(text)), "write it like '02:00:00:00:00:01'"),
        Some(mac) if !mac.is_unicast() => wrong(format!("{mac} is the address of no host"), "write that of the device"),
        Some(mac) => Ok(CircuitKey::Mac(mac)),
    }
}

/// Parses a VLAN, or an outer and an inner one: `100`, `100.20`.
pub(super) fn vlan(text: &str) -> Result<CircuitKey, TextError> {
    let key = match text.split_once('.') {
        None => vlan_id(text).map(|vlan| CircuitKey::Vlan { outer: None, vlan }),
        Some((outer, vlan)) => match (vlan_id(outer), vlan_id(vlan)) {
            (Some(outer), Some(vlan)) => Some(CircuitKey::Vlan { outer: Some(outer), vlan }),
            _ => None,
        },
    };
    key.ok_or_else(|| {
        let hint = "write an id from 1 to 4094, like '100', or the outer and the inner one, like '100.20'";
        TextError::whole(text, format!("{} is no VLAN", quote(text)), hint)
    })
}
