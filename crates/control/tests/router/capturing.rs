//! Live captures: packets and their fates.

use crate::rig::{Rig, until};
use control::api;
use control::{Body, ClientError};
use io::pcap::{PcapDirection, Reader};
use std::io::Read;
use units::Mac;

/// Returns interface, direction and comment of every packet until the end.
fn read(body: &mut Body) -> Vec<(String, PcapDirection, String)> {
    let mut reader = Reader::new(body).unwrap();
    let mut seen = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let (interface, direction, comment) = (record.interface, record.direction, record.comment.to_owned());
        seen.push((reader.interfaces()[interface as usize].name.clone(), direction, comment));
    }
    seen
}

#[test]
fn capture_delivers_packets_with_fates_up_to_limit() {
    let mut rig = Rig::start("[[route]]\nto = '203.0.113.0/24'\nblackhole = true");
    let parameters = [("match", "iif lan udp dport 53".to_owned()), ("limit", "3".to_owned())];
    let mut body = rig.client.open_stream("/v1/capture", &parameters).unwrap();
    let status: api::Status = rig.client.get("/v1/status").unwrap();
    assert_eq!(status.captures[0].matching, "iif lan udp dport 53");
    rig.send([198, 51, 100, 9], &[64], 1);
    rig.wan.await_ports(1);
    rig.send([203, 0, 113, 1], &[64], 2);
    rig.send([198, 51, 100, 9], &[64, 64, 64], 3);
    let expected = [
        ("wan", PcapDirection::Out, "sent wan, path best-effort, in lan"),
        ("lan", PcapDirection::In, "dropped blackhole, in lan"),
        ("wan", PcapDirection::Out, "sent wan, path best-effort, in lan"),
    ];
    let seen = read(&mut body);
    assert_eq!(seen, expected.map(|(port, way, comment)| (port.to_owned(), way, comment.to_owned())));
    assert_eq!(body.missed(), Some(0));
    until(|| rig.client.get::<api::Status>("/v1/status").unwrap().captures.is_empty().then_some(()));
}

#[test]
fn matches_of_captures_and_traces_name_the_sets_and_vrfs_of_the_router() {
    let more = "[set.web]\ntype = 'port'\nelements = ['53']\n[set.bad]\nelements = ['203.0.113.0/24']\n";
    let mut rig = Rig::start(more);
    let matching = "vrf main ip daddr @bad udp dport @web";
    let parameters = [("match", matching.to_owned()), ("limit", "2".to_owned())];
    let mut body = rig.client.open_stream("/v1/capture", &parameters).unwrap();
    let mut trace = rig.client.open_stream("/v1/trace", &parameters).unwrap();
    let status: api::Status = rig.client.get("/v1/status").unwrap();
    assert_eq!(status.captures[0].matching, matching);
    rig.send([198, 51, 100, 9], &[64], 1);
    rig.wan.await_ports(1);
    rig.send([203, 0, 113, 1], &[64], 2);
    // A change of the set applies to the next packet.
    let added: api::SetEdited =
        rig.client.post_with("/v1/sets/add", &[("set", "bad".to_owned())], "198.51.100.0/24").unwrap();
    assert_eq!(added.added, 1);
    rig.send([198, 51, 100, 9], &[64], 3);
    let fates: Vec<String> = read(&mut body).into_iter().map(|(_, _, fate)| fate).collect();
    assert_eq!(fates, ["dropped no_route, path general, in lan", "sent wan, path best-effort, in lan"]);
    let mut lines = String::new();
    trace.read_to_string(&mut lines).unwrap();
    assert!(lines.contains("203.0.113.1") && lines.contains("198.51.100.9"), "{lines}");
    for (matching, reason, hint) in [
        ("ip saddr @bat", "there is no set 'bat'", "did you mean 'bad'?"),
        ("ip saddr @web", "the set 'web' has ports", "'saddr' needs a set of addresses"),
        ("vrf red", "no port is in a VRF 'red'", "the VRFs are main"),
    ] {
        for stream in ["/v1/capture", "/v1/trace"] {
            let Err(ClientError::Refused(error)) = rig.client.open_stream(stream, &[("match", matching.to_owned())])
            else {
                panic!("{stream} {matching}: it opens")
            };
            assert_eq!((&*error.reason, &*error.hint), (reason, hint), "{stream}");
        }
    }
}

