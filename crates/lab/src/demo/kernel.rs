//! Kernel hosts: network namespaces joined to the router by virtual cables, with the kernel's own TCP, UDP and ICMP. The ends of the flows are
//! threads of this process with sockets in those namespaces.

use super::Hosts;
use super::network::{BLACKHOLE, DemoHost, IpFamily, NOWHERE};
use super::pattern::MOST;
use super::traffic::{
    DATAGRAM, Flow, FlowKind, LAST, PACE, PATIENCE, PING_PACE, PING_PATIENCE, PING_PAYLOAD, STRAY_PACE, Traffic,
    answers, echo_request,
};
use anyhow::{Context, Result};
use io::clock;
use io::devices::Devices;
use io::netns::{Lab, LabHost};
use io::wait::{Sleeper, Waker};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with, sockopt};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use units::Nanos;

/// Buffer sizes of a TCP connection: the least, the default and the most of tcp(7). All connections together fit the router's queues, so that only
/// the intended packets are lost.
const TCP_WINDOW: &str = "4096 65536 262144";

/// The most turns that a late sender catches up.
const MOST_LATE: u64 = 20;

/// The work of one end of a flow, on a thread of its own.
type End = Box<dyn FnOnce(&Traffic, &Flow) -> Result<()> + Send>;

/// The hosts, and a namespace without addresses that holds the router's links.
pub struct KernelHosts {
    stations: [LabHost; 3],
    router: LabHost,
    _lab: Lab,
}

impl KernelHosts {
    /// Creates the hosts and the cables. The process must be allowed to create network namespaces: see [`io::netns::enter`].
    pub fn new() -> Result<KernelHosts> {
        let lab = Lab::new()?;
        let router = lab.host("switchpath")?;
        router.silence_kernel()?;
        let make = |station: DemoHost| -> Result<LabHost> {
            let host = lab.host(station.name())?;
            lab.cable(&host.plug("eth0"), &router.plug(station.name()))?;
            for family in IpFamily::BOTH {
                host.add_address("eth0", station.address(family), DemoHost::prefix(family))?;
                host.add_default_route(station.gateway(family))?;
            }
            host.sysctl("net/ipv4/tcp_wmem", TCP_WINDOW)?;
            // The groups that may open ICMP echo sockets: group 0, the only group of a user namespace.
            host.sysctl("net/ipv4/ping_group_range", "0 0")?;
            Ok(host)
        };
        let [alice, bob, server] = DemoHost::ALL.map(make);
        Ok(KernelHosts { stations: [alice?, bob?, server?], router, _lab: lab })
    }

    fn host(&self, station: DemoHost) -> &LabHost {
        &self.stations[station as usize]
    }

    /// A UDP socket of a host, bound to a port (0: any).
    fn datagrams(&self, station: DemoHost, family: IpFamily, port: u16) -> Result<UdpSocket> {
        let bound = self.host(station).run(|| UdpSocket::bind(station.at(family, port)))?;
        bound.with_context(|| format!("{} cannot open a UDP socket", station.name()))
    }

    /// A TCP connection between the sender and the receiver of a flow. The clients connect.
    fn connection(&self, flow: &Flow) -> Result<(TcpStream, TcpStream)> {
        let (client, server) = if flow.from == DemoHost::Server { (flow.to, flow.from) } else { (flow.from, flow.to) };
        let address = server.at(flow.family, flow.port());
        let listener = self.host(server).run(|| TcpListener::bind(address))??;
        let connect = || TcpStream::connect_timeout(&address, PATIENCE.into());
        let connected = self.host(client).run(connect)?;
        let near = connected.with_context(|| format!("{}: no connection", flow.name()))?;
        // The kernel has completed the handshake already, so this does not block.
        let (far, _) = listener.accept()?;
        for end in [&near, &far] {
            end.set_read_timeout(Some(PATIENCE.into()))?;
            end.set_write_timeout(Some(PATIENCE.into()))?;
        }
        Ok(if client == flow.from { (near, far) } else { (far, near) })
    }

