//! A router without privileges still does everything, and its socket admits only the right users.

#![allow(clippy::print_stdout)]

use crate::rig::{Router, TestDirectory, config, until};
use io::netns::Lab;
use rustix::process::Signal;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

fn is_root() -> bool {
    let is = rustix::process::geteuid().is_root();
    if !is {
        println!("skipped: it needs root");
    }
    is
}

/// Returns the identity and the privileges of every thread of a router.
fn threads(router: &Router) -> Vec<String> {
    let task = PathBuf::from(format!("/proc/{}/task", router.pid()));
    let status = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path().join("status")).ok()?;
        let wanted = ["Uid:", "CapEff:", "CapPrm:", "CapBnd:", "NoNewPrivs:", "Seccomp:"];
        let lines = text.lines().filter(|line| wanted.iter().any(|name| line.starts_with(name)));
        Some(lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + ";").collect::<String>())
    };
    fs::read_dir(task).unwrap().flatten().filter_map(status).collect()
}

/// Creates a directory that another user can use.
fn open_place() -> TestDirectory {
    let place = TestDirectory::new(60000);
    fs::set_permissions(place.path(""), Permissions::from_mode(0o777)).unwrap();
    place
}

/// The socket, in a directory that only root may change, unlike the open place.
const SOCKET: &str = "deep/control.sock";

/// CAP_NET_BIND_SERVICE, CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK and CAP_BPF.
const PORTS: u64 = 1 << 10 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 39;

#[test]
fn every_thread_has_dropped_its_privileges() {
    if !is_root() {
        return;
    }
    let place = open_place();
    place.write("run.toml", &config("1000pps", "[router]\nworkers = 2"));
    for (options, uid, allowed) in [
        (&[][..], 0, PORTS),
        (&["--user", "nobody"], 65534, PORTS),
        (&["--user", "nobody", "--no-new-ports"], 65534, 0),
    ] {
        let mut arguments = vec!["run", "run.toml", "--state-dir", "state", "--socket", SOCKET];
        arguments.extend(options);
        let router = place.start_as(place.command(&arguments));
        let all = threads(&router);
        assert!(all.len() > 5, "{all:?}");
        for thread in all {
            assert!(thread.contains("NoNewPrivs: 1;") && thread.contains("Seccomp: 2;"), "{thread}");
            let after = |name: &str| thread.split(name).nth(1).unwrap().split(';').next().unwrap().trim().to_owned();
            // Without an option the router becomes the user switchpath if that user exists.
            if !options.is_empty() {
                assert_eq!(after("Uid:"), format!("{uid} {uid} {uid} {uid}"));
            }
            for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
                assert_eq!(u64::from_str_radix(&after(set), 16).unwrap() & !allowed, 0, "{thread}");
            }
        }
        let status = place.json(&["show", "status", "--socket", SOCKET]);
        let told = &status["confinement"];
        assert!(told["seccomp"] == true && told["new_ports"] == (allowed != 0), "{told}");
        // The history is written by the user that the router has become.
        place.write(
            "more.toml",
            &config("1000pps", "[router]\nworkers = 2\n[[route]]\nto = '10.0.0.0/8'\nblackhole = true"),
        );
        let output = place.run(&["apply", "more.toml", "--socket", SOCKET]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{said}");
        let (_, err) = router.stop();
        assert!(err.contains("running as user"), "{err}");
    }
    let router = place.start_as(place.command(&["run", "run.toml", "--unconfined", "--socket", SOCKET]));
    assert!(threads(&router).iter().all(|thread| thread.contains("Seccomp: 0;")));
    router.stop();
    let said = place.run_failing(1, &["run", "run.toml", "--user", "nonesuch", "--socket", SOCKET]);
    assert!(said.contains("there is no user 'nonesuch'"), "{said}");
}

