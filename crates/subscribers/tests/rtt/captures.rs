//! Captures of real connections (`SWITCHPATH_DATA`, or `shared/data` beside the repository), dissected by tshark if it is installed.

use crate::definition::{Definition, Observed, is_near};
use packet::{Meta, Packet, Pool, Region};
use pcap_parser::{Linktype, PcapCapture};
use std::path::{Path, PathBuf};
use std::process::Command;
use subscribers::{RttSide, RttTable};
use units::{Instant, Nanos, ShareId};

fn capture(name: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let data = std::env::var_os("SWITCHPATH_DATA").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    Some(data.join("captures").join(name)).filter(|path| path.exists())
}

/// A segment with timestamps as tshark reports it.
struct Dissected {
    /// The number of its frame, from zero.
    frame: usize,
    from: RttSide,
    segment: Observed,
    /// The time since the segment that it acknowledges.
    acknowledged: Option<Nanos>,
}

/// Servers have low ports.
fn side(source_port: u16) -> RttSide {
    if source_port < 1024 { RttSide::Internet } else { RttSide::Subscriber }
}

/// `None` without tshark.
fn dissect(path: &Path) -> Option<Vec<Dissected>> {
    let fields = ["frame.number", "frame.time_epoch", "tcp.stream", "tcp.srcport", "tcp.flags", "tcp.len"];
    let more = ["tcp.options.timestamp.tsval", "tcp.options.timestamp.tsecr", "tcp.analysis.ack_rtt"];
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(path).args(["-Y", "tcp.options.timestamp.tsval && !icmp", "-T", "fields"]);
    fields.iter().chain(&more).for_each(|field| _ = tshark.args(["-e", field]));
    let output = tshark.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).unwrap();
    let segment = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let seconds = |text: &str| {
            let (whole, rest) = text.split_once('.').unwrap();
            whole.parse::<u64>().unwrap() * 1_000_000_000 + format!("{rest:0<9}").parse::<u64>().unwrap()
        };
        let flags = u16::from_str_radix(columns[4].trim_start_matches("0x"), 16).unwrap();
        let echo: u32 = columns[7].parse().unwrap();
        (flags & 4 == 0).then(|| Dissected {
            frame: columns[0].parse::<usize>().unwrap() - 1,
            from: side(columns[3].parse().unwrap()),
            segment: Observed {
                flow: columns[2].to_owned(),
                time: Instant::new(seconds(columns[1])),
                value: columns[6].parse().unwrap(),
                echo: (flags & 16 != 0 && echo != 0).then_some(echo),
                data: columns[5] != "0" || flags & 3 != 0,
            },
            acknowledged: Some(columns[8]).filter(|text| !text.is_empty()).map(|text| Nanos::new(seconds(text))),
        })
    };
    Some(text.lines().filter_map(segment).collect())
}

/// The packets of a capture, with the side that each came from, as a classifier leaves them.
fn packets(path: &Path, pool: &mut Pool) -> Vec<(RttSide, Packet)> {
    let bytes = std::fs::read(path).unwrap();
    let capture = PcapCapture::from_file(&bytes).unwrap();
    let l3 = if capture.header.network == Linktype::ETHERNET { 14 } else { 0 };
    let packet = |block: &pcap_parser::LegacyPcapBlock<'_>| {
        let mut packet = pool.take_for(block.caplen as usize).unwrap();
        assert!(packet.fill(&block.data[..block.caplen as usize]));
        let ip = packet.bytes().get(l3..).unwrap_or_default();
        let version = ip.first().map_or(0, |byte| byte >> 4);
        let header = if version == 4 { usize::from(ip[0] & 15) * 4 } else { 40 };
        let port = ip.get(header..header + 2).map_or(0, |port| u16::from_be_bytes([port[0], port[1]]));
        let meta = packet.meta_mut();
        meta.timestamp = Instant::new(u64::from(block.ts_sec) * 1_000_000_000 + u64::from(block.ts_usec) * 1000);
        (meta.l3, meta.flags) = (l3 as u16, if version == 6 { Meta::IPV6 } else { 0 });
        meta.set_share(ShareId(1));
        (side(port), packet)
    };
    capture.blocks.iter().map(packet).collect()
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that had nothing to test says so")]
fn samples_of_real_connections_agree_with_tshark() {
    for name in ["example.pcap", "four_ipv6_http_streams.pcap"] {
        let Some(path) = capture(name) else { return eprintln!("skipped: no capture {name}; set SWITCHPATH_DATA") };
        let Some(segments) = dissect(&path) else { return eprintln!("skipped: no tshark") };
        let mut definition = Definition::default();
        let mut expected = Vec::new();
        for dissected in &segments {
            let sample = definition.observe(dissected.from, &dissected.segment);
            expected.extend(sample.map(|time| (dissected.frame, time, dissected)));
        }
        let mut pool = Pool::new(Region::with_super_frames(8192, 16));
        let packets = packets(&path, &mut pool);
        let found = super::samples(&RttTable::new(super::AMPLE, 0xfeed), &packets);
        packets.into_iter().for_each(|(_, packet)| pool.give(packet));
        assert_eq!(
            found.iter().map(|(frame, _)| *frame).collect::<Vec<_>>(),
            expected.iter().map(|(frame, ..)| *frame).collect::<Vec<_>>(),
            "{name}: samples end at the same frames"
        );
        assert!(found.iter().zip(&expected).all(|((_, time), (_, exact, _))| is_near(*time, *exact)), "{name}");
        // The time until the acknowledgment of the last segment, which tshark reports, is shorter by the delay between the first segment with a
        // timestamp and the last that is acknowledged.
        let mut differences: Vec<f64> = found
            .iter()
            .zip(&expected)
            .filter_map(|((_, time), (.., dissected))| {
                Some((time.get() as f64 - dissected.acknowledged?.get() as f64) / 1e6)
            })
            .collect();
        differences.sort_by(f64::total_cmp);
        let at = |hundredths: usize| differences[(differences.len() - 1) * hundredths / 100];
        let sides = |side| expected.iter().filter(|(.., dissected)| dissected.from == side).count();
        eprintln!(
            "{name}: {} samples ({} subscriber, {} Internet), {} with an acknowledgment; difference 1 % {:.3} ms, median {:.3} ms, 90 % {:.3} ms",
            found.len(),
            sides(RttSide::Subscriber),
            sides(RttSide::Internet),
            differences.len(),
            at(1),
            at(50),
            at(90),
        );
        assert!(found.len() >= 20 && differences.len() * 2 >= found.len(), "{name}");
        assert!(at(1) > -0.01 && at(50) < 0.1, "{name}: {differences:?}");
    }
}
