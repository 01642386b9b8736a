//! Tests of `switchpath link` with the kernel's own network, if the system allows namespaces.
//!
//! The commands behind the links are this test program itself: [`peer`] plays the end that the environment names.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// The end to play: `receive FILE`, `send BYTES`, `datagrams COUNT LENGTH`, `count FILE`; the first two with a 6 over IPv6.
const ROLE: &str = "LINK_TEST_PEER";
/// The far end's address.
const FAR: &str = "SWITCHPATH_FAR";
const FAR_V6: &str = "SWITCHPATH_FAR6";
const PORT: u16 = 5001;
/// How long any step may stall.
const PATIENCE: Duration = Duration::from_secs(20);

fn switchpath() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchpath-lab"));
    command.arg("link");
    command
}

fn link(arguments: &[&str]) -> Output {
    switchpath().args(arguments).output().expect("the program starts")
}

/// True if namespaces are allowed here; prints a note if not.
#[expect(clippy::print_stderr, reason = "a test that had nothing to test says so")]
fn has_namespaces() -> bool {
    match io::netns::probe() {
        Ok(_) => true,
        Err(forbidden) => {
            eprintln!("skipped: {forbidden}");
            false
        }
    }
}

/// A folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("link-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

/// The command that plays an end.
fn end(role: &str) -> String {
    let program = std::env::current_exe().expect("it has a name");
    format!("{ROLE}='{role}' exec '{}' --exact peer --quiet", program.display())
}

/// Runs a shell command behind a link, with another at its far end.
fn between(arguments: &[&str], far: &str, near: &str) -> Output {
    let mut all = arguments.to_vec();
    all.extend(["--far", far, "--", "sh", "-c", near]);
    let output = link(&all);
    assert!(output.status.success(), "{output:?}");
    output
}

/// The report as JSON: from the last line that is only an opening brace.
fn report(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let begin = text.rfind("\n{\n").map_or(0, |at| at + 1);
    serde_json::from_str(&text[begin..]).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Datagrams that were lost because the sockets of this network were full.
fn overflowed_datagrams() -> usize {
    let text = fs::read_to_string("/proc/self/net/snmp").expect("the kernel counts");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: ")).map(|line| line.split(' '));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let (_, value) = names.zip(values).find(|(name, _)| *name == "RcvbufErrors").expect("it is counted");
    value.parse().expect("a number")
}

/// One end of the traffic of the other tests, which start it: bytes over TCP, or datagrams.
#[test]
fn peer() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let number = |place: usize| words[place].parse::<usize>().expect("a number");
    let far = || format!("{}:{PORT}", std::env::var(FAR).expect("the far end has an address"));
    let far_v6 = || format!("[{}]:{PORT}", std::env::var(FAR_V6).expect("the far end has an address"));
    match words[0] {
        role @ ("receive" | "receive6") => {
            let listener =
                TcpListener::bind((if role == "receive" { "0.0.0.0" } else { "::" }, PORT)).expect("the port is free");
            let (mut from, _) = listener.accept().expect("somebody comes");
            let (begun, mut bytes, mut buffer) = (io::clock::now(), 0, vec![0; 1 << 16]);
            loop {
                match from.read(&mut buffer).expect("the connection stands") {
                    0 => break,
                    read => bytes += read,
                }
            }
            let seconds = io::clock::now().since(begun).as_secs_f64();
            fs::write(words[1], format!("{bytes} {seconds}")).expect("the file can be written");
            // This tells the other end to stop.
            from.write_all(b"all").expect("the connection stands");
        }
        role @ ("send" | "send6") => {
            let mut to = TcpStream::connect(if role == "send" { far() } else { far_v6() }).expect("somebody listens");
            to.set_read_timeout(Some(PATIENCE)).expect("it is not zero");
            to.write_all(&vec![0x5a; number(1)]).expect("the connection stands");
            to.shutdown(std::net::Shutdown::Write).expect("the connection stands");
            let mut said = String::new();
            to.read_to_string(&mut said).expect("the other end has all");
            assert_eq!(said, "all");
        }
        "datagrams" => {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("there is a port");
            socket.connect(far()).expect("there is a route");
            let bytes = vec![0x5a; number(2)];
            for _ in 0..number(1) {
                socket.send(&bytes).expect("it can be sent");
            }
            // Repeat the last datagram until it is answered: all earlier ones have then left the link.
            socket.set_read_timeout(Some(Duration::from_millis(200))).expect("it is not zero");
            let heard = (0..100).any(|_| {
                let _ = socket.send(b"end");
                socket.recv(&mut [0; 16]).is_ok()
            });
            assert!(heard, "the far end does not answer");
        }
        "count" => {
            let socket = UdpSocket::bind(("0.0.0.0", PORT)).expect("the port is free");
            socket.set_read_timeout(Some(PATIENCE)).expect("it is not zero");
            let (mut count, mut buffer) = (0, [0; 2048]);
            loop {
                let (length, from) = socket.recv_from(&mut buffer).expect("something comes");
                if length == 3 {
                    // Datagrams that overflowed this socket have crossed the link too, so count them.
                    fs::write(words[1], (count + overflowed_datagrams()).to_string()).expect("the file can be written");
                    socket.send_to(b"end", from).expect("it can be sent");
                } else {
                    count += 1;
                }
            }
        }
        other => panic!("no end is called {other}"),
    }
}

