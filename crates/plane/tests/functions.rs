//! Functions of paths in a whole router.

use plane::rig::{Rig, Udp};
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use units::Mac;

const PORTS: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:22"
port = "wan"
"#;

fn udp() -> Vec<u8> {
    let link = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 1]));
    let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(198, 51, 100, 9));
    Udp { link, network, ports: (9, 9), ttl: 64, length: 60 }.frame(&[])
}

/// A router whose only path has these keys.
fn running(path: &str) -> Rig {
    Rig::running(1024, Layout::Three, &format!("{PORTS}[[path]]\nname = \"tried\"\nmatch = \"any\"\n{path}\n"))
}

#[test]
fn a_spin_takes_its_time_before_a_packet_goes_on() {
    let mut rig = running("functions = [\"spin(cost=6us,kilobyte=1us)\", \"ip\"]");
    let path = |rig: &Rig| rig.report().tasks.iter().map(|task| task.view.account.used.get()).sum::<u64>();
    (0..5).for_each(|_| rig.send("lan", &udp()));
    let before = path(&rig);
    rig.settle();
    assert_eq!(rig.received("wan").len(), 5);
    let used = path(&rig) - before;
    assert!((5 * 6060..32_000).contains(&used), "{used}");
}

#[test]
fn a_packet_whose_spin_is_longer_than_the_limit_of_its_path_is_dropped_and_the_others_go_on() {
    let mut rig = running("limit = \"10us\"\nfunctions = [\"spin(cost=1us,rare=50%,rare_cost=1ms)\", \"ip\"]");
    (0..40).for_each(|_| rig.send("lan", &udp()));
    rig.settle();
    let left = rig.received("wan").len();
    let drops = rig.report().ports.into_iter().flat_map(|port| port.drops);
    let dropped: u64 =
        drops.filter(|(reason, _)| *reason == packet::DropReason::CpuLimit).map(|(_, packets)| packets).sum();
    assert_eq!((left as u64 + dropped, left > 5, dropped > 5), (40, true, true), "{left} {dropped}");
}
