//! Guests from an empty folder to a live port, in each language. A language without its tools is skipped with a note.

#![allow(clippy::print_stdout)]

use crate::rig::{TestDirectory, config, with_scheme};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const FIFO: &str = include_str!("../../../../examples/guests/fifo.wat");
const LANGUAGES: [&str; 3] = ["rust", "c", "assemblyscript"];

/// The AssemblyScript compiler's directory, as `.ci/setup` installs it.
fn modules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/assemblyscript/node_modules")
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// True if guests in that language can be built here. In CI it fails if they cannot.
pub fn can_build(language: &str) -> bool {
    let (can, how) = match language {
        "rust" => {
            let arguments = ["--print", "target-libdir", "--target", "wasm32-unknown-unknown"];
            let path = Command::new("rustc").args(arguments).output().map(|output| output.stdout).unwrap_or_default();
            (Path::new(String::from_utf8_lossy(&path).trim()).is_dir(), "rustup target add wasm32-unknown-unknown")
        }
        "c" => (runs("clang", &["--version"]) && runs("wasm-ld", &["--version"]), "apt-get install clang lld"),
        _ => (runs("node", &["--version"]) && modules().is_dir(), ".ci/setup test"),
    };
    assert!(can || std::env::var_os("CI").is_none(), "guests in {language} cannot be built: {how}");
    if !can {
        println!("left out: guests in {language}; {how}");
    }
    can
}

/// Creates a guest and builds it into guests/. Returns the output.
pub fn made(place: &TestDirectory, name: &str, language: &str, how: &[&str]) -> String {
    place.run_ok(&[&["guest", "new", name], how].concat());
    if language == "assemblyscript" {
        symlink(modules(), place.path(name).join("node_modules")).unwrap();
    }
    place.run_ok(&["guest", "build", name, "--guests", "guests"])
}

#[test]
fn guest_in_each_language_keeps_every_law_and_runs_on_a_live_port() {
    let place = TestDirectory::new(60000);
    std::fs::create_dir(place.path("guests")).unwrap();
    place.write("run.toml", &config("1000pps", ""));
    let router = place.start_as(place.command(&["run", "run.toml", "--guests", "guests"]));
    for language in LANGUAGES.into_iter().filter(|language| can_build(language)) {
        let said = made(&place, &format!("my-{language}"), language, &["--language", language]);
        for wanted in ["obeys every law", "patience  20ms", "use scheme = \"guest:my-"] {
            assert!(said.contains(wanted), "{language}: no {wanted}: {said}");
        }
        let json = place.json(&["guest", "check", &format!("guests/my-{language}.wasm"), "--options", "limit=3"]);
        assert_eq!(
            (&json["good"], &json["queues"], &json["options"][0]["value"]),
            (&true.into(), &1.into(), &"3".into())
        );
        assert!(json["counters"][0].as_u64() == json["dropped"].as_u64() && json["dropped"] != 0, "{json}");
        place.write("new.toml", &with_scheme(&format!("guest:my-{language}(limit=77)")));
        let applied = place.run_ok(&["apply", "new.toml", "--guests", "guests"]);
        assert!(applied.contains(&format!("guest:my-{language}(limit=77)")), "{applied}");
    }
    router.stop();
}

#[test]
fn packet_function_in_each_language_keeps_every_law_and_runs_on_a_live_path() {
    let place = TestDirectory::new(60010);
    std::fs::create_dir(place.path("guests")).unwrap();
    place.write("run.toml", &config("1000pps", ""));
    let router = place.start_as(place.command(&["run", "run.toml", "--guests", "guests"]));
    for language in LANGUAGES.into_iter().filter(|language| can_build(language)) {
        let name = format!("my-{language}");
        let said = made(&place, &name, language, &["--language", language, "--kind", "function"]);
        for wanted in ["a packet function of", "obeys every law", "on_fault", "use functions = [\"guest:my-"] {
            assert!(said.contains(wanted), "{language}: no {wanted}: {said}");
        }
        let json = place.json(&["guest", "check", &format!("guests/{name}.wasm"), "--options", "limit=100b"]);
        assert_eq!((&json["good"], &json["kind"]), (&true.into(), &"function".into()), "{json}");
        assert!(json["dropped"] != 0 && json["changed"] == 0, "{json}");
        let path =
            format!("[[path]]\nname = \"g\"\nmatch = \"udp\"\nfunctions = [\"guest:{name}(limit=77b)\", \"ip\"]\n");
        place.write("new.toml", &format!("{}{path}", config("1000pps", "")));
        let applied = place.run_ok(&["apply", "new.toml", "--guests", "guests"]);
        assert!(applied.contains(&format!("guest:{name}(limit=77b,on_fault=bypass)")), "{applied}");
    }
    router.stop();
}

