//! From configuration text to open ports: devices, their decorators, and the errors for unavailable devices.

#![allow(clippy::print_stdout)]

use io::advisories::Advisories;
use io::devices::Devices;
use io::netlink::Netlink;
use io::netns::Lab;
use io::offload::{Ethtool, EthtoolOffload};
use io::pcap::{PcapDirection, Reader};
use io::traffic::XdpPassProgram;
use io::{clock, recorder};
use packet::port::{Port, WakeSource};
use packet::{Batch, DropReason, Pool, Region};
use plan::{Plan, PortPlan};
use plane::Opener;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use units::{Instant, Nanos};

fn plan(ports: &str) -> Plan {
    let catalogue = plane::catalogue();
    match plan::check(&format!("version = 1\n{ports}"), "test.toml", &catalogue) {
        Ok(plan) => plan,
        Err(errors) => panic!("{errors}"),
    }
}

fn port(device: &str, more: &str) -> PortPlan {
    plan(&format!("[port.lan]\nmac = '02:00:00:00:00:01'\ndevice = '{device}'\naddress = ['10.0.0.1/24']\n{more}"))
        .ports
        .remove(0)
}

/// Opens a port like a router.
fn open(devices: &mut Devices, plan: &PortPlan, region: &Arc<Region>) -> Box<dyn Port> {
    let decorate = devices.decorate(plan, 1).unwrap().remove(0);
    decorate(devices.open(plan, region, 1).unwrap().remove(0))
}

fn send(port: &mut dyn Port, pool: &mut Pool, frames: &[u8], now: Instant) {
    let mut batch = Batch::new();
    for &frame in frames {
        let mut packet = pool.take().unwrap();
        packet.fill(&[frame; 60]);
        batch.push(packet);
    }
    port.transmit(now, &mut batch, pool);
}

fn receive(port: &mut dyn Port, pool: &mut Pool, now: Instant) -> Vec<(u8, u8)> {
    let mut batch = Batch::new();
    port.receive(now, &mut batch, pool);
    let seen = batch.as_slice().iter().map(|packet| (packet.bytes()[0], packet.meta().refused)).collect();
    batch.drain().for_each(|packet| pool.give(packet));
    seen
}

/// The first byte, time and direction of each frame of a capture.
fn recorded(path: &Path) -> Vec<(u8, u64, PcapDirection)> {
    let mut reader = Reader::new(File::open(path).unwrap()).unwrap();
    let mut seen = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        assert_eq!(record.data.len(), 60);
        seen.push((record.data[0], record.time.get(), record.direction));
    }
    seen
}

#[test]
fn memory_ports_of_one_name_form_a_wire() {
    let (region, mut devices) = (Region::new(64), Devices::new(Nanos::ZERO));
    let mut pool = Pool::new(region.clone());
    let plan = port("memory:wire", "");
    let (mut one, mut other) = (open(&mut devices, &plan, &region), open(&mut devices, &plan, &region));
    send(&mut *one, &mut pool, &[1, 2], Instant::START);
    assert_eq!(receive(&mut *other, &mut pool, Instant::START), [(1, 0), (2, 0)]);
    drop((one, other));
    let mut again = open(&mut devices, &plan, &region);
    let mut end = devices.take_end("wire");
    send(&mut end, &mut pool, &[3], Instant::START);
    assert_eq!(receive(&mut *again, &mut pool, Instant::START), [(3, 0)]);
    drop(again);
    // The other end of this port's wire was never taken; it is not given to the next port.
    drop(open(&mut devices, &plan, &region));
    assert!(open(&mut devices, &plan, &region).is_up());
}

