//! Configurations on trial, and the history after a restart.

use crate::rig::{TestDirectory, config, until};
use serde_json::Value;
use std::fs;
use std::process::Command;

const RUN: [&str; 4] = ["run", "run.toml", "--state-dir", "state"];

fn with(name: &str) -> String {
    config("1000pps", &format!("[[path]]\nname = '{name}'\nmatch = 'udp dport 53'"))
}

/// Returns generations, states and files of the history.
fn history(place: &TestDirectory) -> Vec<(u64, String, String)> {
    let told = place.json(&["history"]);
    let entry = |e: &Value| {
        let text = |name: &str| e[name].as_str().unwrap().to_owned();
        (e["generation"].as_u64().unwrap(), text("state"), text("name"))
    };
    told["entries"].as_array().unwrap().iter().map(entry).collect()
}

fn history_entries(of: &[(u64, &str, &str)]) -> Vec<(u64, String, String)> {
    of.iter().map(|&(generation, state, name)| (generation, state.to_owned(), name.to_owned())).collect()
}

#[test]
fn history_survives_a_restart_and_allows_rollback() {
    let place = TestDirectory::new(60000);
    place.write("run.toml", &config("1000pps", "")).write("a.toml", &with("a"));
    let router = place.start_as(place.command(&RUN));
    let said = place.run_ok(&["apply", "a.toml"]);
    assert!(said.contains("+ path a") && said.contains("generation 2 runs, 1 change"), "{said}");
    let table = place.run_ok(&["history"]);
    assert!(table.contains("a.toml") && table.contains("+ path a") && table.contains("kept in"), "{table}");
    assert_eq!(place.run_ok(&["history", "show", "2"]), with("a"));
    router.kill();
    let router = place.start_as(place.command(&RUN));
    // Generation numbers continue, and every text is still stored.
    assert_eq!(place.json(&["show", "status"])["generation"], 3);
    assert_eq!(
        history(&place),
        history_entries(&[(1, "replaced", "run.toml"), (2, "replaced", "a.toml"), (3, "running", "run.toml")])
    );
    assert!(place.run_ok(&["diff", "--from", "2", "--to", "3"]).contains("- path a"));
    assert!(place.run_ok(&["diff", "--from", "2"]).contains("- path a"));
    let said = place.run_ok(&["rollback", "--to", "2"]);
    assert!(said.contains("generation 4 runs the configuration of generation 2, 1 change"), "{said}");
    let said = place.run_failing(1, &["rollback", "--to", "99"]);
    assert!(said.contains("no generation 99") && said.contains("switchpath history"), "{said}");
    router.stop();
}

#[test]
fn an_unconfirmed_trial_rolls_back_without_its_client() {
    let place = TestDirectory::new(60000);
    let router = place.write("run.toml", &config("1000pps", "")).write("a.toml", &with("a")).start();
    let said = place.run_ok(&["apply", "a.toml", "--confirm", "1s"]);
    assert!(
        said.contains("`switchpath confirm` within 1 s keeps it; otherwise the router rolls back to generation 1"),
        "{said}"
    );
    let said = place.run_failing(1, &["apply", "run.toml"]);
    assert!(said.contains("has to be confirmed first") && said.contains("switchpath rollback"), "{said}");
    assert!(place.run_ok(&["show"]).contains("`switchpath confirm` within "));
    until(|| (place.json(&["show", "status"])["generation"] == 3).then_some(()));
    let said = place.run_failing(1, &["confirm"]);
    assert!(said.contains("generation 2 was rolled back"), "{said}");
    let events = place.run_ok(&["show", "events"]);
    assert!(events.contains("confirm generation 2 within 1 s") && events.contains("nobody confirmed"), "{events}");
    let (_, err) = router.stop();
    assert!(err.contains("a.toml still has the configuration that was not confirmed"), "{err}");
}

#[test]
fn a_trial_that_is_confirmed_stays() {
    let place = TestDirectory::new(60000);
    let router = place.write("run.toml", &config("1000pps", "")).write("a.toml", &with("a")).start();
    place.run_ok(&["apply", "a.toml", "--confirm", "3600s"]);
    let answer = place.json(&["confirm"]);
    assert_eq!(answer["generation"], 2);
    assert!(place.run_ok(&["history"]).contains("the history ends with the router"));
    assert_eq!(place.json(&["rollback", "--confirm", "3600s"])["pending"]["back_to"], 2);
    assert!(place.run_failing(2, &["apply", "a.toml", "--confirm", "60"]).contains("has no unit"));
    router.stop();
}

