//! The house rules, tested on the sources.
//!
//! Each rule is a pure function from the sources to complaints. It has a file of its own with the reasons, and a test with a small bad example. This
//! file applies the rules to the workspace. If a rule is in the way, change it in its file with the reason, or add an exception to the table there.
//! Never work around a rule.

mod banned_calls;
mod commands;
mod crate_layers;
mod documents;
mod files;
mod import_cycles;
mod licences;
mod lines;
mod prose;
mod rust;
mod subjects;
mod type_names;
mod type_sizes;
mod workspace;

use std::sync::LazyLock;
use workspace::Workspace;

static WORKSPACE: LazyLock<Workspace> = LazyLock::new(Workspace::read);

/// Fails with all complaints at once, and the remedy.
fn assert_no_findings(remedy: &str, complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n  {}\nWhat to do: {remedy}\n", complaints.join("\n  "));
}

#[test]
fn crates_depend_on_lower_layers_only() {
    assert_no_findings(
        "move the code to the crate the arrow allows, or put a trait in the lower crate and implement it in the higher; \
         the order is the table in tests/house/arrows.rs",
        crate_layers::reversed(&WORKSPACE.crates),
    );
}

#[test]
fn files_of_a_crate_have_no_import_cycles() {
    assert_no_findings(
        "move what both files need into a file below both, or make the two one; what an import is stands in \
         tests/house/circles.rs",
        import_cycles::circles(&WORKSPACE.sources, import_cycles::EXEMPT),
    );
}

#[test]
fn banned_calls_occur_only_in_allowed_files() {
    assert_no_findings(
        "see the reason given with each call; the table is in tests/house/calls.rs",
        banned_calls::banned(&WORKSPACE.sources),
    );
}

#[test]
fn unsafe_code_occurs_only_in_listed_files() {
    assert_no_findings(
        "write it safely, or move it behind a safe function of packet::pool or io",
        banned_calls::misplaced_unsafe(&WORKSPACE.sources),
    );
}

#[test]
fn crates_without_unsafe_code_forbid_it() {
    assert_no_findings(
        "add `#![forbid(unsafe_code)]` below the crate's documentation",
        banned_calls::roots_without_forbid(&WORKSPACE.crates, &WORKSPACE.sources),
    );
}

#[test]
fn source_files_stay_below_the_line_limit() {
    assert_no_findings(
        "ask what two things the file is, and split it; the limit and its exceptions are in tests/house/files.rs",
        files::too_long(&WORKSPACE.sources, files::LONG),
    );
}

#[test]
fn large_types_have_a_reason() {
    assert_no_findings(
        "give a part of it a type of its own, or say why it is one thing in a line `// Large: ...` above it",
        type_sizes::too_large(&WORKSPACE.sources),
    );
}

#[test]
fn every_source_file_is_compiled() {
    assert_no_findings("remove the file, or declare it with `mod`", files::unreached(&WORKSPACE.sources));
}

#[test]
fn every_source_file_begins_with_its_purpose() {
    assert_no_findings(
        "begin the file with a `//!` comment: why it exists, and its source",
        files::undocumented(&WORKSPACE.sources),
    );
}

#[test]
fn sources_contain_no_unfinished_work() {
    assert_no_findings(
        "do it, or leave it out and write the absence down in docs/reference/limits.md",
        files::unfinished(&WORKSPACE.sources),
    );
}

#[test]
fn every_fuzz_target_is_built() {
    assert_no_findings(
        "name each file of fuzz/targets in a [[bin]] of fuzz/Cargo.toml, and its corpus in a `//! corpus:` line",
        files::fuzz_targets_left_out(&WORKSPACE.texts, &WORKSPACE.paths),
    );
}

#[test]
fn texts_name_no_path_of_one_machine() {
    assert_no_findings(
        "use a relative path, an argument or an environment variable",
        documents::machine_paths(&WORKSPACE.texts),
    );
}

#[test]
fn documents_name_existing_commands_and_keys() {
    let command = <cli::arguments::Arguments as clap::CommandFactory>::command();
    assert_no_findings(
        "write the command, option or key as it is now; `switchpath COMMAND --help` and docs/reference/configuration.md list them",
        [commands::unknown_commands(&WORKSPACE.texts, &command), commands::unknown_keys(&WORKSPACE.texts)].concat(),
    );
}

#[test]
fn commit_subjects_name_component_and_change() {
    // An archive of the sources has no history.
    let Some(subjects) = subjects::of_new_commits() else { return };
    assert_no_findings(
        "write `component: imperative` in at most 72 characters: git commit --amend, or git rebase -i",
        subjects::wrong(&subjects),
    );
}

#[test]
fn public_types_have_names_of_their_own() {
    assert_no_findings(
        "put the domain before the name, as in `CodelMemory` or `RouteReport`",
        type_names::shared(&WORKSPACE.sources),
    );
}

#[test]
fn document_links_have_existing_targets() {
    assert_no_findings(
        "mend the link, or the path in backticks",
        documents::broken_links(&WORKSPACE.texts, &WORKSPACE.paths),
    );
}

#[test]
fn documents_and_comments_are_in_plain_words() {
    let found = prose::unclear(&WORKSPACE.texts);
    // The number may only fall. A new sentence has to be plain.
    let surplus = if found.len() > prose::KNOWN { found } else { Vec::new() };
    assert_no_findings(
        "say who does what, with the noun of the field: see `Words` in CONTRIBUTING.md, and prose.rs beside this",
        surplus,
    );
}

#[test]
fn every_dependency_has_a_permitted_licence() {
    assert_no_findings(
        "take another crate, or add the licence to tests/house/licences.rs and deny.toml where it truly may be shipped \
         under Apache-2.0 OR MIT",
        licences::refused(&WORKSPACE.dependencies),
    );
}
