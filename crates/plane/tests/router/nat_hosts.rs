//! Hosts behind one address share its connections and ports. No host can use up those of the others, and an established TCP
//! connection is never evicted for a new one (RFC 6888 REQ-4).

use crate::nat_packets::{ICMP, Sent, Socket, TCP, UDP};
use crate::random::Chance;
use packet::DropReason;
use packet::wire::Ipv4;
use plane::rig::Rig;
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use units::Nanos;

const OURS: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const LAN: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0x17];
const WAN: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0x29];
const PROTOCOLS: [u8; 3] = [UDP, TCP, ICMP];
const ACK: u8 = 0x10;
const RST: u8 = 4;

fn inside(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 1, host)
}

fn peer(number: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 51, 0, 0)) + u32::from(number))
}

fn home(nat: &str) -> Rig {
    let neighbour = |host: u8| {
        format!("[[neighbour]]\naddress = \"192.168.1.{host}\"\nmac = \"02:00:00:00:00:17\"\nport = \"lan\"\n")
    };
    let neighbours: String = (2..20).map(neighbour).collect();
    let config = format!(
        "version = 1\n[port.lan]\ndevice = \"memory:lan\"\nmac = \"02:00:00:00:00:01\"\naddress = [\"192.168.1.1/24\"]\n\
         [port.wan]\ndevice = \"memory:wan\"\nmac = \"02:00:00:00:00:02\"\naddress = [\"203.0.113.1/24\"]\n{neighbours}\
         [[neighbour]]\naddress = \"203.0.113.9\"\nmac = \"02:00:00:00:00:29\"\nport = \"wan\"\n\
         [[route]]\nto = \"0.0.0.0/0\"\nvia = \"203.0.113.9\"\n\
         [[path]]\nname = \"home\"\nmatch = \"any\"\nfunctions = [\"nat\", \"ip\"]\n[nat]\noutside = \"wan\"\n{nat}\n"
    );
    Rig::running(4096, Layout::Three, &config)
}

/// Sends a packet from the inside. Returns its translated source.
fn out(rig: &mut Rig, sent: &Sent) -> Option<Socket> {
    rig.send("lan", &sent.frame());
    rig.settle();
    let left = rig.received("wan").into_iter().find(|frame| frame[12..14] == [8, 0])?;
    let ip = Ipv4::parse(&left[14..]).unwrap();
    let at = if sent.protocol == ICMP { 4 } else { 0 };
    Some((ip.header.source(), u16::from_be_bytes([ip.payload[at], ip.payload[at + 1]])))
}

/// Sends a packet from the outside. Returns true if it reaches the inside.
fn back(rig: &mut Rig, sent: &Sent) -> bool {
    rig.send("wan", &sent.frame());
    rig.settle();
    rig.received("wan");
    rig.received("lan").iter().any(|frame| frame[12..14] == [8, 0])
}

/// Opens a connection, and establishes it for TCP. Returns its translated source, or `None` if it was refused.
fn connect(rig: &mut Rig, protocol: u8, from: Socket, to: Socket) -> Option<Socket> {
    let first = Sent::new(LAN, protocol, from, to);
    let ours = out(rig, &first)?;
    assert!(back(rig, &first.answer(WAN, ours)), "its answer comes back");
    if protocol == TCP {
        assert_eq!(out(rig, &Sent { byte: ACK, ..first }), Some(ours));
    }
    Some(ours)
}

/// A host opens a random kind of connection, answered or not.
fn misbehave(rig: &mut Rig, host: u8, protocol: u8, chance: &mut Chance) {
    let to = if protocol == ICMP { 0 } else { 1 + chance.below(60_000) as u16 };
    let sent = Sent::new(
        LAN,
        protocol,
        (inside(host), 1 + chance.below(65_000) as u16),
        (peer(chance.below(4000) as u16), to),
    );
    let Some(ours) = out(rig, &sent) else { return };
    match chance.below(4) {
        0 => drop(back(rig, &sent.answer(WAN, ours))),
        1 => {
            back(rig, &sent.answer(WAN, ours));
            out(rig, &Sent { byte: if protocol == TCP { ACK } else { sent.byte }, ..sent });
        }
        2 if protocol == TCP => drop(out(rig, &Sent { byte: RST, ..sent })),
        _ => {}
    }
}

