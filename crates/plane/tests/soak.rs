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

/// Tunnels of each kind to the host behind the WAN, and one within another.
const TUNNELS: &str = r#"
[port.gre]
device = "gre:198.51.100.9"
address = ["10.1.0.1/24", "2001:db8:11::1/64"]
tunnel = { local = "198.51.100.254", key = 7 }
[port.gre6]
device = "gre:2001:db8:2::9"
address = ["10.2.0.1/24", "2001:db8:12::1/64"]
tunnel = { local = "2001:db8:2::fe", sequence = true }
[port.ipip]
device = "ipip:198.51.100.9"
address = ["10.3.0.1/24", "2001:db8:13::1/64"]
tunnel = { local = "198.51.100.254", fragment = true }
[port.segment]
device = "vxlan:42"
mac = "02:00:00:00:00:01"
address = ["10.4.0.1/24", "2001:db8:14::1/64"]
tunnel = { local = "198.51.100.254", remotes = ["198.51.100.9", "198.51.100.10"] }
[port.nested]
device = "ipip:10.1.0.9"
address = ["10.5.0.1/24"]
tunnel = { local = "10.1.0.1" }
[[route]]
to = "192.0.0.0/8"
via = "10.1.0.9"
[[route]]
to = "172.0.0.0/8"
via = "10.5.0.9"
[[route]]
to = "2001:db8:9::/48"
via = "2001:db8:12::9"
"#;

/// The seeds within outer packets of the tunnels, some of them twice.
fn tunnelled(seeds: &[Vec<u8>], chance: &mut Chance) -> Vec<Vec<u8>> {
    (0..4 * seeds.len())
        .map(|at| {
            let inner = &seeds[at % seeds.len()];
            let once = outer(inner, chance);
            if chance.one_in(4) { outer(&once, chance) } else { once }
        })
        .collect()
}

/// A frame with an outer packet around what `inner` has behind its link header, or around all of it.
fn outer(inner: &[u8], chance: &mut Chance) -> Vec<u8> {
    let kind: [u8; 2] = inner.get(12..14).and_then(|kind| kind.first_chunk().copied()).unwrap_or([8, 0]);
    let packet = inner.get(14..).unwrap_or_default();
    let (protocol, payload) = match chance.below(5) {
        0 => (47, [&[0x20, 0], &kind[..], &[0, 0, 0, 7], packet].concat()),
        1 => (47, [&[0x10, 0], &kind[..], &[0, 0, 0, 9], packet].concat()),
        2 => (4, packet.to_vec()),
        3 => (41, packet.to_vec()),
        _ => {
            let length = ((16 + inner.len()) as u16).to_be_bytes();
            (17, [&[0xc0, 1, 0x12, 0xb5], &length[..], &[0, 0, 8, 0, 0, 0, 0, 0, 42, 0], inner].concat())
        }
    };
    let mut frame = vec![0; 12];
    if chance.one_in(4) {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((payload.len() as u16).to_be_bytes());
        frame.extend([protocol, 64]);
        frame.extend("2001:db8:2::9".parse::<std::net::Ipv6Addr>().unwrap().octets());
        frame.extend("2001:db8:2::fe".parse::<std::net::Ipv6Addr>().unwrap().octets());
    } else {
        frame.extend([8, 0, 0x45, chance.below(4) as u8]);
        frame.extend(((20 + payload.len()) as u16).to_be_bytes());
        let fragment = if chance.one_in(16) { [0x20, 0] } else { [0, 0] };
        frame.extend([&[0, chance.below(8) as u8][..], &fragment, &[64, protocol, 0, 0]].concat());
        frame.extend([198, 51, 100, 9, 198, 51, 100, 254]);
    }
    frame.extend_from_slice(&payload);
    frame
}

fn frames_wanted() -> u64 {
    std::env::var("SWITCHPATH_FRAMES").map_or(100_000, |n| n.parse().expect("SWITCHPATH_FRAMES is a number of frames"))
}

/// The frames and the configuration of a run.
#[derive(Clone, Copy)]
struct Soak {
    config: &'static str,
    more: &'static str,
    tunnelled: bool,
    /// The least number of reasons for drops.
    reasons: usize,
}

fn soak(run: Soak, layout: Layout, frames: u64, seed: u64) {
    let mut seeds = seeds();
    let mut chance = Chance(seed);
    if run.tunnelled {
        let within = tunnelled(&seeds, &mut chance);
        seeds.extend(within);
    }
    let mut rig = Rig::running(FRAMES, layout, &format!("{}{}", run.config, run.more));
    let (mut sent, mut forwarded) = (0, 0);
    while sent < frames {
        for _ in 0..AT_ONCE.min(frames - sent) {
            let frame = frame(LAN, &seeds, &mut chance);
            // Tunnels end at any port of the router.
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
    if run.tunnelled {
        assert!(ledger.received() > sent + sent / 20, "{layout:?}: packets arrived by tunnels: {ledger:?}");
    } else {
        assert_eq!(ledger.received(), sent, "{layout:?}: every frame was received");
    }
    assert_eq!((report.held_packets, ledger.outstanding()), (0, 0), "{layout:?}: nothing stays behind");
    assert_eq!(rig.pool.frames_in_use(), 0, "{layout:?}: the hosts hold nothing either");
    assert!(report.frames_spare >= FRAMES - KEPT, "{layout:?}: of {FRAMES} frames {} are left", report.frames_spare);
    assert!(forwarded > sent / 20, "{layout:?}: only {forwarded} of {sent} were forwarded");
    assert!(ledger.consumed() > 0 && ledger.generated() > 0, "{layout:?}: {ledger:?}");
    let reasons: Vec<DropReason> = ledger.drops().map(|(reason, _)| reason).collect();
    assert!(reasons.len() >= run.reasons, "{layout:?}: only {} reasons to drop: {reasons:?}", reasons.len());
}

#[test]
fn no_frame_makes_the_router_panic_leak_or_miscount() {
    let (frames, run) = (frames_wanted(), Soak { config: CONFIG, more: "", tunnelled: false, reasons: 20 });
    soak(run, Layout::Three, frames - frames / 10 * 2, 1);
    soak(run, Layout::Two, frames / 10, 2);
    soak(run, Layout::One, frames / 10, 3);
}

#[test]
fn no_packet_of_a_tunnel_makes_the_router_panic_leak_or_miscount() {
    let (frames, run) = (frames_wanted(), Soak { config: CONFIG, more: TUNNELS, tunnelled: true, reasons: 25 });
    soak(run, Layout::Three, frames - frames / 10 * 2, 4);
    soak(run, Layout::Two, frames / 10, 5);
    soak(run, Layout::One, frames / 10, 6);
}
