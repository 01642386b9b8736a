//! Flows that are reserved on a path while the router runs. Admission needs only their sum, so its time does not grow with their number.

use super::costs::Costs;
use super::link::FULL_FRAME;
use crate::{Call, Reservation, ReservedFlow};
use units::{Bytes, Framing, Nanos, PacketRate, Parts, Rate};

/// The flows reserved on a path, added up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PathFlows {
    /// Their number.
    pub flows: usize,
    /// Packets a second.
    pub packets: u64,
    /// Bytes a second of these packets, with their Ethernet headers.
    pub bytes: u64,
    /// Packets a second that the path's functions and the output task grant them: their rates, or what their delays need.
    pub granted: u64,
    /// The indexes of the ports by which they may enter.
    pub entries: Vec<usize>,
    /// The indexes of the ports by which they leave.
    pub exits: Vec<usize>,
    /// The delay of a packet, without its wait in its own share of the link, that keeps the bound of each of them. `None`: none has a bound.
    pub latest: Option<Nanos>,
}

impl PathFlows {
    /// True without flows.
    pub fn is_empty(&self) -> bool {
        self.flows == 0
    }

    /// Their rate, as the reservation of a path without a delay bound: each flow has its own.
    pub fn rate(&self) -> Reservation {
        Reservation { delay: None, ..self.reservation() }
    }

    /// Their reservation as one.
    pub(super) fn reservation(&self) -> Reservation {
        let size = Bytes::new(self.bytes.div_ceil(self.packets.max(1)));
        let rate = Some(Rate::bits(self.bytes.saturating_mul(8)));
        Reservation { packets: PacketRate::pps(self.packets.max(1)), size: Some(size), rate, delay: self.latest }
    }
}

/// The part of the processor that the packets of a flow need at its rate, between these ports on the path at this index.
pub fn flow_load(costs: &Costs, flow: &ReservedFlow, path: usize, (entry, exit): (usize, usize)) -> Parts {
    let stages = [costs.ports[entry].input, costs.paths[path].functions, costs.ports[exit].output];
    let packet = stages.iter().fold(Nanos::ZERO, |sum, stage| sum + stage.cost.of(flow.packet));
    let load = u128::from(packet.get()) * u128::from(flow.packets());
    Parts::millionths(u32::try_from(load.div_ceil(1000)).unwrap_or(u32::MAX))
}

/// Bytes of a turn that a deadline covers: see the module `share` of `schemes`.
const TURN: u64 = 4096;
const SHORTEST_TURN: u64 = 64;

/// The bytes that a flow's rate has to serve in its delay. Two servers in a row that grant the same rate pay the burst once, and each adds its latency (Le
/// Boudec and Thiran 2001, theorem 1.4.6): the processor one packet, the link one turn.
fn own_work(packet: Bytes, burst: Bytes, turn: Bytes) -> Bytes {
    Bytes::new(burst.get().saturating_add(packet.get()).saturating_add(turn.get()))
}

/// The bytes of a turn of a share whose packets have this length.
fn turn(packet: Bytes) -> Bytes {
    Bytes::new(packet.get().clamp(SHORTEST_TURN, TURN).next_power_of_two())
}

/// The place of a flow's share in the tree of its output port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowLink {
    /// The bytes of a turn of the scheme, with the packet that ends it.
    quantum: u64,
    /// How late the cycles of the scheme may make a packet: two of them (Panama, section 4.2).
    cycles: Nanos,
    line: Framing,
    /// The rates of the shares above it, from its parent up to the port.
    above: Vec<Rate>,
}

/// The terms of a flow at its output port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowTerms {
    /// The guaranteed rate of its share: its long-term rate, or what its delay bound needs (Panama, `R = max(rho, sigma / D)`). In bits on the line.
    pub rate: Rate,
    /// Packets a second that it gets from the path's part of the processor, in the same proportion to its long-term rate.
    pub packets: u64,
    /// The bytes on the line of its burst.
    pub burst: Bytes,
    /// The bytes of a turn of its share: one packet.
    pub turn: Bytes,
    /// The longest wait of its packets behind their own burst, and a turn of another share at each level.
    pub wait: Nanos,
}

