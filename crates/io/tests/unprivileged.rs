//! The laboratory of an unprivileged user: [`io::netns::enter`] is called before there is a second thread. There is no test harness, because that
//! starts threads. After kill -9 nothing of a laboratory is left.

#![allow(clippy::print_stdout)]

use io::netns::{self, Lab, Permission};
use io::packet_ring::{PacketOptions, PacketPort};
use io::wait::{Sleeper, WakeReason, Waker};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use units::Nanos;

/// The variable that marks the unprivileged copy of this program.
const NOBODY: &str = "SWITCHPATH_TEST_NOBODY";
const SKIPPED: i32 = 77;

/// The variable that marks the copy of this program that will be killed.
const VICTIM: &str = "SWITCHPATH_TEST_VICTIM";

fn main() {
    if std::env::var_os(VICTIM).is_some() {
        return victim();
    }
    if std::env::var_os(NOBODY).is_some() || !rustix::process::getuid().is_root() {
        return without_rights();
    }
    laboratory_leaves_nothing_after_kill_9();
    let mut command = Command::new(std::env::current_exe().unwrap());
    match command.env(NOBODY, "1").uid(65534).gid(65534).status() {
        Err(error) => println!("skipped: this program cannot be started as another user: {error}"),
        Ok(status) => assert!(matches!(status.code(), Some(0 | SKIPPED)), "{status}"),
    }
}

/// Creates a laboratory with a program in it, reports the program's id, and waits to be killed.
fn victim() {
    let lab = netns::enter().and_then(|_| Lab::new()).unwrap_or_else(|forbidden| {
        println!("skipped: {forbidden}");
        std::process::exit(SKIPPED)
    });
    let (left, right) = (lab.host("left").unwrap(), lab.host("right").unwrap());
    lab.cable(&left.plug("eth0"), &right.plug("eth0")).unwrap();
    let mut command = Command::new("sleep");
    println!(
        "{}",
        left.spawn({
            command.arg("1000");
            command
        })
        .unwrap()
        .id()
    );
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn laboratory_leaves_nothing_after_kill_9() {
    let links = || io::netlink::Netlink::open().unwrap().links().unwrap();
    let before = links();
    let mut victim = Command::new(std::env::current_exe().unwrap());
    let mut victim = victim.env(VICTIM, "1").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(victim.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    let Ok(program) = said.trim().parse::<i32>() else {
        victim.wait().unwrap();
        return println!("{said}");
    };
    let program = rustix::process::Pid::from_raw(program).unwrap();
    let watched = rustix::process::pidfd_open(program, rustix::process::PidfdFlags::empty()).unwrap();
    let mut sleeper = Sleeper::new(Waker::new().unwrap());
    assert_eq!(sleeper.sleep([watched.as_fd()], Nanos::ZERO).unwrap(), WakeReason::Timeout, "the program runs");
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_eq!(sleeper.sleep([watched.as_fd()], Nanos::secs(10)).unwrap(), WakeReason::Ready, "the program is gone");
    assert_eq!(links(), before);
    println!("nothing is left after kill -9");
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
    let (port, warnings) = right.run(|| PacketPort::open("eth0", &PacketOptions::default()).unwrap()).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    println!("a port is open; the host's stack is kept out by {}", port.ingress_drop().unwrap());
    let mut child = left.spawn(Command::new("true")).unwrap();
    assert!(child.wait().unwrap().success());
}
