//! With `-j` every command reports a failure as one JSON object, and prints no words.

use crate::rig::{TestDirectory, config};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Output;

/// Commands that fail as written in the directory that [`place`] prepares. No router answers on its socket.
const FAILING: &[(&str, &[&str])] = &[
    ("init", &["init", "--yes", "--output", "good.toml"]),
    ("convert", &["convert", "--addr", "missing.json"]),
    ("run", &["run", "bad.toml"]),
    // The answer of `check` contains the diagnostics, so it has no error object.
    ("check", &[]),
    ("diff", &["diff", "good.toml", "bad.toml"]),
    ("diff", &["diff", "good.toml"]),
    ("graph", &["graph", "bad.toml"]),
    ("graph", &["graph"]),
    ("apply", &["apply", "bad.toml"]),
    ("apply", &["apply", "good.toml"]),
    ("confirm", &["confirm"]),
    ("rollback", &["rollback"]),
    ("history", &["history"]),
    ("show", &["show", "ports"]),
    ("top", &["top", "--once"]),
    ("trace", &["trace"]),
    ("trace", &["trace", "--cpu"]),
    ("explain", &["explain", "in", "nowhere", "tcp"]),
    ("explain", &["explain", "--drop", "no_such_reason"]),
    ("explain", &["explain", "--config", "bad.toml", "in", "lan"]),
    ("replay", &["replay", "missing.pcapng", "good.toml"]),
    ("replay", &["replay", "in.pcapng", "bad.toml"]),
    ("route", &["route", "add", "10.0.0.0/8", "via", "198.51.100.9"]),
    ("neighbour", &["neighbour", "add", "198.51.100.9", "02:00:00:00:00:09", "dev", "wan"]),
    ("rule", &["rule", "list"]),
    ("set", &["set", "list"]),
    ("reserve", &["reserve", "list"]),
    ("reserve", &["reserve", "add", "a", "rate", "1mbit", "packet", "100b", "match", "udp"]),
    ("reserve", &["reserve", "whatif", "a", "rate", "1mbit", "packet", "100b", "match", "udp"]),
    ("reserve", &["reserve", "renew", "a"]),
    ("reserve", &["reserve", "remove", "a"]),
    ("reserve", &["reserve", "batch", "missing.txt"]),
    ("reserve", &["reserve", "bound", "missing.json"]),
    ("share", &["share", "list"]),
    ("share", &["share", "batch", "lan", "missing.txt"]),
    ("slice", &["slice", "list"]),
    ("slice", &["slice", "create", "overlay", "code", "ipv4"]),
    ("slice", &["slice", "delete", "overlay"]),
    ("slice", &["slice", "mem", "write", "overlay", "0", "c0ffee"]),
    ("slice", &["slice", "stats", "overlay"]),
    ("slice", &["slice", "exc", "overlay"]),
    ("slice", &["slice", "router", "overlay"]),
    ("slice", &["slice", "batch", "missing.txt"]),
    ("subscribers", &["subscribers", "reload"]),
    ("filter import", &["filter", "import", "missing.rules"]),
    ("state", &["state", "show"]),
    ("capture", &["capture"]),
    ("link", &["link", "--down", "nonsense", "--", "true"]),
    ("sim", &["sim", "missing.toml"]),
    ("reproduce", &["reproduce", "no-such-paper"]),
    ("bench", &["bench", "no-such-bench"]),
    ("guest check", &["guest", "check", "missing.wasm"]),
    ("guest bench", &["guest", "bench", "missing.wasm"]),
    ("doctor", &[]),
];

fn place() -> TestDirectory {
    let place = TestDirectory::new(1);
    place.write("good.toml", &config("fast", ""));
    place.write("bad.toml", &config("fast", "[port.lan2]\ndevice = 'memory:a'\nmtuu = 9\n"));
    place
}

/// Returns the error object, which has to be the whole output of a command with `-j`.
fn error(arguments: &[&str], output: &Output) -> Value {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success(), "{arguments:?} does not fail: {out}{err}");
    let printed: Value =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out:?} {err:?}"));
    let error = &printed["error"];
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{arguments:?}: {printed}");
    assert!(!err.lines().any(|line| line.starts_with("switchpath:") || line.contains("error")), "{arguments:?}: {err}");
    error.clone()
}

