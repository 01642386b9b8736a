//! `state`: a router that executes instructions, and the tools around it.

use crate::rig::{Place, config, until};
use esp::host::Computation;
use esp::isa::{Instruction, Operator};
use esp::registered::{RegisteredInstruction, RegisteredPart};
use esp::wire::{Addresses, Carriages, Carried, Locations, Part, dedicated};
use io::pcap::{Application, Direction, Interface, LinkType, Record, Writer};
use packet::wire::{ethernet, ethertype};
use std::fs::File;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Stdio;
use units::{Instant, Mac, Nanos};

const OURS: &str = "00112233445566778899aabbccddeeff\n";
const OTHER: &str = "ffeeddccbbaa99887766554433221100\n";
const STATE: &str = "[state]\nlifetime = \"60s\"\ndiagnostics = true\n";

/// Counts of one computation, marks of tags each, and one that no router can execute.
fn instructions() -> Vec<Instruction> {
    let count = Instruction::Count { counter: 0x2a, threshold: 4, inclusive: false };
    let marks = (0..5).map(|n| Instruction::Mark { tag: 0x100 + n, value: n });
    std::iter::repeat_n(count, 6).chain(marks).chain([Instruction::Get { tag: 1, value: 0 }]).collect()
}

/// A capture of them.
fn write(place: &Place) {
    let part = |instruction| {
        let (locations, computation) = (Locations { input: true, central: false, output: true }, 7);
        Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
    };
    write_parts(place, instructions().into_iter().map(part));
}

