//! `state`: a router that executes instructions, and the tools for it.

use crate::rig::{Router, TestDirectory, config, until};
use esp::host::Computation;
use esp::isa::{Operator, StateInstruction};
use esp::registered::{RegisteredInstruction, RegisteredPart};
use esp::wire::{Addresses, Carriages, EncodePart, Locations, Part, datagram, dedicated, wrap_option};
use io::netns::{Lab, LabHost};
use io::pcap::{CaptureProgram, LinkType, PcapDirection, PcapInterface, PcapRecord, Writer};
use packet::wire::{ethernet, ethertype};
use std::fs::File;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use units::{Instant, Mac, Nanos};

const OURS: &str = "00112233445566778899aabbccddeeff\n";
const OTHER: &str = "ffeeddccbbaa99887766554433221100\n";
const STATE: &str = "[state]\nlifetime = \"60s\"\ndiagnostics = true\n";

/// Counts of one computation, marks of different tags, and an instruction that no router can execute.
fn instructions() -> Vec<StateInstruction> {
    let count = StateInstruction::Count { counter: 0x2a, threshold: 4, inclusive: false };
    let marks = (0..5).map(|n| StateInstruction::Mark { tag: 0x100 + n, value: n });
    std::iter::repeat_n(count, 6).chain(marks).chain([StateInstruction::Get { tag: 1, value: 0 }]).collect()
}

/// Writes a capture of them.
fn write(place: &TestDirectory) {
    let part = |instruction| {
        let (locations, computation) = (Locations { input: true, central: false, output: true }, 7);
        Part { locations, error: false, piggybacked: false, trace: true, computation, instruction }
    };
    write_parts(place, instructions().into_iter().map(part));
}

/// Source and destination of parts in captures.
const THERE: Addresses = Addresses::V4(Ipv4Addr::new(192, 0, 2, 9), Ipv4Addr::new(203, 0, 113, 5));

/// Writes a capture of these parts.
fn write_parts<P: EncodePart>(place: &TestDirectory, parts: impl Iterator<Item = P>) {
    let mut header = vec![0; 14];
    let (to, from) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 9]));
    ethernet::write_header(&mut header, to, from, None, ethertype::IPV4).unwrap();
    let frame = |part: P| [&header[..], &dedicated(&Carriages::default(), THERE, &part)].concat();
    write_frames(place, "in.pcapng", LinkType::ETHERNET, parts.map(frame));
}

