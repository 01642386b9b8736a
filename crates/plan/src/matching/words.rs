//! The words of a match or a rule, each with its offset, so that an error can mark it.

use crate::text::TextError;

/// A word, a list in braces, or a text in quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'t> {
    pub offset: usize,
    pub text: &'t str,
}

impl<'t> Word<'t> {
    /// An error that marks the word.
    pub fn wrong<T>(self, reason: impl Into<String>, hint: impl Into<String>) -> Result<T, TextError> {
        Err(TextError { offset: self.offset, length: self.text.len(), reason: reason.into(), hint: hint.into() })
    }

    /// True for a list in braces.
    pub fn is_list(self) -> bool {
        self.text.starts_with('{')
    }

    /// The values of a list, which commas separate. Braces are optional.
    pub fn values(self) -> impl Iterator<Item = Word<'t>> {
        let inner = self.text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        let (inner, offset) = inner.map_or((self.text, self.offset), |inner| (inner, self.offset + 1));
        inner.split(',').map(move |value| {
            let text = value.trim();
            let at = text.as_ptr().addr() - inner.as_ptr().addr();
            // An empty value is marked by the comma or brace behind it.
            Word { offset: offset + at, text }
        })
    }

    /// The text without its quotes, if it has any.
    pub fn unquoted(self) -> &'t str {
        self.text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(self.text)
    }
}

/// Divides a text. Spaces separate words, but not within braces or quotes.
pub(crate) fn words(text: &str) -> Result<Vec<Word<'_>>, TextError> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(words);
        }
        let space = || rest.find(|c: char| c.is_whitespace() || c == '{').unwrap_or(rest.len());
        let length = match rest.as_bytes()[0] {
            b'{' => rest.find('}').map_or(rest.len(), |at| at + 1),
            // The word's reader reports a missing quote.
            b'"' => rest[1..].find('"').map_or_else(space, |at| at + 2),
            _ => space(),
        };
        let word = Word { offset: text.len() - rest.len(), text: &rest[..length] };
        if word.is_list() && !word.text.ends_with('}') {
            return Word { text: word.text.trim_end(), ..word }.wrong("the list is not closed", "add '}'");
        }
        words.push(word);
        rest = &rest[length..];
    }
}