#[test]
fn one_host_cannot_exhaust_the_connections_of_another() {
    for nat in [
        "connections = 64",
        "connections = 64\nports = \"2000-2031\"",
        "ports = \"3000-3063\"",
        "connections = 64\nper_host = 40",
    ] {
        let mut rig = home(nat);
        let mut chance = Chance(nat.len() as u64);
        let kept = (inside(9), 4000);
        let ours = connect(&mut rig, TCP, kept, (peer(1), 443)).expect("the first of all");
        for round in 0..300 {
            let protocol = PROTOCOLS[chance.below(3)];
            misbehave(&mut rig, 2, protocol, &mut chance);
            if round % 10 == 0 {
                let protocol = PROTOCOLS[chance.below(3)];
                let to = (peer(2), if protocol == ICMP { 0 } else { 53 });
                // A host within its own limit.
                let host = 10 + (round / 10 % 10) as u8;
                let made = connect(&mut rig, protocol, (inside(host), 5000 + round), to);
                assert!(
                    made.is_some(),
                    "{nat}: host {host}, {protocol}, round {round}: {:?}",
                    rig.report().ledger.drops().collect::<Vec<_>>()
                );
                rig.advance(Nanos::millis(10));
            }
            if round % 50 == 0 {
                let answer = Sent { byte: ACK, ..Sent::new(WAN, TCP, (peer(1), 443), ours) };
                assert!(
                    back(&mut rig, &answer),
                    "{nat}: the established connection of another is there, round {round}"
                );
            }
        }
        assert!(
            rig.report().ledger.dropped_for(DropReason::NatHost) > 0,
            "{nat}: {:?}",
            rig.report().ledger.drops().collect::<Vec<_>>()
        );
    }
}

/// Many hosts flood at once: the table is full all the time.
#[test]
fn a_table_full_of_unanswered_connections_admits_new_ones_and_keeps_established_tcp() {
    let mut rig = home("connections = 64\nper_host = 16");
    let mut chance = Chance(5);
    let kept: Vec<(Socket, Socket)> = (0..8)
        .map(|n| {
            let from = (inside(9), 4000 + n);
            (from, connect(&mut rig, TCP, from, (peer(n), 443)).expect("there is room"))
        })
        .collect();
    for round in 0..1000 {
        let host = 10 + chance.below(9) as u8;
        // Scans and floods: no peer answers.
        let protocol = PROTOCOLS[chance.below(3)];
        let to = (peer(chance.below(4000) as u16), if protocol == ICMP { 0 } else { 9 });
        out(&mut rig, &Sent::new(LAN, protocol, (inside(host), chance.next() as u16 | 1), to));
        if round % 20 == 0 {
            let protocol = PROTOCOLS[chance.below(3)];
            let to = (peer(9), if protocol == ICMP { 0 } else { 53 });
            let made = connect(&mut rig, protocol, (inside(3 + (round / 20 % 5) as u8), 6000 + round), to);
            assert!(made.is_some(), "round {round}, {protocol}: {:?}", rig.report().ledger.drops().collect::<Vec<_>>());
        }
    }
    for (n, (_, ours)) in kept.iter().enumerate() {
        let answer = Sent { byte: ACK, ..Sent::new(WAN, TCP, (peer(n as u16), 443), *ours) };
        assert!(back(&mut rig, &answer), "the {n}th established connection");
    }
    let evicted = rig.router.snapshot().translations.with(|state| state.table.evicted);
    assert!(evicted > Some(500), "{evicted:?}");
    assert_eq!(rig.report().ledger.dropped_for(DropReason::NatTable), 0);
    assert_eq!(kept[0].1.0, OURS);
}
