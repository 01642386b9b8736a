//! The answers of the router agree with its actions, and with the documented format.

use crate::rig::{Rig, until};
use control::ApplyRequest;
use control::api::{self, ENDPOINTS};
use serde_json::Value;
use units::Nanos;

const PATH: &str = "[[path]]\nname = 'dns'\nmatch = 'udp dport 53'\n[[route]]\nto = '203.0.113.0/24'\nblackhole = true";

/// A router that has forwarded, dropped, refused and applied something.
fn busy() -> Rig {
    let mut rig = Rig::start(PATH);
    rig.send([198, 51, 100, 9], &[64, 64, 64, 1], 1000);
    rig.send([203, 0, 113, 7], &[64], 2000);
    rig.wan.await_ports(3);
    rig.daemon.apply("version = 1\n[port", "broken.toml").unwrap_err();
    rig
}

#[test]
fn counters_report_forwarded_packets_and_drop_reasons() {
    let rig = busy();
    // The ICMP error for the expired packet needs its sender's MAC address, which the router asks for in vain.
    let ports = until(|| {
        let ports: api::Ports = rig.client.get("/v1/ports").unwrap();
        (ports.ports[0].counters.received == 5).then_some(ports)
    });
    let [lan, wan] = &ports.ports[..] else { panic!("{ports:?}") };
    assert_eq!((lan.name.as_str(), lan.device.as_str(), lan.mac.as_str()), ("lan", "memory:lan", "02:00:00:00:00:01"));
    assert_eq!((wan.name.as_str(), wan.interfaces[0].addresses[0].as_str()), ("wan", "198.51.100.1/24"));
    assert_eq!((lan.counters.received_bytes, lan.up, lan.link_rate_bps), (5 * 62, true, None));
    let drops: api::Drops = rig.client.get("/v1/drops").unwrap();
    let mut reasons: Vec<_> =
        drops.drops.iter().map(|d| (d.reason.as_str(), d.packets, d.ports[0].port.as_str())).collect();
    reasons.sort();
    assert_eq!(reasons, [("blackhole", 1, "lan"), ("ttl_expired", 1, "lan")]);
    let paths: api::Paths = rig.client.get("/v1/paths").unwrap();
    let dns = paths.paths.iter().find(|path| path.name == "dns").unwrap();
    assert_eq!((dns.matching.as_deref(), dns.counters.left), (Some("udp dport 53"), 3));
    let ledgers: api::Ledgers = rig.client.get("/v1/accounting").unwrap();
    assert!(ledgers.balanced, "{ledgers:?}");
    assert_eq!((ledgers.total.received_packets, ledgers.total.dropped_packets), (5, 2));
    let neighbours: api::Neighbours = rig.client.get("/v1/neighbours").unwrap();
    let known = neighbours.neighbours.iter().find(|n| n.address == "198.51.100.9").unwrap();
    assert_eq!((known.interface.as_str(), known.state.as_str()), ("wan", "static"));
    let events: api::Events = rig.client.get("/v1/events").unwrap();
    let refused = events.events.iter().find(|event| event.kind == api::EventKind::Refused).unwrap();
    assert_eq!(refused.subject.as_deref(), Some("broken.toml"));
    let later: api::Events = rig.client.get(&format!("/v1/events?since={}", refused.sequence)).unwrap();
    assert_eq!(later.events.first().map(|event| event.sequence), Some(refused.sequence));
}

#[test]
fn routes_are_found_by_prefix_and_limited() {
    let rig = Rig::start(PATH);
    let routes: api::Routes = rig.client.get("/v1/routes?prefix=203.0.113.0/24").unwrap();
    let [route] = &routes.routes[..] else { panic!("{routes:?}") };
    assert_eq!((route.action.as_str(), route.origin.as_str(), route.active), ("blackhole", "static", true));
    assert!(!routes.truncated);
    let few: api::Routes = rig.client.get("/v1/routes?limit=2").unwrap();
    assert!(few.routes.len() == 2 && few.truncated && few.total > 2);
}

