//! `packet:` ports against the kernel: hosts communicate through two of them, frames arrive unchanged, and closing a port restores the interface.

#![allow(clippy::print_stdout)]

use io::clock;
use io::ingress::{self, IngressDrop};
use io::netlink::Netlink;
use io::netns::{Lab, LabHost, Plug};
use io::offload::{Ethtool, EthtoolOffload};
use io::packet_ring::{PacketOptions, PacketPort};
use io::wait::{Sleeper, Waker};
use packet::port::{Port, PortStatistics, UnsentPackets, WakeSource, discard_refused};
use packet::{Batch, DropReason, Pool, Region};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use units::{Mac, Nanos, Rate};

/// A laboratory, or a message that the test is skipped.
fn lab() -> Option<Lab> {
    Lab::new().inspect_err(|forbidden| println!("skipped: {forbidden}")).ok()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Two hosts on one cable. The second sends nothing by itself.
fn pair(lab: &Lab) -> (LabHost, LabHost) {
    let (left, right) = (lab.host("left").unwrap(), lab.host("right").unwrap());
    for host in [&left, &right] {
        host.silence_kernel().unwrap();
    }
    lab.cable(&left.plug("eth0"), &right.plug("eth0")).unwrap();
    (left, right)
}

fn open(host: &LabHost, link: &str, options: PacketOptions) -> PacketPort {
    let (port, warnings) = host.run(|| PacketPort::open(link, &options).unwrap()).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    port
}

fn small() -> PacketOptions {
    PacketOptions { receive_slots: 64, ..PacketOptions::default() }
}

/// Sleeps until the port is readable, for at most `timeout`.
fn wait(port: &PacketPort, timeout: Nanos) {
    let WakeSource::Descriptor(fd) = port.wake_source() else { return };
    Sleeper::new(Waker::new().unwrap()).sleep_on([fd], timeout).unwrap();
}

/// Frames received until there are `count`, or a second passes without one, as (bytes, refused).
fn receive(port: &mut PacketPort, pool: &mut Pool, count: usize) -> Vec<(Vec<u8>, u8)> {
    let (mut frames, mut batch) = (Vec::new(), Batch::new());
    while frames.len() < count {
        port.receive(clock::now(), &mut batch, pool);
        if batch.is_empty() {
            let before = clock::now();
            wait(port, Nanos::secs(1));
            if clock::now().since(before) >= Nanos::secs(1) {
                break;
            }
        }
        for packet in batch.drain() {
            frames.push((packet.bytes().to_vec(), packet.meta().refused));
            pool.give(packet);
        }
    }
    frames
}

/// Sends frames. Returns the number that the interface refused immediately.
fn transmit(port: &mut PacketPort, pool: &mut Pool, frames: &[Vec<u8>]) -> u64 {
    let mut batch = Batch::new();
    for frame in frames {
        let mut packet = pool.take().unwrap();
        assert!(packet.fill(frame));
        batch.push(packet);
    }
    port.transmit(clock::now(), &mut batch, pool);
    discard_refused(&mut batch, pool)
}

/// A numbered broadcast frame of an experimental type with this length.
fn frame(number: u32, length: usize) -> Vec<u8> {
    let header = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], &[0x88, 0xb5], &number.to_be_bytes()].concat();
    header.into_iter().chain((0..).map(|i: usize| (i * 7) as u8)).take(length).collect()
}

