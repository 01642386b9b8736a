//! Reserved flows through the API: answers, leases, events, and what survives a restart.

use crate::rig::{Rig, config, until};
use crate::shares::sharing;
use control::{ClientError, api};
use std::path::Path;

pub const PATH: &str = "[[path]]\nname = \"reserved\"\nreservations = true\n";

fn start() -> Rig {
    Rig::of(sharing("", PATH), |options| options)
}

fn edit(rig: &Rig, text: &str) -> Result<api::FlowsEdited, ClientError> {
    rig.client.post_with("/v1/reservations/batch", &[("name", "batch".to_owned())], text)
}

fn trial(rig: &Rig, text: &str) -> Result<api::FlowsEdited, ClientError> {
    let parameters = [("name", "batch".to_owned()), ("trial", "true".to_owned())];
    rig.client.post_with("/v1/reservations/batch", &parameters, text)
}

fn flows(rig: &Rig) -> Vec<api::FlowReply> {
    let reply: api::FlowsReply = rig.client.get("/v1/reservations").unwrap();
    assert_eq!(reply.total, reply.flows.len() as u64);
    reply.flows
}

fn events(rig: &Rig, kind: api::EventKind) -> Vec<String> {
    let events: api::Events = rig.client.get("/v1/events").unwrap();
    events.events.into_iter().filter(|event| event.kind == kind).map(|event| event.text).collect()
}

fn line(name: &str, port: u16, more: &str) -> String {
    format!("add {name} rate 1mbit packet 1000b out wan {more}match iif lan udp dport {port}\n")
}

#[test]
fn reserved_flow_is_listed_with_its_promise() {
    let rig = start();
    let edited = edit(&rig, &line("\"Doe, Jane\"", 7, "delay 20ms ")).unwrap();
    assert!(edited.carried_out && !edited.trial && edited.refused.is_none());
    assert_eq!((edited.added.len(), edited.added[0].name.as_str(), edited.total), (1, "Doe, Jane", 1));
    let [flow] = &flows(&rig)[..] else { panic!("one flow is reserved") };
    assert_eq!((flow.name.as_str(), flow.matching.as_str()), ("Doe, Jane", "iif lan udp dport 7"));
    assert_eq!(flow.promise, edited.added[0].promise);
    let promise = &flow.promise;
    assert_eq!((promise.path.as_str(), promise.port.as_str(), promise.delay_ns), ("reserved", "wan", Some(20_000_000)));
    assert!(promise.bound_ns <= 20_000_000 && promise.share_bps >= 1_000_000 && promise.cpu_ppm > 0, "{promise:?}");
    // Its share and its rule belong to it.
    let error = rig.client.post_with::<api::SharesEdited>(
        "/v1/shares/batch",
        &[("port", "wan".into())],
        "remove \"Doe, Jane\"",
    );
    assert!(error.unwrap_err().to_string().contains("belongs to a reserved flow"));
    let remove = format!("remove {}", flow.rule);
    let error = rig.client.post_with::<api::RulesEdited>("/v1/rules/batch", &[("list", "paths".into())], &remove);
    assert!(error.unwrap_err().to_string().contains("belongs to the reserved flow 'Doe, Jane'"));
    let ended = edit(&rig, "remove \"Doe, Jane\"").unwrap();
    assert_eq!((ended.removed, ended.total), (1, 0));
    let texts = events(&rig, api::EventKind::FlowsEdited);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(
        texts[0].starts_with("reservations: 1 added, 0 renewed, 0 ended, 1 in all; added 'Doe, Jane'; by "),
        "{texts:?}"
    );
}

#[test]
fn trial_changes_nothing_and_names_the_resource() {
    let rig = start();
    let fits = trial(&rig, &line("a", 7, "")).unwrap();
    assert!(fits.trial && fits.refused.is_none() && fits.added.len() == 1);
    assert!(flows(&rig).is_empty() && events(&rig, api::EventKind::FlowsEdited).is_empty());
    let big = line("a", 7, "").replace("1mbit", "2gbit");
    let refused = trial(&rig, &format!("\n{big}")).unwrap().refused.expect("the link has 1 Gbit/s");
    assert_eq!((refused.line, refused.resource.as_deref()), (2, Some("link")));
    assert!(refused.hint.starts_with("rate ") && refused.hint.ends_with(" would fit"), "{refused:?}");
    let error = edit(&rig, &format!("\n{big}")).unwrap_err().to_string();
    assert!(error.contains("batch:2:1: error: link: it needs ") && error.contains(" would fit"), "{error}");
    let error = edit(&rig, "add a rate 10mbps packet 1000b out wan match udp\nput b\n").unwrap_err().to_string();
    assert!(error.contains("batch:1:12: error") && error.contains("batch:2:1: error"), "{error}");
    let error = edit(&rig, "add a rate 1mbit out wan match udp\nadd b rate 1mbit packet 100b out wann match udp\nadd c rate 1mbit packet 100b\n")
        .unwrap_err()
        .to_string();
    for part in ["the packet size is missing", "there is no port 'wann'; did you mean 'wan'?", "the match is missing"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn lease_of_a_flow_ends_or_is_renewed() {
    let rig = start();
    edit(&rig, &format!("{}{}", line("short", 7, "lease 1s "), line("long", 8, "lease 60s "))).unwrap();
    let left = flows(&rig).iter().find(|flow| flow.name == "long").unwrap().lease_left_ns.unwrap();
    assert!((58_000_000_000..=60_000_000_000).contains(&left), "{left}");
    until(|| (flows(&rig).len() == 1).then_some(()));
    assert_eq!(events(&rig, api::EventKind::FlowExpired), ["the lease of the reserved flow 'short' has ended"]);
    assert_eq!(edit(&rig, "renew long lease 2m\n").unwrap().renewed, 1);
    assert!(flows(&rig)[0].lease_left_ns.unwrap() > 100_000_000_000);
}

#[test]
fn kept_flows_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let run = |text: String| {
        let state: &Path = directory.path();
        let (history, warnings) = control::history::ConfigurationHistory::open(state).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        Rig::of(text, |options| control::DaemonOptions { history, ..options })
    };
    let rig = run(sharing("", PATH));
    let kept = format!("{}{}", line("\"a b\"", 7, "delay 25ms burst 5kb keep "), line("c", 8, "keep lease 60s "));
    edit(&rig, &format!("{kept}{}", line("gone", 9, ""))).unwrap();
    let before = flows(&rig);
    drop(rig);
    let rig = run(sharing("", PATH));
    let after = flows(&rig);
    assert_eq!(after.iter().map(|flow| flow.name.as_str()).collect::<Vec<_>>(), ["a b", "c"]);
    for flow in &after {
        let old = before.iter().find(|old| old.name == flow.name).unwrap();
        // The measured cost of a switch, and so the bound, differs from start to start.
        let of = |flow: &api::FlowReply| {
            let p = &flow.promise;
            (p.rate_bps, p.packet_bytes, p.burst_bytes, p.delay_ns, p.share_bps, flow.matching.clone(), flow.keep)
        };
        assert_eq!(of(flow), of(old));
    }
    edit(&rig, "remove c\n").unwrap();
    drop(rig);
    // A configuration without the path: the flow cannot be restored, and the router says so.
    let rig = run(config(""));
    assert!(flows(&rig).is_empty());
    let warnings = events(&rig, api::EventKind::Warning);
    assert!(
        warnings.iter().any(|text| text.starts_with("a reservation is not restored: ") && text.contains("a b")),
        "{warnings:?}"
    );
}