#[test]
fn exit_status_is_that_of_the_command() {
    if !has_namespaces() {
        return;
    }
    assert_eq!(link(&["--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(link(&["--", "sh", "-c", "kill -9 $$"]).status.code(), Some(137));
    let nothing = link(&["--", "/no/such/program"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("/no/such/program cannot be started"));
    let wrong = link(&["--down", "no-such-file", "--", "true"]);
    assert!(!wrong.status.success());
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("no-such-file"), "{wrong:?}");
    let wrong = link(&["--scheme", "no-such-scheme", "--", "true"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("no-such-scheme"), "{wrong:?}");
}

/// The round trips that ping printed, in milliseconds; `None` if ping is not installed.
fn pings(output: &Output) -> Option<Vec<f64>> {
    if String::from_utf8_lossy(&output.stderr).contains("ping cannot be started") {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().filter_map(|line| line.split("time=").nth(1)?.split(' ').next()?.parse().ok()).collect())
}

#[test]
fn round_trip_takes_twice_the_delay() {
    if !has_namespaces() {
        return;
    }
    let links = ["--down", "10mbit", "--up", "10mbit", "--delay", "20ms", "--"];
    let ping = link(&[&links[..], &["ping", "-c", "6", "-i", "0.2", "{far}"]].concat());
    let Some(times) = pings(&ping) else { return };
    assert_eq!(times.len(), 6, "{ping:?}");
    // Never less. The upper bound is wide, because other tests run in parallel.
    assert!(times.iter().all(|time| *time >= 40.0), "{times:?}");
    assert!(times.iter().copied().fold(f64::MAX, f64::min) < 45.0, "{times:?}");
    let said = String::from_utf8_lossy(&ping.stderr);
    assert!(said.contains("to the far end, p99") && said.contains("up   throughput"), "{said}");
}

#[test]
fn links_can_be_nested() {
    let v6 = Path::new("/proc/sys/net/ipv6").exists();
    for far in ["{far}", "{far6}"].into_iter().take(if v6 { 2 } else { 1 }) {
        if !has_namespaces() {
            return;
        }
        let inner = [
            env!("CARGO_BIN_EXE_switchpath-lab"),
            "link",
            "--delay",
            "15ms",
            "--",
            "ping",
            "-c",
            "4",
            "-i",
            "0.2",
            far,
        ];
        let ping = link(&[&["--delay", "10ms", "--"][..], &inner].concat());
        let Some(times) = pings(&ping) else { return };
        assert_eq!(times.len(), 4, "{ping:?}");
        assert!(times.iter().all(|time| *time >= 50.0), "{times:?}");
        assert!(times.iter().copied().fold(f64::MAX, f64::min) < 60.0, "{times:?}");
    }
}

#[test]
fn kernel_tcp_uses_the_rate_of_the_link() {
    if !has_namespaces() {
        return;
    }
    let folder = folder("tcp");
    let file = folder.join("received");
    let links = ["--up", "20mbit", "--delay", "10ms", "--scheme", "codel", "-j"];
    let output = between(&links, &end(&format!("receive {}", file.display())), &end("send 5000000"));
    let text = fs::read_to_string(&file).expect("the receiver has ended");
    let (bytes, seconds) = text.split_once(' ').expect("two numbers");
    let (bytes, seconds): (f64, f64) = (bytes.parse().expect("a number"), seconds.parse().expect("a number"));
    assert_eq!(bytes, 5e6, "TCP loses nothing");
    // Segments of 1448 bytes in packets of 1500: never more than that, and nearly that much once the window is open.
    let (rate, full) = (bytes * 8.0 / seconds, 20e6 * 1448.0 / 1500.0);
    assert!(rate < full * 1.01, "{rate} of {full}");
    assert!(rate > full * 0.75, "{rate} of {full}");
    let up = report(&output)["directions"][1].clone();
    assert_eq!(up["direction"], "up");
    let (came, left) = (up["packets"]["came"].as_u64().unwrap(), up["packets"]["left"].as_u64().unwrap());
    let dropped: u64 = up["drops"].as_array().unwrap().iter().map(|drop| drop["packets"].as_u64().unwrap()).sum();
    assert_eq!(came, left + dropped, "{up}");
    assert!(came > 5_000_000 / 1448, "{up}");
    // CoDel has to hold the queueing delay low.
    assert!(up["queue_delay"]["p50_ms"].as_f64().unwrap() < 60.0, "{up}");
    assert_eq!(report(&output)["balanced"], true);
}

#[test]
fn ipv6_uses_the_link_as_ipv4_does() {
    if !has_namespaces() || !Path::new("/proc/sys/net/ipv6").exists() {
        return;
    }
    let folder = folder("ipv6");
    let (file, prefix) = (folder.join("received"), folder.join("run"));
    let log_to = prefix.to_str().expect("it is text");
    let links = ["--up", "20mbit", "--delay", "10ms", "-j", "--log", log_to];
    let near = format!("ping -c 3 -i 0.2 $SWITCHPATH_FAR6 || test $? = 127; {}", end("send6 500000"));
    let output = between(&links, &end(&format!("receive6 {}", file.display())), &near);
    let text = fs::read_to_string(&file).expect("the receiver has ended");
    assert!(text.starts_with("500000 "), "{text}");
    let times = pings(&output).expect("the shell tells of no ping");
    assert!(times.iter().all(|time| *time >= 20.0), "{times:?}");
    let (_, lines) = log(&prefix.with_extension("up"));
    // Segments of 1428 bytes: the IPv6 header is 20 bytes longer.
    let whole = lines.iter().filter(|(_, words)| words[0] == "-" && words[1] == "1500").count();
    assert!((300..=351).contains(&whole), "{whole} whole packets of 500000 bytes");
    assert_eq!(report(&output)["balanced"], true);
}

/// The lines of a log: its header, and the events with their times.
fn log(path: &Path) -> (Vec<String>, Vec<(u64, Vec<String>)>) {
    let text = fs::read_to_string(path).expect("the log is there");
    let (head, lines): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('#'));
    let lines = lines.into_iter().map(|line| {
        let mut words = line.split(' ').map(str::to_owned);
        let at = words.next().and_then(|word| word.parse().ok()).expect("a time");
        (at, words.collect())
    });
    (head.into_iter().map(str::to_owned).collect(), lines.collect())
}

#[test]
fn log_has_every_packet_and_every_drop() {
    if !has_namespaces() {
        return;
    }
    let folder = folder("log");
    let (file, prefix) = (folder.join("counted"), folder.join("run"));
    let trace = folder.join("trace");
    // Two opportunities of 1504 bytes per millisecond.
    let lines: String = (1..=1000).map(|at| format!("{at}\n{at}\n")).collect();
    fs::write(&trace, lines).expect("the trace can be written");
    let links = [
        "--up",
        trace.to_str().expect("it is text"),
        "--delay",
        "5ms",
        "--loss",
        "10%",
        "--scheme",
        "fifo(limit=300)",
        "--log",
        prefix.to_str().expect("it is text"),
    ];
    let output = between(&links, &end(&format!("count {}", file.display())), &end("datagrams 1000 1000"));
    let counted: usize = fs::read_to_string(&file).expect("the end was heard").parse().expect("a number");
    let (head, lines) = log(&prefix.with_extension("up"));
    assert!(head.iter().any(|line| line == "# base timestamp: 0"), "{head:?}");
    assert!(lines.iter().map(|(at, _)| at).is_sorted(), "lines are in the order of their times");
    // 1000 bytes, 28 of headers, and 4 of a tunnel device, as that mode counts.
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, words) in &lines {
        let size = if words[0] == "d" { &words[2] } else { &words[1] };
        if size == "1032" {
            *kinds.entry(words[0].as_str()).or_default() += 1;
        }
    }
    assert_eq!(kinds["+"], 1000, "{kinds:?}");
    assert_eq!(kinds["+"], kinds["-"] + kinds["d"], "{kinds:?}");
    assert_eq!(kinds["-"], counted, "what has left arrived: {kinds:?}");
    // In any 50 ms at most as many bytes as the opportunities allow.
    let left: Vec<u64> = lines.iter().filter(|(_, words)| words[0] == "-").map(|(at, _)| *at).collect();
    let most = left.iter().map(|from| left.iter().filter(|at| (*from..*from + 50).contains(at)).count()).max();
    assert!(most.unwrap_or(0) <= 2 * 50 * 1504 / 1032 + 2, "{most:?}");
    let opportunities = lines.iter().filter(|(_, words)| words[0] == "#").count() as u64;
    let last = lines.last().map_or(0, |(at, _)| *at);
    assert!(opportunities.abs_diff(2 * last) <= 4, "{opportunities} until {last} ms");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("dropped, link_loss") && said.contains("dropped, scheme_arrival"), "{said}");
}

#[test]
fn report_names_the_router_as_bottleneck() {
    if !has_namespaces() {
        return;
    }
    let folder = folder("bottleneck");
    let (file, prefix, out) = (folder.join("counted"), folder.join("run"), folder.join("out"));
    let [log_to, out_to] = [&prefix, &out].map(|path| path.to_str().expect("it is text"));
    // The bandwidth-delay product of half a second exceeds the memory.
    let links = ["--delay", "500ms", "--packets", "1024", "--log", log_to, "--out", out_to];
    let output = between(&links, &end(&format!("count {}", file.display())), &end("datagrams 3000 200"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("This machine was a bottleneck") && said.contains("--packets"), "{said}");
    let (head, _) = log(&prefix.with_extension("up"));
    assert!(head.iter().any(|line| line.contains("--packets")), "{head:?}");
    for name in
        ["index.html", "report.json", "series.csv", "throughput.svg", "throughput.png", "queue.svg", "delay.png"]
    {
        let length = fs::metadata(out.join(name)).map_or(0, |file| file.len());
        assert!(length > 100, "{name} has {length} bytes");
    }
    let page = fs::read_to_string(out.join("index.html")).expect("it is there");
    assert!(page.contains("This machine was a bottleneck") && page.contains("datagrams 3000 200"), "{page}");
}

/// An error names the option, not the configuration built from it.
#[test]
fn link_option_error_names_the_option() {
    for (options, said) in [
        (&["--delay", "50"][..], "--delay 50: '50' has no unit; use one of"),
        (&["--loss", "1"], "--loss 1: '1' is ambiguous: a percentage or a fraction; write 1% or 100%"),
        (&["--loss", "0.5"], "--loss 0.5: '0.5' is ambiguous: a percentage or a fraction; write 0.5% or 50%"),
        (&["--reorder", "2"], "--reorder 2: '2' is ambiguous: a percentage or a fraction; write 2%"),
        (&["--down", "0bit"], "--down 0bit: a link with rate zero sends no packets"),
        (&["--up", "1mbit", "--up-scheme", "codell"], "--up-scheme codell: "),
        (&["--scheme", "codell"], "--scheme codell: "),
    ] {
        let output = link(&[options, &["--", "true"]].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), error.matches(said).count()), (Some(2), 1), "{error}");
        assert!(!error.contains("link:") && !error.contains("port."), "{error}");
    }
}

/// Runs as the user `nobody`, where user namespaces are allowed.
#[test]
#[expect(clippy::print_stderr, reason = "a test that had nothing to test says so")]
fn link_needs_no_root() {
    if !has_namespaces() || !rustix::process::getuid().is_root() {
        return;
    }
    // Copy the program to a place where every user can execute it.
    let moved = std::env::temp_dir().join(format!("switchpath-{}", std::process::id()));
    fs::copy(env!("CARGO_BIN_EXE_switchpath-lab"), &moved).expect("it can be copied");
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new(&moved);
        command.arg("link").args(arguments).uid(65534).gid(65534).current_dir("/").output().expect("it starts")
    };
    let output = as_nobody(&["--delay", "3ms", "--", "sh", "-c", "cat /proc/net/dev; exit 5"]);
    let _ = fs::remove_file(&moved);
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("user namespaces are forbidden") {
        eprintln!("skipped: {said}");
        return;
    }
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("eth0"), "{output:?}");
}