/// A wire between two ports, each of which sends the frames of the other. Runs during `work`.
fn bridged<R>(ports: [PacketPort; 2], work: impl FnOnce() -> R) -> (R, [PortStatistics; 2]) {
    let (stop, waker) = (AtomicBool::new(false), Waker::new().unwrap());
    let mut sleeper = Sleeper::new(waker.clone());
    thread::scope(|scope| {
        let stopped = &stop;
        let bridge = scope.spawn(move || {
            let (mut ports, mut pool, mut batch) = (ports, Pool::new(Region::new(1024)), Batch::new());
            while !stopped.load(Ordering::Acquire) {
                let mut idle = true;
                for from in 0..2 {
                    if ports[1 - from].room() < packet::BATCH {
                        continue;
                    }
                    ports[from].receive(clock::now(), &mut batch, &mut pool);
                    idle &= batch.is_empty();
                    assert!(batch.as_slice().iter().all(|packet| packet.meta().refused == 0));
                    ports[1 - from].transmit(clock::now(), &mut batch, &mut pool);
                    assert!(batch.is_empty(), "the interface refuses nothing");
                }
                if idle {
                    let fds = ports.each_ref().map(|port| match port.wake_source() {
                        WakeSource::Descriptor(fd) => fd,
                        other => panic!("{other:?}"),
                    });
                    sleeper.sleep_on(fds, Nanos::millis(100)).unwrap();
                }
            }
            assert_eq!(pool.frames_in_use(), 0);
            ports.each_ref().map(|port| port.statistics())
        });
        // The bridge also ends if `work` panics.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Release);
        waker.wake();
        let statistics = bridge.join().unwrap();
        (result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), statistics)
    })
}

/// client eth0 - left [middle] right - eth0 server, both hosts in 10.0.0.0/24 and fd00::/64.
fn through_the_middle(lab: &Lab, options: PacketOptions) -> ([LabHost; 2], [PacketPort; 2]) {
    let middle = lab.host("middle").unwrap();
    middle.silence_kernel().unwrap();
    let hosts = ["client", "server"].map(|name| lab.host(name).unwrap());
    for (host, (link, last)) in hosts.iter().zip([("left", 1), ("right", 2)]) {
        lab.cable(&host.plug("eth0"), &middle.plug(link)).unwrap();
        host.add_address("eth0", ip(&format!("10.0.0.{last}")), 24).unwrap();
        host.add_address("eth0", ip(&format!("fd00::{last}")), 64).unwrap();
    }
    let ports = ["left", "right"].map(|link| open(&middle, link, options));
    (hosts, ports)
}

fn ping(from: &LabHost, address: &str) -> Option<bool> {
    let mut command = Command::new("ping");
    command.args(["-c1", "-W1", address]).stdout(Stdio::null());
    Some(from.spawn(command).inspect_err(|error| println!("skipped: ping: {error}")).ok()?.wait().unwrap().success())
}

/// Sends `bytes` through a TCP connection of the two kernels and returns the received bytes.
fn tcp(client: &LabHost, server: &LabHost, address: &str, bytes: &[u8]) -> Vec<u8> {
    let listener = server.run(|| TcpListener::bind((ip(address), 0)).unwrap()).unwrap();
    let target: SocketAddr = listener.local_addr().unwrap();
    thread::scope(|scope| {
        let received = scope.spawn(move || {
            let mut received = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
            received
        });
        let mut stream = client.run(|| TcpStream::connect_timeout(&target, Nanos::secs(5).into()).unwrap()).unwrap();
        stream.write_all(bytes).unwrap();
        drop(stream);
        received.join().unwrap()
    })
}

