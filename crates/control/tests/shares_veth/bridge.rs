//! A bridge without addresses shapes circuits by address, VLAN, QinQ and MAC address, also behind tags and in PPPoE sessions.
//!
//! ```text
//! subscribers eth0 - near [modem] far - access [router] core - far [concentrator] near - eth0 internet
//! ```
//!
//! Both hosts speak plain Ethernet. The modem and the concentrator wrap the packets of each subscriber into the headers of its access network, which
//! the kernel may be unable to do (8021q and pppoe are modules).

use crate::access::{ATTEMPTS, Access, address, is_near, lab, spans};
use crate::traffic::{Direction, Load};
use io::clock;
use io::netlink::Netlink;
use io::netns::{Lab, LabHost, Plug};
use io::packet_ring::{PacketOptions, PacketPort};
use io::wait::{Sleeper, Waker};
use packet::port::Port;
use packet::wire::TagStack;
use packet::{Batch, Packet, Pool, Region};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use units::{Mac, Nanos};

/// The address of the host of the Internet: it is in the network of the subscribers.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 1);
/// The MAC address of the host of all subscribers. The modem replaces it with its own in the packets of one subscriber.
const HOST: Mac = Mac([2, 0, 0, 0, 0, 9]);
const MODEM: Mac = Mac([2, 0, 0, 0, 7, 7]);
/// The part of the plan by which a rate may differ.
const PART: f64 = 0.05;

/// How the packets of a subscriber cross the bridge, and the key of its circuit.
struct Wrapping {
    what: &'static str,
    /// Between the MAC addresses and the IP header.
    header: &'static [u8],
    mac: Option<Mac>,
    /// The key in the table: its column and value. `None` for the address.
    key: Option<(&'static str, &'static str)>,
    /// The plan in Mbit/s, down and up.
    plan: (u64, u64),
}

const IPV4: [u8; 2] = [8, 0];

/// Returns the subscribers by number. A PPPoE header has the length of the session's packet, which is written into it.
fn wrappings() -> Vec<Wrapping> {
    let of = |what, header, key, plan| Wrapping { what, header, mac: None, key, plan };
    let by_mac = of("by MAC address", &IPV4[..], Some(("mac", "02:00:00:00:07:07")), (5, 2));
    vec![
        of("an address", &IPV4[..], None, (4, 2)),
        of("an address behind a VLAN tag", &[0x81, 0, 0, 101, 8, 0], None, (3, 3)),
        of("an address in QinQ", &[0x88, 0xa8, 0, 200, 0x81, 0, 0, 1, 8, 0], None, (2, 4)),
        of("an address in PPPoE", &[0x88, 0x64, 0x11, 0, 0, 1, 0, 0, 0, 0x21], None, (3, 2)),
        of(
            "an address in PPPoE in QinQ",
            &[0x88, 0xa8, 0, 200, 0x81, 0, 0, 2, 0x88, 0x64, 0x11, 0, 0, 1, 0, 0, 0, 0x21],
            None,
            (2, 3),
        ),
        of("by VLAN", &[0x81, 0, 0, 105, 8, 0], Some(("vlan", "105")), (4, 3)),
        of("by QinQ", &[0x88, 0xa8, 1, 44, 0x81, 0, 0, 7, 8, 0], Some(("vlan", "300.7")), (3, 4)),
        Wrapping { mac: Some(MODEM), ..by_mac },
    ]
}

/// The modem or the concentrator.
struct Converter {
    /// Toward the host, and toward the bridge.
    near: PacketPort,
    far: PacketPort,
    is_modem: bool,
    wrappings: Vec<Wrapping>,
    pool: Pool,
    sleeper: Sleeper,
}

impl Converter {
    fn open(host: &LabHost, is_modem: bool) -> Converter {
        let open = |link: &str| host.run(|| PacketPort::open(link, &PacketOptions::default()).unwrap().0).unwrap();
        Converter {
            near: open("near"),
            far: open("far"),
            is_modem,
            wrappings: wrappings(),
            pool: Pool::new(Region::new(4096)),
            sleeper: Sleeper::new(Waker::new().unwrap()),
        }
    }

    /// The frame as it crosses the bridge. Frames of other protocols, such as ARP, cross it unchanged.
    fn wrapped(&self, frame: &[u8]) -> Vec<u8> {
        if frame.get(12..14) != Some(&IPV4[..]) {
            return frame.to_vec();
        }
        // The subscriber's address is the source on the way up.
        let at = if self.is_modem { 26 } else { 30 };
        let number = usize::from(frame[at + 3]);
        let wrapping = &self.wrappings[number];
        assert_eq!(frame[at..at + 4], address(number).octets());
        let mut header = wrapping.header.to_vec();
        if header.ends_with(&[0, 0x21]) {
            // RFC 2516 4: the length counts the protocol of PPP.
            let (length, at) = ((frame.len() - 14 + 2) as u16, header.len() - 4);
            header[at..at + 2].copy_from_slice(&length.to_be_bytes());
        }
        let mut wrapped = [&frame[..12], &header, &frame[14..]].concat();
        if let Some(mac) = wrapping.mac {
            let at = if self.is_modem { 6 } else { 0 };
            wrapped[at..at + 6].copy_from_slice(&mac.0);
        }
        wrapped
    }