#[test]
fn captures_contain_received_and_sent_packets_on_request() {
    let mut rig = Rig::start("[[route]]\nto = '203.0.113.0/24'\nblackhole = true");
    let parameters =
        [("match", "iif lan udp dport 53".to_owned()), ("limit", "2".to_owned()), ("arrivals", "true".to_owned())];
    let mut body = rig.client.open_stream("/v1/capture", &parameters).unwrap();
    rig.send([198, 51, 100, 9], &[64], 1);
    rig.wan.await_ports(1);
    rig.send([203, 0, 113, 1], &[64], 2);
    let mut reader = Reader::new(&mut body).unwrap();
    let mut seen = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let (interface, direction, comment) = (record.interface, record.direction, record.comment.to_owned());
        let (station, ttl) = (Mac(*record.data.first_chunk().unwrap()), record.data[22]);
        let interface = &reader.interfaces()[interface as usize];
        seen.push((interface.name.clone(), direction, ttl, interface.mac == Some(station), comment));
    }
    let sent = "sent wan, path best-effort, in lan";
    let expected = [
        ("lan", PcapDirection::In, 64, true, sent),
        ("wan", PcapDirection::Out, 63, false, sent),
        ("lan", PcapDirection::In, 64, true, "dropped blackhole, in lan"),
    ];
    assert_eq!(
        seen,
        expected.map(|(port, way, ttl, ours, comment)| (port.to_owned(), way, ttl, ours, comment.to_owned()))
    );
}

#[test]
fn disconnected_reader_ends_capture_and_frees_slot() {
    let mut rig = Rig::start("");
    let mut open: Vec<Body> =
        (0..control::capture::MOST_TAPS).map(|_| rig.client.open_stream("/v1/capture", &[]).unwrap()).collect();
    let Err(ClientError::Refused(error)) = rig.client.open_stream("/v1/capture", &[]) else {
        panic!("one too many was opened")
    };
    assert_eq!(error.error, api::ErrorKind::Busy);
    open.clear();
    // No packet passes, so the router has to notice without one.
    until(|| rig.client.get::<api::Status>("/v1/status").unwrap().captures.is_empty().then_some(()));
    rig.send([198, 51, 100, 9], &[64], 7);
    assert_eq!(rig.wan.await_ports(1), [7]);
}

#[test]
fn a_stalled_reader_misses_packets_and_delays_none() {
    let mut rig = Rig::start("");
    let mut body = rig.client.open_stream("/v1/capture", &[]).unwrap();
    let mut seen = Vec::new();
    for round in 0..400 {
        rig.send([198, 51, 100, 9], &[64; 64], round);
        until(|| {
            rig.wan.receive(&mut seen);
            (seen.len() >= (usize::from(round) + 1) * 64).then_some(())
        });
    }
    let missed = rig.client.get::<api::Status>("/v1/status").unwrap().captures[0].missed_packets;
    assert!(missed > 0);
    rig.daemon.stop();
    let taken = read(&mut body).len() as u64;
    // Some of them may be the router's own packets.
    assert!(taken + missed >= 400 * 64, "{taken} taken and {missed} missed");
    assert_eq!(body.missed(), Some(missed));
}

#[test]
fn an_unknown_interface_is_refused_with_the_known_ones() {
    let rig = Rig::start("");
    let Err(ClientError::Refused(error)) = rig.client.open_stream("/v1/capture", &[("match", "iif wlan".to_owned())])
    else {
        panic!()
    };
    assert!(error.hint.contains("lan, wan"), "{error}");
}

#[test]
fn stopping_router_ends_captures() {
    let mut rig = Rig::start("");
    let mut body = rig.client.open_stream("/v1/capture", &[]).unwrap();
    rig.send([198, 51, 100, 9], &[64; 5], 1);
    rig.wan.await_ports(5);
    rig.daemon.stop();
    let udp = read(&mut body).iter().filter(|(_, _, comment)| comment == "sent wan, path best-effort, in lan").count();
    assert_eq!(udp, 5);
}
