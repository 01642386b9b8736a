//! Reads Rust sources for the rules: separates code from comments and string literals, and test code from other code, and follows `mod` declarations.
//! It is a scanner, not a parser, and correct for formatted code that compiles.

use crate::lines::{line_of, words};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// One source file.
#[derive(Debug, Default)]
pub struct Source {
    /// From the workspace's root.
    pub path: String,
    pub text: String,
    /// The text with comments and the insides of literals blanked; same length, same lines.
    pub code: String,
    /// The text with everything but comments blanked; same length, same lines.
    pub comments: String,
    /// True if a root or a `mod` leads to it.
    pub reached: bool,
    /// The parts compiled for tests only; the whole file under `tests/` or behind `#[cfg(test)] mod`.
    pub tests: Vec<Range<usize>>,
}

impl Source {
    /// Reads a single file.
    pub fn new(path: &str, text: &str) -> Self {
        let (code, comments) = split(text);
        let tests = if is_test_path(path) { whole(text) } else { test_items(&code) };
        Source { path: path.into(), text: text.into(), code, comments, reached: false, tests }
    }

    /// Reads every Rust file of `texts` except `fuzz/`, which is its own workspace; `roots` are the root files of targets.
    pub fn all(texts: &BTreeMap<String, String>, roots: &[String]) -> Vec<Self> {
        let rust = texts.iter().filter(|(path, _)| path.ends_with(".rs") && path.starts_with("crates/"));
        let mut sources: Vec<_> = rust.map(|(path, text)| Source::new(path, text)).collect();
        reach(&mut sources, roots);
        sources
    }

    /// Returns the line of a byte in the file, from 1.
    pub fn line(&self, at: usize) -> usize {
        line_of(&self.text, at)
    }

    /// Returns whether a byte of the file is compiled for tests only.
    pub fn is_test(&self, at: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&at))
    }

    /// Returns the possible files of each `mod name;`, and whether it is compiled for tests only.
    fn children(&self, is_root: bool) -> Vec<([String; 2], bool)> {
        let (directory, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let stem = file.trim_end_matches(".rs");
        let base = if is_root || stem == "mod" { directory.to_owned() } else { format!("{directory}/{stem}") };
        let mut children = Vec::new();
        for at in words(&self.code, "mod") {
            let rest = &self.code[at + 3..];
            let name: String = rest.trim_start().chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect();
            if name.is_empty() || !rest.trim_start()[name.len()..].trim_start().starts_with(';') {
                continue;
            }
            let files = match path_attribute(&self.text[..at]) {
                Some(path) => [join(directory, path), String::new()],
                None => [format!("{base}/{name}.rs"), format!("{base}/{name}/mod.rs")],
            };
            children.push((files, self.is_test(at)));
        }
        children
    }
}

#[expect(clippy::single_range_in_vec_init, reason = "one range, not its elements")]
fn whole(text: &str) -> Vec<Range<usize>> {
    vec![0..text.len()]
}

fn is_test_path(path: &str) -> bool {
    path.split('/').nth(2).is_some_and(|folder| matches!(folder, "tests" | "benches" | "examples"))
}

/// Returns the value of a `#[path = "..."]` at the end of the text before a `mod`.
fn path_attribute(before: &str) -> Option<&str> {
    let attribute = before.rfind("#[path = \"").filter(|&at| !before[at..].contains([';', '}']))?;
    before[attribute + 10..].split('"').next()
}

fn join(directory: &str, path: &str) -> String {
    let mut parts: Vec<&str> = directory.split('/').collect();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Marks the files that the roots reach, and as test code those that only tests reach.
fn reach(sources: &mut [Source], roots: &[String]) {
    let index: BTreeMap<String, usize> = sources.iter().enumerate().map(|(i, s)| (s.path.clone(), i)).collect();
    let mut open: VecDeque<_> = roots.iter().filter_map(|root| Some((*index.get(root)?, true, false))).collect();
    while let Some((at, is_root, only_tests)) = open.pop_front() {
        if sources[at].reached {
            continue;
        }
        sources[at].reached = true;
        if only_tests {
            sources[at].tests = whole(&sources[at].text);
        }
        for (files, behind_test) in sources[at].children(is_root) {
            let child = files.iter().find_map(|file| index.get(file));
            open.extend(child.map(|&child| (child, false, only_tests || behind_test)));
        }
    }
}

/// Returns the items behind `#[cfg(test)]` or `#[cfg(all(test, ...))]`, including the attribute.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let mut items: Vec<Range<usize>> = Vec::new();
    let mut from = 0;
    while let Some(at) = code[from..].find("#[cfg(").map(|at| from + at) {
        let end = code[at..].find(']').map_or(code.len(), |end| at + end + 1);
        from = end;
        if !words(&code[at..end], "test").is_empty() && !code[at..end].contains("not(") {
            from = end + item_length(&code[end..]);
            items.push(at..from);
        }
    }
    items
}

/// Returns the length of the item at the start of `code`: up to a `;` outside of brackets, or up to its closing brace.
fn item_length(code: &str) -> usize {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && byte == b'}' {
                    return at + 1;
                }
            }
            b';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// Separates a source into code and comments. The rest is blanked, so that offsets and lines stay the same.
