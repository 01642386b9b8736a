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
    /// Packets that they may send at once.
    pub burst: u64,
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

    /// Their reservation as one.
    pub fn reservation(&self) -> Reservation {
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

/// Bytes of a turn that a deadline covers, at least: see the module `share` of `schemes`.
const TURN: u64 = 2048;

/// The place of a flow's share in the tree of its output port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowLink {
    /// The bytes of a turn of the scheme.
    quantum: u64,
    line: Framing,
    /// The rates of the shares above it, from its parent up to the port.
    above: Vec<Rate>,
}

/// What a flow gets at its output port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowTerms {
    /// The guaranteed rate of its share: its long-term rate, or what its delay bound needs (Panama, `R = max(rho, sigma / D)`). In bits on the line.
    pub rate: Rate,
    /// The bytes on the line of its burst.
    pub burst: Bytes,
    /// The longest wait of its packets in their share, behind their own burst and a turn of another share at each level.
    pub wait: Nanos,
}

impl FlowLink {
    /// The place below shares with these rates, from the parent up to the port, which has this scheme.
    pub fn new(scheme: &Call, above: Vec<Rate>) -> FlowLink {
        let quantum = scheme.option("quantum").unwrap_or(0).max(TURN);
        FlowLink { quantum, line: scheme.framing(), above }
    }

    /// The longest wait for turns of other shares: at each level for one that has begun, which ends with a whole frame.
    fn turns(&self) -> Nanos {
        let turn = self.line.line_bytes(u32::try_from(self.quantum + FULL_FRAME.get()).unwrap_or(u32::MAX));
        self.above.iter().fold(Nanos::ZERO, |sum, rate| sum + rate.time_for(turn))
    }

    /// The terms of a flow whose packets need `elsewhere` in the rest of the router.
    ///
    /// # Errors
    /// The least delay that any rate could keep, if the bound is not longer.
    pub fn terms(&self, flow: &ReservedFlow, elsewhere: Nanos) -> Result<FlowTerms, Nanos> {
        let packet = self.line.line_bytes(u32::try_from(flow.packet.get()).unwrap_or(u32::MAX));
        let burst = packet.get().saturating_mul(flow.burst_packets());
        let own = Bytes::new(burst.saturating_add(self.quantum));
        let long_term = packet.get().saturating_mul(8).saturating_mul(flow.packets());
        let fixed = self.turns() + elsewhere;
        let needed = match flow.delay {
            None => 0,
            Some(delay) if delay <= fixed => return Err(fixed),
            Some(delay) => {
                let bits = u128::from(own.get()) * 8 * 1_000_000_000;
                u64::try_from(bits.div_ceil(u128::from(delay.saturating_sub(fixed).get()))).unwrap_or(u64::MAX)
            }
        };
        // A share has at least a kilobit a second, and the tree counts in bits.
        let rate = Rate::bits(long_term.max(needed).max(1000));
        let burst = Bytes::new(burst);
        Ok(FlowTerms { rate, burst, wait: self.wait(rate, burst) })
    }

    /// The longest wait of packets in a share of this rate, behind a burst and a turn of another share at each level.
    pub fn wait(&self, rate: Rate, burst: Bytes) -> Nanos {
        self.turns() + rate.time_for(Bytes::new(burst.get().saturating_add(self.quantum)))
    }

    /// The bytes that the queue of a flow's share holds: its burst, and what arrives at its rate until the first packet has left.
    pub fn queue(&self, flow: &ReservedFlow, through: Nanos) -> Bytes {
        let arriving = u128::from(flow.packets()) * u128::from(through.get()) / 1_000_000_000 + 1;
        let packets = u128::from(flow.burst_packets()) + arriving;
        Bytes::new(u64::try_from(packets * u128::from(flow.packet.get())).unwrap_or(u64::MAX))
    }
}