#[test]
fn every_answer_has_the_documented_form() {
    let rig = busy();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("subscribers.csv");
    std::fs::write(&file, crate::shares::TABLE).unwrap();
    let more = format!("{PATH}\n{}\n[set.bad]\n{}", crate::flows::PATH, crate::shares::section(&file));
    rig.daemon.apply(&crate::shares::sharing("", &more), "sets.toml").unwrap();
    let flow =
        |name: &str| format!("add {name} rate 1mbit packet 500b delay 90ms lease 1h out wan match udp dport 7\n");
    rig.daemon.edit_flows((&flow("call"), "flows"), false, &api::Author::by(api::Via::Socket)).unwrap();
    let slice = "create overlay code raw\nfilter insert overlay 1 drop\n";
    let _: api::SlicesEdited = rig.client.post("/v1/slices/batch", "slices", slice).unwrap();
    let document = api::openapi();
    let mut checked = 0;
    let grows = ["/v1/capture", "/v1/trace", "/v1/slices/slow-path"];
    for endpoint in ENDPOINTS.iter().filter(|endpoint| !grows.contains(&endpoint.path)) {
        let method = endpoint.method.to_lowercase();
        let content = &document["paths"][endpoint.path][&method]["responses"]["200"]["content"];
        let text = match endpoint.path {
            "/v1/routes" if endpoint.takes_text => "add 10.0.0.0/8 via 198.51.100.9 via 198.51.100.8\n".into(),
            "/v1/inject" => "0200000000010200000000090800\n".into(),
            path if endpoint.takes_text && path.starts_with("/v1/sets/") => "192.0.2.7\n".into(),
            "/v1/shares/batch" => "add gold in North rate 1mbit lease 60s\n".into(),
            "/v1/reservations/batch" => flow("video"),
            "/v1/slices/batch" => "suspend overlay\nresume overlay\n".into(),
            "/v1/slices/reinject" => String::new(),
            "/v1/rules/batch" => "add before 1 tcp dport 22 path best-effort\nremove 1\n".into(),
            _ if endpoint.takes_text => rig.daemon.config().text,
            _ => String::new(),
        };
        if endpoint.path == "/v1/confirm" {
            let by = api::Author::by(api::Via::Socket);
            rig.daemon.edit_flows(("remove call\nremove video\n", "flows"), false, &by).unwrap();
            let order = ApplyRequest::new(&crate::rig::config("[set.bad]\n"), "trial.toml");
            rig.daemon.apply_request(ApplyRequest { confirm: Some(Nanos::secs(3600)), ..order }).unwrap();
        }
        let address = match endpoint.path {
            "/v1/inject" => "/v1/inject?port=lan".to_string(),
            "/v1/rules/batch" => "/v1/rules/batch?list=paths".to_string(),
            "/v1/shares/batch" => "/v1/shares/batch?port=wan".to_string(),
            path if endpoint.parameters.iter().any(|parameter| parameter.name == "set") => format!("{path}?set=bad"),
            path if endpoint.parameters.iter().any(|parameter| parameter.name == "slice") => {
                format!("{path}?slice=overlay")
            }
            path => path.to_string(),
        };
        let answer = rig.client.fetch(endpoint.method, &address, text.as_bytes()).unwrap();
        let Some(schema) = content["application/json"]["schema"].as_object().filter(|schema| !schema.is_empty()) else {
            assert!(!answer.is_empty(), "{}", endpoint.path);
            continue;
        };
        let mut schema: Value = schema.clone().into();
        schema["components"] = document["components"].clone();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&answer).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{}: {errors:?}\n{answer:#}", endpoint.path);
        let name = schema["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
        same_fields(endpoint.path, &answer, &schema["components"]["schemas"][name], &schema["components"]["schemas"]);
        checked += 1;
    }
    assert!(checked >= 14, "{checked}");
}

/// Checks that an answer has exactly the fields of its schema, including nested lists.
fn same_fields(place: &str, answer: &Value, schema: &Value, schemas: &Value) {
    let schema = match schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        Some(name) => &schemas[name],
        None => schema,
    };
    if let Some(list) = answer.as_array() {
        list.iter().for_each(|item| same_fields(place, item, &schema["items"], schemas));
    }
    let (Some(fields), Some(declared)) = (answer.as_object(), schema["properties"].as_object()) else { return };
    assert!(fields.keys().eq(declared.keys()), "{place}: {:?} and {:?}", fields.keys(), declared.keys());
    fields.iter().for_each(|(name, value)| same_fields(&format!("{place}.{name}"), value, &declared[name], schemas));
}

