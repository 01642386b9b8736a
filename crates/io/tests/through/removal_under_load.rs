//! Interfaces that are removed during transmissions, with full rings on both sides of the router.

use crate::lab;
use crate::rig::{Cable, Line, ip};
use io::bpf::BpfHook;
use io::clock;
use io::netlink::Netlink;
use io::netns::LabHost;
use io::traffic::{PacketAddresses, UdpSink, UdpSource};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use units::{Instant, Mac, Nanos};

/// The maximum outage after the interface has returned.
const RECOVERY: Nanos = Nanos::secs(1);
/// Packets made at a time: as many as the rings of a port hold.
const CALL: u32 = 2048;

fn link(host: &LabHost, name: &str) -> (u32, Mac) {
    let link = host.run(|| Netlink::open().unwrap().link(name).unwrap()).unwrap();
    (link.index, link.mac)
}

/// A new sink at the server's end.
fn sink(line: &Line) -> UdpSink {
    let (index, _) = link(&line.server, "eth0");
    line.server.run(|| UdpSink::attach(index, BpfHook::XdpNative).unwrap()).unwrap()
}

/// A new source at the client's end, for packets to this router address.
fn source(line: &Line, router: Mac) -> std::io::Result<UdpSource> {
    let [IpAddr::V4(from), IpAddr::V4(to)] = ["10.0.1.2", "10.0.2.2"].map(ip) else {
        unreachable!("as they are written")
    };
    let (index, mac) = link(&line.client, "eth0");
    let journey = PacketAddresses { link: (mac, router), network: (from, to) };
    line.client.run(|| UdpSource::new(&journey, index)).unwrap()
}

/// Waits until a sink has counted `count` more. Returns the time since `since`.
fn await_packets(sink: &UdpSink, count: u64, since: Instant) -> Nanos {
    let before = sink.counted().unwrap().packets;
    loop {
        let passed = clock::now().since(since);
        if sink.counted().unwrap().packets >= before + count {
            return passed;
        }
        assert!(passed < RECOVERY, "nothing comes through after {passed:?}");
        thread::yield_now();
    }
}

#[test]
fn interface_removed_during_transmission_leaks_no_frames() {
    let Some(lab) = lab() else { return };
    let line = Line::lay(&lab, [Cable::Xdp; 2]);
    let running = line.start("");
    if running.advisories.take().iter().any(|warning| warning.contains("instead of AF_XDP")) {
        return println!("skipped: no AF_XDP");
    }
    // The port keeps the first address of the interface.
    let (_, router) = link(&line.router, "left");
    let made = match source(&line, router) {
        Ok(source) => source,
        Err(error) => return println!("skipped: no source of packets: {error}"),
    };
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                // Fails while the link is gone.
                let _ = line.client.run(|| made.send(CALL));
                sent.fetch_add(u64::from(CALL), Ordering::Relaxed);
            }
        });
        let work = || {
            let mut arrived = sink(&line);
            await_packets(&arrived, 10_000, clock::now());
            // Each round at another moment of the transmission.
            for round in 0..4 {
                await_packets(&arrived, 1000 + 777 * round, clock::now());
                line.router.run(|| Netlink::open().unwrap().delete_link("right").unwrap()).unwrap();
                line.plug(1);
                let since = clock::now();
                arrived = sink(&line);
                println!("right removed and made anew: {:?}", await_packets(&arrived, 1, since));
            }
            for (host, name) in [(&line.router, "right"), (&line.server, "eth0"), (&line.router, "left")] {
                await_packets(&arrived, 1000, clock::now());
                for up in [false, true] {
                    host.run(|| Netlink::open().unwrap().set_up(name, up).unwrap()).unwrap();
                }
                println!("{name} switched off and on: {:?}", await_packets(&arrived, 1, clock::now()));
            }
            assert_eq!(arrived.counted().unwrap().late, 0, "none was overtaken");
        };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Release);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    // Removed while frames arrive on it.
    line.client.run(|| made.send(CALL).unwrap()).unwrap();
    line.router.run(|| Netlink::open().unwrap().delete_link("left").unwrap()).unwrap();
    line.plug(0);
    let arrived = sink(&line);
    let made = source(&line, router).unwrap();
    let since = clock::now();
    while arrived.counted().unwrap().packets == 0 {
        assert!(clock::now().since(since) < RECOVERY, "nothing comes in by the new one");
        line.client.run(|| made.send(64).unwrap()).unwrap();
    }
    println!("left removed and made anew: {:?}", clock::now().since(since));
    let report = running.stop();
    println!("{} packets sent; {:?}", sent.load(Ordering::Relaxed), report.ledger);
}
