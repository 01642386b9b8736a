//! Events of shares and subscribers.

use crate::api::{self, Author, EventKind};
use std::fmt;

/// A change of shares that was made beside the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ShareEvent {
    /// A batch was carried out.
    Edited { edited: api::SharesEdited, author: Author },
    /// The lease of a share has ended.
    Expired { port: String, share: String },
    /// The files of subscribers were read again, by an author or because one has changed.
    Reloaded { reloaded: api::SubscribersReloaded, author: Option<Author> },
}

impl ShareEvent {
    pub fn kind(&self) -> EventKind {
        match self {
            ShareEvent::Edited { .. } => EventKind::SharesEdited,
            ShareEvent::Expired { .. } => EventKind::ShareExpired,
            ShareEvent::Reloaded { .. } => EventKind::SubscribersReloaded,
        }
    }

    /// The port whose shares have changed.
    pub fn subject(&self) -> Option<String> {
        match self {
            ShareEvent::Edited { edited, .. } => Some(edited.port.clone()),
            ShareEvent::Expired { port, .. } => Some(port.clone()),
            ShareEvent::Reloaded { .. } => None,
        }
    }
}

impl fmt::Display for ShareEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShareEvent::Edited { edited, author } => {
                write!(f, "shares: {} changed, {} at the port; by {author}", edited.changed, edited.total)
            }
            ShareEvent::Expired { share, .. } => write!(f, "the lease of the share {} has ended", plan::quote(share)),
            ShareEvent::Reloaded { reloaded: r, author } => {
                write!(f, "subscribers: {} added, {} removed, {} in the files; ", r.added, r.removed, r.subscribers)?;
                match author {
                    Some(author) => write!(f, "by {author}"),
                    None => f.write_str("a file has changed"),
                }
            }
        }
    }
}
