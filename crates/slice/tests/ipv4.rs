//! The IPv4 router of a slice: filters, the code option, and the slow path.

use etherparse::{IpFragOffset, Ipv4Options, PacketBuilder};
use packet::wire::icmp4::Icmp4;
use packet::wire::{Ipv4, Ipv4Header, checksum};
use packet::{Pool, Region};
use proptest::prelude::*;
use slice::bands::{BandFilters, FilterBands, KeyCondition};
use slice::code::ipv4::{Ipv4Hop, Ipv4Node, Ipv4SlowPath, KeyedPacket, lookup_key, route4};
use slice::code::{
    CodeEnv, CodeOption, Diversion, ExceptionCode, Formatted, InnerEdit, LookupResult, code_option, mtu_data,
};
use slice::{FilterAction, SliceMemory};
use std::net::Ipv4Addr;

/// A router with the routes 10.0.0.0/8, 10.1.0.0/16, 10.1.2.3/32 and the address 192.0.2.1.
struct Router {
    bands: FilterBands,
    code: Box<dyn CodeOption>,
    memory: SliceMemory,
    pool: Pool,
}

/// The filter of a next hop, which is named by the port of its address.
fn forward(name: char, mtu: u16) -> FilterAction {
    let next = (Ipv4Addr::LOCALHOST, name as u16).into();
    FilterAction::Send { queue: 0, interface: 0, next, data: mtu_data(mtu) }
}

