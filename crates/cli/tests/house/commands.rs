//! Commands and keys that documents name have to exist: the subcommands and options of `switchpath` in shell blocks and in backticks, and the keys of
//! configurations in TOML blocks.

use crate::documents::{inline_code, without_fences};
use crate::lines::line_of;
use clap::Command;
use std::collections::BTreeMap;

/// Documents of former states, whose commands may be gone, and one with first lines of files that look like commands.
const EXEMPT: &[&str] = &["CHANGELOG.md", "adr/", "docs/internals/conformance.md"];

/// Returns the command lines of documents that name an unknown subcommand or option.
pub fn unknown_commands(texts: &BTreeMap<String, String>, root: &Command) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in documents(texts) {
        let blocks = fenced(text, "sh").into_iter().flat_map(|(at, block)| {
            let lines = block.split_inclusive('\n');
            lines.scan(at, |at, line| Some((std::mem::replace(at, *at + line.len()), line))).collect::<Vec<_>>()
        });
        let prose = without_fences(text);
        // Blank lines replace the blocks of the prose: positions are those of its own lines.
        let inline: Vec<_> = inline_code(&prose).into_iter().map(|(at, code)| (line_of(&prose, at), code)).collect();
        let lines = blocks.map(|(at, line)| (line_of(text, at), line)).collect::<Vec<_>>();
        for (line, code) in lines.into_iter().chain(inline) {
            for command in commands(code) {
                if let Some(why) = wrong(&command, root) {
                    complaints.push(format!("{path}:{line}: `{}`: {why}", command.join(" ")));
                }
            }
        }
    }
    complaints
}

/// Returns the keys in TOML blocks of documents that the tables of a router's configuration do not have. Blocks of other formats are left out: the
/// file itself does not have their keys.
pub fn unknown_keys(texts: &BTreeMap<String, String>) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in documents(texts) {
        for (at, block) in fenced(text, "toml") {
            let whole = if block.contains("version = ") { block.to_owned() } else { format!("version = 1\n{block}") };
            let found = plan::examine(&whole, "block", &plan::Catalogue::default()).diagnostics;
            let unknown = found.errors().filter(|one| one.reason.starts_with("unknown key")).collect::<Vec<_>>();
            let is_other = unknown.iter().any(|one| !one.path.contains(['.', '[']));
            for one in unknown.into_iter().filter(|_| !is_other) {
                complaints.push(format!("{path}:{}: {}: {}; {}", line_of(text, at), one.path, one.reason, one.hint));
            }
        }
    }
    complaints
}

fn documents(texts: &BTreeMap<String, String>) -> impl Iterator<Item = (&String, &String)> {
    texts.iter().filter(|(path, _)| path.ends_with(".md") && !EXEMPT.iter().any(|exempt| path.starts_with(exempt)))
}

/// Returns the fenced blocks of a language, with their positions.
fn fenced<'a>(text: &'a str, language: &str) -> Vec<(usize, &'a str)> {
    let open = format!("```{language}\n");
    let blocks = text.match_indices(&open).filter_map(|(at, _)| {
        let from = at + open.len();
        Some((from, &text[from..from + text[from..].find("```")?]))
    });
    blocks.collect()
}

/// Returns the calls of `switchpath` in a line of shell: the words after it, up to the end of the call.
fn commands(line: &str) -> Vec<Vec<&str>> {
    let mut calls: Vec<Vec<&str>> = Vec::new();
    let mut open = false;
    for word in line.split_whitespace() {
        let is_end = matches!(word, "|" | "&&" | "||" | "&" | ";" | "--" | "\\")
            || word.starts_with(['#', '>', '<', '\'', '"', '(']);
        if word == "switchpath" || word.ends_with("/switchpath") {
            calls.push(Vec::new());
            open = true;
        } else if is_end {
            open = false;
        } else if let Some(call) = calls.last_mut().filter(|_| open) {
            call.push(word.trim_end_matches([')', ';', ',']));
        }
    }
    calls
}

/// Returns why a call cannot be right, if it cannot.
fn wrong(words: &[&str], root: &Command) -> Option<String> {
    let mut command = root;
    let mut all = vec![root];
    let mut is_first = true;
    for word in words.iter().copied() {
        if let Some(option) = word.strip_prefix("--").map(|option| option.split(['=', '[']).next().unwrap_or("")) {
            let known = |command: &&Command| {
                option == "help"
                    || option == "version"
                    || command
                        .get_arguments()
                        .any(|a| a.get_long_and_visible_aliases().is_some_and(|l| l.contains(&option)))
            };
            if !all.iter().any(known) {
                return Some(format!("'{}' has no option --{option}", command.get_name()));
            }
        } else if word.starts_with('-') || word.starts_with('[') {
            continue;
        } else if let Some(inner) = command.find_subcommand(word) {
            command = inner;
            all.push(inner);
        } else if command.has_subcommands() && is_first && word.chars().all(|c| c.is_ascii_lowercase() || c == '-') {
            return Some(format!("'{}' has no command '{word}'", command.get_name()));
        } else {
            is_first = false;
        }
    }
    None
}

#[test]
fn unknown_command_option_and_key_are_found() {
    use clap::Arg;
    let root = Command::new("switchpath")
        .subcommand(Command::new("show").arg(Arg::new("watch").long("watch")).subcommand(Command::new("ports")));
    let text = "`switchpath show ports --watch` and `switchpath show harbours`\n```sh\nsudo switchpath show --loud | less --raw\n\
                switchpath sail\n```\n```toml\n[cpu]\nlayuot = 2\n```\n```toml\n[world]\nseed = 1\n```\n";
    let texts = [("a.md".to_owned(), text.to_owned())].into();
    assert_eq!(
        unknown_commands(&texts, &root),
        [
            "a.md:3: `show --loud`: 'show' has no option --loud",
            "a.md:4: `sail`: 'switchpath' has no command 'sail'",
            "a.md:1: `show harbours`: 'show' has no command 'harbours'",
        ]
    );
    assert_eq!(unknown_keys(&texts), ["a.md:7: cpu.layuot: unknown key 'layuot'; did you mean 'layout'?"]);
}
