//! `explain`: the treatment of a packet, with and without a running router.

use crate::rig::{TestDirectory, config};
use serde_json::Value;

#[test]
fn a_configuration_alone_is_enough_to_explain_a_packet() {
    let place = TestDirectory::new(10);
    place.write("router.toml", &config("fast", "[[path]]\nname = 'voice'\nmatch = 'udp dport 5060'"));
    let words = ["explain", "--config", "router.toml", "in", "lan", "daddr", "203.0.113.9", "udp", "dport", "5060"];
    let said = place.run_ok(&words);
    for part in ["+ rule       1 (udp dport 5060 path voice) matches", "ip ttl 64 -> 63", "sent by wan"] {
        assert!(said.contains(part), "{part}:\n{said}");
    }
    let told: Value = serde_json::from_str(&place.run_ok(&[&words[..], &["-j"]].concat())).unwrap();
    assert_eq!((told["verdict"].as_str(), told["path"].as_str()), (Some("sent"), Some("voice")));
    assert!(!place.path("out.pcapng").exists(), "no device was opened");
    let said = place.run_ok(&["explain", "--config", "router.toml", "daddr", "192.0.2.77", "saddr", "198.51.100.5"]);
    assert!(said.contains("assumed    192.0.2.77 answers") && said.contains("sent by lan"), "{said}");
}

#[test]
fn a_packet_of_a_capture_is_explained() {
    let place = TestDirectory::new(10);
    place.write("router.toml", &config("fast", ""));
    let explain = |number: &str| {
        let told = place.run_ok(&[
            "explain",
            "--config",
            "router.toml",
            "--pcap",
            "in.pcapng",
            "--packet",
            number,
            "--port",
            "lan",
            "-j",
        ]);
        serde_json::from_str::<Value>(&told).unwrap()
    };
    assert_eq!(explain("1")["verdict"], "sent");
    assert_eq!(explain("10")["drop"]["reason"], "ttl_expired");
    let said = place.run_failing(
        1,
        &["explain", "--config", "router.toml", "--pcap", "in.pcapng", "--packet", "11", "--port", "lan"],
    );
    assert!(said.contains("fewer than 11 packets"), "{said}");
}

#[test]
fn every_drop_reason_has_an_explanation() {
    let place = TestDirectory::new(1);
    let said = place.run_ok(&["explain", "--drop", "martian_source"]);
    assert!(said.contains("RFC 1812") && said.lines().count() == 2, "{said}");
    let said = place.run_failing(2, &["explain", "--drop", "martian_sauce"]);
    assert!(said.contains("did you mean 'martian_source'?"), "{said}");
    let said = place.run_failing(2, &["explain", "upd"]);
    assert!(said.contains("did you mean 'udp'?") && said.contains("^^^"), "{said}");
}
