//! `pcap:` ports: packets arrive according to the capture or the pace, and transmitted packets can be read again.

use io::advisories::Advisories;
use io::pcap::{CaptureProgram, LinkType, PcapInterface, PcapOptions, PcapPort, PcapRecord, Reader, Writer};
use packet::port::{Port, WakeSource, discard_refused};
use packet::{Batch, DropReason, Pool, Region};
use plan::ReplayPace;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use units::{Instant, Nanos, Rate};

const START: Instant = Instant::new(5_000_000_000);

/// A capture of frames of these lengths at these microseconds. A frame of more than 3000 bytes is truncated to 60.
fn capture(packets: &[(u64, u32)]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("in.pcapng");
    let mut writer = Writer::new(File::create(&path).unwrap(), &CaptureProgram::default(), Nanos::ZERO).unwrap();
    let link = LinkType::ETHERNET;
    writer.add_interface(PcapInterface { name: String::new(), link, snap_length: 0, mac: None }).unwrap();
    for (i, &(us, original)) in packets.iter().enumerate() {
        let data = vec![i as u8; if original > 3000 { 60 } else { original as usize }];
        let time = Instant::new(1_700_000_000_000_000_000) + Nanos::micros(us);
        let (direction, comment) = Default::default();
        writer.packet(&PcapRecord { time, interface: 0, link, original, data: &data, direction, comment }).unwrap();
    }
    writer.finish().unwrap();
    (directory, path)
}

fn open(path: &Path, pace: ReplayPace) -> PcapPort {
    PcapPort::open(&PcapOptions { read: Some(path), pace, ..PcapOptions::default() }, Advisories::default()).unwrap()
}

/// Receives whenever the port has a due packet. Returns the arrival times in microseconds after the first.
fn arrivals(port: &mut PcapPort) -> Vec<u64> {
    let (mut pool, mut batch, mut now) = (Pool::new(Region::new(512)), Batch::new(), START);
    let mut times = Vec::new();
    for _ in 0..1000 {
        port.receive(now, &mut batch, &mut pool);
        for packet in batch.drain() {
            assert_eq!(packet.meta().timestamp, now);
            times.push(now.since(START).get() / 1000);
            pool.give(packet);
        }
        match port.wake_source() {
            WakeSource::At(due) => {
                assert!(due > now, "nothing that is due stays behind");
                now = due;
            }
            WakeSource::Poll => {}
            WakeSource::Never => return times,
            other => panic!("{other:?}"),
        }
    }
    panic!("the replay does not end");
}

#[test]
fn replay_follows_the_configured_pace() {
    // The times go back once, as in captures of several cores.
    let (_directory, path) = capture(&[(0, 1000), (10, 500), (250, 1500), (200, 100), (1000, 60)]);
    let check = |pace: ReplayPace, expected: [u64; 5]| assert_eq!(arrivals(&mut open(&path, pace)), expected, "{pace}");
    check(ReplayPace::Recorded, [0, 10, 250, 250, 1000]);
    check(ReplayPace::Fast, [0, 0, 0, 0, 0]);
    check(ReplayPace::Packets(1000), [0, 1000, 2000, 3000, 4000]);
    check(ReplayPace::Packets(3), [0, 333_333, 666_666, 1_000_000, 1_333_333]);
    check(ReplayPace::Bits(Rate::mbit(8)), [0, 1000, 1500, 3000, 3100]);
}

#[test]
fn late_receive_returns_due_packets_up_to_one_batch() {
    let (_directory, path) = capture(&[(0, 60); 600]);
    let mut port = open(&path, ReplayPace::Fast);
    let (mut pool, mut batch) = (Pool::new(Region::new(1024)), Batch::new());
    let mut sizes = Vec::new();
    while port.wake_source() != WakeSource::Never {
        port.receive(START, &mut batch, &mut pool);
        sizes.push(batch.len());
        batch.drain().for_each(|packet| pool.give(packet));
    }
    assert_eq!(sizes, [256, 256, 88]);
    assert!(port.is_done());
}

