//! `switchpath init`: finds the interfaces of a machine, writes a configuration that `check` accepts, and overwrites nothing.

#![allow(clippy::print_stdout)]

use crate::interfaces::lab;
use crate::rig::TestDirectory;
use io::netlink::Netlink;
use io::netns::LabHost;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::Stdio;

/// A machine with a static address and a default route on `eth0`, and with `eth1`, `eth2` free; and the host with the other ends of the cables.
fn machine(lab: &io::netns::Lab) -> (LabHost, LabHost) {
    let [machine, others] = ["machine", "others"].map(|name| lab.host(name).unwrap());
    for link in ["eth0", "eth1", "eth2"] {
        lab.cable(&machine.plug(link), &others.plug(link)).unwrap();
    }
    machine.add_address("eth0", "203.0.113.2".parse().unwrap(), 30).unwrap();
    machine.add_default_route("203.0.113.1".parse().unwrap()).unwrap();
    (machine, others)
}

fn json(place: &TestDirectory, arguments: &[&str]) -> Value {
    place.json(arguments)
}

#[test]
fn each_kind_is_written_with_the_addresses_of_the_machine_and_passes_check() {
    let Some(lab) = lab() else { return };
    let (machine, _others) = machine(&lab);
    for kind in ["home", "branch", "isp-edge", "lab"] {
        let place = TestDirectory::new(1);
        let made = machine.run(|| json(&place, &["init", "--yes", "--kind", kind])).unwrap();
        assert_eq!((&made["wan"], &made["lan"]), (&"eth0".into(), &"eth1".into()), "{made}");
        assert_eq!((&made["address"], &made["gateway"]), (&"203.0.113.2/30".into(), &"203.0.113.1".into()), "{made}");
        let names: Vec<&str> =
            made["interfaces"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["eth0", "eth1", "eth2"]);
        assert_eq!(made["interfaces"][0]["driver"], "veth");
        assert_eq!(made["interfaces"][0]["default_route"], true);
        assert_eq!(made["warnings"], serde_json::json!([]), "{made}");
        let text = fs::read_to_string(place.path("switchpath.toml")).unwrap();
        assert!(text.contains("address = [\"203.0.113.2/30\"") && text.contains("via = \"203.0.113.1\""), "{text}");
        let checked = json(&place, &["check", "switchpath.toml"]);
        assert_eq!(
            (&checked["ok"], &checked["diagnostics"]),
            (&true.into(), &serde_json::json!([])),
            "{kind}: {checked}"
        );
        let next = made["next"].as_array().unwrap();
        assert!(next.iter().any(|one| one["command"] == "sudo ip address flush dev eth0"), "{made}");
        // Again: nothing is overwritten without --force.
        let said = machine.run(|| place.run_failing(1, &["init", "--yes"])).unwrap();
        assert!(said.contains("'switchpath.toml' exists") && said.contains("--force"), "{said}");
        assert_eq!(fs::read_to_string(place.path("switchpath.toml")).unwrap(), text);
        machine.run(|| place.run_ok(&["init", "--yes", "--force", "--wan", "eth2", "--address", "dhcp"])).unwrap();
        let other = fs::read_to_string(place.path("switchpath.toml")).unwrap();
        assert!(other.contains("packet:eth2") && other.contains("[nat]"), "{other}");
    }
}

#[test]
fn subscribers_of_an_operator_are_never_replaced() {
    let Some(lab) = lab() else { return };
    let (machine, _others) = machine(&lab);
    let place = TestDirectory::new(1);
    place.write("subscribers.csv", "circuit,address,down,up\n7,100.64.0.7,1mbit,1mbit\n");
    let words = ["init", "--yes", "--force", "--kind", "isp-edge"];
    let made = machine.run(|| json(&place, &words)).unwrap();
    assert_eq!(made["files"], serde_json::json!(["switchpath.toml"]));
    assert!(made["warnings"][0].as_str().unwrap().contains("'subscribers.csv' exists"), "{made}");
    assert!(fs::read_to_string(place.path("subscribers.csv")).unwrap().contains("100.64.0.7"));
    let checked = json(&place, &["check", "switchpath.toml"]);
    assert_eq!((&checked["ok"], &checked["subscribers"]["subscribers"]), (&true.into(), &1.into()), "{checked}");
}

#[test]
fn interface_of_the_login_is_named_with_its_danger() {
    let Some(lab) = lab() else { return };
    let (machine, _others) = machine(&lab);
    let place = TestDirectory::new(1);
    let mut command = place.command(&["init", "--yes", "-j"]);
    command.env("SSH_CONNECTION", "198.51.100.7 50000 203.0.113.2 22").stdout(Stdio::piped());
    let mut child = machine.spawn(command).unwrap();
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert!(child.wait().unwrap().success(), "{printed}");
    let made: Value = serde_json::from_str(&printed).unwrap();
    let warning = made["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("'eth0' carries your login: it has 203.0.113.2"), "{warning}");
    assert!(made["interfaces"][0]["login"].is_string() && made["interfaces"][1]["login"].is_null(), "{made}");
}

#[test]
fn questions_are_asked_on_a_terminal() {
    let Some(lab) = lab() else { return };
    let (machine, _others) = machine(&lab);
    let place = TestDirectory::new(1);
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let near = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut far = File::from(terminal);
    // The lines wait in the terminal until the command reads them.
    far.write_all(b"branch\n3\neth1\n10.8.0.0/24\n").unwrap();
    let mut command = place.command(&["init"]);
    command.stdin(near).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = machine.spawn(command).unwrap().wait_with_output().unwrap();
    let (out, asked) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{asked}");
    for wanted in
        ["1  eth0  veth", "default route", "Interface toward the Internet (name or number) [eth0]: ", "Kind [home]: "]
    {
        assert!(asked.contains(wanted), "{wanted}: {asked}");
    }
    assert!(out.contains("wan  eth2 toward the Internet, address by DHCP"), "{out}");
    assert!(out.contains("lan  eth1 toward the local network, 10.8.0.1/24"), "{out}");
    place.run_ok(&["check", "switchpath.toml"]);
}

#[test]
fn without_a_terminal_options_or_yes_are_needed() {
    let place = TestDirectory::new(1);
    let said = place.run_failing(2, &["init"]);
    assert!(said.contains("no terminal") && said.contains("--kind") && said.contains("--yes"), "{said}");
    let said = place.run_failing(2, &["init", "--yes", "--wan", "a0", "--lan", "a0"]);
    assert!(said.contains("a router needs two interfaces"), "{said}");
    // Interfaces of another machine get a warning: the file may be for that one.
    let said = place.run(&["init", "--yes", "--kind", "home", "--wan", "a0", "--lan", "a1"]);
    assert!(
        said.status.success() && String::from_utf8_lossy(&said.stderr).contains("no free Ethernet interface 'a0' now")
    );
    place.run_ok(&["check", "switchpath.toml"]);
}

#[test]
fn a_machine_with_one_interface_is_told_what_is_missing() {
    let Some(lab) = lab() else { return };
    let host = lab.host("single").unwrap();
    host.run(|| Netlink::open().unwrap().set_up("lo", true).unwrap()).unwrap();
    let place = TestDirectory::new(1);
    let said = host.run(|| place.run_failing(1, &["init", "--yes"])).unwrap();
    assert!(said.contains("has no free Ethernet interfaces, and a router needs two"), "{said}");
}
