//! Two routers in a chain, connected by memory shared between their processes.

use crate::rig::{TestDirectory, config, until};
use io::clock;
use serde_json::Value;
use units::Nanos;

/// The configuration of the second router: from the link to a capture.
fn second(link: &str) -> String {
    format!(
        r#"
version = 1
[port.lan]
device = "memif:listen:{link}"
mac = "02:00:00:00:00:0a"
address = ["198.51.100.9/24"]
[port.wan]
device = "pcap:"
write = "out.pcapng"
address = ["203.0.113.1/24"]
[[neighbour]]
address = "203.0.113.5"
mac = "02:00:00:00:00:0b"
port = "wan"
"#
    )
}

/// Prepares both places. The first router sends the packets of its capture to the second.
fn chain(packets: u16) -> (TestDirectory, TestDirectory) {
    let (first, last) = (TestDirectory::new(packets), TestDirectory::new(0));
    let link = last.path("link").display().to_string();
    last.write("run.toml", &second(&link));
    let device = format!("device = \"memif:connect:{link}\"");
    let text = config("1000pps", "").replace("device = \"pcap:\"\nwrite = \"out.pcapng\"", &device);
    first.write("run.toml", &text);
    (first, last)
}

fn port(place: &TestDirectory, name: &str) -> Value {
    let ports = place.json(&["show", "ports"]);
    ports["ports"].as_array().unwrap().iter().find(|port| port["name"] == name).cloned().unwrap()
}

fn is_up(place: &TestDirectory, name: &str) -> bool {
    port(place, name)["up"] == true
}

#[test]
fn two_chained_routers_keep_order_and_account_for_every_packet() {
    let (first, last) = chain(2000);
    let behind = last.start();
    let router = first.start();
    until(|| (port(&first, "lan")["received_packets"] == 2000).then_some(()));
    until(|| (port(&first, "wan")["backlog_packets"] == 0).then_some(()));
    let drops = first.json(&["show", "drops"]);
    let down = drops["drops"].as_array().unwrap().iter().find(|drop| drop["reason"] == "port_down").cloned();
    let lost = down.map_or(0, |drop| drop["packets"].as_u64().unwrap());
    until(|| (port(&last, "lan")["received_packets"].as_u64() >= Some(1800 - lost)).then_some(()));
    router.stop();
    behind.stop();
    let arrived: Vec<u16> = last.read("out.pcapng").into_iter().map(|(sport, _)| sport).collect();
    // Packets sent before the two sides were connected are counted as lost, including the router's own announcements. All later ones arrive.
    let sent: Vec<u16> = (0..2000).filter(|i| i % 10 != 9).collect();
    let missing = sent.len() - arrived.len();
    assert!(missing as u64 <= lost && lost < 900, "{missing} missing, {lost} counted");
    assert_eq!(arrived, sent[missing..]);
}

#[test]
fn link_recovers_within_a_second_after_peer_restart() {
    let (first, last) = chain(60000);
    let behind = last.start();
    let router = first.start();
    until(|| is_up(&first, "wan").then_some(()));
    behind.kill();
    until(|| (!is_up(&first, "wan")).then_some(()));
    let again = last.start();
    let ready = clock::now();
    until(|| is_up(&first, "wan").then_some(()));
    let received = until(|| port(&last, "lan")["received_packets"].as_u64().filter(|&packets| packets > 0));
    let took = clock::now().since(ready);
    assert!(took < Nanos::secs(1), "{took:?} until {received} packets");
    router.stop();
    again.stop();
}
