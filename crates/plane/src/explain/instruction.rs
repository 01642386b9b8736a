//! The instruction of a packet, and the places that would execute it. It is not executed: nothing is written. The packet may end at a place,
//! which depends on the state that other packets left there.

use super::{Step, Way};
use crate::hook::Asked;
use packet::Packet;
use units::PortId;

/// An instruction at a place that executes it, or a place that does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instructed {
    /// The instruction.
    pub asked: Asked,
    /// The port. `None` for the centre.
    pub port: Option<PortId>,
    /// True at the output, false at the input.
    pub leaves: bool,
    /// True if the place executes it.
    pub executed: bool,
}

impl Way<'_> {
    /// Adds the instructions at the input port `port` and in the centre.
    pub(super) fn instructed_at_input(&self, port: PortId, packet: &Packet) {
        self.instructed(Some(port), false, packet);
        self.instructed(None, false, packet);
    }

    /// Adds the instructions at the output port `port`.
    pub(super) fn instructed_at_output(&self, port: PortId, packet: &Packet) {
        self.instructed(Some(port), true, packet);
    }

    fn instructed(&self, port: Option<PortId>, leaves: bool, packet: &Packet) {
        let Some(stations) = &self.question.snapshot.stations else { return };
        if packet.meta().refused != 0 || packet.offload().is_super_frame() {
            return;
        }
        let l3 = packet.bytes().get(usize::from(packet.meta().l3)..).unwrap_or_default();
        let Some(asked) = stations.maker.read(&stations.wanted.plan, l3) else { return };
        let place = if port.is_none() { 1 } else { 2 * usize::from(leaves) };
        if !asked.at[place] {
            return;
        }
        let enabled = match port {
            None => stations.wanted.plan.central > 0,
            Some(port) => stations.wanted.ports.iter().any(|(known, says)| {
                let (input, output) = says.at.are();
                *known == port && if leaves { output } else { input }
            }),
        };
        let executed = enabled && asked.not.is_none();
        self.steps.add(Step::Instruction(Instructed { asked, port, leaves, executed }));
    }
}
