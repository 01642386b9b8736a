//! Traces packets through a running router.

use crate::rig::{Rig, until};
use control::api::{self, TracedPacket};
use control::{Body, ClientError};
use std::io::{BufRead, BufReader, Read};

fn follow(rig: &Rig, parameters: &[(&str, &str)]) -> Result<Body, ClientError> {
    let parameters: Vec<_> = parameters.iter().map(|&(name, value)| (name, value.to_owned())).collect();
    rig.client.open_stream("/v1/trace", &parameters)
}

/// Returns every packet until the end, and the number of missed ones.
fn read(body: Body) -> (Vec<TracedPacket>, Option<u64>) {
    let mut lines = BufReader::new(body);
    let packets = lines.by_ref().lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    (packets, lines.get_ref().missed())
}

fn stages(packet: &TracedPacket) -> Vec<(&str, &str)> {
    packet.stages.iter().map(|stage| (stage.stage.as_str(), stage.text.as_str())).collect()
}

#[test]
fn trace_lists_stages_from_ingress_to_egress() {
    let mut rig = Rig::start(
        "[[path]]\nname = 'voice'\nmatch = 'udp dport 53'\n[[route]]\nto = '203.0.113.0/24'\nblackhole = true",
    );
    let body = follow(&rig, &[("match", "iif lan udp"), ("port", "lan"), ("limit", "3")]).unwrap();
    let status: api::Status = rig.client.get("/v1/status").unwrap();
    assert_eq!(status.traces[0].matching, "iif lan udp");
    rig.send([198, 51, 100, 9], &[64], 1);
    rig.wan.await_ports(1);
    rig.send([203, 0, 113, 1], &[64], 2);
    rig.send([198, 51, 100, 9], &[1], 3);
    let (packets, missed) = read(body);
    assert_eq!((packets.len(), missed), (3, Some(0)));
    let sent = stages(&packets[0]);
    let expected = [
        ("received", "by lan, 62 bytes"),
        (
            "classified",
            "interface lan, route 198.51.100.9/32 neighbour via 198.51.100.9, leaves by wan, path voice (udp dport 53)",
        ),
        ("queued", "on path voice, behind 0 packets"),
    ];
    assert_eq!(&sent[..3], expected);
    assert!(sent[3].0 == "function" && sent[3].1.contains("ip ttl 64 -> 63"), "{sent:?}");
    assert_eq!(&sent[4..], [("link", "wan is idle: passes by the scheme"), ("sent", "by wan")]);
    assert!(packets[0].stages.is_sorted_by_key(|stage| stage.after_ns));
    assert_eq!(packets[0].out_port.as_deref(), Some("wan"));
    let dropped = stages(&packets[1]);
    assert_eq!(dropped[1], ("classified", "refused: blackhole"));
    assert_eq!(packets[1].drop.as_ref().map(|drop| &*drop.reason), Some("blackhole"));
    let expired = stages(&packets[2]);
    assert!(expired.iter().any(|(stage, text)| *stage == "host" && text.contains("time to live")), "{expired:?}");
    assert_eq!(packets[2].fate, "dropped");
    until(|| rig.client.get::<api::Status>("/v1/status").unwrap().traces.is_empty().then_some(()));
}

#[test]
fn trace_continues_after_neighbour_resolution() {
    let mut rig = Rig::start("");
    let body = follow(&rig, &[("match", "udp"), ("limit", "1")]).unwrap();
    rig.send([198, 51, 100, 77], &[64], 1);
    let (packets, _) = read(body);
    let told = stages(&packets[0]);
    assert!(told[1].1.contains("the link-layer address of the next hop has to be resolved"), "{told:?}");
    assert!(told.contains(&("host", "the next hop did not answer: its sender gets an ICMP error")), "{told:?}");
    assert_eq!(packets[0].drop.as_ref().map(|drop| &*drop.reason), Some("neighbour_failed"));
    assert!(packets[0].took_ns > 2_000_000_000, "three questions, a second apart");
}

#[test]
fn a_busy_router_is_traced_no_faster_than_allowed() {
    let mut rig = Rig::start("");
    let body = follow(&rig, &[("rate", "10")]).unwrap();
    let mut seen = Vec::new();
    for round in 1..=50 {
        rig.send([198, 51, 100, 9], &[64; 64], round);
        rig.await_delivery(&mut seen, usize::from(round) * 64);
    }
    rig.daemon.stop();
    let (packets, _) = read(body);
    assert!((1..1000).contains(&packets.len()), "{} of 3200 at 10 a second", packets.len());
}

#[test]
fn invalid_traces_are_refused() {
    let rig = Rig::start("");
    for (parameters, hint) in
        [(("port", "wlan"), "lan, wan"), (("match", "iif wlan"), "lan, wan"), (("rate", "0"), "from 1 to")]
    {
        let Err(ClientError::Refused(error)) = follow(&rig, &[parameters]) else { panic!("{parameters:?}") };
        assert!(error.hint.contains(hint), "{error}");
    }
    let open: Vec<Body> = (0..control::trace::MOST_TRACES).map(|_| follow(&rig, &[]).unwrap()).collect();
    let Err(ClientError::Refused(error)) = follow(&rig, &[]) else { panic!("one too many was opened") };
    assert_eq!(error.error, api::ErrorKind::Busy);
    drop(open);
    until(|| rig.client.get::<api::Status>("/v1/status").unwrap().traces.is_empty().then_some(()));
}
