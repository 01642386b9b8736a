//! The IPv6 router of a slice, and the code options that change nothing.

use packet::wire::{Ipv6, Ipv6Spec, protocol};
use packet::{Pool, Region};
use slice::bands::{BandFilters, FilterBands};
use slice::code::ipv6::route6;
use slice::code::{
    CODE_OPTIONS, CodeEnv, CodeOption, DATA_BYTES, Diversion, ExceptionCode, Formatted, InnerEdit, LookupResult,
    code_option, mtu_data,
};
use slice::{FilterAction, SliceMemory};
use std::net::{Ipv6Addr, SocketAddr};

fn make(name: &str) -> Box<dyn CodeOption> {
    (code_option(name).unwrap().make)(&Default::default()).unwrap()
}

/// Runs a code option on a packet of meta-interface 3, with a filter of this data. Returns its key and the packet that leaves.
fn run(
    name: &str,
    bytes: &[u8],
    data: impl Fn(&[u8; 14]) -> [u8; DATA_BYTES],
) -> Result<([u8; 14], Vec<u8>), Diversion> {
    let (memory, registration) = (SliceMemory::default(), code_option(name).unwrap());
    let mut code = make(name);
    let key = code.parse(bytes, &mut CodeEnv::new(&memory, 3, registration.parse_steps))?.bytes();
    let mut pool = Pool::new(Region::new(1));
    let mut packet = pool.take().unwrap();
    assert!(packet.fill(bytes));
    let result = LookupResult { queue: 0, interface: 0, data: data(&key) };
    let formatted = code.format(&mut InnerEdit::new(&mut packet), &result, &mut CodeEnv::new(&memory, 3, 0));
    let after = packet.bytes().to_vec();
    pool.give(packet);
    formatted.map(|formatted| {
        assert_eq!(formatted, Formatted::Send);
        (key, after)
    })
}

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn udp(from: &str, to: &str, hop_limit: u8, payload: usize) -> Vec<u8> {
    let spec = Ipv6Spec {
        traffic_class: 0,
        flow_label: 0,
        next_header: protocol::UDP,
        hop_limit,
        source: address(from),
        destination: address(to),
    };
    let mut bytes = vec![0; 48 + payload];
    spec.write(&mut bytes, 8 + payload).unwrap();
    bytes[40..46].copy_from_slice(&[0x0f, 0xa0, 0x13, 0x88, 0, 8]);
    bytes
}

/// Forwards a packet to a next hop with an MTU of 1500.
fn forward(bytes: &[u8]) -> Result<([u8; 14], Vec<u8>), Diversion> {
    run("ipv6", bytes, |_| mtu_data(1500))
}

fn exception<T>(code: ExceptionCode) -> Result<T, Diversion> {
    Err(Diversion::Exception(code))
}

#[test]
fn ipv6_key_has_network_host_hash_and_port() {
    let packet = udp("2001:db8::1", "2001:db8:1:2:3:4:5:6", 64, 10);
    let (key, sent) = forward(&packet).unwrap();
    assert_eq!(key[..10], [3, 17, 0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2]);
    assert_eq!(key[12..], [0x13, 0x88]);
    assert_eq!(Ipv6::parse(&sent).unwrap().header.hop_limit(), 63);
    assert_eq!((&sent[..7], &sent[8..]), (&packet[..7], &packet[8..]));
    // Sources do not matter, all bits of the destination do.
    assert_eq!(forward(&udp("2001:db8::2", "2001:db8:1:2:3:4:5:6", 64, 10)).unwrap().0, key);
    let to = address("2001:db8:1:2:3:4:5:6").to_bits();
    for bit in 0..128 {
        let near = Ipv6Addr::from_bits(to ^ 1 << bit).to_string();
        assert_ne!(forward(&udp("2001:db8::1", &near, 64, 10)).unwrap().0, key, "bit {bit}");
    }
}

