//! Shares of ports, and the subscribers of an access network.

use crate::catalogue::catalogue;
use plan::{DfqWirePlan, Plan, ShareName, SubscriberSource, diff, load_shares, load_subscribers};
use units::Rate;

const SUBSCRIBERS: &str = r#"version = 1
[port.lan]
device = "memory:a"
scheme = "share(rate=1gbit)"
[port.wan]
device = "memory:b"
scheme = "share{codel}"
[port.mgmt]
device = "memory:c"
"#;

fn plan(text: &str) -> Plan {
    plan::check(text, "/etc/switchpath/test.toml", &catalogue()).unwrap_or_else(|errors| panic!("{errors}"))
}

fn errors(text: &str) -> String {
    plan::check(text, "test.toml", &catalogue()).expect_err(text).to_string()
}

fn port(keys: &str) -> String {
    format!("version = 1\n[port.lan]\ndevice = \"memory:a\"\n{keys}\n")
}

#[test]
fn shares_are_sorted_by_level_and_name() {
    let shares = r#"["b rate 10mbit", "z in b", "\"a b\" ceiling 5mbit", "y in b rate 2mbit"]"#;
    let first =
        plan(&port(&format!("scheme = \"share(rate=10mbit)\"\nshares = {shares}\nshare_file = \"lan.shares\"")));
    let json = serde_json::to_value(&first.ports[0].shares).unwrap();
    assert_eq!(
        json["shares"],
        serde_json::json!(["\"a b\" ceiling 5mbit", "b rate 10mbit", "y in b rate 2mbit", "z in b"])
    );
    assert_eq!(json["file"], "/etc/switchpath/lan.shares");
    let other = r#"["\"a b\" ceiling 5mbit", "b rate 10mbit", "z in b", "y in b rate 1mbit"]"#;
    let second = plan(&port(&format!("scheme = \"share(rate=10mbit)\"\nshares = {other}")));
    let changes: Vec<String> = diff(&first, &second).iter().map(ToString::to_string).collect();
    assert_eq!(
        changes,
        ["~ port lan: shares '\"a b\" ceiling 5mbit' 'b rate 10mbit' 'y in b rate 2mbit' 'z in b' -> \
          '\"a b\" ceiling 5mbit' 'b rate 10mbit' 'y in b rate 1mbit' 'z in b', \
          share_file \"/etc/switchpath/lan.shares\" -> none"]
    );
    assert!(
        !serde_json::to_string(&plan(&port(""))).unwrap().contains("shares"),
        "ports without shares look as before"
    );
}

