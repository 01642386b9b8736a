//! Random and mutated frames through a whole router: none makes it panic, leak or miscount.
//!
//! `SWITCHPATH_FRAMES` says how many: a hundred thousand by default, ten million in `make soak`. The worker asserts its
//! ledger at every step; here is asserted besides that nothing stays behind, and that the frames got anywhere at all.

use packet::DropReason;
use packet::pool::FRAME;
use packet::wire::{checksum::checksum, ethertype};
use plane::rig::Rig;
use plane::snapshot::Layout;
use std::path::Path;
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

/// SplitMix64 (Steele, Lea, Flood 2014): seeded, so that what fails once fails again.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `bound`, which is not zero.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

fn frames_wanted() -> u64 {
    std::env::var("SWITCHPATH_FRAMES").map_or(100_000, |n| n.parse().expect("SWITCHPATH_FRAMES is a number of frames"))
}

/// The hand-made frames that the parsers of `packet` are tested with.
fn seeds() -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packet/corpus/frames");
    let mut files: Vec<_> =
        std::fs::read_dir(directory).expect("a corpus").map(|f| f.expect("a file").path()).collect();
    files.sort();
    files.into_iter().map(|file| std::fs::read(file).expect("a frame")).collect()
}

/// A frame made from the seeds or from nothing.
fn frame(seeds: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    let mut frame = if chance.one_in(16) {
        (0..chance.below(200)).map(|_| chance.next() as u8).collect()
    } else {
        seeds[chance.below(seeds.len())].clone()
    };
    for _ in 0..chance.below(4) {
        mutate(&mut frame, seeds, chance);
    }
    frame.truncate(FRAME);
    if frame.len() >= 6 && !chance.one_in(8) {
        frame[..6].copy_from_slice(&LAN);
    }
    if !chance.one_in(4) {
        mend(&mut frame);
    }
    frame
}

fn mutate(frame: &mut Vec<u8>, seeds: &[Vec<u8>], chance: &mut Chance) {
    if frame.is_empty() {
        frame.push(0);
    }
    // Headers more often than what follows them.
    let reach = if chance.one_in(3) { frame.len() } else { frame.len().min(64) };
    let at = chance.below(reach);
    match chance.below(7) {
        0 => frame[at] ^= 1 << chance.below(8),
        1 => frame[at] = [0, 1, 0x7f, 0x80, 0xff][chance.below(5)],
        2 => frame[at] = chance.next() as u8,
        3 => frame.truncate(at),
        4 => frame.extend((0..chance.below(1600)).map(|i| i as u8)),
        5 => drop(frame.splice(at..at, (0..1 + chance.below(8)).map(|_| 0xff))),
        _ => {
            let other = &seeds[chance.below(seeds.len())];
            frame.truncate(at);
            frame.extend(&other[at.min(other.len())..]);
        }
    }
}

/// Makes the checksum of an IPv4 header right, for otherwise hardly a mutated frame would get beyond it.
fn mend(frame: &mut [u8]) {
    if frame.len() < 34 || frame[12..14] != ethertype::IPV4.to_be_bytes() {
        return;
    }
    let end = 14 + 4 * usize::from(frame[14] & 15);
    if let Some(header) = frame.get_mut(14..end).filter(|header| header.len() >= 20) {
        header[10..12].fill(0);
        let sum = checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

fn soak(layout: Layout, frames: u64, seed: u64) {
    let seeds = seeds();
    let mut chance = Chance(seed);
    let mut rig = Rig::running(FRAMES, layout, CONFIG);
    let (mut sent, mut forwarded) = (0, 0);
    while sent < frames {
        for _ in 0..AT_ONCE.min(frames - sent) {
            let frame = frame(&seeds, &mut chance);
            rig.send(if chance.one_in(8) { "wan" } else { "lan" }, &frame);
            sent += 1;
        }
        rig.settle();
        rig.pass(Nanos::new(chance.next() % 2_000_000));
        forwarded += rig.received("wan").len() as u64;
        rig.received("lan");
        if sent % BETWEEN_PAUSES == 0 {
            rig.pass(Nanos::secs(60));
            rig.received("lan");
            rig.received("wan");
        }
    }
    // Neighbours are given up, reassembly times out, and then every frame is where it was.
    rig.pass(Nanos::secs(120));
    rig.received("lan");
    rig.received("wan");
    let report = rig.report();
    let ledger = &report.ledger;
    assert_eq!(ledger.received(), sent, "{layout:?}: every frame was received");
    assert_eq!((report.held, ledger.held()), (0, 0), "{layout:?}: nothing stays behind");
    assert_eq!(rig.pool.outside(), 0, "{layout:?}: the hosts hold nothing either");
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
