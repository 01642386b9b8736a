//! `show`: the state of a running router, in tables and JSON.

use crate::rig::{TestDirectory, config, until};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

const NOUNS: [&str; 10] =
    ["status", "ports", "paths", "queues", "tasks", "routes", "neighbours", "drops", "events", "accounting"];

#[test]
fn every_show_command_has_a_table_and_documented_json() {
    let place = TestDirectory::new(60000);
    let router = place.write("run.toml", &config("2000pps", "")).start();
    until(|| (place.json(&["show", "drops"])["drops"][0]["packets"].as_u64() > Some(0)).then_some(()));
    let page = include_str!("../../../../docs/reference/control-api.md");
    for noun in NOUNS {
        let json = place.json(&["show", noun]);
        // The page has a table of addresses with the type of each answer, and a table of fields for each type.
        let row = page.lines().find(|line| line.contains(&format!("`GET /v1/{noun}`"))).unwrap();
        let name = row.split("| [").nth(1).unwrap().split(']').next().unwrap();
        let section = page.split(&format!("\n### {name}\n")).nth(1).unwrap().split("\n### ").next().unwrap();
        let documented: Vec<&str> =
            section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        let mut printed: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        printed.sort_unstable();
        assert_eq!(printed, documented, "{noun}");
        assert!(place.run_ok(&["show", noun]).lines().count() > 1, "{noun}");
    }
    assert!(place.run_ok(&["show"]).contains("forwards"));
    assert!(place.run_ok(&["show", "drops"]).contains("ttl_expired"));
    assert!(place.run_ok(&["show", "tasks"]).contains("worker 0 receives by polling: efficiency "));
    assert!(place.run_ok(&["show", "latency"]).contains("p99.9"));
    assert!(place.run_ok(&["show", "routes", "--prefix", "198.51.100.0/24"]).contains("198.51.100.9/32"));
    assert!(place.run_ok(&["show", "routes", "--limit", "1"]).contains("and more: "));
    router.stop();
}

#[test]
fn show_queues_reports_sojourn_drops_and_scheme_state() {
    let place = TestDirectory::new(60000);
    // 1,800 packets of 62 bytes a second arrive at a line that carries 806 of them.
    let scheme = "write = \"out.pcapng\"\nscheme = \"shape(rate=400kbit, burst=0b){codel(limit=50)}\"";
    let router = place.write("run.toml", &config("2000pps", "").replace("write = \"out.pcapng\"", scheme)).start();
    let link = until(|| {
        let told = place.json(&["show", "queues", "wan"]);
        let link = &told["links"][0];
        // Wait until the line has filled: earlier waiting times say nothing.
        let many =
            link["dropped_packets"].as_u64() > Some(200) && link["groups"][0]["sent_packets"].as_u64() > Some(400);
        (many && link["series"]["time_ns"].as_array()?.len() > 3).then(|| link.clone())
    });
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let group = &link["groups"][0];
    assert_eq!((&group["name"], &link["port"]), (&"all".into(), &"wan".into()));
    let gone = number(&group["sent_packets"]) + number(&group["dropped_packets"]) + number(&group["backlog_packets"]);
    assert_eq!(number(&group["arrived_packets"]), gone);
    let arrived = number(&group["arrived_packets"]) + number(&link["passed_packets"]);
    assert_eq!(number(&link["offered_packets"]), arrived, "{link:#}");
    // Fifty packets wait for 62 ms before such a line, and longer if the machine stalls meanwhile.
    let waits = number(&link["sojourn"]["p50_ns"]) / 1_000_000;
    assert!((30..300).contains(&waits), "{waits} ms: {link:#}");
    assert!(number(&link["opportunities_withheld"]) > 0 && number(&link["handler_ns"]) > 0, "{link:#}");
    let backlogs = link["series"]["most_packets"].as_array().unwrap();
    assert!(backlogs.iter().any(|packets| number(packets) >= 49), "{backlogs:?}");
    let names: Vec<&str> =
        group["state"].as_array().unwrap().iter().map(|value| value["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["count", "dropping", "drop_next"]);
    let text = place.run_ok(&["show", "queues", "wan"]);
    for wanted in ["wan, worker 0: shape(", "dropped  scheme_arrival ", "backlog  ", "sojourn  ", "dropping yes"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(!text.contains("counted  "), "{text}");
    assert!(place.run_failing(1, &["show", "queues", "wam"]).contains("the ports are lan, wan"));
    // A changed scheme starts new queue counters; the counters of the link continue.
    let other = config("2000pps", "").replace("write = \"out.pcapng\"", &scheme.replace("limit=50", "limit=40"));
    place.write("other.toml", &other).run_ok(&["apply", "other.toml"]);
    let text = place.run_ok(&["show", "queues", "wan"]);
    assert!(text.contains("counted  queues since version 2 of the scheme, the link since its creation"), "{text}");
    router.stop();
}

#[test]
fn show_watch_prints_rates_until_its_output_closes() {
    let place = TestDirectory::new(60000);
    let router = place.write("run.toml", &config("2000pps", "")).start();
    let mut watch = place.command(&["show", "ports", "--watch", "-j"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut received = || {
        let ports: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        ports["ports"][0]["received_packets"].as_u64().unwrap()
    };
    let (first, second) = (received(), received());
    assert!(second > first, "{first} and {second}");
    drop(lines);
    // The next line fails on the closed pipe, which is no error.
    assert!(watch.wait().unwrap().success());
    router.stop();
}

#[test]
fn hanging_clients_delay_no_other_client() {
    let place = TestDirectory::new(60000);
    let router = place.write("run.toml", &config("1000pps", "")).start();
    let mut hanging: Vec<UnixStream> =
        (0..20).map(|_| UnixStream::connect(place.path("control.sock")).unwrap()).collect();
    hanging
        .iter_mut()
        .for_each(|stream| stream.write_all(b"POST /v1/apply HTTP/1.1\r\ncontent-length: 50\r\n\r\n").unwrap());
    for noun in NOUNS {
        place.json(&["show", noun]);
    }
    let (out, _) = router.stop();
    assert!(out.contains("every packet accounted for"), "{out}");
}
