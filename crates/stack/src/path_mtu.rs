//! Path MTUs that are less than the MTU of the first link, as reported by routers (RFC 1191, RFC 8201). Used for the router's own packets.
//!
//! Any host can send such a report. It is accepted only about a packet that was sent recently (RFC 5927 7.2, RFC 8201 4). It expires after ten
//! minutes, so that a larger path MTU is detected.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use units::{Instant, Nanos};

/// The most destinations.
const MOST: usize = 1024;
/// The most own packets that are remembered.
const SENT: usize = 256;
/// How long a report about a sent packet is accepted.
const RECENT: Nanos = Nanos::secs(60);
/// How long a path MTU is used (RFC 1191 6.3, RFC 8201 4).
const LIFETIME: Nanos = Nanos::secs(600);
/// Less than the MTU of any IPv4 path today. An attacker could use a smaller value to make us send tiny packets (RFC 5927 7.2).
const LEAST4: u16 = 552;
/// The minimum MTU of every IPv6 link (RFC 8200 5).
const LEAST6: u16 = 1280;
/// The sizes to try for a router that does not report its MTU (RFC 1191 7).
const PLATEAUS: [u16; 8] = [32000, 17914, 8166, 4352, 2002, 1492, 1006, 552];

/// The mark by which a quoted packet is recognised. In IPv4 it is the identification; in IPv6 that of the fragment header, otherwise the first bytes
/// of the message.
pub(super) type Mark = u64;

/// Paths with a smaller MTU than their first link.
#[derive(Debug, Default)]
pub(super) struct PathMtus {
    paths: BTreeMap<IpAddr, (u16, Instant)>,
    ends: BTreeSet<(Instant, IpAddr)>,
    sent: VecDeque<(Instant, IpAddr, Mark)>,
}

impl PathMtus {
    /// The path MTU to `destination` in bytes; none if the MTU of the first link applies.
    pub fn get(&self, destination: IpAddr, now: Instant) -> Option<u16> {
        self.paths.get(&destination).filter(|(_, end)| *end > now).map(|&(mtu, _)| mtu)
    }

    /// Remembers a packet of ours that may exceed a path MTU.
    pub fn record_sent(&mut self, destination: IpAddr, length: usize, mark: Mark, now: Instant) {
        // A packet that every path accepts needs no memory: reports about it are forged.
        if length <= usize::from(least(destination)) {
            return;
        }
        if self.sent.len() >= SENT {
            self.sent.pop_front();
        }
        self.sent.push_back((now, destination, mark));
    }

    /// Processes a report: the packet of `length` bytes with this mark exceeded the `mtu` of a link; zero if the router does not say. Returns true if
    /// the path MTU has changed.
    pub fn learn(&mut self, destination: IpAddr, mtu: u32, length: usize, mark: Mark, now: Instant) -> bool {
        let asked =
            |&(at, to, what): &(Instant, IpAddr, Mark)| to == destination && what == mark && now.since(at) < RECENT;
        if !self.sent.iter().any(asked) {
            return false;
        }
        let guess = || PLATEAUS.into_iter().find(|&plateau| usize::from(plateau) < length);
        let mtu = if mtu == 0 && destination.is_ipv4() { guess() } else { u16::try_from(mtu).ok() };
        let Some(mtu) = mtu else { return false };
        let mtu = match destination {
            IpAddr::V4(_) => mtu.max(LEAST4),
            // A smaller value came from translators to IPv4, which wanted a fragment header (RFC 2460 5). That is obsolete (RFC 8201 4).
            IpAddr::V6(_) if mtu < LEAST6 => return false,
            IpAddr::V6(_) => mtu,
        };
        // A report never increases a path MTU (RFC 8201 4).
        if usize::from(mtu) >= length || self.get(destination, now).is_some_and(|known| known <= mtu) {
            return false;
        }
        self.forget(destination);
        // `ends` is ordered by expiry: evict the path that expires first.
        while self.paths.len() >= MOST {
            let Some(&(_, oldest)) = self.ends.first() else { break };
            self.forget(oldest);
        }
        self.paths.insert(destination, (mtu, now + LIFETIME));
        self.ends.insert((now + LIFETIME, destination));
        true
    }

