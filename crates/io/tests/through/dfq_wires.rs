//! Wires that multiplex quanta on real interfaces: three routers in a row, each in its own namespace, and a router whose neighbours are kernels.

use crate::lab;
use crate::rig::{Cable, Line, PATIENCE, Running, ip};
use io::clock;
use io::netlink::{KernelRoute, Netlink, Veth, VethEnd};
use io::netns::LabHost;
use io::wait::{Sleeper, Waker};
use packet::DropReason;
use packet::event::{Event, Observer};
use packet::port::{DfqFallback, DfqWireState};
use plane::WorkerReport;
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use units::{Instant, Nanos, PortId};

const FLOWS: usize = 12;
/// Packets of a round: few enough for the buffer of a socket.
const ROUND: usize = 52;
const PAYLOAD: usize = 358;
/// Bytes of such a packet on a wire, with its length.
const LENGTH: u64 = PAYLOAD as u64 + 42 + 2;

/// The last state of each wire of a router.
#[derive(Clone, Default)]
struct States(Arc<Mutex<Vec<(PortId, DfqWireState)>>>);

impl Observer for States {
    fn event(&mut self, _now: Instant, event: &Event<'_>) {
        if let Event::DfqWire { port, state, .. } = *event {
            let mut states = self.0.lock().unwrap();
            states.retain(|(known, _)| *known != port);
            states.push((port, state));
        }
    }
}

impl States {
    /// Waits until `count` wires have this state.
    fn wait(&self, count: usize, state: DfqWireState) {
        let begun = clock::now();
        let mut sleeper = Sleeper::new(Waker::new().unwrap());
        loop {
            let states = self.0.lock().unwrap().clone();
            if states.iter().filter(|(_, of)| *of == state).count() == count {
                return;
            }
            assert!(clock::now().since(begun) < PATIENCE, "{states:?} instead of {count} times {state:?}");
            sleeper.sleep_on(std::iter::empty(), Nanos::millis(10)).unwrap();
        }
    }
}

/// Connects two hosts.
fn connect((first, near): (&LabHost, &str), (second, far): (&LabHost, &str)) {
    let end = |name, namespace| VethEnd { name, namespace, mac: None };
    let ends = [end(near, None), end(far, Some(second.namespace().as_fd()))];
    first.run(|| Netlink::open().unwrap().add_veth(&Veth { ends }).unwrap()).unwrap();
    for (host, name) in [(first, near), (second, far)] {
        host.run(|| Netlink::open().unwrap().set_up(name, true).unwrap()).unwrap();
    }
}

/// An end host with an address and a default route.
fn address(host: &LabHost, net: u8) {
    host.run(|| {
        let mut netlink = Netlink::open().unwrap();
        netlink.add_address("eth0", ip(&format!("10.0.{net}.9")), 24).unwrap();
        let route =
            KernelRoute { destination: (ip("0.0.0.0"), 0), gateway: Some(ip(&format!("10.0.{net}.1"))), link: None };
        netlink.add_route(&route).unwrap();
    })
    .unwrap();
}

/// The configuration of the router between the nets `router` and `router + 1`, with wires at these sides.
fn config(router: usize, wires: [bool; 2], faults: &str) -> String {
    let mut text = "version = 1\n".to_string();
    let shares: Vec<String> = (0..FLOWS).map(|flow| format!("'f{flow} rate 20mbit'")).collect();
    for (side, name) in ["left", "right"].into_iter().enumerate() {
        // The router behind a cable between routers is .2 there.
        let last = if side == 0 && router > 1 { 2 } else { 1 };
        text += &format!("[port.{name}]\ndevice = 'packet:{name}'\naddress = ['10.0.{}.{last}/24']\n", router + side);
        text += &format!("scheme = 'dfq(rate=1gbit, cycle=1ms, flows=32)'\nshares = [{}]\n", shares.join(", "));
        text += &format!("dfq_wire = {}\n", wires[side]);
        text += if wires[side] { faults } else { "" };
    }
    for net in (1..router).chain(router + 2..5) {
        let via = if net < router { format!("10.0.{router}.1") } else { format!("10.0.{}.2", router + 1) };
        text += &format!("[[route]]\nto = '10.0.{net}.0/24'\nvia = '{via}'\n");
    }
    for flow in 0..FLOWS {
        text += &format!("[[path]]\nname = 'p{flow}'\nmatch = 'udp sport {}'\nlink_share = 'f{flow}'\n", 4000 + flow);
    }
    text
}

/// Sends rounds of packets of all flows from one host to the other. Returns the numbers that arrive, in order.
fn send(from: &LabHost, to: &LabHost, rounds: usize) -> Vec<u32> {
    let bind = |host: &LabHost, port| host.run(|| UdpSocket::bind((ip("0.0.0.0"), port)).unwrap()).unwrap();
    let receiver = bind(to, 5000);
    // A thirteenth flow has no share.
    let senders: Vec<UdpSocket> = (0..=FLOWS).map(|flow| bind(from, 4000 + flow as u16)).collect();
    let payload = |number: u32| {
        let mut payload = [number as u8; PAYLOAD];
        payload[..4].copy_from_slice(&number.to_be_bytes());
        payload
    };
    let mut received = Vec::new();
    let mut receive = |patience: u64, wanted: usize| {
        receiver.set_read_timeout(Some(Duration::from_millis(patience))).unwrap();
        let mut packet = [0; 2048];
        for _ in 0..wanted {
            let Ok(length) = receiver.recv(&mut packet) else { break };
            let number = u32::from_be_bytes(packet[..4].try_into().unwrap());
            assert_eq!(packet[..length], payload(number), "{number} is unchanged");
            received.push(number);
        }
    };
    for round in 0..rounds {
        for at in 0..ROUND {
            let number = (round * ROUND + at) as u32;
            senders[at % (FLOWS + 1)].send_to(&payload(number), (ip("10.0.4.9"), 5000)).unwrap();
        }
        // A round with losses ends after a moment of silence.
        receive(100, ROUND);
    }
    receive(500, ROUND);
    received
}