#[test]
fn code_option_in_each_language_keeps_every_law_and_runs_in_a_slice() {
    let place = TestDirectory::new(60020);
    std::fs::create_dir(place.path("guests")).unwrap();
    let path = "[[path]]\nname = \"slices\"\nmatch = \"udp dport 20000-20999\"\nfunctions = [\"slice\"]\n";
    place.write("run.toml", &config("1000pps", path));
    let router = place.start_as(place.command(&["run", "run.toml", "--guests", "guests"]));
    for language in LANGUAGES.into_iter().filter(|language| can_build(language)) {
        let name = format!("my-{language}");
        let said = made(&place, &name, language, &["--language", language, "--kind", "slice"]);
        for wanted in ["a code option of", "obeys every law", "ttl", "use `switchpath slice create NAME code guest:my-"]
        {
            assert!(said.contains(wanted), "{language}: no {wanted}: {said}");
        }
        let json = place.json(&["guest", "check", &format!("guests/{name}.wasm"), "--options", "ttl=9"]);
        assert_eq!((&json["good"], &json["kind"]), (&true.into(), &"slice".into()), "{json}");
        assert!(json["changed"] != 0 && json["exceptions"] != 0 && json["slice_memory"] == 8, "{json}");
        let run = |line: &str| place.run_ok(&["slice"].into_iter().chain(line.split(' ')).collect::<Vec<_>>());
        run(&format!("create {language} code guest:{name} set ttl=9"));
        let shown = run("list");
        assert!(shown.contains(&format!("guest:{name} v1 ")), "{shown}");
        run(&format!("code {language} guest:{name} set ttl=3 double"));
        assert!(run(&format!("list {language}")).contains("double run: 0 of 0 results differ"));
        run(&format!("code {language} null"));
        assert!(place.json(&["slice", "list", language])["slices"][0]["guest"].is_null());
    }
    router.stop();
}

#[test]
fn tests_of_a_new_rust_guest_pass() {
    if !can_build("rust") {
        return;
    }
    tests_pass(&["--language", "rust"], "2 passed");
    tests_pass(&["--language", "rust", "--kind", "function"], "1 passed");
    tests_pass(&["--language", "rust", "--kind", "slice"], "2 passed");
    ["names", "dns"].into_iter().for_each(|name| tests_pass(&["--example", name], "2 passed"));
}

fn tests_pass(how: &[&str], passed: &str) {
    let place = TestDirectory::new(0);
    place.run_ok(&[&["guest", "new", "mine"], how].concat());
    let cargo = Command::new(env!("CARGO"))
        .current_dir(place.path("mine"))
        .args(["test", "--quiet", "--offline", "--target-dir", "target"])
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&cargo.stdout);
    assert!(cargo.status.success() && said.contains(passed), "{said}{}", String::from_utf8_lossy(&cargo.stderr));
}

#[test]
fn existing_files_are_kept_and_guest_names_are_checked() {
    let place = TestDirectory::new(0);
    for language in LANGUAGES {
        let said = place.run_ok(&["guest", "new", language, "--language", language]);
        assert!(said.contains(&format!("switchpath guest build {language} --guests guests")), "{said}");
        let said = place.run_failing(1, &["guest", "new", language, "--language", language]);
        assert!(said.contains("exists already; choose another name"), "{said}");
    }
    let said = place.run_failing(2, &["guest", "new", "My Guest", "--language", "c"]);
    assert!(said.contains("'My Guest' is no guest name; a guest's name has at most 32 of a-z"), "{said}");
    assert!(!place.path("My Guest").exists());
}

