//! `xdp:` ports against the kernel: frames arrive unchanged, and every lent frame returns. The interface is restored when a port closes or its
//! process is killed.

#![allow(clippy::print_stdout)]

use io::clock;
use io::netlink::Netlink;
use io::netns::{Lab, LabHost};
use io::offload::{Ethtool, EthtoolOffload};
use io::wait::{Sleeper, Waker};
use io::xdp::{XdpInterfaces, XdpMode, XdpOptions, XdpPort};
use packet::port::{Port, PortStatistics, UnsentPackets, WakeSource, discard_refused};
use packet::{Batch, Pool, Region};
use std::collections::HashMap;
use std::net::{IpAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use units::{Nanos, Rate};

/// A laboratory with AF_XDP, or a message that the test is skipped.
fn lab() -> Option<Lab> {
    let lab = Lab::new().inspect_err(|forbidden| println!("skipped: {forbidden}")).ok()?;
    let (host, region) = (lab.host("probe").unwrap(), Region::new(1024));
    lab.cable(&host.plug("a"), &host.plug("b")).unwrap();
    let mut interfaces = XdpInterfaces::default();
    let opened = host.run(|| interfaces.open("a", &region, 1, &XdpOptions::default()).map(drop)).unwrap();
    opened.inspect_err(|error| println!("skipped: {error}")).ok()?;
    Some(lab)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Two hosts on one cable that send nothing by themselves.
fn pair(lab: &Lab) -> (LabHost, LabHost) {
    let (left, right) = (lab.host("left").unwrap(), lab.host("right").unwrap());
    for host in [&left, &right] {
        host.silence_kernel().unwrap();
    }
    lab.cable(&left.plug("eth0"), &right.plug("eth0")).unwrap();
    (left, right)
}

/// Ports that share frames.
struct Ports {
    /// By host: each is another network namespace.
    interfaces: HashMap<String, XdpInterfaces>,
    region: Arc<Region>,
    pool: Pool,
}

impl Ports {
    fn new(frames: usize) -> Ports {
        let region = Region::new(frames);
        Ports { interfaces: HashMap::new(), pool: Pool::new(region.clone()), region }
    }

    fn open_all(
        &mut self,
        host: &LabHost,
        link: &str,
        queues: usize,
        options: &XdpOptions,
    ) -> (Vec<XdpPort>, Vec<String>) {
        let Ports { interfaces, region, pool, .. } = self;
        let interfaces = interfaces.entry(host.name().to_owned()).or_default();
        let (mut ports, warnings) = host.run(|| interfaces.open(link, region, queues, options).unwrap()).unwrap();
        // A port lends frames for receiving at its first receive call.
        ports.iter_mut().for_each(|port| port.receive(clock::now(), &mut Batch::new(), pool));
        (ports, warnings)
    }

    fn open(&mut self, host: &LabHost, link: &str) -> XdpPort {
        let (mut ports, warnings) = self.open_all(host, link, 1, &XdpOptions::default());
        assert_eq!((warnings, ports.len()), (vec![], 1), "copying is no news on a veth");
        ports.remove(0)
    }

    /// Every frame is back in its place of before the ports were opened.
    fn close(self, ports: impl IntoIterator<Item = XdpPort>) {
        ports.into_iter().for_each(drop);
        assert_eq!(self.pool.frames_in_use(), 0);
        drop(self.pool);
        assert_eq!(self.region.spare(), self.region.frames());
    }
}

/// Sleeps until the port is readable, for at most `timeout`.
fn wait(port: &XdpPort, timeout: Nanos) {
    let WakeSource::Descriptor(fd) = port.wake_source() else { return };
    Sleeper::new(Waker::new().unwrap()).sleep_on([fd], timeout).unwrap();
}

/// Frames received until there are `count`, or a second passes without one.
fn receive(port: &mut XdpPort, pool: &mut Pool, count: usize) -> Vec<Vec<u8>> {
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
            assert_eq!(packet.meta().refused, 0);
            frames.push(packet.bytes().to_vec());
            pool.give(packet);
        }
    }
    frames
}

