//! Diagnostics of a configuration: errors and warnings, each with a position, a reason and a hint.

use crate::text::{tidy, visible};
use serde::Serialize;
use std::fmt;
use std::ops::Range;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

/// Limit of stored diagnostics; further ones are only counted.
pub const MOST_DIAGNOSTICS: usize = 1000;

/// Limit of characters in a reason, a hint or a path.
const MESSAGE: usize = 500;
/// Characters of a source line that are shown on either side of the position.
const SHOWN: usize = 90;

/// The severity of a diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The configuration is refused.
    Error,
    /// The configuration is accepted, but probably not as intended.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })
    }
}

/// One error or warning.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Diagnostic {
    /// The file, under the caller's name for it.
    pub file: Arc<str>,
    /// The line, counted from 1; 0 if the file could not be read at all.
    pub line: usize,
    /// The character in the line, counted from 1; 0 if the file could not be read at all.
    pub column: usize,
    /// The key, like `port.lan.mtu` or `route[3].via`; empty for the file as a whole.
    pub path: String,
    /// The problem.
    pub reason: String,
    /// The remedy.
    pub hint: String,
    /// The severity.
    pub severity: Severity,
    /// The excerpt of the file to show, if there is one.
    #[serde(skip)]
    pub(crate) excerpt: Option<Excerpt>,
}

impl fmt::Display for Diagnostic {
    /// One line in the format known from compilers and `grep`: `file:line:column: error: reason; hint`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if self.line > 0 {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        write!(f, " {}: {}", self.severity, self.reason)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "; {}", self.hint) }
    }
}

/// The lines around a position, without control characters. A long line is cut to the surroundings of the position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Excerpt {
    pub text: String,
    /// The number of the first line of `text`, counted from 0.
    pub first_line: usize,
    /// The span within `text`, in bytes.
    pub place: Range<usize>,
}

/// All diagnostics of a configuration, in the order of the file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    #[serde(skip)]
    omitted: usize,
}

impl Diagnostics {
    /// The stored diagnostics, in the order of the file; at most [`MOST_DIAGNOSTICS`].
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// How many more there were.
    pub fn omitted(&self) -> usize {
        self.omitted
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The stored errors.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter().filter(|d| d.severity == Severity::Error)
    }

    /// The stored warnings.
    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter().filter(|d| d.severity == Severity::Warning)
    }

    /// Adds those of another file behind these, with the limit of both.
    pub(crate) fn append(&mut self, mut other: Diagnostics) {
        self.list.append(&mut other.list);
        let surplus = self.list.len().saturating_sub(MOST_DIAGNOSTICS);
        self.list.truncate(MOST_DIAGNOSTICS);
        self.omitted += other.omitted + surplus;
    }

    /// A single error for a file that could not be read.
    pub fn unreadable(file: &str, reason: String, hint: &str) -> Diagnostics {
        Diagnostics::of_file(file, reason, hint, Severity::Error)
    }

    /// A single warning about a file as a whole.
    pub fn warning_of(file: &str, reason: String, hint: &str) -> Diagnostics {
        Diagnostics::of_file(file, reason, hint, Severity::Warning)
    }

    fn of_file(file: &str, reason: String, hint: &str, severity: Severity) -> Diagnostics {
        let diagnostic = Diagnostic {
            file: Arc::from(tidy(file, MESSAGE)),
            line: 0,
            column: 0,
            path: String::new(),
            reason: tidy(&reason, MESSAGE),
            hint: hint.to_string(),
            severity,
            excerpt: None,
        };
        Diagnostics { list: vec![diagnostic], omitted: 0 }
    }
}

impl fmt::Display for Diagnostics {
    /// One line each; [`Diagnostics::render`] shows the source as well.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for diagnostic in &self.list {
            writeln!(f, "{diagnostic}")?;
        }
        if self.omitted > 0 { writeln!(f, "and {} more", self.omitted) } else { Ok(()) }
    }
}

impl std::error::Error for Diagnostics {}

/// A part of the source that was read from another file, with its lines counted from 0.
struct SourceFile {
    /// The file, under the name that messages show.
    name: Arc<str>,
    /// The line before its first line.
    before: usize,
    /// The line after its last line.
    after: usize,
}

/// Collects diagnostics while a source is checked.
pub struct Report<'s> {
    /// The source text.
    pub source: &'s str,
    file: Arc<str>,
    /// Byte offsets of the lines, computed for the first diagnostic.
    lines: Vec<usize>,
    list: Vec<Diagnostic>,
    errors: usize,
    omitted: usize,
    /// The offset of the current part of the source. Spans are relative to it.
    base: usize,
    /// Parts of the source that were read from other files.
    files: Vec<SourceFile>,
    /// Lines with a syntax error. Further errors on them are consequences, so they are not reported.
    broken: std::collections::HashSet<usize>,
}

impl<'s> Report<'s> {
    /// An empty report for `source`; `file` is its name in messages.
    pub fn new(source: &'s str, file: &str) -> Self {
        Report {
            source,
            file: Arc::from(tidy(file, MESSAGE)),
            lines: Vec::new(),
            list: Vec::new(),
            errors: 0,
            omitted: 0,
            base: 0,
            files: Vec::new(),
            broken: Default::default(),
        }
    }

