//! Calls that are allowed in a few files only: the wall clock, sleeping, printing, unseeded randomness, unsafe code.

use crate::lines::words;
use crate::rust::Source;
use crate::workspace::Crate;

/// A name that is allowed in some files only.
struct Ban {
    name: &'static str,
    /// The allowed places: beginnings of paths.
    allowed_in: &'static [&'static str],
    /// True if it is also allowed in test code.
    in_tests: bool,
    why: &'static str,
}

/// The only place that reads the machine's clocks.
const CLOCK: &[&str] = &["crates/io/src/clock"];
const CLI: &[&str] = &["crates/cli/src/", "crates/lab/src/"];
const NO_FILE: &[&str] = &[];
const TIME: &str = "time is an argument, so that simulations and tests own it: take `now`, or ask io::clock";
const SLEEP: &str = "wait for what is to happen (poll with a deadline, a channel, a condition), not for time to pass";
const PRINT: &str = "only the command line prints; elsewhere return a value or emit an event";
/// Keys that must not be guessed come from the kernel.
const SECRETS: &[&str] = &[
    "crates/control/src/daemon/secret.rs",
    "crates/control/src/remote/tokens.rs",
    "crates/esp/src/host/randomness.rs",
];
const CHANCE: &str = "randomness is seeded and passed in, so that every run can be repeated";

const BANS: &[Ban] = &[
    Ban { name: "Instant::now", allowed_in: CLOCK, in_tests: false, why: TIME },
    Ban { name: "SystemTime::now", allowed_in: CLOCK, in_tests: false, why: TIME },
    Ban { name: "quanta::", allowed_in: CLOCK, in_tests: false, why: TIME },
    Ban { name: "_rdtsc", allowed_in: CLOCK, in_tests: false, why: TIME },
    Ban { name: "thread::sleep", allowed_in: NO_FILE, in_tests: false, why: SLEEP },
    Ban { name: "time::sleep", allowed_in: NO_FILE, in_tests: false, why: SLEEP },
    Ban { name: "print!", allowed_in: CLI, in_tests: true, why: PRINT },
    Ban { name: "println!", allowed_in: CLI, in_tests: true, why: PRINT },
    Ban { name: "eprint!", allowed_in: CLI, in_tests: true, why: PRINT },
    Ban { name: "eprintln!", allowed_in: CLI, in_tests: true, why: PRINT },
    Ban { name: "dbg!", allowed_in: NO_FILE, in_tests: false, why: PRINT },
    Ban { name: "rand::", allowed_in: SECRETS, in_tests: false, why: CHANCE },
    Ban { name: "thread_rng", allowed_in: NO_FILE, in_tests: false, why: CHANCE },
    Ban { name: "from_os_rng", allowed_in: NO_FILE, in_tests: false, why: CHANCE },
    Ban { name: "OsRng", allowed_in: NO_FILE, in_tests: false, why: CHANCE },
];

/// The homes of unsafe code: the frame pool, system calls, the hosts of guests, functions called from C, the cells that the
/// model checker watches in the queues between threads, and the counting allocator of the test that forbids allocations.
const UNSAFE_FILES: &[&str] = &[
    "crates/packet/src/pool",
    "crates/packet/tests/loom.rs",
    "crates/io/",
    "crates/extension/",
    "crates/esp-c/src/",
    "crates/plane/tests/no_allocation.rs",
    "crates/plane/tests/share_memory.rs",
];
/// The crates with unsafe code, which cannot forbid it as a whole.
const UNSAFE_CRATES: &[&str] = &["packet", "io", "extension", "esp-c"];

fn is_allowed_in(path: &str, homes: &[&str]) -> bool {
    homes.iter().any(|home| path.starts_with(home))
}

/// Returns banned names outside of their homes.
pub fn banned(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        for ban in BANS.iter().filter(|ban| !is_allowed_in(&source.path, ban.allowed_in)) {
            for at in words(&source.code, ban.name) {
                if !(ban.in_tests && source.is_test(at)) {
                    complaints.push(format!("{}:{}: `{}`: {}", source.path, source.line(at), ban.name, ban.why));
                }
            }
        }
    }
    complaints
}

