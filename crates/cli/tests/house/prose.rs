//! Plain words: sentences of documents and comments say who does what, and test names state a rule.
//!
//! A sentence that begins with `What`, `Who` or `Where` and is no question hides its subject. Words like `whoever` or `what came` replace the
//! noun of the field. A sentence of more than 35 words states more than one fact.

use regex::Regex;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Sentences and names that were not plain when the rule was made.
pub const KNOWN: usize = 60;
/// Words of a sentence at most.
const LONG: usize = 35;

static OPENER: LazyLock<Regex> = LazyLock::new(|| {
    let openers = "What|Who|Whom|Whose|Whoever|Whatever|Whichever|Those who|Those that|That which|Nobody|Somebody|Anybody|Whether|Where";
    Regex::new(&format!(r"^(?:{openers})\b")).expect("it is a pattern")
});
static WORD: LazyLock<Regex> = LazyLock::new(|| {
    let words = "whoever|whatever|whichever|somebody|nobody|anybody|those who|that which|is told|are told|told of|told apart|\
                 what it|what is|what was|what has|what comes|what came|what waits|what waited|what becomes|what became|what goes|what stands|\
                 of its own accord|goes away|went away|stands? still|stood still|keeps? to|comes? back|came back|is not there|are not there";
    Regex::new(&format!(r"(?i)\b(?:{words})\b")).expect("it is a pattern")
});
static NAME: LazyLock<Regex> = LazyLock::new(|| {
    let openers = "who|whoever|whose|what|whatever|those|nobody|somebody|anybody|where|that|nothing";
    Regex::new(&format!(r"\bfn\s+((?:{openers})_\w+)")).expect("it is a pattern")
});
static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new("`[^`]*`").expect("it is a pattern"));
static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\[([^\]]*)\]\([^)]*\)").expect("it is a pattern"));
static COMMENT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\s*(?://[/!]?|#|--)\s?(.*)").expect("it is a pattern"));
static ITEM: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(?:[-*] |\d+\. |#+ |\|)").expect("it is a pattern"));

/// Sentences and test names that are not plain, with their places. Recorded texts, which others compare with, are left out.
pub fn unclear(texts: &BTreeMap<String, String>) -> Vec<String> {
    let kinds = [".md", ".rs", ".toml", ".sh", "Makefile"];
    let prose = texts.iter().filter(|(path, _)| kinds.iter().any(|kind| path.ends_with(kind)));
    let prose = prose.filter(|(path, _)| !path.contains("vectors") && !path.ends_with("CHANGELOG.md"));
    prose.flat_map(|(path, text)| unclear_in(path, text)).collect()
}

fn unclear_in(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (line, paragraph) in paragraphs(path, text) {
        let wrong = sentences(&paragraph).into_iter().filter_map(|sentence| Some((judge(&sentence)?, sentence)));
        complaints.extend(wrong.map(|(why, sentence)| format!("{path}:{line}: {why}: {sentence}")));
    }
    let names = text.lines().enumerate().filter_map(|(line, text)| Some((line + 1, NAME.captures(text)?)));
    complaints.extend(names.map(|(line, name)| format!("{path}:{line}: the name hides its subject: {}", &name[1])));
    complaints
}

/// Why a sentence is not plain.
fn judge(sentence: &str) -> Option<&'static str> {
    let words = sentence.split_whitespace().count();
    if OPENER.is_match(sentence) && !sentence.trim_end().ends_with('?') && words > 3 {
        return Some("it begins with neither a subject nor a verb");
    }
    if WORD.is_match(sentence) {
        return Some("it names no thing");
    }
    (words > LONG).then_some("it has more than 35 words")
}

/// Paragraphs of a document, or of the comments of a source file, with their first lines. Cells of tables and items of lists are paragraphs.
fn paragraphs(path: &str, text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut fenced, mut open) = (false, false);
    for (number, line) in (1..).zip(text.lines()) {
        let prose = if path.ends_with(".md") {
            Some(line.trim().to_owned())
        } else {
            // Attributes and the first line of a script are no comments.
            let comment =
                COMMENT.captures(line).filter(|_| !line.trim_start().starts_with("#[") && !line.starts_with("#!"));
            comment.map(|comment| comment[1].trim().to_owned())
        };
        let fence = prose.as_deref().is_some_and(|prose| prose.starts_with("```"));
        // A fence ends with the comment that it is in.
        fenced = (fenced ^ fence) && prose.is_some();
        let Some(prose) = prose.filter(|prose| !(prose.is_empty() || fenced || fence)) else {
            open = false;
            continue;
        };
        if let Some(row) = prose.strip_prefix('|') {
            found.extend(row.split('|').map(|cell| (number, cell.trim().to_owned())));
            open = false;
        } else if let (true, false, Some((_, paragraph))) = (open, ITEM.is_match(&prose), found.last_mut()) {
            paragraph.push(' ');
            paragraph.push_str(&prose);
        } else {
            found.push((number, ITEM.replace(&prose, "").into_owned()));
            open = true;
        }
    }
    found
}

/// The sentences of a paragraph. Code stands as one word, and a link as its text.
fn sentences(paragraph: &str) -> Vec<String> {
    let text = CODE.replace_all(paragraph, "X");
    let text = LINK.replace_all(&text, "$1");
    let (mut sentences, mut begin) = (Vec::new(), 0);
    for (at, mark) in text.match_indices(['.', '!', '?', ':']) {
        let rest = &text[at + mark.len()..];
        let next = rest.trim_start();
        if rest.len() > next.len() && next.starts_with(|c: char| c.is_ascii_uppercase() || c == '"' || c == '(') {
            sentences.push(text[begin..=at].trim().to_owned());
            begin = at + mark.len();
        }
    }
    sentences.push(text[begin..].trim().to_owned());
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

#[test]
fn sentences_that_hide_their_subject_are_found() {
    let long = "word ".repeat(36);
    let source = format!(
        "//! {long}.\n\n/// What comes is dropped. The router drops packets when the queue of\n/// their path is full.\n// Fast: nobody waits.\n\
         // | a | what it is |\nfn what_waits_is_served() {{}}\n#[test]\n// ```\n// What is code, is code.\n"
    );
    let texts = [
        ("a.rs".to_owned(), source),
        ("b.md".to_owned(), "# Who asks?\n\n- Where it goes to `x` it ends.\n".to_owned()),
    ];
    let found = unclear(&texts.into());
    let places: Vec<&str> = found.iter().map(|line| line.split(": it").next().unwrap_or_default()).collect();
    assert_eq!(places[..4], ["a.rs:1", "a.rs:3", "a.rs:3", "a.rs:6"]);
    assert_eq!(
        found[4..],
        [
            "a.rs:7: the name hides its subject: what_waits_is_served",
            "b.md:3: it begins with neither a subject nor a verb: Where it goes to X it ends.",
        ]
    );
}
