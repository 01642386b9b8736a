//! Capture files: written captures read back, here and in tshark. Files of other programs are readable. Broken files are refused with the position of
//! the error.

#![allow(clippy::print_stdout)]

use io::pcap::{
    CaptureProgram, Fault, LinkType, MAX_BLOCK, PcapDirection, PcapInterface, PcapRecord, PcapSink, Reader, Writer,
};
use proptest::prelude::*;
use std::cell::RefCell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use units::{Instant, Nanos};

/// A record that owns its data.
#[derive(Clone, PartialEq, Debug)]
struct Owned {
    time: u64,
    interface: u32,
    original: u32,
    data: Vec<u8>,
    direction: PcapDirection,
    comment: String,
}

impl Owned {
    fn of(record: &PcapRecord<'_>) -> Self {
        Owned {
            time: record.time.get(),
            interface: record.interface,
            original: record.original,
            data: record.data.to_vec(),
            direction: record.direction,
            comment: record.comment.to_owned(),
        }
    }

    fn record(&self) -> PcapRecord<'_> {
        PcapRecord {
            time: Instant::new(self.time),
            interface: self.interface,
            link: LinkType::ETHERNET,
            original: self.original,
            data: &self.data,
            direction: self.direction,
            comment: &self.comment,
        }
    }

    fn plain(time: u64, original: u32, data: &[u8]) -> Self {
        let direction = PcapDirection::Unknown;
        Owned { time, interface: 0, original, data: data.to_vec(), direction, comment: String::new() }
    }
}

fn interface(name: &str) -> PcapInterface {
    PcapInterface { name: name.to_owned(), link: LinkType::ETHERNET, snap_length: 0, mac: None }
}

fn written(interfaces: &[PcapInterface], records: &[Owned]) -> Vec<u8> {
    let application =
        CaptureProgram { hardware: "a machine".into(), os: "Linux".into(), name: "switchpath tests".into() };
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &application, Nanos::ZERO).unwrap();
    for interface in interfaces {
        writer.add_interface(interface.clone()).unwrap();
    }
    for record in records {
        writer.packet(&record.record()).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), records.len() as u64);
    file
}

/// All records up to the end or the first error.
fn read(file: &[u8]) -> (Vec<Owned>, Option<io::pcap::ReadError>) {
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut records = Vec::new();
    loop {
        match reader.next_record() {
            Ok(Some(record)) => records.push(Owned::of(&record)),
            Ok(None) => return (records, None),
            Err(error) => {
                assert!(reader.next_record().unwrap().is_none(), "a reader that failed has nothing more");
                return (records, Some(error));
            }
        }
    }
}

