//! Tests `switchpath demo` as root, without privileges, with namespaces forbidden, interrupted and killed. They check its output and its exit status,
//! and that it leaves no processes or namespaces behind.

#![allow(clippy::print_stdout)]

use io::netlink::Netlink;
use io::wait::{Sleeper, WakeReason, Waker};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use units::Nanos;

const PROGRAM: &str = env!("CARGO_BIN_EXE_switchpath-lab");
const NO_NAMESPACES: &str = "SWITCHPATH_NO_NAMESPACES";
const IN_MEMORY: &str = "Hosts: in memory";
const IN_NAMESPACES: &str = "Hosts: Linux network namespaces";

fn demo(program: &Path, seconds: u32) -> Command {
    let mut command = Command::new(program);
    command.args(["demo", "--seconds", &seconds.to_string()]).env_remove(NO_NAMESPACES);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the command to its end. Returns its exit status and output.
fn finish(command: &mut Command) -> (ExitStatus, String) {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status, format!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// True if the system allows hosts of the kernel; prints a note if not.
fn has_namespaces() -> bool {
    io::netns::probe().inspect_err(|forbidden| println!("hosts in memory only: {forbidden}")).is_ok()
}

/// Checks the output of a successful demonstration.
fn assert_went_well(status: ExitStatus, text: &str) {
    assert!(status.success(), "{status}: {text}");
    let flows: Vec<&str> = text.lines().filter(|line| line.trim_end().ends_with(" ok")).collect();
    for (kind, count) in [("tcp", 4), ("udp", 2), ("ping", 4)] {
        let found = flows.iter().filter(|line| line.trim_start().starts_with(kind)).count();
        assert_eq!(found, count, "{kind}: {text}");
    }
    for reason in ["ttl_expired", "blackhole", "no_route"] {
        let line = text.lines().rev().find(|line| line.trim_start().starts_with(reason));
        let numbers: Vec<u64> = line.unwrap_or("").split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // On a busy machine one may be lost before it reaches the router.
        assert!(matches!(numbers[..], [dropped, sent] if (1..=sent).contains(&dropped)), "{reason}: {text}");
    }
    assert!(text.contains("Reloaded at 1.") && text.contains("+ path voice"), "{text}");
    assert_law_held(text);
}

/// Checks the conservation law from the printed terms.
fn assert_law_held(text: &str) {
    let law = text.lines().find(|line| line.starts_with("Conservation law: ")).unwrap_or_else(|| panic!("{text}"));
    assert!(law.ends_with("  OK"), "{law}");
    let number = |after: &str| -> u64 {
        let rest = law.split_once(after).unwrap_or_else(|| panic!("{after} in {law}")).1;
        rest.split_whitespace().next().unwrap().replace(',', "").parse().unwrap()
    };
    let came = number("received ") + number("generated ");
    assert_eq!(came, number("sent ") + number("consumed ") + number("dropped ") + number("held "), "{law}");
    assert_eq!(number("held "), 0);
}

/// One line a second, without escape sequences.
fn assert_plain(text: &str) {
    assert!(!text.contains('\x1b'), "{text:?}");
    let lines = text.lines().filter(|line| line.contains(" s  packets/s in ")).count();
    assert!((2..=4).contains(&lines), "{text}");
}

#[test]
fn kernel_hosts_communicate_and_every_packet_is_accounted_for() {
    let (status, text) = finish(&mut demo(Path::new(PROGRAM), 2));
    assert_went_well(status, &text);
    assert_plain(&text);
    assert!(text.contains(if has_namespaces() { IN_NAMESPACES } else { IN_MEMORY }), "{text}");
}

#[test]
fn demo_runs_without_privileges() {
    if !rustix::process::getuid().is_root() {
        println!("skipped: only root can become nobody; the other tests have run without rights");
        return;
    }
    // Copy the program to a directory that the user can read: build directories are often private.
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("switchpath");
    fs::copy(PROGRAM, &program).unwrap();
    let (status, text) = finish(demo(&program, 2).uid(65534).gid(65534).current_dir(directory.path()));
    assert_went_well(status, &text);
    // Either it uses namespaces, or it says why not and what to do.
    assert!(text.contains(IN_NAMESPACES) || (text.contains(IN_MEMORY) && text.contains("forbidden")), "{text}");
}

#[test]
fn forbidden_namespaces_are_reported_and_hosts_run_in_memory() {
    let (status, text) = finish(demo(Path::new(PROGRAM), 2).env(NO_NAMESPACES, "1"));
    assert_went_well(status, &text);
    assert_plain(&text);
    let said = text.lines().next().unwrap();
    for word in ["user namespaces are forbidden here", "sysctl -w", "as root"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(text.contains(IN_MEMORY), "{text}");
    let (status, text) = finish(demo(Path::new(PROGRAM), 2).arg("--memory"));
    assert_went_well(status, &text);
    assert!(text.contains(IN_MEMORY) && !text.contains("forbidden"), "{text}");
}

/// A demonstration of one hour that has printed its first line of counters, and the rest of its output.
fn under_way(command: &mut Command) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains(" s  packets/s in ") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended before its time");
    }
    (child, said)
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

#[test]
fn interrupted_demo_ends_cleanly_with_a_summary() {
    for forbidden in [false, true] {
        for signal in [Signal::INT, Signal::TERM] {
            let mut command = demo(Path::new(PROGRAM), 3600);
            if forbidden {
                command.env(NO_NAMESPACES, "1");
            }
            let (mut child, mut said) = under_way(&mut command);
            kill_process(pid(&child), signal).unwrap();
            let mut rest = String::new();
            said.read_to_string(&mut rest).unwrap();
            let status = child.wait().unwrap();
            assert!(status.success(), "{status}: {rest}");
            assert!(rest.contains("Interrupted after "), "{rest}");
            assert!(!rest.contains("Reloaded") && !rest.contains("FAILED"), "{rest}");
            assert_law_held(&rest);
        }
    }
}

/// The network namespaces that a process uses or has open, except for that of this process.
fn namespaces(process: &Path) -> BTreeSet<String> {
    let of = |path: &Path| fs::read_link(path).ok().map(|link| link.to_string_lossy().into_owned());
    let own = of(Path::new("/proc/self/ns/net"));
    let entries = |directory: &str| fs::read_dir(process.join(directory)).into_iter().flatten().flatten();
    let held = entries("fd").filter_map(|descriptor| of(&descriptor.path()));
    let inside = entries("task").filter_map(|task| of(&task.path().join("ns/net")));
    held.chain(inside).filter(|found| found.starts_with("net:[") && Some(found) != own.as_ref()).collect()
}

/// The processes that use one of these namespaces.
fn holders(wanted: &BTreeSet<String>) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let holding = processes.filter(|path| !namespaces(path).is_disjoint(wanted));
    holding.map(|path| path.display().to_string()).collect()
}

#[test]
fn killed_demo_leaves_no_process_or_namespace() {
    let links = || Netlink::open().unwrap().links().unwrap();
    let before = links();
    let (mut child, _said) = under_way(&mut demo(Path::new(PROGRAM), 3600));
    let process = format!("/proc/{}", child.id());
    let made = namespaces(Path::new(&process));
    if has_namespaces() {
        assert!(made.len() >= 4, "three hosts and the router: {made:?}");
        assert_eq!(holders(&made), [process.as_str()]);
    }
    let children = fs::read_to_string(format!("{process}/task/{}/children", child.id())).unwrap_or_default();
    assert_eq!(children.trim(), "", "it starts no programs");
    let watched = pidfd_open(pid(&child), PidfdFlags::empty()).unwrap();
    child.kill().unwrap();
    let mut sleeper = Sleeper::new(Waker::new().unwrap());
    assert_eq!(sleeper.sleep([watched.as_fd()], Nanos::secs(10)).unwrap(), WakeReason::Ready);
    child.wait().unwrap();
    assert_eq!(holders(&made), Vec::<String>::new());
    assert_eq!(links(), before);
    // And the next one starts normally.
    let (status, text) = finish(&mut demo(Path::new(PROGRAM), 2));
    assert_went_well(status, &text);
}
