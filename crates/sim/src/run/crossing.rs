//! What worlds of tests have in common: a router with two ports, and what comes in by the first leaves by the second.

use crate::World;

/// The end of its configuration; each port has lines of its own besides.
pub(super) fn ports(inward: &str, outward: &str) -> String {
    format!(
        r#"[port.in]
device = "sim:in"
address = ["192.0.2.1/24"]
{inward}
[port.out]
device = "sim:out"
address = ["198.51.100.1/24"]
{outward}
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:09"
port = "out"
[[route]]
to = "10.0.0.0/8"
via = "198.51.100.9"
"#
    )
}

/// The world that a text describes.
pub(super) fn world(text: &str) -> World {
    World::parse(text, "world.toml").unwrap_or_else(|wrong| panic!("{}", wrong.render(false)))
}
