//! An upper bound of the memory that parsing a text needs, computed before it is parsed.
//!
//! A text of a megabyte can become a tree of four hundred: `a.b.c.d = 1` has a table for every other byte. A router that checks texts from untrusted
//! clients needs a bound beforehand. One pass over the tokens computes it. `crates/plan/tests/footprint.rs` compares the bound with measurements.

/// Bytes for any text: its diagnostics, whose number is limited.
const FIXED: usize = 4 << 20;
/// Bytes for each byte of the text: copies of strings, and values parsed from them.
const BYTE: usize = 8;
/// Bytes for each token: a punctuation character, white space, or a word.
const TOKEN: usize = 56;
/// Bytes for each line: its offset, and a possible error.
const LINE: usize = 160;
/// Bytes for a value in a list, and for one with a key, or for a missing one's error.
const ELEMENT: usize = 176;
const VALUE: usize = 640;
/// Bytes for each table that is not empty.
const TABLE: usize = 1400;
/// Bytes for each table header, with the defaults of a port or a path.
const HEADER: usize = 2048;
const LIST_HEADER: usize = 800;

/// The most memory that parsing `source` needs at a time, in bytes.
pub fn footprint(source: &str) -> usize {
    let bytes = source.as_bytes();
    // With multi-line strings the scanner cannot tell strings from other text. Then every character counts.
    let is_plain = !source.contains("\"\"\"") && !source.contains("'''");
    let mut sum = FIXED.saturating_add(bytes.len().saturating_mul(BYTE));
    let mut at = 0;
    let mut in_word = false;
    let mut begins_line = true;
    while let Some(&byte) = bytes.get(at) {
        let is_word = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        sum += match byte {
            // A word counts once, at its first character.
            _ if is_word && in_word => 0,
            b'"' | b'\'' if is_plain => {
                at += string(&bytes[at..]);
                TOKEN
            }
            b'#' if is_plain => {
                at += bytes[at..].iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len() - at) - 1;
                TOKEN
            }
            b'\n' => TOKEN + LINE,
            b'=' => TOKEN + VALUE,
            b',' => TOKEN + ELEMENT,
            b'.' | b'{' => TOKEN + TABLE,
            b'[' if begins_line && bytes.get(at + 1) == Some(&b'[') => TOKEN + LIST_HEADER,
            b'[' if begins_line => TOKEN + HEADER,
            b'[' => TOKEN + ELEMENT,
            _ => TOKEN,
        };
        in_word = is_word;
        begins_line = byte == b'\n' || (begins_line && matches!(byte, b' ' | b'\t'));
        at += 1;
    }
    sum
}

/// The length in bytes of the string that begins here, without its closing quote; at most to the end of the line.
fn string(bytes: &[u8]) -> usize {
    let quote = bytes[0];
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\n' => return at - 1,
            b'\\' if quote == b'"' && bytes.get(at + 1) != Some(&b'\n') => at += 1,
            _ if byte == quote => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punctuation_outside_of_strings_and_comments_counts() {
        let signs = |text: &str| footprint(text) - FIXED - text.len() * BYTE;
        for (text, expected) in [
            ("", 0),
            ("abc", TOKEN),
            ("a=1", 3 * TOKEN + VALUE),
            ("a='b.c,d=e'", 3 * TOKEN + VALUE),
            ("a=\"b.c\\\"d.e\"", 3 * TOKEN + VALUE),
            ("a=\"b.c\n.d", 6 * TOKEN + VALUE + LINE + TABLE),
            ("# a.b=c\n#", 3 * TOKEN + LINE),
            ("a=[1,2]", 7 * TOKEN + VALUE + 2 * ELEMENT),
            ("a='''b.c'''", 11 * TOKEN + VALUE + TABLE),
            ("[a]", 3 * TOKEN + HEADER),
            (" [[a]]", 6 * TOKEN + LIST_HEADER + ELEMENT),
        ] {
            assert_eq!(signs(text), expected, "{text}");
        }
    }
}
