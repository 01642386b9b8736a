//! Tests of `tap:` ports alone.

use crate::lab;
use crate::rig::ip;
use io::clock;
use io::devices::Devices;
use io::netlink::Netlink;
use io::netns::LabHost;
use io::packet_ring::{PacketOptions, PacketPort};
use packet::port::{Port, WakeSource, discard_refused};
use packet::{Batch, DropReason, Pool, Region};
use plan::PortPlan;
use plane::{ApplyError, Opener};
use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use units::{Mac, Nanos};

fn devices(host: &LabHost) -> Devices {
    Devices::new(clock::epoch()).in_namespace(host.namespace().clone())
}

fn port(device: &str) -> PortPlan {
    let text = format!("version = 1\n[port.lan]\ndevice = '{device}'\naddress = ['192.0.2.1/24']\n");
    let plan = plan::check(&text, "t", &plane::catalogue()).unwrap_or_else(|wrong| panic!("{wrong}"));
    plan.ports[0].clone()
}

fn open(devices: &mut Devices, device: &str, queues: usize) -> Result<Vec<Box<dyn Port>>, ApplyError> {
    devices.open(&port(device), &Region::new(1), queues)
}

fn refusal(devices: &mut Devices, device: &str) -> String {
    let error = open(devices, device, 1).err().expect("it cannot be opened");
    assert!(!error.hint.is_empty());
    error.to_string()
}

pub fn ip_command(host: &LabHost, arguments: &str) {
    let mut command = Command::new("ip");
    command.args(arguments.split(' '));
    let status = host.run(|| command.status()).unwrap().unwrap();
    assert!(status.success(), "ip {arguments}: {status}");
}

fn has(host: &LabHost, link: &str) -> bool {
    host.run(|| Netlink::open().unwrap().link(link).is_ok()).unwrap()
}

fn frame(number: u32, length: usize) -> Vec<u8> {
    let header = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], &[0x88, 0xb5], &number.to_be_bytes()].concat();
    header.into_iter().chain((0..).map(|i: usize| (i * 7) as u8)).take(length).collect()
}

/// Sends frames. Returns the number that the interface refused.
fn send(port: &mut dyn Port, pool: &mut Pool, frames: &[Vec<u8>]) -> u64 {
    let mut batch = Batch::new();
    for frame in frames {
        let mut packet = pool.take().unwrap();
        assert!(packet.fill(frame));
        batch.push(packet);
    }
    port.transmit(clock::now(), &mut batch, pool);
    discard_refused(&mut batch, pool)
}

/// Frames received until there are `count`, or a second passes without one, with their drop reasons.
fn receive(port: &mut dyn Port, pool: &mut Pool, count: usize) -> Vec<(Vec<u8>, u8)> {
    let (mut frames, mut batch, mut last) = (Vec::new(), Batch::new(), clock::now());
    while frames.len() < count && clock::now().since(last) < Nanos::secs(1) {
        port.receive(clock::now(), &mut batch, pool);
        for packet in batch.drain() {
            last = clock::now();
            frames.push((packet.bytes().to_vec(), packet.meta().refused));
            pool.give(packet);
        }
    }
    frames
}

fn host_port(host: &LabHost, link: &str) -> PacketPort {
    host.run(|| PacketPort::open(link, &PacketOptions::default()).unwrap().0).unwrap()
}