#[test]
fn ping_and_tcp_pass_through_two_ports() {
    let Some(lab) = lab() else { return };
    let ([client, server], ports) = through_the_middle(&lab, PacketOptions::default());
    let sent: Vec<u8> = (0..4_000_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    let ((), statistics) = bridged(ports, || {
        assert_ne!(ping(&client, "10.0.0.2"), Some(false));
        assert_ne!(ping(&client, "fd00::2"), Some(false));
        assert!(tcp(&client, &server, "10.0.0.2", &sent) == sent);
        assert!(tcp(&server, &client, "fd00::1", &sent) == sent);
    });
    assert_eq!(statistics.map(|s| s.lost_after_transmit), [0, 0]);
}

#[test]
fn partial_checksums_are_completed() {
    let Some(lab) = lab() else { return };
    let ([client, server], ports) =
        through_the_middle(&lab, PacketOptions { offloads: false, ..PacketOptions::default() });
    for host in [&client, &server] {
        host.run(|| Ethtool::open().unwrap().switch("eth0", EthtoolOffload::TransmitChecksum, true).unwrap()).unwrap();
    }
    // With partial checksums no connection would open and no datagram would be accepted.
    let (text, _) = bridged(ports, || {
        let server4 = server.run(|| UdpSocket::bind("10.0.0.2:0").unwrap()).unwrap();
        server4.set_read_timeout(Some(Nanos::secs(2).into())).unwrap();
        let target = server4.local_addr().unwrap();
        client.run(|| UdpSocket::bind("10.0.0.1:0").unwrap().send_to(b"partial", target).unwrap()).unwrap();
        assert_eq!(server4.recv_from(&mut [0; 16]).unwrap().0, 7);
        tcp(&client, &server, "fd00::2", b"checked")
    });
    assert_eq!(text, b"checked");
}

#[test]
fn frames_arrive_as_they_were_sent_and_in_order() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    let (mut from, mut to) =
        (open(&left, "eth0", PacketOptions::default()), open(&right, "eth0", PacketOptions::default()));
    assert_eq!(from.link_rate(), Rate::gbit(10));
    assert_eq!(from.mac(), Some(left.run(|| Netlink::open().unwrap().link("eth0").unwrap().mac).unwrap()));
    let mut pool = Pool::new(Region::new(1024));
    for round in 0..40u32 {
        let frames: Vec<Vec<u8>> =
            (0..250).map(|i| frame(round * 250 + i, 14 + (i as usize * 6 + round as usize) % 1501)).collect();
        while from.room() < frames.len() {
            from.receive(clock::now(), &mut Batch::new(), &mut pool);
        }
        transmit(&mut from, &mut pool, &frames);
        let arrived = receive(&mut to, &mut pool, frames.len());
        assert_eq!(arrived.len(), frames.len());
        for ((bytes, refused), sent) in arrived.iter().zip(&frames) {
            assert_eq!(*refused, 0);
            assert!(bytes == sent, "{bytes:?} for {sent:?}");
        }
    }
    assert_eq!(pool.frames_in_use(), 0);
    assert!(receive(&mut from, &mut pool, 1).is_empty(), "a port does not receive what it sends");
    assert_eq!((from.statistics(), to.statistics()), Default::default());
}

#[test]
fn stripped_vlan_tags_are_restored() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    let (mut from, mut to) = (open(&left, "eth0", small()), open(&right, "eth0", small()));
    let mut pool = Pool::new(Region::new(64));
    let tagged = |protocol: u16, control: u16, length: usize| {
        let mut bytes = frame(control.into(), length);
        bytes.splice(12..12, [protocol.to_be_bytes(), control.to_be_bytes()].concat());
        bytes
    };
    let frames = [tagged(0x8100, 20, 60), tagged(0x8100, 0xe000 | 4095, 1514), tagged(0x88a8, 7, 100), frame(0, 60)];
    transmit(&mut from, &mut pool, &frames);
    let arrived = receive(&mut to, &mut pool, frames.len());
    assert_eq!(arrived, frames.map(|frame| (frame, 0)));
}