/// Writes a capture of these frames.
fn write_frames(place: &TestDirectory, name: &str, link: LinkType, frames: impl Iterator<Item = Vec<u8>>) {
    let file = File::create(place.path(name)).unwrap();
    let mut writer = Writer::new(file, &CaptureProgram::default(), Nanos::ZERO).unwrap();
    let interface = writer.add_interface(PcapInterface { name: "x".into(), link, snap_length: 0, mac: None }).unwrap();
    for (i, data) in frames.enumerate() {
        let time = Instant::new(i as u64 * 1000);
        let (original, direction) = (data.len() as u32, PcapDirection::In);
        writer.packet(&PcapRecord { time, interface, link, original, data: &data, direction, comment: "" }).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn show_state_reports_entries_and_instructions() {
    let place = TestDirectory::new(1);
    write(&place);
    let router = place.write("run.toml", &config("fast", STATE)).start();
    let told = until(|| {
        let told = place.json(&["show", "state"]);
        let lan = told["stores"].as_array()?.iter().find(|store| store["port"] == "lan")?.clone();
        (lan["created_entries"].as_u64() == Some(6) && lan["places"][0]["aborts"].as_array()?.len() == 1)
            .then_some(told)
    });
    assert_eq!(told["lifetime_ns"], 60_000_000_000u64);
    let store = |port: &str| told["stores"].as_array().unwrap().iter().find(|store| store["port"] == port).unwrap();
    let count = &store("lan")["places"][0]["instructions"][0];
    assert_eq!(
        (&count["name"], &count["forwarded_packets"], &count["dropped_packets"]),
        (&"count".into(), &3.into(), &3.into())
    );
    let (reason, of) = (&store("lan")["places"][0]["aborts"][0], "get");
    assert_eq!((&reason["reason"], &reason["instruction"]), (&"absent_tag".into(), &of.into()));
    let trace = &store("lan")["places"][0]["traces"][0];
    let counts = ["forwarded_packets", "dropped_packets", "aborted_packets"].map(|key| trace[key].as_u64().unwrap());
    assert_eq!((&trace["computation"], counts), (&"0x0000000000000007".into(), [8, 3, 1]));
    assert_eq!((&store("lan")["live_entries"], &store("wan")["live_entries"]), (&6.into(), &6.into()));
    assert_eq!(store("wan")["places"][0]["failed_before_packets"], 1);
    let shown = place.run_ok(&["show", "state"]);
    assert!(shown.contains("absent_tag") && shown.contains(trace["digest"].as_str().unwrap()), "{shown}");
    let entries = place.json(&["state", "show", "lan"]);
    let entries = entries["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 6);
    let counter = entries.iter().find(|entry| entry["tag"] == "0x000000000000002a").unwrap();
    assert_eq!((&counter["value"], &counter["port"]), (&6.into(), &"lan".into()));
    assert!(counter["creator"].as_str().unwrap().starts_with("0x"));
    assert!(place.run_ok(&["state", "show", "--limit", "2"]).contains("and more"));
    assert!(place.run_ok(&["show", "drops"]).contains("instruction"));
    router.stop();
}

#[test]
fn explain_and_dump_name_the_instruction() {
    let place = TestDirectory::new(1);
    write(&place);
    place.write("run.toml", &config("fast", STATE));
    let explained = place.run_ok(&["explain", "--config", "run.toml", "--pcap", "in.pcapng", "--port", "lan"]);
    let line = "count 0x2a below 4 of computation 0x7 at its input lan: executed";
    assert!(explained.contains(line), "{explained}");
    assert!(explained.contains("at its output wan: executed"), "{explained}");
    let dumped = place.run_ok(&["state", "dump", "in.pcapng"]);
    assert!(dumped.contains("mark 0x104 4 of 0x7 at input+output by ip, traced; "), "{dumped}");
    assert!(dumped.contains("12 of 12 packets carry an instruction"), "{dumped}");
}

/// `dump` reads packets of every known link type, and does not confuse one type with another.
#[test]
fn dump_reads_known_link_types_and_reports_others() {
    let place = TestDirectory::new(1);
    let (locations, computation) = (Locations { input: true, central: false, output: false }, 7);
    let instruction = StateInstruction::Mark { tag: 0x2a, value: 5 };
    let part = Part { locations, error: false, piggybacked: false, trace: true, computation, instruction };
    let packet = dedicated(&Carriages::default(), THERE, &part);
    let told = "mark 0x2a 5 of 0x7 at input by ip, traced; 192.0.2.9 > 203.0.113.5 protocol 253 ";
    let sll = [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 9, 0, 0][..], &[8, 0]].concat();
    let sll2 = [&[8, 0][..], &[0; 18]].concat();
    for (link, header) in [(101, &[][..]), (228, &[]), (113, &sll), (276, &sll2), (0, &[2, 0, 0, 0])] {
        write_frames(&place, "other.pcapng", LinkType(link), [[header, &packet].concat()].into_iter());
        let dumped = place.run_ok(&["state", "dump", "other.pcapng"]);
        assert!(dumped.contains(told) && dumped.contains("1 of 1 packets"), "{link}: {dumped}");
    }
    let dumped = place.json(&["state", "dump", "other.pcapng"]);
    assert_eq!((&dumped["trace"], &dumped["carriage"]), (&true.into(), &"ip".into()));
    write_frames(&place, "other.pcapng", LinkType(105), [packet].into_iter());
    let said = place.run_failing(1, &["state", "dump", "other.pcapng"]);
    assert!(said.contains("link type 105") && said.contains("Linux cooked (113, 276)"), "{said}");
    let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/../esp/conformance/instructions.pcap");
    let dumped = place.run_ok(&["state", "dump", vectors]);
    assert!(dumped.contains(" > ") && !dumped.contains("ethertype") && !dumped.contains("truncated"), "{dumped}");
}

/// The options are named like the keys of `[state]`.
#[test]
fn dump_finds_parts_with_configured_protocol_numbers() {
    let place = TestDirectory::new(1);
    let carriages = Carriages { protocol: 200, port: Some(6000), option: Some(94) };
    let (locations, computation) = (Locations::default(), 7);
    let instruction = StateInstruction::Test { tag: 9 };
    let part = Part { locations, error: false, piggybacked: false, trace: false, computation, instruction };
    let datagram = datagram(&carriages, THERE, 4000, &part).unwrap();
    let option = wrap_option(&carriages, &dedicated(&Carriages::default(), THERE, &part), &part).unwrap();
    let packets = [dedicated(&carriages, THERE, &part), datagram, option];
    write_frames(&place, "other.pcapng", LinkType::RAW, packets.into_iter());
    let usual = place.run_ok(&["state", "dump", "other.pcapng"]);
    assert!(usual.contains("1 of 3 packets"), "{usual}");
    let numbers = ["--protocol", "200", "--udp-port", "6000", "--ip-option", "94"];
    let dumped = place.run_ok(&[&["state", "dump", "other.pcapng"], &numbers[..]].concat());
    for by in ["by ip;", "by udp;", "by option, piggybacked;", "3 of 3 packets"] {
        assert!(dumped.contains(by), "{by}: {dumped}");
    }
    assert!(place.run_failing(2, &["state", "dump", "other.pcapng", "--protocol", "50"]).contains("143..=254"));
}

/// Returns a port that is free at this moment.
fn free_port() -> String {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// The load has the reported number of packets, also without a receiver.
#[test]
fn generate_sends_the_reported_number_of_packets() {
    let place = TestDirectory::new(1);
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_nonblocking(true).unwrap();
    let port = receiver.local_addr().unwrap().port().to_string();
    let load = ["state", "generate", "127.0.0.1", "--time", "200ms", "--rate", "500pps", "--port", &port];
    let told = place.json(&load);
    let mut bytes = [0; 100];
    let came = (0..).take_while(|_| receiver.recv(&mut bytes).is_ok_and(|length| Part::read(&bytes[..length]).is_ok()));
    let came = came.count() as u64;
    assert!(came > 0 && told["sent_packets"] == came, "{came}: {told}");
    assert_eq!((&told["refused_packets"], &told["asked_packets"]), (&0.into(), &100.into()), "{told}");
    assert!(told["time_ns"].as_u64().is_some_and(|time| time >= 200_000_000), "{told}");
    drop(receiver);
    // The ICMP error of each packet is reported at the next send, which must not count it as a failure.
    let told = place.json(&load);
    assert_eq!(told["refused_packets"], 0, "{told}");
}

/// A load beyond the speed of any host still ends on time.
#[test]
fn generate_ends_on_time_and_reports_the_reached_rate() {
    let place = TestDirectory::new(1);
    let port = free_port();
    let load = ["state", "generate", "127.0.0.1", "--time", "300ms", "--rate", "1000mpps", "--port", &port];
    let told = place.json(&load);
    let time = told["time_ns"].as_u64().unwrap();
    assert!((300_000_000..5_000_000_000).contains(&time), "{told}");
    assert!(told["packets_per_second"].as_u64() < told["asked_packets_per_second"].as_u64(), "{told}");
    let said = place.run_ok(&load);
    assert!(said.contains(" a second instead of 1000000000"), "{said}");
}

#[test]
fn state_size_and_conform_print_their_results() {
    let place = TestDirectory::new(1);
    // The example of the paper: two million entries for a hundred thousand packets a second.
    let size = place.json(&["state", "size", "--pps", "100kpps"]);
    assert_eq!((&size["entries"], &size["creates"]), (&2_000_000.into(), &2.into()));
    assert!(place.run_ok(&["state", "size", "--line", "100mbit", "--lifetime", "1s"]).contains("297620"));
    assert!(place.run_ok(&["state", "conform"]).contains("vectors hold"));
    place.write(
        "wrong.txt",
        "nop, absent\n  there  nothing\n  packet 00\n  fate   forwarded\n  then   the same\n  leaves nothing\n",
    );
    assert_eq!(place.run(&["state", "conform", "wrong.txt"]).status.code(), Some(1));
    assert!(place.run_failing(1, &["state", "conform", "in.pcapng"]).contains("cannot be read"));
}

/// Returns the time of day in nanoseconds.
fn wall() -> u64 {
    (io::clock::now() + io::clock::epoch()).get()
}

/// Waits until a round is at least half a period away, so that all members started now take part in the same one.
fn next_round_is_ahead(period: Nanos) {
    until(|| (wall() % period.get() < period.get() / 2).then_some(()));
}

/// Without a router between them the root receives the report of each member.
#[test]
fn members_report_and_the_root_adds_up() {
    let place = TestDirectory::new(1);
    let port = free_port();
    let common = ["--port", &port, "--lifetime", "2s", "--delay", "20ms"];
    let root = ["state", "collect", "0x5eed", "--operator", "max", "-j"];
    let start = |arguments: &[&str]| {
        let mut command = place.command(&[arguments, &common].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    next_round_is_ahead(Nanos::secs(4));
    let heard = start(&root);
    let members: Vec<_> = [17, 42, 5]
        .map(|value| {
            start(&[
                "state",
                "collect",
                "0x5eed",
                "--operator",
                "max",
                "--to",
                "127.0.0.1",
                "--value",
                &value.to_string(),
            ])
        })
        .into();
    for member in members {
        assert!(member.wait_with_output().unwrap().status.success());
    }
    let output = heard.wait_with_output().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["result"], &told["complete"]), (&42.into(), &true.into()), "{told}");
    assert!(output.status.success());
}

/// A known member never reports. The first round is incomplete, the next one is complete without it.
#[test]
fn incomplete_round_is_followed_by_another() {
    let place = TestDirectory::new(1);
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (lifetime, period) = (Nanos::secs(1), Nanos::secs(2));
    let named = port.to_string();
    let common = ["--port", &named, "--lifetime", "1s", "--delay", "20ms", "--attempts", "4"];
    let start = |arguments: &[&str]| {
        let mut command = place.command(&[&["state", "collect", "0x5eed"], arguments, &common].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    next_round_is_ahead(period);
    let begin = wall() / period.get();
    let (mut root, member) = (start(&["-j"]), start(&["--to", "127.0.0.1", "--value", "9"]));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    until(|| {
        let computation = Computation::seeded([1, 2]).joined(0x5eed).at(Locations::OUTPUT);
        let known = computation.round(begin as u32 + 1, Operator::Add).registration(77);
        if wall() / period.get() == begin + 1 && wall() % period.get() < lifetime.get() / 2 {
            let _ = socket.send_to(&known.to_bytes(), ("127.0.0.1", port));
        }
        root.try_wait().unwrap()
    });
    let output = root.wait_with_output().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["result"], &told["complete"], &told["attempts"]), (&9.into(), &true.into(), &2.into()), "{told}");
    assert!(member.wait_with_output().unwrap().status.success());
}

#[test]
fn listen_prints_sent_instructions() {
    let place = TestDirectory::new(1);
    for (name, key) in [("ours.key", OURS), ("other.key", OTHER)] {
        place.write(name, key);
    }
    let port = free_port();
    for (listens, sends) in [(&[][..], &[][..]), (&["--key", "ours.key"], &["--key", "ours.key"])] {
        let listen = ["state", "listen", "--port", &port, "--count", "2", "--time", "20s"];
        let mut command = place.command(&[&listen[..], listens].concat());
        let listens = command.stdout(Stdio::piped()).spawn().unwrap();
        let until_heard = std::thread::scope(|scope| {
            let waits = scope.spawn(|| listens.wait_with_output().unwrap());
            until(|| {
                let send = |value: &str, sealed: &[&str]| {
                    let send = ["state", "send", "127.0.0.1", "mark", "0x2a", value, "--port", &port];
                    place.run_ok(&[&send[..], sealed].concat());
                };
                if !sends.is_empty() {
                    send("6", &[]);
                }
                send("7", &["--key", "other.key"]);
                send("5", sends);
                waits.is_finished().then_some(())
            });
            waits.join().unwrap()
        });
        let text = String::from_utf8(until_heard.stdout).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.lines().all(|line| line.ends_with("computation 0x1 mark 0x2a 5")), "{text}");
    }
    assert!(place.run_failing(2, &["state", "send", "127.0.0.1", "mark"]).contains("write one of"));
    let said = place.run_failing(1, &["state", "send", "127.0.0.1", "nop", "--key", "nowhere"]);
    assert!(said.contains("nowhere"), "{said}");
}

/// The file of the key is named in the output, its content is not.
#[test]
fn a_router_with_a_key_executes_sealed_instructions_only() {
    let place = TestDirectory::new(1);
    write(&place);
    place.write("ours.key", OURS);
    let router = place.write("run.toml", &config("fast", &format!("{STATE}key = \"ours.key\"\n"))).start();
    until(|| {
        let told = place.json(&["show", "state"]);
        let lan = told["stores"].as_array()?.iter().find(|store| store["port"] == "lan")?.clone();
        // One abort for each instruction.
        let aborts = lan["places"][0]["aborts"].as_array()?;
        let sum: u64 = aborts.iter().filter_map(|abort| abort["packets"].as_u64()).sum();
        let all = aborts.len() == 3 && aborts.iter().all(|abort| abort["reason"] == "unauthenticated");
        (all && sum == 12 && lan["created_entries"] == 0).then_some(())
    });
    let explained = place.run_ok(&["explain", "--pcap", "in.pcapng", "--port", "lan"]);
    assert!(explained.contains("unauthenticated"), "{explained}");
    for command in [
        &["show", "config"][..],
        &["show", "state", "-j"],
        &["show", "events"],
        &["history"],
        &["diff", "run.toml", "--no-color"],
        &["check", "run.toml"],
    ] {
        let output = place.run(command);
        let told = [output.stdout, output.stderr].concat();
        assert!(!String::from_utf8_lossy(&told).contains(&OURS[8..16]), "{command:?}");
    }
    router.stop();
}

/// A guest instruction that adds values, as WebAssembly text; and one that fails.
const SUM: &str = include_str!("../../../../examples/guests/sum.wat");

/// The instruction is registered, checked, executed, rebuilt while the router runs, and disabled when it fails.
#[test]
fn registered_instruction_is_executed_replaced_and_disabled() {
    let place = TestDirectory::new(60000);
    std::fs::create_dir(place.path("guests")).unwrap();
    let put = |text: &str| std::fs::write(place.path("guests/sum.wasm"), wat::parse_str(text).unwrap()).unwrap();
    let guests = ["--guests", "guests", "--socket", "control.sock"];
    let socket = ["--socket", "control.sock"];
    let registered = format!("{STATE}[state.instruction.sum]\nnumber = 130\n");
    let (locations, computation) = (Locations { input: true, central: false, output: false }, 7);
    let part = |value: u64| {
        let instruction = RegisteredInstruction::new(130, Operator::Add, &[0x2a], value).unwrap();
        RegisteredPart { locations, error: false, piggybacked: false, trace: false, computation, instruction }
    };
    write_parts(&place, (1..=10).map(part));
    place.write("run.toml", &config("fast", &registered));
    put(SUM);
    let said = place.run_failing(1, &["check", "run.toml"]);
    assert!(said.contains("no directory of guests is set"), "{said}");
    place.run_ok(&["check", "run.toml", "--guests", "guests"]);
    let checked = place.json(&["guest", "check", "guests/sum.wasm"]);
    assert_eq!((&checked["good"], &checked["tags"], &checked["creates"]), (&true.into(), &1.into(), &1.into()));
    assert!(place.run_ok(&["guest", "check", "guests/sum.wasm"]).contains("obeys every law"));

    let router = place.start_as(place.command(&[&["run", "run.toml"], &guests[..]].concat()));
    let lan = || {
        let told = place.json(&[&["show", "state"], &socket[..]].concat());
        told["stores"].as_array()?.iter().find(|store| store["port"] == "lan").cloned()
    };
    let executed = until(|| {
        let executed = lan()?["places"][0]["instructions"][0].clone();
        (executed["forwarded_packets"] == 10).then_some(executed)
    });
    assert_eq!(executed["name"], "sum");
    let sum = || place.json(&[&["state", "show", "lan"], &socket[..]].concat())["entries"][0]["value"].clone();
    assert_eq!(sum(), 55);
    let explain = [&["explain", "--pcap", "in.pcapng", "--port", "lan"], &socket[..]].concat();
    let explained = place.run_ok(&explain);
    assert!(explained.contains("call 130 add 0x2a 1, which is sum of computation 0x7"), "{explained}");
    assert!(place.run_ok(&["state", "dump", "in.pcapng"]).contains("call 130 add 0x2a 10 of 0x7 at input by ip"));
    // A rebuilt instruction is a new one; the store stays.
    let apply = [&["apply", "run.toml"], &guests[..]].concat();
    assert!(place.run_ok(&apply).contains("nothing"), "the same");
    put(&SUM.replace("in text", "in other text"));
    let applied = place.run_ok(&apply);
    assert!(applied.contains("state"), "{applied}");
    assert_eq!((sum(), &lan().unwrap()["places"][0]["instructions"][0]["forwarded_packets"]), (55.into(), &10.into()));
    router.stop();

    put(&SUM.replace("(i32.const 0)))", "unreachable))"));
    assert!(!place.run(&["guest", "check", "guests/sum.wasm"]).status.success());
    let router = place.start_as(place.command(&[&["run", "run.toml"], &guests[..]].concat()));
    until(|| (lan()?["places"][0]["aborts"][0]["packets"] == 10).then_some(()));
    assert_eq!(lan().unwrap()["places"][0]["aborts"][0]["reason"], "guest_failed");
    let events = until(|| {
        let events = place.json(&[&["show", "events"], &socket[..]].concat());
        let of = |event: &&serde_json::Value| event["kind"] == "instruction_failed";
        events["events"].as_array()?.iter().find(of).cloned()
    });
    assert!(events["text"].as_str().unwrap().contains("unreachable"), "{events}");
    router.stop();
}

/// client eth0 - left [a router that executes instructions] right - eth0 server
struct Way {
    client: LabHost,
    server: LabHost,
    _router: Router,
    place: TestDirectory,
    _hosts: (LabHost, Lab),
}

impl Way {
    /// Returns the laboratory, or none if there can be no namespaces.
    fn new(state: &str) -> Option<Way> {
        let lab = crate::interfaces::lab()?;
        let [router, client, server] = ["router", "client", "server"].map(|name| lab.host(name).unwrap());
        router.silence_kernel().unwrap();
        for (host, near, number) in [(&client, "left", 1), (&server, "right", 2)] {
            lab.cable(&host.plug("eth0"), &router.plug(near)).unwrap();
            for (network, prefix) in [(format!("10.0.{number}."), 24), (format!("2001:db8:{number}::"), 64)] {
                host.add_address("eth0", format!("{network}2").parse().unwrap(), prefix).unwrap();
                host.add_default_route(format!("{network}1").parse().unwrap()).unwrap();
            }
        }
        let place = TestDirectory::new(1);
        let port = |name: &str, number: u8| {
            format!(
                "[port.{name}]\ndevice = 'packet:{name}'\naddress = ['10.0.{number}.1/24', '2001:db8:{number}::1/64']\n"
            )
        };
        place.write("run.toml", &format!("version = 1\n{}{}{state}", port("left", 1), port("right", 2)));
        let started = router.run(|| place.start()).unwrap();
        Some(Way { client, server, _router: started, place, _hosts: (router, lab) })
    }

    /// Listens at the server while the client repeats `say`, until this many packets have arrived.
    fn received_parts(&self, count: &str, how: &[&str], say: impl Fn()) -> String {
        let listen = ["state", "listen", "--count", count, "--time", "20s"];
        let mut command = self.place.command(&[&listen[..], how].concat());
        command.stdout(Stdio::piped());
        let listens = self.server.spawn(command).unwrap();
        let output = std::thread::scope(|scope| {
            let waits = scope.spawn(|| listens.wait_with_output().unwrap());
            until(|| {
                say();
                waits.is_finished().then_some(())
            });
            waits.join().unwrap()
        });
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command at the client that has to succeed, and returns its output.
    fn client(&self, arguments: &[&str]) -> String {
        self.client.run(|| self.place.run_ok(arguments)).unwrap()
    }
}

/// Over IPv4 and IPv6, with the default protocol number and with another one.
#[test]
fn instructions_in_ip_packets_are_executed_and_received() {
    for (state, protocol) in [("", "253"), ("protocol = 200\n", "200")] {
        let Some(way) = Way::new(&format!("[state]\nlifetime = '60s'\n{state}")) else { return };
        let by = ["--carriage", "ip", "--protocol", protocol];
        for (server, client, tag) in [("10.0.2.2", "10.0.1.2", "0x2a"), ("2001:db8:2::2", "2001:db8:1::2", "0x2b")] {
            let text = way.received_parts("1", &by, || {
                way.client(&[&["state", "send", server, "count", tag, "below", "1000"], &by[..]].concat());
            });
            assert_eq!(text, format!("{client} computation 0x1 count {tag} below 1000\n"));
            let told = way.client(&[&["state", "ping", server, "-j"], &by[..]].concat());
            let told: serde_json::Value = serde_json::from_str(&told).unwrap();
            assert_eq!((&told["end"], &told["hops"][0]["input"]), (&"host".into(), &"yes".into()), "{told}");
        }
        let entries = way.place.json(&["state", "show", "left"])["entries"].to_string();
        assert!(["2a", "2b"].iter().all(|tag| entries.contains(&format!("0x00000000000000{tag}"))), "{entries}");
    }
}

/// The router drops the second copy of a message, but not one of another message.
#[test]
fn dedup_forwards_one_copy_of_a_message() {
    let Some(way) = Way::new("[state]\nlifetime = '60s'\n") else { return };
    for carriage in ["udp", "ip"] {
        let by = ["--carriage", carriage];
        let text = way.received_parts("2", &by, || {
            // A message that passes before the server listens is lost, so each attempt uses a new one.
            let message = format!("{}", io::clock::now().get());
            for _ in 0..3 {
                way.client(&[&["state", "dedup", "10.0.2.2", &message], &by[..]].concat());
            }
        });
        let messages: Vec<&str> =
            text.lines().map(|line| line.split_once(" computation 0x1 count ").unwrap().1).collect();
        assert!(messages.len() == 2 && messages[0] != messages[1], "{carriage}: {text}");
        assert!(messages.iter().all(|message| message.ends_with(" below 2")), "{carriage}: {text}");
    }
}

/// Forty members behind the router report several times each, and the root receives the report of one (spec E-X14).
#[test]
fn a_group_behind_a_router_is_counted_in_few_packets() {
    let Some(way) = Way::new("[state]\nlifetime = '2s'\n") else { return };
    for carriage in ["udp", "ip"] {
        let common = ["--carriage", carriage, "--lifetime", "2s", "--delay", "20ms"];
        let mut root = way.place.command(&[&["state", "group-size", "0x5eed", "-j"], &common[..]].concat());
        root.stdout(Stdio::piped());
        next_round_is_ahead(Nanos::secs(4));
        let hears = way.server.spawn(root).unwrap();
        let members = ["state", "group-size", "0x5eed", "--to", "10.0.2.2", "--members", "40"];
        way.client(&[&members, &common[..]].concat());
        let output = hears.wait_with_output().unwrap();
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&told["result"], &told["complete"]), (&40.into(), &true.into()), "{carriage}: {told}");
        assert!(told["packets"].as_u64().is_some_and(|packets| packets <= 12), "{carriage}: {told}");
    }
}

/// Without the privilege, the error names the remedy.
#[test]
fn raw_socket_without_privilege_names_the_remedy() {
    let place = TestDirectory::new(1);
    let mut command = place.command(&["state", "send", "127.0.0.1", "nop", "--carriage", "ip"]);
    if rustix::process::getuid().is_root() {
        // A user without capabilities, who cannot enter the directory.
        command.uid(65534).gid(65534).current_dir("/");
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("CAP_NET_RAW") && said.contains("--carriage udp"), "{said}");
    let said = place.run_failing(2, &["state", "listen", "--answer", "--carriage", "ip"]);
    assert!(said.contains("use --answer only with --carriage udp"), "{said}");
}