#[test]
fn metrics_carry_the_names_of_the_configuration() {
    let rig = busy();
    let page = String::from_utf8(rig.client.fetch("GET", "/metrics", b"").unwrap()).unwrap();
    for line in [
        "switchpath_generation 1",
        "switchpath_ledger_balanced 1",
        "switchpath_drops_total{reason=\"ttl_expired\"} 1",
        "switchpath_port_received_packets_total{port=\"lan\"} 5",
        "switchpath_path_left_packets_total{path=\"dns\"} 3",
        "switchpath_path_latency_seconds_count{path=\"dns\",class=\"0\",stage=\"total\"} 3",
        "switchpath_port_classify_over_budget_packets_total{port=\"lan\"} 0",
        "switchpath_queues_backlog_packets{worker=\"0\",port=\"wan\",queues=\"all\"} 0",
        "switchpath_cpu_receives_by_interrupt{worker=\"0\"} 0",
    ] {
        assert!(page.lines().any(|l| l == line), "{line} is not in\n{page}");
    }
    assert!(page.contains("\nswitchpath_link_sojourn_seconds_count{worker=\"0\",port=\"wan\"} "), "{page}");
    assert!(page.ends_with("# EOF\n"));
}

#[test]
fn metrics_contain_queue_counters_and_scheme_state() {
    let scheme = "mac = \"02:00:00:00:00:02\"\nscheme = \"shape(rate=1kbit, burst=0b){red(limit=5)}\"";
    let mut rig = Rig::with("", |options| options);
    let text = crate::rig::config("").replace("mac = \"02:00:00:00:00:02\"", scheme);
    rig.daemon.apply(&text, "red.toml").unwrap();
    rig.send([198, 51, 100, 9], &[64; 8], 1000);
    let link = until(|| {
        let told: api::Links = rig.client.get("/v1/links?port=wan&samples=2").unwrap();
        let link = &told.links[0];
        let kept = link.series.state.iter().all(|state| state.values.len() == 2) && !link.series.state.is_empty();
        (link.counters.offered >= 8 && kept).then(|| link.clone())
    });
    // One packet leaves each half second, four wait, and the others do not fit into the queue.
    let waiting = link.backlog_packets;
    assert!((1..=5).contains(&waiting) && link.drops[0].reason == "scheme_arrival", "{link:?}");
    assert_eq!(link.longest, [api::LongQueue { queue: 0, group: "all".into(), packets: waiting, bytes: waiting * 62 }]);
    let series: Vec<(&str, usize)> = link.series.state.iter().map(|s| (s.name.as_str(), s.values.len())).collect();
    assert_eq!(series, [("avg", 2), ("p", 2)]);
    let page = String::from_utf8(rig.client.fetch("GET", "/metrics", b"").unwrap()).unwrap();
    let labels = "worker=\"0\",port=\"wan\",queues=\"all\"";
    for start in [
        format!("switchpath_queues_drops_total{{{labels},reason=\"scheme_arrival\"}} {}", link.counters.dropped),
        format!("switchpath_queues_backlog_bytes{{{labels}}} "),
        format!("switchpath_scheme_state{{{labels},of=\"avg\"}} 0.0"),
        "switchpath_link_opportunities_total{worker=\"0\",port=\"wan\",by=\"withheld\"} ".to_owned(),
    ] {
        assert!(page.lines().any(|line| line.starts_with(&start)), "{start} is not in\n{page}");
    }
    let refused = rig.client.get::<api::Links>("/v1/links?port=dmz").unwrap_err().to_string();
    assert!(refused.contains("there is no port"), "{refused}");
}

#[test]
fn final_report_accounts_for_every_packet() {
    let mut rig = Rig::start("");
    // The neighbour never answers, so the router holds the packets until the end.
    rig.send([198, 51, 100, 77], &[64; 3], 1);
    until(|| rig.client.get::<api::Ledgers>("/v1/accounting").ok().filter(|l| l.total.held_packets >= 3));
    let closing = rig.daemon.stop();
    assert!(closing.ledgers.balanced, "{closing:?}");
    assert_eq!((closing.ledgers.total.received_packets, closing.ledgers.total.held_packets), (3, 0));
    let shutdown = closing.drops.drops.iter().find(|drop| drop.reason == "shutdown").unwrap();
    assert!(shutdown.packets >= 3);
    // The socket still answers, with an error.
    let error = rig.client.get::<api::Ports>("/v1/ports").unwrap_err().to_string();
    assert!(error.contains("does not answer or has stopped"), "{error}");
    assert!(rig.daemon.apply(&crate::rig::config(""), "t").is_err());
}
