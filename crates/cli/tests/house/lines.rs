//! Finds words, and the lines they are in.

/// Returns the line of a byte, from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count()
}

/// Returns the positions of `word` in `text` at which it is not part of a longer name.
pub fn words(text: &str, word: &str) -> Vec<usize> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let starts_as_name = word.starts_with(is_name);
    let ends_as_name = word.ends_with(is_name);
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(|&at| !(starts_as_name && text[..at].ends_with(is_name)))
        .filter(|&at| !(ends_as_name && text[at + word.len()..].starts_with(is_name)))
        .collect()
}

#[test]
fn words_are_whole() {
    assert_eq!(words("unsafe unsafe_code not_unsafe { unsafe{", "unsafe"), [0, 32]);
    assert_eq!(words("eprintln!() println!()", "println!"), [12]);
    assert_eq!(words("Std::Instant::now() MyInstant::now()", "Instant::now"), [5]);
    assert_eq!(line_of("a\nb\nc", 4), 3);
}
