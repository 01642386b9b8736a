//! The end-system side: computations, and the roles of hosts in them (spec E-43 to E-49).
//!
//! Nothing here does input or output or reads a clock. A host asks for its next [`Action`] and passes in the parts that it receives. [`crate::wire`]
//! puts parts into packets. The only system call is for randomness, for a new [`Computation`].

mod alarm;
mod attempts;
mod branches;
mod computation;
mod controller;
mod epochs;
mod exchange;
mod layers;
mod mean;
mod randomness;
mod reporter;
mod roles;
mod round;
mod sealing;
mod secret;
mod survey;

pub use alarm::Alarm;
pub use attempts::Attempts;
pub use branches::{Branch, SharedHop, branches};
pub use computation::Computation;
pub use controller::{RoundController, RoundOutcome};
pub use epochs::Epochs;
pub use exchange::{DatagramSocket, RequestError, RetryPolicy, collect, report, request};
pub use layers::{Layers, MOST_LAYERS};
pub use mean::{Mean, MeanController, MeanReporter, MeanRounds};
pub use randomness::randomness;
pub use reporter::Reporter;
pub use roles::{GroupRoot, Member};
pub use round::{ComputationRound, LifetimeTooShort, Schedule};
pub use sealing::SealingSocket;
pub use survey::{HopExecution, ProbeQuestion, ProbeReply, Probes, Survey};

use crate::wire::Part;
use units::Instant;

/// The next action of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action<T> {
    /// Send this part towards the root of the computation, then poll again.
    Send(Part),
    /// Wait until this time, or until a part is received.
    Wait(Instant),
    /// The role is over, with this result.
    Over(T),
}