fn split(text: &str) -> (String, String) {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut comments: Vec<u8> = bytes.iter().map(|&b| if b == b'\n' { b } else { b' ' }).collect();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (length, is_comment) = if rest.starts_with(b"//") {
            (rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()), true)
        } else if rest.starts_with(b"/*") {
            (block_comment(rest), true)
        } else if let Some(length) = raw_string(rest).filter(|_| at == 0 || !is_name(bytes[at - 1])) {
            (length, false)
        } else if rest[0] == b'"' {
            (1 + quoted(&rest[1..], b'"'), false)
        } else if rest[0] == b'\'' && is_character(&text[at + 1..]) {
            (1 + quoted(&rest[1..], b'\''), false)
        } else {
            at += 1;
            continue;
        };
        for place in (at..at + length).filter(|&place| bytes[place] != b'\n') {
            code[place] = b' ';
            if is_comment {
                comments[place] = bytes[place];
            }
        }
        at += length;
    }
    let read = |bytes| String::from_utf8(bytes).expect("whole characters are blanked or kept");
    (read(code), read(comments))
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the length of a block comment, which may contain others.
fn block_comment(text: &[u8]) -> usize {
    let (mut at, mut depth) = (2, 1);
    while depth > 0 && at < text.len() {
        match &text[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    at
}

/// Returns the length of a raw string of any kind at the start of the text.
fn raw_string(text: &[u8]) -> Option<usize> {
    let mark = text.iter().take(2).position(|&b| b == b'r')?;
    if mark == 1 && !matches!(text[0], b'b' | b'c') {
        return None;
    }
    let hashes = text[mark + 1..].iter().take_while(|&&b| b == b'#').count();
    let open = mark + 1 + hashes;
    if text.get(open) != Some(&b'"') {
        return None;
    }
    let close = [b"\"", &b"#".repeat(hashes)[..]].concat();
    let end = text[open + 1..].windows(close.len()).position(|w| w == close);
    Some(end.map_or(text.len(), |end| open + 1 + end + close.len()))
}

/// Returns the length of a quoted text without its opening quote.
fn quoted(text: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b if b == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// Returns whether a single quote begins a character instead of a lifetime.
fn is_character(after: &str) -> bool {
    let mut chars = after.chars();
    matches!((chars.next(), chars.next()), (Some('\\'), _) | (Some(_), Some('\'')))
}

#[test]
fn code_is_separated_from_comments() {
    let text = concat!(
        "let a = \"// text \\\" more\"; // why\n",
        "let b = r#\"raw \" // text\"#; let c = '\"'; let d: &'static str = x;\n",
        "/* one /* two */ three */ call(b'\\'', br\"x\")\n",
    );
    let (code, comments) = split(text);
    assert_eq!((code.len(), comments.len()), (text.len(), text.len()));
    assert!(!code.contains("text") && !code.contains("why") && !code.contains("three"), "{code}");
    for kept in ["let a =", "let d: &'static str = x;", "call(b"] {
        assert!(code.contains(kept), "{kept} in {code}");
    }
    for kept in ["// why", "/* one /* two */ three */"] {
        assert!(comments.contains(kept), "{kept} in {comments}");
    }
    assert!(!comments.contains("text"), "{comments}");
}

#[test]
fn test_code_is_recognised() {
    let text = "fn work() {}\n#[cfg(test)]\nmod tests {\n    fn a() { b(); }\n}\nfn more() {}\n#[cfg(not(test))]\nfn real() {}\n";
    let source = Source::new("crates/x/src/lib.rs", text);
    let is_test = |what: &str| source.is_test(text.find(what).expect("in the text"));
    assert!(is_test("fn a()"));
    for real in ["fn work", "fn more", "fn real"] {
        assert!(!is_test(real), "{real}");
    }
    assert!(Source::new("crates/x/tests/y.rs", "fn a() {}").is_test(0));
}

#[test]
fn modules_lead_to_their_files() {
    let texts: BTreeMap<String, String> = [
        (
            "crates/x/src/lib.rs",
            "mod a;\n#[cfg(test)]\nmod tests;\n#[path = \"../odd/place.rs\"]\nmod odd;\nmod inline {}\n",
        ),
        ("crates/x/src/a.rs", "pub mod b;"),
        ("crates/x/src/a/b.rs", ""),
        ("crates/x/src/tests/mod.rs", "mod more;"),
        ("crates/x/src/tests/more.rs", "fn a() {}"),
        ("crates/x/odd/place.rs", ""),
        ("crates/x/src/b.rs", ""),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .into();
    let sources = Source::all(&texts, &["crates/x/src/lib.rs".into()]);
    let lost: Vec<_> = sources.iter().filter(|s| !s.reached).map(|s| s.path.as_str()).collect();
    assert_eq!(lost, ["crates/x/src/b.rs"]);
    let more = sources.iter().find(|s| s.path.ends_with("more.rs")).expect("read");
    assert!(more.is_test(3), "a file behind #[cfg(test)] mod is test code, and so are those behind it");
}
