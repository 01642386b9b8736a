//! Parsing any text needs at most the memory that `footprint` returns.

#![allow(clippy::print_stdout)]

#[path = "configuration/catalogue/mod.rs"]
mod catalogue;

use catalogue::catalogue;
use plan::{examine, footprint};
use std::fs;
use std::process::Command;

/// Memory of this process in bytes: the current value, or the maximum since [`forget`].
fn memory(which: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(which)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// Resets the maximum (proc(5), clear_refs). Returns true if that is possible.
fn forget() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Texts of about `bytes` bytes, each dense in one construct.
fn dense(bytes: usize) -> Vec<(&'static str, String)> {
    let many = |piece: &str| piece.repeat(bytes / piece.len());
    let numbered = |make: fn(usize) -> String| {
        let mut text = String::new();
        (0..)
            .map(make)
            .take_while(|piece| {
                text.push_str(piece);
                text.len() < bytes
            })
            .for_each(drop);
        text
    };
    let lan = "[port.lan]\ndevice = 'memory:a'\naddress = ['192.0.2.1/24']\n";
    vec![
        ("comments", many("# nothing\n")),
        ("blanks", many("\n")),
        ("lists", format!("a=[{}]", many("[],"))),
        ("tables", format!("a=[{}]", many("{},"))),
        ("numbers", format!("a=[{}]", many("1,"))),
        ("strings", format!("a=[{}]", many("'',"))),
        ("dates", format!("a=[{}]", many("1979-05-27,"))),
        ("dots", many("[a.a.a.a.a.a.a.a]\n")),
        ("one deep key", format!("{}a=1", "a.".repeat(60))),
        ("many deep keys", numbered(|i| format!("a{i}.b.c.d.e.f.g.h=1\n"))),
        ("headers", numbered(|i| format!("[a{i}]\n"))),
        ("deep headers", numbered(|i| format!("[a{i}.b.c.d.e]\n"))),
        ("lists of tables", many("[[a]]\n")),
        ("lists of routes", many("[[route]]\n")),
        (
            "routes",
            lan.to_owned()
                + &numbered(|i| format!("[[route]]\nto='10.{}.{}.0/24'\nvia='192.0.2.9'\n", i / 256 % 256, i % 256)),
        ),
        (
            "inline routes",
            format!("{lan}[x]\n[[route]]\nto='10.0.0.0/8'\n") + &format!("via=[{}]", many("'192.0.2.9',")),
        ),
        ("inline tables", "route=[".to_owned() + &many("{to='::/0'},") + "]"),
        ("ports", numbered(|i| format!("[port.p{i}]\n"))),
        ("whole ports", numbered(|i| format!("[port.p{i}]\ndevice='memory:a{i}'\n"))),
        ("short ports", format!("[port]\n{}", numbered(|i| format!("p{i}={{device='memory:a'}}\n")))),
        ("addresses", format!("[port.p]\ndevice='memory:a'\naddress=[{}]", many("'192.0.2.1/24',"))),
        (
            "shares",
            "[port.p]\ndevice='memory:a'\nscheme='share'\n".to_owned()
                + &format!("shares=[{}]", numbered(|i| format!("'{i}',"))),
        ),
        ("neighbours", lan.to_owned() + &many("[[neighbour]]\naddress='192.0.2.9'\nmac='02:00:00:00:00:01'\n")),
        ("paths", lan.to_owned() + &numbered(|i| format!("[[path]]\nname='p{i}'\nmatch='udp'\n"))),
        ("empty paths", many("[[path]]\n")),
        ("a long match", format!("[[path]]\nname='p'\nmatch='ip {}'", many("tcp dport 1-9 "))),
        ("a long scheme", format!("[port.p]\ndevice='memory:a'\nscheme='fifo({})'", many("limit=1,"))),
        ("a deep scheme", format!("[port.p]\ndevice='memory:a'\nscheme='{}'", many("fq{"))),
        ("many functions", format!("[[path]]\nname='p'\nmatch='any'\nfunctions=[{}]", many("'filter',"))),
        ("garbage", many("%\n")),
        ("garbage in a line", many("% ")),
        ("equal signs", many("=\n")),
        ("brackets", many("[")),
        ("closing brackets", many("]")),
        ("duplicates", many("a=1\n")),
        ("unknown keys", numbered(|i| format!("k{i}=1\n"))),
        ("unclosed strings", many("a='\n")),
        ("escapes", format!("a=\"{}\"", many("\\u0041"))),
        ("strings that hide", many("'\"' = [[],[]]\n")),
        ("long strings", format!("a=['''{}\n''',{}]", "x", many("[],"))),
        ("keys in quotes", numbered(|i| format!("'{i}'.'b'.'c'=1\n"))),
        ("spaced keys", numbered(|i| format!("a{i} . b . c = 1\n"))),
    ]
}

/// The text that a child process parses. A process each, because memory freed by an earlier text would be reused unseen.
const CASE: &str = "FOOTPRINT_CASE";

#[test]
fn parsing_needs_no_more_than_its_footprint() {
    let texts = dense(1 << 18);
    if let Ok(case) = std::env::var(CASE) {
        let (_, text) = &texts[case.parse::<usize>().unwrap()];
        let catalogue = catalogue();
        drop(examine("version = 1", "f", &catalogue));
        let before = memory("VmRSS");
        assert!(forget());
        drop(examine(text, "f", &catalogue));
        println!("used {}", memory("VmHWM") - before);
        return;
    }
    if !forget() {
        // The kernel or a sandbox does not support it.
        println!("skipped: the most memory used cannot be measured here");
        return;
    }
    let used = |case: usize| -> usize {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "parsing_needs_no_more_than_its_footprint", "--nocapture"]);
        let output = command.env(CASE, case.to_string()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = said.lines().find_map(|line| line.split("used ").nth(1));
        line.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&output.stderr))).parse().unwrap()
    };
    let mut told = String::new();
    let mut exceeded = false;
    for (case, (name, text)) in texts.iter().enumerate() {
        let (used, bound) = (used(case), footprint(text));
        exceeded |= used > bound;
        told += &format!("{name}: {:.1} of {:.1} MB\n", used as f64 / 1e6, bound as f64 / 1e6);
    }
    println!("{told}");
    assert!(!exceeded, "{told}");
}