#[test]
fn tap_frames_arrive_unchanged_and_in_order() {
    let Some(lab) = lab() else { return };
    let host = lab.host("host").unwrap();
    host.silence_kernel().unwrap();
    let mut devices = devices(&host);
    let mut port = open(&mut devices, "tap:t0", 1).unwrap().remove(0);
    assert!(port.is_up() && matches!(port.wake_source(), WakeSource::Descriptor(_)));
    assert_eq!(port.mac(), None, "the address of the interface is that of the other end");
    let mut station = host_port(&host, "t0");
    let mut pool = Pool::new(Region::new(1024));
    let lengths = |round: usize| (0..100usize).map(move |i| 14 + (i * 15 + round) % 1501);
    for round in 0..20 {
        let frames: Vec<Vec<u8>> = lengths(round).enumerate().map(|(i, length)| frame(i as u32, length)).collect();
        send(&mut *port, &mut pool, &frames);
        let arrived = receive(&mut station, &mut pool, frames.len());
        assert!(arrived.iter().map(|(bytes, _)| bytes).eq(&frames), "to the interface");
        send(&mut station, &mut pool, &frames);
        let arrived = receive(&mut *port, &mut pool, frames.len());
        assert!(arrived.iter().map(|(bytes, _)| bytes).eq(&frames), "from the interface");
        assert!(arrived.iter().all(|(_, refused)| *refused == 0));
    }
    // Tags are left in place.
    let tagged = [&frame(1, 12)[..], &[0x81, 0, 0xe0, 20], &frame(1, 60)[12..]].concat();
    send(&mut *port, &mut pool, std::slice::from_ref(&tagged));
    assert_eq!(receive(&mut station, &mut pool, 1), [(tagged.clone(), 0)]);
    send(&mut station, &mut pool, std::slice::from_ref(&tagged));
    assert_eq!(receive(&mut *port, &mut pool, 1), [(tagged, 0)]);
    assert_eq!((pool.frames_in_use(), port.statistics()), (0, Default::default()));
}

#[test]
fn long_frames_are_flagged_and_queue_overflows_counted() {
    let Some(lab) = lab() else { return };
    let host = lab.host("host").unwrap();
    let mut devices = devices(&host);
    let mut port = open(&mut devices, "tap:t0", 1).unwrap().remove(0);
    host.run(|| Netlink::open().unwrap().set_mtu("t0", 9000).unwrap()).unwrap();
    host.add_address("t0", ip("10.0.0.1"), 24).unwrap();
    let mut pool = Pool::new(Region::new(1024));
    let socket = host.run(|| UdpSocket::bind("10.0.0.1:0").unwrap()).unwrap();
    socket.set_broadcast(true).unwrap();
    for length in [100, 2006, 2007, 8000] {
        socket.send_to(&vec![1; length], "10.0.0.255:9").unwrap();
    }
    let arrived = receive(&mut *port, &mut pool, 1000);
    // The host's own packets may be among them.
    let arrived: Vec<(usize, u8)> = arrived.iter().map(|(bytes, refused)| (bytes.len(), *refused)).collect();
    let too_long = DropReason::FrameTooLong as u8 + 1;
    let long: Vec<_> = arrived.iter().copied().filter(|(length, _)| *length == 142 || *length > 1000).collect();
    assert_eq!(long, [(142, 0), (2048, 0), (2048, too_long), (2048, too_long)]);
    // More than the queue of the device holds.
    for _ in 0..3000 {
        socket.send_to(&[1; 100], "10.0.0.255:9").unwrap();
    }
    let came = receive(&mut *port, &mut pool, 3000).iter().filter(|(bytes, _)| bytes.len() == 142).count();
    assert_eq!(came as u64 + port.statistics().lost_before_receive, 3000);
    host.run(|| Netlink::open().unwrap().set_up("t0", false).unwrap()).unwrap();
    while port.is_up() {
        assert!(receive(&mut *port, &mut pool, 0).is_empty());
    }
    assert_eq!((send(&mut *port, &mut pool, &[frame(1, 60)]), pool.frames_in_use()), (1, 0));
}

#[test]
fn close_removes_only_devices_that_the_port_created() {
    let Some(lab) = lab() else { return };
    let host = lab.host("host").unwrap();
    ip_command(&host, "tuntap add old mode tap");
    let mut devices = devices(&host);
    let ports = ["tap:old", "tap:new"].map(|device| open(&mut devices, device, 1).unwrap());
    let up = |link: &str| host.run(|| Netlink::open().unwrap().link(link).is_ok_and(|link| link.up)).unwrap();
    assert!(up("old") && up("new"));
    drop(ports);
    devices.finish();
    assert!(has(&host, "old") && !has(&host, "new"));
}

