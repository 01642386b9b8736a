//! The router does not take the interface that carries a login. Tested on kernel interfaces in namespaces, with the environment that sshd gives its
//! sessions.

#![allow(clippy::print_stdout)]

use crate::rig::TestDirectory;
use io::netns::{Lab, LabHost};
use std::io::Read;
use std::process::{Command, Stdio};

const LOGIN: &str = "192.0.2.7 50000 192.0.2.1 22";

/// A machine with a login over `eth0` and the free interface `eth1`.
fn machine() -> Option<(Lab, [LabHost; 2])> {
    let lab = match Lab::new() {
        Ok(lab) => lab,
        Err(forbidden) => {
            println!("skipped: {forbidden}");
            return None;
        }
    };
    let hosts = ["machine", "admin"].map(|name| lab.host(name).unwrap());
    for link in ["eth0", "eth1"] {
        lab.cable(&hosts[0].plug(link), &hosts[1].plug(link)).unwrap();
    }
    hosts[0].add_address("eth0", "192.0.2.1".parse().unwrap(), 24).unwrap();
    hosts[0].add_default_route("192.0.2.254".parse().unwrap()).unwrap();
    Some((lab, hosts))
}

fn config(interface: &str) -> String {
    let port = |interface: &str, net: u8| {
        format!("[port.p{net}]\ndevice = 'packet:{interface}'\naddress = ['10.0.{net}.1/24']\n")
    };
    let ports: String = interface.split_whitespace().zip(0..).map(|(interface, net)| port(interface, net)).collect();
    format!("version = 1\n{ports}[port.m]\ndevice = 'memory:m'\naddress = ['10.1.0.1/24']\n")
}

/// Runs a command on a host, which has to fail, and returns its error message.
fn bad(host: &LabHost, mut command: Command) -> String {
    let mut child = host.spawn({
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command
    });
    let child = child.as_mut().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    said
}

fn logged_in(place: &TestDirectory, arguments: &[&str]) -> Command {
    let mut command = place.command(arguments);
    command.env("SSH_CONNECTION", LOGIN);
    command
}

#[test]
fn a_router_does_not_start_on_the_interface_of_its_operators_login() {
    let Some((_lab, [machine, _admin])) = machine() else { return };
    let place = TestDirectory::new(1);
    place.write("run.toml", &config("eth0 eth1"));
    let said = bad(&machine, logged_in(&place, &["run", "run.toml"]));
    for word in ["port p0", "'eth0' carries your login", "192.0.2.1", "--force"] {
        assert!(said.contains(word), "{said}");
    }
    assert!(!said.contains("port p1"), "{said}");
    // sudo removes the variable from the command's environment, but its parent shell still has it.
    let mut command = Command::new("sh");
    let script = "env -u SSH_CONNECTION \"$0\" run run.toml; exit $?";
    place.prepare(command.args(["-c", script, env!("CARGO_BIN_EXE_switchpath")]));
    command.env("SSH_CONNECTION", LOGIN);
    assert!(bad(&machine, command).contains("'eth0' carries your login"));
    // The console may take it. The router warns about the machine's own packets.
    let router = place.start_by(place.command(&["run", "run.toml"]), |command| machine.spawn(command));
    let (_, err) = router.stop();
    assert!(err.contains("port p0 uses eth0, which has this machine's only default route"), "{err}");
    let forced = logged_in(&place, &["run", "run.toml", "--force"]);
    place.start_by(forced, |command| machine.spawn(command)).stop();
}

#[test]
fn apply_refuses_the_interface_that_carries_a_login() {
    let Some((_lab, [machine, _admin])) = machine() else { return };
    let place = TestDirectory::new(1);
    place.write("run.toml", &config("eth1")).write("both.toml", &config("eth1 eth0"));
    let router = place.start_by(place.command(&["run", "run.toml"]), |command| machine.spawn(command));
    let said = bad(&machine, logged_in(&place, &["apply", "both.toml"]));
    assert!(
        said.contains("the running configuration is unchanged") && said.contains("port p1: 'eth0' carries your login"),
        "{said}"
    );
    assert_eq!(place.json(&["show", "status"])["generation"], 1);
    let mut forced = logged_in(&place, &["apply", "both.toml", "--force", "--confirm", "3600s"]);
    assert!(forced.status().unwrap().success());
    // An interface that the router already holds carries no login any more.
    place.run_ok(&["confirm"]);
    place.write("both.toml", &config("eth1 eth0").replace("10.1.0.1", "10.2.0.1"));
    assert!(logged_in(&place, &["apply", "both.toml"]).status().unwrap().success());
    router.stop();
}
