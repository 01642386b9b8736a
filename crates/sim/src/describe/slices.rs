//! Parses the changes of slices of a description.

use super::read::Reader;
use super::slice_lines::{MOST_CHANGES, changes};
use super::text::{Text, blank_outside};
use slice::{SliceCommand, SliceError};

impl Reader<'_> {
    /// Parses changes of slices, one a line. Empty lines and those that begin with `#` change nothing.
    pub fn slice_changes(&mut self, text: &Text, path: &str) -> Vec<SliceCommand> {
        // For the check of the quotes, without which positions were unknown.
        if let Err(error) = blank_outside(self.report.source, text.span()) {
            self.report.error(text.span(), path, || error);
            return Vec::new();
        }
        let start = text.span().start + 3;
        let (source, mut at) = (self.report.source, start);
        let mut all = Vec::new();
        for line in source[start..text.span().end - 3].split_inclusive('\n') {
            let words = line.trim();
            let from = at + (line.len() - line.trim_start().len());
            at += line.len();
            if words.is_empty() || words.starts_with('#') {
                continue;
            }
            match changes(words, self.ring.as_ref()) {
                Ok(more) => all.extend(more),
                Err(SliceError { reason, hint }) => {
                    self.report.error(from..from + words.len(), path, || (reason, hint));
                }
            }
        }
        self.bounded_by(all.len(), MOST_CHANGES, path);
        all
    }
}
