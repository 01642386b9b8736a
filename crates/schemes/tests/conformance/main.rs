//! Every scheme decides about `arrivals/` as recorded in `decisions/`. docs/internals/conformance.md describes both formats. `UPDATE_EXPECT=1` records the
//! decisions anew.

#[path = "../described/mod.rs"]
mod described;

use described::described;
use schemes::recordings::{Arrivals, Recording};
use schemes::{DECLARATIONS, ORDERS};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The recordings: the name, the name of the arrivals, and the scheme.
const RECORDED: &[(&str, &str, &str)] = &[
    ("fifo", "greedy", "fifo(limit=20)"),
    ("fifo-head", "greedy", "fifo(limit=20, drop=head)"),
    ("red", "greedy", "red(weight=2%)"),
    ("red-bytes", "mixed", "red(weight=5%, min=2, max=10, mode=bytes, ecn=on, gentle=off, seed=7)"),
    ("red-pauses", "pauses", "red(weight=20%, min=1, max=8, mean=1500b)"),
    ("codel", "greedy", "codel"),
    ("codel-2012", "greedy", "codel(again=acm2012, root=table)"),
    ("codel-2013", "greedy", "codel(again=sfqcodel, root=newton, ecn=on)"),
    ("pie", "greedy", "pie"),
    ("pie-marks", "greedy", "pie(ecn=on, ecn_max=100%, burst=30ms, target=5ms)"),
    ("blue", "greedy", "blue(limit=30, hold=20ms)"),
    ("blue-marks", "pauses", "blue(limit=8, hold=20ms, rise=20%, ecn=on)"),
    ("choke", "mixed", "choke(weight=5%, min=2, max=20)"),
    ("threshold", "mixed", "threshold(mark=5, limit=30)"),
    ("priority", "mixed", "priority(levels=3){fifo(limit=30)}"),
    ("fq", "mixed", "fq(flows=64, limit=120){codel(target=2ms, interval=20ms)}"),
    ("fq-new", "pauses", "fq(flows=64, quantum=300b){fifo}"),
    ("drr", "mixed", "drr(by=class, flows=4, weights=1:2:4, limit=120)"),
    ("sfq", "mixed", "sfq(flows=64){fifo(limit=12)}"),
    ("las", "mixed", "las(flows=64){codel(target=2ms, interval=20ms)}"),
    ("wfq", "mixed", "wfq(by=class, flows=4, weights=4:2:1){fifo(limit=40)}"),
    ("wf2q", "mixed", "wf2q(flows=64, limit=120)"),
    ("shape", "mixed", "shape(rate=4mbit, burst=3kb, cells=atm, overhead=8b){codel(target=10ms)}"),
    ("cake", "mixed", "cake(rate=5mbit, burst=3kb, flows=64, tins=four){codel(target=2ms, interval=20ms)}"),
    ("share", "mixed", "share(rate=4mbit, burst=3kb, leaves=4){fq(flows=64){codel(target=10ms)}}"),
    ("dfq", "mixed", "dfq(rate=4mbit, cycle=2ms, flows=4){codel(target=10ms)}"),
    (
        "tree",
        "mixed",
        "tree{branch(class=2, weight=3, ceiling=3mbit, burst=3kb){fq(flows=64)}, branch{fifo(limit=40)}}",
    ),
];

fn path(of: &str, name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/conformance").join(of).join(name.to_string() + ".txt")
}

fn text(of: &str, name: &str) -> String {
    let path = path(of, name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn arrivals(name: &str) -> Arrivals {
    Arrivals::read(&text("arrivals", name)).unwrap_or_else(|error| panic!("arrivals/{name}.txt: {error}"))
}

#[test]
fn every_scheme_decides_as_recorded() {
    for (name, source, scheme) in RECORDED {
        let arrivals = arrivals(source);
        let found = arrivals.play(&mut *described(scheme));
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            let (arrivals, scheme) = (source.to_string(), scheme.to_string());
            let recording = Recording { arrivals, scheme, decisions: found.clone() };
            std::fs::write(path("decisions", name), recording.write()).expect("recordings can be written");
        }
        let read = Recording::read(&text("decisions", name));
        let recording = read.unwrap_or_else(|error| panic!("decisions/{name}.txt: {error}"));
        assert_eq!(
            (&*recording.arrivals, &*recording.scheme),
            (*source, *scheme),
            "decisions/{name}.txt is of another"
        );
        if let Err(difference) = arrivals.compare(&recording.decisions, &found) {
            panic!("{scheme} does not decide as decisions/{name}.txt has it of arrivals/{source}.txt: {difference}");
        }
    }
}

#[test]
fn every_scheme_has_a_recording() {
    let declared = DECLARATIONS.iter().chain(ORDERS.iter().map(|order| &order.declaration));
    for declaration in declared {
        let is = |scheme: &str| scheme.split(['(', '{']).next() == Some(declaration.name);
        assert!(RECORDED.iter().any(|(_, _, scheme)| is(scheme)), "{} is not recorded", declaration.name);
    }
    let files = |of: &str| -> BTreeSet<String> {
        let entries = std::fs::read_dir(path(of, "any").parent().expect("it is in a directory")).expect("it is there");
        let stem = |path: PathBuf| path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        entries.map(|entry| stem(entry.expect("it can be listed").path())).collect()
    };
    assert_eq!(files("decisions"), RECORDED.iter().map(|(name, ..)| name.to_string()).collect());
    assert_eq!(files("arrivals"), RECORDED.iter().map(|(_, arrivals, _)| arrivals.to_string()).collect());
}

#[test]
fn recordings_cover_every_kind_of_decision() {
    for (sign, what) in [('+', "let in"), ('-', "refused"), ('!', "dropped"), ('*', "marked"), ('>', "sent")] {
        let often = |name: &str| text("decisions", name).lines().skip(3).map(|line| line.matches(sign).count()).sum();
        let all: usize = RECORDED.iter().map(|(name, ..)| -> usize { often(name) }).sum();
        assert!(all > 100, "{all} packets are {what}");
    }
}
