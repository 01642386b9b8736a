//! A worker with packets to forward makes no system call that could block. strace watches its thread while it forwards bursts between real interfaces.
//!
//! The rule: while at least [`MARGIN`] packets wait in the router, the worker may make only the calls of [`cannot_block`]. They transmit or poll
//! without waiting, or ask the kernel for a value. A futex wait, a sleep, a poll with a timeout, and every call that is not listed is a failure.
//!
//! The worker also answers the control side, ten times a second. An answer is no part of forwarding. It allocates, so it may enlarge the heap or wait
//! for the lock of the allocator. strace shows such calls directly before the futex wake that delivers the answer. The test allows them only
//! there, and bounds the number of answers.
//!
//! A worker without packets may sleep, so the test counts only calls in a time in which a backlog is certain. Each burst fits in the receive ring, and
//! a function with a fixed cost makes the worker need many milliseconds for it.

#![allow(clippy::print_stdout)]

use control::{Daemon, DaemonOptions};
use io::clock;
use io::devices::Devices;
use io::netns::{Lab, LabHost, Plug};
use io::packet_ring::{PacketOptions, PacketPort};
use io::wait::{Sleeper, Waker};
use packet::port::Port;
use packet::wire::{Ipv4Spec, ethernet, ethertype, protocol};
use packet::{Batch, Pool, Region};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use units::{Instant, Mac, Nanos};

const ROUTER: Mac = Mac([2, 0, 0, 0, 0, 1]);
const SENDER: Mac = Mac([2, 0, 0, 0, 0, 7]);
/// The packets of a burst: less than the 4096 slots of the receive ring.
const BURST: usize = 4000;
/// Packets that may be behind the worker, in the device or at the receiver's, while the receiver has not counted them.
const MARGIN: usize = 1000;
const BURSTS: usize = 10;
/// The longest wait for anything.
const PATIENCE: Nanos = Nanos::secs(20);

const CONFIG: &str = "version = 1
[cpu]
admission = 'warn'
[port.lan]
device = 'packet:lan'
mac = '02:00:00:00:00:01'
address = ['192.0.2.1/24']
congestion = 'throttle'
[port.wan]
device = 'packet:wan'
address = ['198.51.100.1/24']
[[neighbour]]
address = '198.51.100.9'
mac = '02:00:00:00:00:99'
port = 'wan'
[[route]]
to = '203.0.113.0/24'
via = '198.51.100.9'
[[path]]
name = 'dear'
match = 'udp dport 5060'
functions = ['spin(cost=20us)', 'ip']
";

fn frame() -> [u8; 64] {
    let mut frame = [0; 64];
    ethernet::write_header(&mut frame[..14], ROUTER, SENDER, None, ethertype::IPV4).unwrap();
    let spec = Ipv4Spec {
        type_of_service: 0,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: protocol::UDP,
        source: Ipv4Addr::new(192, 0, 2, 7),
        destination: Ipv4Addr::new(203, 0, 113, 5),
    };
    spec.write(&mut frame[14..], 30).unwrap();
    for (at, field) in [(34, 5000u16), (36, 5060), (38, 30), (40, 0)] {
        frame[at..at + 2].copy_from_slice(&field.to_be_bytes());
    }
    frame
}

/// A system call of the worker, as strace writes it with `-ttt -T`.
struct Call {
    /// Since 1970-01-01 UTC.
    began: f64,
    duration: f64,
    text: String,
}

impl Call {
    /// `None` for other lines, like that of the end of the trace.
    fn parse(line: &str) -> Option<Call> {
        let (began, text) = line.split_once(' ')?;
        let (_, duration) = text.rsplit_once('<')?;
        let duration = duration.strip_suffix('>')?.parse().ok()?;
        Some(Call { began: began.parse().ok()?, duration, text: text.to_owned() })
    }
}

/// True for a call that returns at once in any case.
fn cannot_block(call: &str) -> bool {
    let (name, arguments) = call.split_once('(').unwrap_or((call, ""));
    match name {
        "sendto" | "sendmsg" | "sendmmsg" | "recvfrom" | "recvmsg" | "recvmmsg" => arguments.contains("MSG_DONTWAIT"),
        "poll" => arguments.contains(", 0) ="),
        "ppoll" => arguments.contains("{tv_sec=0, tv_nsec=0}"),
        "futex" => arguments.contains("FUTEX_WAKE"),
        // Values of the kernel: the statistics of a socket, the time.
        "getsockopt" | "clock_gettime" => true,
        _ => false,
    }
}