impl FlowLink {
    /// The place below shares with these rates, from the parent up to the port, which has this scheme.
    pub fn new(scheme: &Call, above: Vec<Rate>) -> FlowLink {
        let quantum = (scheme.option("quantum").unwrap_or(0) + FULL_FRAME.get()).max(TURN);
        let cycles = Nanos::new(scheme.option("cycle").unwrap_or(0).saturating_mul(2));
        FlowLink { quantum, cycles, line: scheme.framing(), above }
    }

    /// The longest wait for turns of other shares: at each level for one that has begun, which ends with a whole frame; and for cycles.
    fn turns(&self) -> Nanos {
        let turn = self.line.line_bytes(u32::try_from(self.quantum).unwrap_or(u32::MAX));
        self.above.iter().fold(self.cycles, |sum, rate| sum + rate.time_for(turn))
    }

    /// The bytes of a packet of a flow on the line.
    fn packet(&self, flow: &ReservedFlow) -> Bytes {
        self.line.line_bytes(u32::try_from(flow.packet.get()).unwrap_or(u32::MAX))
    }

    /// The long-term rate of a flow on the line. A share has at least a kilobit a second.
    fn long_term(&self, flow: &ReservedFlow) -> Rate {
        let bits = self.packet(flow).get().saturating_mul(8).saturating_mul(flow.packets());
        Rate::bits(bits.max(1000))
    }

    /// The delay in the rest of the router that leaves enough for the link at the long-term rate of a flow. Zero if no delay does, or none is asked for.
    pub fn slack(&self, flow: &ReservedFlow) -> Nanos {
        let wait = self.terms_at(flow, Rate::ZERO).wait;
        flow.delay.map_or(Nanos::ZERO, |delay| delay.saturating_sub(wait))
    }

    /// The terms of a flow whose packets need `elsewhere` in the rest of the router.
    ///
    /// # Errors
    /// The least delay that any rate could keep, if the bound is not longer.
    pub fn terms(&self, flow: &ReservedFlow, elsewhere: Nanos) -> Result<FlowTerms, Nanos> {
        let fixed = self.turns() + elsewhere;
        match flow.delay {
            None => Ok(self.terms_at(flow, Rate::ZERO)),
            Some(delay) if delay <= fixed => Err(fixed),
            Some(delay) => {
                let bits = u128::from(self.own_work(flow).get()) * 8 * 1_000_000_000;
                let needed = bits.div_ceil(u128::from(delay.saturating_sub(fixed).get()));
                Ok(self.terms_at(flow, Rate::bits(u64::try_from(needed).unwrap_or(u64::MAX))))
            }
        }
    }

    /// The terms of a flow with the whole rate of the share above it: no rate would keep its delay.
    pub fn fastest(&self, flow: &ReservedFlow) -> FlowTerms {
        self.terms_at(flow, self.above.first().copied().unwrap_or(Rate::ZERO))
    }

    /// The terms of a flow whose delay needs a rate.
    fn terms_at(&self, flow: &ReservedFlow, needed: Rate) -> FlowTerms {
        let packet = self.packet(flow);
        let rate = self.long_term(flow).max(needed);
        let packets = rate.get().div_ceil(packet.get().saturating_mul(8)).max(flow.packets());
        let (burst, turn) = (Bytes::new(packet.get().saturating_mul(flow.burst_packets())), turn(packet));
        let wait = self.turns() + rate.time_for(own_work(packet, burst, turn));
        FlowTerms { rate, packets, burst, turn, wait }
    }

    /// The bytes of its burst, with the waits of both servers.
    fn own_work(&self, flow: &ReservedFlow) -> Bytes {
        let packet = self.packet(flow);
        own_work(packet, Bytes::new(packet.get().saturating_mul(flow.burst_packets())), turn(packet))
    }

    /// The longest wait of a flow with these terms at this place.
    pub fn wait(&self, flow: &ReservedFlow, terms: &FlowTerms) -> Nanos {
        let packet = self.packet(flow);
        self.turns() + terms.rate.time_for(own_work(packet, terms.burst, terms.turn))
    }

    /// The bytes that the queue of a flow's share holds: its burst, and what arrives at its rate until the first packet has left.
    pub fn queue(&self, flow: &ReservedFlow, through: Nanos) -> Bytes {
        let arriving = u128::from(flow.packets()) * u128::from(through.get()) / 1_000_000_000 + 1;
        let packets = u128::from(flow.burst_packets()) + arriving;
        Bytes::new(u64::try_from(packets * u128::from(flow.packet.get())).unwrap_or(u64::MAX))
    }
}
