use super::run;
use crate::Measurements;

fn of(text: &str) -> Measurements {
    run(text, "trial.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn get(measured: &Measurements, name: &str) -> f64 {
    measured.get(name).unwrap_or_else(|| panic!("no {name} in {measured}"))
}

fn near(a: f64, b: f64, part: f64) -> bool {
    (a - b).abs() <= part * b
}

fn engine(more: &str) -> Measurements {
    of(&format!(
        "kind = 'engine'\nclock = 233000000\naccess = 125\n\
         create = {{ cycles = 350, accesses = 6 }}\nfind = {{ cycles = 266, accesses = 5 }}\n\
         clean = {{ cycles = 82, accesses = 1 }}\nlifetime = '20ms'\nduration = '60ms'\nwarmup = '24ms'\n\
         capacity = 20000\nseed = 1\nline = '148800pps'\n{more}"
    ))
}

/// One worker is slower than the arrivals. Without a bound, the ten million packets of EX11 would queue up in 2 GB.
#[test]
fn packets_waiting_for_worker_are_bounded() {
    let measured =
        of("kind = 'workers'\nworkers = 8\ncomputations = 200\npackets = 20000\ndispatch = 'computation'\nseed = 1\n");
    assert!(get(&measured, "waited") <= 4096.0, "{measured}");
    assert_eq!(get(&measured, "differ"), 0.0);
}

/// With one thread nothing overlaps: an instruction takes its cycles plus its memory accesses, and the rate follows from that.
#[test]
fn one_thread_runs_at_instruction_cost() {
    let measured = engine("lines = 4\nthreads = 1\ncleaner = 'none'\nnew = 0\n");
    assert!(near(get(&measured, "cycles"), 266.0 + 5.0 * 125.0, 0.02), "{measured}");
    assert!(near(get(&measured, "memory_cycles"), 5.0 * 125.0, 0.03), "{measured}");
    assert!(near(get(&measured, "executed_pps"), 233e6 / get(&measured, "cycles"), 0.01), "{measured}");
    assert_eq!(get(&measured, "aborted"), 0.0);
}

/// The machine repairman model: one processor for ready threads, and memory for all at once. So two threads do less than twice the work of one. No
/// number of threads does more than the processor can do alone.
#[test]
fn threads_hide_memory_latency() {
    let rate = |threads: usize| {
        let measured = engine(&format!("lines = 8\nthreads = {threads}\ncleaner = 'none'\nnew = 50\n"));
        get(&measured, "executed_pps")
    };
    let rates: Vec<f64> = (1..=4).map(rate).collect();
    let gains: Vec<f64> = rates.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(rates[1] < 2.0 * rates[0] && rates[1] > 1.6 * rates[0], "{rates:?}");
    assert!(gains.windows(2).all(|pair| pair[1] < pair[0]), "{rates:?}");
    assert!(rates[3] < 233e6 / 308.0, "{rates:?}");
}

/// All created entries are cleaned, at the same rate after the first lifetime. No more packets leave than arrive.
#[test]
fn cleaner_keeps_up_with_arrivals() {
    for cleaner in ["threads = 3\ncleaner = 'apart'", "threads = 3\ncleaner = 'assists'"] {
        let measured = engine(&format!("lines = 4\n{cleaner}\nnew = 50\n"));
        assert!(near(get(&measured, "cleaned_pps"), get(&measured, "created_pps"), 0.1), "{measured}");
        assert!(get(&measured, "executed_pps") <= get(&measured, "offered_pps"), "{measured}");
        assert_eq!(get(&measured, "aborted"), 0.0, "{measured}");
    }
}

/// All packets of a computation are in one queue, and one thread at a time works on it.
#[test]
fn one_computation_runs_on_one_thread() {
    let of = |one: bool| {
        let more =
            format!("lines = 8\nthreads = 3\ncleaner = 'none'\nnew = 0\ntags = 'one'\none_computation = {one}\n");
        get(&engine(&more), "executed_pps")
    };
    assert!(near(of(true), 233e6 / 891.0, 0.03), "{}", of(true));
    assert!(of(false) > 2.0 * of(true));
}

#[test]
fn store_overflows_only_below_bound() {
    let of = |capacity: u64, cleaning: &str| {
        of(&format!(
            "kind = 'store'\nrate = '10kpps'\ncreates = 2\ncapacity = {capacity}\nlifetime = '200ms'\nduration = '1s'\n\
             cleaning = '{cleaning}'\n"
        ))
    };
    for cleaning in ["inline", "assist"] {
        let (enough, less) = (of(4000, cleaning), of(3800, cleaning));
        assert_eq!((get(&enough, "aborted"), get(&enough, "executed")), (0.0, 10_000.0), "{enough}");
        assert!(near(get(&less, "executed_pps"), 9500.0, 0.01), "{less}");
        assert_eq!(get(&less, "late"), 0.0, "{less}");
    }
}

#[test]
fn address_dispatch_changes_results() {
    let of = |dispatch: &str, seed: u64| {
        let measured = of(&format!(
            "kind = 'workers'\nworkers = 4\ncomputations = 20\npackets = 4000\ndispatch = '{dispatch}'\nseed = {seed}\n"
        ));
        assert_eq!(get(&measured, "computations"), 20.0);
        assert!(get(&measured, "aborted") > 0.0 && get(&measured, "dropped") > 0.0, "{measured}");
        get(&measured, "differ")
    };
    assert_eq!([of("computation", 1), of("computation", 2)], [0.0, 0.0]);
    assert_eq!(of("addresses", 1), 20.0);
}

#[test]
fn cleaner_frees_no_entry_in_use() {
    let living = |lifetime: &str, grace: &str, busy: bool| {
        of(&format!(
            "kind = 'cleaner'\nworkers = 3\ncapacity = 64\ngrace = '{grace}'\nbusy = {busy}\nlifetime = '{lifetime}'\nlifetimes = 60\nseed = 1\n"
        ))
    };
    let of = |grace: &str, busy: bool| living("1s", grace, busy);
    for (grace, busy) in [("counters", false), ("counters", true), ("bits", false)] {
        let measured = of(grace, busy);
        assert_eq!(get(&measured, "violations"), 0.0, "{grace} {busy}: {measured}");
        assert!(get(&measured, "freed") > 100.0 && get(&measured, "left") == 0.0, "{grace} {busy}: {measured}");
    }
    assert!(get(&of("counters", true), "freed_late") < 1.0);
    let pinned = of("bits", true);
    assert_eq!(get(&pinned, "freed"), 0.0, "{pinned}");
    assert!(get(&pinned, "full") > 0.0, "{pinned}");
    // Thirty hours, in which ticks wrap around twice. Dead entries never become alive again, neither with a working cleaner nor with a blocked one.
    let (cleaned, pinned) = (living("1800s", "counters", true), living("1800s", "bits", true));
    for measured in [&cleaned, &pinned] {
        assert_eq!((get(measured, "violations"), get(measured, "left")), (0.0, 0.0), "{measured}");
    }
    assert!(get(&cleaned, "freed_late") < 1.0 && get(&pinned, "freed") == 0.0, "{cleaned} {pinned}");
}

#[test]
fn subcast_reaches_only_marked_branches() {
    let of = |single: bool| {
        of(&format!(
            "kind = 'subcast'\nreceivers = [3, 3, 2]\nmarked = [1, 2, 4]\nsingle_store = {single}\npackets = 3\n"
        ))
    };
    let copies = |measured: &Measurements| (1..=8).map(|n| get(measured, &format!("copies.{n}"))).collect::<Vec<f64>>();
    assert_eq!(copies(&of(false)), [3.0, 3.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(copies(&of(true)), [3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 0.0, 0.0]);
    assert_eq!(get(&of(false), "nodes"), 13.0);
}

#[test]
fn group_count_is_exact_without_loss_or_with_rounds() {
    let of = |by: &str, asked: &str, lost: u32| {
        of(&format!(
            "kind = 'group'\nmembers = 100\nchildren = 8\nlost = {lost}\nasked = '{asked}'\nby = '{by}'\ntries = 12\n\
             delay = '50ms'\nlifetime = '10s'\nseed = 1\n"
        ))
    };
    for (by, lost) in [("collect", 0), ("rcollect", 0), ("rcollect", 50_000)] {
        for asked in ["size", "max"] {
            let measured = of(by, asked, lost);
            assert_eq!(get(&measured, "result"), get(&measured, "expected"), "{by} {asked} {lost}: {measured}");
        }
    }
    let lossy = of("collect", "size", 50_000);
    assert_ne!(get(&lossy, "result"), get(&lossy, "expected"), "{lossy}");
    assert_eq!(get(&of("collect", "size", 0), "root_in_all"), 2.0, "one to set up, one with the result");
}

#[test]
fn entry_expires_after_one_lifetime() {
    let measured = of(
        "kind = 'lifetime'\nlifetime = '10s'\nlooks = [900, 990, 1000, 1100]\nwrites = 900\nentries = 20\nseed = 1\n",
    );
    let present = [900, 990, 1000, 1100].map(|age| get(&measured, &format!("present.{age}")));
    assert_eq!(present, [1.0, 1.0, 0.0, 0.0]);
    assert_eq!(get(&measured, "anew"), 1.0);
    assert!(
        get(&measured, "lived_max_us") <= 10e6 + 1.0 && get(&measured, "lived_min_us") >= 10e6 - 30.0,
        "{measured}"
    );
}

#[test]
fn instructions_look_up_named_tags() {
    let measured = of("kind = 'touches'\n");
    let tags =
        ["nop", "count", "compare", "collect", "rchld", "rcollect"].map(|n| get(&measured, &format!("input.{n}.tags")));
    assert_eq!(tags, [0.0, 1.0, 1.0, 2.0, 2.0, 3.0]);
    assert_eq!(get(&measured, "collect.aborted") + get(&measured, "rcollect.aborted"), 0.0);
}

#[test]
fn an_impossible_trial_is_an_error_that_names_the_file() {
    for (text, why) in [
        ("kind = 'oven'", "unknown variant `oven`"),
        ("kind = 'touches'\nx = 1", "unknown field `x`"),
        ("kind = 'store'\nrate = '10'", "'10' has no unit"),
        ("kind = 'subcast'\nreceivers = []\nmarked = []\nsingle_store = true\npackets = 1", "a tree has"),
    ] {
        let error = run(text, "trial.toml").unwrap_err();
        assert!(error.starts_with("trial.toml: ") && error.contains(why), "{error}");
    }
}
