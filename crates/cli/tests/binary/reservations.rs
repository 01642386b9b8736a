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
