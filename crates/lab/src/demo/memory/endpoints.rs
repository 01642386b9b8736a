//! The ends of the flows on hosts in memory: a socket each, and the work on it.

use super::super::network::{BLACKHOLE, DemoHost, IpFamily, NOWHERE};
use super::super::pattern::MOST;
use super::super::traffic::{
    DATAGRAM, Flow, FlowKind, LAST, PACE, PING_PACE, PING_PATIENCE, PING_PAYLOAD, STRAY_PACE, Traffic, answers,
    echo_request,
};
use super::Machine;
use anyhow::{Error, Result, anyhow};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::{icmp, tcp, udp};
use smoltcp::wire::{IpAddress, IpEndpoint, IpListenEndpoint};
use std::net::IpAddr;
use units::Instant;

/// The largest TCP window in bytes.
const WINDOW: usize = 128 << 10;
/// Datagrams that a socket buffers.
const KEPT: usize = 64;

/// One end of a flow.
pub struct FlowEnd {
    /// The flow; for strays, the index of their drop reason.
    number: usize,
    machine: usize,
    socket: SocketHandle,
    role: Role,
    /// When it has to act next; never for an end that only reacts.
    due: Instant,
}

enum Role {
    SendStream,
    ReceiveStream,
    SendDatagrams,
    /// With the time of the last reception.
    ReceiveDatagrams(Instant),
    /// With the next sequence number and the unanswered request.
    Ping(u16, Option<(Vec<u8>, Instant)>),
    Stray(IpEndpoint),
}

/// Opens the sockets of all flows.
pub fn open(traffic: &Traffic, machines: &mut [Machine; 3]) -> Result<Vec<FlowEnd>> {
    let mut ends = Vec::new();
    for flow in &traffic.flows {
        match flow.kind {
            FlowKind::Tcp => ends.extend(open_streams(flow, machines)?),
            FlowKind::Udp => {
                let local = 40000 + flow.number as u16;
                ends.push(open_datagrams(flow.number, flow.from, local, Role::SendDatagrams, machines)?);
                let role = Role::ReceiveDatagrams(Instant::START);
                // The two flows use different address families, and a socket is bound to one address.
                let at = IpListenEndpoint::from(IpEndpoint::from(flow.to.at(flow.family, flow.port())));
                ends.push(open_datagrams(flow.number, flow.to, at, role, machines)?);
            }
            FlowKind::Ping => ends.push(open_ping(flow, machines)?),
        }
    }
    let strays: [(usize, IpAddr, Option<u8>); 4] = [
        (0, DemoHost::Server.address(IpFamily::V4), Some(1)),
        (0, DemoHost::Server.address(IpFamily::V6), Some(1)),
        (1, BLACKHOLE.into(), None),
        (2, NOWHERE.into(), None),
    ];
    for (local, (reason, to, hops)) in (41000..).zip(strays) {
        let role = Role::Stray(IpEndpoint::new(to.into(), 9));
        let end = open_datagrams(reason, DemoHost::Bob, local, role, machines)?;
        machines[end.machine].sockets.get_mut::<udp::Socket>(end.socket).set_hop_limit(hops);
        ends.push(end);
    }
    Ok(ends)
}

fn open_streams(flow: &Flow, machines: &mut [Machine; 3]) -> Result<[FlowEnd; 2]> {
    let (client, server) = if flow.from == DemoHost::Server { (flow.to, flow.from) } else { (flow.from, flow.to) };
    let buffer = || tcp::SocketBuffer::new(vec![0; WINDOW]);
    let address = IpEndpoint::from(server.at(flow.family, flow.port()));
    let mut listener = tcp::Socket::new(buffer(), buffer());
    listener.listen(address).map_err(|error| refused(flow, error))?;
    let listener = machines[server as usize].sockets.add(listener);
    let mut caller = tcp::Socket::new(buffer(), buffer());
    let machine = &mut machines[client as usize];
    let local = 40000 + flow.number as u16;
    caller.connect(machine.interface.context(), address, local).map_err(|error| refused(flow, error))?;
    let caller = machine.sockets.add(caller);
    let end = |station: DemoHost, socket| {
        let role = if station == flow.from { Role::SendStream } else { Role::ReceiveStream };
        FlowEnd { number: flow.number, machine: station as usize, socket, role, due: Instant::NEVER }
    };
    Ok([end(client, caller), end(server, listener)])
}

fn refused(flow: &Flow, error: impl std::fmt::Display) -> Error {
    anyhow!("{}: {error}", flow.name())
}

fn open_datagrams(
    number: usize,
    station: DemoHost,
    local: impl Into<IpListenEndpoint>,
    role: Role,
    machines: &mut [Machine; 3],
) -> Result<FlowEnd> {
    let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; KEPT], vec![0; KEPT * DATAGRAM]);
    let mut socket = udp::Socket::new(buffer(), buffer());
    socket.bind(local).map_err(|error| anyhow!("a UDP socket of {}: {error}", station.name()))?;
    let due = if matches!(role, Role::ReceiveDatagrams(_)) { Instant::NEVER } else { Instant::START };
    let socket = machines[station as usize].sockets.add(socket);
    Ok(FlowEnd { number, machine: station as usize, socket, role, due })
}

