//! A queueing scheme that panics on a live port.

use crate::rig::{Rig, config, until};
use control::DaemonOptions;
use control::api::{Applied, EventKind, Events, Links};
use link::{GuestFactory, LinkWires};
use plan::{GuestCode, Guests};
use schemes::{Next, Progress, Scheme, Wires};
use std::sync::Arc;
use units::QueueId;
use units::declare::{Declaration, DeclaredCost};

const QUEUE: QueueId = QueueId(0);

/// Queues all packets, and panics instead of sending when five are queued.
struct Fused;

impl Scheme<LinkWires> for Fused {
    fn arrival(&mut self, wires: &mut LinkWires) {
        while wires.arriving().is_some() {
            wires.enqueue(QUEUE);
        }
    }

    fn link_ready(&mut self, wires: &mut LinkWires) -> Progress {
        if wires.size(QUEUE).packets >= 5 {
            // A panic without a message on the terminal.
            std::panic::resume_unwind(Box::new("five are too many"));
        }
        Progress::None
    }

    fn next(&self, _: &LinkWires) -> Next {
        Next::Idle
    }
}

/// A guest directory that provides the scheme.
#[derive(Debug)]
struct Fuses;

impl GuestFactory for Fuses {
    fn make(&self, _: &[u64]) -> Result<Box<dyn Scheme<LinkWires>>, String> {
        Ok(Box::new(Fused))
    }
}

impl Guests for Fuses {
    fn find(&self, _: &str) -> Result<(Declaration, GuestCode), (String, String)> {
        let cost = DeclaredCost::None;
        let declaration = Declaration { name: "guest:fused", summary: "", cost, source: "", options: &[] };
        Ok((declaration, link::guest_code(1, Arc::new(Fuses))))
    }
}

#[test]
fn a_panicking_scheme_is_reported_once_and_loses_no_packet() {
    let mut rig = Rig::with("", |options| DaemonOptions { guests: Some(Arc::new(Fuses)), ..options });
    let apply = |rig: &Rig, scheme: &str| {
        let with = format!("device = \"memory:wan\"\nscheme = '{scheme}'");
        let text = config("").replace("device = \"memory:wan\"", &with);
        rig.client.post::<Applied>("/v1/apply", "test.toml", &text).unwrap()
    };
    apply(&rig, "guest:fused");
    for round in 0..6 {
        rig.send([198, 51, 100, 9], &[64; 20], 20 * round);
    }
    assert_eq!(rig.wan.await_ports(120), (0..120).collect::<Vec<u16>>());
    let told = || {
        let events: Events = rig.client.get("/v1/events").unwrap();
        events.events.into_iter().filter(|event| event.kind == EventKind::SchemeFailed).collect::<Vec<_>>()
    };
    let told = until(|| Some(told()).filter(|told| !told.is_empty()));
    assert_eq!((told.len(), told[0].subject.as_deref()), (1, Some("wan")));
    assert!(told[0].text.ends_with("five are too many") && told[0].hint.is_some(), "{told:?}");
    let link = |rig: &Rig| rig.client.get::<Links>("/v1/links?port=wan").unwrap().links.remove(0);
    assert_eq!((link(&rig).version, link(&rig).put_aside.as_deref()), (3, Some("five are too many")));
    // Another scheme replaces it, and no worker was restarted.
    apply(&rig, "fq");
    assert_eq!((link(&rig).version, link(&rig).put_aside), (4, None));
    rig.send([198, 51, 100, 9], &[64; 20], 200);
    assert_eq!(rig.wan.await_ports(20), (200..220).collect::<Vec<u16>>());
    let events: Events = rig.client.get("/v1/events").unwrap();
    assert!(events.events.iter().all(|event| event.kind != EventKind::WorkerRestarted), "{events:?}");
}