#[test]
fn missing_tool_is_named_with_how_to_install_it() {
    let place = TestDirectory::new(0);
    for (language, wanted) in [
        ("rust", "Rust is not installed: get it from"),
        ("c", "clang is not installed (gcc makes no WebAssembly): sudo apt-get install clang"),
        ("assemblyscript", "Node.js and npm are not installed: sudo apt-get install npm"),
    ] {
        place.run_ok(&["guest", "new", language, "--language", language]);
        let output = place.command(&["guest", "build", language]).env("PATH", "").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(wanted), "{said}");
    }
    let said = place.run_failing(1, &["guest", "build", "."]);
    assert!(said.contains(". has no guest") && said.contains("switchpath guest new mine"), "{said}");
}

#[test]
fn guest_that_breaks_a_law_is_refused_with_the_law_and_not_installed() {
    let place = TestDirectory::new(0);
    let put = |name: &str, text: &str| std::fs::write(place.path(name), wat::parse_str(text).unwrap()).unwrap();
    put("fifo.wasm", FIFO);
    // A guest that ignores a refused enqueue: it assumes that the packet is in the queue.
    let deaf = FIFO.replace("(then (global.set $waiting (i32.const 0))))", "(then return))");
    assert_ne!(deaf, FIFO);
    put("deaf.wasm", &deaf);
    let said = place.run_ok(&["guest", "check", "fifo.wasm"]);
    assert!(said.contains("fifo.wasm obeys every law"), "{said}");
    let json: serde_json::Value = {
        let output = place.run(&["guest", "check", "-j", "deaf.wasm"]);
        assert_eq!(output.status.code(), Some(1));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let broken = &json["laws"][0]["broken"];
    assert_eq!((&json["good"], &broken["circumstance"]), (&false.into(), &"little memory".into()), "{json}");
    assert!(broken["how"].as_str().unwrap().contains("which is empty"), "{json}");
    let output = place.run(&["guest", "check", "fifo.wasm", "--options", "hold=on"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(1) && said.contains("\nBROKEN "), "{said}");
    let said = place.run_failing(1, &["guest", "check", "fifo.wasm", "--options", "holt=on"]);
    assert!(said.contains("holt") && said.contains("hold"), "{said}");
    place.write("none.wasm", "no module");
    let said = place.run_failing(1, &["guest", "check", "none.wasm"]);
    assert!(said.contains("it is no WebAssembly module"), "{said}");
    let output = place.run(&["guest", "check", "-j", "none.wasm"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["error"]["message"].as_str().unwrap().contains("no WebAssembly"), "{json}");
}

#[test]
fn guest_is_measured_beside_built_in_schemes() {
    let place = TestDirectory::new(0);
    std::fs::write(place.path("fifo.wasm"), wat::parse_str(FIFO).unwrap()).unwrap();
    // The machine may keep the guest from its processor for longer than a call may take: then the guest is disabled, and the command fails.
    let measured = |more: &[&str]| {
        let command = [&["guest", "bench", "--quick", "fifo.wasm"], more].concat();
        let mut runs = (0..5).map(|_| place.run(&command));
        let good = runs.find(|output| output.status.success()).expect("one of five runs is not disturbed");
        String::from_utf8(good.stdout).unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&measured(&["-j"])).unwrap();
    let costs = json["costs"].as_array().unwrap();
    let of = |scheme: &str| {
        let of = costs.iter().filter(|cost| cost["scheme"] == scheme && cost["ns_per_packet"].is_f64());
        of.map(|cost| cost["batch"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    for scheme in ["fifo", "codel", "guest:fifo(limit=1000,hold=off)"] {
        assert_eq!(of(scheme), [1, 8, 32], "{json}");
    }
    assert!(json["instantiate_ns"].as_u64() > Some(0) && json["compile_ns"].as_u64() > Some(0), "{json}");
    let said = measured(&[]);
    assert!(said.contains("SCHEME") && said.contains("instantiated in"), "{said}");
}
