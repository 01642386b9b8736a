//! Short texts in the configuration: their errors, quoting, and suggestions.

use std::fmt;

/// An error in a text: its position, the reason and a correction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError {
    /// Byte offset of the wrong part.
    pub offset: usize,
    /// Length of the wrong part in bytes; may be zero at the end of the text.
    pub length: usize,
    /// The problem.
    pub reason: String,
    /// The correction.
    pub hint: String,
}

impl TextError {
    /// An error in the whole of `text`.
    pub(crate) fn whole(text: &str, reason: impl Into<String>, hint: impl Into<String>) -> Self {
        TextError { offset: 0, length: text.len(), reason: reason.into(), hint: hint.into() }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at character {}); {}", self.reason, self.offset + 1, self.hint)
    }
}

impl std::error::Error for TextError {}

/// Limit of characters that a message quotes.
const QUOTED: usize = 60;

/// A text of the operator for a message: quoted, shortened, without control characters.
pub fn quote(text: &str) -> String {
    format!("'{}'", tidy(text, QUOTED))
}

/// At most `most` characters of a text, without control characters: a configuration must not control the terminal.
pub(crate) fn tidy(text: &str, most: usize) -> String {
    let mut out: String = text.chars().take(most).map(visible).collect();
    if text.chars().nth(most).is_some() {
        out.push('…');
    }
    out
}

/// The character itself, or the replacement character if it would move the cursor or change the text direction.
pub(crate) fn visible(c: char) -> char {
    let reorders = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if c.is_control() || reorders { char::REPLACEMENT_CHARACTER } else { c }
}

/// The candidate most similar to `word`, if one is similar enough.
pub(crate) fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.is_empty() || word.len() > 40 {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= 3)
        .map(|candidate| (strsim::damerau_levenshtein(&word, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `did you mean 'x'?`, or a list of the candidates.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match closest(word, candidates.clone()) {
        Some(candidate) => format!("did you mean '{candidate}'?"),
        None => one_of(candidates),
    }
}

/// Limit of candidates in a hint; the rest is only counted.
const LISTED: usize = 12;

/// `use one of a, b, c`, bounded.
pub(crate) fn one_of<'a>(candidates: impl IntoIterator<Item = &'a str>) -> String {
    let mut all = candidates.into_iter();
    let listed: Vec<&str> = all.by_ref().take(LISTED).collect();
    match (listed.len(), all.count()) {
        (0, _) => "none is available".to_string(),
        (1, _) => format!("use '{}'", listed[0]),
        (_, 0) => format!("use one of {}", listed.join(", ")),
        (_, more) => format!("use one of {} or {more} more", listed.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_error_gets_a_suggestion() {
        let keys = ["address", "device", "mtu", "offloads"];
        assert_eq!(closest("adress", keys), Some("address"));
        assert_eq!(closest("DEVICE", keys), Some("device"));
        assert_eq!(closest("mut", keys), Some("mtu"));
        assert_eq!(closest("colour", keys), None);
        assert_eq!(closest("", keys), None);
    }

    #[test]
    fn quoted_text_is_short_and_has_no_control_characters() {
        assert_eq!(quote("a\u{1b}[2Jb"), "'a\u{fffd}[2Jb'");
        assert_eq!(quote(&"x".repeat(1000)).chars().count(), QUOTED + 3);
    }
}
