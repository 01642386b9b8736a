//! The house rules, tested on the sources.
//!
//! Each rule is a pure function from the sources to complaints. It has a file of its own with the reasons, and a test with a small bad example. This
//! file applies the rules to the workspace. If a rule is in the way, change it in its file with the reason, or add an exception to the table there.
//! Never work around a rule.

mod arrows;
mod calls;
mod circles;
mod commands;
mod documents;
mod files;
mod licences;
mod lines;
mod prose;
mod read;
mod rust;
mod sizes;
mod subjects;

use read::Workspace;
use std::sync::LazyLock;

static WORKSPACE: LazyLock<Workspace> = LazyLock::new(Workspace::read);

/// Fails with all complaints at once, and the remedy.
fn hold(mend: &str, complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n  {}\nWhat to do: {mend}\n", complaints.join("\n  "));
}

#[test]
fn crate_arrows_point_left() {
    hold(
        "move the code to the crate the arrow allows, or put a trait in the lower crate and implement it in the higher; \
         the order is the table in tests/house/arrows.rs",
        arrows::reversed(&WORKSPACE.crates),
    );
}

#[test]
fn imports_do_not_go_round() {
    hold(
        "move what both files need into a file below both, or make the two one; what an import is stands in \
         tests/house/circles.rs",
        circles::circles(&WORKSPACE.sources, circles::EXEMPT),
    );
}

#[test]
fn banned_calls_stay_in_their_homes() {
    hold(
        "see the reason given with each call; the table is in tests/house/calls.rs",
        calls::banned(&WORKSPACE.sources),
    );
}

#[test]
fn unsafe_code_has_an_address() {
    hold(
        "write it safely, or move it behind a safe function of packet::pool or io",
        calls::homeless_unsafe(&WORKSPACE.sources),
    );
}

#[test]
fn crates_without_unsafe_code_forbid_it() {
    hold(
        "add `#![forbid(unsafe_code)]` below the crate's documentation",
        calls::roots_without_forbid(&WORKSPACE.crates, &WORKSPACE.sources),
    );
}

#[test]
fn files_are_short() {
    hold(
        "ask what two things the file is, and split it; the limit and its exceptions are in tests/house/files.rs",
        files::too_long(&WORKSPACE.sources, files::LONG),
    );
}

#[test]
fn large_types_say_why() {
    hold(
        "give a part of it a type of its own, or say why it is one thing in a line `// Large: ...` above it",
        sizes::too_large(&WORKSPACE.sources),
    );
}

#[test]
fn every_source_file_is_compiled() {
    hold("remove the file, or declare it with `mod`", files::dead(&WORKSPACE.sources));
}

#[test]
fn every_source_file_says_why_it_exists() {
    hold("begin the file with a `//!` comment: why it exists, and its source", files::undocumented(&WORKSPACE.sources));
}

#[test]
fn sources_contain_no_unfinished_work() {
    hold(
        "do it, or leave it out and write the absence down in docs/reference/limits.md",
        files::unfinished(&WORKSPACE.sources),
    );
}

#[test]
fn every_fuzz_target_is_built() {
    hold(
        "name each file of fuzz/targets in a [[bin]] of fuzz/Cargo.toml, and its corpus in a `//! corpus:` line",
        files::fuzz_targets_left_out(&WORKSPACE.texts, &WORKSPACE.paths),
    );
}

#[test]
fn texts_name_no_path_of_one_machine() {
    hold("use a relative path, an argument or an environment variable", documents::machine_paths(&WORKSPACE.texts));
}

#[test]
fn documents_name_existing_commands_and_keys() {
    let command = <cli::arguments::Arguments as clap::CommandFactory>::command();
    hold(
        "write the command, option or key as it is now; `switchpath COMMAND --help` and docs/reference/configuration.md list them",
        [commands::unknown_commands(&WORKSPACE.texts, &command), commands::unknown_keys(&WORKSPACE.texts)].concat(),
    );
}

#[test]
fn commit_subjects_name_component_and_change() {
    // An archive of the sources has no history.
    let Some(subjects) = subjects::of_new_commits() else { return };
    hold(
        "write `component: imperative` in at most 72 characters: git commit --amend, or git rebase -i",
        subjects::wrong(&subjects),
    );
}

#[test]
fn links_in_documents_lead_somewhere() {
    hold("mend the link, or the path in backticks", documents::broken_links(&WORKSPACE.texts, &WORKSPACE.paths));
}

#[test]
fn documents_and_comments_are_in_plain_words() {
    let found = prose::unclear(&WORKSPACE.texts);
    // The number may only fall. A new sentence has to be plain.
    let surplus = if found.len() > prose::KNOWN { found } else { Vec::new() };
    hold(
        "say who does what, with the noun of the field: see `Words` in CONTRIBUTING.md, and prose.rs beside this",
        surplus,
    );
}

#[test]
fn every_dependency_has_a_licence_we_can_take() {
    hold(
        "take another crate, or add the licence to tests/house/licences.rs and deny.toml where it truly may be shipped \
         under Apache-2.0 OR MIT",
        licences::refused(&WORKSPACE.dependencies),
    );
}
