//! Valid names of ports, interfaces, paths and VRFs.

use std::sync::Arc;

/// The name of a port or an interface: `lan`, or `lan.20` for its VLAN 20. Shared, because a million routes use few names.
pub type Name = Arc<str>;

/// The longest name of a port, the same as for kernel interfaces.
const PORT_NAME: usize = 15;
/// The longest name of a path.
const PATH_NAME: usize = 31;

macro_rules! port {
    () => {
        "[a-z][a-z0-9_-]{0,14}"
    };
}
macro_rules! path {
    () => {
        "[a-z][a-z0-9_-]{0,30}"
    };
}

/// The pattern of port names, for messages and the schema.
pub(crate) const PORT_PATTERN: &str = port!();
/// The pattern of path names.
pub(crate) const PATH_PATTERN: &str = path!();
/// The same as regular expressions for a whole text.
pub(crate) const WHOLE_PORT: &str = concat!("^", port!(), "$");
pub(crate) const WHOLE_PATH: &str = concat!("^", path!(), "$");
pub(crate) const WHOLE_INTERFACE: &str = concat!("^", port!(), r"(\.[1-9][0-9]{0,3})?$");

/// The router's built-in paths.
pub(crate) const RESERVED_PATHS: &[&str] = &["best-effort", "control", "general", "paths", "routing"];

fn is_name(text: &str, longest: usize) -> bool {
    let body = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    text.len() <= longest && text.starts_with(|c: char| c.is_ascii_lowercase()) && text.bytes().all(body)
}

/// True for a valid port name.
pub(crate) fn is_port(text: &str) -> bool {
    is_name(text, PORT_NAME)
}

/// The name of the main VRF, to which interfaces belong by default.
pub(crate) const MAIN_VRF: &str = "main";

/// True for a valid VRF name.
pub(crate) fn is_vrf(text: &str) -> bool {
    is_name(text, PORT_NAME)
}

/// True for a valid path name.
pub(crate) fn is_path(text: &str) -> bool {
    is_name(text, PATH_NAME)
}

/// True for a valid interface name: a port's, or a port's with a dot and a VLAN id.
pub(crate) fn is_interface(text: &str) -> bool {
    match text.split_once('.') {
        None => is_port(text),
        Some((port, id)) => is_port(port) && vlan_id(id).is_some(),
    }
}

/// A valid 802.1Q VLAN id (IEEE 802.1Q 9.6: 0 and 4095 are reserved), without leading zeros.
pub(crate) fn vlan_id(text: &str) -> Option<u16> {
    let id: u16 = text.parse().ok()?;
    ((1..=4094).contains(&id) && id.to_string() == text).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        for good in ["lan", "a", "wan-2", "lan.20", "x23456789012345", "lan.4094"] {
            assert!(is_interface(good), "{good}");
        }
        for bad in [
            "",
            "Lan",
            "1lan",
            "lan.",
            "lan.0",
            "lan.4095",
            "lan.020",
            "lan.+1",
            "x234567890123456",
            "é",
            "a b",
            "lan.1.2",
        ] {
            assert!(!is_interface(bad), "{bad}");
        }
    }
}