/// Sends frames. Returns the number that the interface refused immediately.
fn transmit(port: &mut XdpPort, pool: &mut Pool, frames: &[Vec<u8>]) -> u64 {
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

#[test]
fn frames_arrive_as_they_were_sent_and_in_order_both_ways() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    for native in [true, false] {
        let options = XdpOptions { native, ..XdpOptions::default() };
        let mut ports = Ports::new(8192);
        let mut ends = [&left, &right].map(|host| ports.open_all(host, "eth0", 1, &options).0.remove(0));
        assert_eq!(ends[0].mode(), if native { XdpMode::Native } else { XdpMode::Generic });
        assert_eq!(ends[0].link_rate(), Rate::gbit(10));
        assert_eq!(ends[0].mac(), Some(left.run(|| Netlink::open().unwrap().link("eth0").unwrap().mac).unwrap()));
        for round in 0..40u32 {
            let frames: Vec<Vec<u8>> =
                (0..250).map(|i| frame(round * 250 + i, 14 + (i as usize * 6 + round as usize) % 1501)).collect();
            let [one, other] = &mut ends;
            let (from, to) = if round % 2 == 0 { (one, other) } else { (other, one) };
            while from.room() < frames.len() {
                from.receive(clock::now(), &mut Batch::new(), &mut ports.pool);
            }
            transmit(from, &mut ports.pool, &frames);
            let arrived = receive(to, &mut ports.pool, frames.len());
            assert_eq!(arrived.len(), frames.len());
            for (arrived, sent) in arrived.iter().zip(&frames) {
                assert!(arrived == sent, "{arrived:?} for {sent:?}");
            }
        }
        assert!(receive(&mut ends[0], &mut ports.pool, 1).is_empty(), "a port does not receive what it sends");
        assert_eq!(ends.each_ref().map(|port| port.statistics()), [PortStatistics::default(); 2]);
        ports.close(ends);
    }
}

#[test]
fn frames_beyond_a_full_ring_or_without_memory_are_counted() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    // A ring of 64 with more frames; then 64 frames with a larger ring.
    for (ring, fill) in [(64, 256), (256, 64)] {
        let mut ports = Ports::new(8192);
        let mut from = ports.open(&left, "eth0");
        let options = XdpOptions { ring, fill, ..XdpOptions::default() };
        let mut to = ports.open_all(&right, "eth0", 1, &options).0.remove(0);
        let frames: Vec<Vec<u8>> = (0..200).map(|i| frame(i, 60)).collect();
        transmit(&mut from, &mut ports.pool, &frames);
        let arrived = receive(&mut to, &mut ports.pool, 200);
        assert_eq!(arrived, frames[..64]);
        assert_eq!(to.statistics().lost_before_receive, 136);
        assert_eq!(to.statistics().lost_before_receive, 136, "asking again loses nothing");
        transmit(&mut from, &mut ports.pool, &frames[..10]);
        assert_eq!(receive(&mut to, &mut ports.pool, 10).len(), 10, "it works on");
        ports.close([from, to]);
    }
}

#[test]
fn port_lends_at_most_its_share_of_frames() {
    let Some(lab) = lab() else { return };
    let (left, _right) = pair(&lab);
    let mut ports = Ports::new(2048);
    let mut port = ports.open(&left, "eth0");
    let held = 2048 - {
        let mut all: Vec<_> = std::iter::from_fn(|| ports.pool.take()).collect();
        let count = all.len();
        all.drain(..).for_each(|packet| ports.pool.give(packet));
        count
    };
    assert!((64..=256).contains(&held), "{held} frames lent of 2048");
    assert_eq!(port.room(), 2048);
    let mut sent = 0;
    while sent < 10_000 {
        let count = port.room().min(200);
        transmit(&mut port, &mut ports.pool, &vec![frame(sent, 60); count]);
        sent += count as u32;
    }
    assert_eq!(port.statistics(), PortStatistics::default());
    ports.close([port]);
    // Too few frames for a usable port.
    let ports = Ports::new(256);
    let mut few = XdpInterfaces::default();
    let error = left.run(|| few.open("eth0", &ports.region, 1, &XdpOptions::default()).err()).unwrap();
    assert!(error.unwrap().hint.contains("frames in [router]"));
    ports.close([]);
}

