//! Places for connections, limited in total and for each caller.
//!
//! A caller who sends half a request and waits must not lock out the next one. If no place is free, a new connection evicts one with an incomplete
//! request. The victim belongs to the caller with the most connections: a silent connection first, then the oldest. A connection whose request is
//! complete keeps its place.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::Notify;

/// The newest connections, evicted only if there are no older ones. There are more of them than are accepted before each is read.
const PROTECTED_NEWEST: u64 = 40;

/// The origin of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Origin {
    /// A process of this user.
    User(u32),
    /// A machine; for IPv6 the first address of its /64.
    Address(IpAddr),
}

/// The progress of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum ConnectionStage {
    /// It has sent nothing.
    Silent,
    /// Bytes of a TLS handshake have arrived.
    HandshakeStarted,
    /// Its part of the TLS handshake was valid, and has been answered.
    HandshakeAnswered,
    /// Its TLS handshake is complete.
    HandshakeComplete,
    /// A part of its request has arrived.
    RequestStarted,
    /// All of its request has arrived.
    RequestComplete,
}

/// A limited number of places.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    /// The limit of all callers together.
    most: usize,
    /// The limit of one caller.
    each: usize,
    table: Mutex<SlotTable>,
    /// Notified when a place becomes free.
    released: Notify,
}

#[derive(Debug, Default)]
struct SlotTable {
    next: u64,
    slots: BTreeMap<u64, SlotEntry>,
}

#[derive(Debug)]
struct SlotEntry {
    origin: Origin,
    stage: ConnectionStage,
    evicted: Arc<Notify>,
}

impl SlotTable {
    fn count_of(&self, origin: Origin) -> usize {
        self.slots.values().filter(|seat| seat.origin == origin).count()
    }

    /// Evicts the connection of `origin` with the least progress. Returns whether there was one.
    fn evict(&mut self, origin: Origin) -> bool {
        let asking = self
            .slots
            .iter()
            .filter(|(_, seat)| seat.origin == origin && seat.stage < ConnectionStage::RequestComplete);
        // The newest connections have had no chance to be read yet.
        let is_new = |at: u64| at + PROTECTED_NEWEST >= self.next;
        let least = asking.min_by_key(|(at, seat)| (is_new(**at), seat.stage, **at));
        let Some(at) = least.map(|(at, _)| *at) else { return false };
        if let Some(seat) = self.slots.remove(&at) {
            seat.evicted.notify_one();
        }
        true
    }

    /// Returns the callers with evictable connections, those with the most places first.
    fn largest_callers(&self) -> Vec<Origin> {
        let mut counts: BTreeMap<Origin, (usize, bool)> = BTreeMap::new();
        for seat in self.slots.values() {
            let (count, asks) = counts.entry(seat.origin).or_default();
            *count += 1;
            *asks |= seat.stage < ConnectionStage::RequestComplete;
        }
        let mut crowds: Vec<_> = counts.into_iter().filter(|(_, (_, asks))| *asks).collect();
        crowds.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        crowds.into_iter().map(|(origin, _)| origin).collect()
    }
}

impl ConnectionSlots {
    /// Creates `most` places, with at most `each` for one caller.
    pub fn new(most: usize, each: usize) -> Arc<ConnectionSlots> {
        Arc::new(ConnectionSlots { most, each, table: Mutex::default(), released: Notify::new() })
    }

    /// Takes a place for a connection of `origin`; none if all are taken by connections with complete requests.
    pub fn enter(self: &Arc<ConnectionSlots>, origin: Origin, stage: ConnectionStage) -> Option<ConnectionSlot> {
        let mut seats = self.table.lock();
        // A caller at its own limit can only replace a connection of its own. At the total limit, the largest caller
        // loses one first.
        let mut free = seats.count_of(origin) < self.each || seats.evict(origin);
        if free && seats.slots.len() >= self.most {
            let crowds = seats.largest_callers();
            free = crowds.into_iter().any(|crowd| seats.evict(crowd));
        }
        if !free {
            return None;
        }
        let (at, evicted) = (seats.next, Arc::new(Notify::new()));
        seats.next += 1;
        seats.slots.insert(at, SlotEntry { origin, stage, evicted: evicted.clone() });
        Some(ConnectionSlot { slots: self.clone(), at, evicted })
    }

    /// Completes when no place is taken.
    pub async fn wait_empty(&self) {
        loop {
            let left = self.released.notified();
            if self.table.lock().slots.is_empty() {
                return;
            }
            left.await;
        }
    }
}

/// The place of a connection, released when it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    at: u64,
    evicted: Arc<Notify>,
}