    /// An ICMP echo socket (icmp(7)). The kernel fills in checksum and identifier of requests, and delivers only the replies to its own.
    fn echo_socket(&self, station: DemoHost, family: IpFamily) -> Result<UdpSocket> {
        let (domain, protocol) = match family {
            IpFamily::V4 => (AddressFamily::INET, ipproto::ICMP),
            IpFamily::V6 => (AddressFamily::INET6, ipproto::ICMPV6),
        };
        let open = || socket_with(domain, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(protocol));
        let socket = self.host(station).run(open)?.context("cannot open a socket for echo requests")?;
        Ok(UdpSocket::from(socket))
    }

    fn start(&self, traffic: &Arc<Traffic>, number: usize, threads: &mut Vec<JoinHandle<()>>) -> Result<()> {
        let flow = &traffic.flows[number];
        let mut spawn = |run: End| -> Result<()> {
            let traffic = traffic.clone();
            let run = move || {
                let flow = &traffic.flows[number];
                run(&traffic, flow).unwrap_or_else(|error| flow.fail(format!("{error:#}")));
            };
            threads.push(Builder::new().name(flow.kind.name().into()).spawn(run)?);
            Ok(())
        };
        match flow.kind {
            FlowKind::Tcp => {
                let (from, to) = self.connection(flow)?;
                spawn(Box::new(move |traffic, flow| send_stream(traffic, flow, from)))?;
                spawn(Box::new(move |_, flow| receive_stream(flow, to)))
            }
            FlowKind::Udp => {
                let from = self.datagrams(flow.from, flow.family, 0)?;
                let to = self.datagrams(flow.to, flow.family, flow.port())?;
                spawn(Box::new(move |traffic, flow| send_datagrams(traffic, flow, &from)))?;
                spawn(Box::new(move |_, flow| receive_datagrams(flow, &to)))
            }
            FlowKind::Ping => {
                let socket = self.echo_socket(flow.from, flow.family)?;
                spawn(Box::new(move |traffic, flow| ping(traffic, flow, &socket)))
            }
        }
    }

    /// Bob sends the packets that must be dropped.
    fn start_strays(&self, traffic: &Arc<Traffic>) -> Result<JoinHandle<()>> {
        let [plain, dying] = [(), ()].map(|()| self.datagrams(DemoHost::Bob, IpFamily::V4, 0));
        let dying6 = self.datagrams(DemoHost::Bob, IpFamily::V6, 0)?;
        let (plain, dying) = (plain?, dying?);
        dying.set_ttl(1)?;
        sockopt::set_ipv6_unicast_hops(&dying6, Some(1))?;
        let traffic = traffic.clone();
        let run = move || {
            let server = |family| DemoHost::Server.at(family, 9);
            let away = |address: Ipv4Addr| SocketAddr::new(address.into(), 9);
            let strays = [
                (0, &dying, server(IpFamily::V4)),
                (0, &dying6, server(IpFamily::V6)),
                (1, &plain, away(BLACKHOLE)),
                (2, &plain, away(NOWHERE)),
            ];
            paced(&traffic, STRAY_PACE, || {
                for (reason, socket, to) in strays {
                    // If the router has answered the packet before with an ICMP error, the kernel reports it at the next send.
                    if socket.send_to(b"stray", to).is_ok() {
                        traffic.add_stray(reason);
                    }
                }
                Ok(())
            })
        };
        let run = move || drop(run());
        Ok(Builder::new().name("strays".into()).spawn(run)?)
    }
}

