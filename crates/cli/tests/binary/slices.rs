//! `switchpath slice`: a slice from its creation to its end, as a user types it.

use crate::rig::{TestDirectory, config};

/// The port `wan` has a scheduler, and a path brings the packets to the slices.
pub fn sliced() -> String {
    let scheme = "scheme = \"share(rate=1gbit)\"\nshares = [\"engine rate 800mbit ceiling 800mbit\"]\n";
    let path = "[[path]]\nname = \"slices\"\nmatch = \"udp dport 20000-20999\"\nfunctions = [\"slice\"]\n";
    config("1000pps", path).replace("[port.wan]\n", &format!("[port.wan]\n{scheme}"))
}

#[test]
fn slice_commands_make_show_and_delete_a_slice() {
    let place = TestDirectory::new(10);
    let _router = place.write("run.toml", &sliced()).start();
    let run = |line: &str| place.run_ok(&["slice"].into_iter().chain(line.split(' ')).collect::<Vec<_>>());
    assert_eq!(run("list"), "no slices; 131072 entries for filters are free\n");
    assert_eq!(run("create overlay code ipv4 filters 100 rate 100mbit memory 1kb"), "1 change\n");
    run("reserve overlay wan/engine rate 100mbit");
    run("queue set overlay 1 wan/engine weight 3");
    let said = run("filter insert overlay 7 value 00 mask ff range 88 16 1 1000 exception local");
    assert_eq!(said, "1 change; the filters use 15 entries of the table\n");
    let filters = run("filter list overlay");
    assert!(filters.contains("value 00 mask ff range 88 16 1 1000 exception local"), "{filters}");
    assert!(filters.ends_with("1 of 1 filters\n"), "{filters}");
    let shown = run("list overlay");
    assert!(shown.contains("wan/engine") && shown.contains("15/100") && shown.contains("running"), "{shown}");
    run("mem write overlay 3 c0ffee");
    assert_eq!(run("mem read overlay 0 8"), "00000000  00 00 00 c0 ff ee 00 00\n");
    assert_eq!(place.json(&["slice", "list"])["slices"][0]["quota"]["memory_bytes"].as_u64(), Some(1024));
    assert_eq!(place.json(&["slice", "exc", "overlay"])["exceptions"].as_array().map(Vec::len), Some(0));
    run("suspend overlay");
    assert!(run("list").contains("suspended"));
    run("resume overlay");
    let said = place.run_failing(1, &["slice", "queue", "set", "overlay", "2", "lan"]);
    assert!(said.contains("command line:1:1: error: the slice has no part of port lan"), "{said}");
    assert_eq!(run("delete overlay"), "1 change\n");
}
