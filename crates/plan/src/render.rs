//! Diagnostics for people: the lines of the file with the position marked.

use crate::diagnostic::{Diagnostic, Diagnostics, Excerpt, Severity};
use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents, SourceCode, SourceSpan,
    SpanContents,
};
use std::fmt::{self, Display, Write};

/// Column at which messages are wrapped.
const WIDTH: usize = 110;

impl Diagnostics {
    /// Every diagnostic with its source lines, and a summary; `colour` is for terminals.
    pub fn render(&self, colour: bool) -> String {
        let theme = if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler =
            GraphicalReportHandler::new_themed(theme).with_width(WIDTH).with_context_lines(1).with_links(false);
        let mut out = String::new();
        for diagnostic in self.list() {
            if handler.render_report(&mut out, &RenderedDiagnostic::of(diagnostic)).is_err() {
                // If the excerpt cannot be drawn, print at least the position.
                out.push_str(&diagnostic.to_string());
            }
            out.push('\n');
        }
        out.push_str(&self.summary());
        out
    }

    /// `3 errors, 1 warning`, with a newline; empty without diagnostics.
    pub fn summary(&self) -> String {
        let count = |n: usize, what: &str| (n > 0).then(|| format!("{n} {what}{}", if n == 1 { "" } else { "s" }));
        let parts = [count(self.errors().count(), "error"), count(self.warnings().count(), "warning")];
        let mut out = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        if self.omitted() > 0 {
            let _ = write!(out, ", and {} more not shown", self.omitted());
        }
        if !out.is_empty() {
            out.push('\n');
        }
        out
    }
}

/// A diagnostic for miette.
#[derive(Debug)]
struct RenderedDiagnostic<'d> {
    diagnostic: &'d Diagnostic,
    source: Option<ExcerptSource<'d>>,
}

impl<'d> RenderedDiagnostic<'d> {
    fn of(diagnostic: &'d Diagnostic) -> Self {
        let source = diagnostic.excerpt.as_ref().map(|excerpt| ExcerptSource { diagnostic, excerpt });
        RenderedDiagnostic { diagnostic, source }
    }
}

impl Display for RenderedDiagnostic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.source.is_none() {
            write!(f, "{}: ", self.diagnostic.file)?;
        }
        f.write_str(&self.diagnostic.reason)
    }
}

impl std::error::Error for RenderedDiagnostic<'_> {}

impl miette::Diagnostic for RenderedDiagnostic<'_> {
    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.diagnostic.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn Display + 'a>> {
        let hint = &self.diagnostic.hint;
        if hint.is_empty() { None } else { Some(Box::new(hint)) }
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let place = self.source.as_ref()?.excerpt.place.clone();
        let path = &self.diagnostic.path;
        let label = (!path.is_empty()).then(|| path.clone());
        Some(Box::new(std::iter::once(LabeledSpan::new(label, place.start, place.len()))))
    }
}

/// The excerpt of a diagnostic as a source for miette. The whole file is not kept, to save a copy of a million routes.
#[derive(Debug)]
struct ExcerptSource<'d> {
    diagnostic: &'d Diagnostic,
    excerpt: &'d Excerpt,
}

impl SourceCode for ExcerptSource<'_> {
    fn read_span<'a>(
        &'a self,
        _span: &SourceSpan,
        before: usize,
        _after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let text = self.excerpt.text.as_str();
        // A request without context lines asks for the position in the title line.
        let (line, column) = match before {
            0 => (self.diagnostic.line - 1, self.diagnostic.column - 1),
            _ => (self.excerpt.first_line, 0),
        };
        let span = SourceSpan::from(0..text.len());
        let lines = text.lines().count();
        let name = self.diagnostic.file.to_string();
        Ok(Box::new(MietteSpanContents::new_named(name, text.as_bytes(), span, line, column, lines)))
    }
}
