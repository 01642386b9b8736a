//! The stations of a VXLAN segment: the other end that each is behind. Learned from the source addresses of received frames (RFC 7348 4.1), or configured.

use super::Tunnel;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::net::IpAddr;
use units::{Instant, Mac, Nanos};

/// The most stations that are learned. Frames to others go to every other end.
const MOST: usize = 4096;
/// How long a station is remembered without a frame from it (IEEE 802.1Q 8.8.3).
const LIFETIME: Nanos = Nanos::secs(300);
/// Frames refresh the time of their station at most that often, so that most of them only read.
const REFRESH: Nanos = Nanos::secs(10);

/// The learned stations of a segment, shared by the workers.
#[derive(Debug, Default)]
pub(crate) struct LearnedStations(RwLock<HashMap<Mac, (IpAddr, Instant)>>);

impl LearnedStations {
    /// Learns that a station is behind `remote`.
    pub fn learn(&self, station: Mac, remote: IpAddr, now: Instant) {
        let known = self.0.read().get(&station).copied();
        if known.is_some_and(|(end, seen)| end == remote && now.since(seen) < REFRESH) {
            return;
        }
        let mut stations = self.0.write();
        // A full table forgets old stations, and learns none if all are in use: a flood of addresses evicts no station.
        if stations.len() >= MOST && !stations.contains_key(&station) {
            stations.retain(|_, (_, seen)| now.since(*seen) < LIFETIME);
        }
        if stations.len() < MOST || stations.contains_key(&station) {
            stations.insert(station, (remote, now));
        }
    }

    fn find(&self, station: Mac, now: Instant) -> Option<IpAddr> {
        let known = self.0.read().get(&station).copied();
        known.filter(|(_, seen)| now.since(*seen) < LIFETIME).map(|(remote, _)| remote)
    }
}

/// The other ends that a frame is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OtherEnds<'a> {
    /// One.
    One(IpAddr),
    /// Each of these: a frame to a group, or to a station that is not known.
    All(&'a [IpAddr]),
}

impl Tunnel {
    /// The other ends that a frame is for, which the tunnel's port has sent.
    pub(crate) fn other_ends(&self, frame: &[u8], now: Instant) -> OtherEnds<'_> {
        let remotes = &self.plan.remotes;
        if let [only] = remotes[..] {
            return OtherEnds::One(only);
        }
        let station = frame.first_chunk().map(|octets| Mac(*octets)).filter(|station| !station.is_group());
        let configured = |station: &Mac| {
            let stations = &self.plan.stations;
            stations.binary_search_by_key(station, |(mac, _)| *mac).ok().map(|position| stations[position].1)
        };
        let end = station.and_then(|station| configured(&station).or_else(|| self.state.stations.find(station, now)));
        // A learned end may have been removed from the configuration.
        end.filter(|end| remotes.contains(end)).map_or(OtherEnds::All(remotes), OtherEnds::One)
    }

    /// Learns the source of a frame that has arrived from `remote`.
    pub(crate) fn learn(&self, frame: &[u8], remote: IpAddr, now: Instant) {
        if !self.plan.learn || self.plan.remotes.len() == 1 {
            return;
        }
        let source = frame.get(6..).and_then(|rest| rest.first_chunk()).map(|octets| Mac(*octets));
        if let Some(source) = source.filter(|source| !source.is_group()) {
            self.state.stations.learn(source, remote, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn stations_move_expire_and_are_bounded() {
        let (stations, end) = (LearnedStations::default(), |last: u8| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)));
        let at = |seconds| Instant::START + Nanos::secs(seconds);
        let mac = |n: u32| Mac::from_number(0x0200_0000_0000 | u64::from(n));
        stations.learn(mac(1), end(1), at(0));
        assert_eq!(stations.find(mac(1), at(299)), Some(end(1)));
        assert_eq!(stations.find(mac(1), at(300)), None);
        stations.learn(mac(1), end(2), at(1));
        assert_eq!(stations.find(mac(1), at(1)), Some(end(2)), "it has moved");
        (0..2 * MOST as u32).for_each(|n| stations.learn(mac(n), end(3), at(2)));
        assert_eq!(stations.0.read().len(), MOST);
        assert_eq!(stations.find(mac(2 * MOST as u32 - 1), at(2)), None);
        stations.learn(mac(9_999_999), end(3), at(400));
        assert_eq!(stations.find(mac(9_999_999), at(400)), Some(end(3)), "old ones make room");
    }
}