#[test]
fn packets_without_a_free_frame_arrive_later() {
    let (_directory, path) = capture(&[(0, 60); 10]);
    let mut port = open(&path, ReplayPace::Fast);
    let (mut pool, mut batch) = (Pool::new(Region::new(4)), Batch::new());
    let mut numbers = Vec::new();
    while port.wake_source() != WakeSource::Never {
        port.receive(START, &mut batch, &mut pool);
        numbers.extend(batch.as_slice().iter().map(|packet| packet.bytes()[0]));
        batch.drain().for_each(|packet| pool.give(packet));
    }
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn truncated_and_oversized_packets_are_flagged() {
    let (_directory, path) = capture(&[(0, 60), (1, 9000), (2, 2048), (3, 2049)]);
    let too_long = DropReason::FrameTooLong as u8 + 1;
    // Without super-frames, and with: a packet truncated in the capture stays truncated.
    for (region, last) in [(Region::new(4), (2048, too_long)), (Region::with_super_frames(4, 1), (2049, 0))] {
        let mut port = open(&path, ReplayPace::Fast);
        let (mut pool, mut batch) = (Pool::new(region), Batch::new());
        port.receive(START, &mut batch, &mut pool);
        let seen: Vec<_> = batch.as_slice().iter().map(|packet| (packet.len(), packet.meta().refused)).collect();
        assert_eq!(seen, [(60, 0), (60, too_long), (2048, 0), last]);
        batch.drain().for_each(|packet| pool.give(packet));
    }
}

#[test]
fn transmitted_packets_can_be_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.pcapng");
    let options = PcapOptions { write: Some(&path), name: "lan", epoch: Nanos::secs(1000), ..PcapOptions::default() };
    let mut port = PcapPort::open(&options, Advisories::default()).unwrap();
    assert_eq!(port.wake_source(), WakeSource::Never);
    let (mut pool, mut batch) = (Pool::new(Region::new(4)), Batch::new());
    for i in 0..3u8 {
        let mut packet = pool.take().unwrap();
        packet.fill(&[i; 60]);
        batch.push(packet);
        assert!(port.room() >= batch.len());
        port.transmit(Instant::new(i.into()), &mut batch, &mut pool);
    }
    assert_eq!(pool.frames_in_use(), 0);
    port.receive(Instant::START + Nanos::secs(1), &mut batch, &mut pool);
    let read = || {
        let mut reader = Reader::new(File::open(&path).unwrap()).unwrap();
        let mut seen = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            seen.push((record.time.get(), record.data.to_vec()));
        }
        assert_eq!(reader.interfaces()[0].name, "lan");
        seen
    };
    let expected: Vec<_> = (0..3u8).map(|i| (1_000_000_000_000 + u64::from(i), vec![i; 60])).collect();
    assert_eq!(read(), expected, "a second later it is in the file");
    drop(port);
    assert_eq!(read(), expected);
}

#[test]
fn full_disk_is_reported_once_and_packets_are_counted() {
    let warnings = Advisories::default();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.pcapng");
    let options = PcapOptions { write: Some(&path), name: "wan", ..PcapOptions::default() };
    let mut port = PcapPort::open(&options, warnings.clone()).unwrap();
    // A limit on the file size simulates a full disk. It applies to a process, so it is set in a child process.
    if std::env::var_os("SWITCHPATH_TEST_SMALL_FILES").is_none() {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "full_disk_is_reported_once_and_packets_are_counted", "--nocapture"]);
        let output = again.env("SWITCHPATH_TEST_SMALL_FILES", "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let limit = rustix::process::Rlimit { current: Some(100_000), maximum: Some(100_000) };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
    // SAFETY: no handler runs; a write beyond the limit then returns EFBIG.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let (mut pool, mut batch) = (Pool::new(Region::new(4)), Batch::new());
    let mut refused = 0;
    for _ in 0..500 {
        let mut packet = pool.take().unwrap();
        packet.fill(&[7; 1000]);
        batch.push(packet);
        port.transmit(START, &mut batch, &mut pool);
        refused += discard_refused(&mut batch, &mut pool) + port.take_late_refusals().packets;
    }
    let mut reader = Reader::new(File::open(&path).unwrap()).unwrap();
    let mut written = 0;
    while reader.next_record().unwrap().is_some() {
        written += 1;
    }
    assert!(written > 50, "{written}");
    assert_eq!(refused, 500 - written);
    let said = warnings.take();
    assert!(said.len() == 1 && said[0].starts_with("port wan: writing the capture failed after"), "{said:?}");
}

#[test]
fn truncated_capture_ends_the_replay_with_its_offset() {
    let (directory, path) = capture(&[(0, 60), (10, 60), (20, 60)]);
    let whole = fs::read(&path).unwrap();
    let cut = directory.path().join("cut.pcapng");
    fs::write(&cut, &whole[..whole.len() - 10]).unwrap();
    let warnings = Advisories::default();
    let options = PcapOptions { read: Some(&cut), pace: ReplayPace::Fast, name: "lan", ..PcapOptions::default() };
    let mut port = PcapPort::open(&options, warnings.clone()).unwrap();
    assert_eq!(arrivals(&mut port).len(), 2);
    let said = warnings.take();
    assert!(
        said.len() == 1 && said[0].contains("port lan: the replay ends early") && said[0].contains("cut short"),
        "{said:?}"
    );
}

#[test]
fn unusable_captures_are_refused_with_a_reason() {
    let (directory, path) = capture(&[(0, 60)]);
    let (empty, other) = (directory.path().join("empty"), directory.path().join("other"));
    fs::write(&empty, "").unwrap();
    fs::write(&other, [&b"\xd4\xc3\xb2\xa1\x02\0\x04\0"[..], &[0; 12], &101u32.to_le_bytes(), &[0; 16]].concat())
        .unwrap();
    let missing = directory.path().join("missing").join("file");
    let refused = |read: Option<&Path>, write: Option<&Path>| {
        let error = PcapPort::open(&PcapOptions { read, write, ..PcapOptions::default() }, Advisories::default()).err();
        error.expect("it cannot be opened").to_string()
    };
    for (error, says) in [
        (refused(Some(&missing), None), "No such file"),
        (refused(Some(&empty), None), "neither pcap nor pcapng"),
        (refused(Some(&other), None), "link type 101"),
        (refused(None, Some(&missing)), "cannot be written"),
        (refused(None, Some(Path::new("/dev/full"))), "No space left"),
        (refused(Some(&path), Some(&path)), "write to another file"),
    ] {
        assert!(error.contains(says), "{error} should say {says}");
    }
    assert_eq!(arrivals(&mut open(&path, ReplayPace::Recorded)), [0], "the capture is still there");
}