#[test]
fn wrong_shares_are_refused_at_their_text() {
    for (keys, wanted) in [
        (
            "shares = [\"a\"]",
            "test.toml:4:10: error: the scheme of the port, 'fifo', has no shares; write scheme = \"share\"",
        ),
        ("scheme = \"drr\"\nshare_file = \"f\"", "test.toml:5:14: error: the scheme of the port, 'drr', has no shares"),
        ("scheme = \"share\"\nshares = [\"a rate 1mbps\"]", "test.toml:5:19: error: 'mbps' is no unit of rate"),
        ("scheme = \"share\"\nshares = [\"a lease 5s\"]", "test.toml:5:14: error: a share has no option 'lease' here"),
        (
            "scheme = \"share\"\nshares = [\"a in b\", \"b\"]",
            "test.toml:5:11: error: there is no share 'b'; add the share b before it",
        ),
        ("scheme = \"share\"\nshares = [\"a\", 5]", "test.toml:5:16: error: expected a string, not a whole number"),
        ("scheme = \"share\"\nshares = [\"\"]", "test.toml:5:12: error: the name of the share is missing"),
        (
            "scheme = \"share(rate=10mbit)\"\nshares = [\"a rate 6mbit\", \"b rate 5mbit\"]",
            "test.toml:5:27: error: the rates below the port add up to 11mbit, more than its rate of 10mbit",
        ),
    ] {
        let found = errors(&port(keys));
        assert!(found.starts_with(wanted), "{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

#[test]
fn fault_in_a_scheme_with_shares_is_reported_once() {
    let faulty = SUBSCRIBERS.replace("share(rate=1gbit)", "share{none}");
    let found = errors(&format!("{faulty}[subscribers]\ninside = [\"lan\"]\noutside = [\"wan\"]\nfile = \"s.csv\""));
    assert!(found.starts_with("test.toml:4:17: error: no scheme is called 'none'"), "{found}");
    assert_eq!(found.lines().count(), 1, "{found}");
    for foreign in ["htb", "hfsc"] {
        let found = errors(&port(&format!("scheme = \"{foreign}{{codel}}\"\nshares = [\"a\"]")));
        assert!(found.contains("did you mean 'share'?") && found.lines().count() == 1, "{found}");
    }
    let found = errors(&port("scheme = \"share(rate=1)\"\nshares = [\"a rate 1mbit\"]"));
    assert_eq!(found.lines().count(), 1, "{found}");
}

#[test]
fn file_adds_shares_below_those_of_the_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().join("router.toml");
    let file = directory.path().join("lan.shares");
    let text = port("scheme = \"share(rate=10mbit)\"\nshares = [\"a rate 6mbit\"]\nshare_file = \"lan.shares\"");
    let plan = plan::check(&text, &name.to_string_lossy(), &catalogue()).unwrap();
    let missing = load_shares(&plan.ports[0]).unwrap_err().to_string();
    assert!(missing.contains("lan.shares: error: the file cannot be read"), "{missing}");
    std::fs::write(&file, "# of the file\nb in a rate 4mbit\n\nc rate 4mbit\n").unwrap();
    let tree = load_shares(&plan.ports[0]).unwrap();
    let names: Vec<&str> = tree.iter().map(|share| share.name.as_str()).collect();
    assert_eq!((names, tree.guaranteed()), (vec!["a", "b", "c"], Rate::mbit(10)));
    std::fs::write(&file, "b in a rate 4mbit\nc rate 5mbit\n").unwrap();
    let wrong = load_shares(&plan.ports[0]).unwrap_err().to_string();
    assert!(wrong.contains("lan.shares:2:1: error: the rates below the port add up to 11mbit"), "{wrong}");
}

#[test]
fn subscribers_have_ports_and_one_source() {
    let own = plan(&format!("{SUBSCRIBERS}[subscribers]\ninside = [\"lan\"]\noutside = [\"wan\"]\nfile = \"s.csv\""));
    let section = own.subscribers.as_ref().unwrap();
    assert_eq!(section.source, SubscriberSource::File("/etc/switchpath/s.csv".to_string()));
    let other = plan(&format!(
        "{SUBSCRIBERS}[subscribers]\ninside = [\"lan\"]\noutside = [\"wan\"]\nshaped_devices = \"/a/S.csv\"\nnetwork = \"n.json\""
    ));
    let changes: Vec<String> = diff(&own, &other).iter().map(ToString::to_string).collect();
    assert_eq!(
        changes,
        ["~ subscribers: files inside lan outside wan file \"/etc/switchpath/s.csv\" -> \
          inside lan outside wan shaped_devices \"/a/S.csv\" network \"/etc/switchpath/n.json\""]
    );
    for (keys, wanted) in [
        (
            "inside = [\"lan\"]\nfile = \"f\"",
            "test.toml:10:1: error: the key 'outside' is missing; add outside = [\"wan\"]",
        ),
        ("inside = []\noutside = [\"wan\"]\nfile = \"f\"", "test.toml:11:10: error: 'inside' names no port"),
        (
            "inside = [\"lan\", \"lam\"]\noutside = [\"wan\"]\nfile = \"f\"",
            "test.toml:11:18: error: there is no port 'lam'; did you mean 'lan'?",
        ),
        (
            "inside = [\"mgmt\"]\noutside = [\"wan\"]\nfile = \"f\"",
            "test.toml:11:11: error: the scheme of the port 'mgmt' is 'fifo', which has no shares; write scheme = \"share\" in [port.mgmt]",
        ),
        (
            "inside = [\"lan\"]\noutside = [\"lan\"]\nfile = \"f\"",
            "test.toml:12:12: error: the port 'lan' is named twice",
        ),
        ("inside = [\"lan\"]\noutside = [\"wan\"]", "test.toml:10:1: error: there is no file with the subscribers"),
        (
            "inside = [\"lan\"]\noutside = [\"wan\"]\nfile = \"f\"\nshaped_devices = \"g\"",
            "test.toml:14:18: error: 'file' and 'shaped_devices' exclude each other",
        ),
        (
            "inside = [\"lan\"]\noutside = [\"wan\"]\nfile = \"f\"\nnetwork = \"g\"",
            "test.toml:14:11: error: 'network' belongs to 'shaped_devices'",
        ),
    ] {
        let found = errors(&format!("{SUBSCRIBERS}[subscribers]\n{keys}\n"));
        assert!(found.starts_with(wanted), "{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

#[test]
fn subscribers_are_loaded_from_their_files() {
    let directory = tempfile::tempdir().unwrap();
    let name = |file: &str| directory.path().join(file).to_string_lossy().into_owned();
    std::fs::write(name("s.csv"), include_str!("../../corpus/subscribers/tower.csv")).unwrap();
    let read = load_subscribers(&SubscriberSource::File(name("s.csv"))).into_result().unwrap();
    assert_eq!((read.sites.len(), read.subscribers.len()), (2, 3));
    let (table, network) =
        include_str!("../../corpus/subscribers/shaped.csv").split_once("\n--- network.json\n").unwrap();
    std::fs::write(name("ShapedDevices.csv"), table).unwrap();
    let source =
        SubscriberSource::ShapedDevices { devices: name("ShapedDevices.csv"), network: Some(name("network.json")) };
    let missing = load_subscribers(&source).into_result().unwrap_err().to_string();
    assert!(missing.contains("network.json: error: the file cannot be read"), "{missing}");
    std::fs::write(name("network.json"), network).unwrap();
    let read = load_subscribers(&source).into_result().unwrap();
    assert_eq!(read.subscribers[0].parent, ShareName::new("Mast").ok());
}

#[test]
fn a_wire_needs_shares_and_a_bitmap_of_whole_octets() {
    let with = |keys: &str| port(&format!("scheme = \"share(rate=1gbit)\"\n{keys}"));
    let wire = |keys: &str| plan(&with(keys)).ports[0].dfq_wire;
    assert_eq!(wire("dfq_wire = true"), Some(DfqWirePlan { quantum: 256, bitmap: 64, flows: 1024 }));
    assert_eq!((wire("dfq_wire = false"), wire("")), (None, None));
    assert_eq!(wire("dfq_wire = { quantum = 64 }").map(|wire| (wire.quantum, wire.flows)), Some((64, 1024)));
    // A scheme that is not known is one error, not two.
    assert!(!errors(&port("scheme = \"nothing\"\ndfq_wire = true")).contains("has no shares"));
    for (keys, wanted) in [
        (
            with("dfq_wire = { bitmap = 20 }"),
            "a bitmap has whole octets, and 20 flows need a part of one; write bitmap = 24",
        ),
        (
            port("scheme = \"fifo\"\ndfq_wire = true"),
            "the scheme 'fifo' has no shares, which are the flows of the wire; write scheme = \"dfq(rate=1gbit)\"",
        ),
        (with("dfq_wire = { quantum = 20 }"), "20 is out of range"),
    ] {
        let found = errors(&keys);
        assert!(found.contains(wanted), "{found}");
    }
    let changes: Vec<String> =
        diff(&plan(&with("")), &plan(&with("dfq_wire = true"))).iter().map(ToString::to_string).collect();
    assert_eq!(changes, ["~ port lan: dfq_wire none -> quantum 256 bitmap 64 flows 1024"]);
}
