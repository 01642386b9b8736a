//! Kernel interfaces under a router that is killed, and under one without privileges.

#![allow(clippy::print_stdout)]

use crate::rig::{PATIENCE, Router, TestDirectory, until};
use io::netlink::{KernelError, KernelRoute, Netlink};
use io::netns::{Lab, LabHost};
use std::net::{IpAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use units::{Instant, Nanos};

/// The longest outage.
const RECOVERY: Nanos = Nanos::secs(1);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// client eth0 - left [router] right - eth0 server
struct Line {
    router: LabHost,
    client: LabHost,
    server: LabHost,
}

impl Line {
    fn lay(lab: &Lab) -> Line {
        let [router, client, server] = ["router", "client", "server"].map(|name| lab.host(name).unwrap());
        let line = Line { router, client, server };
        line.plug(lab, &line.client, "left", 1);
        line.plug(lab, &line.server, "right", 2);
        line
    }

    fn plug(&self, lab: &Lab, host: &LabHost, near: &str, number: u8) {
        lab.cable(&host.plug("eth0"), &self.router.plug(near)).unwrap();
        self.address(host, "eth0", number);
    }

    fn address(&self, host: &LabHost, link: &str, number: u8) {
        host.run(|| Line::configure(link, number).unwrap()).unwrap();
    }

    /// Configures an interface in the namespace of this thread: its address, and the route through the router.
    fn configure(link: &str, number: u8) -> Result<(), KernelError> {
        let mut netlink = Netlink::open().unwrap();
        netlink.set_up(link, true)?;
        netlink.add_address(link, ip(&format!("10.0.{number}.2")), 24)?;
        let gateway = Some(ip(&format!("10.0.{number}.1")));
        netlink.add_route(&KernelRoute { destination: (ip("0.0.0.0"), 0), gateway, link: None })
    }

    /// Starts a router in its namespace with these devices.
    fn start(&self, place: &TestDirectory, devices: [&str; 2]) -> Router {
        let [left, right] = devices;
        place.write(
            "run.toml",
            &format!(
                "version = 1\n[port.left]\ndevice = '{left}'\naddress = ['10.0.1.1/24']\n\
                 [port.right]\ndevice = '{right}'\naddress = ['10.0.2.1/24']\n"
            ),
        );
        self.router.run(|| place.start()).unwrap()
    }

    /// Runs `work` while the client sends datagrams with their send times to the server.
    fn under_traffic(&self, work: impl FnOnce(&dyn Fn(Instant) -> Nanos)) {
        let received = self.server.run(|| UdpSocket::bind("0.0.0.0:7000").unwrap()).unwrap();
        received.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let sender = self.client.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        let stop = AtomicBool::new(false);
        // The time from `since` until a datagram arrives that was sent after it.
        let outage = |since: Instant| {
            let mut sent = [0; 8];
            loop {
                let passed = io::clock::now().since(since);
                if received.recv(&mut sent).is_ok() && Instant::new(u64::from_be_bytes(sent)) > since {
                    return passed;
                }
                assert!(passed < PATIENCE.into(), "nothing comes through");
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Acquire) {
                    // There is no route while the client's own interface is away.
                    let _ = sender.send_to(&io::clock::now().get().to_be_bytes(), "10.0.2.2:7000");
                    thread::park_timeout(Duration::from_micros(500));
                }
            });
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&outage)));
            stop.store(true, Ordering::Release);
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }
}

/// Returns a laboratory, or prints why the test is skipped.
pub fn lab() -> Option<Lab> {
    Lab::new().inspect_err(|forbidden| println!("skipped: {forbidden}")).ok()
}

/// Returns whether a host's kernel answers a ping; none without ping(8).
pub fn answers(from: &LabHost, to: &str) -> Option<bool> {
    let mut command = Command::new("ping");
    command.args(["-c1", "-W1", to]).stdout(Stdio::null());
    Some(from.spawn(command).inspect_err(|error| println!("skipped: ping: {error}")).ok()?.wait().unwrap().success())
}

#[test]
fn a_killed_router_forwards_again_within_a_second_after_restart() {
    let Some(lab) = lab() else { return };
    let line = Line::lay(&lab);
    // An address of the kernel. A router on the interface keeps it from receiving packets.
    line.router.add_address("left", ip("10.0.1.9"), 24).unwrap();
    let links = || line.router.run(|| Netlink::open().unwrap().links().unwrap()).unwrap();
    // Linux sets the operational state of a new link up to a second after its carrier; 6 is IF_OPER_UP.
    let before = until(|| {
        let links = links();
        links.iter().all(|link| link.kind != "veth" || link.operational_state == 6).then_some(links)
    });
    for devices in [["packet:left", "packet:right"], ["xdp:left", "xdp:right"]] {
        let place = TestDirectory::new(1);
        let mut router = line.start(&place, devices);
        line.under_traffic(|outage| {
            outage(io::clock::now());
            for _ in 0..3 {
                router.kill();
                let killed = io::clock::now();
                router = line.start(&place, devices);
                let lasted = outage(killed);
                println!("{devices:?}: killed and started again: {lasted:?}");
                assert!(lasted < RECOVERY, "{lasted:?}");
            }
            assert_ne!(answers(&line.client, "10.0.1.9"), Some(true), "the kernel is kept out");
            router.kill();
        });
        assert_ne!(answers(&line.client, "10.0.1.9"), Some(false), "nothing keeps the kernel out");
        assert_eq!(links(), before);
    }
    // A tap device made by the router disappears with it.
    let place = TestDirectory::new(1);
    let router = line.start(&place, ["packet:left", "tap:t0"]);
    assert_eq!(links().len(), before.len() + 1);
    router.kill();
    until(|| (links() == before).then_some(()));
}

