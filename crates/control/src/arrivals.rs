//! Keeps packets as received until their fates are known, for captures that are to be replayed. A sent frame has another MAC address, a lower time to
//! live, and possibly other addresses than the received one.

use crate::capture::{CaptureTap, CaptureTaps, ReceivedFrame};
use packet::{Meta, Packet};
use parking_lot::Mutex;
use std::collections::HashMap;
use units::{Instant, PortId};

/// The byte limit of all kept frames. Packets beyond it are captured only as sent.
const MOST_BYTES: usize = 64 << 20;

/// The packets that captures wait for, by the number of their frame in the pool, which is unique among live packets.
#[derive(Debug, Default)]
pub struct ReceivedFrames(Mutex<FrameStore>);

#[derive(Debug, Default)]
struct FrameStore {
    frames: HashMap<usize, ReceivedFrame>,
    bytes: usize,
}

impl FrameStore {
    fn remove(&mut self, number: usize) -> Option<ReceivedFrame> {
        let arrival = self.frames.remove(&number)?;
        self.bytes -= arrival.frame.len();
        Some(arrival)
    }
}

impl ReceivedFrames {
    /// Keeps those packets of a batch that a capture wants as received.
    pub fn record(&self, taps: &CaptureTaps, now: Instant, port: PortId, packets: &[Packet]) {
        let armed = taps.channels();
        let wants = |packet: &Packet| {
            let wants = |tap: &CaptureTap| tap.wanted().arrivals && tap.matches(packet.bytes(), packet.meta());
            armed.iter().any(|armed| wants(&armed.watch))
        };
        let mut taps = armed.iter().filter(|armed| armed.watch.wanted().arrivals).peekable();
        if taps.peek().is_none() {
            return;
        }
        taps.for_each(|armed| armed.watch.begin(now));
        let mut kept = self.0.lock();
        for packet in packets {
            // Fragments end without a fate here, so the entry may belong to an earlier packet in the same frame.
            kept.remove(packet.number());
            if wants(packet) && kept.bytes + packet.bytes().len() <= MOST_BYTES {
                let frame = packet.bytes().to_vec();
                kept.bytes += frame.len();
                kept.frames.insert(packet.number(), ReceivedFrame { time: now, port, frame });
            }
        }
    }

    /// Removes and returns the received form of the packet in this frame, if it was kept.
    pub fn take(&self, number: usize, meta: &Meta) -> Option<ReceivedFrame> {
        let arrival = self.0.lock().remove(number);
        // A generated packet may reuse the frame of a packet that ended without a fate here.
        arrival.filter(|_| meta.flags & Meta::GENERATED == 0)
    }

    /// Drops all kept packets, unless a capture still wants packets as received.
    pub fn release(&self, taps: &CaptureTaps) {
        if !taps.list().iter().any(|tap| tap.wanted().arrivals) {
            *self.0.lock() = FrameStore::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{CaptureFilter, MOST_TAPS};
    use packet::{Pool, Region};
    use std::sync::Arc;

    fn tap(arrivals: bool) -> CaptureTap {
        CaptureTap::new(CaptureFilter { arrivals, ..CaptureFilter::default() })
    }

    #[test]
    fn received_frames_are_stored_only_for_captures_that_request_them() {
        let mut pool = Pool::new(Region::new(16));
        let (taps, arrivals) = (Arc::new(CaptureTaps::new(MOST_TAPS)), ReceivedFrames::default());
        let mut packet = pool.take().unwrap();
        packet.fill(&[7; 60]);
        let (number, meta, port, now) = (packet.number(), Meta::default(), PortId(3), Instant::new(9));
        let _as_they_leave = taps.open(tap(false)).unwrap();
        arrivals.record(&taps, now, port, std::slice::from_ref(&packet));
        assert_eq!(arrivals.take(number, &meta), None);
        let as_they_came = taps.open(tap(true)).unwrap();
        arrivals.record(&taps, now, port, std::slice::from_ref(&packet));
        assert_eq!(arrivals.take(number, &meta), Some(ReceivedFrame { time: now, port, frame: vec![7; 60] }));
        assert_eq!(arrivals.take(number, &meta), None, "it is kept once");
        arrivals.record(&taps, now, port, std::slice::from_ref(&packet));
        arrivals.release(&taps);
        assert!(arrivals.take(number, &meta).is_some(), "the capture is still open");
        arrivals.record(&taps, now, port, std::slice::from_ref(&packet));
        drop(as_they_came);
        arrivals.release(&taps);
        assert_eq!(arrivals.take(number, &meta), None);
        pool.give(packet);
    }

    #[test]
    fn received_frame_of_earlier_packet_is_not_used_for_generated_packet() {
        let mut pool = Pool::new(Region::new(16));
        let (taps, arrivals) = (Arc::new(CaptureTaps::new(MOST_TAPS)), ReceivedFrames::default());
        let _open = taps.open(tap(true)).unwrap();
        let mut packet = pool.take().unwrap();
        packet.fill(&[7; 60]);
        arrivals.record(&taps, Instant::START, PortId(0), std::slice::from_ref(&packet));
        let generated = Meta { flags: Meta::GENERATED, ..Meta::default() };
        assert_eq!(arrivals.take(packet.number(), &generated), None);
        assert_eq!(arrivals.take(packet.number(), &Meta::default()), None, "the stale frame is gone");
        pool.give(packet);
    }

    #[test]
    fn received_frames_have_memory_limit() {
        let mut pool = Pool::new(Region::new(8));
        let (taps, arrivals) = (Arc::new(CaptureTaps::new(MOST_TAPS)), ReceivedFrames::default());
        let _open = taps.open(tap(true)).unwrap();
        arrivals.0.lock().bytes = MOST_BYTES - 100;
        let packets: Vec<Packet> = (0..2)
            .map(|_| {
                let mut packet = pool.take().unwrap();
                packet.fill(&[7; 60]);
                packet
            })
            .collect();
        arrivals.record(&taps, Instant::START, PortId(0), &packets);
        let kept: Vec<bool> =
            packets.iter().map(|packet| arrivals.take(packet.number(), &Meta::default()).is_some()).collect();
        assert_eq!(kept, [true, false]);
        packets.into_iter().for_each(|packet| pool.give(packet));
    }
}