impl ConnectionSlot {
    /// Records the progress of the connection.
    pub fn record_stage(&self, stage: ConnectionStage) {
        if let Some(seat) = self.slots.table.lock().slots.get_mut(&self.at) {
            seat.stage = seat.stage.max(stage);
        }
    }

    /// Completes when another connection takes this place.
    pub fn wait_evicted(&self) -> impl Future<Output = ()> + Send + use<> {
        let evicted = self.evicted.clone();
        async move { evicted.notified().await }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.table.lock().slots.remove(&self.at);
        self.slots.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: Origin = Origin::User(1000);
    const B: Origin = Origin::User(1001);

    fn is_evicted(place: &ConnectionSlot) -> bool {
        !place.slots.table.lock().slots.contains_key(&place.at)
    }

    #[test]
    fn the_connection_with_least_progress_is_evicted() {
        let places = ConnectionSlots::new(3, 3);
        let [asking, silent, answered] =
            [ConnectionStage::RequestStarted, ConnectionStage::Silent, ConnectionStage::RequestComplete].map(|stage| {
                let place = places.enter(A, ConnectionStage::Silent).unwrap();
                place.record_stage(stage);
                place
            });
        let next = places.enter(A, ConnectionStage::RequestStarted).unwrap();
        assert!(is_evicted(&silent) && !is_evicted(&asking) && !is_evicted(&answered));
        let _another = places.enter(A, ConnectionStage::Silent).unwrap();
        assert!(is_evicted(&asking) && !is_evicted(&next));
    }

    #[test]
    fn caller_at_limit_evicts_own_connection() {
        let places = ConnectionSlots::new(8, 4);
        let quiet = places.enter(B, ConnectionStage::Silent).unwrap();
        let crowd: Vec<ConnectionSlot> =
            (0..100).filter_map(|_| places.enter(A, ConnectionStage::RequestStarted)).collect();
        assert_eq!(crowd.iter().filter(|place| !is_evicted(place)).count(), 4);
        assert!(!is_evicted(&quiet));
        // With many callers, a new connection evicts one of the caller with the most connections.
        let others: Vec<ConnectionSlot> =
            (0..3).filter_map(|user| places.enter(Origin::User(user), ConnectionStage::Silent)).collect();
        let late = places.enter(Origin::User(7), ConnectionStage::Silent).unwrap();
        assert_eq!(crowd.iter().filter(|place| !is_evicted(place)).count(), 3);
        assert!(!others.iter().chain([&quiet, &late]).any(is_evicted));
    }

    #[test]
    fn connection_with_complete_request_is_not_evicted() {
        let places = ConnectionSlots::new(2, 2);
        let answered = [0, 1].map(|_| places.enter(A, ConnectionStage::RequestComplete).unwrap());
        assert!(
            places.enter(A, ConnectionStage::Silent).is_none() && places.enter(B, ConnectionStage::Silent).is_none()
        );
        drop(answered);
        assert!(places.enter(B, ConnectionStage::Silent).is_some());
    }

    proptest! {
        /// The total limit and the limit of each caller always hold. A caller with fewer connections than another never loses one.
        #[test]
        fn connection_slots_respect_total_and_caller_limits(
            most in 1usize..8,
            each in 1usize..8,
            steps in proptest::collection::vec((0u32..4, 0usize..4), 1..60),
        ) {
            let places = ConnectionSlots::new(most, each);
            let mut held: Vec<(u32, ConnectionSlot)> = Vec::new();
            for (user, what) in steps {
                let alive = |held: &[(u32, ConnectionSlot)], user| {
                    held.iter().filter(|(of, place)| *of == user && !is_evicted(place)).count()
                };
                let before: Vec<usize> = (0..4).map(|user| alive(&held, user)).collect();
                match what {
                    3 if !held.is_empty() => drop(held.remove(user as usize % held.len())),
                    stage => {
                        let stage = [ConnectionStage::Silent, ConnectionStage::RequestStarted, ConnectionStage::RequestComplete, ConnectionStage::Silent][stage];
                        if let Some(place) = places.enter(Origin::User(user), stage) {
                            held.push((user, place));
                        }
                        for other in (0..4).filter(|other| *other != user) {
                            if alive(&held, other) < before[other as usize] {
                                let larger = (0..4).filter(|u| before[*u as usize] > before[other as usize]);
                                // Callers with more connections have only complete requests.
                                let asks = |u: u32| places.table.lock().slots.values()
                                    .any(|s| s.origin == Origin::User(u) && s.stage < ConnectionStage::RequestComplete && u != user);
                                prop_assert!(larger.into_iter().all(|u| !asks(u) || u == user));
                            }
                        }
                    }
                }
                let taken = places.table.lock().slots.len();
                prop_assert!(taken <= most);
                prop_assert!((0..4).all(|user| alive(&held, user) <= each));
            }
        }
    }
}
