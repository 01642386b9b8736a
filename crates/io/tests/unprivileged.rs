//! The laboratory as a user without any right has it: [`io::netns::enter`] first thing, before there is a second thread.
//! No test harness, because that starts threads.

#![allow(clippy::print_stdout)]

use io::netns::{self, Lab, Permission};
use io::packet_ring::{PacketOptions, PacketPort};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Tells the copy of this program that has no rights what it is.
const NOBODY: &str = "SWITCHPATH_TEST_NOBODY";
const SKIPPED: i32 = 77;

fn main() {
    if std::env::var_os(NOBODY).is_some() || !rustix::process::getuid().is_root() {
        return without_rights();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    match command.env(NOBODY, "1").uid(65534).gid(65534).status() {
        Err(error) => println!("skipped: this program cannot be started as another user: {error}"),
        Ok(status) => assert!(matches!(status.code(), Some(0 | SKIPPED)), "{status}"),
    }
}

fn without_rights() {
    match netns::enter() {
        Err(forbidden) => {
            println!("skipped: {forbidden}");
            std::process::exit(SKIPPED);
        }
        Ok(permission) => println!("entered by {permission:?}"),
    }
    assert_eq!(netns::enter(), Ok(Permission::Capability), "once is enough");
    let lab = Lab::new().unwrap();
    let (left, right) = (lab.host("left").unwrap(), lab.host("right").unwrap());
    lab.cable(&left.plug("eth0"), &right.plug("eth0")).unwrap();
    left.add_address("eth0", "10.0.0.1".parse().unwrap(), 24).unwrap();
    let (port, remarks) = right.run(|| PacketPort::open("eth0", &PacketOptions::default()).unwrap()).unwrap();
    assert!(remarks.is_empty(), "{remarks:?}");
    println!("a port is open; the host's stack is kept out by {}", port.ingress_drop().unwrap());
    let mut child = left.spawn(Command::new("true")).unwrap();
    assert!(child.wait().unwrap().success());
}
