//! Interfaces that are removed and return under traffic.

use crate::lab;
use crate::rig::{Cable, Line, PATIENCE, Running, ip};
use io::clock;
use io::netlink::{KernelLink, Netlink};
use io::netns::{Lab, LabHost};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use units::{Instant, Nanos};

/// The maximum outage after the interface has returned.
const RECOVERY: Nanos = Nanos::secs(1);

/// Datagrams from the client to the server, one after the other, while a test changes the interfaces.
struct Traffic {
    received: UdpSocket,
}

impl Traffic {
    /// Runs `work` beside the traffic.
    fn beside(client: &LabHost, server: &LabHost, work: impl FnOnce(&Traffic)) {
        let received = server.run(|| UdpSocket::bind("0.0.0.0:7000").unwrap()).unwrap();
        received.set_read_timeout(Some(Nanos::millis(100).into())).unwrap();
        let sender = client.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0u64.. {
                    if stop.load(Ordering::Acquire) {
                        return;
                    }
                    // While the client's own interface is gone there is no route.
                    let _ = sender.send_to(&clock::now().get().to_be_bytes(), "10.0.2.2:7000");
                    if number % 8 == 0 {
                        thread::park_timeout(Nanos::millis(1).into());
                    }
                }
            });
            let traffic = Traffic { received };
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&traffic)));
            stop.store(true, Ordering::Release);
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }

    /// Waits for a datagram that was sent after `since`. Returns the waiting time.
    fn arrives_after(&self, since: Instant, limit: Nanos) -> Nanos {
        let mut sent = [0; 8];
        loop {
            let outage = clock::now().since(since);
            if self.received.recv(&mut sent).is_ok() && Instant::new(u64::from_be_bytes(sent)) > since {
                return outage;
            }
            assert!(outage < limit, "nothing has come through for {outage:?}");
        }
    }
}

fn change(host: &LabHost, work: impl FnOnce(&mut Netlink) + Send) {
    host.run(|| work(&mut Netlink::open().unwrap())).unwrap();
}

/// Waits until there is an interface with this name and another index.
fn await_new(host: &LabHost, name: &str, old: u32) {
    let deadline = clock::now() + PATIENCE;
    // Setting it up is the router's last step: before that it still works on the interface.
    let new = |link: KernelLink| if link.up { link.index } else { 0 };
    let index = || host.run(|| Netlink::open().unwrap().link(name).map_or(0, new)).unwrap();
    while [0, old].contains(&index()) {
        assert!(clock::now() < deadline, "{name} is not made again");
        thread::yield_now();
    }
}

fn run(lab: &Lab, cables: [Cable; 2], work: impl FnOnce(&Line, &Traffic)) -> Running {
    let line = Line::lay(lab, cables);
    let running = line.start("");
    Traffic::beside(&line.client, &line.server, |traffic| {
        traffic.arrives_after(clock::now(), PATIENCE);
        work(&line, traffic);
    });
    running
}

#[test]
fn link_set_down_and_up_recovers_within_a_second() {
    let Some(lab) = lab() else { return };
    for cable in [Cable::Packet, Cable::Xdp] {
        switch_off_and_on(&lab, cable);
    }
}

fn switch_off_and_on(lab: &Lab, cable: Cable) {
    let running = run(lab, [cable; 2], |line, traffic| {
        for (host, link) in [(&line.router, "right"), (&line.server, "eth0"), (&line.router, "left")] {
            change(host, |netlink| netlink.set_up(link, false).unwrap());
            change(host, |netlink| netlink.set_up(link, true).unwrap());
            if link == "eth0" {
                // The kernel removes the routes of a link that is set down.
                change(host, |netlink| {
                    let route = io::netlink::KernelRoute {
                        destination: (ip("0.0.0.0"), 0),
                        gateway: Some(ip("10.0.2.1")),
                        link: None,
                    };
                    netlink.add_route(&route).unwrap();
                });
            }
            let outage = traffic.arrives_after(clock::now(), RECOVERY);
            println!("{link} switched off and on: {outage:?} ({cable:?})");
        }
    });
    running.stop();
}

#[test]
fn recreated_cable_recovers_within_a_second() {
    let Some(lab) = lab() else { return };
    for cable in [Cable::Packet, Cable::Xdp] {
        let running = run(&lab, [cable; 2], |line, traffic| {
            for side in [1, 0, 1] {
                let near = line.side(side).1;
                change(&line.router, |netlink| netlink.delete_link(near).unwrap());
                line.plug(side);
                let outage = traffic.arrives_after(clock::now(), RECOVERY);
                println!("{near} removed and made anew: {outage:?} ({cable:?})");
            }
        });
        let warnings = running.advisories.take().join("\n") + "\n";
        assert_eq!(warnings.matches("t is back\n").count(), 3, "{warnings}");
        running.stop();
    }
}