fn drops(report: &WorkerReport, reason: DropReason) -> u64 {
    let drops = report.ports.iter().flat_map(|port| &port.drops);
    drops.filter(|(of, _)| *of == reason).map(|(_, packets)| packets).sum()
}

#[test]
fn three_routers_in_namespaces_lose_only_the_packets_within_lost_batches() {
    for faults in ["", "faults = { loss = 0.01, seed = 3 }\n"] {
        let Some(lab) = lab() else { return };
        let [client, server] = ["client", "server"].map(|name| lab.host(name).unwrap());
        let routers = ["one", "two", "three"].map(|name| lab.host(name).unwrap());
        routers.iter().for_each(|router| router.silence_kernel().unwrap());
        connect((&client, "eth0"), (&routers[0], "left"));
        connect((&routers[0], "right"), (&routers[1], "left"));
        connect((&routers[1], "right"), (&routers[2], "left"));
        connect((&server, "eth0"), (&routers[2], "right"));
        address(&client, 1);
        address(&server, 4);
        let wires = [[false, true], [true, true], [true, false]];
        let states = [(); 3].map(|()| States::default());
        let start = |router: usize| {
            let configuration = config(router + 1, wires[router], faults);
            Running::observed(&routers[router], &configuration, Box::new(states[router].clone()))
        };
        let running = [0, 1, 2].map(start);
        for (states, count) in states.iter().zip([1, 2, 1]) {
            states.wait(count, DfqWireState::Multiplexed);
        }
        const ROUNDS: usize = 100;
        // Neighbours are resolved and flows get their numbers before the measurement.
        let mut warm = Vec::new();
        while warm.len() < ROUND * 9 / 10 {
            warm = send(&client, &server, 1);
        }
        let received = send(&client, &server, ROUNDS);
        let reports = running.map(Running::stop);
        let sent = ROUNDS * ROUND;
        let missing = (sent - received.len()) as u64;
        assert_eq!(received.iter().collect::<BTreeSet<_>>().len(), received.len(), "none arrives twice");
        for flow in 0..=FLOWS as u32 {
            // A round has whole turns of the flows.
            assert!(received.iter().filter(|number| *number % (FLOWS as u32 + 1) == flow).is_sorted(), "flow {flow}");
        }
        let wires = reports.iter().flat_map(|report| &report.ports).filter_map(|port| port.dfq_wire);
        let counters: Vec<_> = wires.map(|wire| wire.counters).collect();
        let lost: u64 = counters.iter().map(|counters| counters.batches_lost).sum();
        let (batches, quanta) =
            counters.iter().fold((0, 0), |(b, q), counters| (b + counters.batches_sent, q + counters.quanta_sent));
        let incomplete: u64 = reports.iter().map(|report| drops(report, DropReason::DfqBatchLost)).sum();
        println!("{missing} of {sent} packets missing: {lost} of {batches} batches lost, {incomplete} incomplete");
        assert!(counters.iter().any(|counters| counters.packets_sent >= sent as u64 * 9 / 10), "{counters:?}");
        assert!(quanta > batches, "frames have quanta of several flows");
        assert!(reports.iter().all(|report| drops(report, DropReason::DfqBadFrame) == 0));
        if faults.is_empty() {
            assert_eq!((missing, lost), (0, 0));
        } else {
            assert!(lost > 0 && missing > 0);
            assert!(missing <= lost * (1500 / LENGTH + 2 * quanta.div_ceil(batches)), "{missing} missing, {lost} lost");
        }
    }
}

#[test]
fn a_wire_beside_kernels_falls_back_with_an_event() {
    let Some(lab) = lab() else { return };
    let line = Line::lay(&lab, [Cable::Packet; 2]);
    let more = "scheme = 'dfq(rate=1gbit)'\nshares = ['f rate 10mbit']\ndfq_wire = true";
    let states = States::default();
    let running = Running::observed(&line.router, &line.configuration(more), Box::new(states.clone()));
    let bind = |host: &LabHost| host.run(|| UdpSocket::bind((ip("0.0.0.0"), 5000)).unwrap()).unwrap();
    let (client, server) = (bind(&line.client), bind(&line.server));
    server.set_read_timeout(Some(Duration::from_nanos(PATIENCE.get()))).unwrap();
    let exchange = |text: &[u8]| {
        client.send_to(text, (ip("10.0.2.2"), 5000)).unwrap();
        let mut packet = [0; 100];
        let length = server.recv(&mut packet).unwrap();
        assert_eq!(&packet[..length], text);
    };
    exchange(b"before the router knows that no other answers");
    states.wait(2, DfqWireState::Plain(DfqFallback::NoAnswer));
    exchange(b"and after it");
    let report = running.stop();
    let wires: Vec<_> = report.ports.iter().filter_map(|port| port.dfq_wire).collect();
    assert_eq!(wires.len(), 2);
    assert!(wires.iter().all(|wire| wire.counters.batches_sent == 0 && wire.counters.control_sent > 0), "{wires:?}");
}
