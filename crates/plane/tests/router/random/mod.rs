//! Frames made from the seeds of `packet`'s parsers, or from nothing: seeded, so that what fails once fails again.

#![allow(dead_code)]

use packet::pool::FRAME;
use packet::wire::{checksum::checksum, ethertype};
use std::path::Path;

/// SplitMix64 (Steele, Lea, Flood 2014): seeded, so that what fails once fails again.
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// The hand-made frames that the parsers of `packet` are tested with.
pub fn seeds() -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packet/corpus/frames");
    let mut files: Vec<_> =
        std::fs::read_dir(directory).expect("a corpus").map(|f| f.expect("a file").path()).collect();
    files.sort();
    files.into_iter().map(|file| std::fs::read(file).expect("a frame")).collect()
}

/// A frame made from the seeds or from nothing; most are for `station`.
pub fn frame(station: [u8; 6], seeds: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
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
        frame[..6].copy_from_slice(&station);
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
pub fn mend(frame: &mut [u8]) {
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