#[test]
fn frames_beyond_a_changed_mtu_are_counted() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    let mtu = |mtu| {
        for host in [&left, &right] {
            host.run(|| Netlink::open().unwrap().set_mtu("eth0", mtu).unwrap()).unwrap();
        }
    };
    mtu(1000);
    let mut ports = Ports::new(4096);
    let (mut from, mut to) = (ports.open(&left, "eth0"), ports.open(&right, "eth0"));
    assert_eq!(transmit(&mut from, &mut ports.pool, &[frame(1, 1018), frame(2, 1019), frame(3, 60)]), 1);
    assert_eq!(receive(&mut to, &mut ports.pool, 2), [frame(1, 1018), frame(3, 60)]);
    assert_eq!((from.take_late_refusals(), from.mtu()), (UnsentPackets::default(), Some(1000)));
    mtu(1500);
    // The interface's MTU is read at intervals.
    let deadline = clock::now() + Nanos::secs(5);
    while transmit(&mut from, &mut ports.pool, &[frame(4, 1518)]) > 0 {
        assert!(clock::now() < deadline, "its MTU is {:?}", from.mtu());
    }
    assert_eq!(receive(&mut to, &mut ports.pool, 1), [frame(4, 1518)]);
    assert_eq!(from.take_late_refusals(), UnsentPackets::default());
    // Until it is read again, the kernel reports the drop.
    mtu(1000);
    let at_once = transmit(&mut from, &mut ports.pool, &[frame(5, 1518), frame(6, 60)]);
    assert_eq!(receive(&mut to, &mut ports.pool, 1), [frame(6, 60)]);
    let late = from.take_late_refusals();
    assert_eq!((at_once + late.packets, late.bytes), (1, late.packets * 1518));
    ports.close([from, to]);
}

#[test]
fn full_ring_is_sent_in_order_after_link_up() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    let mut ports = Ports::new(16384);
    let options = XdpOptions { ring: 256, fill: 1024, ..XdpOptions::default() };
    let mut from = ports.open_all(&left, "eth0", 1, &options).0.remove(0);
    let mut to = ports.open(&right, "eth0");
    let switch = |on| left.run(|| Netlink::open().unwrap().set_up("eth0", on).unwrap()).unwrap();
    let frames: Vec<Vec<u8>> = (0..256).map(|i| frame(i, 60)).collect();
    for _ in 0..3 {
        switch(false);
        transmit(&mut from, &mut ports.pool, &frames);
        for _ in 0..1000 {
            from.receive(clock::now(), &mut Batch::new(), &mut ports.pool);
            assert_eq!((from.room(), from.is_up()), (0, false));
        }
        // A port that is never received from wakes no worker.
        assert!(matches!(from.wake_source(), WakeSource::Descriptor(_)));
        switch(true);
        from.receive(clock::now(), &mut Batch::new(), &mut ports.pool);
        assert_eq!(receive(&mut to, &mut ports.pool, 256), frames);
        from.receive(clock::now(), &mut Batch::new(), &mut ports.pool);
        assert_eq!(from.room(), 256);
    }
    assert_eq!(from.statistics(), PortStatistics::default());
    ports.close([from, to]);
}

#[test]
fn packets_lost_for_lack_of_frames_are_counted() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    let (mut ours, mut theirs) = (Ports::new(4096), Ports::new(2048));
    let mut from = ours.open(&left, "eth0");
    let mut to = theirs.open(&right, "eth0");
    let lent = 2048 / 8;
    for _ in 0..3 {
        // The other pool has every frame that the kernel does not have.
        let kept: Vec<_> = std::iter::from_fn(|| theirs.pool.take()).collect();
        assert_eq!(kept.len(), 2048 - lent);
        let lost = to.statistics().lost_before_receive;
        let frames: Vec<Vec<u8>> = (0..1000).map(|i| frame(i, 60)).collect();
        let refused: u64 = frames.chunks(250).map(|some| transmit(&mut from, &mut ours.pool, some)).sum();
        assert_eq!(refused, 0);
        let mut held = Batch::new();
        while held.len() < lent {
            to.receive(clock::now(), &mut held, &mut theirs.pool);
        }
        assert!(held.as_slice().iter().zip(&frames).all(|(packet, frame)| packet.bytes() == frame));
        // No frame is available to receive into, however often the port tries.
        transmit(&mut from, &mut ours.pool, &frames[..10]);
        (0..1000).for_each(|_| to.receive(clock::now(), &mut Batch::new(), &mut theirs.pool));
        assert_eq!(to.statistics().lost_before_receive - lost, 1000 + 10 - lent as u64);
        kept.into_iter().chain(held.drain()).for_each(|packet| theirs.pool.give(packet));
        to.receive(clock::now(), &mut Batch::new(), &mut theirs.pool);
        transmit(&mut from, &mut ours.pool, &frames[..lent]);
        assert_eq!(receive(&mut to, &mut theirs.pool, lent), frames[..lent], "it works on");
    }
    ours.close([from]);
    theirs.close([to]);
}

