//! Tunnels between the router and programs of others: scapy makes the outer packets that the router receives, and tshark dissects those that it sends.

#![allow(clippy::print_stdout)]

use io::pcap::{CaptureProgram, LinkType, PcapDirection, PcapInterface, PcapRecord, Writer};
use packet::wire::{Ipv4Spec, ethernet, ethertype, protocol};
use plane::rig::Rig;
use plane::snapshot::Layout;
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use units::{Instant, Mac, Nanos};

/// A tunnel: its device, its keys, the other end, the outer packet of scapy, and the outer packet in tshark.
struct Tunnel {
    device: &'static str,
    keys: &'static str,
    /// The outer headers that scapy writes before `inner`, an IPv4 packet.
    scapy: &'static str,
    /// The values of [`FIELDS`] in an outer packet that the router sends.
    dissected: [&'static str; 8],
}

/// Of outer and inner headers, both separated by commas.
const FIELDS: [&str; 8] =
    ["ip.dst", "ipv6.dst", "ip.proto", "gre.proto", "gre.key", "gre.sequence_number", "vxlan.vni", "ip.ttl"];

const TUNNELS: [Tunnel; 5] = [
    Tunnel {
        device: "gre:198.51.100.2",
        keys: "local = '198.51.100.1'",
        scapy: "IP(src='198.51.100.2', dst='198.51.100.1') / GRE(proto=0x800)",
        dissected: ["198.51.100.2,10.2.0.7", "", "47,17", "0x0800", "", "", "", "64,63"],
    },
    Tunnel {
        device: "gre:198.51.100.3",
        keys: "local = '198.51.100.1'\nkey = 7\nsequence = true",
        // Scapy spells the field like that.
        scapy: "IP(src='198.51.100.3', dst='198.51.100.1') / GRE(proto=0x800, key_present=1, key=7, seqnum_present=1, seqence_number=9)",
        dissected: ["198.51.100.3,10.2.1.7", "", "47,17", "0x0800", "0x00000007", "0", "", "64,63"],
    },
    Tunnel {
        device: "ipip:198.51.100.4",
        keys: "local = '198.51.100.1'",
        scapy: "IP(src='198.51.100.4', dst='198.51.100.1', proto=4)",
        dissected: ["198.51.100.4,10.2.2.7", "", "4,17", "", "", "", "", "64,63"],
    },
    Tunnel {
        device: "gre:2001:db8:ffff::5",
        keys: "local = '2001:db8:ffff::1'",
        scapy: "IPv6(src='2001:db8:ffff::5', dst='2001:db8:ffff::1') / GRE(proto=0x800)",
        dissected: ["10.2.3.7", "2001:db8:ffff::5", "17", "0x0800", "", "", "", "63"],
    },
    Tunnel {
        device: "vxlan:42",
        keys: "local = '198.51.100.1'\nremotes = '198.51.100.6'",
        scapy: "IP(src='198.51.100.6', dst='198.51.100.1') / UDP(sport=50000, dport=4789) / VXLAN(vni=42, flags=8) \
                / Ether(src='02:00:00:00:00:98', dst=segment)",
        dissected: ["198.51.100.6,10.2.4.7", "", "17,17", "", "", "", "42", "64,63"],
    },
];

const WAN: Mac = Mac([2, 0, 0, 0, 0, 2]);
const SEGMENT: &str = "02:00:00:00:00:42";

/// The host 10.1.0.7 on `lan`; behind each tunnel a network `10.2.NUMBER.0/24`.
fn config() -> String {
    let mut text = "version = 1\n\
        [port.lan]\ndevice = 'memory:lan'\nmac = '02:00:00:00:00:01'\naddress = ['10.1.0.1/24']\n\
        [port.wan]\ndevice = 'memory:wan'\nmac = '02:00:00:00:00:02'\naddress = ['198.51.100.1/24', '2001:db8:ffff::1/64']\n"
        .to_string();
    let mut neighbours = String::from("[[neighbour]]\naddress = '10.1.0.7'\nmac = '02:00:00:00:00:07'\nport = 'lan'\n");
    let mut neighbour = |address: &str, mac: &str, port: &str| {
        neighbours += &format!("[[neighbour]]\naddress = '{address}'\nmac = '{mac}'\nport = '{port}'\n");
    };
    for (number, tunnel) in TUNNELS.iter().enumerate() {
        let port = format!("tunnel{number}");
        text += &format!("[port.{port}]\ndevice = '{}'\naddress = ['10.255.{number}.1/24']\n", tunnel.device);
        let is_vxlan = tunnel.device.starts_with("vxlan");
        if is_vxlan {
            text += &format!("mac = '{SEGMENT}'\n");
            neighbour(&format!("10.255.{number}.2"), "02:00:00:00:00:98", &port);
        }
        text += &format!("[port.{port}.tunnel]\n{}\n", tunnel.keys);
        text += &format!("[[route]]\nto = '10.2.{number}.0/24'\nvia = '10.255.{number}.2'\n");
        let (kind, end) = tunnel.device.split_once(':').unwrap();
        neighbour(if kind == "vxlan" { "198.51.100.6" } else { end }, "02:00:00:00:00:99", "wan");
    }
    text + &neighbours
}

/// A datagram from the host behind `lan` to one behind a tunnel.
fn datagram(number: usize) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER + 20 + 48];
    let (lan, host) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 7]));
    ethernet::write_header(&mut frame[..ethernet::HEADER], lan, host, None, ethertype::IPV4).unwrap();
    let spec = Ipv4Spec {
        type_of_service: 0,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: protocol::UDP,
        source: Ipv4Addr::new(10, 1, 0, 7),
        destination: Ipv4Addr::new(10, 2, number as u8, 7),
    };
    spec.write(&mut frame[ethernet::HEADER..], 48).unwrap();
    // Ports 9 and 9, a length of 48, and no checksum.
    frame[ethernet::HEADER + 20..][..8].copy_from_slice(&[0, 9, 0, 9, 0, 48, 0, 0]);
    frame
}

