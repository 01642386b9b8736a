//! Hostile callers with read access, or with no access, cannot keep the owner from reading and changing the router, and cannot make it use more
//! memory.

#![allow(clippy::print_stdout)]

use crate::rig::{Router, TestDirectory, config};
use io::clock;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use units::Nanos;

/// A user and a group without privileges that every system has.
const NOBODY: u32 = 65534;
/// The duration of the attacks.
const TIME: Nanos = Nanos::secs(12);
/// The longest a call of the owner may take meanwhile: about a second, plus a margin for a busy machine.
const CALL: Nanos = Nanos::secs(5);
/// The router may grow by the memory limit of all requests together.
const GROWTH_KB: u64 = 64 << 10;

/// A router with read access for the members of a group and the holders of a token.
struct Attacked {
    place: TestDirectory,
    router: Router,
    address: String,
}

impl Attacked {
    fn start() -> Attacked {
        let place = TestDirectory::new(60000);
        fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
        place.write("a.toml", &config("2000pps", ""));
        place.write("b.toml", &config("2000pps", "[[path]]\nname = 'dns'\nmatch = 'udp dport 53'"));
        place.run_ok(&["certificate", "--dir", "tls", "localhost", "127.0.0.1"]);
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let files = ["--tls-cert", "tls/certificate.pem", "--tls-key", "tls/key.pem", "--token-file", "tls/token"];
        let more = ["--read-token-file", "tls/read-token", "--listen", &address, "--read-group", &group()];
        let router = place.start_as(place.command(&[&["run", "a.toml"], &files[..], &more].concat()));
        Attacked { place, router, address }
    }

