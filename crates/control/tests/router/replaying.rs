//! Captures replayed through configurations, in virtual time.

use control::replay::{Departure, NamedPlan, ReplayListener, ReplayOptions, ReplayReport, ReplaySource, Speed, replay};
use expect_test::{Expect, expect};
use io::pcap::{CaptureProgram, LinkType, PcapDirection, PcapInterface, PcapRecord, Writer};
use plan::Plan;
use plane::rig::UdpFrame;
use std::fmt::Write;
use std::fs::File;
use std::path::PathBuf;
use units::{Instant, Mac, Nanos};

const ROUTER: &str = r#"
version = 1
[port.lan]
device = "packet:eth0"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
[port.wan]
device = "xdp:eth1"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
[[route]]
to = "203.0.113.0/24"
via = "198.51.100.9"
"#;

fn plan(text: &str) -> Plan {
    plan::check(text, "router.toml", &plane::catalogue()).unwrap()
}

/// A packet of a capture: time in microseconds, interface, direction, time to live, destination, and captured bytes.
struct Captured(u64, u32, PcapDirection, u8, [u8; 4], usize);

/// A capture of packets on the interfaces `lan` and `wan`.
struct Capture {
    directory: tempfile::TempDir,
}

impl Capture {
    fn of(packets: &[Captured]) -> Capture {
        Capture::at([None, None], packets)
    }

    /// Writes a capture with these MAC addresses of `lan` and `wan`.
    fn at(stations: [Option<Mac>; 2], packets: &[Captured]) -> Capture {
        let capture = Capture { directory: tempfile::tempdir().unwrap() };
        let file = File::create(capture.path()).unwrap();
        let mut writer = Writer::new(file, &CaptureProgram::default(), Nanos::secs(1_700_000_000)).unwrap();
        let link = LinkType::ETHERNET;
        for (name, station) in ["lan", "wan"].into_iter().zip(stations) {
            writer.add_interface(PcapInterface { name: name.into(), link, snap_length: 0, mac: station }).unwrap();
        }
        for &Captured(time, interface, direction, ttl, destination, kept) in packets {
            let link = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 1]));
            let network = ([192, 0, 2, 9].into(), destination.into());
            let frame = UdpFrame { link, network, ports: (4000, 53), ttl, length: 100 }.frame(&[7; 50]);
            let (time, original) = (Instant::new(time * 1000), frame.len() as u32);
            let data = &frame[..frame.len().min(kept)];
            writer
                .packet(&PcapRecord {
                    time,
                    interface,
                    link: LinkType::ETHERNET,
                    original,
                    data,
                    direction,
                    comment: "",
                })
                .unwrap();
        }
        writer.finish().unwrap();
        capture
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("capture.pcapng")
    }

    fn source(&self) -> ReplaySource {
        ReplaySource::open(&self.path()).unwrap()
    }
}

const WHOLE: usize = usize::MAX;

/// Five received packets and a sent one.
fn five() -> Capture {
    use PcapDirection::{In, Out};
    Capture::of(&[
        Captured(0, 0, In, 64, [203, 0, 113, 5], WHOLE),
        Captured(900, 0, Out, 64, [192, 0, 2, 9], WHOLE),
        Captured(1000, 0, In, 1, [203, 0, 113, 5], WHOLE),
        Captured(2000, 0, In, 64, [10, 0, 0, 1], WHOLE),
        Captured(3000, 0, In, 64, [192, 0, 2, 1], WHOLE),
        Captured(4000, 0, In, 64, [203, 0, 113, 6], 60),
    ])
}

/// Keeps the packets that leave.
#[derive(Default)]
struct Kept(Vec<Departure>);

impl ReplayListener for Kept {
    fn departed(&mut self, departures: Vec<Departure>) {
        self.0.extend(departures);
    }
    fn wants_departures(&self) -> bool {
        true
    }
}

