//! Parses configurations with very many `[[route]]` tables in chunks. The tree of a parsed route takes more than a kilobyte, the route itself less
//! than a hundred bytes. The tree of a million routes would take two gigabytes during a check. So a chunk's tree is freed before the next one is
//! parsed.

use std::ops::Range;

/// The number of route tables from which on a configuration is divided. Smaller trees take a few megabytes.
pub(crate) const LEAST: usize = 4096;
/// Route tables of a chunk.
pub(crate) const TABLES: usize = 4096;

/// A configuration in chunks has a syntax error, or routes outside of them.
pub(crate) struct BadSyntax;

/// A configuration whose `[[route]]` tables are separated.
#[derive(Debug)]
pub(crate) struct Chunks {
    /// The configuration with spaces in place of these tables, so that offsets stay the same.
    pub rest: String,
    /// The spans of the chunks, in order.
    pub ranges: Vec<Range<usize>>,
    /// The number of tables.
    pub routes: usize,
}

/// Divides a configuration with at least `least` `[[route]]` tables into chunks of `tables`. `None` if it has fewer, or a multi-line string, in which
/// a line may only look like a header.
pub(crate) fn divide(source: &str, least: usize, tables: usize) -> Option<Chunks> {
    if source.matches(HEADER).take(least).count() < least || source.contains("\"\"\"") || source.contains("'''") {
        return None;
    }
    let (mut ranges, mut routes, mut held): (Vec<Range<usize>>, _, _) = (Vec::new(), 0, 0);
    let (mut offset, mut inside) = (0, false);
    for line in source.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            // A line in an array may begin with a bracket, too. It then ends the chunk early, and the parser of the chunk reports a syntax error. The
            // caller parses the whole text in that case.
            let header = is_header(line);
            if header {
                if !inside || held == tables {
                    ranges.push(offset..offset);
                    held = 0;
                }
                held += 1;
                routes += 1;
            }
            inside = header;
        }
        offset += line.len();
        if let Some(last) = ranges.last_mut().filter(|_| inside) {
            last.end = offset;
        }
    }
    let mut rest = String::with_capacity(source.len());
    for range in &ranges {
        rest.push_str(&source[rest.len()..range.start]);
        rest.extend(std::iter::repeat_n(' ', range.len().saturating_sub(1)));
        // A header needs the end of its line.
        rest.extend((!range.is_empty()).then_some('\n'));
    }
    rest.push_str(&source[rest.len()..]);
    Some(Chunks { rest, ranges, routes })
}

const HEADER: &str = "[[route]]";

/// True if a line is only the header of a route, possibly with a comment.
fn is_header(line: &str) -> bool {
    let behind = line.trim_start().strip_prefix(HEADER).map(str::trim_start);
    behind.is_some_and(|behind| behind.is_empty() || behind.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "version = 1\n[[route]]\nto = 'a'\n\n  [[route]] # ü\nvia = [\n 'b']\n[port.lan]\nmtu = 1\n[[route]]\nto = 'c'";

    #[test]
    fn route_tables_are_separated_and_the_rest_keeps_its_offsets() {
        for tables in [1, 2, 9] {
            let chunks = divide(TEXT, 3, tables).unwrap();
            assert_eq!((chunks.routes, chunks.rest.len()), (3, TEXT.len()), "{tables}");
            let texts: Vec<&str> = chunks.ranges.iter().map(|range| &TEXT[range.clone()]).collect();
            let (first, second) = ("[[route]]\nto = 'a'\n\n", "  [[route]] # ü\nvia = [\n 'b']\n");
            let expected = match tables {
                1 => vec![first.to_owned(), second.to_owned(), "[[route]]\nto = 'c'".to_owned()],
                _ => vec![format!("{first}{second}"), "[[route]]\nto = 'c'".to_owned()],
            };
            assert_eq!(texts, expected, "{tables}");
            assert_eq!(chunks.rest.find("[port.lan]"), TEXT.find("[port.lan]"), "{tables}");
            assert!(!chunks.rest.contains("route"), "{}", chunks.rest);
        }
    }

    #[test]
    fn configuration_that_cannot_be_divided_safely_stays_whole() {
        assert!(divide(TEXT, 4, 1).is_none(), "it has too few");
        assert!(divide(&format!("{TEXT}\nname = \"\"\"\n[[route]]\n\"\"\""), 3, 1).is_none());
        assert!(divide(&format!("{TEXT}\nname = '''x'''"), 3, 1).is_none());
        assert!(divide("[[ route ]]\n", 1, 1).is_none());
        assert_eq!(divide("x = 1 # [[route]]\n", 1, 1).unwrap().routes, 0);
    }
}
