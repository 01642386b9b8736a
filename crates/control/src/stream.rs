//! A live capture as a growing pcapng file, with packet fates as comments.

use crate::capture::{CaptureReader, CapturedFrame};
use crate::cpu_trace::ScheduleRecording;
use crate::daemon::{Daemon, SlowPathReader};
use crate::names::Names;
use crate::trace::TraceReader;
use bytes::Bytes;
use http_body::Frame;
use hyper::HeaderMap;
use hyper::header::HeaderValue;
use io::pcap::{CaptureProgram, LinkType, PcapDirection, PcapInterface, PcapRecord, PcapSink, WriteError, Writer};
use packet::event::Fate;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{self as std_io, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use units::{Instant, Mac, Nanos, PortId};

/// The trailer with the number of packets that the reader missed.
pub(crate) const MISSED: &str = "switchpath-missed";
/// The most packets in one piece of the body.
const PACKETS_PER_CHUNK: usize = 256;

/// Bytes written but not sent yet.
#[derive(Clone, Default)]
struct PendingBytes(Arc<Mutex<Vec<u8>>>);

impl Write for PendingBytes {
    fn write(&mut self, bytes: &[u8]) -> std_io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std_io::Result<()> {
        Ok(())
    }
}

impl PcapSink for PendingBytes {
    fn truncate_to(&mut self, _length: u64) -> std_io::Result<()> {
        // Called only after a failed write, and these writes never fail.
        Ok(())
    }
}

/// Encodes packets as pcapng.
struct Encoder {
    writer: Writer<PendingBytes>,
    pending: PendingBytes,
    /// The numbers of the interfaces in the file, by name and MAC address.
    interfaces: HashMap<(String, Option<Mac>), u32>,
    snaplen: u32,
}

impl Encoder {
    fn new(epoch: Nanos, snaplen: Option<usize>) -> Result<Encoder, WriteError> {
        let gathered = PendingBytes::default();
        let application = CaptureProgram::here(concat!("switchpath ", env!("CARGO_PKG_VERSION")));
        let writer = Writer::new(gathered.clone(), &application, epoch)?;
        Ok(Encoder { writer, pending: gathered, interfaces: HashMap::new(), snaplen: snaplen.unwrap_or(0) as u32 })
    }

    /// Adds a packet as received, if that is known, and as sent. If it was not sent and its received form is unknown, adds it as it met its fate.
    fn add(&mut self, packet: &CapturedFrame, names: &Names) -> Result<(), WriteError> {
        let comment = packet.comment(names);
        if let Some(came) = &packet.arrival {
            let (at, direction) = ((came.time, Some(came.port)), PcapDirection::In);
            self.record(at, direction, came.frame.len(), &came.frame, (names, &comment))?;
        }
        match packet.fate {
            Fate::Sent(port) => self.record(
                (packet.time, Some(port)),
                PcapDirection::Out,
                packet.length,
                &packet.frame,
                (names, &comment),
            ),
            _ if packet.arrival.is_some() => Ok(()),
            _ => {
                let at = (packet.time, packet.in_port);
                self.record(at, PcapDirection::In, packet.length, &packet.frame, (names, &comment))
            }
        }
    }

    fn record(
        &mut self,
        (time, port): (Instant, Option<PortId>),
        direction: PcapDirection,
        length: usize,
        data: &[u8],
        (names, comment): (&Names, &str),
    ) -> Result<(), WriteError> {
        let name = port.map_or_else(|| "router".to_owned(), |port| names.port(port));
        let station = port.and_then(|port| names.mac(port));
        let link = LinkType::ETHERNET;
        let key = (name, station);
        let interface = match self.interfaces.get(&key) {
            Some(&known) => known,
            None => {
                let interface = PcapInterface { name: key.0.clone(), link, snap_length: self.snaplen, mac: station };
                let added = self.writer.add_interface(interface)?;
                self.interfaces.insert(key, added);
                added
            }
        };
        self.writer.packet(&PcapRecord { time, interface, link, original: length as u32, data, direction, comment })
    }

    /// Returns the bytes since the previous call.
    fn take(&mut self) -> Result<Bytes, WriteError> {
        self.writer.flush()?;
        Ok(std::mem::take(&mut *self.pending.0.lock()).into())
    }
}

/// A growing body.
pub(crate) struct StreamBody(Receiver<Frame<Bytes>>);

impl http_body::Body for StreamBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        self.0.poll_recv(context).map(|frame| frame.map(Ok))
    }
}

