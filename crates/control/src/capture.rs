//! Captures: the packets a reader wants, and the packets delivered to it with their fates.
//!
//! A worker never waits for a reader. If the reader's channel is full, the packet is counted as missed.

use crate::names::Names;
use crate::subscriptions::{Subscription, Subscriptions, Watch, WatchChannel};
use classifier::SetStore;
use fib::Tables;
use packet::Meta;
use packet::event::Fate;
use plan::{Match, MatchFields, NoSets};
use plane::fields::match_fields;
use plane::snapshot::CONTROL;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Instant, InterfaceId, PathId, PortId, VrfId};

/// The most simultaneous captures.
pub const MOST_TAPS: usize = 8;

/// The open captures.
pub type CaptureTaps = Subscriptions<CaptureTap>;

/// A packet as received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceivedFrame {
    /// The time of arrival.
    pub time: Instant,
    /// The port.
    pub port: PortId,
    /// The frame, from its first link-layer byte.
    pub frame: Vec<u8>,
}

/// The packets to capture.
#[derive(Clone, Debug, Default)]
pub struct CaptureFilter {
    /// The match they fulfil.
    pub matching: Match,
    /// Their ingress interface, if it matters: [`Match::iif`] resolved.
    pub interface: Option<InterfaceId>,
    /// The VRF of their ingress interface, if it matters: [`Match::vrf`] resolved.
    pub vrf: Option<VrfFilter>,
    /// The sets that the match names, with the elements of each moment; none if it names none.
    pub sets: Option<Arc<SetStore>>,
    /// The number of packets; none for no limit.
    pub limit: Option<u64>,
    /// The most bytes of each packet; none for all.
    pub snaplen: Option<usize>,
    /// Also capture each packet as received.
    pub arrivals: bool,
}

/// A VRF, and the tables that know which interfaces belong to it.
#[derive(Clone)]
pub struct VrfFilter {
    /// The VRF.
    pub vrf: VrfId,
    /// The router's tables.
    pub tables: Arc<Tables>,
}

impl VrfFilter {
    fn accepts(&self, interface: InterfaceId) -> bool {
        self.tables.vrf_of(interface) == self.vrf
    }
}

impl fmt::Debug for VrfFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VrfFilter").field("vrf", &self.vrf).finish_non_exhaustive()
    }
}

/// A packet that met its fate.
#[derive(Clone, Debug)]
pub struct CapturedFrame {
    /// The time of its fate.
    pub time: Instant,
    /// The frame, truncated to the wanted length.
    pub frame: Vec<u8>,
    /// Its original length in bytes.
    pub length: usize,
    /// The fate.
    pub fate: Fate,
    /// The ingress port; none for the router's own packets.
    pub in_port: Option<PortId>,
    /// Its last path; none if it met its fate before.
    pub path: Option<PathId>,
    /// The untruncated packet as received; none if that was not wanted or not kept.
    pub arrival: Option<ReceivedFrame>,
}

impl CapturedFrame {
    /// Returns the fate in one line, as in the comments of captures: `sent wan, path best-effort, in lan`.
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

impl Watch for CaptureTap {
    type Item = CapturedFrame;
    const DEPTH: usize = 4096;

    fn is_done(&self) -> bool {
        self.remaining.load(Ordering::Relaxed) == 0
    }
}

/// A capture.
#[derive(Debug)]
pub struct CaptureTap {
    wanted: CaptureFilter,
    /// True if the match has no condition on the packet, so that it also accepts frames without IP.
    matches_all: bool,
    remaining: AtomicU64,
    captured: AtomicU64,
    missed: AtomicU64,
    /// When the first packets were seen on arrival, in nanoseconds; zero before.
    begun: AtomicU64,
}

impl CaptureTap {
    /// Builds a capture of the wanted packets.
    pub fn new(wanted: CaptureFilter) -> CaptureTap {
        let mut rest = wanted.matching.clone();
        (rest.iif, rest.vrf) = (None, None);
        CaptureTap {
            matches_all: rest == Match::default(),
            remaining: AtomicU64::new(wanted.limit.unwrap_or(u64::MAX)),
            captured: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            wanted,
        }
    }

