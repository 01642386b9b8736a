//! Events of shares, subscribers and slices.

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
    /// These slices were changed, so many times.
    Slices { slices: String, changes: u64, author: Author },
    /// The code option of a slice, which has this number, has failed.
    SliceFailed { slice: String, number: u16, failure: String },
}

impl ShareEvent {
    pub fn kind(&self) -> EventKind {
        match self {
            ShareEvent::Edited { .. } => EventKind::SharesEdited,
            ShareEvent::Expired { .. } => EventKind::ShareExpired,
            ShareEvent::Reloaded { .. } => EventKind::SubscribersReloaded,
            ShareEvent::Slices { .. } => EventKind::SlicesEdited,
            ShareEvent::SliceFailed { .. } => EventKind::SliceFailed,
        }
    }

    /// Owners of slices, and slices that fail, are limited separately, so that one of them cannot displace the events of others.
    pub fn subject_index(&self) -> Option<usize> {
        match self {
            ShareEvent::Slices { author, .. } => author.uid.map(|uid| uid as usize),
            ShareEvent::SliceFailed { number, .. } => Some(usize::from(*number)),
            _ => None,
        }
    }

    /// The port whose shares have changed, or the slices.
    pub fn subject(&self) -> Option<String> {
        match self {
            ShareEvent::Edited { edited, .. } => Some(edited.port.clone()),
            ShareEvent::Expired { port, .. } => Some(port.clone()),
            ShareEvent::Reloaded { .. } => None,
            ShareEvent::Slices { slices, .. } => Some(slices.clone()),
            ShareEvent::SliceFailed { slice, .. } => Some(slice.clone()),
        }
    }
}

impl fmt::Display for ShareEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShareEvent::Edited { edited, author } => {
                write!(f, "shares: {} changed, {} at the port; by {author}", edited.changed, edited.total)
            }
            ShareEvent::Slices { changes: 1, author, .. } => write!(f, "1 change; by {author}"),
            ShareEvent::Slices { changes, author, .. } => write!(f, "{changes} changes; by {author}"),
            ShareEvent::SliceFailed { failure, .. } => write!(f, "the slice is stopped until it is resumed: {failure}"),
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
