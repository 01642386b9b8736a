//! `graph`: the way of packets through a configuration.

use crate::rig::TestDirectory;
use expect_test::expect;
use serde_json::Value;
use std::collections::BTreeSet;

const CONFIG: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
address = ["192.0.2.1/24"]
[port.wan]
device = "memory:wan"
address = ["198.51.100.1/24"]
scheme = "share(rate=100mbit)"
[[path]]
name = "web"
match = "tcp dport { 80, 443 }"
functions = ["dispatch", "ip"]
dispatch = ["tls name *.example.org video", "payload 0 0x2261 video"]
[[path]]
name = "video"
reservations = true
interleave = true
input_queue = 64
functions = ["spin(cost=10us)", "ip"]
"#;

fn place() -> TestDirectory {
    let place = TestDirectory::new(1);
    place.write("router.toml", CONFIG);
    place
}

#[test]
fn graph_as_text_has_each_stage_of_each_path() {
    expect![[r#"
        receive by lan, wan
        classify: the first path that matches
          web          tcp dport { 80, 443 }
                         queue 512 -> dispatch -> ip -> queue 512
                         tls name *.example.org -> path video
                         payload 0 0x2261 -> path video
          video        flows of `switchpath reserve`
                         a queue for each flow, spfq selects after each function -> spin(cost=10us) -> ip -> queue 512
          best-effort  all other packets
                         queue 4096 -> ip -> queue 4096
        transmit
          lan  fifo -> memory:lan
          wan  share(rate=100mbit){fq(flows=32,limit=1000){codel}} -> memory:wan
    "#]]
    .assert_eq(&place().run_ok(&["graph", "router.toml"]));
}

#[test]
fn graph_as_json_and_for_graphviz_are_complete() {
    let place = place();
    let data: Value = serde_json::from_str(&place.run_ok(&["graph", "router.toml", "-j"])).unwrap();
    let names: Vec<&str> =
        data["paths"].as_array().unwrap().iter().map(|path| path["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["web", "video", "best-effort"]);
    assert_eq!(data["paths"][0]["leads"][1], serde_json::json!(["payload 0 0x2261", "video"]));
    let dot = place.run_ok(&["graph", "router.toml", "--format", "dot"]);
    // Each node of an edge is declared, so that Graphviz makes no node of its own.
    let lines = || dot.lines().map(str::trim);
    let declared: BTreeSet<&str> =
        lines().filter(|line| !line.contains(" -> ")).filter_map(|line| Some(line.split_once(" [")?.0)).collect();
    let ends = lines().filter(|line| line.contains(" -> ")).flat_map(|line| {
        line.split_once(" [").map_or(line, |(edge, _)| edge).trim_end_matches(';').split(" -> ").map(str::trim)
    });
    let ends: BTreeSet<&str> = ends.collect();
    assert!(ends.len() >= 15 && ends.is_subset(&declared), "{ends:?} of {declared:?}");
    assert_eq!(dot.matches('{').count(), dot.matches('}').count(), "{dot}");
}

#[test]
fn graph_as_a_picture_is_xml_with_a_box_for_each_stage() {
    let picture = place().run_ok(&["graph", "router.toml", "--format", "svg"]);
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture}");
    // Two ports on both sides, the classifier, the stages of three paths, and the background.
    assert_eq!(picture.matches("<rect ").count(), 2 + 2 + 1 + (4 + 4 + 3) + 1);
    for text in
        ["wan: share(rate=100mbit)", "spin(cost=10us)", "video: flows of `switchpath reserve`", "a queue for each flow"]
    {
        assert!(picture.contains(text), "{text}: {picture}");
    }
    assert_eq!(picture.matches('<').count(), picture.matches('>').count(), "texts are escaped");
}
