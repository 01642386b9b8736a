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
const NEWEST: u64 = 40;

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
pub(super) enum Stage {
    /// It has sent nothing.
    Silent,
    /// Bytes of a TLS handshake have arrived.
    Greeting,
    /// Its part of the TLS handshake was valid, and has been answered.
    Answering,
    /// Its TLS handshake is complete.
    Greeted,
    /// A part of its request has arrived.
    Asking,
    /// All of its request has arrived.
    Answered,
}

/// A limited number of places.
#[derive(Debug)]
pub(super) struct Places {
    /// The limit of all callers together.
    most: usize,
    /// The limit of one caller.
    each: usize,
    seats: Mutex<Seats>,
    /// Notified when a place becomes free.
    left: Notify,
}

#[derive(Debug, Default)]
struct Seats {
    next: u64,
    taken: BTreeMap<u64, Seat>,
}

#[derive(Debug)]
struct Seat {
    origin: Origin,
    stage: Stage,
    evicted: Arc<Notify>,
}

impl Seats {
    fn of(&self, origin: Origin) -> usize {
        self.taken.values().filter(|seat| seat.origin == origin).count()
    }

    /// Evicts the connection of `origin` with the least progress. Returns whether there was one.
    fn evict(&mut self, origin: Origin) -> bool {
        let asking = self.taken.iter().filter(|(_, seat)| seat.origin == origin && seat.stage < Stage::Answered);
        // The newest connections have had no chance to be read yet.
        let is_new = |at: u64| at + NEWEST >= self.next;
        let least = asking.min_by_key(|(at, seat)| (is_new(**at), seat.stage, **at));
        let Some(at) = least.map(|(at, _)| *at) else { return false };
        if let Some(seat) = self.taken.remove(&at) {
            seat.evicted.notify_one();
        }
        true
    }

    /// Returns the callers with evictable connections, those with the most places first.
    fn crowds(&self) -> Vec<Origin> {
        let mut counts: BTreeMap<Origin, (usize, bool)> = BTreeMap::new();
        for seat in self.taken.values() {
            let (count, asks) = counts.entry(seat.origin).or_default();
            *count += 1;
            *asks |= seat.stage < Stage::Answered;
        }
        let mut crowds: Vec<_> = counts.into_iter().filter(|(_, (_, asks))| *asks).collect();
        crowds.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        crowds.into_iter().map(|(origin, _)| origin).collect()
    }
}

impl Places {
    /// Creates `most` places, with at most `each` for one caller.
    pub fn new(most: usize, each: usize) -> Arc<Places> {
        Arc::new(Places { most, each, seats: Mutex::default(), left: Notify::new() })
    }

    /// Takes a place for a connection of `origin`; none if all are taken by connections with complete requests.
    pub fn enter(self: &Arc<Places>, origin: Origin, stage: Stage) -> Option<Place> {
        let mut seats = self.seats.lock();
        // A caller at its own limit can only replace a connection of its own. At the total limit, the largest caller
        // loses one first.
        let mut free = seats.of(origin) < self.each || seats.evict(origin);
        if free && seats.taken.len() >= self.most {
            let crowds = seats.crowds();
            free = crowds.into_iter().any(|crowd| seats.evict(crowd));
        }
        if !free {
            return None;
        }
        let (at, evicted) = (seats.next, Arc::new(Notify::new()));
        seats.next += 1;
        seats.taken.insert(at, Seat { origin, stage, evicted: evicted.clone() });
        Some(Place { places: self.clone(), at, evicted })
    }

    /// Completes when no place is taken.
    pub async fn empty(&self) {
        loop {
            let left = self.left.notified();
            if self.seats.lock().taken.is_empty() {
                return;
            }
            left.await;
        }
    }
}

/// The place of a connection, released when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    at: u64,
    evicted: Arc<Notify>,
}

impl Place {
    /// Records the progress of the connection.
    pub fn reached(&self, stage: Stage) {
        if let Some(seat) = self.places.seats.lock().taken.get_mut(&self.at) {
            seat.stage = seat.stage.max(stage);
        }
    }

