//! A router between two cards, and helpers for its worlds.

use sim::{Measurements, NoCaptures, RunError, WorldPlan};

/// The configuration of a router from card `in` to card `out`, followed by `more`.
pub fn config(more: &str) -> String {
    format!(
        r#"
version = 1
[port.in]
device = "sim:in"
address = ["192.0.2.1/24"]
[port.out]
device = "sim:out"
address = ["198.51.100.1/24"]
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:09"
port = "out"
[[route]]
to = "10.0.0.0/8"
via = "198.51.100.9"
{more}"#
    )
}

/// A world with one such router; `world` is the rest of its description.
pub fn world_of(config: &str, world: &str) -> WorldPlan {
    let text = format!("{world}\n[router.r]\nconfig = '''{config}'''\n");
    WorldPlan::parse(&text, "world.toml").unwrap_or_else(|wrong| panic!("{}", wrong.render(false)))
}

/// Runs a world that must succeed.
pub fn run(world: &WorldPlan) -> Measurements {
    try_run(world).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a world that may fail.
pub fn try_run(world: &WorldPlan) -> Result<Measurements, RunError> {
    sim::run(world, &mut NoCaptures, &mut |_| {})
}

/// A measured value.
#[track_caller]
pub fn value(measured: &Measurements, name: &str) -> f64 {
    measured.get(name).unwrap_or_else(|| panic!("there is no {name} in {:#?}", measured.values))
}