    /// Adds an error at a span. `say` returns reason and hint. It is not called if the report is full.
    pub fn error(&mut self, span: Range<usize>, path: impl fmt::Display, say: impl FnOnce() -> (String, String)) {
        self.errors += 1;
        self.add(Severity::Error, span, path, say);
    }

    /// Adds an error about something missing, unless a syntax error is the likely cause.
    pub fn missing(&mut self, span: Range<usize>, path: impl fmt::Display, say: impl FnOnce() -> (String, String)) {
        if self.broken.is_empty() {
            self.error(span, path, say);
        }
    }

    /// Adds a warning at a span.
    pub fn warning(&mut self, span: Range<usize>, path: impl fmt::Display, say: impl FnOnce() -> (String, String)) {
        self.add(Severity::Warning, span, path, say);
    }

    /// Adds a syntax error. Further errors on its line are not reported.
    pub fn syntax(&mut self, span: Range<usize>, say: impl FnOnce() -> (String, String)) {
        self.error(span.clone(), "", say);
        let line = self.line_of(span.start);
        self.broken.insert(line);
    }

    /// Makes spans relative to the part of the source that begins at `base`; 0 for the whole.
    pub fn read_part(&mut self, base: usize) {
        self.base = base;
    }

    /// The part of the source that spans refer to.
    pub fn part(&self) -> &'s str {
        &self.source[self.base..]
    }

    /// Converts an offset within the part to one in the whole source.
    pub fn source_offset(&self, offset: usize) -> usize {
        self.base + offset
    }

    /// Marks a multi-line string as the contents of a file beside the source. Diagnostics within it then name that file and its lines, and
    /// diagnostics behind it have the lines of the source without it.
    pub fn read_from(&mut self, span: &Range<usize>, file: &str) {
        let span = self.source_span(span.clone());
        let (before, after) = (self.line_of(span.start), self.line_of(span.end));
        let name = beside(&self.file, file);
        self.files.push(SourceFile { name: Arc::from(tidy(&name.to_string_lossy(), MESSAGE)), before, after });
    }

    /// True if there was an error; warnings do not count.
    pub fn failed(&self) -> bool {
        self.errors > 0
    }

    /// The number of errors, including those not stored.
    pub fn error_count(&self) -> usize {
        self.errors
    }

    /// True if the file has syntax errors, so that some parts of it were not checked.
    pub fn has_syntax_errors(&self) -> bool {
        !self.broken.is_empty()
    }

    /// The line of an offset, counted from 1.
    pub fn line(&mut self, offset: usize) -> usize {
        self.line_of(offset) + 1
    }

    fn add(
        &mut self,
        severity: Severity,
        span: Range<usize>,
        path: impl fmt::Display,
        say: impl FnOnce() -> (String, String),
    ) {
        // Warnings may fill only half of the list, so that there is room for errors.
        let room = if severity == Severity::Error { MOST_DIAGNOSTICS } else { MOST_DIAGNOSTICS / 2 };
        if self.list.len() >= room {
            self.omitted += 1;
            return;
        }
        let span = self.source_span(span);
        let line = self.line_of(span.start);
        if self.broken.contains(&line) {
            return;
        }
        let column = self.source[self.lines[line]..span.start].chars().count();
        let (reason, hint) = say();
        self.list.push(Diagnostic {
            file: self.file.clone(),
            line: line + 1,
            column: column + 1,
            path: tidy(&path.to_string(), MESSAGE),
            reason: tidy(&reason, MESSAGE),
            hint: tidy(&hint, MESSAGE),
            severity,
            excerpt: Some(self.excerpt(line, span)),
        });
    }

    /// The span in the whole source, on character boundaries.
    fn source_span(&self, span: Range<usize>) -> Range<usize> {
        let span = self.base.saturating_add(span.start)..self.base.saturating_add(span.end);
        let start = self.source.floor_char_boundary(span.start.min(self.source.len()));
        let end = self.source.floor_char_boundary(span.end.clamp(start, self.source.len()));
        start..end
    }

    /// The line of an offset, counted from 0.
    fn line_of(&mut self, offset: usize) -> usize {
        if self.lines.is_empty() {
            let ends = self.source.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
            self.lines = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        }
        self.lines.partition_point(|start| *start <= offset) - 1
    }

    fn line_text(&self, line: usize) -> &'s str {
        let end = self.lines.get(line + 1).copied().unwrap_or(self.source.len());
        self.source[self.lines[line]..end].trim_end_matches(['\n', '\r'])
    }

    /// The span with the lines around it. A span of several lines is shown by its first.
    fn excerpt(&self, line: usize, span: Range<usize>) -> Excerpt {
        let text = self.line_text(line);
        let start = (span.start - self.lines[line]).min(text.len());
        let end = (span.end - self.lines[line]).clamp(start, text.len());
        let (before, place, after) = (&text[..start], &text[start..end], &text[end..]);
        let near = |text: &str| text.chars().nth(SHOWN).is_none();
        // Lines around the contents of a file belong to the configuration, and have the quotes of the string with the contents.
        let part = |line: usize| self.files.iter().position(|file| (file.before + 1..file.after).contains(&line));
        let is_shown = |near: &usize| {
            let quotes = self.files.iter().any(|file| [file.before, file.after].contains(near));
            part(*near) == part(line) && !quotes
        };
        let whole = |line: usize| {
            Some(line).filter(is_shown).map(|line| self.line_text(line)).filter(|text| near(text)).map(clean)
        };
        let first = line.checked_sub(1).and_then(whole);
        let last = (line + 1 < self.lines.len()).then(|| whole(line + 1)).flatten().filter(|text| !text.is_empty());
        let mut out = String::new();
        if let Some(first) = &first {
            out.push_str(first);
            out.push('\n');
        }
        match before.char_indices().rev().nth(SHOWN) {
            Some((cut, _)) => {
                out.push('…');
                out.push_str(&clean(&before[cut..]));
            }
            None => out.push_str(&clean(before)),
        }
        let from = out.len();
        out.push_str(&tidy(place, SHOWN));
        let place = from..out.len();
        out.push_str(&tidy(after, SHOWN));
        if let Some(last) = &last {
            out.push('\n');
            out.push_str(last);
        }
        Excerpt { text: out, first_line: line - usize::from(first.is_some()), place }
    }

    /// All diagnostics, in the order of the file.
    pub fn finish(mut self) -> Diagnostics {
        self.list.sort_by_key(|d| (d.line, d.column));
        for diagnostic in &mut self.list {
            let mut removed = 0;
            for file in &self.files {
                let line = diagnostic.line - 1;
                if (file.before + 1..file.after).contains(&line) {
                    diagnostic.file = file.name.clone();
                    removed = file.before + 1;
                    break;
                }
                removed += if line >= file.after { file.after - file.before } else { 0 };
            }
            diagnostic.line -= removed;
            if let Some(excerpt) = &mut diagnostic.excerpt {
                excerpt.first_line = excerpt.first_line.saturating_sub(removed);
            }
        }
        Diagnostics { list: self.list, omitted: self.omitted }
    }
}