#[test]
fn ipv6_longest_prefix_decides_up_to_64_bits_and_for_hosts() {
    let routes =
        [("::", 0), ("2001:db8::", 32), ("2001:db8:1::", 48), ("2001:db8:1:2::", 64), ("2001:db8:1:2::5", 128)];
    let mut bands = FilterBands::default();
    let filter = |(to, length): &(&str, u8)| {
        let (band, condition, data) = route6(address(to), *length, 1500).unwrap();
        let next = SocketAddr::from((Ipv6Addr::LOCALHOST, u16::from(*length)));
        ((band, condition), FilterAction::Send { queue: 0, interface: 0, next, data })
    };
    bands.update(&routes.iter().map(filter).collect::<BandFilters>());
    let found = |key: &[u8; 14]| match bands.find(key) {
        Some(FilterAction::Send { next, data, .. }) => (next.port(), *data),
        other => panic!("{other:?}"),
    };
    let expected = [
        ("3000::1", 0),
        ("2001:db8:9::1", 32),
        ("2001:db8:1:9::1", 48),
        ("2001:db8:1:2::6", 64),
        ("2001:db8:1:2::5", 128),
    ];
    for (to, expected) in expected {
        let (key, _) = run("ipv6", &udp("2001:db8::1", to, 64, 0), |key| found(key).1).unwrap();
        assert_eq!(found(&key).0, expected, "{to}");
    }
    assert!([65, 96, 127, 129].iter().all(|length| route6(address("::"), *length, 1500).is_none()));
}

#[test]
fn ipv6_host_with_the_hash_of_another_to_slowpath() {
    let own = address("2001:db8::5");
    let (_, condition, data) = route6(own, 128, 1500).unwrap();
    let same_hash = (6..=u64::MAX).map(|host| Ipv6Addr::from_bits(own.to_bits() & !0xffff_ffff | u128::from(host)));
    let collides = |to: &Ipv6Addr| {
        let key = forward(&udp("2001:db8::1", &to.to_string(), 64, 0)).unwrap().0;
        condition.matches(&key)
    };
    let other = same_hash.take(1 << 20).find(collides).expect("one in 65536 has the same hash");
    assert_eq!(
        run("ipv6", &udp("2001:db8::1", &other.to_string(), 64, 0), |_| data),
        exception(ExceptionCode::NoMatch)
    );
    assert!(run("ipv6", &udp("2001:db8::1", &own.to_string(), 64, 0), |_| data).is_ok());
}

#[test]
fn ipv6_exceptions_and_drops() {
    let packet = udp("2001:db8::1", "2001:db8::2", 64, 10);
    let to_groups = [("2001:db8::1", "ff02::1"), ("2001:db8::1", "fe80::1"), ("fe80::1", "2001:db8::2")];
    for (from, to) in to_groups {
        assert_eq!(forward(&udp(from, to, 64, 0)), exception(ExceptionCode::Local));
    }
    assert_eq!(run("ipv6", &packet, |_| mtu_data(57)), exception(ExceptionCode::Mtu));
    assert!([0, 58].iter().all(|mtu| run("ipv6", &packet, |_| mtu_data(*mtu)).is_ok()));
    for hop_limit in [0, 1] {
        assert_eq!(forward(&udp("2001:db8::1", "2001:db8::2", hop_limit, 0)), exception(ExceptionCode::Ttl));
    }
    let mut options = packet.clone();
    // Hop-by-hop options, once complete and once with a length beyond the packet.
    options[6] = protocol::HOP_BY_HOP;
    options[40..48].copy_from_slice(&[protocol::UDP, 0, 1, 4, 0, 0, 0, 0]);
    assert_eq!(forward(&options), exception(ExceptionCode::Options));
    options[41] = 200;
    assert_eq!(forward(&options), exception(ExceptionCode::SoftHeader));
    for length in 0..packet.len() {
        assert_eq!(forward(&packet[..length]), Err(Diversion::Malformed), "{length} bytes");
    }
}

#[test]
fn raw_looks_up_the_first_bytes_and_null_none() {
    let bytes: Vec<u8> = (1..=40).collect();
    for (name, length, key) in [
        ("raw", 40, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]),
        ("raw", 3, [1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("raw", 0, [0; 14]),
        ("null", 40, [0; 14]),
    ] {
        assert_eq!(run(name, &bytes[..length], |_| [0xff; DATA_BYTES]), Ok((key, bytes[..length].to_vec())));
    }
}

#[test]
fn names_of_code_options_are_ordered_and_unique() {
    let names: Vec<&str> = CODE_OPTIONS.iter().map(|code| code.name).collect();
    assert_eq!(names, ["esp", "i3", "ipv4", "ipv6", "null", "raw"]);
}