/// Returns every command and subcommand that has `-j`.
fn commands(place: &TestDirectory, of: &[&str]) -> Vec<String> {
    let help = place.run_ok(&[of, &["--help"]].concat());
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = listed.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    let within = names.filter(|name| *name != "help").flat_map(|name| commands(place, &[of, &[name]].concat()));
    let mut found: Vec<String> = within.collect();
    if help.contains("-j, --json") && found.is_empty() {
        found.push(of.join(" "));
    }
    found
}

#[test]
fn every_command_with_json_fails_in_json() {
    let place = place();
    let known = commands(&place, &[]);
    assert!(known.len() > 20, "{known:?}");
    // A wrong command line.
    for command in &known {
        let words: Vec<&str> = command.split(' ').chain(["--no-such-option", "-j"]).collect();
        let output = place.run(&words);
        assert_eq!(output.status.code(), Some(2), "{command}");
        let error = error(&words, &output);
        assert_eq!(error["kind"], "usage", "{command}: {error}");
        assert!(error["message"].as_str().unwrap().contains("--no-such-option"), "{command}: {error}");
    }
    // A failure of the command itself: each command has one in the table.
    let tried: BTreeSet<&str> = FAILING.iter().map(|(command, _)| *command).collect();
    let untried: Vec<&String> = known.iter().filter(|command| !tried.iter().any(|it| is_of(command, it))).collect();
    assert!(untried.is_empty(), "add to FAILING: {untried:?}");
    for (_, arguments) in FAILING.iter().filter(|(_, arguments)| !arguments.is_empty()) {
        // Options come before `--`.
        let at = arguments.iter().position(|word| *word == "--").unwrap_or(arguments.len());
        let words = [&arguments[..at], &["-j"], &arguments[at..]].concat();
        error(&words, &place.run(&words));
    }
}

/// Returns whether a command is `of` or one of its subcommands.
fn is_of(command: &str, of: &str) -> bool {
    command == of || command.strip_prefix(of).is_some_and(|rest| rest.starts_with(' '))
}

#[test]
fn an_error_in_a_configuration_has_its_place_and_hint() {
    let place = place();
    for arguments in
        [&["apply", "bad.toml", "-j"][..], &["run", "bad.toml", "-j"], &["diff", "good.toml", "bad.toml", "-j"]]
    {
        let error = error(arguments, &place.run(arguments));
        assert_eq!(
            (error["kind"].as_str(), error["file"].as_str()),
            (Some("configuration"), Some("bad.toml")),
            "{error}"
        );
        assert!(error["message"].as_str().unwrap().contains("'mtuu'"), "{error}");
        assert_eq!(error["hint"], "did you mean 'mtu'?");
        let line =
            std::fs::read_to_string(place.path("bad.toml")).unwrap().lines().position(|line| line.starts_with("mtuu"));
        assert_eq!(error["line"].as_u64(), line.map(|line| line as u64 + 1));
        assert_eq!(error["diagnostics"][0]["path"], "port.lan2.mtuu");
        // Without `-j` people see the error in its line of the file.
        let said = place.run_failing(1, &arguments[..arguments.len() - 1]);
        assert!(said.contains("mtuu") && said.contains("did you mean 'mtu'?") && !said.contains('{'), "{said}");
    }
}

#[test]
fn a_refusal_of_the_router_has_its_kind_and_hint() {
    let place = TestDirectory::new(60000);
    let router = place.write("run.toml", &config("2000pps", "")).start();
    let arguments = ["confirm", "-j"];
    let refused = error(&arguments, &place.run(&arguments));
    assert_eq!(refused["kind"], "nothing_pending");
    assert!(refused["hint"].as_str().unwrap().contains("switchpath history"), "{refused}");
    router.stop();
    let gone = error(&arguments, &place.run(&arguments));
    assert_eq!(gone["kind"], "unreachable", "{gone}");
}
