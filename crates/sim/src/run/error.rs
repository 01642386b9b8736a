//! The errors of a run, and its progress callback.

use crate::check::Violation;
use plane::{ApplyError, FlowRefusal};
use std::fmt;

/// Why a run has no result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunError {
    /// A capture cannot be replayed: the source, and why.
    Capture(String, String),
    /// The file of a flow's transfer sizes is unusable: the flow, and why.
    Sizes(String, String),
    /// The trace of a card's link is unusable or has ended: the card, and why.
    Trace(String, String),
    /// A link cannot be built: its name, and why.
    Link(String, String),
    /// A configuration cannot run: the router, and why.
    Apply(String, Vec<ApplyError>),
    /// A flow is not admitted: the router, and why.
    Reserve(String, FlowRefusal),
    /// A change of slices is refused: the router, the number of the change, and why.
    Slices(String, String),
    /// Laws of the world were broken: the first violations, and the number of further ones.
    Broken(Vec<Violation>, u64),
    /// The world cannot run on real packets, or the run failed.
    Real(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Capture(source, reason) => write!(f, "source {source}: {reason}"),
            RunError::Sizes(flow, reason) => {
                write!(f, "flow {flow}: {reason}; without `sizes` the flow uses a table similar to the measured one")
            }
            RunError::Trace(card, reason) => write!(f, "the link of card {card}: {reason}"),
            RunError::Link(link, reason) => write!(f, "link {link}: {reason}"),
            RunError::Apply(router, errors) => {
                write!(f, "router {router} cannot run its configuration")?;
                errors.iter().try_for_each(|error| write!(f, "; {error}"))
            }
            RunError::Reserve(router, FlowRefusal { resource, reason, hint, .. }) => {
                let resource = resource.map_or(String::new(), |resource| format!("{resource}: "));
                write!(f, "router {router} does not reserve a flow: {resource}{reason}; {hint}")
            }
            RunError::Slices(router, reason) => write!(f, "slices of router {router}: {reason}"),
            RunError::Broken(violations, more) => {
                for (index, violation) in violations.iter().enumerate() {
                    write!(f, "{}{violation}", if index > 0 { "\n" } else { "" })?;
                }
                if *more > 0 { write!(f, "\nand {more} more") } else { Ok(()) }
            }
            RunError::Real(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for RunError {}

/// Receives the completed part of a run, from 0 to 1.
pub type ProgressCallback<'a> = &'a mut dyn FnMut(f64);
