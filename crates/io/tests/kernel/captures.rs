//! The packets of shared captures, sent to the routers' left link with their captured addresses and payloads.

use crate::bench::{host_mac, router_mac};
use crate::generator::SentFrame;
use crate::link_ends::Link;
use io::pcap::{LinkType, Reader};
use packet::wire::{Ethernet, ethernet, ethertype};
use std::fs::File;
use std::path::PathBuf;

/// The available captures; none without data.
fn captures() -> Vec<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let data = std::env::var_os("SWITCHPATH_DATA").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let Ok(entries) = std::fs::read_dir(data.join("captures")) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pcap" || extension == "pcapng"));
    paths.sort();
    paths
}

/// All of their IPv4 and IPv6 packets that fit a frame, with the link header for the routers.
pub fn frames() -> Vec<SentFrame> {
    let mut frames = Vec::new();
    for path in captures() {
        let mut reader = Reader::new(File::open(&path).unwrap()).unwrap();
        let link = reader.interfaces().first().map(|interface| interface.link);
        while let Some(record) = reader.next_record().unwrap() {
            let (kind, l3) = match link {
                // Raw IP, under any of its numbers.
                Some(link) if link != LinkType::ETHERNET => (None, record.data),
                _ => match Ethernet::parse(record.data) {
                    Ok(frame) => (frame.ethertype(), &record.data[frame.payload..]),
                    Err(_) => continue,
                },
            };
            let by_version = match l3.first().map(|byte| byte >> 4) {
                Some(4) => ethertype::IPV4,
                Some(6) => ethertype::IPV6,
                _ => continue,
            };
            if kind.is_some_and(|kind| kind != by_version) || l3.len() > 1500 {
                continue;
            }
            let mut frame = vec![0; ethernet::HEADER];
            ethernet::write_header(&mut frame, router_mac(Link::Left), host_mac(Link::Left), None, by_version);
            frame.extend_from_slice(l3);
            frames.push(SentFrame { link: Link::Left, frame });
        }
    }
    frames
}