/// Returns unsafe code outside of its homes.
pub fn misplaced_unsafe(sources: &[Source]) -> Vec<String> {
    let strangers = sources.iter().filter(|source| !is_allowed_in(&source.path, UNSAFE_FILES));
    strangers
        .flat_map(|source| words(&source.code, "unsafe").into_iter().map(move |at| (source, at)))
        .map(|(source, at)| format!("{}:{}: unsafe code", source.path, source.line(at)))
        .collect()
}

/// Returns roots of crates that need no unsafe code and do not forbid it.
pub fn roots_without_forbid(crates: &[Crate], sources: &[Source]) -> Vec<String> {
    let safe = crates.iter().filter(|c| !UNSAFE_CRATES.contains(&c.name.as_str()));
    safe.flat_map(|c| &c.roots)
        .filter(|root| !sources.iter().any(|s| s.path == **root && s.code.contains("#![forbid(unsafe_code)]")))
        .map(|root| format!("{root}: does not forbid unsafe code"))
        .collect()
}

#[cfg(test)]
fn complaints_about(path: &str, text: &str) -> Vec<String> {
    banned(&[Source::new(path, text)])
}

#[test]
fn a_banned_call_is_found() {
    for (path, bad) in [
        ("crates/plane/src/worker.rs", "let now = std::time::Instant::now();"),
        ("crates/sim/src/world.rs", "let now = SystemTime::now();"),
        ("crates/lab/tests/demo.rs", "std::thread::sleep(second);"),
        ("crates/control/src/server.rs", "tokio::time::sleep(second).await;"),
        ("crates/plane/src/lib.rs", "fn a() { println!(); }"),
        ("crates/sim/src/source.rs", "let a: u8 = rand::random();"),
    ] {
        let found = complaints_about(path, bad);
        assert!(found.len() == 1 && found[0].starts_with(&format!("{path}:1: ")), "{bad}: {found:?}");
    }
}

#[test]
fn allowed_calls_comments_and_literals_are_no_findings() {
    for (path, good) in [
        ("crates/io/src/clock.rs", "let now = std::time::Instant::now();"),
        ("crates/cli/src/main.rs", "println!(\"Instant::now\");"),
        ("crates/plane/src/lib.rs", "// never Instant::now\n#[cfg(test)]\nmod tests { fn a() { eprintln!(); } }"),
        ("crates/sim/src/source.rs", "use rand_chacha::ChaCha8Rng;"),
    ] {
        assert_eq!(complaints_about(path, good), [""; 0], "{good}");
    }
}

#[test]
fn misplaced_unsafe_code_is_found() {
    let text = "fn a() {\n    unsafe { b() }\n}";
    assert_eq!(
        misplaced_unsafe(&[Source::new("crates/plane/src/a.rs", text)]),
        ["crates/plane/src/a.rs:2: unsafe code"]
    );
    assert_eq!(misplaced_unsafe(&[Source::new("crates/packet/src/wire/ip.rs", text)]).len(), 1);
    for home in ["crates/packet/src/pool.rs", "crates/packet/src/pool/slab.rs", "crates/io/src/ring.rs"] {
        assert_eq!(misplaced_unsafe(&[Source::new(home, text)]), [""; 0]);
    }
    let forbids = Source::new("crates/plane/src/lib.rs", "#![forbid(unsafe_code)]");
    assert_eq!(misplaced_unsafe(&[forbids]), [""; 0]);
}

#[test]
fn a_root_that_does_not_forbid_unsafe_code_is_found() {
    let of = |name: &str| {
        let root = format!("crates/{name}/src/lib.rs");
        Crate { name: name.into(), roots: vec![root], ..Crate::default() }
    };
    let crates = [of("units"), of("plan"), of("packet")];
    let sources = [
        Source::new("crates/units/src/lib.rs", "//! Units.\n#![forbid(unsafe_code)]"),
        Source::new("crates/plan/src/lib.rs", "//! Plans.\n// #![forbid(unsafe_code)]"),
        Source::new("crates/packet/src/lib.rs", "//! Packets."),
    ];
    assert_eq!(roots_without_forbid(&crates, &sources), ["crates/plan/src/lib.rs: does not forbid unsafe code"]);
}