    /// Starts the attacks, as a user with read access to the socket and with the read token.
    fn attack(&self) -> Child {
        let token = fs::read_to_string(self.place.path("tls/read-token")).unwrap();
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", include_str!("hostile.py")]);
        command.arg((TIME.get() / 1_000_000_000).to_string()).arg(self.place.path("control.sock"));
        command.args([&self.address, token.trim()]);
        command.uid(NOBODY).gid(NOBODY).current_dir("/").stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Returns the memory of the router in kilobytes: the present or the peak value.
    fn memory(&self, which: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.router.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(which)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Makes a call of the owner, which has to succeed, and returns its duration.
    fn call(&self, arguments: &[&str], remote: bool) -> Nanos {
        let url = format!("https://{}", self.address);
        let how = ["--remote", &url, "--ca", "tls/certificate.pem", "--token-file", "tls/token"];
        let begun = clock::now();
        self.place.run_ok(&[&arguments[..1], if remote { &how } else { &[] }, &arguments[1..]].concat());
        clock::now().since(begun)
    }
}

/// Returns the name of group 65534.
fn group() -> String {
    let groups = fs::read_to_string("/etc/group").unwrap();
    let found = groups.lines().find(|line| line.split(':').nth(2) == Some("65534"));
    found.and_then(|line| line.split(':').next()).unwrap().to_owned()
}

fn can_run() -> bool {
    let can = rustix::process::geteuid().is_root() && fs::exists("/usr/bin/python3").is_ok_and(|is| is);
    if !can {
        println!("skipped: it needs root and Python");
    }
    can
}

#[test]
fn hostile_callers_do_not_block_the_owner() {
    if !can_run() {
        return;
    }
    let attacked = Attacked::start();
    attacked.call(&["show", "ports"], false);
    attacked.call(&["show", "ports"], true);
    let before = attacked.memory("VmRSS");
    let attack = attacked.attack();
    let end = clock::now() + TIME;
    let mut slowest: BTreeMap<String, Nanos> = BTreeMap::new();
    let mut rounds = 0;
    while clock::now() + Nanos::secs(1) < end || rounds < 3 {
        let file = ["b.toml", "a.toml"][rounds % 2];
        for (arguments, remote) in [
            (&["apply", file, "--confirm", "60s"][..], rounds % 3 == 2),
            (&["confirm"], false),
            (&["show", "ports"], false),
            (&["show", "drops"], true),
        ] {
            let took = attacked.call(arguments, remote);
            let slowest = slowest.entry(format!("{}, remote {remote}", arguments[0])).or_default();
            *slowest = (*slowest).max(took);
        }
        rounds += 1;
    }
    let peak = attacked.memory("VmHWM");
    let output = attack.wait_with_output().unwrap();
    let counts = String::from_utf8(output.stdout).unwrap();
    println!("{rounds} rounds, the slowest calls {slowest:?}, {before} kB before and {peak} kB at most\n{counts}");
    assert!(slowest.values().all(|took| *took < CALL), "{slowest:?}");
    assert!(peak - before < GROWTH_KB, "it grew from {before} to {peak} kB");
    // Each attack made progress.
    for place in ["socket", "tls"] {
        for attack in
            ["half head", "half body", "slow head", "slow body", "unread /metrics", "schedule", "huge body", "flood"]
        {
            assert!(counts.contains(&format!("{place} {attack} ")), "{place} {attack}: {counts}");
        }
    }
    assert!(counts.contains("tls wrong token ") && counts.contains("tls half handshake "), "{counts}");
    let (out, _) = attacked.router.stop();
    assert!(out.contains("every packet accounted for"), "{out}");
}

#[test]
fn request_size_of_readers_is_bounded() {
    if !can_run() {
        return;
    }
    let attacked = Attacked::start();
    let reader = |arguments: &[&str]| {
        let url = format!("https://{}", attacked.address);
        let how = ["--remote", &url, "--ca", "tls/certificate.pem", "--token-file", "tls/read-token"];
        attacked.place.run(&[&arguments[..1], &how, &arguments[1..]].concat())
    };
    let text = config("2000pps", "");
    let rows: String = (0..15_000)
        .map(|i| format!("[[route]]\nto = '10.{}.{}.0/24'\nvia = '198.51.100.9'\n", i / 256, i % 256))
        .collect();
    let comment = "# nothing\n".repeat(300_000);
    for (name, text, refused) in [
        ("small.toml", text.clone(), None),
        ("long.toml", format!("{text}{comment}"), Some("larger than 1 MiB")),
        ("wide.toml", format!("{text}{rows}"), Some("read-only callers have")),
    ] {
        attacked.place.write(name, &text);
        let output = reader(&["diff", name]);
        let said = String::from_utf8_lossy(&output.stderr);
        match refused {
            None => assert!(output.status.success(), "{said}"),
            Some(reason) => assert!(!output.status.success() && said.contains(reason), "{name}: {said}"),
        }
        // The owner has no such limit.
        attacked.place.run_ok(&["diff", name]);
    }
    attacked.router.stop();
}

/// Wrong tokens from the owner's address do not block the right one.
#[test]
fn wrong_tokens_lock_nobody_out() {
    let place = TestDirectory::new(60000);
    place.write("run.toml", &config("2000pps", ""));
    place.run_ok(&["certificate", "--dir", "tls", "localhost", "127.0.0.1"]);
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let files = ["--tls-cert", "tls/certificate.pem", "--tls-key", "tls/key.pem", "--token-file", "tls/token"];
    let router = place.start_as(place.command(&[&["run", "run.toml", "--listen", &address], &files[..]].concat()));
    place.write("wrong", &"x".repeat(64));
    fs::set_permissions(place.path("wrong"), Permissions::from_mode(0o600)).unwrap();
    let url = format!("https://{address}");
    let ask =
        |token: &str| place.run(&["show", "--remote", &url, "--ca", "tls/certificate.pem", "--token-file", token]);
    let wrong: Vec<_> = (0..14).map(|_| ask("wrong")).collect();
    assert!(wrong.iter().all(|output| !output.status.success()));
    assert!(ask("tls/token").status.success());
    let (_, err) = router.stop();
    let logged = err.lines().filter(|line| line.contains("had no token, or a wrong one")).count();
    assert_eq!(logged, 10, "an address cannot fill the log: {err}");
}
