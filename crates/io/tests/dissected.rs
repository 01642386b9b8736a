//! The output of super-frames, dissected by tshark: every checksum is correct, and every byte of a stream occurs once and in its place. The
//! super-frames are segmented in the router, or behind it if the router forwards them whole.

#![allow(clippy::print_stdout)]

use io::pcap::{CaptureProgram, LinkType, PcapDirection, PcapInterface, PcapRecord, Writer};
use packet::Offload;
use packet::pool::{PartialChecksum, Segmentation};
use packet::port::Offloads;
use packet::wire::checksum::Sum;
use packet::wire::{Ethernet, Ipv4Spec, Segmenter, ethernet, ethertype, offload, protocol, set_congestion_experienced};
use plane::rig::Rig;
use plane::snapshot::Layout;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;
use units::{Instant, Mac, Nanos};

const WHOLE: Offloads = Offloads { super_frames: true, checksums: true, gather: true };
const FROM4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const FROM6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 7);
/// Bytes of each stream.
const STREAM: usize = 100_000;

/// From `lan` or its VLAN 10 to `wan` or its VLAN 20.
fn config(mtu: u16) -> String {
    let mut text = format!(
        r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24", "2001:db8:1::1/64"]
[port.lan.vlan.10]
address = ["192.0.3.1/24", "2001:db8:a::1/64"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
mtu = {mtu}
address = ["198.51.100.1/24", "2001:db8:2::1/64"]
scheme = "fifo(limit=60000, bytes=1gb)"
[port.wan.vlan.20]
address = ["203.0.113.1/24", "2001:db8:3::1/64"]
"#
    );
    for (to, via, port) in [
        ("10.0.0.0/16", "198.51.100.9", "wan"),
        ("10.20.0.0/16", "203.0.113.9", "wan.20"),
        ("2001:db8:9::/48", "2001:db8:2::9", "wan"),
        ("2001:db8:20::/48", "2001:db8:3::9", "wan.20"),
    ] {
        text += &format!(
            "[[route]]\nto = \"{to}\"\nvia = \"{via}\"\n\
             [[neighbour]]\naddress = \"{via}\"\nmac = \"02:00:00:00:00:99\"\nport = \"{port}\"\n"
        );
    }
    text
}

/// A TCP stream, or datagrams, to one destination.
struct Stream {
    vlan: Option<u16>,
    to: IpAddr,
    protocol: u8,
    port: u16,
    /// IPv4 options, or extension headers, with the number of the first.
    extra: (u8, &'static [u8]),
}

impl Stream {
    /// The super-frame with `payload` at offset `at` of the stream.
    fn frame(&self, at: usize, payload: &[u8]) -> (Vec<u8>, Offload) {
        let mut message = [&46_000u16.to_be_bytes()[..], &self.port.to_be_bytes()].concat();
        let field = if self.protocol == protocol::TCP {
            // ACK, PSH and CWR; the options are timestamps.
            message.extend((1 + at as u32).to_be_bytes());
            message.extend([0, 0, 0, 1, 0x80, 0x98, 0x20, 0, 0, 0, 0, 0]);
            message.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
            16
        } else {
            message.extend(((payload.len() + 8) as u16).to_be_bytes());
            message.extend([0, 0]);
            6
        };
        message.extend_from_slice(payload);
        let length = message.len();
        let mut frame = vec![0; ethernet::header_length(self.vlan)];
        let (macs, kind) = ((Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 0x97])), self.ethertype());
        ethernet::write_header(&mut frame, macs.0, macs.1, self.vlan, kind).unwrap();
        let sum = match self.to {
            IpAddr::V4(to) => {
                self.header4(&mut frame, to, length);
                Sum::new().pseudo4(FROM4, to, self.protocol, length as u16)
            }
            IpAddr::V6(to) => {
                frame.extend([0x60, 0x20, 0, 0]);
                frame.extend(((length + self.extra.1.len()) as u16).to_be_bytes());
                frame.extend([if self.extra.1.is_empty() { self.protocol } else { self.extra.0 }, 64]);
                frame.extend(FROM6.octets());
                frame.extend(to.octets());
                let start = frame.len();
                frame.extend_from_slice(self.extra.1);
                if let Some(next) = frame.get_mut(start) {
                    *next = self.protocol;
                }
                Sum::new().pseudo6(FROM6, to, self.protocol, length as u32)
            }
        };
        let start = frame.len() as u16;
        message[field..field + 2].copy_from_slice(&sum.folded().to_be_bytes());
        frame.extend(message);
        let segmentation = match (self.protocol, self.to) {
            (protocol::UDP, _) => Segmentation::Udp,
            (_, IpAddr::V4(_)) => Segmentation::Tcp4,
            (_, IpAddr::V6(_)) => Segmentation::Tcp6,
        };
        let checksum = Some(PartialChecksum { start, offset: field as u16 });
        (frame, Offload { segmentation, size: 1300, checksum })
    }

    fn ethertype(&self) -> u16 {
        if self.to.is_ipv4() { ethertype::IPV4 } else { ethertype::IPV6 }
    }

    fn header4(&self, frame: &mut Vec<u8>, to: Ipv4Addr, length: usize) {
        let spec = Ipv4Spec {
            type_of_service: 2,
            identification: 0xfffe,
            dont_fragment: false,
            ttl: 64,
            protocol: self.protocol,
            source: FROM4,
            destination: to,
        };
        let at = frame.len();
        frame.resize(at + 20, 0);
        spec.write(&mut frame[at..], length + self.extra.1.len()).unwrap();
        frame.extend_from_slice(self.extra.1);
        frame[at] += (self.extra.1.len() / 4) as u8;
        frame[at + 10..at + 12].fill(0);
        let sum = packet::wire::checksum::checksum(&frame[at..]);
        frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Every kind of super-frame, each with its own port.
fn streams() -> Vec<Stream> {
    let options: (u8, &[u8]) = (0, &[1, 1, 1, 1]);
    let destination_options: (u8, &[u8]) = (60, &[0, 0, 1, 4, 0, 0, 0, 0]);
    let ends = ["10.0.0.1", "10.20.0.1", "2001:db8:9::1", "2001:db8:20::1"];
    let mut streams = Vec::new();
    for to in ends.map(|to| to.parse::<IpAddr>().unwrap()) {
        for (protocol, vlan, more) in [
            (protocol::TCP, None, false),
            (protocol::TCP, Some(10), false),
            (protocol::TCP, None, true),
            (protocol::UDP, None, false),
            (protocol::UDP, Some(10), true),
        ] {
            let extra = match (more, to) {
                (false, _) => (0, &[][..]),
                (true, IpAddr::V4(_)) => options,
                (true, IpAddr::V6(_)) => destination_options,
            };
            streams.push(Stream { vlan, to, protocol, port: 47_000 + streams.len() as u16, extra });
        }
    }
    streams
}

/// Segments whole super-frames and completes partial checksums.
fn finished((mut frame, todo): (Vec<u8>, Offload), mark: bool) -> Vec<Vec<u8>> {
    let l3 = Ethernet::parse(&frame).unwrap().payload;
    if mark {
        set_congestion_experienced(&mut frame, l3);
    }
    if !todo.is_super_frame() {
        assert!(todo.checksum.is_none_or(|partial| offload::complete(&mut frame, partial)));
        return vec![frame];
    }
    let mut cut = Segmenter::new(&frame, l3, todo).unwrap();
    let mut segments = Vec::new();
    while cut.next_length() > 0 {
        let mut segment = vec![0; cut.next_length()];
        cut.write(&frame, &mut segment).unwrap();
        segments.push(segment);
    }
    segments
}

fn write(path: &Path, frames: &[Vec<u8>]) {
    let mut writer = Writer::new(File::create(path).unwrap(), &CaptureProgram::default(), Nanos::ZERO).unwrap();
    writer
        .add_interface(PcapInterface { name: "wan".into(), link: LinkType::ETHERNET, snap_length: 0, mac: None })
        .unwrap();
    for (i, data) in frames.iter().enumerate() {
        let record = PcapRecord {
            time: Instant::new(i as u64),
            interface: 0,
            link: LinkType::ETHERNET,
            original: data.len() as u32,
            data,
            direction: PcapDirection::Out,
            comment: "",
        };
        writer.packet(&record).unwrap();
    }
    writer.flush().unwrap();
}

const FIELDS: [&str; 15] = [
    "ip.checksum.status",
    "tcp.checksum.status",
    "udp.checksum.status",
    "tcp.dstport",
    "udp.dstport",
    "tcp.seq_raw",
    "tcp.len",
    "udp.length",
    "ip.ttl",
    "ipv6.hlim",
    "ip.dsfield.ecn",
    "tcp.flags",
    "vlan.id",
    "_ws.malformed",
    "tcp.analysis.flags",
];

/// The fields of each frame in tshark, by the names of [`FIELDS`]. `None` if tshark does not run.
fn dissected(path: &Path) -> Option<Vec<BTreeMap<&'static str, String>>> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(path);
    for checked in ["ip", "tcp", "udp"] {
        command.args(["-o", &format!("{checked}.check_checksum:TRUE")]);
    }
    command.args(["-T", "fields"]);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: tshark does not run here: {error}");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| FIELDS.into_iter().zip(line.split('\t').map(str::to_owned)).collect()).collect())
}

#[test]
fn segmented_streams_have_correct_checksums_and_all_bytes_in_tshark() {
    let directory = tempfile::tempdir().unwrap();
    for (name, takes, mtu, mark) in [
        ("cut in the router", Offloads::default(), 1500, false),
        ("cut behind it", WHOLE, 1500, false),
        ("cut behind it and marked", WHOLE, 1500, true),
        ("cut smaller in the router", Offloads::default(), 1300, false),
        ("cut smaller behind it", WHOLE, 1300, false),
    ] {
        let mut rig = Rig::offloading(8192, Layout::Three, &config(mtu), &[("wan", takes)]);
        let mut frames = Vec::new();
        // Over a small MTU, only streams that may be segmented to smaller sizes.
        let streams: Vec<Stream> =
            streams().into_iter().filter(|s| mtu == 1500 || s.to.is_ipv4() && s.protocol == protocol::TCP).collect();
        for at in (0..STREAM).step_by(STREAM / 4) {
            for stream in &streams {
                let (frame, offload) = stream.frame(at, &vec![at as u8; STREAM / 4]);
                rig.send_as("lan", &frame, offload);
            }
            rig.settle();
            frames.extend(rig.received_as("wan").into_iter().flat_map(|came| finished(came, mark)));
        }
        assert_eq!(rig.report().ledger.dropped(), 0, "{name}");
        let path = directory.path().join("wan.pcapng");
        write(&path, &frames);
        let Some(lines) = dissected(&path) else { return };
        assert_eq!(lines.len(), frames.len());
        let mut place: BTreeMap<String, usize> = BTreeMap::new();
        for (line, frame) in lines.iter().zip(&frames) {
            let seen = |field: &str| line[field].as_str();
            let tcp = seen("udp.dstport").is_empty();
            let port = seen(if tcp { "tcp.dstport" } else { "udp.dstport" });
            let stream = streams.iter().find(|stream| stream.port.to_string() == port).expect(name);
            assert_eq!(seen(if tcp { "tcp.checksum.status" } else { "udp.checksum.status" }), "1", "{name}: {line:?}");
            assert_eq!(seen("_ws.malformed"), "", "{name}: {line:?}");
            if stream.to.is_ipv4() {
                assert_eq!((seen("ip.checksum.status"), seen("ip.ttl")), ("1", "63"), "{name}: {line:?}");
                assert_eq!(seen("ip.dsfield.ecn"), if mark { "3" } else { "2" }, "{name}");
            } else {
                assert_eq!(seen("ipv6.hlim"), "63", "{name}");
            }
            let tagged = ["10.20.0.1", "2001:db8:20::1"].contains(&stream.to.to_string().as_str());
            assert_eq!(seen("vlan.id"), if tagged { "20" } else { "" }, "{name}");
            assert!(frame.len() <= usize::from(mtu) + 18, "{name}");
            let at = place.entry(port.to_string()).or_default();
            if tcp {
                assert_eq!(seen("tcp.seq_raw"), (1 + *at).to_string(), "{name}: {line:?}");
                let length: usize = seen("tcp.len").parse().unwrap();
                let (first, last) = (at.is_multiple_of(STREAM / 4), (*at + length).is_multiple_of(STREAM / 4));
                let flags = 0x10 | if first { 0x80 } else { 0 } | if last { 8 } else { 0 };
                assert_eq!(seen("tcp.flags"), format!("0x{flags:04x}"), "{name}: {line:?}");
                assert_eq!(seen("tcp.analysis.flags"), "", "{name}: {line:?}");
                *at += length;
            } else {
                *at += seen("udp.length").parse::<usize>().unwrap() - 8;
            }
        }
        assert_eq!(place.len(), streams.len(), "{name}: every stream");
        assert!(place.values().all(|&bytes| bytes == STREAM), "{name}: {place:?}");
    }
}