/// True for a call that the allocator makes.
fn allocates(call: &str) -> bool {
    let name = call.split('(').next().unwrap_or_default();
    matches!(name, "brk" | "mmap" | "mprotect" | "munmap" | "madvise") || call.contains("FUTEX_WAIT_PRIVATE, 2, NULL")
}

/// The calls that may block and are no part of an answer to the control side, and the number of answers.
fn blocking<'a>(calls: &[&'a str]) -> (Vec<&'a str>, usize) {
    let mut blocking = Vec::new();
    for (index, call) in calls.iter().enumerate().filter(|(_, call)| !cannot_block(call)) {
        let delivered =
            calls[index..].iter().find(|next| !allocates(next)).is_some_and(|end| end.contains("FUTEX_WAKE"));
        if !(allocates(call) && delivered) {
            blocking.push(*call);
        }
    }
    (blocking, calls.iter().filter(|call| call.contains("FUTEX_WAKE")).count())
}

#[test]
fn calls_are_sorted_by_whether_they_can_block() {
    for call in [
        "sendto(9, NULL, 0, MSG_DONTWAIT, NULL, 0) = 0 <0.000011>",
        "ppoll([{fd=9, events=POLLIN}], 1, {tv_sec=0, tv_nsec=0}, NULL, 0) = 0 (Timeout) <0.000009>",
        "futex(0x7f2c, FUTEX_WAKE_PRIVATE, 1) = 1 <0.000009>",
    ] {
        assert!(cannot_block(call), "{call}");
    }
    for call in [
        "sendto(9, NULL, 0, 0, NULL, 0) = 0 <0.000011>",
        "ppoll([{fd=9, events=POLLIN}], 1, {tv_sec=0, tv_nsec=50000}, NULL, 0) = 1 ([{fd=9, revents=POLLIN}]) <0.000009>",
        "ppoll([{fd=9, events=POLLIN}], 1, NULL, NULL, 0) = 1 ([{fd=9, revents=POLLIN}]) <0.000009>",
        "futex(0x7f2c, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, FUTEX_BITSET_MATCH_ANY) = 0 <0.1>",
        "clock_nanosleep(CLOCK_MONOTONIC, 0, {tv_sec=0, tv_nsec=1000}, NULL) = 0 <0.000062>",
        "epoll_wait(5, [], 16, 100) = 0 <0.100100>",
        "read(7, \"\", 8) = 0 <0.000003>",
    ] {
        assert!(!cannot_block(call), "{call}");
    }
    let (wake, grow, send) = (
        "futex(0x7, FUTEX_WAKE_PRIVATE, 1) = 1",
        "mprotect(0x7, 4096, PROT_READ) = 0",
        "sendto(9, NULL, 0, MSG_DONTWAIT) = 0",
    );
    let lock = "futex(0x7, FUTEX_WAIT_PRIVATE, 2, NULL) = 0";
    assert_eq!(blocking(&[send, grow, lock, grow, wake, send]), (vec![], 1), "an answer allocates");
    assert_eq!(blocking(&[send, grow, send, wake, lock]), (vec![grow, lock], 1), "forwarding does not");
}

/// strace on one thread, and the file with its calls.
struct Trace {
    strace: Child,
    file: tempfile::NamedTempFile,
}

impl Trace {
    /// `None` if strace is missing or may not trace.
    fn attach(thread: &str) -> Option<Trace> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut command = Command::new("strace");
        command.args(["-ttt", "-T", "-p", thread, "-o"]).arg(file.path());
        let mut strace = match command.stderr(Stdio::piped()).spawn() {
            Ok(strace) => strace,
            Err(error) => {
                println!("skipped: strace does not start: {error}");
                return None;
            }
        };
        let mut first = String::new();
        BufReader::new(strace.stderr.take().unwrap()).read_line(&mut first).unwrap();
        if !first.contains("attached") {
            println!("skipped: strace cannot trace here: {}", first.trim());
            strace.wait().unwrap();
            return None;
        }
        Some(Trace { strace, file })
    }

    fn end(mut self) -> Vec<Call> {
        // It writes the rest of the file when it is interrupted.
        assert!(Command::new("kill").args(["-INT", &self.strace.id().to_string()]).status().unwrap().success());
        self.strace.wait().unwrap();
        fs::read_to_string(self.file.path()).unwrap().lines().filter_map(Call::parse).collect()
    }
}

/// The id of the worker's thread.
fn worker_thread() -> String {
    let is_worker =
        |path: &std::path::PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "worker 0");
    let mut threads = fs::read_dir("/proc/self/task").unwrap().filter_map(|task| Some(task.ok()?.path()));
    let thread = threads.find(is_worker).expect("the daemon has a worker");
    thread.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Since 1970-01-01 UTC, in seconds.
