//! Why a run has no result, and who is told how far it is.

use crate::check::Violation;
use plane::ApplyError;
use std::fmt;

/// Why a run has no result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunError {
    /// A capture cannot be replayed.
    Capture(String, String),
    /// The sizes of a flow's transfers cannot be had: the flow, and why.
    Sizes(String, String),
    /// The link of a card cannot go by its trace, or no longer: the card, and why.
    Trace(String, String),
    /// A link cannot be what it is described as: which, and why.
    Link(String, String),
    /// A configuration cannot run: the router, and why.
    Apply(String, Vec<ApplyError>),
    /// Laws of the world were broken, and how often besides these.
    Broken(Vec<Violation>, u64),
    /// It cannot be carried out on real packets, or was not.
    Real(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Capture(source, reason) => write!(f, "source {source}: {reason}"),
            RunError::Sizes(flow, reason) => {
                write!(f, "flow {flow}: {reason}; without `sizes` those of a table like the measured one are taken")
            }
            RunError::Trace(card, reason) => write!(f, "the link of card {card}: {reason}"),
            RunError::Link(link, reason) => write!(f, "link {link}: {reason}"),
            RunError::Apply(router, errors) => {
                write!(f, "router {router} cannot run its configuration")?;
                errors.iter().try_for_each(|error| write!(f, "; {error}"))
            }
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

/// Who is told how far a run is, in parts of one.
pub type Progress<'a> = &'a mut dyn FnMut(f64);
