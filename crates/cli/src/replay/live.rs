//! Replays a capture into the running router: frames enter on one of its ports at their recorded times, and the router reports the fate of each.

use super::{ReplayListener, ReplayObserver, none_judged, print};
use crate::arguments::{ReplayArguments, UsageError};
use crate::output::print_json;
use anyhow::{Context, Result, anyhow};
use control::api::{Status, TracedPacket};
use control::replay::{Departure, DropCount, ReplayReport, ReplaySource};
use control::request::MOST_FRAMES;
use control::{Body, Client};
use io::clock;
use io::wait::{Sleeper, Waker};
use packet::DropReason;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, stdout};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use units::{Instant, Nanos};

/// Frames due within this time are sent in one request.
const BATCH_SPAN: Nanos = Nanos::millis(1);
/// The longest wait for the fate of packets that the router still holds.
const PATIENCE: Nanos = Nanos::secs(5);

/// The most packets without a reported fate. The router buffers 1024 reports for a slow reader.
const MAX_UNREPORTED: u64 = 768;

/// The packet fates so far.
#[derive(Default)]
struct Fates {
    sent: BTreeMap<String, u64>,
    consumed: u64,
    dropped: BTreeMap<String, DropCount>,
    reported: u64,
    /// Packets whose fates were not reported in time.
    unreported: u64,
}

