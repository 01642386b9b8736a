//! What an instruction that the packet carries would be asked to do, and where. It is not executed: nothing is written, and
//! whether the packet ends there depends on what others have left.

use super::{Step, Way};
use crate::hook::Asked;
use packet::Packet;
use units::PortId;

/// An instruction at a place that executes it, or a place that does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instructed {
    /// What it asks for.
    pub asked: Asked,
    /// The port; none for the centre.
    pub port: Option<PortId>,
    /// Whether it leaves there, or comes in.
    pub leaves: bool,
    /// Whether the place executes it.
    pub executed: bool,
}

impl Way<'_> {
    /// Notes what would be executed where the packet came in by `port`, and in the middle.
    pub(super) fn instructed_at_input(&self, port: PortId, packet: &Packet) {
        self.instructed(Some(port), false, packet);
        self.instructed(None, false, packet);
    }

    /// Notes what would be executed where it leaves by `port`.
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