impl Hosts for KernelHosts {
    fn place(&self) -> &'static str {
        "Linux network namespaces, with TCP, UDP and ping of the kernel"
    }

    fn ports(&self) -> &'static str {
        "packet"
    }

    fn router(&mut self, text: &str, notice: super::Notify) -> control::DaemonOptions {
        let devices = Devices::new(clock::epoch()).in_namespace(self.router.namespace().clone());
        control::DaemonOptions::new(devices, text, super::CONFIGURATION, notice)
    }

    fn begin(&mut self, traffic: &Arc<Traffic>) -> Result<Vec<JoinHandle<()>>> {
        let mut threads = Vec::new();
        for number in 0..traffic.flows.len() {
            self.start(traffic, number, &mut threads)
                .unwrap_or_else(|error| traffic.flows[number].fail(format!("{error:#}")));
        }
        threads.push(self.start_strays(traffic)?);
        Ok(threads)
    }
}

/// Calls `act` once every `pace` until the end. A late caller catches up, unless it is very late.
fn paced(traffic: &Traffic, pace: Nanos, mut act: impl FnMut() -> Result<()>) -> Result<()> {
    let mut sleeper = Sleeper::new(Waker::new()?);
    let mut due = clock::now();
    while !traffic.is_ending() {
        let now = clock::now();
        if now < due {
            sleeper.sleep([], due.since(now).min(Nanos::millis(100)))?;
            continue;
        }
        act()?;
        due += pace;
        if clock::now().since(due) > pace * MOST_LATE {
            due = clock::now();
        }
    }
    Ok(())
}

fn send_stream(traffic: &Traffic, flow: &Flow, mut to: TcpStream) -> Result<()> {
    while !traffic.is_ending() {
        let sent = to.write(flow.pattern.at(flow.position(), MOST)).context("sending")?;
        flow.add_sent(sent);
    }
    flow.finish();
    Ok(to.shutdown(Shutdown::Write)?)
}

fn receive_stream(flow: &Flow, mut from: TcpStream) -> Result<()> {
    let mut bytes = vec![0; MOST];
    loop {
        match from.read(&mut bytes).context("receiving")? {
            0 => return Ok(()),
            length => flow.receive_bytes(&bytes[..length]).map_err(anyhow::Error::msg)?,
        }
    }
}

fn send_datagrams(traffic: &Traffic, flow: &Flow, from: &UdpSocket) -> Result<()> {
    let to = flow.to.at(flow.family, flow.port());
    let sent = paced(traffic, PACE, || {
        let datagram = flow.datagram();
        from.send_to(&datagram, to).context("sending")?;
        flow.add_packet(datagram.len());
        Ok(())
    });
    flow.finish();
    sent
}

fn receive_datagrams(flow: &Flow, at: &UdpSocket) -> Result<()> {
    let mut bytes = [0; 2 * DATAGRAM];
    at.set_read_timeout(Some(LAST.into()))?;
    while !flow.is_complete() {
        match at.recv(&mut bytes) {
            Ok(length) => flow.receive_datagram(&bytes[..length]).map_err(anyhow::Error::msg)?,
            Err(error) if error.kind() == ErrorKind::WouldBlock && flow.is_finished() => break,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error).context("receiving"),
        }
    }
    Ok(())
}

fn ping(traffic: &Traffic, flow: &Flow, socket: &UdpSocket) -> Result<()> {
    // Connect, so that the socket does not receive replies of other hosts.
    socket.connect(flow.to.at(flow.family, 0))?;
    let mut reply = [0; 2048];
    let mut sequence = 0;
    let result = paced(traffic, PING_PACE, || {
        let request = echo_request(flow, 0, sequence);
        sequence = sequence.wrapping_add(1);
        let begun = clock::now();
        socket.send(&request).context("sending an echo request")?;
        flow.add_packet(PING_PAYLOAD);
        loop {
            let left = PING_PATIENCE.saturating_sub(clock::now().since(begun));
            if left == Nanos::ZERO {
                return Ok(());
            }
            socket.set_read_timeout(Some(left.into()))?;
            match socket.recv(&mut reply) {
                Ok(length) if answers(flow.family, &reply[..length], &request) => {
                    flow.receive_echo(clock::now().since(begun), PING_PAYLOAD);
                    return Ok(());
                }
                // A late reply to an older request, or an ICMP error.
                Ok(_) | Err(_) => {}
            }
        }
    });
    flow.finish();
    result
}