#[test]
fn long_frames_are_flagged_on_receive_and_counted_on_transmit() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    for host in [&left, &right] {
        host.run(|| Netlink::open().unwrap().set_mtu("eth0", 9000).unwrap()).unwrap();
    }
    let mut to = open(&right, "eth0", small());
    let mut pool = Pool::new(Region::new(64));
    left.add_address("eth0", ip("10.0.0.1"), 24).unwrap();
    left.run(|| {
        let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
        socket.set_broadcast(true).unwrap();
        for length in [100, 2006, 2007, 8000] {
            socket.send_to(&vec![1; length], "10.0.0.255:9").unwrap();
        }
    })
    .unwrap();
    let too_long = DropReason::FrameTooLong as u8 + 1;
    let arrived: Vec<(usize, u8)> =
        receive(&mut to, &mut pool, 4).iter().map(|(b, refused)| (b.len(), *refused)).collect();
    assert_eq!(arrived[..2], [(142, 0), (2048, 0)]);
    // The pool has no super-frames: the packet has only the bytes of the slot.
    assert!(arrived[2..].iter().all(|&(length, refused)| length > 1900 && refused == too_long), "{arrived:?}");
    let mut few = Pool::new(Region::with_super_frames(64, 1));
    left.run(|| {
        let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
        socket.set_broadcast(true).unwrap();
        for length in [8000, 8000, 100] {
            socket.send_to(&vec![1; length], "10.0.0.255:9").unwrap();
        }
    })
    .unwrap();
    let mut batch = Batch::new();
    while batch.len() < 3 {
        to.receive(clock::now(), &mut batch, &mut few);
    }
    let arrived: Vec<u8> = batch.drain().map(|packet| (packet.meta().refused, few.give(packet)).0).collect();
    assert_eq!(arrived, [0, DropReason::NoSuperFrame as u8 + 1, 0], "one is in use, and what comes behind goes on");
    assert_eq!(few.frames_in_use(), 0);
    drop(to);
    right.run(|| Netlink::open().unwrap().set_mtu("eth0", 1000).unwrap()).unwrap();
    let mut from = open(&right, "eth0", small());
    assert_eq!(transmit(&mut from, &mut pool, &[frame(1, 1014), frame(2, 1015), frame(3, 60)]), 1);
    assert_eq!(pool.frames_in_use(), 0);
}

#[test]
fn frames_lost_by_a_full_ring_are_counted() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    let (mut from, mut to) = (open(&left, "eth0", PacketOptions::default()), open(&right, "eth0", small()));
    let mut pool = Pool::new(Region::new(512));
    let frames: Vec<Vec<u8>> = (0..200).map(|i| frame(i, 60)).collect();
    transmit(&mut from, &mut pool, &frames);
    let arrived = receive(&mut to, &mut pool, 200).len();
    let lost = to.statistics().lost_before_receive;
    assert!((64..200).contains(&arrived), "{arrived}");
    assert_eq!(arrived as u64 + lost, 200);
    assert_eq!(to.statistics().lost_before_receive, lost, "asking again loses nothing");
    transmit(&mut from, &mut pool, &frames[..10]);
    assert_eq!(receive(&mut to, &mut pool, 10).len(), 10, "the ring works on");
}

#[test]
fn packets_stay_in_the_ring_while_the_pool_is_empty() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    let (mut from, mut to) = (open(&left, "eth0", small()), open(&right, "eth0", small()));
    let (mut pool, mut few) = (Pool::new(Region::new(64)), Pool::new(Region::new(4)));
    transmit(&mut from, &mut pool, &(0..10).map(|i| frame(i, 60)).collect::<Vec<_>>());
    let mut batch = Batch::new();
    to.receive(clock::now(), &mut batch, &mut few);
    assert_eq!(batch.len(), 4);
    batch.drain().for_each(|packet| few.give(packet));
    assert_eq!(receive(&mut to, &mut few, 6).len(), 6);
    assert_eq!(to.statistics().lost_before_receive, 0);
}

#[test]
fn open_port_blocks_the_host_stack() {
    let Some(lab) = lab() else { return };
    let (left, right) = (lab.host("left").unwrap(), lab.host("right").unwrap());
    let macs = [1, 2].map(|last| Mac([2, 0, 0, 0, 0, last]));
    lab.cable(&Plug { mac: Some(macs[0]), ..left.plug("eth0") }, &Plug { mac: Some(macs[1]), ..right.plug("eth0") })
        .unwrap();
    left.add_address("eth0", ip("10.0.0.1"), 24).unwrap();
    right.add_address("eth0", ip("10.0.0.2"), 24).unwrap();
    let Some(answered) = ping(&left, "10.0.0.2") else { return };
    assert!(answered);
    let port = open(&right, "eth0", small());
    println!("the host's stack is kept out by {}", port.ingress_drop().unwrap());
    assert_eq!(ping(&left, "10.0.0.2"), Some(false));
    drop(port);
    assert_eq!(ping(&left, "10.0.0.2"), Some(true));
    let index = right.run(|| Netlink::open().unwrap().link("eth0").unwrap().index).unwrap();
    let filter = right.run(|| IngressDrop::install_filter(index)).unwrap();
    match filter {
        Err(error) => println!("skipped: the filter: {error}"),
        Ok(filter) => {
            assert_eq!(ping(&left, "10.0.0.2"), Some(false));
            let again = right.run(|| IngressDrop::install_filter(index).unwrap()).unwrap();
            drop((filter, again));
            assert_eq!(ping(&left, "10.0.0.2"), Some(true));
        }
    }
}

