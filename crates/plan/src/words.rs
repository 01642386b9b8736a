//! The words of a line that changes something while the router runs: names, which may be in quotes, keywords and values. `#` begins a comment.

use crate::share::ShareName;
use crate::text::{TextError, quote};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use units::UnitError;

/// A word of a line.
#[derive(Clone, Copy)]
pub(crate) struct Word<'t> {
    /// The word, without its quotes.
    pub text: &'t str,
    /// Its position in the line, with its quotes.
    pub offset: usize,
    length: usize,
    pub is_quoted: bool,
}

impl Word<'_> {
    pub fn wrong(self, reason: impl Into<String>, hint: impl Into<String>) -> TextError {
        TextError { offset: self.offset, length: self.length, reason: reason.into(), hint: hint.into() }
    }

    pub fn is(self, keyword: &str) -> bool {
        !self.is_quoted && self.text == keyword
    }

    pub fn name(self) -> Result<ShareName, TextError> {
        if !self.is_quoted && ShareName::needs_quotes(self.text) {
            let reason = format!("the name {} has a character that separates names elsewhere", quote(self.text));
            return Err(self.wrong(reason, format!("write it in quotes: \"{}\"", self.text)));
        }
        ShareName::new(self.text).map_err(|error| self.wrong(error.reason, error.hint))
    }

    /// The value of an option with its unit, within a range.
    pub fn quantity<T>(self, range: RangeInclusive<T>) -> Result<T, TextError>
    where
        T: FromStr<Err = UnitError> + PartialOrd + fmt::Display,
    {
        let value = self.text.parse::<T>().map_err(|error| self.wrong(error.reason, error.hint))?;
        self.within(value, range)
    }

    /// The value of an option without a unit, within a range.
    pub fn number<T>(self, range: RangeInclusive<T>, what: &str) -> Result<T, TextError>
    where
        T: FromStr + PartialOrd + fmt::Display,
    {
        // `parse` accepts "+8"; a line does not.
        let value = if self.text.starts_with('+') { None } else { self.text.parse::<T>().ok() };
        let Some(value) = value else {
            let hint = format!("write a number from {} to {}", range.start(), range.end());
            return Err(self.wrong(format!("{} is no {what}", quote(self.text)), hint));
        };
        self.within(value, range)
    }

    fn within<T: PartialOrd + fmt::Display>(self, value: T, range: RangeInclusive<T>) -> Result<T, TextError> {
        if range.contains(&value) {
            return Ok(value);
        }
        Err(self.wrong(format!("{value} is out of range"), format!("give {} to {}", range.start(), range.end())))
    }
}

/// The words of a line that have not been read.
pub(crate) struct Words<'t> {
    pub text: &'t str,
    pub at: usize,
}

impl<'t> Words<'t> {
    pub fn is_blank(&self) -> bool {
        matches!(self.text.trim_start().bytes().next(), None | Some(b'#'))
    }

    /// The next word; `None` at the end of the line or before a comment.
    pub fn next(&mut self) -> Result<Option<Word<'t>>, TextError> {
        let rest = self.text[self.at..].trim_start();
        let offset = self.text.len() - rest.len();
        self.at = offset;
        if rest.is_empty() || rest.starts_with('#') {
            return Ok(None);
        }
        let end = match rest.strip_prefix('"') {
            Some(inner) => match inner.find('"') {
                Some(end) => end + 2,
                None => {
                    let word = Word { text: rest, offset, length: rest.trim_end().len(), is_quoted: true };
                    return Err(word.wrong("the quote is not closed", "add '\"' after the name"));
                }
            },
            None => rest.find(|c: char| c.is_whitespace() || c == '#').unwrap_or(rest.len()),
        };
        let (whole, behind) = rest.split_at(end);
        let is_quoted = whole.starts_with('"');
        let text = if is_quoted { &whole[1..end - 1] } else { whole };
        let word = Word { text, offset, length: end, is_quoted };
        if is_quoted && !behind.is_empty() && !behind.starts_with(|c: char| c.is_whitespace() || c == '#') {
            return Err(word.wrong("a quote ends in the middle of a word", "write a blank after the closing quote"));
        }
        self.at += end;
        Ok(Some(word))
    }

    /// The next word as the name of a share.
    pub fn share_name(&mut self, example: &str) -> Result<ShareName, TextError> {
        self.needed("the name of the share", example)?.name()
    }

    /// The next word, which must be there.
    pub fn needed(&mut self, what: &str, example: &str) -> Result<Word<'t>, TextError> {
        self.next()?.ok_or_else(|| {
            let (offset, reason) = (self.text[..self.at].trim_end().len(), format!("{what} is missing"));
            TextError { offset, length: 0, reason, hint: format!("write it, as in '{example}'") }
        })
    }

    pub fn end(&mut self) -> Result<(), TextError> {
        match self.next()? {
            None => Ok(()),
            Some(word) => Err(word.wrong(format!("unexpected {}", quote(word.text)), "remove it")),
        }
    }
}