/// The configuration may have made the machine unreachable, or killed the router.
#[test]
fn a_router_that_died_on_trial_starts_with_the_previous_configuration() {
    let place = TestDirectory::new(60000);
    place.write("run.toml", &config("1000pps", ""));
    let router = place.start_as(place.command(&RUN));
    place.write("run.toml", &with("tried")).run_ok(&["apply", "run.toml", "--confirm", "3600s"]);
    router.kill();
    let router = place.start_as(place.command(&RUN));
    assert_eq!(
        history(&place),
        history_entries(&[(1, "replaced", "run.toml"), (2, "unconfirmed", "run.toml"), (3, "running", "run.toml")])
    );
    assert_eq!(place.json(&["show", "config"])["text"], config("1000pps", ""));
    let (_, err) = router.stop();
    assert!(err.contains("never confirmed") && err.contains("--force"), "{err}");
    let router = place.start_as(place.command(&[&RUN[..], &["--force"]].concat()));
    assert_eq!(place.json(&["show", "config"])["text"], with("tried"));
    router.stop();
}

#[test]
fn two_routers_do_not_share_a_history() {
    let place = TestDirectory::new(60000);
    let router = place.write("run.toml", &config("1000pps", "")).start_as(place.command(&RUN));
    let said = place.run_failing(1, &["run", "run.toml", "--state-dir", "state", "--socket", "other.sock"]);
    assert!(said.contains("another router uses this directory"), "{said}");
    router.stop();
}

/// A limit on the file size simulates a full disk: a text of 100 KB cannot be written.
#[test]
fn full_disk_loses_the_history_but_not_the_apply() {
    let place = TestDirectory::new(60000);
    place.write("run.toml", &config("1000pps", "").replace("out.pcapng", "/dev/null"));
    let text = with("large").replace("out.pcapng", "/dev/null") + &"\n# more".repeat(20_000);
    place.write("large.toml", &text);
    let mut command = Command::new("sh");
    let script = "ulimit -f 64; exec \"$0\" run run.toml --state-dir state";
    place.prepare(command.args(["-c", script, env!("CARGO_BIN_EXE_switchpath")]));
    let router = place.start_as(command);
    let output = place.run(&["apply", "large.toml"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("cannot write generation 2"), "{said}");
    assert_eq!(place.json(&["show", "status"])["generation"], 2);
    // The history in memory has it, so the router can roll back and return.
    place.run_ok(&["rollback"]);
    place.run_ok(&["rollback", "--to", "2"]);
    let files: Vec<_> = fs::read_dir(place.path("state/history")).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert!(files.iter().all(|file| file.to_string_lossy().ends_with(".json")), "{files:?}");
    router.stop();
}

/// A folder instead of the lock file simulates a read-only disk, because root may write anywhere else.
#[test]
fn unwritable_state_directory_loses_the_history_but_not_the_start() {
    let place = TestDirectory::new(60000);
    let router = place.write("run.toml", &config("1000pps", "")).start_as(place.command(&RUN));
    place.write("tried.toml", &with("tried"));
    place.run_ok(&["apply", "tried.toml", "--confirm", "3600s"]);
    router.stop();
    // The router has recorded that the file was never confirmed, and starts the configuration before it.
    place.write("run.toml", &with("tried"));
    fs::remove_file(place.path("state/lock")).unwrap();
    fs::create_dir(place.path("state/lock")).unwrap();
    let router = place.start_as(place.command(&RUN));
    assert_eq!(place.json(&["show", "config"])["text"], config("1000pps", ""));
    place.write("more.toml", &with("more"));
    place.run_ok(&["apply", "more.toml"]);
    let (_, err) = router.stop();
    assert!(err.contains("cannot keep the history in") && err.contains("not kept after the router stops"), "{err}");
    assert_eq!(fs::read_dir(place.path("state/history")).unwrap().count(), 2);
}