#[test]
fn background_close_keeps_the_settings_of_the_next_port() {
    let Ok(lab) = Lab::new().inspect_err(|forbidden| println!("skipped: {forbidden}")) else { return };
    let (host, other) = (lab.host("host").unwrap(), lab.host("other").unwrap());
    lab.cable(&host.plug("eth0"), &other.plug("eth0")).unwrap();
    let ethtool = host.run(|| Ethtool::open().unwrap()).unwrap();
    let joining = || ethtool.is_on("eth0", EthtoolOffload::GenericReceive).unwrap();
    assert!(ethtool.switch("eth0", EthtoolOffload::GenericReceive, true).unwrap());
    let (region, devices) = (Region::new(64), Devices::new(Nanos::ZERO));
    let mut devices = devices.in_namespace(host.namespace().clone());
    let plan = port("packet:eth0", "");
    let mut port = open(&mut devices, &plan, &region);
    let mut quickest = Nanos::MAX;
    for overlap in [true, false, false, true, false] {
        let next = overlap.then(|| open(&mut devices, &plan, &region));
        let before = clock::now();
        drop(port);
        quickest = quickest.min(clock::now().since(before));
        // If they do not overlap, the next port opens while the one before it closes.
        port = next.unwrap_or_else(|| open(&mut devices, &plan, &region));
        assert!(!joining());
    }
    // Closing takes the kernel some 50 ms, in which the worker's other ports would fill up.
    assert!(quickest < Nanos::millis(20), "{quickest:?}");
    drop(port);
    assert!(devices.advisories().take().is_empty());
    devices.finish();
    assert!(joining());
}

#[test]
fn xdp_port_falls_back_stepwise_with_one_advisory() {
    let Ok(lab) = Lab::new().inspect_err(|forbidden| println!("skipped: {forbidden}")) else { return };
    let (host, other) = (lab.host("host").unwrap(), lab.host("other").unwrap());
    lab.cable(&host.plug("eth0"), &other.plug("eth0")).unwrap();
    let region = Region::new(4096);
    let mut pool = Pool::new(region.clone());
    let mut remarks_of = |device: &str| {
        let mut devices = Devices::new(Nanos::ZERO).in_namespace(host.namespace().clone());
        let mut port = open(&mut devices, &port(device, ""), &region);
        assert!(port.is_up());
        port.receive(clock::now(), &mut Batch::new(), &mut pool);
        drop(port);
        let warnings = devices.advisories().take();
        devices.finish();
        warnings
    };
    let warnings = remarks_of("xdp:eth0");
    if let [warning] = &warnings[..] {
        // Here even root may not load programs.
        assert!(warning.contains("AF_PACKET instead of AF_XDP") && warning.contains("CAP_BPF"), "{warning}");
        return println!("skipped: {warning}");
    }
    assert!(warnings.is_empty(), "{warnings:?}");
    // The driver refuses the program if the other end may send frames that exceed its buffers.
    let mtu = |mtu| other.run(|| Netlink::open().unwrap().set_mtu("eth0", mtu).unwrap()).unwrap();
    mtu(9000);
    let [warning] = &remarks_of("xdp:eth0")[..] else { panic!("one warning") };
    assert!(warning.starts_with("port lan: the driver of eth0 supports no XDP program"), "{warning}");
    mtu(1500);
    // Another program is attached there.
    let index = host.run(|| Netlink::open().unwrap().link("eth0").unwrap().index).unwrap();
    let _passage = host.run(|| XdpPassProgram::attach(index).unwrap()).unwrap();
    let [warning] = &remarks_of("xdp:eth0")[..] else { panic!("one warning") };
    assert!(
        warning.contains("AF_PACKET instead of AF_XDP") && warning.contains("ip link set eth0 xdp off"),
        "{warning}"
    );
    drop(pool);
    assert_eq!(region.spare(), 4096);
}

#[test]
fn new_capture_renames_the_file_of_the_old_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lan.pcapng");
    let (region, mut devices) = (Region::new(64), Devices::new(Nanos::secs(1)));
    let mut pool = Pool::new(region.clone());
    let plan = port("memory:wire", &format!("capture = '{}'", path.display()));
    let mut port = open(&mut devices, &plan, &region);
    let mut end = devices.take_end("wire");
    send(&mut end, &mut pool, &[1], Instant::START);
    assert_eq!(receive(&mut *port, &mut pool, Instant::new(10)), [(1, 0)]);
    send(&mut *port, &mut pool, &[2], Instant::new(20));
    // A reload with other decorators: the new capture starts before the port closes the old one.
    let decorate = devices.decorate(&plan, 1).unwrap().remove(0);
    send(&mut *port, &mut pool, &[3], Instant::new(30));
    let mut port = decorate(port.undecorated());
    send(&mut *port, &mut pool, &[4], Instant::new(40));
    receive(&mut end, &mut pool, Instant::START);
    drop(port);
    devices.finish();
    let second = 1_000_000_000;
    let (before, after) = (recorded(&path.with_added_extension("1")), recorded(&path));
    let expected = [
        (1, second + 10, PcapDirection::In),
        (2, second + 20, PcapDirection::Out),
        (3, second + 30, PcapDirection::Out),
    ];
    assert_eq!(before, expected);
    assert_eq!(after, [(4, second + 40, PcapDirection::Out)]);
}

