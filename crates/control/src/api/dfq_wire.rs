//! The wire of a port that multiplexes quanta.

use packet::port::{DfqWireState, DfqWireStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The wire of a port that multiplexes quanta.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DfqWireReply {
    /// `multiplexed` if frames travel in batches, else `searching` or `plain`.
    pub state: String,
    /// Why frames leave plain; null if they do not, or not yet.
    pub reason: Option<String>,
    /// The MAC address of the other end; null if none answers.
    pub peer: Option<String>,
    /// The cycle of the scheme at the other end; null if it has none.
    pub peer_cycle_ns: Option<u64>,
    /// Shares with a flow number that the other end has acknowledged.
    pub flows_out: u64,
    /// Flows that the other end has announced.
    pub flows_in: u64,
}

impl DfqWireReply {
    /// Converts the status of a port.
    pub(crate) fn of(status: &DfqWireStatus) -> DfqWireReply {
        let reason = match status.state {
            DfqWireState::Plain(reason) => Some(reason.to_string()),
            DfqWireState::Searching | DfqWireState::Multiplexed => None,
        };
        DfqWireReply {
            state: status.state.name().into(),
            reason,
            peer: status.peer.map(|peer| peer.to_string()),
            peer_cycle_ns: Some(status.peer_cycle_ns.into()).filter(|cycle| *cycle > 0),
            flows_out: status.flows_out.into(),
            flows_in: status.flows_in.into(),
        }
    }
}