    /// Returns the wanted packets.
    pub fn wanted(&self) -> &CaptureFilter {
        &self.wanted
    }
    /// Returns the number of packets delivered to the reader.
    pub fn captured(&self) -> u64 {
        self.captured.load(Ordering::Relaxed)
    }
    /// Returns the number of packets missed because the reader was too slow.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Returns whether the capture matches this packet and its limit is not reached.
    pub(crate) fn matches(&self, frame: &[u8], meta: &Meta) -> bool {
        let CaptureFilter { matching, interface, vrf, sets, .. } = &self.wanted;
        // The router's own packets have no ingress interface.
        let generated = meta.flags & Meta::GENERATED != 0;
        let elsewhere = |wanted| generated || wanted != meta.in_interface;
        let in_other_vrf = |wanted: &VrfFilter| generated || !wanted.accepts(meta.in_interface);
        if interface.is_some_and(elsewhere) || self.remaining.load(Ordering::Relaxed) == 0 {
            return false;
        }
        if vrf.as_ref().is_some_and(in_other_vrf) {
            return false;
        }
        let accepts = |fields: &MatchFields| match sets {
            Some(sets) => matching.matches(fields, &*sets.latest()),
            None => matching.matches(fields, &NoSets),
        };
        self.matches_all || match_fields(frame, meta.connection).is_some_and(|fields| accepts(&fields))
    }