/// The output of a program, or `None` if it cannot run here.
fn output(program: &str, command: &mut Command) -> Option<String> {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: {program} does not run here: {error}");
            return None;
        }
    };
    if String::from_utf8_lossy(&output.stderr).contains("No module named 'scapy'") {
        println!("skipped: scapy is missing");
        return None;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn packets_that_scapy_encapsulates_leave_the_tunnel_unchanged() {
    // For each tunnel the outer frame, and the packet that the router should forward.
    let mut script = format!(
        "from scapy.layers.inet import IP, UDP\nfrom scapy.layers.inet6 import IPv6\nfrom scapy.layers.l2 import Ether, GRE\n\
         from scapy.layers.vxlan import VXLAN\nsegment = '{SEGMENT}'\n\
         def inner(number, ttl): return IP(src='10.2.%d.7' % number, dst='10.1.0.7', ttl=ttl) / UDP(sport=5, dport=6) / (b'payload ' * 9)\n"
    );
    for (number, tunnel) in TUNNELS.iter().enumerate() {
        script += &format!(
            "print(bytes(Ether(src='02:00:00:00:00:99', dst='{WAN}') / {} / inner({number}, 9)).hex(), bytes(inner({number}, 8)).hex())\n",
            tunnel.scapy
        );
    }
    let Some(made) = output("python3", Command::new("python3").args(["-c", &script])) else { return };
    let bytes = |hex: &str| -> Vec<u8> {
        let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(digits).collect()
    };
    assert_eq!(made.lines().count(), TUNNELS.len());
    for (line, tunnel) in made.lines().zip(&TUNNELS) {
        let (outer, inner) = line.split_once(' ').unwrap();
        let mut rig = Rig::running(4096, Layout::Three, &config());
        rig.send("wan", &bytes(outer));
        rig.settle();
        let arrived = rig.received("lan");
        let packets: Vec<&[u8]> = arrived.iter().map(|frame| &frame[ethernet::HEADER..]).collect();
        assert_eq!(packets, [&bytes(inner)[..]], "{}", tunnel.device);
    }
}

#[test]
fn tshark_dissects_the_packets_that_the_router_encapsulates() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wan.pcapng");
    let mut rig = Rig::running(4096, Layout::Three, &config());
    for number in 0..TUNNELS.len() {
        rig.send("lan", &datagram(number));
    }
    rig.settle();
    let frames = rig.received("wan");
    write(&path, &frames);
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(&path).args(["-o", "ip.check_checksum:TRUE", "-T", "fields", "-E", "occurrence=a"]);
    // The router's own announcements of its addresses leave by the same port.
    command.args(["-Y", "ip.src == 10.1.0.7"]);
    for field in FIELDS.iter().chain(&["_ws.malformed", "ip.checksum.status"]) {
        command.args(["-e", field]);
    }
    let Some(text) = output("tshark", &mut command) else { return };
    assert_eq!(text.lines().count(), TUNNELS.len(), "{text}");
    for tunnel in &TUNNELS {
        let has_group = |line: &&str| line.split('\t').zip(&tunnel.dissected).all(|(found, wanted)| found == *wanted);
        let found = text
            .lines()
            .find(has_group)
            .unwrap_or_else(|| panic!("{}: {:?} in\n{text}", tunnel.device, tunnel.dissected));
        let checks: Vec<&str> = found.split('\t').skip(FIELDS.len()).collect();
        assert!(checks[0].is_empty() && checks[1].split(',').all(|status| status == "1"), "{found}");
    }
}

fn write(path: &Path, frames: &[Vec<u8>]) {
    let mut writer = Writer::new(File::create(path).unwrap(), &CaptureProgram::default(), Nanos::ZERO).unwrap();
    let interface = PcapInterface { name: "wan".into(), link: LinkType::ETHERNET, snap_length: 0, mac: None };
    writer.add_interface(interface).unwrap();
    for (number, data) in frames.iter().enumerate() {
        let (time, original) = (Instant::new(number as u64), data.len() as u32);
        let (link, direction) = (LinkType::ETHERNET, PcapDirection::Out);
        writer.packet(&PcapRecord { time, interface: 0, link, original, data, direction, comment: "" }).unwrap();
    }
    writer.flush().unwrap();
}
