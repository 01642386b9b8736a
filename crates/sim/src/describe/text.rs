//! Parsers for the strings of a description.

use plan::Report;
use std::fmt::Display;
use std::ops::Range;
use std::str::FromStr;
use toml::Spanned;
use units::UnitError;

/// A text with its position in the file.
pub(super) type Text = Spanned<String>;

/// The reason of an error, and a hint.
pub(super) type ErrorHint = (String, String);

/// Parses a text, or reports the error.
pub(super) fn parsed<T>(
    report: &mut Report<'_>,
    text: &Text,
    path: &str,
    read: impl FnOnce(&str) -> Result<T, ErrorHint>,
) -> Option<T> {
    match read(text.get_ref()) {
        Ok(value) => Some(value),
        Err(wrong) => {
            report.error(text.span(), path, || wrong);
            None
        }
    }
}

/// Parses a quantity with its unit.
pub(super) fn quantity<T: FromStr<Err = UnitError>>(report: &mut Report<'_>, text: &Text, path: &str) -> Option<T> {
    parsed(report, text, path, |text| text.parse().map_err(|error: UnitError| (error.reason, error.hint)))
}

/// The same for an optional key.
pub(super) fn quantity_or<T: FromStr<Err = UnitError>>(
    report: &mut Report<'_>,
    text: &Option<Text>,
    path: impl Display,
    default: T,
) -> T {
    text.as_ref().and_then(|text| quantity(report, text, &path.to_string())).unwrap_or(default)
}

/// Checks a number against bounds.
pub(super) fn within(
    report: &mut Report<'_>,
    value: &Option<Spanned<i64>>,
    path: impl Display,
    (least, most): (u64, u64),
    default: u64,
) -> u64 {
    let Some(value) = value else { return default };
    match u64::try_from(*value.get_ref()).ok().filter(|number| (least..=most).contains(number)) {
        Some(number) => number,
        None => {
            let given = *value.get_ref();
            report.error(value.span(), path, || {
                (format!("{given} is out of range"), format!("give {least} to {most}; the default is {default}"))
            });
            default
        }
    }
}

/// A copy of the file in which everything except this text is blank. So the lines and columns of error messages are those of the file.
pub(super) fn blank_outside(source: &str, span: Range<usize>) -> Result<String, ErrorHint> {
    let raw = source.get(span.clone()).unwrap_or("");
    let quotes = "'''";
    if raw.len() < 6 || !raw.starts_with(quotes) || !raw.ends_with(quotes) {
        return Err((
            "the text is not between ''' and '''".into(),
            "write ''' at the end of the line of the key, then the text, then ''' on a line of its own".into(),
        ));
    }
    let blank = |text: &str| -> String { text.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect() };
    let (start, end) = (span.start + 3, span.end - 3);
    Ok(blank(&source[..start]) + &source[start..end] + &blank(&source[end..]))
}