fn wall_time(now: Instant) -> f64 {
    Nanos::new((now + clock::epoch()).get()).as_secs_f64()
}

#[test]
fn worker_with_packets_to_forward_never_blocks() {
    let lab = match Lab::new() {
        Ok(lab) => lab,
        Err(forbidden) => return println!("skipped: {forbidden}"),
    };
    let hosts = ["sender", "router", "receiver"].map(|name| lab.host(name).unwrap());
    hosts.iter().for_each(|host| host.silence_kernel().unwrap());
    let [sender, router, receiver] = &hosts;
    lab.cable(&Plug { mac: Some(SENDER), ..sender.plug("eth0") }, &router.plug("lan")).unwrap();
    lab.cable(&receiver.plug("eth0"), &router.plug("wan")).unwrap();
    let open = |host: &LabHost, receive_slots| {
        let options = PacketOptions { receive_slots, ..PacketOptions::default() };
        host.run(|| PacketPort::open("eth0", &options).unwrap()).unwrap().0
    };
    let (mut sender, mut receiver) = (open(sender, 64), open(receiver, 32_768));
    let devices = Devices::new(clock::epoch()).in_namespace(router.namespace().clone());
    let plan = plan::check(CONFIG, "test.toml", &plane::catalogue()).unwrap_or_else(|wrong| panic!("{wrong}"));
    let options = DaemonOptions::new(devices, CONFIG, "test.toml", |notice| panic!("{notice:?}"));
    let daemon = Daemon::start(&plan, options).unwrap_or_else(|error| panic!("{error}"));
    let Some(trace) = Trace::attach(&worker_thread()) else {
        daemon.stop();
        return;
    };

    let mut pool = Pool::new(Region::new(8192));
    let mut sleeper = Sleeper::new(Waker::new().unwrap());
    let mut batch = Batch::new();
    let mut backlogged = Vec::new();
    for _ in 0..BURSTS {
        let (mut left, give_up) = (BURST, clock::now() + PATIENCE);
        while left > 0 {
            for _ in 0..left.min(64).min(sender.room()) {
                let mut packet = pool.take().expect("what is sent is given back");
                packet.fill(&frame());
                batch.push(packet);
                left -= 1;
            }
            sender.transmit(clock::now(), &mut batch, &mut pool);
            assert!(clock::now() < give_up, "the cable accepts packets");
        }
        // From here on packets wait, until the receiver has all but the margin.
        let (began, mut ended, mut received) = (clock::now(), None, 0);
        while received < BURST {
            // Read before the count: at this time at most so many had left the router.
            let now = clock::now();
            receiver.receive(now, &mut batch, &mut pool);
            received += batch.as_slice().iter().filter(|packet| packet.bytes()[23] == protocol::UDP).count();
            batch.drain().for_each(|packet| pool.give(packet));
            if received + MARGIN < BURST {
                ended = Some(now);
            }
            assert!(now < give_up, "{received} of {BURST}: {:?}", daemon.drops().map(|drops| drops.drops));
            sleeper.sleep([], Nanos::micros(500)).unwrap();
        }
        backlogged.extend(ended.map(|ended| (wall_time(began), wall_time(ended))));
    }
    let calls = trace.end();
    daemon.stop();

    let overlaps = |call: &&Call| {
        let end = call.began + call.duration;
        backlogged.iter().any(|&(from, until)| call.began < until && end > from)
    };
    let watched: Vec<&Call> = calls.iter().filter(overlaps).collect();
    let span: f64 = backlogged.iter().map(|(from, until)| until - from).sum();
    println!("{} calls in {:.0} ms with a backlog, {} in all", watched.len(), span * 1e3, calls.len());
    assert!(span > 0.1, "a backlog for {span} s");
    assert!(watched.len() > 10, "the worker transmits by system calls: {}", watched.len());
    let texts: Vec<&str> = watched.iter().map(|call| &*call.text).collect();
    let (blocking, answers) = blocking(&texts);
    assert!(
        blocking.is_empty(),
        "{} calls may block, with packets waiting: {:#?}",
        blocking.len(),
        &blocking[..blocking.len().min(20)]
    );
    assert!(answers as f64 <= 12.0 * span + BURSTS as f64, "{answers} answers in {span} s");
    // The test sees calls that block: a worker without packets sleeps.
    assert!(calls.iter().any(|call| !cannot_block(&call.text)), "an idle worker sleeps");
}
