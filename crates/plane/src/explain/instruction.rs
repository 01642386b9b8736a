//! The instruction of a packet, and the places that would execute it. It is not executed: nothing is written. The packet may end at a place,
//! which depends on the state that other packets left there.

use super::{DryRun, ExplainStep};
use crate::hook::DecodedInstruction;
use packet::Packet;
use units::PortId;

/// An instruction at a place that executes it, or a place that does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InstructionVisit {
    /// The instruction.
    pub instruction: DecodedInstruction,
    /// The port. `None` for the centre.
    pub port: Option<PortId>,
    /// True at the output, false at the input.
    pub is_output: bool,
    /// True if the place executes it.
    pub executed: bool,
}

impl DryRun<'_> {
    /// Adds the instructions at the input port `port` and in the centre.
    pub(super) fn add_input_instructions(&self, port: PortId, packet: &Packet) {
        self.add_instruction(Some(port), false, packet);
        self.add_instruction(None, false, packet);
    }

    /// Adds the instructions at the output port `port`.
    pub(super) fn add_output_instructions(&self, port: PortId, packet: &Packet) {
        self.add_instruction(Some(port), true, packet);
    }

    fn add_instruction(&self, port: Option<PortId>, leaves: bool, packet: &Packet) {
        let Some(stations) = &self.question.snapshot.hooks else { return };
        // Hooks skip refused packets, and never execute instructions of super-frames.
        if packet.meta().refused != 0 || packet.offload().is_super_frame() {
            return;
        }
        let l3 = packet.bytes().get(usize::from(packet.meta().l3)..).unwrap_or_default();
        let Some(asked) = stations.maker.read(&stations.state.plan, l3) else { return };
        // The order of `DecodedInstruction::points`: input port, centre, output port.
        let place = if port.is_none() { 1 } else { 2 * usize::from(leaves) };
        if !asked.points[place] {
            return;
        }
        let enabled = match port {
            // No entries in the central store: nothing is executed in the centre.
            None => stations.state.plan.central > 0,
            Some(port) => stations.state.ports.iter().any(|(known, says)| {
                let (input, output) = says.at.input_and_output();
                *known == port && if leaves { output } else { input }
            }),
        };
        let executed = enabled && asked.refusal.is_none();
        self.steps.add(ExplainStep::Instruction(InstructionVisit {
            instruction: asked,
            port,
            is_output: leaves,
            executed,
        }));
    }
}
