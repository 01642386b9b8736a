//! The pages of `docs/start`: their commands succeed from top to bottom, in an empty directory and in private namespaces.

#![allow(clippy::print_stdout)]

use crate::interfaces::lab;
use crate::rig::TestDirectory;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/start");
/// A block with this command is left out. It builds and installs the programs.
const BUILD: &str = "make build";
/// A block with this command starts a router in the background.
const START: &str = "switchpath run";
/// Precedes the commands of a page: names of network namespaces and the history of configurations stay private, too.
const PRIVATE: &str = "mount -t tmpfs tmpfs /run\n\
                       if [ -d /var/lib/switchpath ]; then mount -t tmpfs tmpfs /var/lib/switchpath; fi\n";
/// Waits until the router answers, for 30 s at most. A reader is never faster than its start.
const WAIT: &str = "for attempt in $(seq 300); do switchpath show status > /dev/null 2>&1 && break; sleep 0.1; done\n";
/// Precedes the place of a block in the output.
const MARK: &str = "=== ";

/// Returns the shell blocks of a page, each with the line where it begins.
fn shell_blocks(page: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in (1..).zip(page.lines()) {
        match open.take() {
            Some(block) if line == "```" => blocks.push(block),
            Some((start, text)) => open = Some((start, text + line + "\n")),
            None if line == "```sh" => open = Some((number, String::new())),
            None => {}
        }
    }
    blocks
}

/// Returns a script of a page's blocks. It prints the place of each block before its output.
fn script(name: &str, page: &str) -> String {
    let mut script = PRIVATE.to_owned();
    for (line, text) in shell_blocks(page) {
        if text.contains(BUILD) {
            continue;
        }
        script += &format!("echo '{MARK}{name}:{line}'\n{text}");
        if text.contains(START) {
            script += WAIT;
        }
    }
    script
}

/// Runs a script in namespaces of its own, with the tested binary first in the path. Returns its output, and whether it succeeded. All of its
/// processes end with it.
fn run(place: &TestDirectory, script: &str) -> (bool, String) {
    place.write("page.sh", script);
    let binary = Path::new(env!("CARGO_BIN_EXE_switchpath"));
    let directory = binary.parent().expect("the binary is in a directory");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = File::create(place.path("output")).unwrap();
    let mut command = Command::new("timeout");
    place.prepare(&mut command);
    command.args(["120", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.args(["sh", "-e", "page.sh"]).env("PATH", format!("{}:{path}:/usr/sbin:/sbin", directory.display()));
    command.stdout(output.try_clone().unwrap()).stderr(output);
    let status = command.status().unwrap();
    (status.success(), String::from_utf8_lossy(&fs::read(place.path("output")).unwrap()).into_owned())
}

/// Returns whether this machine allows the namespaces and has the programs, or prints why the test is skipped.
fn is_possible() -> bool {
    if lab().is_none() {
        return false;
    }
    let needs = format!("{PRIVATE}ip -V\nping -V\n");
    let (succeeded, output) = run(&TestDirectory::new(1), &needs);
    if !succeeded {
        println!("skipped: {output}");
    }
    succeeded
}

#[test]
fn commands_of_the_start_pages_succeed() {
    if !is_possible() {
        return;
    }
    let mut pages: Vec<PathBuf> = fs::read_dir(PAGES).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    assert!(pages.len() >= 3, "{pages:?}");
    for path in pages {
        let name = format!("docs/start/{}", path.file_name().unwrap().to_string_lossy());
        let script = script(&name, &fs::read_to_string(&path).unwrap());
        let (succeeded, output) = run(&TestDirectory::new(1), &script);
        let block = output.lines().rev().find_map(|line| line.strip_prefix(MARK)).unwrap_or("no block");
        assert!(succeeded, "{block}: a command of this block failed\n{output}");
    }
}

#[test]
fn shell_blocks_are_found_with_their_lines() {
    let page = "# A\n```sh\na\nb &\n```\n\n```text\nc\n```\n```sh\nmake build\n```\n```sh\nswitchpath run x &\n```\n";
    let [one, two, three] = &shell_blocks(page)[..] else { panic!("three blocks") };
    assert_eq!((one.0, one.1.as_str()), (2, "a\nb &\n"));
    assert_eq!((two.0, two.1.as_str()), (10, "make build\n"));
    assert_eq!((three.0, three.1.as_str()), (13, "switchpath run x &\n"));
    let script = script("p", page);
    assert_eq!(script, format!("{PRIVATE}echo '=== p:2'\na\nb &\necho '=== p:13'\nswitchpath run x &\n{WAIT}"));
}