/// A capture of these parts.
fn write_parts<P: Carried>(place: &Place, parts: impl Iterator<Item = P>) {
    let file = File::create(place.path("in.pcapng")).unwrap();
    let mut writer = Writer::new(file, &Application::default(), Nanos::ZERO).unwrap();
    let link = LinkType::ETHERNET;
    let interface = writer.add_interface(Interface { name: "x".into(), link, snap_length: 0 }).unwrap();
    for (i, part) in parts.enumerate() {
        let addresses = Addresses::V4(Ipv4Addr::new(192, 0, 2, 9), Ipv4Addr::new(203, 0, 113, 5));
        let l3 = dedicated(&Carriages::default(), addresses, &part);
        let mut data = vec![0; 14];
        let (to, from) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 9]));
        ethernet::write_header(&mut data, to, from, None, ethertype::IPV4).unwrap();
        data.extend(l3);
        let time = Instant::new(i as u64 * 1000);
        let (original, direction) = (data.len() as u32, Direction::In);
        writer.packet(&Record { time, interface, link, original, data: &data, direction, comment: "" }).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn a_router_tells_what_packets_left_and_asked_for() {
    let place = Place::new(1);
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
    assert_eq!(store("lan")["places"][0]["aborts"][0]["reason"], "absent_tag");
    assert_eq!((&store("lan")["live_entries"], &store("wan")["live_entries"]), (&6.into(), &6.into()));
    assert_eq!(store("wan")["places"][0]["failed_before_packets"], 1);
    assert!(place.good(&["show", "state"]).contains("absent_tag"));
    let entries = place.json(&["state", "show", "lan"]);
    let entries = entries["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 6);
    let counter = entries.iter().find(|entry| entry["tag"] == "0x000000000000002a").unwrap();
    assert_eq!((&counter["value"], &counter["port"]), (&6.into(), &"lan".into()));
    assert!(counter["creator"].as_str().unwrap().starts_with("0x"));
    assert!(place.good(&["state", "show", "--limit", "2"]).contains("and more"));
    assert!(place.good(&["show", "drops"]).contains("instruction"));
    router.stop();
}

#[test]
fn explain_and_dump_name_the_instruction() {
    let place = Place::new(1);
    write(&place);
    place.write("run.toml", &config("fast", STATE));
    let explained = place.good(&["explain", "--config", "run.toml", "--pcap", "in.pcapng", "--port", "lan"]);
    let line = "count 0x2a below 4 of computation 0x7 where it comes in by lan: executed";
    assert!(explained.contains(line), "{explained}");
    assert!(explained.contains("where it leaves by wan: executed"), "{explained}");
    let dumped = place.good(&["state", "dump", "in.pcapng"]);
    assert!(dumped.contains("mark 0x104 4 of 0x7 at input+output by ip; "), "{dumped}");
    assert!(dumped.contains("12 of 12 packets carry an instruction"), "{dumped}");
}

#[test]
fn sizes_and_vectors() {
    let place = Place::new(1);
    // The worked value of the paper: two million for a hundred thousand packets a second.
    let size = place.json(&["state", "size", "--pps", "100kpps"]);
    assert_eq!((&size["entries"], &size["creates"]), (&2_000_000.into(), &2.into()));
    assert!(place.good(&["state", "size", "--line", "100mbit", "--lifetime", "1s"]).contains("297620"));
    assert!(place.good(&["state", "conform"]).contains("vectors hold"));
    place.write(
        "wrong.txt",
        "nop, absent\n  there  nothing\n  packet 00\n  fate   forwarded\n  then   the same\n  leaves nothing\n",
    );
    assert_eq!(place.run(&["state", "conform", "wrong.txt"]).status.code(), Some(1));
    assert!(place.bad(1, &["state", "conform", "in.pcapng"]).contains("cannot be read"));
}

/// Without a router in between the root hears of each member by itself.
#[test]
fn members_report_and_the_root_adds_up() {
    let place = Place::new(1);
    // A port that nobody has at this moment.
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let common = ["--port", &port, "--lifetime", "2s", "--delay", "20ms"];
    let root = ["state", "collect", "0x5eed", "--operator", "max", "-j"];
    let start = |arguments: &[&str]| {
        let mut command = place.command(&[arguments, &common].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
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

/// A member that is known and never reports: the round after the first is complete without it.
#[test]
fn a_round_that_is_not_complete_is_followed_by_another() {
    let place = Place::new(1);
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (lifetime, period) = (Nanos::secs(1), Nanos::secs(2));
    let named = port.to_string();
    let common = ["--port", &named, "--lifetime", "1s", "--delay", "20ms", "--attempts", "4"];
    let start = |arguments: &[&str]| {
        let mut command = place.command(&[&["state", "collect", "0x5eed"], arguments, &common].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let wall = || (io::clock::now() + io::clock::epoch()).get();
    // Both begin with the next round: there is time until then.
    until(|| (wall() % period.get() < period.get() / 2).then_some(()));
    let begin = wall() / period.get();
    let (mut root, member) = (start(&["-j"]), start(&["--to", "127.0.0.1", "--value", "9"]));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    until(|| {
        let computation = Computation::seeded([1, 2]).joined(0x5eed).at(Locations::OUTPUT);
        let known = computation.round(begin as u32 + 1, Operator::Add).known(77);
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
fn what_is_sent_is_heard() {
    let place = Place::new(1);
    for (name, key) in [("ours.key", OURS), ("other.key", OTHER)] {
        place.write(name, key);
    }
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    for (listens, sends) in [(&[][..], &[][..]), (&["--key", "ours.key"], &["--key", "ours.key"])] {
        let listen = ["state", "listen", "--port", &port, "--count", "2", "--time", "20s"];
        let mut command = place.command(&[&listen[..], listens].concat());
        let listens = command.stdout(Stdio::piped()).spawn().unwrap();
        let until_heard = std::thread::scope(|scope| {
            let waits = scope.spawn(|| listens.wait_with_output().unwrap());
            until(|| {
                let send = |value: &str, sealed: &[&str]| {
                    let send = ["state", "send", "127.0.0.1", "mark", "0x2a", value, "--port", &port];
                    place.good(&[&send[..], sealed].concat());
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
    assert!(place.bad(2, &["state", "send", "127.0.0.1", "mark"]).contains("write one of"));
    let said = place.bad(1, &["state", "send", "127.0.0.1", "nop", "--key", "nowhere"]);
    assert!(said.contains("nowhere"), "{said}");
}

/// The key's file is named, and what is in it never told.
#[test]
fn a_router_with_a_key_executes_what_is_sealed_and_tells_nobody_the_key() {
    let place = Place::new(1);
    write(&place);
    place.write("ours.key", OURS);
    let router = place.write("run.toml", &config("fast", &format!("{STATE}key = \"ours.key\"\n"))).start();
    until(|| {
        let told = place.json(&["show", "state"]);
        let lan = told["stores"].as_array()?.iter().find(|store| store["port"] == "lan")?.clone();
        let aborts = &lan["places"][0]["aborts"][0];
        (aborts["reason"] == "unauthenticated" && aborts["packets"] == 12 && lan["created_entries"] == 0).then_some(())
    });
    let explained = place.good(&["explain", "--pcap", "in.pcapng", "--port", "lan"]);
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

/// An instruction that adds up, in text; and one that errs.
const SUM: &str = include_str!("../../../../examples/guests/sum.wat");

/// Registered, checked, executed, built anew while the router runs, and put aside where it errs.
#[test]
fn an_operators_instruction_is_executed_replaced_and_put_aside() {
    let place = Place::new(60000);
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
    let said = place.bad(1, &["check", "run.toml"]);
    assert!(said.contains("there are no guests here"), "{said}");
    place.good(&["check", "run.toml", "--guests", "guests"]);
    let checked = place.json(&["guest", "check", "guests/sum.wasm"]);
    assert_eq!((&checked["good"], &checked["tags"], &checked["creates"]), (&true.into(), &1.into(), &1.into()));
    assert!(place.good(&["guest", "check", "guests/sum.wasm"]).contains("keeps every law"));

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
    let explained = place.good(&explain);
    assert!(explained.contains("call 130 add 0x2a 1, which is sum of computation 0x7"), "{explained}");
    assert!(place.good(&["state", "dump", "in.pcapng"]).contains("call 130 add 0x2a 10 of 0x7 at input by ip"));
    // Built anew it is another one, and the store stays.
    let apply = [&["apply", "run.toml"], &guests[..]].concat();
    assert!(place.good(&apply).contains("nothing"), "the same");
    put(&SUM.replace("in text", "in other text"));
    let applied = place.good(&apply);
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