fn any_record() -> impl Strategy<Value = Owned> {
    let direction = prop_oneof![Just(PcapDirection::Unknown), Just(PcapDirection::In), Just(PcapDirection::Out)];
    (any::<u64>(), 0..3u32, 0..10_000u32, prop::collection::vec(any::<u8>(), 0..2000), direction, ".{0,40}").prop_map(
        |(time, interface, more, data, direction, comment)| {
            let original = data.len() as u32 + more;
            Owned { time, interface, original, data, direction, comment }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn written_captures_round_trip(records in prop::collection::vec(any_record(), 0..100)) {
        let interfaces = [interface("left"), interface(""), interface("größer")];
        let file = written(&interfaces, &records);
        let mut reader = Reader::new(&file[..]).unwrap();
        for record in &records {
            prop_assert_eq!(&Owned::of(&reader.next_record().unwrap().unwrap()), record);
        }
        prop_assert!(reader.next_record().unwrap().is_none());
        if !records.is_empty() {
            prop_assert_eq!(reader.interfaces(), &interfaces);
        }
    }

    #[test]
    fn damaged_capture_gives_error_with_offset_or_fewer_packets(
        which in 0..4usize,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut file = samples()[which].1.clone();
        for (place, value) in damage {
            let place = place.index(file.len());
            file[place] = value;
        }
        file.truncate(cut.index(file.len() + 1));
        let (records, error) = read(&file);
        prop_assert!(records.iter().map(|r| r.data.len()).sum::<usize>() <= file.len());
        if let Some(error) = error {
            prop_assert!(error.offset <= file.len() as u64, "{}", error);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic_the_reader(noise in prop::collection::vec(any::<u8>(), 0..300), magic in 0..6usize) {
        let starts: [&[u8]; 6] = [&[], b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0",
            b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x34\xcd\xb2\xa1", b"\x0a\x0d\x0d\x0a"];
        read(&[starts[magic], &noise].concat());
    }
}

/// Classic pcap with two packets, the second truncated by the capture.
fn pcap(big_endian: bool, nanoseconds: bool) -> Vec<u8> {
    let u32 = |v: u32| if big_endian { v.to_be_bytes() } else { v.to_le_bytes() };
    let u16 = |v: u16| if big_endian { v.to_be_bytes() } else { v.to_le_bytes() };
    let mut file = Vec::new();
    file.extend(u32(if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }));
    file.extend([u16(2), u16(4)].concat());
    file.extend([u32(0), u32(0), u32(65535), u32(1)].concat());
    for (fraction, captured, original) in [(7u32, 60u32, 60u32), (999_999, 64, 1500)] {
        file.extend([u32(1_000_000), u32(fraction), u32(captured), u32(original)].concat());
        file.extend((0..captured).map(|i| i as u8));
    }
    file
}

fn pcapng_block(big_endian: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let u32 = |v: u32| if big_endian { v.to_be_bytes() } else { v.to_le_bytes() };
    let length = u32(body.len() as u32 + 12);
    [&u32(kind), &length, body, &length].concat()
}

/// pcapng of two sections: binary and decimal time resolutions, a time offset, every kind of packet block, and blocks of kinds that are skipped.
fn pcapng(big_endian: bool) -> Vec<u8> {
    let u32 = |v: u32| if big_endian { v.to_be_bytes() } else { v.to_le_bytes() };
    let u16 = |v: u16| if big_endian { v.to_be_bytes() } else { v.to_le_bytes() };
    let i64 = |v: i64| if big_endian { v.to_be_bytes() } else { v.to_le_bytes() };
    let block = |kind, body: &[&[u8]]| pcapng_block(big_endian, kind, &body.concat());
    let section = || block(0x0a0d_0d0a, &[&u32(0x1a2b_3c4d), &u16(1), &u16(0), &i64(-1)]);
    let described = |snap: u32, options: &[&[u8]]| block(1, &[&u16(1), &u16(0), &u32(snap), &options.concat()]);
    let resolution = |value: u8| [&u16(9)[..], &u16(1), &[value, 0, 0, 0]].concat();
    let offset = |value: i64| [&u16(14)[..], &u16(8), &i64(value)].concat();
    let enhanced = |interface: u32, ticks: u64, data: &[u8], original: u32| {
        let padded = [data, &vec![0; data.len().next_multiple_of(4) - data.len()]].concat();
        let (high, low) = (u32((ticks >> 32) as u32), u32(ticks as u32));
        block(6, &[&u32(interface), &high, &low, &u32(data.len() as u32), &u32(original), &padded])
    };
    [
        section(),
        block(5, &[&[0; 12]]),
        described(0, &[]),
        described(0, &[&resolution(0x80 | 10), &offset(100)]),
        enhanced(0, 1_500_000, &[1; 61], 61),
        enhanced(1, 1024 + 512, &[2; 62], 62),
        block(0x0bad, &[&[0xff; 64]]),
        block(2, &[&u16(0), &u16(7), &u32(0), &u32(2_000_000), &u32(4), &u32(1500), &[9; 4]]),
        section(),
        described(5, &[&resolution(9), &[0; 4]]),
        enhanced(0, 42, &[3; 5], 64),
        block(3, &[&u32(60), &[4, 4, 4, 4, 4, 0, 0, 0]]),
    ]
    .concat()
}

fn samples() -> [(&'static str, Vec<u8>); 6] {
    [
        ("pcap", pcap(false, false)),
        ("pcap, big end first, ns", pcap(true, true)),
        ("pcapng", pcapng(false)),
        ("pcapng, big end first", pcapng(true)),
        ("pcap, ns", pcap(false, true)),
        ("pcap, big end first", pcap(true, false)),
    ]
}

#[test]
fn pcap_reads_in_both_byte_orders_and_resolutions() {
    let frame: Vec<u8> = (0..64).collect();
    for (big_endian, nanoseconds) in [(false, false), (false, true), (true, false), (true, true)] {
        let (records, error) = read(&pcap(big_endian, nanoseconds));
        assert!(error.is_none());
        let unit = if nanoseconds { 1 } else { 1000 };
        let second = 1_000_000_000_000_000;
        let expected =
            [Owned::plain(second + 7 * unit, 60, &frame[..60]), Owned::plain(second + 999_999 * unit, 1500, &frame)];
        assert_eq!(records, expected);
    }
}

#[test]
fn pcapng_reads_every_packet_block_clock_and_section_in_both_byte_orders() {
    for big_endian in [false, true] {
        let (records, error) = read(&pcapng(big_endian));
        assert!(error.is_none(), "{error:?}");
        let expected = [
            Owned::plain(1_500_000_000, 61, &[1; 61]),
            Owned { interface: 1, ..Owned::plain(101_500_000_000, 62, &[2; 62]) },
            Owned::plain(2_000_000_000, 1500, &[9; 4]),
            Owned::plain(42, 64, &[3; 5]),
            Owned::plain(42, 60, &[4; 5]),
        ];
        assert_eq!(records, expected);
    }
}

#[test]
fn truncated_capture_is_reported_unless_it_ends_at_a_record() {
    for (name, file) in samples() {
        let whole = read(&file).0;
        for length in 0..file.len() {
            let (records, error) = read(&file[..length]);
            assert_eq!(records, whole[..records.len()], "{name} cut at {length}");
            let faults = error.map(|error| matches!(error.fault, Fault::Truncated | Fault::NotACapture));
            assert_ne!(faults, Some(false), "{name} cut at {length}");
        }
    }
}

#[test]
fn oversized_length_is_refused_before_allocation() {
    let mut file = pcap(false, false);
    file[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let (_, error) = read(&file);
    let error = error.unwrap();
    assert!(matches!(error.fault, Fault::TooLarge { limit, .. } if limit == MAX_BLOCK as u64), "{error}");
    assert_eq!(error.offset, 24);
}

#[test]
fn packet_of_unknown_interface_is_refused_with_offset() {
    let file = [
        pcapng_block(false, 0x0a0d_0d0a, b"\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"),
        pcapng_block(false, 6, &[0; 20]),
    ]
    .concat();
    let error = read(&file).1.unwrap();
    assert!(matches!(error.fault, Fault::UnknownInterface(0)), "{error}");
    assert_eq!(error.offset, 28);
}

/// A disk of limited capacity.
struct Disk {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let n = bytes.len().min(self.room - self.bytes.len());
        if n == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.bytes.write(&bytes[..n])
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl PcapSink for Disk {
    fn truncate_to(&mut self, length: u64) -> std::io::Result<()> {
        self.bytes.truncate_to(length)
    }
}

/// The same disk, whose capacity the test changes meanwhile.
struct Shared(Rc<RefCell<Disk>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl PcapSink for Shared {
    fn truncate_to(&mut self, length: u64) -> std::io::Result<()> {
        self.0.borrow_mut().truncate_to(length)
    }
}

#[test]
fn full_disk_is_an_error_and_written_blocks_stay_readable() {
    for room in [500, 65_000, 66_000, 200_000] {
        let mut disk = Disk { bytes: Vec::new(), room };
        let mut writer = Writer::new(&mut disk, &CaptureProgram::here("switchpath tests"), Nanos::ZERO).unwrap();
        writer.add_interface(interface("eth0")).unwrap();
        let record = Owned { comment: "sent".into(), ..Owned::plain(1, 1000, &[7; 1000]) };
        let error = (0..1000).find_map(|_| writer.packet(&record.record()).err()).expect("the disk is too small");
        assert_eq!(error.error.kind(), std::io::ErrorKind::StorageFull);
        assert!(error.to_string().contains(&format!("after {} packets", error.written)), "{error}");
        assert!(writer.packet(&record.record()).is_err(), "a writer that failed refuses the rest");
        drop(writer);
        let (records, read_error) = read(&disk.bytes);
        assert!(read_error.is_none(), "{read_error:?}");
        assert_eq!(records.len() as u64, error.written);
        assert!(records.iter().all(|r| *r == record));
    }
}

#[test]
fn capture_resumes_when_the_disk_has_room() {
    // From room for the header only to room for several chunks.
    for room in [100, 500, 65_000, 66_000, 200_000] {
        let disk = Rc::new(RefCell::new(Disk { bytes: Vec::new(), room: 1000 }));
        let mut writer = Writer::new(Shared(disk.clone()), &CaptureProgram::default(), Nanos::ZERO).unwrap();
        disk.borrow_mut().room = room;
        writer.add_interface(interface("eth0")).unwrap();
        let record = |n: u64| Owned { comment: "sent".into(), ..Owned::plain(n, 1000, &[7; 1000]) };
        let failed = (0..1000).find(|&n| writer.packet(&record(n).record()).is_err() || writer.flush().is_err());
        let failed = failed.expect("the disk is too small");
        let before = writer.written();
        assert!(before <= failed);
        assert!(writer.resume().is_err() && writer.packet(&record(0).record()).is_err(), "there is no room yet");
        disk.borrow_mut().room = room + 500;
        assert!(writer.resume().is_err(), "room for one packet is not enough to go on");
        disk.borrow_mut().room = 1 << 20;
        writer.resume().unwrap();
        (2000..2100).for_each(|n| writer.packet(&record(n).record()).unwrap());
        assert_eq!(writer.finish().unwrap(), before + 100);
        let (records, read_error) = read(&disk.borrow().bytes);
        assert!(read_error.is_none(), "{read_error:?}");
        let expected: Vec<Owned> = (0..before).chain(2000..2100).map(record).collect();
        assert!(records == expected, "{room}: {} records", records.len());
    }
}

#[test]
fn full_device_fails_at_once() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let error = Writer::new(full, &CaptureProgram::default(), Nanos::ZERO).err().expect("nothing can be written");
    assert_eq!(error.error.kind(), std::io::ErrorKind::StorageFull);
}

fn tshark(file: &Path, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(file).args(["-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: tshark does not run here: {error}");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    Some(lines.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

#[test]
fn tshark_reads_times_lengths_directions_and_comments() {
    let frame = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], &[0x08, 0x06], &[0; 46]].concat();
    let records = [
        Owned {
            comment: "dropped: no-route".into(),
            direction: PcapDirection::In,
            ..Owned::plain(1_700_000_000_123_456_789, 60, &frame)
        },
        Owned { interface: 1, direction: PcapDirection::Out, ..Owned::plain(1_700_000_001_000_000_001, 1500, &frame) },
    ];
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("comments.pcapng");
    std::fs::write(&path, written(&[interface("left"), interface("right")], &records)).unwrap();
    let fields = [
        "frame.time_epoch",
        "frame.len",
        "frame.cap_len",
        "frame.interface_name",
        "frame.comment",
        "frame.packet_flags",
    ];
    let Some(lines) = tshark(&path, &fields) else { return };
    assert_eq!(lines[0], ["1700000000.123456789", "60", "60", "left", "dropped: no-route", "0x00000001"]);
    assert_eq!(lines[1], ["1700000001.000000001", "1500", "60", "right", "", "0x00000002"]);
}

/// The captures of other programs, if available.
fn shared_captures() -> Vec<PathBuf> {
    let data = std::env::var_os("SWITCHPATH_DATA").map(PathBuf::from);
    let data = data.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"));
    let files = std::fs::read_dir(data.join("captures")).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|e| e == "pcap" || e == "pcapng")).collect()
}

#[test]
fn shared_captures_read_like_tshark() {
    let captures = shared_captures();
    if captures.is_empty() {
        println!("skipped: no captures; set SWITCHPATH_DATA to a directory with captures/*.pcap");
    }
    for path in captures {
        let (records, error) = read(&std::fs::read(&path).unwrap());
        assert!(error.is_none() && !records.is_empty(), "{}: {error:?}", path.display());
        let Some(lines) = tshark(&path, &["frame.time_epoch", "frame.len", "frame.cap_len"]) else { return };
        assert_eq!(lines.len(), records.len(), "{}", path.display());
        for (line, record) in lines.iter().zip(&records) {
            let nanoseconds: u128 = line[0].replace('.', "").parse().unwrap();
            assert_eq!(nanoseconds as u64, record.time, "{}: times are nanoseconds modulo 2^64", path.display());
            let lengths = [record.original.to_string(), record.data.len().to_string()];
            assert_eq!(line[1..], lengths, "{}", path.display());
        }
        let again = written(&[interface("copied"), interface("copied"), interface("copied")], &records);
        assert_eq!(read(&again).0, records, "{}", path.display());
    }
}

/// Handmade captures near edge cases of the reader, by name: the fuzzer starts from them.
fn handmade_captures() -> Vec<(&'static str, Vec<u8>)> {
    let patched = |mut file: Vec<u8>, at: usize, bytes: &[u8]| {
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    let [little, big_ns, ng, ng_big, ns, big] = samples().map(|(_, file)| file);
    let header = ng[..28].to_vec();
    let first_packet = ng.windows(4).position(|word| word == 6u32.to_le_bytes()).unwrap();
    let comment = Owned { comment: "sent".into(), direction: PcapDirection::Out, ..Owned::plain(1, 60, &[1; 60]) };
    vec![
        ("pcap-cut-in-a-packet", little[..100].to_vec()),
        ("pcap-cut-in-the-header", little[..20].to_vec()),
        ("pcap-packet-of-4-gb", patched(little.clone(), 32, &[0xff; 4])),
        ("pcapng-block-of-no-length", patched(ng.clone(), 32, &[0; 4])),
        ("pcapng-block-of-odd-length", patched(ng.clone(), 32, &[0x1d, 0, 0, 0])),
        ("pcapng-comment-and-direction", written(&[interface("eth0")], &[comment])),
        ("pcapng-lengths-differ", patched(ng.clone(), 24, &[32, 0, 0, 0])),
        ("pcapng-packet-before-interface", [&header[..], &ng[first_packet..]].concat()),
        ("pcapng-packet-longer-than-block", patched(ng.clone(), first_packet + 20, &[0xf0, 0xff, 0xff, 0xff])),
        ("pcapng-unknown-version", patched(ng.clone(), 12, &[9, 0])),
        ("pcap-little-us", little),
        ("pcap-little-ns", ns),
        ("pcap-big-us", big),
        ("pcap-big-ns", big_ns),
        ("pcapng-little", ng),
        ("pcapng-big", ng_big),
    ]
}

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/pcap");

#[test]
fn corpus_files_match_handmade_captures() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    for (name, capture) in handmade_captures() {
        let path = Path::new(CORPUS).join(name).with_added_extension("bin");
        if update {
            std::fs::create_dir_all(CORPUS).unwrap();
            std::fs::write(&path, &capture).unwrap();
        }
        let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(file, capture, "{name}: run again with UPDATE_EXPECT=1 if it changed on purpose");
    }
}

#[test]
fn corpus_captures_replay() {
    let files: Vec<PathBuf> = std::fs::read_dir(CORPUS).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= handmade_captures().len(), "{} files", files.len());
    for path in files {
        let file = std::fs::read(&path).unwrap();
        let (records, error) = read(&file);
        assert!(records.iter().all(|record| record.data.len() <= MAX_BLOCK), "{}", path.display());
        let place = error.map_or(0, |error| error.offset);
        assert!(place <= file.len() as u64, "{}", path.display());
    }
}