#[test]
fn sweep_removes_only_filters_of_killed_routers() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    let index = |host: &LabHost| host.run(|| Netlink::open().unwrap().link("eth0").unwrap().index).unwrap();
    let (at_left, at_right) = (index(&left), index(&right));
    for (host, index) in [(&left, at_left), (&right, at_right)] {
        match host.run(|| IngressDrop::install_filter(index)).unwrap() {
            Ok(filter) => std::mem::forget(filter),
            Err(error) => return println!("skipped: {error}"),
        }
    }
    let (port, warnings) = left.run(|| PacketPort::open("eth0", &small()).unwrap()).unwrap();
    assert!(warnings.len() == 1 && warnings[0].contains("killed router left on eth0"), "{warnings:?}");
    std::mem::forget(left.run(|| IngressDrop::install_filter(at_left).unwrap()).unwrap());
    assert!(left.run(|| ingress::sweep().unwrap()).unwrap().is_empty(), "a port is open there");
    drop(port);
    for host in [&left, &right] {
        let freed = host.run(|| ingress::sweep().unwrap()).unwrap();
        assert!(freed.len() <= 1 && freed.iter().all(|name| name == "eth0"), "{freed:?}");
        assert!(host.run(|| ingress::sweep().unwrap()).unwrap().is_empty());
    }
}

#[test]
fn closing_a_port_restores_offloads() {
    let Some(lab) = lab() else { return };
    let (left, _right) = pair(&lab);
    let joining = |on: Option<bool>| {
        left.run(|| {
            let ethtool = Ethtool::open().unwrap();
            on.map(|on| ethtool.switch("eth0", EthtoolOffload::GenericReceive, on).unwrap());
            ethtool.is_on("eth0", EthtoolOffload::GenericReceive).unwrap()
        })
        .unwrap()
    };
    for before in [true, false] {
        joining(Some(before));
        let port = open(&left, "eth0", small());
        assert_eq!(joining(None), before, "what the kernel joins is a super-frame like others");
        let plain = open(&left, "eth0", PacketOptions { offloads: false, ..small() });
        assert!(!joining(None));
        drop((port, plain));
        assert_eq!(joining(None), before);
    }
}

#[test]
fn port_survives_link_down_up_and_removal() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    let (mut from, mut to) = (open(&left, "eth0", small()), open(&right, "eth0", small()));
    let mut pool = Pool::new(Region::new(256));
    assert!(from.is_up());
    left.run(|| Netlink::open().unwrap().set_up("eth0", false).unwrap()).unwrap();
    assert!(!from.is_up());
    transmit(&mut from, &mut pool, &(0..40).map(|i| frame(i, 60)).collect::<Vec<_>>());
    assert_eq!(from.room(), 0, "what cannot be sent waits");
    left.run(|| Netlink::open().unwrap().set_up("eth0", true).unwrap()).unwrap();
    assert!(from.is_up());
    from.receive(clock::now(), &mut Batch::new(), &mut pool);
    assert_eq!(receive(&mut to, &mut pool, 40).len(), 40);
    assert_eq!(from.room(), packet::BATCH);
    right.run(|| Netlink::open().unwrap().delete_link("eth0").unwrap()).unwrap();
    assert!(!from.is_up());
    transmit(&mut from, &mut pool, &[frame(1, 60)]);
    let mut batch = Batch::new();
    for _ in 0..100 {
        from.receive(clock::now(), &mut batch, &mut pool);
        assert!(batch.is_empty());
    }
    assert_eq!(pool.frames_in_use(), 0);
    let mut sleeper = Sleeper::new(Waker::new().unwrap());
    let WakeSource::Descriptor(fd) = from.wake_source() else { panic!("{:?}", from.wake_source()) };
    assert_eq!(
        sleeper.sleep_on([fd], Nanos::millis(1)).unwrap(),
        io::wait::WakeReason::Timeout,
        "a dead link wakes nobody"
    );
}