#[test]
fn arriving_frame_wakes_a_blocked_worker() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    let mut ports = Ports::new(4096);
    let (mut from, mut to) = (ports.open(&left, "eth0"), ports.open(&right, "eth0"));
    let WakeSource::Descriptor(fd) = to.wake_source() else { panic!("{:?}", to.wake_source()) };
    let mut sleeper = Sleeper::new(Waker::new().unwrap());
    assert_eq!(sleeper.sleep_on([fd], Nanos::millis(1)).unwrap(), io::wait::WakeReason::Timeout);
    transmit(&mut from, &mut ports.pool, &[frame(1, 60)]);
    assert_eq!(sleeper.sleep_on([fd], Nanos::secs(5)).unwrap(), io::wait::WakeReason::Ready);
    assert_eq!(receive(&mut to, &mut ports.pool, 1), [frame(1, 60)]);
    ports.close([from, to]);
}

#[test]
fn interface_is_restored_at_close_and_handed_over_without_loss() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    let ethtool = right.run(|| Ethtool::open().unwrap()).unwrap();
    ethtool.switch("eth0", EthtoolOffload::GenericReceive, true).unwrap();
    let has_program = || right.run(|| Netlink::open().unwrap().link("eth0").unwrap().xdp).unwrap();
    let mut ports = Ports::new(8192);
    let mut from = ports.open(&left, "eth0");
    let mut to = ports.open(&right, "eth0");
    assert!(has_program() && !ethtool.is_on("eth0", EthtoolOffload::GenericReceive).unwrap());
    let mut number = 0;
    for _ in 0..5 {
        // The next port is opened before the last is dropped; it receives the frames that arrive in between.
        let mut next = ports.open(&right, "eth0");
        assert_eq!(next.room(), 0);
        transmit(&mut from, &mut ports.pool, &[frame(number, 60), frame(number + 1, 60)]);
        assert_eq!(receive(&mut to, &mut ports.pool, 2), [frame(number, 60), frame(number + 1, 60)]);
        transmit(&mut from, &mut ports.pool, &[frame(number + 2, 60)]);
        drop(to);
        transmit(&mut from, &mut ports.pool, &[frame(number + 3, 60)]);
        assert_eq!(receive(&mut next, &mut ports.pool, 2), [frame(number + 2, 60), frame(number + 3, 60)]);
        assert_eq!(next.room(), 2048);
        number += 4;
        to = next;
    }
    drop(to);
    let to = ports.open(&right, "eth0");
    assert!(has_program(), "opened again at once after it was closed");
    ports.close([from, to]);
    assert!(ethtool.is_on("eth0", EthtoolOffload::GenericReceive).unwrap());
    // The kernel detaches the program some time later.
    let deadline = io::clock::now() + Nanos::secs(5);
    while has_program() {
        assert!(io::clock::now() < deadline, "the program is still there");
        std::thread::yield_now();
    }
}

#[test]
fn frames_in_flight_return_when_a_port_closes() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    let mut ports = Ports::new(4096);
    let (mut from, to) = (ports.open(&left, "eth0"), ports.open(&right, "eth0"));
    // Received and never read, sent and never reclaimed.
    transmit(&mut from, &mut ports.pool, &(0..250).map(|i| frame(i, 60)).collect::<Vec<_>>());
    // Not even sent: the interface is down.
    left.run(|| Netlink::open().unwrap().set_up("eth0", false).unwrap()).unwrap();
    transmit(&mut from, &mut ports.pool, &(0..250).map(|i| frame(i, 60)).collect::<Vec<_>>());
    assert_eq!(from.room(), 2048 - 250);
    ports.close([from, to]);
    // The interface is removed.
    let mut ports = Ports::new(4096);
    let gone = ports.open(&right, "eth0");
    right.run(|| Netlink::open().unwrap().delete_link("eth0").unwrap()).unwrap();
    assert!(!gone.is_up());
    ports.close([gone]);
}

