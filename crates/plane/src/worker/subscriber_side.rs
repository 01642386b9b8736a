//! A port toward subscribers: finds the circuits of packets in both directions, and their round-trip times.

use crate::snapshot::{PortView, Snapshot};
use classifier::PublishedReader;
use packet::Packet;
use std::sync::Arc;
use subscribers::{CircuitTable, LookUpDirection, RoundTrips, RttSide};

/// The number of the hash of timestamps, from the fractional part of the square root of three.
pub(crate) const ROUND_TRIPS: u64 = 0xbb67_ae85_84ca_a73b;

/// The part of a port's state that is about subscribers.
pub(super) struct SubscriberSide {
    circuits: PublishedReader<CircuitTable>,
    /// How packets to subscribers are looked up.
    down: LookUpDirection,
    round_trips: Option<Arc<RoundTrips>>,
}

impl SubscriberSide {
    pub fn new(snapshot: &Snapshot, view: &PortView) -> SubscriberSide {
        // A frame that crosses a bridge has its tags already.
        let bridged = view.passthrough.is_some();
        SubscriberSide {
            circuits: PublishedReader::new(&snapshot.circuits),
            down: if bridged { LookUpDirection::DownBridged } else { LookUpDirection::Down },
            round_trips: snapshot.round_trips.clone(),
        }
    }

    /// Sets the shares of packets from subscribers. Their addresses are not translated yet.
    #[inline]
    pub fn receive(&mut self, packets: &mut [Packet]) {
        self.circuits.refresh().look_up(LookUpDirection::Up, packets);
        if let Some(round_trips) = &self.round_trips {
            round_trips.observe(RttSide::Subscriber, packets);
        }
    }

    /// Sets the shares of packets to subscribers. Their addresses are translated back, so both directions of a connection have the same ones.
    #[inline]
    pub fn transmit(&mut self, packets: &mut [Packet]) {
        self.circuits.refresh().look_up(self.down, packets);
        if let Some(round_trips) = &self.round_trips {
            round_trips.observe(RttSide::Internet, packets);
        }
    }
}
