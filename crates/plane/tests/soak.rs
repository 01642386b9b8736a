//! Random and mutated frames through a whole router: none makes it panic, leak or miscount.
//!
//! `SWITCHPATH_FRAMES` says how many: a hundred thousand by default, ten million in `make soak`. The worker asserts its
//! ledger at every step; here is asserted besides that nothing stays behind, and that the frames got anywhere at all.

#[path = "router/random/mod.rs"]
mod random;

use packet::DropReason;
use plane::rig::Rig;
use plane::snapshot::Layout;
use random::{Chance, frame, seeds};
use units::Nanos;

const CONFIG: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.254/24", "2001:db8::fe/64"]
[port.lan.vlan.100]
address = ["203.0.113.254/24", "2001:db8:3::fe/64"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.254/24", "2001:db8:2::fe/64"]
mtu = 1280
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:99"
port = "wan"
[[neighbour]]
address = "2001:db8:2::9"
mac = "02:00:00:00:00:99"
port = "wan"
[[route]]
to = "0.0.0.0/0"
via = "198.51.100.9"
[[route]]
to = "::/0"
via = "2001:db8:2::9"
"#;

/// The address of port `lan`.
const LAN: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Frames of the pool, and how many of them the router and the hosts may keep at hand when there is nothing to do.
const FRAMES: usize = 8192;
const KEPT: usize = 1024;
/// Frames the router finds waiting when it runs.
const AT_ONCE: u64 = 100;
/// Frames between two pauses that are longer than anything the router waits for.
const BETWEEN_PAUSES: u64 = 10_000;

fn frames_wanted() -> u64 {
    std::env::var("SWITCHPATH_FRAMES").map_or(100_000, |n| n.parse().expect("SWITCHPATH_FRAMES is a number of frames"))
}

fn soak(layout: Layout, frames: u64, seed: u64) {
    let seeds = seeds();
    let mut chance = Chance(seed);
    let mut rig = Rig::running(FRAMES, layout, CONFIG);
    let (mut sent, mut forwarded) = (0, 0);
    while sent < frames {
        for _ in 0..AT_ONCE.min(frames - sent) {
            let frame = frame(LAN, &seeds, &mut chance);
            rig.send(if chance.one_in(8) { "wan" } else { "lan" }, &frame);
            sent += 1;
        }
        rig.settle();
        rig.advance(Nanos::new(chance.next() % 2_000_000));
        forwarded += rig.received("wan").len() as u64;
        rig.received("lan");
        if sent % BETWEEN_PAUSES == 0 {
            rig.advance(Nanos::secs(60));
            rig.received("lan");
            rig.received("wan");
        }
    }
    // Neighbours are given up, reassembly times out, and then every frame is where it was.
    rig.advance(Nanos::secs(120));
    rig.received("lan");
    rig.received("wan");
    let report = rig.report();
    let ledger = &report.ledger;
    assert_eq!(ledger.received(), sent, "{layout:?}: every frame was received");
    assert_eq!((report.held_packets, ledger.outstanding()), (0, 0), "{layout:?}: nothing stays behind");
    assert_eq!(rig.pool.frames_in_use(), 0, "{layout:?}: the hosts hold nothing either");
    assert!(report.frames_spare >= FRAMES - KEPT, "{layout:?}: of {FRAMES} frames {} are left", report.frames_spare);
    assert!(forwarded > sent / 20, "{layout:?}: only {forwarded} of {sent} were forwarded");
    assert!(ledger.consumed() > 0 && ledger.generated() > 0, "{layout:?}: {ledger:?}");
    let reasons: Vec<DropReason> = ledger.drops().map(|(reason, _)| reason).collect();
    assert!(reasons.len() >= 20, "{layout:?}: only {} reasons to drop: {reasons:?}", reasons.len());
}

#[test]
fn no_frame_makes_the_router_panic_leak_or_miscount() {
    let frames = frames_wanted();
    soak(Layout::Three, frames - frames / 10 * 2, 1);
    soak(Layout::Two, frames / 10, 2);
    soak(Layout::One, frames / 10, 3);
}
