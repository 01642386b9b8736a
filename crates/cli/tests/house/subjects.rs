//! Subjects of commits: the component, a colon, and an imperative sentence, in at most 72 characters.

use std::path::Path;
use std::process::Command;

/// The last commit from before this rule.
const BEFORE: &str = "5bfa0bd03eb66f596b1c4b7f2aa0b18b907784d9";
const MOST: usize = 72;
/// Imperatives that end like other forms of a verb.
const VERBS: &[&str] = &["bring", "embed", "exceed", "feed", "need", "ping", "proceed", "shed", "speed", "string"];

/// Returns the subjects of the commits since the rule, each after its abbreviated hash; none outside of a repository, or if it is too shallow.
pub fn of_new_commits() -> Option<Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let range = format!("{BEFORE}..HEAD");
    let git = Command::new("git").args(["log", "--no-merges", "--format=%h %s", &range]).current_dir(root).output();
    let output = git.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Returns the subjects that break the rule, with the reason.
pub fn wrong(subjects: &[String]) -> Vec<String> {
    let reason = |subject: &str| {
        let Some((component, sentence)) = subject.split_once(": ") else { return Some("it names no component") };
        let verb = sentence.split(' ').next().unwrap_or("");
        let is_component = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_./, ".contains(c);
        if subject.chars().count() > MOST {
            Some("it is longer than 72 characters")
        } else if component.is_empty() || !component.chars().all(is_component) {
            Some("the component is no name of a crate or directory")
        } else if !verb.starts_with(|c: char| c.is_ascii_lowercase())
            || (verb.ends_with("ed") || verb.ends_with("ing")) && !VERBS.contains(&verb)
        {
            Some("the sentence does not begin with an imperative")
        } else if sentence.ends_with('.') {
            Some("it ends with a full stop")
        } else {
            None
        }
    };
    let each = subjects.iter().filter_map(|line| {
        let subject = line.split_once(' ').map_or("", |(_, subject)| subject);
        reason(subject).map(|why| format!("{line}: {why}"))
    });
    each.collect()
}

#[test]
fn subject_without_component_or_imperative_is_found() {
    let long = format!("0 docs: {}", "x".repeat(67));
    let subjects =
        ["0 esp: free expired entries in batches", "1 Added things", "2 nat: adding ports", "3 fib: Free it", &long];
    let found = wrong(&subjects.map(str::to_owned));
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.iter().all(|line| !line.starts_with("0 esp")));
}
