//! Real traffic, if available: `SWITCHPATH_DATA`, or `shared/data` beside the repository.

use super::frames::{MAC, PEER};
use crate::wire::{Ethernet, Ipv4, Ipv6, PacketFields, ethernet, ethertype, exercise, transport};
use pcap_parser::{Linktype, PcapCapture};
use std::path::PathBuf;

/// The available captures; none without data.
fn captures() -> Vec<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let data = std::env::var_os("SWITCHPATH_DATA").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let Ok(entries) = std::fs::read_dir(data.join("captures")) else { return Vec::new() };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pcap"));
    paths.sort();
    paths
}

/// Raw IP with an Ethernet header before it.
fn framed(l3: &[u8]) -> Vec<u8> {
    let kind = if l3[0] >> 4 == 4 { ethertype::IPV4 } else { ethertype::IPV6 };
    let mut frame = vec![0; ethernet::HEADER];
    ethernet::write_header(&mut frame, MAC, PEER, None, kind).unwrap();
    frame.extend(l3);
    frame
}

#[derive(Debug, Default, PartialEq)]
struct CaptureCounts {
    ipv4: usize,
    ipv6: usize,
    fragments: usize,
}

fn check(frame: &[u8], seen: &mut CaptureCounts) {
    exercise(frame);
    let link = Ethernet::parse(frame).unwrap();
    let l3 = &frame[link.payload..];
    match link.ethertype() {
        Some(ethertype::IPV4) => {
            let packet = Ipv4::parse(l3).unwrap_or_else(|error| panic!("{error}: {l3:02x?}"));
            seen.ipv4 += 1;
            seen.fragments += usize::from(packet.header.is_fragment());
        }
        Some(ethertype::IPV6) => {
            let packet = Ipv6::parse(l3).unwrap_or_else(|error| panic!("{error}: {l3:02x?}"));
            packet.chain().unwrap_or_else(|error| panic!("{error}: {l3:02x?}"));
            seen.ipv6 += 1;
        }
        _ => return,
    }
    assert!(PacketFields::of(frame).is_some(), "what parses has fields");
    transport::find_checksummed(l3).unwrap_or_else(|error| panic!("{error}: {l3:02x?}"));
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that had nothing to test says so")]
fn every_packet_of_the_captures_parses() {
    let paths = captures();
    if paths.is_empty() {
        eprintln!("skipped: no captures; set SWITCHPATH_DATA to a directory with captures/*.pcap");
        return;
    }
    let mut seen = CaptureCounts::default();
    for path in paths {
        let bytes = std::fs::read(&path).unwrap();
        let capture = PcapCapture::from_file(&bytes).unwrap_or_else(|error| panic!("{}: {error:?}", path.display()));
        for block in capture.blocks.iter().filter(|block| block.caplen == block.origlen) {
            let data = &block.data[..block.caplen as usize];
            match capture.header.network {
                Linktype::ETHERNET => check(data, &mut seen),
                // Raw IP, with the numbers of BSD and Linux.
                Linktype(12 | 101) => check(&framed(data), &mut seen),
                other => panic!("{}: link type {other}", path.display()),
            }
        }
    }
    assert!(seen.ipv4 > 0 || seen.ipv6 > 0, "the captures hold IP");
    eprintln!("captures: {seen:?}");
}
