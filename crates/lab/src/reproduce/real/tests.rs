use super::*;
use sim::NoCaptures;
use std::sync::RwLockReadGuard;

/// More packets than the router has time for: the card drops some, and the rest passes.
const WORLD: &str = r#"
duration = "20ms"
warmup = "4ms"
[router.r]
config = '''
version = 1
[cpu]
vector = 1
input = "simple(packets=16)"
forwarding = "simple(packets=16)"
output = "simple(packets=16)"
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
'''
[router.r.cost]
switch = "1us"
poll = "1us"
input = "8us"
forwarding = "2us"
output = "2us"
[[sink]]
name = "sink"
card = "out"
[[source]]
name = "source"
card = "in"
kind = "constant"
rate = "120kpps"
destination = "198.51.100.9"
"#;

/// The runner and its share of the machine; `None` if there can be no laboratory.
fn real_packets() -> Option<(RwLockReadGuard<'static, ()>, RealPackets)> {
    let share = crate::machine_lock::shared_machine();
    match RealPackets::new(None) {
        Ok(real) => Some((share, real)),
        Err(error) => {
            eprintln!("skipped: {error:#}");
            None
        }
    }
}

#[test]
fn results_on_real_packets_match_virtual_time() {
    let Some((_share, real)) = real_packets() else { return };
    let world = WorldPlan::parse(WORLD, "small.toml").unwrap_or_else(|wrong| panic!("{wrong}"));
    // Every run checks by itself that it accounts for each packet and reorders none.
    let here = real.run_once(&world, 24).unwrap_or_else(|error| panic!("{error}"));
    let there = sim::run(&world, &mut NoCaptures, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    let of = |measured: &Measurements, name: &str| measured.get(name).unwrap_or_else(|| panic!("no {name}"));
    assert_eq!(of(&here, "source.source.sent"), of(&there, "source.source.sent"));
    assert_eq!(of(&here, "real.slower"), 24.0);
    assert!(of(&there, "source.source.lost.ring") > 100.0, "the card is too small for all of them");
    for name in ["source.source.received_pps", "path.best-effort.forwarded_pps", "card.in.received"] {
        let (here, there) = (of(&here, name), of(&there, name));
        // The values include the interference of other processes.
        assert!((0.75..1.05).contains(&(here / there)), "{name}: {here} here, {there} in virtual time");
    }
}
