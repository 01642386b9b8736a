//! Shares of ports, and subscribers, through the API.

use crate::rig::{Rig, config, until};
use control::{ClientError, api};
use std::fs;
use std::path::Path;

/// Both ports have shares; `of_wan` are further keys of the port `wan`, and `more` further sections.
pub fn sharing(of_wan: &str, more: &str) -> String {
    let text = config(more);
    let scheme = "scheme = \"share(rate=1gbit){codel}\"\n";
    text.replace("[port.lan]\n", &format!("[port.lan]\n{scheme}"))
        .replace("[port.wan]\n", &format!("[port.wan]\n{scheme}{of_wan}"))
}

const GOLD: &str = "shares = [\"gold rate 100mbit ceiling 200mbit\", \"voice in gold rate 10mbit priority 0\"]\n";

fn start(text: String) -> Rig {
    Rig::of(text, |options| options)
}

fn batch(rig: &Rig, port: &str, text: &str) -> Result<api::SharesEdited, ClientError> {
    rig.client.post_with("/v1/shares/batch", &[("port", port.to_owned()), ("name", "batch".to_owned())], text)
}

fn shares(rig: &Rig, query: &str) -> Vec<api::ShareReply> {
    let mut reply: api::SharesReply = rig.client.get(&format!("/v1/shares?port=wan{query}")).unwrap();
    reply.ports.remove(0).shares
}

fn names(rig: &Rig, query: &str) -> Vec<String> {
    shares(rig, query).into_iter().map(|share| share.name).collect()
}

fn events(rig: &Rig, kind: api::EventKind) -> Vec<String> {
    let events: api::Events = rig.client.get("/v1/events").unwrap();
    events.events.into_iter().filter(|event| event.kind == kind).map(|event| event.text).collect()
}

#[test]
fn batch_of_shares_is_made_whole_or_not_at_all() {
    let rig = start(sharing(GOLD, ""));
    assert_eq!(names(&rig, ""), ["gold", "voice"]);
    let text = "add \"Doe, Jane\" in gold rate 20mbit ceiling 50mbit weight 3\nset voice ceiling 30mbit\n";
    let edited = batch(&rig, "wan", text).unwrap();
    assert!(edited.carried_out, "an idle worker carries it out too");
    // The share above them is counted as well.
    assert_eq!((edited.port.as_str(), edited.changed, edited.total), ("wan", 3, 3));
    let listed = shares(&rig, "");
    let jane = listed.iter().find(|share| share.name == "Doe, Jane").unwrap();
    assert_eq!((jane.parent.as_deref(), jane.level, jane.origin.as_str()), (Some("gold"), 2, "api"));
    assert_eq!((jane.weight, jane.is_leaf), (Some(3), true));
    assert_eq!((jane.traffic.guarantee_bps, jane.traffic.ceiling_bps), (20_000_000, Some(50_000_000)));
    assert_eq!(names(&rig, "&leaves=true").len(), 2);
    assert_eq!(names(&rig, "&limit=1"), ["gold"]);
    // The second change cannot be made: the parent is missing, and the sum of the rates would be too high.
    let error = batch(&rig, "wan", "add a in gold\n\nadd b in north\n").unwrap_err().to_string();
    assert!(error.contains("batch:3:1: error: there is no share 'north'"), "{error}");
    let error = batch(&rig, "wan", "set \"Doe, Jane\" rate 50mbit\nset voice rate 55mbit ceiling 60mbit\n")
        .unwrap_err()
        .to_string();
    assert!(error.contains("batch:2:1: error: ") && error.contains("100mbit"), "{error}");
    let error = batch(&rig, "wan", "add a rate 10mbps\nput b\n").unwrap_err().to_string();
    assert!(error.contains("batch:1:12: error") && error.contains("batch:2:1: error"), "{error}");
    let error = batch(&rig, "wan", "remove gold all\n").unwrap_err().to_string();
    assert!(error.contains("configuration"), "{error}");
    let error = batch(&rig, "wann", "add a\n").unwrap_err().to_string();
    assert!(error.contains("no port 'wann' has shares") && error.contains("did you mean 'wan'"), "{error}");
    assert_eq!(names(&rig, "").len(), 3);
    let texts = events(&rig, api::EventKind::SharesEdited);
    assert!(texts.len() == 1 && texts[0].starts_with("shares: 3 changed, 3 at the port; by "), "{texts:?}");
    assert_eq!(events(&rig, api::EventKind::Refused).len(), 5);
}

#[test]
fn share_leaves_when_its_lease_ends() {
    let rig = start(sharing("", ""));
    batch(&rig, "wan", "add short lease 1s\nadd long lease 60s\nadd renewed lease 1s\nset renewed lease none\n")
        .unwrap();
    let left = shares(&rig, "").iter().find(|share| share.name == "long").unwrap().lease_left_ns.unwrap();
    assert!((59_000_000_000..=60_000_000_000).contains(&left), "{left}");
    until(|| (names(&rig, "") == ["long", "renewed"]).then_some(()));
    assert_eq!(events(&rig, api::EventKind::ShareExpired), ["the lease of the share 'short' has ended"]);
}

pub const TABLE: &str = "site,circuit,parent,address,down,up,title\nNorth,,,,1gbit,500mbit,\n\
                     ,10001,North,192.0.2.7,100mbit,20mbit,Jane\n,10002,North,192.0.2.8,50mbit,10mbit,\n";

/// The section with these subscribers.
pub fn section(file: &Path) -> String {
    format!("[subscribers]\ninside = ['lan']\noutside = ['wan']\nfile = '{}'\n", file.display())
}

fn with_subscribers(file: &Path) -> Rig {
    start(sharing("", &section(file)))
}