    /// Completes when another connection takes this place.
    pub fn evicted(&self) -> impl Future<Output = ()> + Send + use<> {
        let evicted = self.evicted.clone();
        async move { evicted.notified().await }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.seats.lock().taken.remove(&self.at);
        self.places.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: Origin = Origin::User(1000);
    const B: Origin = Origin::User(1001);

    fn is_evicted(place: &Place) -> bool {
        !place.places.seats.lock().taken.contains_key(&place.at)
    }

    #[test]
    fn the_connection_with_least_progress_is_evicted() {
        let places = Places::new(3, 3);
        let [asking, silent, answered] = [Stage::Asking, Stage::Silent, Stage::Answered].map(|stage| {
            let place = places.enter(A, Stage::Silent).unwrap();
            place.reached(stage);
            place
        });
        let next = places.enter(A, Stage::Asking).unwrap();
        assert!(is_evicted(&silent) && !is_evicted(&asking) && !is_evicted(&answered));
        let _another = places.enter(A, Stage::Silent).unwrap();
        assert!(is_evicted(&asking) && !is_evicted(&next));
    }

    #[test]
    fn a_caller_with_many_connections_pushes_out_its_own() {
        let places = Places::new(8, 4);
        let quiet = places.enter(B, Stage::Silent).unwrap();
        let crowd: Vec<Place> = (0..100).filter_map(|_| places.enter(A, Stage::Asking)).collect();
        assert_eq!(crowd.iter().filter(|place| !is_evicted(place)).count(), 4);
        assert!(!is_evicted(&quiet));
        // With many callers, a new connection evicts one of the caller with the most connections.
        let others: Vec<Place> = (0..3).filter_map(|user| places.enter(Origin::User(user), Stage::Silent)).collect();
        let late = places.enter(Origin::User(7), Stage::Silent).unwrap();
        assert_eq!(crowd.iter().filter(|place| !is_evicted(place)).count(), 3);
        assert!(!others.iter().chain([&quiet, &late]).any(is_evicted));
    }

    #[test]
    fn connections_with_complete_requests_keep_their_places() {
        let places = Places::new(2, 2);
        let answered = [0, 1].map(|_| places.enter(A, Stage::Answered).unwrap());
        assert!(places.enter(A, Stage::Silent).is_none() && places.enter(B, Stage::Silent).is_none());
        drop(answered);
        assert!(places.enter(B, Stage::Silent).is_some());
    }

    proptest! {
        /// The total limit and the limit of each caller always hold. A caller with fewer connections than another never loses one.
        #[test]
        fn places_are_bounded_and_shared(
            most in 1usize..8,
            each in 1usize..8,
            steps in proptest::collection::vec((0u32..4, 0usize..4), 1..60),
        ) {
            let places = Places::new(most, each);
            let mut held: Vec<(u32, Place)> = Vec::new();
            for (user, what) in steps {
                let alive = |held: &[(u32, Place)], user| {
                    held.iter().filter(|(of, place)| *of == user && !is_evicted(place)).count()
                };
                let before: Vec<usize> = (0..4).map(|user| alive(&held, user)).collect();
                match what {
                    3 if !held.is_empty() => drop(held.remove(user as usize % held.len())),
                    stage => {
                        let stage = [Stage::Silent, Stage::Asking, Stage::Answered, Stage::Silent][stage];
                        if let Some(place) = places.enter(Origin::User(user), stage) {
                            held.push((user, place));
                        }
                        for other in (0..4).filter(|other| *other != user) {
                            if alive(&held, other) < before[other as usize] {
                                let larger = (0..4).filter(|u| before[*u as usize] > before[other as usize]);
                                // Callers with more connections have only complete requests.
                                let asks = |u: u32| places.seats.lock().taken.values()
                                    .any(|s| s.origin == Origin::User(u) && s.stage < Stage::Answered && u != user);
                                prop_assert!(larger.into_iter().all(|u| !asks(u) || u == user));
                            }
                        }
                    }
                }
                let taken = places.seats.lock().taken.len();
                prop_assert!(taken <= most);
                prop_assert!((0..4).all(|user| alive(&held, user) <= each));
            }
        }
    }
}