fn address(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

impl Router {
    fn new(filters: &BandFilters) -> Router {
        let mut bands = FilterBands::default();
        bands.update(filters);
        let code = (code_option("ipv4").unwrap().make)(&Default::default()).unwrap();
        Router { bands, code, memory: SliceMemory::default(), pool: Pool::new(Region::new(1)) }
    }

    fn of_routes(routes: &[(&str, u8, FilterAction)]) -> Router {
        let route =
            |(to, length, action): &(&str, u8, FilterAction)| (route4(address(to), *length).unwrap(), action.clone());
        Router::new(&routes.iter().map(route).collect())
    }

    fn plain() -> Router {
        Router::of_routes(&[
            ("10.0.0.0", 8, forward('a', 1500)),
            ("10.1.0.0", 16, forward('b', 576)),
            ("10.1.2.3", 32, forward('c', 0)),
            ("192.0.2.1", 32, FilterAction::Exception(ExceptionCode::Local)),
            ("10.9.0.0", 16, FilterAction::Drop),
        ])
    }

    fn key(&mut self, bytes: &[u8]) -> Result<[u8; 14], Diversion> {
        Ok(self.code.parse(bytes, &mut CodeEnv::new(&self.memory, 7, 0))?.bytes())
    }

    /// The next hop and the packet that it gets.
    fn forward(&mut self, bytes: &[u8]) -> Result<(char, Vec<u8>), Diversion> {
        let key = self.key(bytes)?;
        self.send(bytes, &key)
    }

    fn send(&mut self, bytes: &[u8], key: &[u8; 14]) -> Result<(char, Vec<u8>), Diversion> {
        let (hop, data) = match self.bands.find(key) {
            None => return Err(Diversion::Exception(ExceptionCode::NoMatch)),
            Some(FilterAction::Exception(code)) => return Err(Diversion::Exception(*code)),
            Some(FilterAction::Drop) => return Err(Diversion::Policy),
            Some(FilterAction::Send { next, data, .. }) => (char::from(next.port() as u8), *data),
        };
        let mut packet = self.pool.take().unwrap();
        assert!(packet.fill(bytes));
        let result = LookupResult { queue: 0, interface: 0, data };
        let formatted =
            self.code.format(&mut InnerEdit::new(&mut packet), &result, &mut CodeEnv::new(&self.memory, 7, 0));
        let after = packet.bytes().to_vec();
        self.pool.give(packet);
        match formatted {
            Ok(Formatted::Send) => Ok((hop, after)),
            Ok(Formatted::Again(_)) => panic!("one look-up decides"),
            Err(diversion) => {
                assert_eq!(after, bytes, "the slow path gets the packet unchanged");
                Err(diversion)
            }
        }
    }

    fn hop(&mut self, bytes: &[u8]) -> Result<char, Diversion> {
        self.forward(bytes).map(|(hop, _)| hop)
    }
}

fn exception<T>(code: ExceptionCode) -> Result<T, Diversion> {
    Err(Diversion::Exception(code))
}

/// A UDP packet from 198.51.100.9 with these ports and this payload.
fn udp(to: &str, ttl: u8, payload: usize) -> Vec<u8> {
    with(to, ttl, payload, |_| {})
}

fn with(to: &str, ttl: u8, payload: usize, change: impl Fn(&mut etherparse::Ipv4Header)) -> Vec<u8> {
    let mut header = etherparse::Ipv4Header {
        source: [198, 51, 100, 9],
        destination: address(to).octets(),
        time_to_live: ttl,
        ..Default::default()
    };
    change(&mut header);
    let mut bytes = Vec::new();
    let ip = etherparse::IpHeaders::Ipv4(header, Default::default());
    PacketBuilder::ip(ip).udp(4000, 5000).write(&mut bytes, &vec![0x5a; payload]).unwrap();
    bytes
}

fn checksum_is_right(bytes: &[u8]) -> bool {
    checksum::sum(&bytes[..Ipv4Header::of(bytes).unwrap().header_length()]) == 0xffff
}

#[test]
fn ipv4_key_has_112_bits() {
    let key = Router::plain().key(&udp("10.1.2.3", 64, 10)).unwrap();
    assert_eq!(key, [7, 10, 1, 2, 3, 198, 51, 100, 9, 0x0f, 0xa0, 0x13, 0x88, 17]);
}

#[test]
fn ipv4_lpm() {
    let mut router = Router::plain();
    for (to, hop) in [("10.200.0.1", 'a'), ("10.1.2.4", 'b'), ("10.1.2.3", 'c')] {
        assert_eq!(router.hop(&udp(to, 64, 10)), Ok(hop), "{to}");
    }
    assert_eq!(router.hop(&udp("11.0.0.1", 64, 10)), exception(ExceptionCode::NoMatch));
    assert_eq!(router.hop(&udp("10.9.0.1", 64, 10)), Err(Diversion::Policy));
    // A filter before all routes: datagrams to port 5000, and only those.
    let mut filters: BandFilters = [(route4(address("0.0.0.0"), 0).unwrap(), forward('a', 1500))].into();
    let mut condition = KeyCondition { value: [0; 14], mask: [0; 14] };
    condition.value[11..].copy_from_slice(&[0x13, 0x88, 17]);
    condition.mask[11..].fill(0xff);
    filters.insert((0, condition), forward('e', 1500));
    filters.insert(route4(address("10.1.2.3"), 32).unwrap(), forward('c', 1500));
    let mut router = Router::new(&filters);
    assert_eq!(router.hop(&udp("10.1.2.3", 64, 10)), Ok('e'));
    let mut tcp = udp("10.1.2.3", 64, 10);
    tcp[9] = 6;
    assert_eq!(router.hop(&sealed(tcp)), Ok('c'));
}

/// The packet with the right header checksum.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = usize::from(bytes[0] & 15) * 4;
    bytes[10..12].fill(0);
    let sum = checksum::checksum(&bytes[..length]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}

#[test]
fn ipv4_ttl() {
    let mut router = Router::plain();
    for ttl in [0, 1] {
        assert_eq!(router.hop(&udp("10.1.2.3", ttl, 10)), exception(ExceptionCode::Ttl));
    }
    for ttl in [2, 64, 255] {
        let (_, sent) = router.forward(&udp("10.1.2.3", ttl, 10)).unwrap();
        assert_eq!(Ipv4::parse(&sent).unwrap().header.ttl(), ttl - 1);
    }
    // A packet of the slow path passes no parser.
    let key = router.key(&udp("10.1.2.3", 64, 10)).unwrap();
    assert_eq!(router.send(&udp("10.1.2.3", 1, 10), &key), exception(ExceptionCode::Ttl));
}

#[test]
fn ipv4_options() {
    let mut router = Router::plain();
    for words in 1..=10 {
        let options = Ipv4Options::try_from(&vec![1u8; words * 4][..]).unwrap();
        let packet = with("10.1.2.3", 64, 10, |header| header.options = options.clone());
        assert_eq!(router.hop(&packet), exception(ExceptionCode::Options), "{words} words");
    }
}

#[test]
fn ipv4_local() {
    let mut router = Router::plain();
    for to in ["192.0.2.1", "224.0.0.5", "239.255.255.255", "255.255.255.255"] {
        assert_eq!(router.hop(&udp(to, 64, 10)), exception(ExceptionCode::Local), "{to}");
    }
}

#[test]
fn ipv4_checksum() {
    let mut router = Router::plain();
    let packet = udp("10.1.2.3", 64, 10);
    for bit in 0..160 {
        let mut wrong = packet.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(router.hop(&wrong), Err(Diversion::Malformed), "bit {bit}");
    }
    for (at, value) in [(0, 0x65), (0, 0x44), (2, 0xff), (3, 19)] {
        let mut wrong = packet.clone();
        wrong[at] = value;
        assert_eq!(router.hop(&sealed_at_least(wrong)), Err(Diversion::Malformed), "byte {at} {value}");
    }
    for length in 0..packet.len() {
        assert_eq!(router.hop(&packet[..length]), Err(Diversion::Malformed), "{length} bytes");
    }
    // Bytes behind the packet end at the router.
    let padded = [&packet[..], &[0; 9]].concat();
    assert_eq!(router.forward(&padded), router.forward(&packet));
}

/// The packet with the right checksum of its first 20 bytes.
fn sealed_at_least(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[10..12].fill(0);
    let sum = checksum::checksum(&bytes[..20]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}

#[test]
fn ipv4_fragment() {
    let mut router = Router::plain();
    let fragment = |offset: u16, more| {
        with("10.1.2.3", 64, 16, |header| {
            header.fragment_offset = IpFragOffset::try_new(offset).unwrap();
            header.more_fragments = more;
        })
    };
    let ports = |key: [u8; 14]| u32::from_be_bytes(key[9..13].try_into().unwrap());
    assert_eq!(ports(router.key(&fragment(0, true)).unwrap()), 0x0fa0_1388);
    for offset in [1, 100, 0x1fff] {
        assert_eq!(ports(router.key(&fragment(offset, offset == 1)).unwrap()), 0, "offset {offset}");
    }
}

#[test]
fn ipv4_longer_packet_than_the_mtu_to_slowpath() {
    let mut router = Router::plain();
    assert_eq!(router.hop(&udp("10.1.0.1", 64, 576 - 28)), Ok('b'));
    for dont_fragment in [false, true] {
        let packet = with("10.1.0.1", 64, 576 - 27, |header| header.dont_fragment = dont_fragment);
        assert_eq!(router.hop(&packet), exception(ExceptionCode::Mtu));
    }
    // Zero is no limit.
    assert_eq!(router.hop(&udp("10.1.2.3", 64, 1900)), Ok('c'));
}

fn slow_path() -> Ipv4SlowPath {
    Ipv4SlowPath::new([(7, address("192.0.2.1")), (8, address("192.0.2.9"))])
}

/// The only answer.
fn one(answers: Vec<KeyedPacket>) -> KeyedPacket {
    let [answer] = <[KeyedPacket; 1]>::try_from(answers).unwrap();
    answer
}

#[test]
fn slow_path_reports_errors_from_the_address_of_the_meta_interface() {
    let mut slow = slow_path();
    let packet = with("10.1.2.3", 1, 900, |header| header.dont_fragment = true);
    for code in [ExceptionCode::Ttl, ExceptionCode::NoMatch, ExceptionCode::Mtu] {
        let answer = one(slow.answer(code, 7, &packet, (576, 0)));
        let ip = Ipv4::parse(&answer.bytes).unwrap();
        assert_eq!((ip.header.source(), ip.header.destination()), (address("192.0.2.1"), address("198.51.100.9")));
        assert_eq!(answer.key, lookup_key(7, &ip));
        let original = match (code, Icmp4::parse(ip.payload).unwrap()) {
            (ExceptionCode::Ttl, Icmp4::TimeExceeded { code: 0, original }) => original,
            (ExceptionCode::NoMatch, Icmp4::Unreachable { code: 0, mtu: 0, original }) => original,
            (ExceptionCode::Mtu, Icmp4::Unreachable { code: 4, mtu: 576, original }) => original,
            other => panic!("{other:?}"),
        };
        assert_eq!(original, &packet[..576 - 28]);
    }
    // No errors about errors, groups, or packets that a meta-interface without address received.
    let error = one(slow.answer(ExceptionCode::Ttl, 7, &packet, (0, 0))).bytes;
    assert_eq!(slow.answer(ExceptionCode::NoMatch, 7, &error, (0, 0)), []);
    assert_eq!(slow.answer(ExceptionCode::Local, 7, &udp("224.0.0.5", 64, 0), (0, 0)), []);
    assert_eq!(slow.answer(ExceptionCode::Ttl, 9, &packet, (0, 0)), []);
}

#[test]
fn slow_path_answers_ping_and_traceroute() {
    let mut slow = slow_path();
    let mut router = Router::of_routes(&[
        ("192.0.2.9", 32, FilterAction::Exception(ExceptionCode::Local)),
        ("0.0.0.0", 0, forward('a', 1500)),
    ]);
    let mut ping = Vec::new();
    PacketBuilder::ipv4([198, 51, 100, 9], [192, 0, 2, 9], 1)
        .icmpv4_echo_request(3, 4)
        .write(&mut ping, b"data")
        .unwrap();
    // The last hop of a trace has a time to live of one.
    let Err(Diversion::Exception(code)) = router.hop(&ping) else { panic!("it is an exception") };
    let reply = one(slow.answer(code, 7, &ping, (0, 0)));
    let ip = Ipv4::parse(&reply.bytes).unwrap();
    assert!(
        matches!(Icmp4::parse(ip.payload), Ok(Icmp4::EchoReply(echo)) if (echo.identifier, echo.sequence) == (3, 4))
    );
    // The reply passes the filters and leaves with the usual time to live.
    let (hop, sent) = router.send(&reply.bytes, &reply.key).unwrap();
    assert_eq!((hop, Ipv4::parse(&sent).unwrap().header.ttl()), ('a', 64));
    let refused = one(slow.answer(ExceptionCode::Local, 7, &udp("192.0.2.9", 1, 0), (0, 0)));
    let ip = Ipv4::parse(&refused.bytes).unwrap();
    assert!(matches!(Icmp4::parse(ip.payload), Ok(Icmp4::Unreachable { code: 3, .. })));
}

#[test]
fn slow_path_forwards_packets_with_options_by_their_key() {
    let (mut slow, mut router) = (slow_path(), Router::plain());
    let options = |bytes: &[u8]| {
        let options = Ipv4Options::try_from(bytes).unwrap();
        with("10.1.2.3", 64, 10, |header| header.options = options.clone())
    };
    // Record route with one free slot.
    let packet = options(&[7, 7, 4, 0, 0, 0, 0, 0]);
    let answer = one(slow.answer(ExceptionCode::Options, 7, &packet, (0, 0)));
    assert_eq!(answer.bytes[20..28], [7, 7, 8, 192, 0, 2, 1, 0]);
    let (hop, sent) = router.send(&answer.bytes, &answer.key).unwrap();
    assert_eq!((hop, checksum_is_right(&sent), sent[8]), ('c', true, 63));
    // A source route is dropped, a malformed option reported.
    assert_eq!(slow.answer(ExceptionCode::Options, 7, &options(&[131, 7, 4, 10, 1, 1, 1, 0]), (0, 0)), []);
    let report = one(slow.answer(ExceptionCode::Options, 7, &options(&[7, 1, 4, 0]), (0, 0)));
    let ip = Ipv4::parse(&report.bytes).unwrap();
    assert!(matches!(Icmp4::parse(ip.payload), Ok(Icmp4::ParameterProblem { code: 0, .. })));
}

#[test]
fn slow_path_fragments_packets_without_dont_fragment() {
    let (mut slow, mut router) = (slow_path(), Router::plain());
    let packet = with("10.1.0.1", 64, 1400, |header| header.dont_fragment = false);
    let fragments = slow.answer(ExceptionCode::Mtu, 7, &packet, (576, 0));
    let mut payload = Vec::new();
    for fragment in &fragments {
        let (hop, sent) = router.send(&fragment.bytes, &fragment.key).unwrap();
        let ip = Ipv4::parse(&sent).unwrap();
        assert!(hop == 'b' && sent.len() <= 576 && ip.header.fragment_offset() == payload.len());
        payload.extend(ip.payload);
    }
    assert_eq!((fragments.len(), &payload[..]), (3, &packet[20..]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn ipv4_lpm_equals_a_scan_of_all_routes(
        routes in proptest::collection::vec((any::<u32>(), 0u8..=32, 0u8..26), 0..40),
        near in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..32), 20),
    ) {
        let mut filters = BandFilters::new();
        for (to, length, name) in &routes {
            filters.insert(route4(Ipv4Addr::from_bits(*to), *length).unwrap(), forward(char::from(b'a' + name), 1500));
        }
        let mut router = Router::new(&filters);
        for (route, bit) in near {
            // An address within a route, or beside it. Groups are no routes' business.
            let to = routes.get(route.index(routes.len().max(1))).map_or(0, |route| route.0) ^ 1 << bit;
            let to = Ipv4Addr::from_bits(to & 0x7fff_ffff);
            let matching = |(_, length, _): &&(u32, u8, u8), route: u32| {
                u64::from(to.to_bits() ^ route) >> (32 - length) == 0
            };
            let longest = routes.iter().filter(|route| matching(route, route.0)).map(|route| route.1).max();
            // Of two routes for the same prefix the last one counts.
            let expected = longest.and_then(|longest| routes.iter().rev().find(|route| route.1 == longest && matching(route, route.0)));
            let expected = expected.map(|(_, _, name)| char::from(b'a' + name));
            prop_assert_eq!(router.hop(&udp(&to.to_string(), 64, 0)).ok(), expected, "{}", to);
        }
    }
}

fn frames() -> u64 {
    std::env::var("SWITCHPATH_FRAMES").map_or(100_000, |n| n.parse().expect("SWITCHPATH_FRAMES is a number of frames"))
}

/// A datagram to one of a few destinations, with bytes changed or cut off.
fn hostile_packet(random: &mut link::RandomStream) -> Vec<u8> {
    let to = ["10.1.2.3", "10.1.9.9", "10.77.0.1", "10.9.0.0", "192.0.2.1", "224.0.0.1", "172.16.0.1"];
    let (to, ttl) = (to[random.below(7) as usize], 1 + random.below(4) as u8);
    let words = random.below(12).saturating_sub(8) as usize;
    let options: Vec<u8> = (0..words * 4).map(|_| [0, 1, 7, 4, 8, 68, 131][random.below(7) as usize]).collect();
    let mut packet = with(to, ttl, random.below(700) as usize, |header| {
        header.options = Ipv4Options::try_from(&options[..]).unwrap();
        header.dont_fragment = ttl & 1 == 0;
    });
    for _ in 0..random.below(7).saturating_sub(3) {
        let at = random.below(packet.len().min(28) as u64) as usize;
        packet[at] ^= 1 << random.below(8);
    }
    if random.below(8) == 0 {
        packet.truncate(random.below(40) as usize);
    }
    let header = packet.first().map_or(0, |first| usize::from(first & 15) * 4);
    if random.below(4) > 0 && packet.len() >= 20 && header <= packet.len() { sealed(packet) } else { packet }
}

#[test]
fn gpe_only_equals_hybrid_for_ipv4() {
    let mut random = link::RandomStream::new(2, "ipv4");
    let routes = [
        ("10.0.0.0", 8, 'a', 1500),
        ("10.1.0.0", 16, 'b', 300),
        ("10.1.2.3", 32, 'c', 1500),
        ("198.51.100.0", 24, 'd', 1500),
    ];
    let hop = |name: char, mtu| Ipv4Hop { next: (Ipv4Addr::LOCALHOST, name as u16).into(), mtu };
    let mut alone =
        Ipv4Node::new(slow_path(), routes.map(|(to, length, name, mtu)| ((address(to), length), hop(name, mtu))));
    let own = ["192.0.2.1", "192.0.2.9"].map(|own| (own, 32, FilterAction::Exception(ExceptionCode::Local)));
    let sends = routes.map(|(to, length, name, mtu)| (to, length, forward(name, mtu)));
    let (mut router, mut slow) = (Router::of_routes(&[&sends[..], &own].concat()), slow_path());
    let mut fates = [0u64; 3];
    for number in 0..frames() {
        let packet = hostile_packet(&mut random);
        let expected = alone.process(7, &packet, 5);
        let sent: Vec<(char, Vec<u8>)> = match router.forward(&packet) {
            Ok(sent) => {
                fates[0] += 1;
                vec![sent]
            }
            Err(Diversion::Malformed) => {
                fates[1] += 1;
                Vec::new()
            }
            Err(Diversion::Exception(code)) => {
                fates[2] += 1;
                // The program of the slice knows the MTU from its filter.
                let mtu = match router.key(&packet).map(|key| router.bands.find(&key).cloned()) {
                    Ok(Some(FilterAction::Send { data, .. })) => u16::from_be_bytes([data[0], data[1]]),
                    _ => 0,
                };
                let answers = slow.answer(code, 7, &packet, (mtu, 5));
                answers.iter().filter_map(|answer| router.send(&answer.bytes, &answer.key).ok()).collect()
            }
            Err(other) => panic!("packet {number}: {other:?}"),
        };
        let expected: Vec<_> = expected.into_iter().map(|(to, bytes)| (char::from(to.port() as u8), bytes)).collect();
        assert_eq!(sent, expected, "packet {number}: {packet:02x?}");
    }
    assert!(fates.iter().all(|fate| *fate > frames() / 10), "{fates:?}");
}

#[test]
fn mutated_packets_are_forwarded_as_rfc_1812_says_or_diverted() {
    let mut random = link::RandomStream::new(1, "ipv4");
    let (mut router, mut slow) = (Router::plain(), slow_path());
    let mut fates = [0u64; 4];
    for number in 0..frames() {
        let packet = hostile_packet(&mut random);
        let parsed = Ipv4::parse(&packet);
        match router.forward(&packet) {
            Ok((_, sent)) => {
                fates[0] += 1;
                // All is as before, but for the time to live and the checksum, which is right.
                let before = parsed.expect("only valid packets are sent");
                let mut expected = before.bytes.to_vec();
                expected[8] -= 1;
                assert!(before.options.is_empty() && before.header.ttl() > 1);
                assert_eq!(sent, sealed(expected), "packet {number}");
            }
            Err(Diversion::Malformed) => {
                fates[1] += 1;
                assert!(parsed.is_err(), "packet {number}");
            }
            Err(Diversion::Policy) => fates[2] += 1,
            Err(Diversion::Exception(code)) => {
                fates[3] += 1;
                for answer in slow.answer(code, 7, &packet, (576, 0)) {
                    let ip = Ipv4::parse(&answer.bytes).expect("answers are valid");
                    assert_eq!(answer.key, lookup_key(7, &ip));
                }
            }
            Err(Diversion::OutOfMemory | Diversion::Failed) => {
                panic!("packet {number}: the code option uses no memory")
            }
        }
    }
    assert!(fates.iter().all(|fate| *fate > frames() / 100), "{fates:?}");
}