fn subscribers(rig: &Rig, query: &str) -> Vec<api::SubscriberReply> {
    let reply: api::SubscribersReply = rig.client.get(&format!("/v1/subscribers{query}")).unwrap();
    reply.subscribers
}

#[test]
fn subscribers_are_listed_with_both_directions_and_rates() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("subscribers.csv");
    fs::write(&file, TABLE).unwrap();
    let mut rig = with_subscribers(&file);
    let listed = subscribers(&rig, "");
    let shown: Vec<(&str, &str, Option<&str>)> =
        listed.iter().map(|one| (one.name.as_str(), one.title.as_str(), one.site.as_deref())).collect();
    assert_eq!(shown, [("10001", "Jane", Some("North")), ("10002", "", Some("North"))]);
    let ceiling = |traffic: &Option<api::ShareTraffic>| traffic.as_ref().unwrap().ceiling_bps;
    assert_eq!((ceiling(&listed[0].down), ceiling(&listed[0].up)), (Some(100_000_000), Some(20_000_000)));
    // Two samples without packets, then packets of the first subscriber: the second next sample has their rate.
    until(|| subscribers(&rig, "")[0].up.as_ref().unwrap().sent_bps);
    let rate = until(|| {
        rig.send([198, 51, 100, 9], &[64; 8], 1);
        let up = subscribers(&rig, "")[0].up.clone().unwrap();
        rig.wan.receive(&mut Vec::new());
        (up.sent_bps > Some(0)).then_some(up)
    });
    assert!(rate.packets >= 8 && rate.bytes >= 8 * 62, "{rate:?}");
    assert!(rate.p50_ns.is_some() && rate.p50_ns <= rate.p99_ns, "{rate:?}");
    let expected = rate.sent_bps.unwrap() / 20;
    assert!(rate.use_ppm.unwrap().abs_diff(expected) <= 1, "{rate:?}");
    let worst = subscribers(&rig, "?worst=bytes&limit=1");
    assert_eq!((worst.len(), worst[0].name.as_str()), (1, "10001"));
    // The site above has the packets of both.
    let site = &shares(&rig, "&sort=bytes")[0];
    assert_eq!((site.name.as_str(), site.is_leaf), ("North", false));
    assert!(site.traffic.packets >= rate.packets && site.traffic.sent_bps.is_some());
    // UDP has no round-trip times.
    let none = api::RttReply::default();
    assert_eq!((worst[0].rtt, subscribers(&rig, "?worst=rtt&limit=1")[0].rtt), (Some(none), Some(none)));
    let sites: api::SitesReply = rig.client.get("/v1/sites?worst=use").unwrap();
    assert_eq!((sites.total, sites.is_tree, sites.rtt), (1, false, Some(none)));
    let north = &sites.sites[0];
    assert_eq!((north.name.as_str(), north.level, north.subscribers, north.rtt), ("North", 1, 2, Some(none)));
    let up = north.up.as_ref().unwrap();
    assert!(up.packets >= rate.packets && up.ceiling_bps == Some(500_000_000), "{up:?}");
    let page = String::from_utf8(rig.client.fetch("GET", "/metrics", b"").unwrap()).unwrap();
    assert!(page.contains("switchpath_site_rtt_samples{site=\"North\",side=\"subscriber\"} 0"), "{page}");
    assert!(page.contains("switchpath_port_shares{port=\"wan\"} 3"), "{page}");
    assert!(page.contains("switchpath_share_bytes_total{port=\"wan\",share=\"North\"}"), "{page}");
    assert!(page.contains("switchpath_share_ceiling_bps{port=\"lan\",share=\"10001\"} 100000000"), "{page}");
}

#[test]
fn changed_file_of_subscribers_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("subscribers.csv");
    fs::write(&file, TABLE).unwrap();
    let rig = with_subscribers(&file);
    batch(&rig, "wan", "add mine\n").unwrap();
    fs::write(&file, TABLE.replace("10002", "10003") + ",10004,North,192.0.2.10,50mbit,10mbit,\n").unwrap();
    let reload = || events(&rig, api::EventKind::SubscribersReloaded);
    let text = "subscribers: 2 added, 1 removed, 3 in the files; a file has changed";
    until(|| reload().contains(&text.to_owned()).then_some(()));
    assert_eq!(names(&rig, ""), ["North", "10001", "10003", "10004", "mine"]);
    // A wrong file changes nothing, and each of its errors is an event.
    fs::write(&file, TABLE.replace("192.0.2.8", "192.0.2.300").replace("100mbit", "100mbps")).unwrap();
    let refused = until(|| Some(events(&rig, api::EventKind::Refused)).filter(|refused| refused.len() == 2));
    assert!(refused[0].contains("subscribers.csv:3:24") && refused[1].contains("subscribers.csv:4:14"), "{refused:?}");
    assert_eq!(names(&rig, "").len(), 5);
    let error = rig.client.post_with::<api::SubscribersReloaded>("/v1/subscribers/reload", &[], "").unwrap_err();
    assert!(error.to_string().contains("subscribers.csv:3:24"), "{error}");
    fs::write(&file, TABLE).unwrap();
    let read: api::SubscribersReloaded = rig.client.post_with("/v1/subscribers/reload", &[], "").unwrap();
    assert_eq!((read.subscribers, read.added, read.removed), (2, 1, 2));
    assert_eq!(names(&rig, ""), ["North", "10001", "10002", "mine"]);
}

#[test]
fn reload_without_subscribers_is_refused() {
    let rig = start(sharing("", ""));
    let error = rig.client.post_with::<api::SubscribersReloaded>("/v1/subscribers/reload", &[], "").unwrap_err();
    assert!(error.to_string().contains("the configuration has no subscribers"), "{error}");
    assert!(subscribers(&rig, "").is_empty());
}
