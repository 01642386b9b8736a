//! Documents have to be valid: links lead to files and headings, paths in backticks exist, and no text names a path of one machine.

use crate::lines::line_of;
use std::collections::{BTreeMap, BTreeSet};

/// Directories of the repository: a text in backticks that begins with one is a path.
const ROOMS: &[&str] = &["crates/", "docs/", "adr/", "examples/", "experiments/", "fuzz/", "packaging/", "sdk/"];

/// Returns broken links of Markdown documents, and paths of the repository in backticks that do not exist.
pub fn broken_links(texts: &BTreeMap<String, String>, paths: &BTreeSet<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in texts.iter().filter(|(path, _)| path.ends_with(".md")) {
        let prose = without_fences(text);
        for (at, link) in links(&prose) {
            if let Some(why) = broken(path, link, texts, paths) {
                complaints.push(format!("{path}:{}: {link}: {why}", line_of(&prose, at)));
            }
        }
        for (at, code) in inline_code(&prose) {
            let is_path = ROOMS.iter().any(|room| code.starts_with(room))
                && !code.contains(['*', '{', '<', ' ', '…', '$'])
                && !code.contains("...");
            let file = code.trim_end_matches('/').split(':').next().unwrap_or("");
            if is_path && !paths.contains(file) {
                complaints.push(format!("{path}:{}: `{code}` is not there", line_of(&prose, at)));
            }
        }
    }
    complaints
}

/// Returns paths of one machine or account, which are invalid elsewhere.
pub fn machine_paths(texts: &BTreeMap<String, String>) -> Vec<String> {
    // Written in two halves, because this file is checked too.
    let places = [["/wo", "rk/"], ["/ho", "me/"], ["/ro", "ot/"], ["/Us", "ers/"]].map(|halves| halves.concat());
    let mut complaints = Vec::new();
    for (path, text) in texts {
        for place in &places {
            // As a part of a longer path, such as `net/home/`, it is no path of a machine.
            let own =
                |&(at, _): &(usize, &str)| !text[..at].ends_with(|c: char| c.is_alphanumeric() || "._-)}".contains(c));
            for (at, _) in text.match_indices(place.as_str()).filter(own) {
                complaints.push(format!("{path}:{}: {place}", line_of(text, at)));
            }
        }
    }
    complaints
}

/// Returns the text with its fenced blocks blanked, line by line.
pub fn without_fences(text: &str) -> String {
    let mut fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        prose += if fenced || fence { "" } else { line };
        prose.push('\n');
    }
    prose
}

/// Returns the targets of `[text](target)` and of `[name]: target`, with their positions.
fn links(prose: &str) -> Vec<(usize, &str)> {
    let inline = prose.match_indices("](").filter_map(|(at, _)| {
        let target = &prose[at + 2..];
        Some((at, target[..target.find(')')?].split_whitespace().next().unwrap_or("")))
    });
    let named = prose.match_indices("]: ").filter_map(|(at, _)| {
        let line = prose[..at].rfind('\n').map_or(0, |n| n + 1);
        prose[line..].starts_with('[').then(|| (at, prose[at + 3..].split_whitespace().next().unwrap_or("")))
    });
    inline.chain(named).collect()
}

/// Returns the texts between backticks within a line.
pub fn inline_code(prose: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut start = 0;
    for line in prose.split_inclusive('\n') {
        let mut at = start;
        for (i, part) in line.split('`').enumerate() {
            if i % 2 == 1 {
                found.push((at, part));
            }
            at += part.len() + 1;
        }
        start += line.len();
    }
    found
}

/// Returns why a link is broken, if it is. Links to other sites are not followed: tests need no network.
fn broken(from: &str, link: &str, texts: &BTreeMap<String, String>, paths: &BTreeSet<String>) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = if file.is_empty() { from.to_owned() } else { resolve(from, file) };
    if !target.is_empty() && !paths.contains(&target) {
        return Some(format!("{target} is not there"));
    }
    let text = texts.get(&target).filter(|_| target.ends_with(".md"))?;
    let anchor = anchor?;
    let known =
        without_fences(text).lines().any(|line| line.starts_with('#') && slug(line.trim_start_matches('#')) == anchor);
    (!known).then(|| format!("{target} has no heading #{anchor}"))
}

/// Resolves a link relative to its document into a path from the workspace's root.
fn resolve(from: &str, file: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the anchor that renderers make of a heading.
fn slug(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars().filter(|&c| c.is_alphanumeric() || " -_".contains(c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
fn texts(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect()
}

#[test]
fn a_broken_link_is_found() {
    let texts = texts(&[
        (
            "README.md",
            "# A b: `c`\n[fine](docs/a.md) [out](https://x.y/z) [here](#a-b-c)\n[gone](docs/b.md#x)\n[no](docs/a.md#no)\n",
        ),
        (
            "docs/a.md",
            "[up](../README.md) `crates/x/src` `crates/y/src/lib.rs:3` `crates/*/src`\n```\n[gone](fenced.md)\n```\n[n]: gone.md\n",
        ),
    ]);
    let paths = ["README.md", "docs", "docs/a.md", "crates/x/src"].map(str::to_owned).into();
    assert_eq!(
        broken_links(&texts, &paths),
        [
            "README.md:3: docs/b.md#x: docs/b.md is not there",
            "README.md:4: docs/a.md#no: docs/a.md has no heading #no",
            "docs/a.md:5: gone.md: docs/gone.md is not there",
            "docs/a.md:1: `crates/y/src/lib.rs:3` is not there",
        ]
    );
}

#[test]
fn path_of_one_machine_is_found() {
    let place = ["/ho", "me/someone/switchpath"].concat();
    let texts = texts(&[("a.rs", &format!("\nlet a = \"{place}\";")), ("b.md", "a route to net/home/here")]);
    assert_eq!(machine_paths(&texts), [["a.rs:2: /ho", "me/"].concat()]);
}