fn open_ping(flow: &Flow, machines: &mut [Machine; 3]) -> Result<FlowEnd> {
    let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 4], vec![0; 4 * 128]);
    let mut socket = icmp::Socket::new(buffer(), buffer());
    socket.bind(icmp::Endpoint::Ident(flow.number as u16)).map_err(|error| refused(flow, error))?;
    let machine = flow.from as usize;
    let socket = machines[machine].sockets.add(socket);
    Ok(FlowEnd { number: flow.number, machine, socket, role: Role::Ping(0, None), due: Instant::START })
}

impl FlowEnd {
    /// When it has to act next if no packet arrives.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Does all work that is possible now. Returns true if there was any.
    pub fn act(&mut self, traffic: &Traffic, machines: &mut [Machine; 3], now: Instant) -> bool {
        let sockets = &mut machines[self.machine].sockets;
        // For strays this number is an index of a drop reason, but they do not use the flow.
        let flow = &traffic.flows[self.number];
        let ending = traffic.is_ending();
        match &mut self.role {
            Role::SendStream => send_stream(flow, sockets.get_mut(self.socket), ending),
            Role::ReceiveStream => receive_stream(flow, sockets.get_mut(self.socket)),
            Role::SendDatagrams => self.send_datagram(flow, sockets.get_mut(self.socket), ending, now),
            Role::ReceiveDatagrams(latest) => {
                let any = receive_datagrams(flow, sockets.get_mut(self.socket));
                if any || !ending {
                    *latest = now;
                }
                any
            }
            Role::Ping(..) => self.ping(flow, sockets.get_mut(self.socket), ending, now),
            &mut Role::Stray(to) => self.stray(traffic, sockets.get_mut(self.socket), to, now),
        }
    }

    /// Returns true if no work remains after the end.
    pub fn is_done(&self, traffic: &Traffic, now: Instant) -> bool {
        let flow = &traffic.flows[self.number];
        match &self.role {
            Role::SendStream | Role::SendDatagrams => flow.is_finished(),
            Role::ReceiveStream => flow.is_finished() && flow.failure(true).is_none(),
            Role::ReceiveDatagrams(latest) => flow.is_complete() || now.since(*latest) > LAST,
            Role::Ping(_, pending) => pending.is_none(),
            Role::Stray(_) => true,
        }
    }

    /// Returns true if the next of the turns, which are `pace` apart, is due.
    fn is_turn_due(&mut self, pace: units::Nanos, now: Instant) -> bool {
        if now < self.due {
            return false;
        }
        let late = self.due == Instant::START || now.since(self.due) > pace * 20;
        self.due = if late { now + pace } else { self.due + pace };
        true
    }

    fn stray(&mut self, traffic: &Traffic, socket: &mut udp::Socket<'_>, to: IpEndpoint, now: Instant) -> bool {
        if traffic.is_ending() || !self.is_turn_due(STRAY_PACE, now) {
            return false;
        }
        if socket.send_slice(b"stray", to).is_ok() {
            traffic.add_stray(self.number);
        }
        true
    }

    fn send_datagram(&mut self, flow: &Flow, socket: &mut udp::Socket<'_>, ending: bool, now: Instant) -> bool {
        if ending {
            flow.finish();
            return false;
        }
        if !self.is_turn_due(PACE, now) {
            return false;
        }
        let datagram = flow.datagram();
        // The send fails while the stack is still resolving the gateway.
        if socket.send_slice(&datagram, flow.to.at(flow.family, flow.port())).is_ok() {
            flow.add_packet(datagram.len());
        }
        true
    }

    fn ping(&mut self, flow: &Flow, socket: &mut icmp::Socket<'_>, ending: bool, now: Instant) -> bool {
        let turn = self.is_turn_due(PING_PACE, now);
        let Role::Ping(sequence, pending) = &mut self.role else { return false };
        while let Ok((reply, _)) = socket.recv() {
            if let Some((_, begun)) = pending.take_if(|(request, _)| answers(flow.family, reply, request)) {
                flow.receive_echo(now.since(begun), PING_PAYLOAD);
            }
        }
        pending.take_if(|(_, begun)| now.since(*begun) > PING_PATIENCE);
        if !turn || ending || pending.is_some() {
            return false;
        }
        let request = echo_request(flow, flow.number as u16, *sequence);
        let to: IpAddress = flow.to.address(flow.family).into();
        if socket.send_slice(&request, to).is_ok() {
            flow.add_packet(PING_PAYLOAD);
            *sequence = sequence.wrapping_add(1);
            *pending = Some((request, now));
        }
        true
    }
}

fn send_stream(flow: &Flow, socket: &mut tcp::Socket<'_>, ending: bool) -> bool {
    if ending {
        socket.close();
        flow.finish();
        return false;
    }
    let sent = match socket.can_send() {
        true => socket.send_slice(flow.pattern.at(flow.position(), MOST)).unwrap_or(0),
        false => 0,
    };
    flow.add_sent(sent);
    sent > 0
}

fn receive_stream(flow: &Flow, socket: &mut tcp::Socket<'_>) -> bool {
    let mut any = false;
    while socket.can_recv() {
        let taken = socket.recv(|bytes| (bytes.len(), flow.receive_bytes(bytes)));
        if let Ok(Err(wrong)) = taken {
            flow.fail(wrong);
            socket.abort();
        }
        any = true;
    }
    any
}

fn receive_datagrams(flow: &Flow, socket: &mut udp::Socket<'_>) -> bool {
    let mut any = false;
    while let Ok((bytes, _)) = socket.recv() {
        flow.receive_datagram(bytes).unwrap_or_else(|wrong| flow.fail(wrong));
        any = true;
    }
    any
}
