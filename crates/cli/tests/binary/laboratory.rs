//! Commands of the laboratory, a separate program: executed if it is installed, otherwise refused with the name of its package.

use crate::rig::{TestDirectory, program};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::thread;

/// Runs a copy of the router's program in its own directory, with an empty path.
fn alone(place: &TestDirectory, arguments: &[&str]) -> Output {
    let copy = place.path("switchpath");
    if !copy.exists() {
        fs::copy(program("switchpath"), &copy).unwrap();
    }
    let mut command = Command::new(copy);
    place.prepare(&mut command);
    command.args(arguments).env("PATH", place.path("nowhere"));
    loop {
        // A process that another test starts at this moment may still hold the copy open for writing.
        match command.output() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => thread::yield_now(),
            output => return output.unwrap(),
        }
    }
}

#[test]
fn missing_laboratory_error_names_its_package() {
    let place = TestDirectory::new(0);
    for arguments in [&["bench"][..], &["demo"], &["sim", "world.toml"], &["reproduce", "-j"], &["guest", "build"]] {
        let output = alone(&place, arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let wanted =
            format!("`switchpath {}` needs the program of the laboratory, and it is not installed", arguments[0]);
        assert!(said.contains(&wanted) && said.contains("install the package switchpath-lab"), "{said}");
        assert_eq!(said.starts_with('{'), arguments.contains(&"-j"), "{said}");
    }
    // Help needs no laboratory, and a wrong option is reported without it.
    assert!(alone(&place, &["bench", "--help"]).status.success());
    assert_eq!(alone(&place, &["bench", "no-such-group"]).status.code(), Some(2));
}

#[test]
fn laboratory_gets_the_unchanged_command_line() {
    let place = TestDirectory::new(0);
    place.write("switchpath-lab", "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n");
    fs::set_permissions(place.path("switchpath-lab"), fs::Permissions::from_mode(0o755)).unwrap();
    let output = alone(&place, &["link", "--delay", "5ms", "--", "echo", "a b", "{far}", "-j"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!((output.status.code(), &*said), (Some(7), "<link><--delay><5ms><--><echo><a b><{far}><-j>"));
}