/// Returns a body with `packets` as pcapng, and the future that fills it until either end is gone.
pub(crate) fn capture_body(
    daemon: Arc<Daemon>,
    packets: CaptureReader,
) -> (StreamBody, impl Future<Output = ()> + Send) {
    let (sender, receiver) = channel(4);
    let work = async move {
        if let Err(error) = send_packets(&daemon, packets, &sender).await {
            tracing::warn!("a live capture has ended: {error}");
        }
        daemon.arrivals().release(daemon.taps());
    };
    (StreamBody(receiver), work)
}

async fn send_packets(
    daemon: &Daemon,
    mut packets: CaptureReader,
    body: &Sender<Frame<Bytes>>,
) -> Result<(), WriteError> {
    let mut encoder = Encoder::new(daemon.epoch(), packets.watch().wanted().snaplen)?;
    // Send the header at once: it shows the reader that the capture has begun.
    let mut open = body.send(Frame::data(encoder.take()?)).await.is_ok();
    while open {
        let next = tokio::select! {
            next = packets.next() => next,
            () = body.closed() => return Ok(()),
        };
        let Some(first) = next else { break };
        let names = daemon.names();
        encoder.add(&first, &names)?;
        for _ in 1..PACKETS_PER_CHUNK {
            let Some(more) = packets.try_next() else { break };
            encoder.add(&more, &names)?;
        }
        open = body.send(Frame::data(encoder.take()?)).await.is_ok();
    }
    send_trailer(body, packets.watch().missed()).await;
    Ok(())
}

/// Sends the trailer.
async fn send_trailer(body: &Sender<Frame<Bytes>>, missed: u64) {
    let mut trailers = HeaderMap::new();
    trailers.insert(MISSED, HeaderValue::from(missed));
    let _ = body.send(Frame::trailers(trailers)).await;
}

/// Returns a body with the traces of `packets`, one line of JSON each, and the future that fills it until either end is gone.
pub(crate) fn trace_body(daemon: Arc<Daemon>, packets: TraceReader) -> (StreamBody, impl Future<Output = ()> + Send) {
    let (sender, receiver) = channel(4);
    (StreamBody(receiver), async move { send_traces(&daemon, packets, &sender).await })
}

/// Bytes of packets for a slow path in one piece of the body. With few pieces in flight, a client that does not read keeps little memory; further packets
/// wait in the bounded queue of their slice.
const SLOW_PATH_CHUNK: usize = 32 << 10;

/// Returns a body with the packets for the slow path of a slice, one line of JSON each, and the future that fills it until either end is gone. `ready` is
/// notified when a packet waits.
pub(crate) fn slow_path_body(
    reader: SlowPathReader,
    ready: Arc<Notify>,
) -> (StreamBody, impl Future<Output = ()> + Send) {
    let (sender, receiver) = channel(1);
    let work = async move {
        loop {
            let mut text = Vec::new();
            while text.len() < SLOW_PATH_CHUNK {
                // One by one: the packets of a client that hangs up stay for the next one, except those on their way.
                let Some(taken) = reader.take(1) else { return };
                let Some(exception) = taken.first() else { break };
                serde_json::to_writer(&mut text, exception).expect("the types of the API have text keys only");
                text.push(b'\n');
            }
            if text.is_empty() {
                tokio::select! {
                    () = ready.notified() => {}
                    () = sender.closed() => return,
                }
            } else if sender.send(Frame::data(text.into())).await.is_err() {
                return;
            }
        }
    };
    (StreamBody(receiver), work)
}

