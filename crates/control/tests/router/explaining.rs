//! `explain`, asked of a running router.

use crate::rig::{Rig, until};
use control::ClientError;
use control::api;

fn asked(rig: &Rig, parameters: &[(&str, &str)]) -> Result<api::ExplainReply, ClientError> {
    let parameters: Vec<_> = parameters.iter().map(|&(name, value)| (name, value.to_owned())).collect();
    rig.client.get_with("/v1/explain", &parameters)
}

#[test]
fn explain_accepts_packet_description_and_changes_no_counter() {
    let rig = Rig::start("[[path]]\nname = 'voice'\nmatch = 'udp dport 5060'");
    // Both ports have announced their addresses.
    let ledger = until(|| {
        let ledger: api::Ledgers = rig.client.get("/v1/accounting").unwrap();
        (ledger.total.sent_packets == 2).then_some(ledger)
    });
    let sent = asked(&rig, &[("packet", "in lan daddr 198.51.100.9 udp dport 5060")]).unwrap();
    assert_eq!((&*sent.verdict, sent.out_port.as_deref(), sent.path.as_deref()), ("sent", Some("wan"), Some("voice")));
    assert_eq!((sent.prefix.as_deref(), sent.next_hop.as_deref()), (Some("198.51.100.9/32"), Some("198.51.100.9")));
    let changed: Vec<&str> = sent.changes.iter().map(|change| change.field.as_str()).collect();
    assert_eq!(changed, ["eth daddr", "eth saddr", "ip ttl", "ip checksum"]);
    let dropped = asked(&rig, &[("packet", "in lan daddr 203.0.113.9")]).unwrap();
    assert_eq!(dropped.drop.map(|drop| drop.reason).as_deref(), Some("no_route"));
    let waits = asked(&rig, &[("packet", "in lan daddr 198.51.100.77")]).unwrap();
    assert_eq!((&*waits.verdict, waits.next_hop.as_deref()), ("waits", Some("198.51.100.77")));
    let after: api::Ledgers = rig.client.get("/v1/accounting").unwrap();
    // The router's own packets, such as multicast reports, continue meanwhile and are not compared.
    let counted = |ledgers: &api::Ledgers| {
        (ledgers.total.received_packets, ledgers.total.dropped_packets, ledgers.total.consumed_packets)
    };
    assert_eq!(counted(&ledger), counted(&after));
    let neighbours: api::Neighbours = rig.client.get("/v1/neighbours").unwrap();
    assert!(neighbours.neighbours.iter().all(|neighbour| neighbour.state == "static"), "nobody was asked for");
}

#[test]
fn a_frame_is_explained_at_the_port_that_is_named() {
    let rig = Rig::start("");
    let frame =
        "02000000000902000000000108004500001c000100004011b5d1c0000207c0000201".to_owned() + "9c400009000800000000";
    let elsewhere = asked(&rig, &[("frame", &frame), ("port", "lan")]).unwrap();
    assert_eq!(elsewhere.drop.map(|drop| drop.reason).as_deref(), Some("other_station"));
    let ours = asked(&rig, &[("frame", &frame), ("port", "lan"), ("ours", "true")]).unwrap();
    assert_ne!(ours.drop.map(|drop| drop.reason).as_deref(), Some("other_station"));
    for (parameters, hint) in [
        (&[("frame", &*frame)][..], "the ports are lan, wan"),
        (&[("frame", &*frame), ("port", "x")], "the ports are lan, wan"),
        (&[("packet", "in wlan")], "the interfaces are lan, wan"),
        (&[("packet", "udp dport")], "add it"),
        (&[("frame", "0g")], "two digits"),
    ] {
        let Err(ClientError::Refused(error)) = asked(&rig, parameters) else { panic!("{parameters:?}") };
        assert!(error.hint.contains(hint), "{error}");
    }
}