fn through(capture: &Capture, options: &ReplayOptions, text: &str) -> (ReplayReport, Vec<Departure>) {
    let (mut kept, plan) = (Kept::default(), plan(text));
    let named = NamedPlan { name: "new.toml", plan: &plan };
    let report = replay(&capture.source(), options, (named, None), &mut kept).unwrap();
    (report, kept.0)
}

fn refused(capture: &Capture, options: &ReplayOptions) -> String {
    let plan = plan(ROUTER);
    let named = NamedPlan { name: "new.toml", plan: &plan };
    replay(&capture.source(), options, (named, None), &mut ()).unwrap_err().to_string()
}

/// Compares the sent packets with the expected lines: time, port, packet number, and summary.
fn check(departures: &[Departure], expected: Expect) {
    let mut text = String::new();
    for Departure { after, port, packet, frame } in departures {
        let packet = packet.map_or("own".to_owned(), |packet| packet.to_string());
        let (us, hex) = (after.get() / 1000, frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        writeln!(text, "{us}us {port} {packet} {}\n  {hex}", packet::wire::summary(frame)).unwrap();
    }
    expected.assert_eq(&text);
}

#[test]
fn replay_is_deterministic() {
    let capture = five();
    let (report, departures) = through(&capture, &ReplayOptions::default(), ROUTER);
    check(
        &departures,
        expect![[r#"
        0us wan own ARP who-has 198.51.100.9 tell 198.51.100.1
          ffffffffffff02000000000208060001080006040001020000000002c6336401000000000000c6336409
        0us wan 1 192.0.2.9.4000 > 203.0.113.5.53 UDP 58 bytes ttl 63
          0200000000fe020000000002080045000056000040003f113d88c0000209cb0071050fa000350042000007070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070000000000000000
        1000us lan own ARP who-has 192.0.2.9 tell 192.0.2.1
          ffffffffffff02000000000108060001080006040001020000000001c0000201000000000000c0000209
        1000us lan own 192.0.2.1 > 192.0.2.9 ICMP time exceeded for 192.0.2.9 > 203.0.113.5 UDP ttl 64
          0200000000fe020000000001080045c00072000100004001f5bfc0000201c00002090b00353900000000450000560000400001117b88c0000209cb0071050fa000350042000007070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070000000000000000
        2000us lan own 192.0.2.1 > 192.0.2.9 ICMP net unreachable for 192.0.2.9 > 10.0.0.1 UDP ttl 64
          0200000000fe020000000001080045c00072000200004001f5bec0000201c000020903003d3900000000450000560000400040116e8dc00002090a0000010fa000350042000007070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070000000000000000
        3000us lan own 192.0.2.1 > 192.0.2.9 ICMP port unreachable for 192.0.2.9 > 192.0.2.1 UDP ttl 64
          0200000000fe020000000001080045c00072000300004001f5bdc0000201c000020903033d360000000045000056000040004011b68cc0000209c00002010fa000350042000007070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070000000000000000
        4000us wan 6 192.0.2.9.4000 > 203.0.113.6.53 UDP 58 bytes ttl 63
          0200000000fe020000000002080045000056000040003f113d87c0000209cb0071060fa000350042000007070707070707070707070707070707070700000000000000000000000000000000000000000000000000000000000000000000000000000000
    "#]],
    );
    expect![[r#"
        {
          "config": "new.toml",
          "packets": 5,
          "outgoing_packets": 1,
          "cut_packets": 1,
          "duration_ns": 4000000,
          "sent": {
            "wan": 2
          },
          "consumed_packets": 0,
          "dropped": [
            {
              "packets": 1,
              "first_packet": 3,
              "reason": "ttl_expired",
              "explanation": "The time to live or hop limit ran out (RFC 1812 5.3.1, RFC 8200 3).",
              "hint": "A traceroute or a routing loop: check `switchpath show routes` for a route back to the sender."
            },
            {
              "packets": 1,
              "first_packet": 4,
              "reason": "no_route",
              "explanation": "No route leads to the destination (RFC 1812 5.2.7.1).",
              "hint": "Add a route or a default route: `switchpath show routes` lists the present ones."
            },
            {
              "packets": 1,
              "first_packet": 5,
              "reason": "local_port",
              "explanation": "The packet is for a port of the router itself on which nothing listens (RFC 1122 4.1.3.1).",
              "hint": "No service listens on the router itself: a port scan, or a wrong destination address."
            }
          ],
          "unjudged_packets": 0,
          "lost_packets": 0,
          "generated": {
            "lan": 4,
            "wan": 1
          },
          "assumed_neighbours": [
            "192.0.2.9",
            "198.51.100.9"
          ],
          "against": null
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&report).unwrap());
    assert_eq!(through(&capture, &ReplayOptions::default(), ROUTER), (report, departures));
}

#[test]
fn two_configurations_are_compared_packet_by_packet() {
    let capture = five();
    let (old, same) = (plan(ROUTER), plan(&ROUTER.replace("packet:eth0", "tap:t0")));
    let new = plan(&format!("{ROUTER}[[route]]\nto = '203.0.113.6/32'\nblackhole = true\n"));
    let compared = |new: &Plan| {
        let (new, old) = (NamedPlan { name: "new.toml", plan: new }, NamedPlan { name: "old.toml", plan: &old });
        let options = ReplayOptions { times: 2, ..ReplayOptions::default() };
        replay(&capture.source(), &options, (new, Some(old)), &mut ()).unwrap().against.unwrap()
    };
    let unchanged = compared(&same);
    assert_eq!((unchanged.same_packets, unchanged.changed_packets), (10, 0), "{unchanged:?}");
    let changed = compared(&new);
    assert_eq!((changed.same_packets, changed.changed_packets), (8, 2));
    let group = &changed.groups[0];
    assert_eq!((&*group.before, &*group.after, group.first_packet), ("sent wan", "dropped blackhole", 6));
    assert_eq!(changed.changed.iter().map(|c| (c.round, c.packet)).collect::<Vec<_>>(), [(1, 6), (2, 6)]);
    let moved = compared(&plan(&ROUTER.replace("02:00:00:00:00:02", "02:00:00:00:00:03")));
    assert_eq!(moved.groups[0].after, "sent wan, other bytes");
}

#[test]
fn replay_speed_and_rounds_use_router_time() {
    let capture = five();
    let times = |speed: &str, times: u64| {
        let options = ReplayOptions { speed: speed.parse().unwrap(), times, ..ReplayOptions::default() };
        let (_, departures) = through(&capture, &options, ROUTER);
        let udp = departures.iter().filter(|departure| departure.packet.is_some());
        udp.map(|departure| departure.after.get() / 100_000).collect::<Vec<_>>()
    };
    assert_eq!(times("1x", 1), [0, 40], "in tenths of a millisecond");
    assert_eq!(times("0.5x", 1), [0, 80]);
    assert_eq!(times("10x", 1), [0, 4]);
    assert_eq!(times("max", 1), [0, 0]);
    assert_eq!(times("1x", 3), [0, 40, 50, 90, 100, 140], "a round follows as a packet would");
    for wrong in ["", "x", "10", "0x", "-1x", "nanx", "infx"] {
        assert!(wrong.parse::<Speed>().is_err(), "{wrong}");
    }
}

#[test]
fn ingress_port_follows_capture_or_option() {
    use PcapDirection::Unknown;
    let capture = Capture::of(&[Captured(0, 1, Unknown, 64, [192, 0, 2, 7], WHOLE)]);
    let (report, _) = through(&capture, &ReplayOptions::default(), ROUTER);
    assert_eq!((report.unjudged_packets, report.judged_packets()), (1, 0), "it is for the station of lan: {report:?}");
    let (report, _) = through(&capture, &ReplayOptions { ours: true, ..ReplayOptions::default() }, ROUTER);
    assert_eq!(report.sent.get("lan"), Some(&1), "{report:?}");
    let port = |name: &str| ReplayOptions { port: Some(name.into()), ..ReplayOptions::default() };
    let said = refused(&capture, &port("dmz"));
    assert!(said.contains("new.toml has no port 'dmz'") && said.contains("--port: lan, wan"), "{said}");
    let (report, _) = through(&capture, &port("lan"), ROUTER);
    assert_eq!(report.packets, 1);
}

#[test]
fn a_packet_is_judged_by_the_recorded_mac_of_its_interface() {
    // The packet's destination is 02:00:00:00:00:01. The port, and the interface of the capture, each have that address or another one.
    let (named, other) = (Some(Mac([2, 0, 0, 0, 0, 1])), Some(Mac([2, 0, 0, 0, 0, 7])));
    let elsewhere = ROUTER.replace("02:00:00:00:00:01", "02:00:00:00:00:05");
    for (station, router, fate) in [
        (None, ROUTER, "sent"),
        (None, &*elsewhere, "not judged"),
        (named, ROUTER, "sent"),
        (named, &*elsewhere, "sent"),
        (other, &*elsewhere, "dropped"),
    ] {
        let packet = Captured(0, 0, PcapDirection::In, 64, [203, 0, 113, 5], WHOLE);
        let capture = Capture::at([station, None], &[packet]);
        let (report, _) = through(&capture, &ReplayOptions::default(), router);
        let counts = [
            ("sent", report.sent.values().sum()),
            ("dropped", report.dropped.iter().map(|drop| drop.packets).sum::<u64>()),
            ("not judged", report.unjudged_packets),
        ];
        assert_eq!(counts.iter().find(|(_, n)| *n == 1).map(|(name, _)| *name), Some(fate), "{station:?}: {report:?}");
        assert_eq!(report.judged_packets(), u64::from(fate != "not judged"));
        // Compared with itself: packets are equal only if they can be judged.
        let (new, old) = (plan(router), plan(router));
        let named = (NamedPlan { name: "new", plan: &new }, Some(NamedPlan { name: "old", plan: &old }));
        let against = replay(&capture.source(), &ReplayOptions::default(), named, &mut ()).unwrap().against.unwrap();
        assert_eq!(against.same_packets, report.judged_packets(), "{station:?}: {against:?}");
        assert_eq!(against.unjudged_packets, report.unjudged_packets);
    }
}

#[test]
fn invalid_replays_are_refused_as_a_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.pcap");
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        ReplaySource::open(&path).unwrap_err().to_string()
    };
    let good = std::fs::read(five().path()).unwrap();
    for (bytes, wanted) in [
        (&b""[..], "cannot be replayed"),
        (&b"no capture at all, but long enough to be one of them"[..], "cannot be replayed"),
        (&good[..good.len() - 10], "cannot be replayed"),
    ] {
        let said = refused(bytes);
        assert!(said.contains(wanted) && said.contains("nothing was done"), "{said}");
    }
    let sent = Capture::of(&[Captured(0, 0, PcapDirection::Out, 64, [10, 0, 0, 1], WHOLE)]);
    let said = ReplaySource::open(&sent.path()).unwrap_err().to_string();
    assert!(said.contains("all of its 1 packets were sent"), "{said}");
    let said = ReplaySource::open(&directory.path().join("missing.pcap")).unwrap_err().to_string();
    assert!(said.contains("missing.pcap") && said.contains("No such file"), "{said}");
}

#[test]
fn replay_includes_port_faults() {
    let packets: Vec<Captured> =
        (0..1000).map(|i| Captured(i * 10, 0, PcapDirection::In, 64, [203, 0, 113, 5], WHOLE)).collect();
    let capture = Capture::of(&packets);
    let faulty = ROUTER.replace("[port.wan]", "faults = { loss = 0.1, duplicate = 0.1, seed = 7 }\n[port.wan]");
    let (report, _) = through(&capture, &ReplayOptions::default(), &faulty);
    let lost = report.dropped.iter().find(|drop| drop.drop.reason == "injected_fault").unwrap();
    assert_eq!((report.sent["wan"] + lost.packets, report.lost_packets), (1000, 0));
    assert!(report.generated["wan"] > 30, "copies are nobody's packets: {report:?}");
}