    /// The frame as the host knows it.
    fn unwrapped(&self, frame: &[u8]) -> Vec<u8> {
        let ip = TagStack::of(frame).and_then(|stack| stack.ip_header(frame));
        let Some((start, _)) = ip else { return frame.to_vec() };
        let mut plain = [&frame[..12], &IPV4, &frame[start..]].concat();
        if self.is_modem && plain[..6] == MODEM.0 {
            plain[..6].copy_from_slice(&HOST.0);
        }
        plain
    }

    /// Carries frames until `over`.
    fn run(mut self, over: &AtomicBool) {
        let mut batch = Batch::new();
        while !over.load(Ordering::Acquire) {
            let mut moved = 0;
            for outward in [true, false] {
                let port = if outward { &mut self.near } else { &mut self.far };
                port.receive(clock::now(), &mut batch, &mut self.pool);
                let packets: Vec<Packet> = batch.drain().collect();
                moved += packets.len();
                for mut packet in packets {
                    let bytes = if outward { self.wrapped(packet.bytes()) } else { self.unwrapped(packet.bytes()) };
                    packet.fill(&bytes);
                    batch.push(packet);
                }
                let port = if outward { &mut self.far } else { &mut self.near };
                port.transmit(clock::now(), &mut batch, &mut self.pool);
                batch.drain().for_each(|packet| self.pool.give(packet));
            }
            if moved == 0 {
                self.sleeper.sleep([], Nanos::micros(200)).unwrap();
            }
        }
    }
}

/// Lays the cables and configures the hosts. Returns the converters.
fn lay(lab: &Lab) -> (Access, [Converter; 2]) {
    let access = Access::hosts(lab);
    let [modem, concentrator] = ["modem", "concentrator"].map(|name| lab.host(name).unwrap());
    [&modem, &concentrator].iter().for_each(|host| host.silence_kernel().unwrap());
    let eth0 = Plug { mac: Some(HOST), ..access.subscribers.plug("eth0") };
    lab.cable(&eth0, &modem.plug("near")).unwrap();
    lab.cable(&modem.plug("far"), &access.router.plug("access")).unwrap();
    lab.cable(&access.router.plug("core"), &concentrator.plug("far")).unwrap();
    lab.cable(&concentrator.plug("near"), &access.internet.plug("eth0")).unwrap();
    // Room for the headers of the access network in frames of the usual length.
    for host in [&access.subscribers, &access.internet] {
        host.run(|| Netlink::open().unwrap().set_mtu("eth0", 1480).unwrap()).unwrap();
    }
    access.add_addresses(0..wrappings().len(), 10);
    access.internet.add_address("eth0", GATEWAY.into(), 10).unwrap();
    (access, [Converter::open(&modem, true), Converter::open(&concentrator, false)])
}

fn table() -> String {
    let mut text = "circuit,address,mac,vlan,down,up\n".to_owned();
    for (number, Wrapping { key, plan: (down, up), .. }) in wrappings().iter().enumerate() {
        let of = |column| key.filter(|(name, _)| *name == column).map_or("", |(_, value)| value);
        let address = if key.is_none() { address(number).to_string() } else { String::new() };
        writeln!(text, "C{number},{address},{},{},{down}mbit,{up}mbit", of("mac"), of("vlan")).unwrap();
    }
    text
}

#[test]
fn bridge_shapes_circuits_behind_tags_and_in_pppoe_sessions() {
    const CONFIG: &str = "version = 1\n[port.access]\ndevice = 'packet:access'\nscheme = 'share(rate=1gbit){fq(flows=64){codel}}'\n\
                          [port.core]\ndevice = 'packet:core'\nscheme = 'share(rate=1gbit){fq(flows=64){codel}}'\n\
                          [[passthrough]]\nports = ['access', 'core']\n\
                          [subscribers]\ninside = ['access']\noutside = ['core']\nfile = 'FILE'\n";
    let Some((lab, _turn)) = lab() else { return };
    let (access, converters) = lay(&lab);
    let _running = access.start(CONFIG, &table());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for one in converters {
            scope.spawn(|| one.run(&over));
        }
        let measured = std::panic::catch_unwind(|| [Direction::Down, Direction::Up].map(|way| measure(&access, way)));
        over.store(true, Ordering::Release);
        measured.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn measure(access: &Access, direction: Direction) {
    let mut load = Load::default();
    let wrappings = wrappings();
    for (number, wrapping) in wrappings.iter().enumerate() {
        load.connect_behind(access, GATEWAY, number, direction, 12 + wrapping.header.len());
    }
    for attempt in 1..=ATTEMPTS {
        let rates = load.run(spans()).rates;
        let parts: Vec<f64> = (wrappings.iter().zip(&rates))
            .map(|(wrapping, rate)| {
                let (down, up) = wrapping.plan;
                rate / 1e6 / if direction == Direction::Down { down } else { up } as f64
            })
            .collect();
        for (wrapping, part) in wrappings.iter().zip(&parts) {
            println!("{direction:?}, {}: {:.1} % of its plan", wrapping.what, 100.0 * part);
        }
        if parts.iter().all(|part| is_near(*part, 1.0, PART)) {
            return;
        }
        println!("again: attempt {attempt}");
    }
    panic!("{ATTEMPTS} times in a row a rate was not that of its plan: see above");
}