#[test]
fn confined_router_opens_ports_and_serves_captures() {
    let lab = match Lab::new() {
        Ok(lab) if is_root() => lab,
        Ok(_) => return,
        Err(forbidden) => return println!("skipped: {forbidden}"),
    };
    let [inside, outside] = ["inside", "outside"].map(|name| lab.host(name).unwrap());
    for link in ["one", "two"] {
        lab.cable(&inside.plug(link), &outside.plug(link)).unwrap();
    }
    outside.add_address("two", "10.2.0.9".parse().unwrap(), 24).unwrap();
    let place = open_place();
    let ports = |more: &str| {
        config("1000pps", &format!("[port.one]\ndevice = 'packet:one'\naddress = ['10.1.0.1/24']\n{more}"))
    };
    place.write("run.toml", &ports(""));
    let command = place.command(&["run", "run.toml", "--user", "nobody", "--socket", SOCKET]);
    let router = place.start_by(command, |command| inside.spawn(command));
    // A later configuration opens an interface with a capture, and a file to write.
    let two = "[port.two]\ndevice = 'packet:two'\naddress = ['10.2.0.1/24']\ncapture = 'two.pcapng'\n\
               [port.file]\ndevice = 'pcap:'\nwrite = 'later.pcapng'\naddress = ['10.3.0.1/24']\n";
    place.write("run.toml", &ports(two)).run_ok(&["apply", "run.toml", "--socket", SOCKET]);
    let answered = outside.run(|| {
        let socket = std::net::UdpSocket::bind("10.2.0.9:0").unwrap();
        socket.set_read_timeout(Some(crate::rig::PATIENCE)).unwrap();
        socket.connect("10.2.0.1:9").unwrap();
        // No process listens on that port, so the router sends an ICMP error.
        socket.send(b"x").unwrap();
        socket.recv(&mut [0; 8]).unwrap_err().kind()
    });
    assert_eq!(answered.unwrap(), std::io::ErrorKind::ConnectionRefused);
    let packets = place.run_ok(&["capture", "-c", "3", "--socket", SOCKET, "udp"]);
    assert_eq!(packets.lines().count(), 3);
    let mut stream = UnixStream::connect(place.path(SOCKET)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.contains("switchpath_generation 2"), "{page}");
    // SIGHUP reads the file again.
    place.write("run.toml", &ports(""));
    router.signal(Signal::HUP);
    router.await_notice("RELOADING=1");
    router.await_notice("READY=1");
    assert_eq!(place.json(&["show", "status", "--socket", SOCKET])["generation"], 3);
    until(|| (fs::metadata(place.path("two.pcapng")).unwrap().len() > 200).then_some(()));
    // A file outside of the allowed directories is reported before anything is opened.
    let far = "[port.far]\ndevice = 'pcap:'\nwrite = '/etc/later.pcapng'\naddress = ['10.3.0.1/24']\n";
    let said = place.write("run.toml", &ports(far)).run_failing(1, &["apply", "run.toml", "--socket", SOCKET]);
    assert!(said.contains("port far: '/etc/later.pcapng' is outside") && said.contains("--allow-dir /etc"), "{said}");
    router.stop();
}

#[test]
fn no_new_ports_refuses_later_ports() {
    let place = TestDirectory::new(60000);
    place.write("run.toml", &config("1000pps", ""));
    let router = place.start_as(place.command(&["run", "run.toml", "--no-new-ports"]));
    let more = "[port.more]\ndevice = 'pcap:'\nwrite = 'more.pcapng'\naddress = ['10.3.0.1/24']\n";
    let said = place.write("run.toml", &config("1000pps", more)).run_failing(1, &["apply", "run.toml"]);
    assert!(said.contains("port more") && said.contains("--no-new-ports"), "{said}");
    let other = "[[route]]\nto = '10.0.0.0/8'\nblackhole = true";
    place.write("run.toml", &config("1000pps", other)).run_ok(&["apply", "run.toml"]);
    router.stop();
}

#[test]
fn socket_groups_limit_read_and_write_access() {
    if !is_root() {
        return;
    }
    // Arbitrary group numbers: groups need no names.
    let place = open_place();
    place.write("run.toml", &config("1000pps", ""));
    place.write("more.toml", &config("1000pps", "[[route]]\nto = '10.0.0.0/8'\nblackhole = true"));
    fs::create_dir(place.path("sockets")).unwrap();
    chown(place.path("sockets"), Some(0), Some(0)).unwrap();
    let socket = ["--socket", "sockets/control.sock"];
    let groups = ["--socket-group", "daemon", "--read-group", "bin"];
    let router = place.start_as(place.command(&[&["run", "run.toml"], &socket[..], &groups].concat()));
    // A copy, because the compiled program may be in a directory that only root can enter.
    let binary = place.path("switchpath");
    fs::copy(env!("CARGO_BIN_EXE_switchpath"), &binary).unwrap();
    let ask = |group: u32, arguments: &[&str]| {
        let mut command = Command::new(&binary);
        place.prepare(&mut command);
        let output = command.args([arguments, &socket[..]].concat()).uid(4242).gid(group).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let [full, read] = ["daemon", "bin"].map(|name| io::accounts::group_id(name).unwrap());
    for (group, looks, changes) in [(full, true, true), (read, true, false), (4242, false, false)] {
        let (good, said) = ask(group, &["show", "ports"]);
        assert_eq!(good, looks, "{group}: {said}");
        let (good, said) = ask(group, &["apply", "more.toml"]);
        assert_eq!(good, changes, "{group}: {said}");
        assert!(good || said.contains("user 4242 is not allowed") && said.contains("--socket-group"), "{said}");
        let (good, said) = ask(group, &["capture", "-c", "1"]);
        assert_eq!(good, changes, "{group}: {said}");
    }
    let history = place.json(&[&["history"], &socket[..]].concat());
    assert_eq!(history["entries"][1]["who"]["uid"], 4242);
    router.stop();
}
