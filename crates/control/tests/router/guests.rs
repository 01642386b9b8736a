//! Guests on a live port: loaded, replaced and disabled while packets pass.

use crate::rig::{Rig, config, until};
use control::api::{self, Applied, EventKind};
use control::{ClientError, DaemonOptions};
use extension::{Directory, Runtime};
use std::fs;
use std::sync::Arc;

const FIFO: &str = include_str!("../../../../examples/guests/fifo.wat");

/// The configuration with this scheme on the port `wan`.
fn scheme(text: &str) -> String {
    config("").replace("device = \"memory:wan\"", &format!("device = \"memory:wan\"\nscheme = '{text}'"))
}

/// Starts a router with a guest directory.
fn start() -> (tempfile::TempDir, Rig) {
    let place = tempfile::tempdir().unwrap();
    let guests = Directory::new(place.path(), Runtime::timed(io::clock::processor_time).unwrap());
    let rig = Rig::with("", |options| DaemonOptions { guests: Some(Arc::new(guests)), ..options });
    (place, rig)
}

fn put(place: &tempfile::TempDir, name: &str, text: &str) {
    fs::write(place.path().join(name), wat::parse_str(text).unwrap()).unwrap();
}

fn apply(rig: &Rig, text: &str) -> Applied {
    rig.client.post("/v1/apply", "test.toml", &scheme(text)).unwrap()
}

fn waiting(rig: &Rig) -> u64 {
    let ports: api::Ports = rig.client.get("/v1/ports").unwrap();
    ports.ports.iter().map(|port| port.backlog_packets).sum()
}

const THERE: [u8; 4] = [198, 51, 100, 9];

#[test]
fn guest_changes_keep_queued_packets() {
    let (place, mut rig) = start();
    put(&place, "mine.wasm", FIFO);
    let applied = apply(&rig, "guest:mine(hold=on)");
    assert_eq!(applied.changes.len(), 1, "{applied:?}");
    let ports: api::Ports = rig.client.get("/v1/ports").unwrap();
    assert!(ports.ports.iter().any(|port| port.scheme == "guest:mine(limit=1000,hold=on)"), "{ports:?}");
    rig.send(THERE, &[64; 20], 100);
    until(|| (waiting(&rig) == 20).then_some(()));

    // The same guest with another option, then a new build of it, then a built-in scheme. The queued packets stay.
    apply(&rig, "guest:mine(hold=on, limit=50)");
    rig.send(THERE, &[64; 5], 120);
    until(|| (waiting(&rig) == 25).then_some(()));
    put(&place, "mine.wasm", &FIFO.replace("in text", "in other text"));
    let again = apply(&rig, "guest:mine(hold=on, limit=50)");
    assert_eq!((again.generation, again.changes.len()), (4, 1), "it was built anew: {again:?}");
    assert_eq!(apply(&rig, "guest:mine(hold=on, limit=50)").generation, 4, "and now it was not");
    assert_eq!(waiting(&rig), 25);
    apply(&rig, "guest:mine");
    assert_eq!(rig.wan.await_ports(25), (100..125).collect::<Vec<u16>>());

    rig.send(THERE, &[64; 9], 200);
    assert_eq!(rig.wan.await_ports(9), (200..209).collect::<Vec<u16>>());
    apply(&rig, "guest:mine(hold=on)");
    rig.send(THERE, &[64; 7], 300);
    until(|| (waiting(&rig) == 7).then_some(()));
    apply(&rig, "fq");
    // Each packet is a flow. Two flows that share a bin of `fq`, by a hash with a random key, leave one after the other.
    let mut left = rig.wan.await_ports(7);
    left.sort_unstable();
    assert_eq!(left, (300..307).collect::<Vec<u16>>());
}

#[test]
fn a_missing_guest_is_refused_with_its_position() {
    let (place, mut rig) = start();
    fs::write(place.path().join("text.wasm"), "no module").unwrap();
    put(&place, "needy.wasm", &FIFO.replacen("(module", "(module (import \"env\" \"malloc\" (func))", 1));
    put(&place, "fifo.wasm", FIFO);
    for (text, said) in [
        ("guest:his", "there is no his.wasm in"),
        ("guest:his", "there are fifo, needy, text"),
        ("guest:../etc", "'../etc' is no guest name"),
        ("guest:text", "it is no WebAssembly module"),
        ("guest:needy", "it imports 'malloc' of 'env', which guests do not get"),
        ("guest:fifo(limti=1)", "did you mean 'limit'?"),
        ("guest:fifo(limit=0)", "limit=0 is below the minimum, 1"),
        ("fq{guest:fifo}", "is a guest, which cannot be nested in another scheme"),
    ] {
        let refused = rig.client.post::<Applied>("/v1/apply", "bad.toml", &scheme(text));
        let Err(ClientError::Refused(error)) = refused else { panic!("{text} was not refused") };
        assert!(error.to_string().contains(said), "{text}: {error}");
    }
    rig.send(THERE, &[64], 7);
    assert_eq!(rig.wan.await_ports(1), [7]);
}

#[test]
fn a_guest_that_never_returns_is_reported_and_loses_no_packet() {
    let (place, mut rig) = start();
    let endless = FIFO.replacen("(export \"switchpath_ready\")", "(export \"switchpath_ready\") (loop (br 0))", 1);
    // The locals of the function have to come first.
    put(
        &place,
        "endless.wasm",
        &endless.replacen("(loop (br 0)) (local $i i32)", "(local $i i32) (loop $ever (br $ever))", 1),
    );
    apply(&rig, "guest:endless");
    rig.send(THERE, &[64; 30], 10);
    assert_eq!(rig.wan.await_ports(30), (10..40).collect::<Vec<u16>>());
    let told = until(|| {
        let events: api::Events = rig.client.get("/v1/events").unwrap();
        events.events.into_iter().find(|event| event.kind == EventKind::GuestFailed)
    });
    assert_eq!(told.subject.as_deref(), Some("wan"));
    assert!(told.text.ends_with("it did not return in time"), "{}", told.text);
    assert!(told.hint.is_some());
}