    /// Records that packets are seen on arrival from now on.
    pub(crate) fn begin(&self, now: Instant) {
        let _ = self.begun.compare_exchange(0, now.get().max(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// True for a packet that arrived before the capture could see it. A replay would lack it, so it is not captured.
    fn is_too_early(&self, meta: &Meta) -> bool {
        let begun = self.begun.load(Ordering::Relaxed);
        self.wanted.arrivals && meta.flags & Meta::GENERATED == 0 && (begun == 0 || meta.timestamp.get() < begun)
    }

    /// Takes one packet from the limit. Returns false if another worker has taken the last one.
    pub(crate) fn take_from_limit(&self) -> bool {
        self.remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Returns one packet to the limit, for a packet that could not be traced.
    pub(crate) fn return_to_limit(&self) {
        self.remaining.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a packet as delivered or missed.
    pub(crate) fn count(&self, handed: bool) {
        let counter = if handed { &self.captured } else { &self.missed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Offers a packet to every capture.
#[cold]
pub(crate) fn offer(
    taps: &CaptureTaps,
    now: Instant,
    frame: &[u8],
    meta: &Meta,
    fate: Fate,
    arrival: Option<ReceivedFrame>,
) {
    // A match may describe the packet as received or as sent: translation changes its addresses.
    let came = |tap: &CaptureTap| arrival.as_ref().filter(|came| tap.wanted.arrivals && tap.matches(&came.frame, meta));
    let takes = |tap: &CaptureTap| tap.matches(frame, meta) || came(tap).is_some();
    for WatchChannel { watch: tap, sender } in taps.channels().iter().filter(|armed| takes(&armed.watch)) {
        if arrival.is_none() && tap.is_too_early(meta) {
            continue;
        }
        // Reserve a slot first: a packet for a full channel need not be copied.
        let Ok(place) = sender.try_reserve() else {
            tap.count(false);
            continue;
        };
        // Two workers may compete for the last packet of the limit.
        if !tap.take_from_limit() {
            continue;
        }
        let own = meta.flags & Meta::GENERATED != 0;
        // Before classification the path is 0, the number of `control`. A refused packet never comes from `control`, so it has no path yet.
        place.send(CapturedFrame {
            time: now,
            frame: frame[..frame.len().min(tap.wanted.snaplen.unwrap_or(usize::MAX))].to_vec(),
            length: frame.len(),
            fate,
            in_port: (!own).then_some(meta.in_port),
            path: (meta.path != CONTROL || meta.refused == 0).then_some(meta.path),
            arrival: arrival.clone().filter(|_| tap.wanted.arrivals),
        });
        tap.count(true);
    }
}

/// The reader's end of a capture.
pub type CaptureReader = Subscription<CaptureTap>;

#[cfg(test)]
mod tests {
    use super::*;
    use classifier::{Set, SetEdit, SetElement, SetWriteError};
    use packet::DropReason;
    use plan::{SetKind, SetValue};

    /// Offers a UDP packet from `lan` (interface 1) to port `dport`.
    fn offer(taps: &Arc<CaptureTaps>, dport: u16, fate: Fate) {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..18].copy_from_slice(&[0x45, 0, 0, 46]);
        frame[22..24].copy_from_slice(&[64, 17]);
        frame[26..34].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
        frame[36..38].copy_from_slice(&dport.to_be_bytes());
        frame[38..40].copy_from_slice(&[0, 26]);
        let mut meta = Meta::default();
        (meta.in_interface, meta.in_port, meta.path) = (InterfaceId(1), PortId(3), PathId(2));
        super::offer(taps, Instant::new(9), &frame, &meta, fate, None);
    }

    fn wanted(matching: &str) -> CaptureFilter {
        CaptureFilter { matching: matching.parse().unwrap(), ..CaptureFilter::default() }
    }

    fn opened(taps: &Arc<CaptureTaps>, wanted: CaptureFilter) -> CaptureReader {
        taps.open(CaptureTap::new(wanted)).unwrap()
    }

    fn taken(subscription: &mut CaptureReader) -> usize {
        std::iter::from_fn(|| subscription.try_next()).count()
    }

    #[test]
    fn packet_that_arrived_before_the_capture_is_left_out_of_a_capture_of_arrivals() {
        let taps = Arc::new(CaptureTaps::new(MOST_TAPS));
        let as_sent = taps.open(CaptureTap::new(CaptureFilter::default())).unwrap();
        let for_replay =
            taps.open(CaptureTap::new(CaptureFilter { arrivals: true, ..CaptureFilter::default() })).unwrap();
        let offer = |at: u64| {
            let meta = Meta { timestamp: Instant::new(at), ..Meta::default() };
            super::offer(&taps, Instant::new(at + 5), &[0; 60], &meta, Fate::Consumed, None);
        };
        offer(100);
        taps.channels().iter().for_each(|armed| armed.watch.begin(Instant::new(110)));
        offer(105);
        // A packet whose received form found no memory is captured as sent.
        offer(110);
        let captured: Vec<u64> = taps.channels().iter().map(|armed| armed.watch.captured()).collect();
        assert_eq!(captured, [3, 1]);
        drop((as_sent, for_replay));
    }

    #[test]
    fn capture_delivers_matching_packets_up_to_limit() {
        let taps = Arc::new(CaptureTaps::new(MOST_TAPS));
        let mut all = opened(&taps, wanted("any"));
        let mut dns = opened(&taps, CaptureFilter { snaplen: Some(34), limit: Some(2), ..wanted("udp dport 53") });
        let mut other = opened(&taps, CaptureFilter { interface: Some(InterfaceId(2)), ..wanted("iif wan") });
        for dport in [53, 80, 53, 53] {
            offer(&taps, dport, Fate::Dropped(DropReason::NoRoute));
        }
        let first = dns.try_next().unwrap();
        assert_eq!((first.frame.len(), first.length, first.time.get()), (34, 60, 9));
        assert_eq!((taken(&mut all), taken(&mut dns), taken(&mut other)), (4, 1, 0));
        assert_eq!((dns.watch().captured(), dns.watch().missed()), (2, 0));
        let comment = first.comment(&Names::default());
        assert_eq!(comment, "dropped no_route, path #2, in #3");
    }

    #[test]
    fn capture_follows_the_elements_of_its_sets() {
        let (taps, sets) = (Arc::new(CaptureTaps::new(MOST_TAPS)), Arc::new(SetStore::default()));
        let defined: Result<_, SetWriteError> =
            sets.write(|draft| Ok(draft.define("web", Set::new(SetKind::Port, 16), Instant::START)));
        defined.unwrap();
        let mut web = opened(&taps, CaptureFilter { sets: Some(sets.clone()), ..wanted("udp dport @web") });
        offer(&taps, 80, Fate::Consumed);
        let element = SetElement { value: SetValue::Ports(80, 81), expires: Instant::NEVER };
        sets.edit("web", [SetEdit::Add(element)], Instant::START).unwrap();
        for dport in [79, 80, 81, 82] {
            offer(&taps, dport, Fate::Consumed);
        }
        assert_eq!(taken(&mut web), 2);
    }

    #[test]
    fn capture_of_a_vrf_delivers_packets_that_arrived_in_it() {
        let (taps, tables) = (Arc::new(CaptureTaps::new(MOST_TAPS)), Arc::new(Tables::new()));
        // Packets of `offer` arrive on interface 1.
        tables.attach(InterfaceId(1), VrfId(1));
        let of = |vrf| CaptureFilter { vrf: Some(VrfFilter { vrf, tables: tables.clone() }), ..wanted("vrf any-name") };
        let mut red = opened(&taps, of(VrfId(1)));
        let mut main = opened(&taps, of(VrfId::MAIN));
        offer(&taps, 80, Fate::Consumed);
        let generated = Meta { flags: Meta::GENERATED, in_interface: InterfaceId(1), ..Meta::default() };
        super::offer(&taps, Instant::START, &[0; 60], &generated, Fate::Consumed, None);
        assert_eq!((taken(&mut red), taken(&mut main)), (1, 0));
    }

    #[test]
    fn capture_without_match_delivers_non_ip_frames() {
        let taps = Arc::new(CaptureTaps::new(MOST_TAPS));
        let mut any = opened(&taps, wanted("any"));
        let mut ip = opened(&taps, wanted("ip"));
        super::offer(&taps, Instant::START, &[0; 60], &Meta::default(), Fate::Consumed, None);
        super::offer(&taps, Instant::START, &[], &Meta::default(), Fate::Consumed, None);
        assert_eq!((taken(&mut any), taken(&mut ip)), (2, 0));
    }

    #[test]
    fn a_stalled_reader_misses_packets_of_its_own_capture_only() {
        let taps = Arc::new(CaptureTaps::new(MOST_TAPS));
        let mut slow = opened(&taps, wanted("any"));
        for _ in 0..CaptureTap::DEPTH + 10 {
            offer(&taps, 1, Fate::Consumed);
        }
        assert_eq!(slow.watch().missed(), 10);
        assert_eq!(taken(&mut slow), CaptureTap::DEPTH);
    }

    #[test]
    fn capture_count_is_limited_and_closing_frees_slot() {
        let taps = Arc::new(CaptureTaps::new(MOST_TAPS));
        let mut open: Vec<_> = (0..MOST_TAPS).map(|_| opened(&taps, CaptureFilter::default())).collect();
        assert!(taps.open(CaptureTap::new(CaptureFilter::default())).is_none());
        open.pop();
        open.push(opened(&taps, CaptureFilter::default()));
        offer(&taps, 1, Fate::Consumed);
        taps.close();
        assert!(taps.list().is_empty() && taps.open(CaptureTap::new(CaptureFilter::default())).is_none());
        // The packets taken before the end are still delivered, and then the channel ends.
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(open[0].next()).is_some());
        assert!(runtime.block_on(open[0].next()).is_none());
        drop(open);
        assert!(!taps.is_watched());
    }
}
