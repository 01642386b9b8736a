//! Tables of comma-separated values (RFC 4180) with a header line, lines of comments from `#` on, and the position of each cell.

use crate::diagnostic::Report;
use csv::{ReaderBuilder, StringRecord};
use std::ops::Range;

/// A table that is read row by row. Rows may have fewer or more cells than the header.
pub(super) struct Spreadsheet<'s> {
    source: &'s str,
    reader: csv::Reader<&'s [u8]>,
    record: StringRecord,
    /// The start of the last row.
    start: usize,
}

/// A row with at least one cell that is not empty.
#[derive(Clone, Copy)]
pub(super) struct Row<'r> {
    source: &'r str,
    record: &'r StringRecord,
    /// The offset of its first character.
    pub start: usize,
}

impl<'s> Spreadsheet<'s> {
    pub fn new(source: &'s str) -> Self {
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .comment(Some(b'#'))
            .buffer_capacity(1 << 16)
            .from_reader(source.as_bytes());
        Spreadsheet { source, reader, record: StringRecord::new(), start: 0 }
    }

    /// The next row; `None` at the end, or after an error.
    pub fn next(&mut self, report: &mut Report<'_>) -> Option<Row<'_>> {
        loop {
            match self.reader.read_record(&mut self.record) {
                Ok(true) => {}
                Ok(false) => {
                    let (cell, is_closed) = last_cell(self.source, self.start);
                    if !is_closed {
                        report.error(cell.start..cell.start + 1, "", || {
                            let reason = "the quote is not closed, so that the cell ends with the file".to_string();
                            (reason, "add '\"' at the end of the cell".to_string())
                        });
                    }
                    return None;
                }
                Err(error) => {
                    let at = error.position().map_or(self.source.len(), |position| position.byte() as usize);
                    report.error(at..at, "", || (error.to_string(), "correct the table here".to_string()));
                    return None;
                }
            }
            let position = self.record.position().map_or(0, |position| position.byte() as usize);
            self.start = row_start(self.source, position);
            if self.record.iter().any(|cell| !cell.trim().is_empty()) {
                break;
            }
        }
        Some(Row { source: self.source, record: &self.record, start: self.start })
    }
}

impl<'r> Row<'r> {
    /// A cell without the blanks around it; empty if the row does not have it.
    pub fn cell(&self, column: usize) -> &'r str {
        self.record.get(column).unwrap_or_default().trim()
    }

    /// The cells.
    pub fn cells(&self) -> impl Iterator<Item = &'r str> {
        self.record.iter().map(str::trim)
    }

    /// The position of a cell, without its quotes.
    pub fn place(&self, column: usize) -> Range<usize> {
        cell_place(self.source, self.start, column)
    }
}

/// The position of a cell in the row that begins at `start`, without its quotes. That of the end of the row if it has no such cell.
pub(super) fn cell_place(source: &str, start: usize, column: usize) -> Range<usize> {
    let mut cells = Cells { source, at: Some(start) };
    match cells.by_ref().nth(column) {
        Some((place, _)) => place,
        None => {
            let end = Cells { source, at: Some(start) }.last().map_or(start, |(place, _)| place.end);
            end..end
        }
    }
}

/// The last cell of the row that begins at `start`, and whether its quote is closed.
fn last_cell(source: &str, start: usize) -> (Range<usize>, bool) {
    Cells { source, at: Some(start) }.last().unwrap_or((start..start, true))
}

/// The start of the row that the reader found at an offset: behind a byte order mark, blank lines and comments.
fn row_start(source: &str, offset: usize) -> usize {
    let mut rest = source.get(offset..).unwrap_or_default();
    rest = rest.strip_prefix('\u{feff}').filter(|_| offset == 0).unwrap_or(rest);
    loop {
        rest = rest.trim_start_matches(['\r', '\n']);
        match rest.starts_with('#') {
            true => rest = rest.find('\n').map_or("", |end| &rest[end..]),
            false => return source.len() - rest.len(),
        }
    }
}

/// The positions of the cells of a row. Each has a flag that is false if its quote is not closed.
struct Cells<'s> {
    source: &'s str,
    at: Option<usize>,
}

impl Iterator for Cells<'_> {
    type Item = (Range<usize>, bool);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at?;
        let bytes = self.source.as_bytes();
        let (mut at, mut is_closed) = (start, true);
        if bytes.get(at) == Some(&b'"') {
            at += 1;
            loop {
                match (bytes.get(at), bytes.get(at + 1)) {
                    (None, _) => break is_closed = false,
                    (Some(b'"'), Some(b'"')) => at += 2,
                    (Some(b'"'), _) => break at += 1,
                    _ => at += 1,
                }
            }
        }
        at += bytes[at..].iter().position(|byte| matches!(byte, b',' | b'\r' | b'\n')).unwrap_or(bytes.len() - at);
        self.at = (bytes.get(at) == Some(&b',')).then_some(at + 1);
        let whole = self.source[start..at].trim();
        let inner = whole.strip_prefix('"').map_or(whole, |inner| inner.strip_suffix('"').unwrap_or(inner)).trim();
        let begin = inner.as_ptr().addr() - self.source.as_ptr().addr();
        Some((begin..begin + inner.len(), is_closed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_values_and_places() {
        let text = "\u{feff}# list\r\n\r\na, b ,\"c, \"\"d\"\"\"\r\n#x\n,,\n \n\"1\",,\"é\n2\"\n";
        let mut report = Report::new(text, "f");
        let mut table = Spreadsheet::new(text);
        let mut found = Vec::new();
        while let Some(row) = table.next(&mut report) {
            found.extend(
                (0..=row.cells().count())
                    .map(|column| (row.cell(column).to_string(), text[row.place(column)].to_string())),
            );
        }
        let text = |text: &str| text.to_string();
        let wanted = [
            ("a", "a"),
            ("b", "b"),
            ("c, \"d\"", "c, \"\"d\"\""),
            ("", ""),
            ("1", "1"),
            ("", ""),
            ("é\n2", "é\n2"),
            ("", ""),
        ];
        assert_eq!(found, wanted.map(|(cell, place)| (text(cell), text(place))));
        assert!(!report.failed());
    }

    #[test]
    fn open_quote_is_an_error_at_its_start() {
        let text = "a,b\n1,\"2\n3,4\n";
        let mut report = Report::new(text, "f");
        let mut table = Spreadsheet::new(text);
        while table.next(&mut report).is_some() {}
        let errors = report.finish();
        assert_eq!(
            errors.list().iter().map(|error| (error.line, error.column)).collect::<Vec<_>>(),
            [(2, 4)],
            "{errors}"
        );
    }
}