/// The path of a file that a configuration names: a relative one starts at the configuration's directory.
pub(crate) fn beside(configuration: &str, file: &str) -> PathBuf {
    FilePath::new(configuration).parent().unwrap_or(FilePath::new("")).join(file)
}

/// The absolute name of a file that begins at the directory of the configuration file.
pub(crate) fn absolute_beside(configuration: &str, file: &str) -> String {
    let joined = beside(configuration, file);
    // It only fails without a working directory.
    std::path::absolute(&joined).unwrap_or(joined).to_string_lossy().into_owned()
}

/// Reports errors in lines of a text: the line number, counted from 1 and ascending, the reason and the hint of each.
pub fn refuse_lines(source: &str, file: &str, wrong: impl IntoIterator<Item = (usize, String, String)>) -> Diagnostics {
    let mut report = Report::new(source, file);
    let mut starts = source.split_inclusive('\n').scan(0, |start, line| {
        *start += line.len();
        Some(*start - line.len()..*start - line.len() + line.trim_end().len())
    });
    let mut at = 0;
    for (line, reason, hint) in wrong {
        let span = starts.nth(line - 1 - at).unwrap_or(0..0);
        at = line;
        report.error(span, "", || (reason, hint));
    }
    report.finish()
}

/// Reason and hint for a list that exceeds its limit.
pub(crate) fn more_than(most: usize, what: &str) -> (String, String) {
    (format!("there are more than {most} {what}"), format!("use at most {most}"))
}

/// A source line for display: tabs are one column wide, so that markers stay aligned.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c == '\t' { ' ' } else { visible(c) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn say() -> (String, String) {
        ("reason".to_string(), "hint".to_string())
    }

    #[test]
    fn lines_and_columns_are_counted_from_one_in_characters() {
        let mut report = Report::new("a = 1\r\nüß = 2\n", "f");
        report.error(7..11, "x", say);
        report.error(14..15, "x", say);
        report.error(0..1, "x", say);
        let places: Vec<_> = report.finish().list.iter().map(|d| (d.line, d.column)).collect();
        assert_eq!(places, [(1, 1), (2, 1), (2, 6)]);
    }

    #[test]
    fn surplus_errors_are_counted_not_stored() {
        let source = "x\n".repeat(5000);
        let mut report = Report::new(&source, "f");
        for line in 0..5000 {
            report.error(line * 2..line * 2 + 1, "x", say);
        }
        let found = report.finish();
        assert_eq!((found.list.len(), found.omitted), (MOST_DIAGNOSTICS, 4000));
        assert!(found.to_string().ends_with("and 4000 more\n"));
    }

    proptest! {
        #[test]
        fn any_span_of_any_source_can_be_shown(source: String, start in 0usize..40, length in 0usize..40) {
            let mut report = Report::new(&source, "f");
            report.error(start..start + length, "path", say);
            let found = report.finish();
            prop_assert_eq!(found.list.len(), 1);
            prop_assert!(!found.render(false).is_empty());
        }
    }
}
