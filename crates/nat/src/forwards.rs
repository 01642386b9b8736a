//! Forwarded ports of ours, each with its inside end.

use crate::NatEndpoint;
use crate::slots::{Index, keyed_hash};

/// A forwarded port of ours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Forward {
    /// The protocol.
    pub protocol: u8,
    /// Our port.
    pub port: u16,
    /// The inside end.
    pub inside: NatEndpoint,
}

/// The forwarded ports of a configuration. A look-up takes the same time for any number of them.
#[derive(Clone, Debug)]
pub struct Forwards {
    list: Vec<Forward>,
    by_port: Index,
    by_inside: Index,
    secret: u64,
}

impl Forwards {
    /// The look-up tables of forwards. Of those with the same port, or the same inside end, the first applies. `secret` keys the hashes.
    pub fn new(list: Vec<Forward>, secret: u64) -> Forwards {
        let (by_port, by_inside) = (Index::new(list.len()), Index::new(list.len()));
        let mut forwards = Forwards { list, by_port, by_inside, secret };
        // An index finds the last one inserted first.
        for slot in (0..forwards.list.len()).rev() {
            let Forward { protocol, port, inside } = forwards.list[slot];
            let hashes = (forwards.port_hash(protocol, port), forwards.inside_hash(protocol, inside));
            forwards.by_port.insert(hashes.0, slot as u32);
            forwards.by_inside.insert(hashes.1, slot as u32);
        }
        forwards
    }

    fn port_hash(&self, protocol: u8, port: u16) -> u64 {
        keyed_hash(self.secret, protocol, port.into(), 0)
    }

    fn inside_hash(&self, protocol: u8, inside: NatEndpoint) -> u64 {
        keyed_hash(self.secret, protocol, inside.key(), 0)
    }

    /// The inside end of a port of ours.
    #[inline]
    pub(crate) fn inside_of(&self, protocol: u8, port: u16) -> Option<NatEndpoint> {
        self.find_port(protocol, port, |_| {}).map(|forward| forward.inside)
    }

    fn find_port(&self, protocol: u8, port: u16, mut compared: impl FnMut(&Forward)) -> Option<&Forward> {
        let slot = self.by_port.find(self.port_hash(protocol, port), |slot| {
            let forward = &self.list[slot as usize];
            compared(forward);
            forward.protocol == protocol && forward.port == port
        });
        slot.map(|slot| &self.list[slot as usize])
    }

    /// Our port for an inside end.
    #[inline]
    pub(crate) fn port_of(&self, protocol: u8, inside: NatEndpoint) -> Option<u16> {
        self.find_inside(protocol, inside, |_| {}).map(|forward| forward.port)
    }

    fn find_inside(&self, protocol: u8, inside: NatEndpoint, mut compared: impl FnMut(&Forward)) -> Option<&Forward> {
        let slot = self.by_inside.find(self.inside_hash(protocol, inside), |slot| {
            let forward = &self.list[slot as usize];
            compared(forward);
            forward.protocol == protocol && forward.inside == inside
        });
        slot.map(|slot| &self.list[slot as usize])
    }
}

impl<'f> IntoIterator for &'f Forwards {
    type Item = &'f Forward;
    type IntoIter = std::slice::Iter<'f, Forward>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

impl PartialEq for Forwards {
    /// The tables follow from the list and the secret.
    fn eq(&self, other: &Forwards) -> bool {
        (&self.list, self.secret) == (&other.list, other.secret)
    }
}

impl Eq for Forwards {}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTOCOLS: [u8; 2] = [6, 17];

    /// Every sixth port of TCP and UDP, until there are `count`.
    fn forwards(count: usize) -> Vec<Forward> {
        let all = (1u16..).step_by(6).flat_map(|port| PROTOCOLS.map(|protocol| (protocol, port)));
        let inside = |port: u16| NatEndpoint::new(0x0a00_0000 | u32::from(port % 50), port);
        all.take(count).map(|(protocol, port)| Forward { protocol, port, inside: inside(port) }).collect()
    }

    /// The mean and the largest number of forwards that a look-up compares, over all ports and all inside ends.
    fn comparisons(forwards: &Forwards) -> (f64, u32) {
        let (mut sum, mut most, mut look_ups) = (0, 0, 0);
        let mut record = |compared: u32| (sum, most, look_ups) = (sum + compared, most.max(compared), look_ups + 1);
        for (protocol, port) in
            PROTOCOLS.into_iter().flat_map(|protocol| (0..=u16::MAX).map(move |port| (protocol, port)))
        {
            let mut compared = 0;
            forwards.find_port(protocol, port, |_| compared += 1);
            record(compared);
            let mut compared = 0;
            forwards
                .find_inside(protocol, NatEndpoint::new(0x0a00_0000 | u32::from(port % 50), port), |_| compared += 1);
            record(compared);
        }
        (f64::from(sum) / f64::from(look_ups), most)
    }

    #[test]
    fn look_up_finds_what_a_search_of_the_list_finds() {
        let list = forwards(2000);
        let tables = Forwards::new(list.clone(), 7);
        for (protocol, port) in
            PROTOCOLS.into_iter().flat_map(|protocol| (0..=u16::MAX).map(move |port| (protocol, port)))
        {
            let first =
                |is: &dyn Fn(&Forward) -> bool| list.iter().find(|it| it.protocol == protocol && is(it)).copied();
            let inside = NatEndpoint::new(0x0a00_0000 | u32::from(port % 50), port);
            assert_eq!(tables.inside_of(protocol, port), first(&|it| it.port == port).map(|it| it.inside));
            assert_eq!(tables.port_of(protocol, inside), first(&|it| it.inside == inside).map(|it| it.port));
        }
        assert_eq!(tables.inside_of(1, 1), None);
    }

    #[test]
    fn ten_thousand_forwards_cost_a_look_up_no_more_comparisons_than_one() {
        for (count, secret) in [1, 100, 10_000].into_iter().flat_map(|count| [(count, 3), (count, 0xfeed)]) {
            let (mean, most) = comparisons(&Forwards::new(forwards(count), secret));
            // A table has a bucket for each forward at least, so that a bucket has one or none on average.
            assert!(mean <= 1.0 && most <= 12, "{count} forwards: {mean} on average, {most} at most");
        }
    }

    #[test]
    fn first_of_two_forwards_of_a_port_applies() {
        let forward = |port, host| Forward { protocol: 6, port, inside: NatEndpoint::new(host, 80) };
        let tables = Forwards::new(vec![forward(8080, 1), forward(8080, 2), forward(9090, 1)], 1);
        assert_eq!(tables.inside_of(6, 8080), Some(NatEndpoint::new(1, 80)));
        assert_eq!(tables.port_of(6, NatEndpoint::new(1, 80)), Some(8080));
    }
}