#[test]
fn configured_faults_decorate_the_port() {
    let (region, mut devices) = (Region::new(64), Devices::new(Nanos::ZERO));
    let mut pool = Pool::new(region.clone());
    let mut port = open(&mut devices, &port("memory:wire", "faults = { loss = 1.0 }"), &region);
    let mut end = devices.take_end("wire");
    send(&mut end, &mut pool, &[1, 2, 3], Instant::START);
    let lost = DropReason::InjectedFault as u8 + 1;
    assert_eq!(receive(&mut *port, &mut pool, Instant::START), [(1, lost), (2, lost), (3, lost)]);
}

#[test]
fn a_capture_is_replayed_into_another() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (directory.path().join("first"), directory.path().join("second"));
    let region = Region::new(64);
    let (mut pool, mut devices) = (Pool::new(region.clone()), Devices::new(Nanos::ZERO));
    let mut out = open(&mut devices, &port("pcap:", &format!("write = '{}'", first.display())), &region);
    for (i, at) in [(1, 100), (2, 300), (3, 350)] {
        send(&mut *out, &mut pool, &[i], Instant::new(at));
    }
    drop(out);
    let text = format!("write = '{}'\npace = 'recorded'", second.display());
    let mut through = open(&mut devices, &port(&format!("pcap:{}", first.display()), &text), &region);
    let mut now = Instant::new(1000);
    let mut arrived = Vec::new();
    while through.wake_source() != WakeSource::Never {
        for (frame, refused) in receive(&mut *through, &mut pool, now) {
            assert_eq!(refused, 0);
            arrived.push(now.get());
            send(&mut *through, &mut pool, &[frame], now);
        }
        if let WakeSource::At(due) = through.wake_source() {
            now = due;
        }
    }
    drop(through);
    assert_eq!(arrived, [1000, 1200, 1250]);
    assert_eq!(recorded(&second), [1, 2, 3].map(|i| (i, arrived[usize::from(i) - 1], PcapDirection::Out)));
}

#[test]
fn failed_open_reports_port_reason_and_hint() {
    let (region, mut devices) = (Region::new(1), Devices::new(Nanos::ZERO));
    for (plan, says) in [
        (port("packet:no-such-link", ""), "no network interface 'no-such-link'"),
        (port("xdp:no-such-link", ""), "no network interface 'no-such-link'"),
        (port("pcap:/no/such/file", ""), "No such file"),
    ] {
        let error = devices.open(&plan, &region, 1).err().expect("there is none");
        assert_eq!(error.place, "port lan");
        assert!(error.reason.contains(says) && !error.hint.is_empty(), "{error}");
    }
    let error =
        devices.decorate(&port("memory:wire", "capture = '/no/such/directory/file'"), 1).err().expect("no file");
    assert!(error.reason.contains("cannot be written"), "{error}");
}

#[test]
fn recorder_never_blocks_and_counts_lost_frames() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fast.pcapng");
    let warnings = Advisories::default();
    let (mut recorder, recording) = recorder::start(&path, "lan", Nanos::ZERO, warnings.clone()).unwrap();
    let frame = [7; 60];
    // Far more than the ring holds, and faster than a disk.
    for i in 0..200_000u64 {
        recorder.record(Instant::new(i), PcapDirection::In, 60, &frame, "sent");
    }
    let waiting = recording.lost();
    drop(recorder);
    let lost = {
        while !recording.is_finished() {
            std::thread::yield_now();
        }
        recording.lost()
    };
    assert!(lost >= waiting);
    let recorded = recorded(&path);
    assert_eq!(recorded.len() as u64 + lost, 200_000);
    assert_eq!(recording.written(), recorded.len() as u64);
    assert!(recorded.is_sorted_by_key(|(_, time, _)| *time));
    assert_eq!(warnings.take().len(), usize::from(lost > 0));
    recording.finish();
}
