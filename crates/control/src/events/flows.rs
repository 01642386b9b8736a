//! Events of flows that are reserved while the router runs.

use crate::api::{self, Author, EventKind};
use std::fmt;
use units::Nanos;

/// A change of the reserved flows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum FlowEvent {
    /// A batch was carried out.
    Edited { edited: api::FlowsEdited, author: Author },
    /// The lease of a flow has ended.
    Expired { name: String },
    /// The packets of a flow have begun to need more processor time than its reservation relies on.
    Costly { name: String, expected: Nanos, measured: Nanos },
}

/// The most names in the text of an event.
const NAMED: usize = 3;

impl FlowEvent {
    pub fn kind(&self) -> EventKind {
        match self {
            FlowEvent::Edited { .. } => EventKind::FlowsEdited,
            FlowEvent::Expired { .. } => EventKind::FlowExpired,
            FlowEvent::Costly { .. } => EventKind::FlowCostly,
        }
    }

    /// The flow, if it is one.
    pub fn subject(&self) -> Option<String> {
        match self {
            FlowEvent::Edited { edited, .. } => match &edited.added[..] {
                [one] => Some(one.name.clone()),
                _ => None,
            },
            FlowEvent::Expired { name } | FlowEvent::Costly { name, .. } => Some(name.clone()),
        }
    }
}

impl fmt::Display for FlowEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowEvent::Edited { edited: e, author } => {
                let added = e.added.len();
                write!(
                    f,
                    "reservations: {added} added, {} renewed, {} ended, {} in all",
                    e.renewed, e.removed, e.total
                )?;
                for (number, one) in e.added.iter().take(NAMED).enumerate() {
                    write!(f, "{}{}", if number == 0 { "; added " } else { ", " }, plan::quote(&one.name))?;
                }
                if added > NAMED {
                    write!(f, " and {} more", added - NAMED)?;
                }
                if let Some(first) = e.overbooked.first() {
                    let resource = first.resource.as_deref().unwrap_or_default();
                    write!(f, "; {} overbooked, the first for its {resource}: {}", e.overbooked.len(), first.reason)?;
                }
                write!(f, "; by {author}")
            }
            FlowEvent::Expired { name } => write!(f, "the lease of the reserved flow {} has ended", plan::quote(name)),
            FlowEvent::Costly { name, expected, measured } => write!(
                f,
                "a packet of the reserved flow {} needs {} of the processor, but its reservation relies on {}: it gets fewer packets than reserved",
                plan::quote(name),
                measured.rounded(),
                expected.rounded()
            ),
        }
    }
}
