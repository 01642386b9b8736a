//! What the workers tell: events for the log, and packets for whoever captures them.
//!
//! A worker waits for nobody. A packet that a capture is not ready to take is counted as missed and forgotten; with no
//! capture open, a worker pays one load a step.

use crate::events::{EventLog, What};
use crate::names::Names;
use arc_swap::ArcSwap;
use packet::Meta;
use packet::wire;
use parking_lot::Mutex;
use plan::{Fields, Match};
use plane::event::{Event, Fate, Observer, Wants};
use plane::snapshot::CONTROL;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use units::{Instant, InterfaceId, PathId, PortId};

/// Captures at once.
pub const MOST_TAPS: usize = 8;
/// Packets that wait for the reader of a capture.
const DEPTH: usize = 4096;

/// One worker's observer.
pub(crate) struct Watcher {
    pub log: Arc<EventLog>,
    pub taps: Arc<Taps>,
}

impl Observer for Watcher {
    fn event(&mut self, now: Instant, event: &Event<'_>) {
        if let Event::Packet { frame, meta, fate, .. } = *event {
            self.taps.offer(now, frame, meta, fate);
        } else if let Some(what) = What::of(event) {
            self.log.push(now, what);
        }
    }

    fn wants(&self) -> Wants {
        Wants { packets: self.taps.open.load(Ordering::Relaxed) > 0, stages: false }
    }
}

/// What to take.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Which packets.
    pub matching: Match,
    /// The interface they came in by, where that matters: [`Match::iif`] resolved.
    pub interface: Option<InterfaceId>,
    /// How many; no limit where none.
    pub limit: Option<u64>,
    /// The most bytes of each; all where none.
    pub snaplen: Option<usize>,
}

/// A packet that met its fate.
#[derive(Clone, Debug)]
pub struct Captured {
    /// When.
    pub time: Instant,
    /// The frame, cut to what was wanted.
    pub frame: Vec<u8>,
    /// Its length before, in bytes.
    pub length: usize,
    /// What became of it.
    pub fate: Fate,
    /// The port it came in by; nothing for the router's own packets.
    pub in_port: Option<PortId>,
    /// The path it took last; nothing where it met its fate before it took one.
    pub path: Option<PathId>,
}

impl Captured {
    /// The fate in one line, as captures have it for a comment: `sent wan, path best-effort, in lan`.
    pub(crate) fn comment(&self, names: &Names) -> String {
        let mut comment = match self.fate {
            Fate::Sent(port) => format!("sent {}", names.port(port)),
            Fate::Consumed => "consumed".to_owned(),
            Fate::Dropped(reason) => format!("dropped {}", reason.name()),
        };
        if let Some(path) = self.path {
            comment += &format!(", path {}", names.path(path));
        }
        match self.in_port {
            Some(port) => comment += &format!(", in {}", names.port(port)),
            None => comment += ", generated",
        }
        comment
    }
}

/// The captures that are open.
#[derive(Default)]
pub struct Taps {
    open: AtomicUsize,
    list: ArcSwap<Vec<Armed>>,
    // Held while the list is changed. Nobody reads under it; true when no more are opened.
    closed: Mutex<bool>,
}

/// A tap and the way to its reader, which ends when this does.
#[derive(Clone)]
struct Armed {
    tap: Arc<Tap>,
    sender: Sender<Captured>,
}

/// One capture.
#[derive(Debug)]
pub struct Tap {
    wanted: Wanted,
    /// Whether it asks nothing of the packet itself, and so takes what is not IP as well.
    everything: bool,
    left: AtomicU64,
    captured: AtomicU64,
    missed: AtomicU64,
}

impl Tap {
    fn new(wanted: Wanted) -> Tap {
        let mut rest = wanted.matching.clone();
        rest.iif = None;
        Tap {
            everything: rest == Match::default(),
            left: AtomicU64::new(wanted.limit.unwrap_or(u64::MAX)),
            captured: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            wanted,
        }
    }