    fn forget(&mut self, destination: IpAddr) {
        if let Some((_, end)) = self.paths.remove(&destination) {
            self.ends.remove(&(end, destination));
        }
    }
}

fn least(destination: IpAddr) -> u16 {
    if destination.is_ipv4() { LEAST4 } else { LEAST6 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 9));
    const FAR4: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 9));

    fn at(seconds: u64) -> Instant {
        Instant::START + Nanos::secs(seconds)
    }

    #[test]
    fn path_mtu_report_needs_a_recently_sent_packet() {
        let mut paths = PathMtus::default();
        assert!(!paths.learn(FAR, 1400, 1500, 7, at(0)), "nothing was sent");
        paths.record_sent(FAR, 1500, 7, at(0));
        assert!(!paths.learn(FAR, 1400, 1500, 8, at(1)), "another packet");
        assert!(!paths.learn(FAR4, 1400, 1500, 7, at(1)), "to somebody else");
        assert!(!paths.learn(FAR, 1400, 1500, 7, at(60)), "too late");
        assert_eq!(paths.get(FAR, at(60)), None);
        paths.record_sent(FAR, 1500, 7, at(61));
        assert!(paths.learn(FAR, 1400, 1500, 7, at(62)));
        assert_eq!(paths.get(FAR, at(62)), Some(1400));
    }

    #[test]
    fn path_mtu_shrinks_by_reports_and_grows_by_expiry() {
        let mut paths = PathMtus::default();
        // Reports (with their second) and the path MTU after each, for packets of 1500 bytes.
        for (second, mtu, believed) in [
            (0, 1400, Some(1400)),
            (1, 1450, Some(1400)),
            (2, 1500, Some(1400)),
            (3, 9000, Some(1400)),
            (4, 1279, Some(1400)),
            (5, 0, Some(1400)),
            (6, 70_000, Some(1400)),
            (7, 1280, Some(1280)),
            (606, 1280, Some(1280)),
            (607, 1500, None),
            (608, 1300, Some(1300)),
        ] {
            paths.record_sent(FAR, 1500, 1, at(second));
            paths.learn(FAR, mtu, 1500, 1, at(second));
            assert_eq!(paths.get(FAR, at(second)), believed, "second {second}");
        }
    }

    #[test]
    fn path_mtu_without_a_size_uses_the_plateau_table() {
        for (length, guessed) in [(65_000, 32_000), (1500, 1492), (1492, 1006), (600, 552), (553, 552)] {
            let mut paths = PathMtus::default();
            paths.record_sent(FAR4, length, 1, at(0));
            assert!(paths.learn(FAR4, 0, length, 1, at(0)));
            assert_eq!(paths.get(FAR4, at(0)), Some(guessed));
        }
        let mut paths = PathMtus::default();
        paths.record_sent(FAR4, 1500, 1, at(0));
        assert!(paths.learn(FAR4, 68, 1500, 1, at(0)));
        assert_eq!(paths.get(FAR4, at(0)), Some(552), "no path is made of crumbs");
    }

    #[test]
    fn path_mtu_table_is_bounded_and_evicts_the_oldest() {
        let mut paths = PathMtus::default();
        for i in 0..2 * MOST as u64 {
            let to = IpAddr::from(std::net::Ipv4Addr::from(0x0a00_0000 + i as u32));
            paths.record_sent(to, 1500, i, at(i / 100));
            assert!(paths.learn(to, 1000, 1500, i, at(i / 100)));
            assert!(paths.paths.len() <= MOST && paths.ends.len() == paths.paths.len() && paths.sent.len() <= SENT);
        }
        assert_eq!(paths.get(IpAddr::from([10, 0, 0, 0]), at(20)), None);
        assert_eq!(paths.get(IpAddr::from([10, 0, 7, 255]), at(20)), Some(1000));
    }
}