#[test]
fn device_opens_as_many_queues_as_it_supports() {
    let Some(lab) = lab() else { return };
    let host = lab.host("host").unwrap();
    ip_command(&host, "tuntap add single mode tap");
    ip_command(&host, "tuntap add many mode tap multi_queue");
    let mut devices = devices(&host);
    assert_eq!(open(&mut devices, "tap:single", 3).unwrap().len(), 1);
    let warnings = devices.advisories().take();
    assert!(matches!(&warnings[..], [warning] if warning.contains("multi_queue")), "{warnings:?}");
    assert_eq!(open(&mut devices, "tap:many", 1).unwrap().len(), 1);
    let mut ports = open(&mut devices, "tap:new", 3).unwrap();
    assert_eq!((ports.len(), devices.advisories().take()), (3, vec![]));
    // Every queue sends to the interface, and the kernel spreads flows over the queues.
    host.add_address("new", ip("10.0.0.1"), 24).unwrap();
    let mut pool = Pool::new(Region::new(1024));
    let sockets = host.run(|| Vec::from_iter((0..64).map(|_| UdpSocket::bind("10.0.0.1:0").unwrap()))).unwrap();
    for socket in &sockets {
        socket.set_broadcast(true).unwrap();
        socket.send_to(&[1; 100], "10.0.0.255:9").unwrap();
    }
    let mine = |(bytes, _): &(Vec<u8>, u8)| bytes.len() == 142;
    let came: Vec<usize> =
        ports.iter_mut().map(|port| receive(&mut **port, &mut pool, 65).iter().filter(|f| mine(f)).count()).collect();
    assert_eq!(came.iter().sum::<usize>(), 64);
    assert!(came.iter().all(|&count| count > 0), "{came:?}");
    let mut station = host_port(&host, "new");
    for (i, port) in ports.iter_mut().enumerate() {
        send(&mut **port, &mut pool, &[frame(i as u32, 60)]);
        assert_eq!(receive(&mut station, &mut pool, 1), [(frame(i as u32, 60), 0)]);
    }
}

#[test]
fn replacement_port_takes_over_the_device() {
    let Some(lab) = lab() else { return };
    let host = lab.host("host").unwrap();
    host.silence_kernel().unwrap();
    let mut devices = devices(&host);
    let mut pool = Pool::new(Region::new(64));
    let first = open(&mut devices, "tap:t0", 1).unwrap();
    let mut second = open(&mut devices, "tap:t0", 1).unwrap().remove(0);
    drop(first);
    let mut station = host_port(&host, "t0");
    send(&mut *second, &mut pool, &[frame(1, 60)]);
    assert_eq!(receive(&mut station, &mut pool, 1), [(frame(1, 60), 0)]);
    // And a port that is opened while the other is closing.
    drop(second);
    let mut third = open(&mut devices, "tap:t0", 1).unwrap().remove(0);
    assert!(third.is_up());
    assert_eq!(send(&mut *third, &mut pool, &[frame(2, 60)]), 0);
}

#[test]
fn failed_open_reports_reason_and_hint() {
    let Some(lab) = lab() else { return };
    let (host, other) = (lab.host("host").unwrap(), lab.host("other").unwrap());
    lab.cable(&host.plug("eth0"), &other.plug("eth0")).unwrap();
    ip_command(&host, "tuntap add many mode tap multi_queue");
    let (mut ours, mut theirs) = (devices(&host), devices(&host));
    let said = refusal(&mut ours, "packet:lo");
    assert!(said.contains("is the loopback of this machine") && said.contains("tap:"), "{said}");
    let said = refusal(&mut ours, "tap:eth0");
    assert!(said.contains("no tap device"), "{said}");
    for device in ["packet:eth0", "tap:many", "tap:t0"] {
        let ports = open(&mut ours, device, 1).unwrap();
        let said = refusal(&mut theirs, device);
        assert!(said.contains("another router of this process uses the interface"), "{device}: {said}");
        assert!(ports[0].is_up(), "the first is none the worse for it");
    }
    drop((ours, theirs));
}

/// The two ends of the wire have different addresses.
#[test]
fn the_router_does_not_use_the_address_of_the_hosts_end() {
    let Some(lab) = lab() else { return };
    let host = lab.host("host").unwrap();
    let mut devices = devices(&host);
    let port = open(&mut devices, "tap:t0", 1).unwrap().remove(0);
    let mac = host.run(|| Netlink::open().unwrap().link("t0").unwrap().mac).unwrap();
    assert_ne!(mac, Mac::default());
    assert_eq!(port.mac(), None);
    drop(port);
    let region: Arc<Region> = Region::new(1);
    assert!(devices.open(&port_with_mac(mac), &region, 1).is_ok());
}

fn port_with_mac(mac: Mac) -> PortPlan {
    PortPlan { mac: Some(mac), ..port("tap:t0") }
}