#[test]
fn failed_open_gives_reason_and_hint() {
    let Some(lab) = lab() else { return };
    let (left, _right) = pair(&lab);
    let error = left.run(|| PacketPort::open("eth7", &small()).unwrap_err()).unwrap();
    assert!(error.reason.contains("'eth7'") && error.hint.contains("lo, eth0"), "{error}");
    let error = left.run(|| PacketPort::open("", &small()).unwrap_err()).unwrap();
    assert!(error.hint.contains("eth0"), "{error}");
    let error = left
        .run(|| {
            let none = rustix::thread::CapabilitySets {
                effective: rustix::thread::CapabilitySet::empty(),
                permitted: rustix::thread::CapabilitySet::empty(),
                inheritable: rustix::thread::CapabilitySet::empty(),
            };
            rustix::thread::set_capabilities(None, none).unwrap();
            PacketPort::open("eth0", &small()).unwrap_err()
        })
        .unwrap();
    assert!(error.hint.contains("CAP_NET_RAW"), "{error}");
}

#[test]
fn unsendable_frame_does_not_block_later_frames() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    // A veth drops frames that exceed the MTU of its other end and reports an error, but the sender cannot know that MTU beforehand.
    right.run(|| Netlink::open().unwrap().set_mtu("eth0", 600).unwrap()).unwrap();
    let (mut from, mut to) = (open(&left, "eth0", small()), open(&right, "eth0", small()));
    let mut pool = Pool::new(Region::new(256));
    let lengths = [60, 1400, 1000, 61, 1500, 62];
    let at_once = transmit(&mut from, &mut pool, &lengths.map(|length| frame(length as u32, length)));
    let deadline = clock::now() + Nanos::secs(5);
    while from.room() == 0 && clock::now() < deadline {
        from.receive(clock::now(), &mut Batch::new(), &mut pool);
    }
    let arrived: Vec<usize> = receive(&mut to, &mut pool, 3).iter().map(|(bytes, _)| bytes.len()).collect();
    assert_eq!((arrived, from.room()), (vec![60, 61, 62], packet::BATCH));
    let late = from.take_late_refusals();
    assert_eq!((at_once, late), (0, UnsentPackets { packets: 3, bytes: 1400 + 1000 + 1500 }));
    // The length is known by now: frames of at least this length do not wait.
    let begun = clock::now();
    let at_once = transmit(&mut from, &mut pool, &lengths.map(|length| frame(length as u32, length)));
    let arrived: Vec<usize> = receive(&mut to, &mut pool, 3).iter().map(|(bytes, _)| bytes.len()).collect();
    assert_eq!(
        (arrived, at_once, from.room()),
        (vec![60, 61, 62], 3, packet::BATCH),
        "{:?}",
        clock::now().since(begun)
    );
    // Once the other end accepts the length again, so does the port.
    right.run(|| Netlink::open().unwrap().set_mtu("eth0", 1500).unwrap()).unwrap();
    assert_eq!(transmit(&mut from, &mut pool, &[frame(7, 1400)]), 0);
    assert_eq!(receive(&mut to, &mut pool, 1).len(), 1);
    right.run(|| Netlink::open().unwrap().set_mtu("eth0", 600).unwrap()).unwrap();
    assert_eq!(
        (transmit(&mut from, &mut pool, &[frame(8, 1400)]), from.room()),
        (0, 0),
        "it is tried again for a while"
    );
}
