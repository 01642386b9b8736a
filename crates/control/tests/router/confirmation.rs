//! Configurations on trial: confirmed, rolled back, and restored.

use crate::rig::{Rig, config, until};
use control::api::{self, Applied, Confirmed, ErrorKind, EventKind, HistoryState as State};
use control::{ApplyFailure, ApplyRequest, ClientError};
use units::Nanos;

/// A configuration with a path of this name, to distinguish it from others.
fn with(name: &str) -> String {
    config(&format!("[[path]]\nname = '{name}'\nmatch = 'udp dport 53'"))
}

fn on_trial(rig: &Rig, name: &str, time: &str) -> Applied {
    let parameters = [("name", format!("{name}.toml")), ("confirm", time.to_owned())];
    rig.client.post_with("/v1/apply", &parameters, &with(name)).unwrap()
}

fn refused<T: std::fmt::Debug>(result: Result<T, ClientError>) -> api::ApiError {
    match result {
        Err(ClientError::Refused(error)) => error,
        other => panic!("{other:?} was to be refused"),
    }
}

fn history(rig: &Rig) -> Vec<(u64, State, Option<u64>)> {
    let told: api::History = rig.client.get("/v1/history").unwrap();
    told.entries.into_iter().map(|entry| (entry.generation, entry.state, entry.restores)).collect()
}

fn status(rig: &Rig) -> api::Status {
    rig.client.get("/v1/status").unwrap()
}

#[test]
fn confirmed_configuration_is_not_rolled_back() {
    let rig = Rig::start("");
    let applied = on_trial(&rig, "a", "3600s");
    let pending = applied.pending.unwrap();
    assert_eq!((pending.generation, pending.back_to), (2, 1));
    assert_eq!(status(&rig).pending.unwrap().generation, 2);
    let confirmed: Confirmed = rig.client.post_with("/v1/confirm", &[], "").unwrap();
    assert_eq!(confirmed.generation, 2);
    assert_eq!(status(&rig).pending, None);
    assert_eq!(history(&rig), [(1, State::Replaced, None), (2, State::Running, None)]);
    let told: api::History = rig.client.get("/v1/history").unwrap();
    let entry = &told.entries[1];
    assert_eq!((entry.name.as_str(), entry.who.uid), ("a.toml", Some(rustix::process::geteuid().as_raw())));
    assert!(entry.changes[0].starts_with("+ path a"), "{entry:?}");
    let error = refused(rig.client.post_with::<Confirmed>("/v1/confirm", &[], ""));
    assert_eq!(error.error, ErrorKind::NothingPending);
}

/// The timer decides to roll back, and reads the earlier configuration without the lock. A confirmation may come meanwhile.
#[test]
fn timer_does_not_roll_back_confirmed_configuration() {
    let rig = Rig::start("");
    on_trial(&rig, "a", "3600s");
    rig.client.post_with::<Confirmed>("/v1/confirm", &[], "").unwrap();
    let timer = ApplyRequest { author: api::Author::by(api::Via::Timer), force: true, ..ApplyRequest::new("", "") };
    let result = rig.daemon.roll_back(control::RollbackTarget::To(1), timer);
    assert!(matches!(result, Err(ApplyFailure::Superseded(2))), "{result:?}");
    assert_eq!(history(&rig), [(1, State::Replaced, None), (2, State::Running, None)]);
}

#[test]
fn unconfirmed_configuration_is_rolled_back_without_loss() {
    let mut rig = Rig::start("");
    on_trial(&rig, "a", "1s");
    let (mut sent, mut seen) = (0u32, Vec::new());
    until(|| {
        rig.send([198, 51, 100, 9], &[64; 8], sent as u16);
        sent += 8;
        rig.await_delivery(&mut seen, sent as usize);
        (status(&rig).generation == 3).then_some(())
    });
    assert!(seen == (0..sent).map(|i| i as u16).collect::<Vec<_>>());
    let running: api::Config = rig.client.get("/v1/config").unwrap();
    assert_eq!((running.text, running.name.as_str()), (config(""), "test.toml"));
    assert_eq!(
        history(&rig),
        [(1, State::Replaced, None), (2, State::Unconfirmed, None), (3, State::Running, Some(1))]
    );
    let kinds: Vec<EventKind> =
        rig.client.get::<api::Events>("/v1/events").unwrap().events.into_iter().map(|event| event.kind).collect();
    assert!(kinds.contains(&EventKind::Pending) && kinds.contains(&EventKind::RolledBack), "{kinds:?}");
    let error = refused(rig.client.post_with::<Confirmed>("/v1/confirm", &[], ""));
    assert!(error.reason.contains("generation 2 was rolled back"), "{error}");
    // A configuration that was rolled back is kept, and can be restored.
    let left: api::Config = rig.client.get("/v1/config?generation=2").unwrap();
    assert_eq!(left.text, with("a"));
    let again: Applied = rig.client.post_with("/v1/rollback", &[("to", "2".into())], "").unwrap();
    assert_eq!((again.generation, again.restores), (4, Some(2)));
}

