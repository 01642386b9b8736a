//! The capture to replay: checked as a whole first, then read packet by packet.

use io::advisories::OpenError;
use io::pcap::{LinkType, PcapDirection, Reader};
use packet::pool::SUPER_FRAME;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use units::{Instant, Mac, Nanos};

/// The longest original length to which a truncated packet is filled up, in bytes.
const MOST_FRAME_BYTES: usize = SUPER_FRAME;

/// A capture that can be replayed.
#[derive(Clone, Debug)]
pub struct ReplaySource {
    path: PathBuf,
    /// The packets to replay: all that are not marked as sent.
    pub packets: u64,
    /// Packets marked as sent by the capturing host, which are skipped.
    pub outgoing: u64,
    /// Truncated packets, which are filled up with zeros.
    pub cut: u64,
    /// The time of the first packet, since 1970-01-01 UTC.
    pub first: Instant,
    /// The time from the first packet to the last.
    pub span: Nanos,
    /// The ingress interfaces of packets, as named in the capture.
    pub interfaces: Vec<String>,
    /// True if the capture records the MAC address of an ingress interface.
    pub has_mac_addresses: bool,
}

/// A packet of a capture.
#[derive(Clone, Copy, Debug)]
pub struct RecordedPacket<'a> {
    /// Its number in the capture, from 1, as other tools count.
    pub number: u64,
    /// The time since the first packet.
    pub after: Nanos,
    /// The ingress interface.
    pub interface: &'a str,
    /// The MAC address of that interface, if the capture records it.
    pub mac: Option<Mac>,
    /// The frame in its original length.
    pub frame: &'a [u8],
}

impl RecordedPacket<'_> {
    /// Returns whether it was addressed to its ingress interface: its destination is the MAC address that the capture records for that interface.
    pub fn is_ours(&self) -> bool {
        self.mac.is_some_and(|Mac(station)| self.frame.starts_with(&station))
    }
}

impl ReplaySource {
    /// Reads the whole capture, so that errors are reported before anything is replayed.
    pub fn open(path: &Path) -> Result<ReplaySource, OpenError> {
        let mut source = ReplaySource {
            path: path.to_owned(),
            packets: 0,
            outgoing: 0,
            cut: 0,
            first: Instant::START,
            span: Nanos::ZERO,
            interfaces: Vec::new(),
            has_mac_addresses: false,
        };
        let (mut last, mut names_stations) = (None, false);
        let all = source.walk(|record| {
            let CaptureRecord { time, interface, mac: station, .. } = record;
            names_stations |= station.is_some();
            let first = *last.get_or_insert((time, time));
            last = Some((first.0, first.1.max(time)));
            if !record.known.iter().any(|known| known == interface) {
                record.known.push(interface.to_owned());
            }
        })?;
        let Some((first, end)) = last else {
            let reason = match all.outgoing {
                0 => "it has no packet".to_owned(),
                n => format!("all of its {n} packets were sent, none was received"),
            };
            return Err(source.open_error(reason));
        };
        (source.first, source.span, source.has_mac_addresses) = (first, end.since(first), names_stations);
        (source.packets, source.outgoing, source.cut, source.interfaces) =
            (all.packets, all.outgoing, all.cut, all.interfaces);
        Ok(source)
    }

    /// Calls `show` with each packet to replay, in the order of the capture.
    pub fn for_each_packet(&self, mut show: impl FnMut(RecordedPacket<'_>)) -> Result<(), OpenError> {
        self.walk(|walked| {
            let after = walked.time.since(self.first);
            let CaptureRecord { number, interface, frame, mac: station, .. } = walked;
            show(RecordedPacket { number, after, interface, mac: station, frame });
        })?;
        Ok(())
    }

    /// Returns the time from the start of one round to the next. The gap between two rounds is the mean gap between two packets.
    pub fn round_time(&self) -> Nanos {
        self.span + Nanos::new(self.span.get() / self.packets.saturating_sub(1).max(1))
    }

    /// Returns the number that a packet of a round, from 0, has during the replay.
    pub fn replay_number(&self, round: u64, number: u64) -> u64 {
        round * (self.packets + self.outgoing) + number - 1
    }

    /// Returns the number in the capture, from 1, of such a packet.
    pub fn capture_number(&self, packet: u64) -> u64 {
        packet % (self.packets + self.outgoing).max(1) + 1
    }

    fn open_error(&self, reason: impl std::fmt::Display) -> OpenError {
        OpenError {
            reason: format!("the capture '{}' cannot be replayed: {reason}", self.path.display()),
            hint: "give a pcap or pcapng file of received Ethernet frames; nothing was done".into(),
        }
    }

    fn walk(&self, mut show: impl FnMut(CaptureRecord<'_>)) -> Result<CaptureTotals, OpenError> {
        let file = File::open(&self.path).map_err(|error| self.open_error(error))?;
        let mut reader = Reader::new(BufReader::new(file)).map_err(|error| self.open_error(error))?;
        let (mut totals, mut number, mut whole) = (CaptureTotals::default(), 0, Vec::new());
        while reader.advance().map_err(|error| self.open_error(error))? {
            number += 1;
            let record = reader.record().expect("it has advanced to one");
            let wrong = |what: String| self.open_error(format!("its packet {number} {what}"));
            if record.link != LinkType::ETHERNET {
                return Err(wrong(format!("has the link type {}, not Ethernet", record.link.0)));
            }
            let length = record.data.len().max(record.original as usize);
            if length > MOST_FRAME_BYTES {
                return Err(wrong(format!("has {length} bytes, but a frame has at most {MOST_FRAME_BYTES}")));
            }
            if record.direction == PcapDirection::Out {
                totals.outgoing += 1;
                continue;
            }
            totals.packets += 1;
            totals.cut += u64::from(length > record.data.len());
            whole.clear();
            whole.extend_from_slice(record.data);
            whole.resize(length, 0);
            let known = reader.interfaces().get(record.interface as usize);
            let interface = known.map_or("", |known| known.name.as_str());
            let station = known.and_then(|known| known.mac);
            show(CaptureRecord {
                number,
                time: record.time,
                interface,
                mac: station,
                frame: &whole,
                known: &mut totals.interfaces,
            });
        }
        Ok(totals)
    }
}

/// The counters of a walk through a capture.
#[derive(Default)]
struct CaptureTotals {
    packets: u64,
    outgoing: u64,
    cut: u64,
    interfaces: Vec<String>,
}

struct CaptureRecord<'a> {
    number: u64,
    time: Instant,
    interface: &'a str,
    mac: Option<Mac>,
    frame: &'a [u8],
    known: &'a mut Vec<String>,
}
