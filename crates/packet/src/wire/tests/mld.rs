use super::frames::MAC;
use crate::wire::ipv6::{link_local, solicited_node};
use crate::wire::mld::{self, GroupRecord, MldError, MldQuery};
use crate::wire::{Ipv6, Ipv6Spec, icmp6, protocol, transport};
use proptest::prelude::*;
use std::net::Ipv6Addr;

const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);
const ALERT: [u8; 8] = [protocol::ICMPV6, 0, 5, 2, 0, 0, 1, 0];

struct QueryFields<'a> {
    source: Ipv6Addr,
    hops: u8,
    options: &'a [u8],
    code: u16,
    group: Ipv6Addr,
    rest: &'a [u8],
}

fn query() -> QueryFields<'static> {
    QueryFields { source: link_local(MAC), hops: 1, options: &ALERT, code: 1000, group: GROUP, rest: &[2, 125, 0, 0] }
}

impl QueryFields<'_> {
    fn packet(&self) -> Vec<u8> {
        let mut message = vec![mld::QUERY, 0, 0, 0];
        message.extend(self.code.to_be_bytes());
        message.extend([0, 0]);
        message.extend(self.group.octets());
        message.extend(self.rest);
        assert!(transport::seal(self.source.into(), GROUP.into(), protocol::ICMPV6, &mut message));
        let next_header = if self.options.is_empty() { protocol::ICMPV6 } else { protocol::HOP_BY_HOP };
        let (source, hop_limit) = (self.source, self.hops);
        let spec = Ipv6Spec { traffic_class: 0, flow_label: 0, next_header, hop_limit, source, destination: GROUP };
        let mut packet = vec![0; 40];
        spec.write(&mut packet, self.options.len() + message.len()).unwrap();
        [&packet, self.options, &message].concat()
    }

    fn read(&self) -> Result<MldQuery, MldError> {
        let packet = self.packet();
        let ip = Ipv6::parse(&packet).unwrap();
        let (_, message) = ip.upper().unwrap().unwrap();
        MldQuery::parse(&ip, message)
    }
}

#[test]
fn query_version_is_determined_by_its_length() {
    assert_eq!(query().read(), Ok(MldQuery { is_v1: false, group: GROUP, max_response_ms: 1000 }));
    let old = QueryFields { rest: &[], group: Ipv6Addr::UNSPECIFIED, code: 0xffff, ..query() };
    assert_eq!(old.read(), Ok(MldQuery { is_v1: true, group: Ipv6Addr::UNSPECIFIED, max_response_ms: 65_535 }));
    assert_eq!(QueryFields { rest: &[0, 0], ..query() }.read(), Err(MldError::Length));
    // With sources: the query still concerns the whole group.
    let sources = [&[2, 125, 0, 1][..], &[1; 16]].concat();
    assert_eq!(QueryFields { rest: &sources, ..query() }.read().unwrap().group, GROUP);
}

#[test]
fn long_response_times_are_floating_point() {
    for (code, ms) in [(0, 0), (0x7fff, 32_767), (0x8000, 32_768), (0x8001, 32_776), (0xffff, 0x1fff << 10)] {
        assert_eq!(QueryFields { code, ..query() }.read().unwrap().max_response_ms, ms, "{code:#x}");
    }
}

#[test]
fn a_query_from_beyond_the_link_is_ignored() {
    for (asked, error) in [
        (QueryFields { source: "2001:db8::1".parse().unwrap(), ..query() }, MldError::Source),
        (QueryFields { source: Ipv6Addr::UNSPECIFIED, ..query() }, MldError::Source),
        (QueryFields { hops: 64, ..query() }, MldError::Hops),
        (QueryFields { options: &[], ..query() }, MldError::Hops),
        (QueryFields { options: &[protocol::ICMPV6, 0, 1, 4, 0, 0, 0, 0], ..query() }, MldError::Hops),
        (QueryFields { group: "2001:db8::1".parse().unwrap(), ..query() }, MldError::Group),
    ] {
        assert_eq!(asked.read(), Err(error));
    }
}

#[test]
fn a_report_has_a_router_alert_and_a_record_for_each_group() {
    let source = link_local(MAC);
    let groups =
        [(GroupRecord::Member, GROUP), (GroupRecord::Joined, solicited_node(source)), (GroupRecord::Left, GROUP)];
    let mut buffer = [0; 1280];
    let length = mld::write_report(&mut buffer, source, &groups).unwrap();
    let ip = Ipv6::parse(&buffer[..length]).unwrap();
    assert_eq!((ip.header.hop_limit(), ip.header.destination()), (1, mld::ALL_MLD_ROUTERS));
    assert_eq!(ip.bytes[40..48], ALERT);
    let (kind, message) = ip.upper().unwrap().unwrap();
    assert!(kind == protocol::ICMPV6 && icmp6::checksum_ok(source, mld::ALL_MLD_ROUTERS, message));
    assert_eq!((message[0], &message[6..8], message.len()), (143, &[0, 3][..], 8 + 3 * 20));
    let kinds: Vec<u8> = message[8..].chunks(20).map(|record| record[0]).collect();
    assert_eq!(kinds, [2, 4, 3]);
    assert_eq!(message[12..28], GROUP.octets());
    let all = [(GroupRecord::Member, GROUP); mld::MOST_RECORDS];
    assert!(mld::write_report(&mut buffer, source, &all).is_some_and(|length| length <= 1280));
    assert_eq!(mld::write_report(&mut buffer, source, &[(GroupRecord::Member, GROUP); mld::MOST_RECORDS + 1]), None);
}

#[test]
fn a_report_of_version_1_goes_to_its_group() {
    let mut buffer = [0; 72];
    assert_eq!(mld::write_report_v1(&mut buffer, link_local(MAC), GROUP), Some(72));
    let ip = Ipv6::parse(&buffer).unwrap();
    let (_, message) = ip.upper().unwrap().unwrap();
    assert!(icmp6::checksum_ok(link_local(MAC), GROUP, message));
    assert_eq!((ip.header.destination(), message[0], &message[8..]), (GROUP, 131, &GROUP.octets()[..]));
}

proptest! {
    #[test]
    fn mld_parser_never_panics(packet in prop::collection::vec(any::<u8>(), 0..120), sound: bool) {
        let mut packet = packet;
        if sound {
            let start = query().packet();
            packet.splice(0..packet.len().min(start.len()), start);
        }
        if let Ok(ip) = Ipv6::parse(&packet)
            && let Ok(Some((_, message))) = ip.upper()
        {
            let _ = MldQuery::parse(&ip, message);
        }
    }
}
