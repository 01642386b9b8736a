//! Owners of slices: the kernel says who a caller is, and a caller sees and changes its own slices only.

#![allow(clippy::print_stdout)]

use crate::rig::{PATIENCE, Router, TestDirectory};
use crate::slices::sliced;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use units::Nanos;

/// Numbers of users, who need no names.
const ALICE: u32 = 4001;
const BOB: u32 = 4002;
const STRANGER: u32 = 4003;

const SOCKET: [&str; 2] = ["--socket", "sockets/control.sock"];

/// A router with a slice of Alice and one of Bob. `None` without root.
struct Shared {
    place: TestDirectory,
    binary: PathBuf,
    router: Router,
}

impl Shared {
    fn start() -> Option<Shared> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: it needs root");
            return None;
        }
        let place = TestDirectory::new(10);
        fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
        place.write("run.toml", &sliced());
        let mode = ["--socket-mode", "0666", "--read-group", "bin"];
        let router = place.start_as(place.command(&[&["run", "run.toml"], &SOCKET[..], &mode].concat()));
        // A copy, because the compiled program may be in a directory that only root can enter.
        let binary = place.path("switchpath");
        fs::copy(env!("CARGO_BIN_EXE_switchpath"), &binary).unwrap();
        let shared = Shared { place, binary, router };
        for (slice, owner, port) in [("alpha", ALICE, 20_000), ("beta", BOB, 20_100)] {
            for line in [
                format!("create {slice} code ipv4 queues 2 rate 10mbit owner {owner}"),
                format!("mi add {slice} 0 198.51.100.1:{port}"),
                format!("reserve {slice} wan/engine rate 10mbit"),
                format!("queue set {slice} 1 wan/engine"),
            ] {
                shared.operate(&line);
            }
        }
        Some(shared)
    }

    fn operate(&self, line: &str) -> String {
        self.place.run_ok(&[&["slice"], &line.split(' ').collect::<Vec<_>>()[..], &SOCKET].concat())
    }

    fn run(&self, (uid, gid): (u32, u32), line: &str) -> Output {
        let mut command = Command::new(&self.binary);
        self.place.prepare(&mut command);
        command.args(line.split(' ').chain(SOCKET)).uid(uid).gid(gid).output().unwrap()
    }

    #[track_caller]
    fn succeeds(&self, uid: u32, line: &str) -> String {
        let output = self.run((uid, uid), line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{uid}: {line}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[track_caller]
    fn fails(&self, uid: u32, line: &str, expected: &str) -> String {
        let output = self.run((uid, uid), line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{uid}: {line}: {said}");
        said
    }
}

fn names(json: &str) -> Vec<String> {
    let reply: Value = serde_json::from_str(json).unwrap();
    let slices = reply["slices"].as_array().unwrap();
    slices.iter().map(|slice| slice["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn owner_sees_and_changes_its_own_slice_only() {
    let Some(shared) = Shared::start() else { return };
    assert_eq!(names(&shared.succeeds(ALICE, "slice list -j")), ["alpha"]);
    assert_eq!(names(&shared.succeeds(BOB, "slice list -j")), ["beta"]);
    assert_eq!(names(&shared.succeeds(0, "slice list -j")), ["alpha", "beta"]);
    // Her own slice: filters, queues within the quota, memory, statistics, exceptions.
    for line in [
        "slice filter insert alpha 10 value 00 mask 00 send 1 0 198.51.100.9:20000",
        "slice filter list alpha",
        "slice queue set alpha 2 wan/engine weight 3",
        "slice mem write alpha 8 c0ffee",
        "slice mem read alpha 8 3",
        "slice stats alpha",
        "slice exc alpha",
        "slice list alpha",
    ] {
        shared.succeeds(ALICE, line);
    }
    shared.fails(ALICE, "slice queue set alpha 3 wan/engine", "the slice has a quota of 2 queues");
    // The slice of another owner does not exist for her, and its name is no hint.
    for line in [
        "slice list beta",
        "slice filter list beta",
        "slice filter insert beta 1 drop",
        "slice queue delete beta 1",
        "slice mem read beta",
        "slice mem write beta 0 00",
        "slice stats beta",
        "slice exc beta",
        "slice router beta",
        "slice list bet",
    ] {
        let said = shared.fails(ALICE, line, "there is no slice 'bet");
        assert!(!said.contains("did you mean 'beta'"), "{said}");
    }
    // Slices, ports and rates belong to the operator.
    for line in [
        "slice reserve alpha wan/engine rate 5mbit",
        "slice mi add alpha 1 198.51.100.1:20001",
        "slice mi delete alpha 0",
        "slice suspend alpha",
        "slice resume alpha",
        "slice delete alpha",
    ] {
        shared.fails(ALICE, line, "this change belongs to the operator of the router");
    }
    shared.fails(ALICE, "slice create gamma code raw", "there is no slice 'gamma'");
    // So does the rest of the router.
    for line in ["show ports", "show config", "apply run.toml", "capture -c 1", "show events"] {
        shared.fails(ALICE, line, "user 4001 is not allowed");
    }
    shared.fails(STRANGER, "slice list", "user 4003 is not allowed");
    // All lines of a batch are checked before one takes effect.
    shared.place.write("batch", "filter insert alpha 11 drop\nfilter insert beta 11 drop\n");
    let said = shared.fails(ALICE, "slice batch batch", "there is no slice 'beta'");
    assert!(said.contains("batch:2"), "{said}");
    assert!(!shared.succeeds(ALICE, "slice filter list alpha").contains("drop"));
    let events = shared.place.run_ok(&[&["show", "events"], &SOCKET[..]].concat());
    for expected in ["alpha", "1 change; by user 4001", "the batch has errors; by user 4001", "1 change; by root"] {
        assert!(events.contains(expected), "{expected}: {events}");
    }
    // Without her slice she is a stranger.
    shared.operate("delete alpha");
    shared.fails(ALICE, "slice list", "user 4001 is not allowed");
    shared.router.stop();
}

#[test]
fn owner_may_be_named_and_readers_see_without_changing() {
    let Some(shared) = Shared::start() else { return };
    shared.operate("create gamma code raw owner daemon");
    let uid = io::accounts::user("daemon").unwrap().uid;
    let listed = shared.operate("list gamma -j");
    assert!(listed.contains(&format!("\"owner_uid\": {uid}")), "{listed}");
    let arguments = [&["slice", "create", "delta", "code", "raw", "owner", "nosuchuser"], &SOCKET[..]].concat();
    let said = shared.place.run_failing(1, &arguments);
    assert!(said.contains("there is no user 'nosuchuser'"), "{said}");
    let bin = io::accounts::group_id("bin").unwrap();
    let read = |line: &str| {
        let output = shared.run((STRANGER, bin), line);
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(read("slice list alpha").0 && read("slice filter list alpha").0);
    for line in ["slice mem read alpha", "slice exc alpha", "slice filter insert alpha 1 drop"] {
        let (success, said) = read(line);
        assert!(!success && said.contains("user 4003 does not own"), "{line}: {said}");
    }
    // A reader who owns a slice has both rights.
    let output = shared.run((ALICE, bin), "slice filter insert alpha 1 drop");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(shared.run((ALICE, bin), "slice list beta").status.success());
    shared.router.stop();
}

/// An owner whose program opens all connections, does not read, and sends rubbish. Others are served in the meantime.
#[test]
fn hostile_owner_blocks_nobody_else() {
    let Some(shared) = Shared::start() else { return };
    if !fs::exists("/usr/bin/python3").is_ok_and(|is| is) {
        println!("skipped: it needs Python");
        return;
    }
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", include_str!("hostile_owner.py")]).arg(shared.place.path("sockets/control.sock"));
    let attack = command.uid(ALICE).gid(ALICE).current_dir("/").stdin(std::process::Stdio::piped());
    let mut attack = attack.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 1];
    std::io::Read::read_exact(attack.stdout.as_mut().unwrap(), &mut ready).unwrap();
    // The attack is at its height now, and lasts until its input ends.
    for round in 0..20 {
        let begun = io::clock::now();
        shared.succeeds(BOB, &format!("slice filter insert beta {round} drop"));
        shared.succeeds(0, "slice list");
        assert!(io::clock::now().since(begun) < Nanos::from(PATIENCE / 3), "round {round}");
    }
    drop(attack.stdin.take());
    let said = attack.wait_with_output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
    // She is served again as well.
    shared.succeeds(ALICE, "slice list alpha");
    shared.router.stop();
}