/// Returns a body with a CPU scheduler trace of `time`, and the future that records it and then fills the body.
pub(crate) fn cpu_trace_body(looking: ScheduleRecording, time: Nanos) -> (StreamBody, impl Future<Output = ()> + Send) {
    let (sender, receiver) = channel(4);
    let work = async move {
        let ended = looking.ended();
        let over = async {
            tokio::select! {
                () = sender.closed() => {}
                () = ended => {}
            }
        };
        if tokio::time::timeout(time.into(), over).await.is_ok() {
            return;
        }
        let body = sender.clone();
        let written = tokio::task::spawn_blocking(move || {
            let mut out = std_io::BufWriter::with_capacity(CHUNK_BYTES, ChunkWriter(body));
            let lost = looking.write(&mut out)?;
            out.flush().map(|()| lost)
        });
        // If it was not written, the client has hung up.
        if let Ok(Ok(lost)) = written.await {
            send_trailer(&sender, lost).await;
        }
    };
    (StreamBody(receiver), work)
}

/// Bytes of a piece of a body.
const CHUNK_BYTES: usize = 64 << 10;

/// A body written by a thread that may block.
struct ChunkWriter(Sender<Frame<Bytes>>);

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> std_io::Result<usize> {
        let sent = self.0.blocking_send(Frame::data(Bytes::copy_from_slice(bytes)));
        sent.map(|()| bytes.len()).map_err(|_| std_io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> std_io::Result<()> {
        Ok(())
    }
}

async fn send_traces(daemon: &Daemon, mut packets: TraceReader, body: &Sender<Frame<Bytes>>) {
    let mut open = true;
    while open {
        let next = tokio::select! {
            next = packets.next() => next,
            () = body.closed() => return,
        };
        let Some(first) = next else { break };
        let teller = daemon.trace_formatter();
        let rest = std::iter::from_fn(|| packets.try_next()).take(PACKETS_PER_CHUNK - 1);
        let mut text = Vec::new();
        for gathered in std::iter::once(first).chain(rest) {
            serde_json::to_writer(&mut text, &teller.to_reply(&gathered))
                .expect("the types of the API have text keys only");
            text.push(b'\n');
        }
        open = body.send(Frame::data(text.into())).await.is_ok();
    }
    send_trailer(body, packets.watch().tap().missed()).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::pcap::Reader;
    use packet::DropReason;
    use units::PathId;

    #[test]
    fn capture_stream_round_trips_packets_and_fates() {
        let mut encoder = Encoder::new(Nanos::secs(1000), Some(64)).unwrap();
        let packet = |fate, in_port| CapturedFrame {
            time: Instant::new(5),
            frame: vec![7; 64],
            length: 1500,
            fate,
            in_port,
            path: Some(PathId(2)),
            arrival: None,
        };
        let names = Names::default();
        let mut bytes = Vec::new();
        for packet in [
            packet(Fate::Sent(PortId(1)), Some(PortId(0))),
            packet(Fate::Dropped(DropReason::TtlExpired), Some(PortId(0))),
            packet(Fate::Dropped(DropReason::NoRoute), None),
        ] {
            encoder.add(&packet, &names).unwrap();
            bytes.extend(encoder.take().unwrap());
        }
        let mut reader = Reader::new(&bytes[..]).unwrap();
        let mut seen = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            assert_eq!((record.time.get(), record.original, record.data.len()), (1_000_000_000_005, 1500, 64));
            seen.push((record.interface, record.direction, record.comment.to_owned()));
        }
        let expected = [
            (0, PcapDirection::Out, "sent #1, path #2, in #0"),
            (1, PcapDirection::In, "dropped ttl_expired, path #2, in #0"),
            (2, PcapDirection::In, "dropped no_route, path #2, generated"),
        ];
        assert_eq!(seen, expected.map(|(interface, way, comment)| (interface, way, comment.to_owned())));
        let interfaces: Vec<&str> = reader.interfaces().iter().map(|i| i.name.as_str()).collect();
        assert_eq!(interfaces, ["#1", "#0", "router"]);
    }
}
