//! `check` of configurations with reservations.

use crate::rig::{TestDirectory, config};
use expect_test::{expect, expect_file};
use serde_json::Value;

const VOICE: &str = "[cpu]\nswitch_cost = '1us'\n[[path]]\nname = 'voice'\nmatch = 'iif lan ip dscp ef'\n\
                     reserve = '49kpps'\ncost = '2us'\n";

/// In the guide each configuration is followed by the output of `check`; `UPDATE_EXPECT=1` writes it.
#[test]
fn guide_quotes_the_output_of_check() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/reservations.md");
    let mut text = std::fs::read_to_string(page).unwrap();
    let place = TestDirectory::new(1);
    let mut from = 0;
    let mut shown = 0;
    while let Some(mark) = text[from..].find("<!-- check -->\n```toml\n") {
        let start = from + mark + "<!-- check -->\n```toml\n".len();
        let end = start + text[start..].find("```\n").expect("the block ends");
        let said = place.write("router.toml", &text[start..end]).run_ok(&["check", "router.toml"]);
        let answer = end + text[end..].find("```text\n").expect("an answer follows") + "```text\n".len();
        let close = answer + text[answer..].find("```\n").expect("the answer ends");
        text.replace_range(answer..close, &said);
        from = answer + said.len();
        shown += 1;
    }
    assert!(shown >= 4, "{shown} examples");
    expect_file![page].assert_eq(&text);
}

#[test]
fn check_prints_reservations_as_table_and_json() {
    let place = TestDirectory::new(1);
    place.write("voice.toml", &config("fast", VOICE)).write("plain.toml", &config("fast", ""));
    let table = place.run_ok(&["check", "voice.toml"]);
    assert!(table.contains(" path voice") && table.contains("reservations use "), "{table}");
    let data: Value = serde_json::from_str(&place.run_ok(&["check", "-j", "voice.toml"])).unwrap();
    let voice = &data["allotment"]["paths"][0];
    expect![[r#""voice" "49kpps" 0.098001 "declared""#]]
        .assert_eq(&format!("{} {} {} {}", voice["name"], voice["rate"], voice["task"]["share"], voice["source"]));
    assert!(data["ok"] == true && data["assumed"].as_array().unwrap().len() == 2, "{data}");
    assert!(!place.run_ok(&["check", "plain.toml"]).contains("TASK"), "nothing is promised");
    assert!(place.run_ok(&["check", "--shares", "plain.toml"]).contains("TASK"));
    let plain: Value = serde_json::from_str(&place.run_ok(&["check", "-j", "plain.toml"])).unwrap();
    assert!(plain["allotment"].is_null() && plain["refused"].is_null(), "{plain}");
}

#[test]
fn a_refused_reservation_names_the_exhausted_resource() {
    let place = TestDirectory::new(1);
    place.write("full.toml", &config("fast", &VOICE.replace("'2us'", "'25us'")));
    let said = place.run_ok(&["check", "full.toml"]);
    assert!(said.contains("the reservation of 'voice' does not fit") && said.contains("would fit"), "{said}");
    let data: Value = serde_json::from_str(&place.run_ok(&["check", "-j", "full.toml"])).unwrap();
    assert_eq!(data["refused"]["shortage"]["resource"], "cpu");
    assert!(data["refused"]["hint"].as_str().unwrap().starts_with("reserve = "), "{data}");
}

/// The answer of a router that has reserved one flow.
fn answer(bound_ms: u64, burst_ms: u64, burst_bytes: u64) -> String {
    let promise = serde_json::json!({
        "path": "reserved", "port": "wan", "parent": null, "rate_bps": 2_000_000, "packet_bytes": 500, "burst_bytes": burst_bytes,
        "delay_ns": 20_000_000, "bound_ns": bound_ms * 1_000_000, "burst_ns": burst_ms * 1_000_000,
        "share_bps": burst_bytes * 8000 / burst_ms, "queue_bytes": 5000, "cpu_ppm": 100, "cost_ns": 50,
    });
    let added = [serde_json::json!({ "name": "call", "promise": promise })];
    let all = serde_json::json!({ "trial": false, "added": added, "renewed": 0, "removed": 0, "total": 1, "carried_out": true, "refused": null });
    all.to_string()
}

#[test]
fn bound_through_routers_counts_the_burst_once() {
    let place = TestDirectory::new(1);
    place
        .write("a.json", &answer(20, 8, 4000))
        .write("b.json", &answer(20, 7, 7000))
        .write("c.json", &answer(15, 5, 9000));
    let text = place.run_ok(&["reserve", "bound", "a.json", "b.json"]);
    // 12 ms and 13 ms of latency, and 4000 bytes at 4 Mbit/s.
    assert!(text.contains("delay bound through all: 33.0ms; the sum of their bounds is 40.0ms"), "{text}");
    // 6250 bytes more gather at 2 Mbit/s in these 25 ms.
    let output = place.run(&["reserve", "bound", "a.json", "b.json", "c.json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("up to 10250 bytes arrive at once, and 9000 are reserved"), "{text}");
    let refused = place.run_failing(1, &["reserve", "bound", "a.json", "missing.json"]);
    assert!(refused.contains("cannot read missing.json"), "{refused}");
}
