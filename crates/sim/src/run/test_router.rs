//! Shared by test worlds: a router with two ports that forwards from the first to the second.

use crate::WorldPlan;

/// The ports of its configuration; each can have additional lines.
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

/// Parses a world.
pub(super) fn world(text: &str) -> WorldPlan {
    WorldPlan::parse(text, "world.toml").unwrap_or_else(|wrong| panic!("{}", wrong.render(false)))
}