    /// What it takes.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }
    /// Packets handed to its reader.
    pub fn captured(&self) -> u64 {
        self.captured.load(Ordering::Relaxed)
    }
    /// Packets its reader was too slow for.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    fn takes(&self, frame: &[u8], meta: &Meta) -> bool {
        let Wanted { matching, interface, .. } = &self.wanted;
        let elsewhere = |wanted| wanted != meta.in_interface || meta.flags & Meta::GENERATED != 0;
        if interface.is_some_and(elsewhere) || self.left.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.everything || fields(frame).is_some_and(|fields| matching.matches(&fields))
    }
}

/// What a match looks at; nothing for a frame that is not IP.
fn fields(frame: &[u8]) -> Option<Fields> {
    let found = wire::Fields::of(frame)?;
    Some(Fields {
        source: found.source,
        destination: found.destination,
        protocol: found.protocol,
        dscp: found.dscp,
        sport: found.sport.unwrap_or(0),
        dport: found.dport.unwrap_or(0),
        fragment: found.sport.is_none(),
    })
}

impl Taps {
    #[cold]
    fn offer(&self, now: Instant, frame: &[u8], meta: &Meta, fate: Fate) {
        for Armed { tap, sender } in self.list.load().iter().filter(|armed| armed.tap.takes(frame, meta)) {
            // A place first: what a full channel refuses need not be copied.
            let Ok(place) = sender.try_reserve() else {
                tap.missed.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            // Two workers may meet here with one packet left to take.
            if tap.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err() {
                continue;
            }
            let own = meta.flags & Meta::GENERATED != 0;
            // The path's number is zero until there is one, and that is the number of `control`, which refuses nothing.
            place.send(Captured {
                time: now,
                frame: frame[..frame.len().min(tap.wanted.snaplen.unwrap_or(usize::MAX))].to_vec(),
                length: frame.len(),
                fate,
                in_port: (!own).then_some(meta.in_port),
                path: (meta.path != CONTROL || meta.refused == 0).then_some(meta.path),
            });
            tap.captured.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Opens a capture; nothing where there are [`MOST_TAPS`] already, or the router is ending.
    pub fn open(self: &Arc<Self>, wanted: Wanted) -> Option<Subscription> {
        let closed = self.closed.lock();
        let list = self.list.load_full();
        if *closed || list.len() >= MOST_TAPS {
            return None;
        }
        let (sender, receiver) = channel(DEPTH);
        let tap = Arc::new(Tap::new(wanted));
        let mut longer = Vec::clone(&list);
        longer.push(Armed { tap: tap.clone(), sender });
        self.replace(longer);
        Some(Subscription { tap, receiver, taps: self.clone() })
    }

    /// The captures that are open.
    pub fn list(&self) -> Vec<Arc<Tap>> {
        self.list.load().iter().map(|armed| armed.tap.clone()).collect()
    }

    /// Ends every capture: their readers get what was taken, and then the end.
    pub fn close(&self) {
        let mut closed = self.closed.lock();
        *closed = true;
        self.replace(Vec::new());
    }

    fn replace(&self, list: Vec<Armed>) {
        self.open.store(list.len(), Ordering::Relaxed);
        self.list.store(Arc::new(list));
    }
}

/// The reader's end of a capture, which ends when this is dropped.
pub struct Subscription {
    tap: Arc<Tap>,
    receiver: Receiver<Captured>,
    taps: Arc<Taps>,
}

impl Subscription {
    /// The capture.
    pub fn tap(&self) -> &Arc<Tap> {
        &self.tap
    }

    /// The next packet; nothing when the limit is reached or the router ends.
    pub async fn next(&mut self) -> Option<Captured> {
        if self.tap.left.load(Ordering::Relaxed) == 0 {
            self.receiver.close();
        }
        self.receiver.recv().await
    }

    /// The next packet, if it is there.
    pub fn try_next(&mut self) -> Option<Captured> {
        self.receiver.try_recv().ok()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let _changing = self.taps.closed.lock();
        let list = self.taps.list.load_full();
        self.taps.replace(list.iter().filter(|armed| !Arc::ptr_eq(&armed.tap, &self.tap)).cloned().collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::DropReason;

    /// A UDP packet from `lan` (interface 1) to port `dport`.
    fn offer(taps: &Arc<Taps>, dport: u16, fate: Fate) {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..18].copy_from_slice(&[0x45, 0, 0, 46]);
        frame[22..24].copy_from_slice(&[64, 17]);
        frame[26..34].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
        frame[36..38].copy_from_slice(&dport.to_be_bytes());
        frame[38..40].copy_from_slice(&[0, 26]);
        let mut meta = Meta::default();
        (meta.in_interface, meta.in_port, meta.path) = (InterfaceId(1), PortId(3), PathId(2));
        taps.offer(Instant::new(9), &frame, &meta, fate);
    }

    fn wanted(matching: &str) -> Wanted {
        Wanted { matching: matching.parse().unwrap(), ..Wanted::default() }
    }

    fn taken(subscription: &mut Subscription) -> usize {
        std::iter::from_fn(|| subscription.try_next()).count()
    }

    #[test]
    fn a_capture_takes_what_it_wants_up_to_its_limit() {
        let taps = Arc::new(Taps::default());
        let mut all = taps.open(wanted("any")).unwrap();
        let mut dns = taps.open(Wanted { snaplen: Some(34), limit: Some(2), ..wanted("udp dport 53") }).unwrap();
        let mut other = taps.open(Wanted { interface: Some(InterfaceId(2)), ..wanted("iif wan") }).unwrap();
        for dport in [53, 80, 53, 53] {
            offer(&taps, dport, Fate::Dropped(DropReason::NoRoute));
        }
        let first = dns.try_next().unwrap();
        assert_eq!((first.frame.len(), first.length, first.time.get()), (34, 60, 9));
        assert_eq!((taken(&mut all), taken(&mut dns), taken(&mut other)), (4, 1, 0));
        assert_eq!((dns.tap().captured(), dns.tap().missed()), (2, 0));
        let comment = first.comment(&Names::default());
        assert_eq!(comment, "dropped no_route, path #2, in #3");
    }

    #[test]
    fn what_is_not_ip_is_taken_by_captures_that_ask_nothing_of_it() {
        let taps = Arc::new(Taps::default());
        let mut any = taps.open(wanted("any")).unwrap();
        let mut ip = taps.open(wanted("ip")).unwrap();
        taps.offer(Instant::START, &[0; 60], &Meta::default(), Fate::Consumed);
        taps.offer(Instant::START, &[], &Meta::default(), Fate::Consumed);
        assert_eq!((taken(&mut any), taken(&mut ip)), (2, 0));
    }

    #[test]
    fn a_reader_that_stands_still_costs_packets_of_its_own_capture_only() {
        let taps = Arc::new(Taps::default());
        let mut slow = taps.open(wanted("any")).unwrap();
        for _ in 0..DEPTH + 10 {
            offer(&taps, 1, Fate::Consumed);
        }
        assert_eq!(slow.tap().missed(), 10);
        assert_eq!(taken(&mut slow), DEPTH);
    }

    #[test]
    fn captures_are_bounded_and_their_places_come_back() {
        let taps = Arc::new(Taps::default());
        let mut open: Vec<_> = (0..MOST_TAPS).map(|_| taps.open(Wanted::default()).unwrap()).collect();
        assert!(taps.open(Wanted::default()).is_none());
        open.pop();
        open.push(taps.open(Wanted::default()).unwrap());
        offer(&taps, 1, Fate::Consumed);
        taps.close();
        assert!(taps.list().is_empty() && taps.open(Wanted::default()).is_none());
        // What was taken before the end is still there, and then comes the end.
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(open[0].next()).is_some());
        assert!(runtime.block_on(open[0].next()).is_none());
        drop(open);
        assert_eq!(taps.open.load(Ordering::Relaxed), 0);
    }
}