#[test]
fn apply_is_refused_while_confirmation_is_pending() {
    let rig = Rig::start("");
    on_trial(&rig, "a", "3600s");
    let error = refused(rig.client.post::<Applied>("/v1/apply", "b.toml", &with("b")));
    assert_eq!(error.error, ErrorKind::Pending);
    assert!(
        error.reason.contains("generation 2 has to be confirmed") && error.hint.contains("switchpath confirm"),
        "{error}"
    );
    let Err(ApplyFailure::Pending(_)) = rig.daemon.apply_request(ApplyRequest::new(&with("b"), "SIGHUP")) else {
        panic!()
    };
    // It can be rolled back at once, and then another one is accepted.
    let back: Applied = rig.client.post_with("/v1/rollback", &[], "").unwrap();
    assert_eq!((back.generation, back.restores, back.pending), (3, Some(1), None));
    assert_eq!(history(&rig)[1], (2, State::Unconfirmed, None));
    let next: Applied = rig.client.post("/v1/apply", "b.toml", &with("b")).unwrap();
    assert_eq!(next.generation, 4);
}

#[test]
fn repeated_rollbacks_step_back_until_oldest() {
    let rig = Rig::start("");
    for name in ["a", "b", "c"] {
        rig.client.post::<Applied>("/v1/apply", name, &with(name)).unwrap();
    }
    let back = |query: &[(&str, String)]| -> Result<String, ClientError> {
        rig.client.post_with::<Applied>("/v1/rollback", query, "")?;
        Ok(rig.client.get::<api::Config>("/v1/config")?.name)
    };
    assert_eq!(back(&[]).unwrap(), "b");
    assert_eq!(back(&[]).unwrap(), "a");
    assert_eq!(back(&[]).unwrap(), "test.toml");
    assert_eq!(refused(back(&[])).reason, "there is no earlier generation");
    assert_eq!(back(&[("to", "4".into())]).unwrap(), "c");
    let error = refused(back(&[("to", "99".into())]));
    assert!(error.reason.contains("no generation 99") && error.hint.contains("1 to 8"), "{error}");
    assert_eq!(refused(rig.client.get::<api::Config>("/v1/config?generation=99")).error, ErrorKind::NothingPending);
}

#[test]
fn rollback_can_require_confirmation() {
    let rig = Rig::start("");
    rig.client.post::<Applied>("/v1/apply", "a", &with("a")).unwrap();
    let back: Applied = rig.client.post_with("/v1/rollback", &[("confirm", "1s".into())], "").unwrap();
    assert_eq!(back.pending.unwrap().back_to, 2);
    until(|| (status(&rig).generation == 4).then_some(()));
    assert_eq!(rig.client.get::<api::Config>("/v1/config").unwrap().name, "a");
}

#[test]
fn an_equivalent_configuration_needs_no_confirmation() {
    let rig = Rig::start("");
    let parameters = [("name", "same.toml".to_owned()), ("confirm", "1s".to_owned())];
    let text = config("# a remark");
    let applied: Applied = rig.client.post_with("/v1/apply", &parameters, &text).unwrap();
    assert_eq!((applied.generation, applied.pending), (1, None));
    assert_eq!(rig.client.get::<api::Config>("/v1/config?generation=1").unwrap().text, text);
}

#[test]
fn stopping_router_ends_pending_confirmation() {
    let rig = Rig::start("");
    on_trial(&rig, "a", "1s");
    let begun = io::clock::now();
    assert!(rig.daemon.stop().ledgers.balanced);
    assert!(io::clock::now().since(begun) < Nanos::secs(1));
}