#[test]
fn an_unprivileged_router_recovers_its_interfaces() {
    let Some(lab) = lab() else { return };
    let line = Line::lay(&lab);
    let place = TestDirectory::new(1);
    for devices in [["packet:left", "xdp:right"], ["tap:left", "packet:right"]] {
        let is_tap = devices[0].starts_with("tap");
        if is_tap {
            line.router.run(|| Netlink::open().unwrap().delete_link("left").unwrap()).unwrap();
        }
        let router = line.start(&place, devices);
        // A device can be moved away while the router still sets it up. The router gives it up and opens it again.
        let hand_over = || {
            let namespace = line.client.namespace();
            until(|| {
                line.router.run(|| Netlink::open().unwrap().move_to("left", &**namespace).ok()).unwrap();
                line.client.run(|| Line::configure("left", 1).ok()).unwrap()
            });
        };
        if is_tap {
            hand_over();
        }
        line.under_traffic(|outage| {
            outage(io::clock::now());
            line.router.run(|| Netlink::open().unwrap().delete_link("right").unwrap()).unwrap();
            line.plug(&lab, &line.server, "right", 2);
            let lasted = outage(io::clock::now());
            println!("{devices:?}: right is another: {lasted:?}");
            if is_tap {
                line.client.run(|| Netlink::open().unwrap().delete_link("left").unwrap()).unwrap();
                hand_over();
                let lasted = outage(io::clock::now());
                println!("{devices:?}: left is made again: {lasted:?}");
            }
        });
        let (_, log) = router.stop();
        assert!(log.contains("right is back") && log.contains("running as user"), "{log}");
    }
}

#[test]
fn second_router_on_an_interface_gets_an_error_with_the_owner() {
    let Some(lab) = lab() else { return };
    let line = Line::lay(&lab);
    let (place, other) = (TestDirectory::new(1), TestDirectory::new(1));
    let router = line.start(&place, ["packet:left", "packet:right"]);
    other.write("run.toml", "version = 1\n[port.left]\ndevice = 'xdp:left'\naddress = ['10.0.1.1/24']\n");
    let said = line.router.run(|| other.run_failing(1, &["run", "run.toml"])).unwrap();
    let owner = format!("another router, process {}, uses the interface 'left'", router.pid());
    assert!(said.contains(&owner) && said.contains("end that router"), "{said}");
    router.stop();
}

#[test]
fn a_datagram_is_traced_by_the_worker_that_receives_it() {
    let Some(lab) = lab() else { return };
    let line = Line::lay(&lab);
    let place = TestDirectory::new(1);
    place.write(
        "run.toml",
        "version = 1\nrouter.workers = 2\n[port.left]\ndevice = 'packet:left'\naddress = ['10.0.1.1/24']\n\
         [port.right]\ndevice = 'packet:right'\naddress = ['10.0.2.1/24']\n",
    );
    let router = line.router.run(|| place.start()).unwrap();
    let mut command = place.command(&["trace", "-j", "-n", "8", "--port", "left", "udp", "dport", "7000"]);
    let trace = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until(|| (place.json(&["show", "status"])["traces"].as_array().unwrap().len() == 1).then_some(()));
    let received = line.server.run(|| UdpSocket::bind("0.0.0.0:7000").unwrap()).unwrap();
    received.set_read_timeout(Some(PATIENCE)).unwrap();
    // Eight senders very likely spread over both queues.
    for number in 0..8 {
        let sender = line.client.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        sender.send_to(&[number], "10.0.2.2:7000").unwrap();
        received.recv(&mut [0; 8]).unwrap();
    }
    let output = trace.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "8 packets\n");
    for text in String::from_utf8(output.stdout).unwrap().lines() {
        let packet: serde_json::Value = serde_json::from_str(text).unwrap();
        assert!(packet["fate"] == "sent" && packet["out_port"] == "right", "{packet}");
        let stages: Vec<&str> =
            packet["stages"].as_array().unwrap().iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
        assert!(stages.starts_with(&["received", "classified"]) && stages.ends_with(&["link", "sent"]), "{stages:?}");
    }
    router.stop();
}