/// Sends the capture to the router and reports the packet fates.
pub fn replay(arguments: &ReplayArguments, source: &ReplaySource) -> Result<ExitCode> {
    let Some(port) = &arguments.port else {
        return Err(anyhow!(UsageError("give the ingress port of the packets with --port".to_owned())));
    };
    let client = arguments.socket.client();
    let status: Status = client.get("/v1/status")?;
    let all = source.packets.saturating_mul(arguments.rounds);
    let parameters = [
        ("injected", "true".to_owned()),
        ("port", port.clone()),
        ("limit", all.to_string()),
        ("match", "any".to_owned()),
    ];
    let told = packet_reports(client.open_stream("/v1/trace", &parameters)?)?;
    let mut watching = ReplayObserver::new(arguments, source);
    let began = clock::now();
    let mut fates = Fates::default();
    let mut giver = FrameSender {
        client,
        port,
        as_ours: arguments.as_ours,
        frames: String::new(),
        pending: 0,
        accepted: 0,
        offered: 0,
    };
    let (mut lap, mut failed) = (Nanos::ZERO, Ok(()));
    for _ in 0..arguments.rounds {
        let mut latest = Nanos::ZERO;
        source.for_each_packet(|recorded| {
            if failed.is_ok() {
                latest = latest.max(recorded.after);
                let due = began + arguments.speed.due(lap + latest);
                failed = giver.add(due, recorded.frame, arguments.as_ours || recorded.is_ours());
                fates.wait(began, giver.accepted.saturating_sub(MAX_UNREPORTED), &told, &mut watching);
                watching.progress(giver.offered, all);
            }
        })?;
        lap += source.round_time();
    }
    failed.and_then(|()| giver.send_batch())?;
    watching.progress(all, all);
    fates.wait(began, giver.accepted, &told, &mut watching);
    watching.finish()?;
    let report =
        fates.report(&status, (source, arguments.as_ours || source.has_mac_addresses), all, clock::now().since(began));
    let mut out = stdout().lock();
    if arguments.json {
        print_json(&mut out, &report)?
    } else {
        print(&mut out, arguments, &report)?
    }
    Ok(if none_judged(&report)? { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns the packet reports of the router. A thread reads them, and ends when they end.
fn packet_reports(body: Body) -> Result<Receiver<TracedPacket>> {
    let (sender, told) = channel();
    let read = move || {
        for line in BufReader::new(body).lines() {
            let Some(packet) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { return };
            if sender.send(packet).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("told".into()).spawn(read).context("cannot start a thread")?;
    Ok(told)
}

/// Sends frames to the router, in one request those that are due together.
struct FrameSender<'a> {
    client: Client,
    port: &'a str,
    /// True if the pending frames count as addressed to the port, despite their destination MAC addresses.
    as_ours: bool,
    frames: String,
    pending: usize,
    accepted: u64,
    offered: u64,
}

impl FrameSender<'_> {
    fn add(&mut self, due: Instant, frame: &[u8], ours: bool) -> Result<()> {
        if ours != self.as_ours {
            // The flag applies to all frames of a request.
            self.send_batch()?;
            self.as_ours = ours;
        }
        if due > clock::now() + BATCH_SPAN {
            self.send_batch()?;
            let early = due.since(clock::now());
            Sleeper::new(Waker::new()?).sleep([], early)?;
        }
        frame.iter().for_each(|byte| self.frames += &format!("{byte:02x}"));
        self.frames.push('\n');
        self.pending += 1;
        if self.pending == MOST_FRAMES { self.send_batch() } else { Ok(()) }
    }

    fn send_batch(&mut self) -> Result<()> {
        if self.pending > 0 {
            self.accepted += self.client.inject(self.port, self.as_ours, &self.frames)?.packets;
            self.offered += self.pending as u64;
            self.pending = 0;
            self.frames.clear();
        }
        Ok(())
    }
}

impl Fates {
    /// Receives reports until the fates of `wanted` packets are known.
    fn wait(&mut self, began: Instant, wanted: u64, told: &Receiver<TracedPacket>, watching: &mut ReplayObserver) {
        self.record(began, told.try_iter(), watching);
        let end = clock::now() + PATIENCE;
        while self.reported + self.unreported < wanted {
            match told.recv_timeout(end.since(clock::now()).into()) {
                Ok(packet) => self.record(began, [packet].into_iter(), watching),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    self.unreported = wanted - self.reported
                }
            }
        }
    }

    fn record(&mut self, began: Instant, packets: impl Iterator<Item = TracedPacket>, watching: &mut ReplayObserver) {
        for packet in packets {
            self.reported += 1;
            match (&packet.drop, &packet.out_port) {
                (Some(drop), _) => {
                    let count = || DropCount { packets: 0, first_packet: None, drop: drop.clone() };
                    self.dropped.entry(drop.reason.clone()).or_insert_with(count).packets += 1;
                }
                (None, Some(port)) => {
                    *self.sent.entry(port.clone()).or_default() += 1;
                    let after =
                        Nanos::new((packet.time_ns + packet.took_ns).saturating_sub((began + clock::epoch()).get()));
                    if let Some(frame) = packet.sent_frame.as_deref().and_then(crate::trace::bytes) {
                        watching.departed(vec![Departure { after, port: port.clone(), packet: None, frame }]);
                    }
                }
                (None, None) => self.consumed += 1,
            }
        }
    }

    /// Reports the fates of `all` packets. Without `judges` the capture does not record whether frames for another host were addressed to the router.
    fn report(
        mut self,
        status: &Status,
        (source, judges): (&ReplaySource, bool),
        all: u64,
        took: Nanos,
    ) -> ReplayReport {
        let unknown = (!judges).then(|| self.dropped.remove(DropReason::OtherStation.name())).flatten();
        let mut dropped: Vec<DropCount> = self.dropped.into_values().collect();
        dropped.sort_by_key(|drop| std::cmp::Reverse(drop.packets));
        ReplayReport {
            config: format!("{} (generation {})", status.name, status.generation),
            packets: all,
            outgoing_packets: source.outgoing,
            cut_packets: source.cut,
            duration_ns: took.get(),
            sent: self.sent,
            consumed_packets: self.consumed,
            dropped,
            unjudged_packets: unknown.map_or(0, |drop| drop.packets),
            lost_packets: all - self.reported.min(all),
            generated: BTreeMap::new(),
            assumed_neighbours: Vec::new(),
            against: None,
        }
    }
}
