//! Fills in the files of rules that a configuration names: `filter = { file = "acl.rules" }` gets their contents as `rules`.
//!
//! The result is a configuration that depends on no other file. The router stores that one, so that a rollback has the rules of its time.

use crate::diagnostic::{Diagnostics, Report, beside};
use crate::document::Path;
use crate::section::ROOT;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// A file to fill in.
struct Inclusion<'a> {
    /// The table that names it.
    table: &'static str,
    file: &'a str,
    /// The position of its name.
    span: Range<usize>,
    /// True within braces, where a comma separates keys.
    inline: bool,
}

/// The configuration with the contents of its files of rules, each of at most `most` bytes. A table that has `rules` already stays as it is.
///
/// Relative names of files start at the directory of `file_name`. Errors are those of reading the files; [`crate::check()`] finds all others.
pub(crate) fn include(source: &str, file_name: &str, most: usize) -> Result<String, Diagnostics> {
    let (tree, _) = DeTable::parse_recoverable(source);
    let mut inclusions = Vec::new();
    let paths = tree.get_ref().get("path").map(|paths| paths.get_ref());
    if let Some(DeValue::Array(paths)) = paths {
        inclusions.extend(paths.iter().filter_map(|path| inclusion(source, path.get_ref(), ("path", "filter"))));
    }
    let routing = tree.get_ref().get("routing").map(|routing| routing.get_ref());
    inclusions.extend(routing.and_then(|routing| inclusion(source, routing, ("routing", "rules"))));
    // The text is copied in its order.
    inclusions.sort_by_key(|inclusion| inclusion.span.start);
    let mut report = Report::new(source, file_name);
    let mut out = String::with_capacity(source.len());
    let mut copied = 0;
    for Inclusion { table, file, span, inline } in inclusions {
        match read(file_name, file, most) {
            Ok(text) => {
                out.push_str(&source[copied..span.end]);
                copied = span.end;
                out.push_str(if inline { ", rules = '''\n" } else { "\nrules = '''\n" });
                out.push_str(&text);
                out.push_str("'''");
            }
            Err((reason, hint)) => {
                report.error(span, Path::Key(&Path::Root(ROOT), table), || (reason, hint.to_string()));
            }
        }
    }
    if report.failed() {
        return Err(report.finish());
    }
    out.push_str(&source[copied..]);
    Ok(out)
}

/// The file of the key `key` of a table.
fn inclusion<'a>(source: &str, owner: &'a DeValue<'a>, (name, key): (&'static str, &str)) -> Option<Inclusion<'a>> {
    let DeValue::Table(owner) = owner else { return None };
    let rules = owner.get(key)?;
    let DeValue::Table(table) = rules.get_ref() else { return None };
    let file = table.get("file").filter(|_| !table.contains_key("rules"))?;
    let DeValue::String(text) = file.get_ref() else { return None };
    let inline = source.get(rules.span()).is_some_and(|text| text.starts_with('{'));
    Some(Inclusion { table: name, file: text, span: file.span(), inline })
}

/// The lines of a file of rules, so that they can stand between `'''`.
fn read(configuration: &str, file: &str, most: usize) -> Result<String, (String, &'static str)> {
    let path = beside(configuration, file);
    let failed = |error: std::io::Error| {
        (format!("'{}' cannot be read: {error}", path.display()), "correct the name of the file, or its permissions")
    };
    let mut text = String::new();
    // One byte more than the limit shows a file that is too large.
    File::open(&path).and_then(|file| file.take(most as u64 + 1).read_to_string(&mut text)).map_err(failed)?;
    if text.len() > most {
        return Err((format!("'{}' is larger than {} MiB", path.display(), most >> 20), "use lists in its rules"));
    }
    // TOML normalizes line ends, and positions must stay the same.
    let mut text = text.replace("\r\n", "\n");
    if let Some(at) = text.find("'''").or_else(|| text.find(|c: char| c.is_control() && c != '\n' && c != '\t')) {
        let line = text[..at].matches('\n').count() + 1;
        let reason = format!("line {line} of '{}' has ''' or a control character", path.display());
        return Err((reason, "remove it: no rule needs it"));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}