#[test]
fn partial_checksums_are_completed_unless_trusted() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    left.add_address("eth0", ip("10.0.0.1"), 24).unwrap();
    left.run(|| Ethtool::open().unwrap().switch("eth0", EthtoolOffload::TransmitChecksum, true).unwrap()).unwrap();
    let send = |text: &[u8]| {
        left.run(|| {
            let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
            socket.set_broadcast(true).unwrap();
            socket.send_to(text, "10.0.0.255:9").unwrap();
        })
        .unwrap();
    };
    for (checksums, right_one) in [(None, true), (Some(plan::Checksums::Trust), false)] {
        let mut ports = Ports::new(1024);
        let options = XdpOptions { checksums, ..XdpOptions::default() };
        let mut to = ports.open_all(&right, "eth0", 1, &options).0.remove(0);
        send(b"partial");
        let arrived = receive(&mut to, &mut ports.pool, 1);
        let verified = packet::wire::transport::verify_checksum(&arrived[0][14..]);
        assert_eq!(verified, Ok(Some(right_one)), "{checksums:?}");
        ports.close([to]);
    }
}

#[test]
fn queues_are_divided_among_ports() {
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    for host in [&left, &right] {
        let mut ethtool = Command::new("ethtool");
        ethtool.args(["-L", "eth0", "rx", "2", "tx", "2"]).stdout(Stdio::null()).stderr(Stdio::null());
        match host.spawn(ethtool).map(|mut child| child.wait().unwrap().success()) {
            Ok(true) => {}
            _ => return println!("skipped: no second queue can be had"),
        }
    }
    for (asked, opened) in [(1, 1), (2, 2), (8, 2)] {
        let mut ports = Ports::new(8192);
        let mut from = ports.open(&left, "eth0");
        let (mut to, _) = ports.open_all(&right, "eth0", asked, &XdpOptions::default());
        assert_eq!(to.len(), opened);
        // The frames arrive, on any queue.
        transmit(&mut from, &mut ports.pool, &(0..100).map(|i| frame(i, 60)).collect::<Vec<_>>());
        let mut arrived: usize = to.iter_mut().map(|port| receive(port, &mut ports.pool, 100).len()).sum();
        for port in &mut to {
            transmit(port, &mut ports.pool, &[frame(1, 60)]);
            arrived += receive(&mut from, &mut ports.pool, 1).len();
        }
        assert_eq!(arrived, 100 + opened);
        ports.close(to.into_iter().chain([from]));
    }
}

/// Set in the process that is to be killed.
const VICTIM: &str = "SWITCHPATH_XDP_VICTIM";

#[test]
fn killed_process_leaves_no_xdp_program() {
    if std::env::var_os(VICTIM).is_some() {
        let mut ports = Ports::new(1024);
        let host = io::netns::Namespace::of_this_thread().unwrap();
        let region = ports.region.clone();
        let mut interfaces = XdpInterfaces::default();
        let (mut opened, _) =
            host.run(|| interfaces.open("eth0", &region, 1, &XdpOptions::default()).unwrap()).unwrap();
        opened[0].receive(clock::now(), &mut Batch::new(), &mut ports.pool);
        println!("open");
        // Until it is killed.
        Sleeper::new(Waker::new().unwrap()).sleep([], Nanos::secs(60)).unwrap();
        return;
    }
    let Some(lab) = lab() else { return };
    let (left, right) = pair(&lab);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "killed_process_leaves_no_xdp_program", "--nocapture"]);
    command.env(VICTIM, "1").stdout(Stdio::piped());
    let mut victim = right.spawn(command).unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(victim.stdout.take().unwrap()));
    assert!(lines.map_while(Result::ok).any(|line| line.contains("open")));
    let has_program = || right.run(|| Netlink::open().unwrap().link("eth0").unwrap().xdp).unwrap();
    assert!(has_program());
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(!has_program());
    let mut ports = Ports::new(4096);
    let (mut from, mut to) = (ports.open(&left, "eth0"), ports.open(&right, "eth0"));
    transmit(&mut from, &mut ports.pool, &[frame(1, 60)]);
    assert_eq!(receive(&mut to, &mut ports.pool, 1), [frame(1, 60)]);
    ports.close([from, to]);
}
