//! A configuration in pieces, each with its origin in a dump. A piece that `check` refuses is left out and reported, until the rest is valid. So the
//! result is valid for all dumps.

use plan::{Catalogue, Diagnostic};
use serde::Serialize;
use std::fmt;

/// A place in a dump.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct DumpPlace {
    /// The file, or the command of a live conversion.
    pub(crate) source: String,
    /// The object in it: `interface eth0`.
    pub(crate) object: String,
}

impl DumpPlace {
    pub(crate) fn new(source: &str, object: impl Into<String>) -> DumpPlace {
        DumpPlace { source: plain(source), object: plain(&object.into()) }
    }
}

/// A text of a dump without characters that control the terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

impl fmt::Display for DumpPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.object)
    }
}

/// A part of a dump that was left out, or whose meaning here may surprise.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct ConvertProblem {
    #[serde(flatten)]
    pub(crate) place: DumpPlace,
    pub(crate) reason: String,
}

impl fmt::Display for ConvertProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

/// The number of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PieceId(usize);

/// Lines that stay or are left out together.
#[derive(Debug)]
struct Piece {
    text: String,
    /// The piece that it belongs to, and is left out with.
    parent: Option<PieceId>,
    /// Its origin; none for brackets, which only go with their parent.
    place: Option<DumpPlace>,
    is_left_out: bool,
}

/// The configuration so far.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pieces: Vec<Piece>,
    pub(super) left_out: Vec<ConvertProblem>,
    pub(super) warnings: Vec<ConvertProblem>,
}

impl Draft {
    /// Adds lines with an origin.
    pub(super) fn piece(&mut self, parent: Option<PieceId>, place: DumpPlace, text: impl Into<String>) -> PieceId {
        self.push(parent, Some(place), text.into())
    }

    /// Adds lines that belong to a piece, and have no origin of their own.
    pub(super) fn glue(&mut self, parent: PieceId, text: &str) {
        self.push(Some(parent), None, text.to_owned());
    }

    fn push(&mut self, parent: Option<PieceId>, place: Option<DumpPlace>, text: String) -> PieceId {
        self.pieces.push(Piece { text: text.trim_end().to_owned() + "\n", parent, place, is_left_out: false });
        PieceId(self.pieces.len() - 1)
    }

    pub(super) fn leave_out(&mut self, place: DumpPlace, reason: impl Into<String>) {
        self.left_out.push(ConvertProblem { place, reason: plain(&reason.into()) });
    }

    pub(super) fn warn(&mut self, place: DumpPlace, reason: impl Into<String>) {
        self.warnings.push(ConvertProblem { place, reason: plain(&reason.into()) });
    }

    /// The text behind `header`, and the number of its first line of each piece.
    fn text(&self, header: &str) -> (String, Vec<(usize, PieceId)>) {
        let (mut text, mut starts) = (header.to_owned(), Vec::new());
        let mut line = header.lines().count() + 1;
        for (index, piece) in self.pieces.iter().enumerate().filter(|(_, piece)| !piece.is_left_out) {
            starts.push((line, PieceId(index)));
            line += piece.text.lines().count();
            text += &piece.text;
        }
        (text, starts)
    }

    /// Leaves out a piece and all that belong to it.
    fn remove(&mut self, id: PieceId, reason: &str) {
        let mut open = vec![(id, reason.to_owned())];
        while let Some((id, reason)) = open.pop() {
            let piece = &mut self.pieces[id.0];
            if std::mem::replace(&mut piece.is_left_out, true) {
                continue;
            }
            if let Some(place) = piece.place.clone() {
                self.left_out.push(ConvertProblem { place, reason });
            }
            let children = self.pieces.iter().enumerate().filter(|(_, piece)| piece.parent == Some(id));
            open.extend(
                children.map(|(index, _)| (PieceId(index), "it belongs to a part that was left out".to_owned())),
            );
        }
    }

    /// The piece to leave out for an error in its lines: itself, or its parent if it has no origin.
    fn culprit(&self, starts: &[(usize, PieceId)], line: usize) -> Option<PieceId> {
        let at = starts.partition_point(|(start, _)| *start <= line);
        let mut id = starts.get(at.checked_sub(1)?)?.1;
        while self.pieces[id.0].place.is_none() {
            id = self.pieces[id.0].parent?;
        }
        Some(id)
    }

    /// Returns a valid configuration that begins with `header`: all pieces without those that `check` refuses.
    pub(super) fn finish(&mut self, header: &str, catalogue: &Catalogue) -> String {
        // Each round leaves out a piece at least, so that the rounds are bounded.
        loop {
            let (text, starts) = self.text(header);
            let checked = plan::examine(&text, "converted", catalogue);
            if checked.plan.is_some() {
                return text;
            }
            let errors: Vec<&Diagnostic> = checked.diagnostics.errors().collect();
            let mut found: Vec<(PieceId, String)> = errors
                .iter()
                .filter_map(|error| {
                    Some((self.culprit(&starts, error.line)?, format!("{}; {}", error.reason, error.hint)))
                })
                .collect();
            if found.is_empty() {
                // An error of the file as a whole, such as one about too many ports. The last piece is the least important one.
                let reason = errors.first().map_or_else(|| "refused".to_owned(), |error| error.reason.clone());
                found.extend(
                    starts.iter().rev().find(|(_, id)| self.pieces[id.0].place.is_some()).map(|(_, id)| (*id, reason)),
                );
            }
            if found.is_empty() {
                return header.to_owned();
            }
            found.iter().for_each(|(id, reason)| self.remove(*id, reason.trim_end_matches([';', ' '])));
        }
    }
}

/// A string of TOML.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(object: &str) -> DumpPlace {
        DumpPlace::new("dump", object)
    }

    #[test]
    fn pieces_that_check_refuses_are_left_out_with_its_reason() {
        let mut draft = Draft::default();
        let port = draft.piece(None, place("eth0"), "[port.eth0]\ndevice = \"packet:eth0\"");
        draft.glue(port, "address = [");
        draft.piece(Some(port), place("address 1"), "  \"192.0.2.1/24\",");
        draft.piece(Some(port), place("address 2"), "  \"192.0.2.0/24\",");
        draft.glue(port, "]");
        draft.piece(None, place("route 1"), "[[route]]\nto = \"10.0.0.0/8\"\nvia = \"192.0.2.9\"");
        draft.piece(None, place("route 2"), "[[route]]\nto = \"10.1.0.0/16\"\nvia = \"203.0.113.9\"");
        let bad = draft.piece(None, place("Bad"), "[port.Bad]\ndevice = \"packet:eth1\"");
        draft.piece(Some(bad), place("mtu of Bad"), "mtu = 1400");
        let text = draft.finish("version = 1\n", &plane::catalogue());
        assert!(plan::examine(&text, "t", &plane::catalogue()).plan.is_some(), "{text}");
        assert!(
            text.contains("192.0.2.1/24") && text.contains("10.0.0.0/8") && !text.contains("203.0.113.9"),
            "{text}"
        );
        let mut objects: Vec<&str> = draft.left_out.iter().map(|one| one.place.object.as_str()).collect();
        objects.sort_unstable();
        assert_eq!(objects, ["Bad", "address 2", "mtu of Bad", "route 2"]);
        assert!(draft.left_out.iter().all(|one| !one.reason.is_empty()));
    }

    #[test]
    fn strings_are_escaped() {
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }
}
