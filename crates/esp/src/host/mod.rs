//! For end systems: computations, and the parts of them that hosts play (spec E-43 to E-49).
//!
//! Nothing here sends or receives, or knows the time: a host asks what to do ([`Action`]), and says what has come. How parts
//! travel is [`crate::wire`]'s. All that is asked of the system is randomness, for a new [`Computation`].

mod alarm;
mod attempts;
mod branches;
mod computation;
mod controller;
mod epochs;
mod exchange;
mod layers;
mod mean;
mod play;
mod randomness;
mod reporter;
mod round;
mod sealing;
mod secret;
mod survey;

pub use alarm::Alarm;
pub use attempts::Attempts;
pub use branches::{Branch, Shared, branches};
pub use computation::Computation;
pub use controller::{Controller, Outcome};
pub use epochs::Epochs;
pub use exchange::{Datagrams, Patience, Unanswered, ask, collect, report};
pub use layers::{Layers, MOST_LAYERS};
pub use mean::{Mean, MeanController, MeanReporter, MeanRounds};
pub use play::{Member, Root};
pub use randomness::randomness;
pub use reporter::Reporter;
pub use round::{Round, Schedule, TooShort};
pub use sealing::Sealing;
pub use survey::{Executes, Probes, Question, Returned, Survey};

use crate::wire::Part;
use units::Instant;

/// What a host is to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action<T> {
    /// Send this towards the root of the computation, and ask again.
    Send(Part),
    /// Nothing before this time, unless something comes.
    Wait(Instant),
    /// It is over.
    Over(T),
}
