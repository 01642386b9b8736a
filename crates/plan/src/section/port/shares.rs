//! The shares of a port, in the configuration itself and in a file.

use crate::Call;
use crate::diagnostic::{Diagnostics, Report, absolute_beside};
use crate::diff::{PropertyChange, edit, file, summaries};
use crate::document::Section;
use crate::key::{FILE, Form, Key, Kind, key};
use crate::share::SHARE_SCHEME;
use crate::share_batch::{ConfiguredShare, ShareChange, share_file};
use crate::share_tree::{MOST_SHARE_LEVELS, ShareNode, ShareOrigin, ShareTree};
use serde::{Serialize, Serializer};

/// Limit of shares in the configuration itself. A file has no limit but that of a port.
const MOST_INLINE: usize = 16_384;

pub(super) const SHARES: Key = key(
    "shares",
    Kind::Texts { form: Form::Pattern(r"^.*\S.*$"), most: MOST_INLINE },
    "[]",
    "[\"gold rate 100mbit\", \"voice in gold rate 10mbit priority 0\"]",
    "The shares by which the schemes `share` and `dfq` divide the link, each behind its parent: `NAME [in PARENT] [rate R] [ceiling R] \
     [weight N] [burst B] [delay D] [priority P]`. At most 16384.",
);

pub(super) const SHARE_FILE: Key = key(
    "share_file",
    Kind::Text(FILE),
    "",
    "\"lan.shares\"",
    "A file of further shares, one a line, with comments from `#` on. Their parents may be in `shares`. A relative name begins at the \
     directory of the configuration file.",
);

/// The shares of a port. Each change adds a share.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SharesPlan {
    /// The shares of the configuration, each parent before its children, those of a level by name.
    #[serde(serialize_with = "as_lines")]
    pub shares: Vec<ShareChange>,
    /// The file of further shares.
    pub file: Option<String>,
}

impl SharesPlan {
    /// True if the configuration gives the port no shares.
    pub fn is_empty(&self) -> bool {
        self.shares.is_empty() && self.file.is_none()
    }

    /// The tree of these shares, then of those in a file, given as text and name, on a port with this scheme. Errors are those of the file.
    pub(super) fn tree(&self, scheme: &Call, file: Option<(&str, &str)>) -> Result<ShareTree, Diagnostics> {
        let mut tree = ShareTree::of_scheme(scheme);
        // `check` has applied them to the same tree.
        let applied = tree.apply_all(&self.shares, ShareOrigin::Configuration);
        debug_assert_eq!(applied, Ok(()));
        if let Some((source, name)) = file {
            let batch = share_file(source, name)?;
            let changes = batch.changes.iter().map(|(_, change)| change);
            let applied = tree.apply_all(changes, ShareOrigin::Configuration);
            applied.map_err(|(position, reason, hint)| batch.refuse(position, reason, hint))?;
        }
        tree.commit();
        Ok(tree)
    }
}

fn as_lines<S: Serializer>(shares: &[ShareChange], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(lines(shares))
}

fn lines(shares: &[ShareChange]) -> Vec<String> {
    shares.iter().map(|share| ConfiguredShare(share).to_string()).collect()
}

/// `file_name` is that of the configuration.
pub(super) fn check(report: &mut Report<'_>, section: &Section<'_>, scheme: &Call, file_name: &str) -> SharesPlan {
    // A scheme with a fault, which was reported, has no name.
    let has_no_shares = !scheme.has_shares() && !scheme.name.is_empty();
    for name in ["shares", "share_file"] {
        if let Some(node) = section.node(name).filter(|_| has_no_shares) {
            report.error(node.span, node.path, || {
                let reason = format!("the scheme of the port, '{}', has no shares", scheme.name);
                (reason, format!("write scheme = \"{SHARE_SCHEME}\", or remove the key '{name}'"))
            });
        }
    }
    let mut tree = ShareTree::of_scheme(scheme);
    tree.reserve(section.list_length("shares").min(MOST_INLINE));
    let mut has_errors = false;
    section.texts(report, "shares", surplus, "\"gold rate 100mbit\"", |report, text| -> Option<()> {
        match ShareChange::configured(text.value) {
            // Without one of the shares, errors of others would be consequences.
            Ok(_) if has_errors => {}
            Ok(change) => match tree.apply(&change, ShareOrigin::Configuration) {
                Ok(()) => tree.commit(),
                Err((reason, hint)) => {
                    has_errors = true;
                    text.error(report, || (reason, hint));
                }
            },
            Err(error) => {
                has_errors = true;
                text.wrong(report, error);
            }
        }
        None
    });
    // Level by level, so that parents precede their children, without a second copy of all shares.
    let mut shares: Vec<ShareChange> = Vec::with_capacity(tree.len());
    for level in 2..=MOST_SHARE_LEVELS {
        let from = shares.len();
        shares.extend(tree.iter().filter(|share| share.level == level).map(add));
        shares[from..].sort_unstable_by(|a, b| a.name().cmp(b.name()));
    }
    let file = section.text(report, "share_file").map(|text| absolute_beside(file_name, text.value));
    SharesPlan { shares, file }
}

fn add(share: ShareNode<'_>) -> ShareChange {
    let (name, parent) = (share.name.clone(), share.parent.cloned());
    ShareChange::Add { name, parent, settings: *share.settings, lease: None }
}

fn surplus(most: usize) -> (String, String) {
    (format!("there are more than {most} shares"), "write them into a file: share_file = \"lan.shares\"".to_string())
}

pub(super) fn edits(old: &SharesPlan, new: &SharesPlan, what: &mut Vec<PropertyChange>) {
    if old.shares != new.shares {
        let (old, new) = summaries(&lines(&old.shares), &lines(&new.shares), "shares");
        edit(what, "shares", old, new);
    }
    edit(what, "share_file", file(&old.file), file(&new.file));
}