#[test]
fn removed_tap_device_is_recreated() {
    let Some(lab) = lab() else { return };
    let running = run(&lab, [Cable::Packet, Cable::Tap], |line, traffic| {
        let old = line.server.run(|| Netlink::open().unwrap().link("right").unwrap().index).unwrap();
        change(&line.server, |netlink| netlink.delete_link("right").unwrap());
        await_new(&line.router, "right", old);
        line.hand_over(1);
        let outage = traffic.arrives_after(clock::now(), RECOVERY);
        println!("right made again: {outage:?}");
    });
    running.stop();
}

/// Waits until the router has reported `what`. Returns all its advisories since the last call.
fn await_advisory(running: &Running, what: &str) -> Vec<String> {
    let (mut said, deadline) = (Vec::new(), clock::now() + PATIENCE);
    while !said.iter().any(|warning: &String| warning.contains(what)) {
        assert!(clock::now() < deadline, "it does not say '{what}' but {said:?}");
        said.extend(running.advisories.take());
        thread::yield_now();
    }
    said
}

/// The law: after any change of an interface, once it exists and is up again, the port forwards over it.
#[test]
fn interface_moved_to_another_namespace_and_back_recovers() {
    let Some(lab) = lab() else { return };
    for cable in [Cable::Packet, Cable::Plain, Cable::Xdp] {
        let line = Line::lay(&lab, [cable; 2]);
        let elsewhere = lab.host("elsewhere").unwrap();
        let running = line.start("");
        if running.advisories.take().iter().any(|warning| warning.contains("instead of AF_XDP")) {
            println!("skipped: no AF_XDP here");
            continue;
        }
        Traffic::beside(&line.client, &line.server, |traffic| {
            traffic.arrives_after(clock::now(), PATIENCE);
            // Twice so that the router notices it, and twice before it can.
            for (turn, side) in [(0, 1), (1, 0), (2, 1), (3, 0)] {
                let near = line.side(side).1;
                let (there, here) = (elsewhere.namespace().clone(), line.router.namespace().clone());
                change(&line.router, |netlink| netlink.move_to(near, &*there).unwrap());
                if turn < 2 {
                    await_advisory(&running, "has disappeared");
                    // No program is attached to it in its new place, so that another can be attached.
                    change(&elsewhere, |netlink| netlink.set_up(near, true).unwrap());
                    let deadline = clock::now() + PATIENCE;
                    while elsewhere.run(|| Netlink::open().unwrap().link(near).unwrap().xdp).unwrap() {
                        assert!(clock::now() < deadline, "{near} has a program of ours elsewhere ({cable:?})");
                    }
                }
                change(&elsewhere, |netlink| netlink.move_to(near, &*here).unwrap());
                change(&line.router, |netlink| netlink.set_up(near, true).unwrap());
                await_advisory(&running, "is back");
                let outage = traffic.arrives_after(clock::now(), RECOVERY);
                println!("{near} moved away and back: {outage:?} ({cable:?})");
            }
        });
        running.stop();
    }
}

#[test]
fn interface_renamed_and_named_back_recovers() {
    let Some(lab) = lab() else { return };
    for cable in [Cable::Packet, Cable::Xdp] {
        let line = Line::lay(&lab, [cable; 2]);
        let running = line.start("");
        running.advisories.take();
        Traffic::beside(&line.client, &line.server, |traffic| {
            traffic.arrives_after(clock::now(), PATIENCE);
            for near in ["right", "left"] {
                // Older kernels rename only links that are down.
                change(&line.router, |netlink| netlink.set_up(near, false).unwrap());
                change(&line.router, |netlink| netlink.rename(near, "other").unwrap());
                await_advisory(&running, "has disappeared");
                change(&line.router, |netlink| netlink.rename("other", near).unwrap());
                change(&line.router, |netlink| netlink.set_up(near, true).unwrap());
                await_advisory(&running, "is back");
                let outage = traffic.arrives_after(clock::now(), RECOVERY);
                println!("{near} renamed and named again: {outage:?} ({cable:?})");
            }
        });
        running.stop();
    }
}

#[test]
fn tap_device_moved_to_another_namespace_and_back_recovers() {
    let Some(lab) = lab() else { return };
    let running = run(&lab, [Cable::Packet, Cable::Tap], |line, traffic| {
        for _ in 0..2 {
            let here = line.router.namespace().clone();
            change(&line.server, |netlink| netlink.move_to("right", &*here).unwrap());
            change(&line.router, |netlink| netlink.set_up("right", true).unwrap());
            line.hand_over(1);
            let outage = traffic.arrives_after(clock::now(), RECOVERY);
            println!("right moved back and forth: {outage:?}");
        }
    });
    running.stop();
}
