//! Runs the examples of ephemeral state, `examples/ephemeral`, with the kernel's own hosts, and checks the statements of their page
//! (docs/operate/ephemeral-examples.md).

use std::path::Path;
use std::process::Command;

/// Returns the output of an example; none if network namespaces are not available, which it prints.
#[expect(clippy::print_stderr, reason = "a test that had nothing to test says so")]
fn run(script: &str, arguments: &[&str]) -> Option<String> {
    if !rustix::process::getuid().is_root() || io::netns::probe().is_err() {
        eprintln!("skipped: network namespaces with names need root");
        return None;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ephemeral");
    let mut command = Command::new(folder.join(script));
    command.args(arguments).env("SWITCHPATH", env!("CARGO_BIN_EXE_switchpath")).env("NO_COLOR", "1");
    let output = command.output().expect("it can be started");
    let (told, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}: {}\n{told}{said}", output.status);
    Some(told.into_owned())
}

/// Returns the cells of the table after a line.
fn table<'a>(told: &'a str, behind: &str) -> Vec<Vec<&'a str>> {
    let lines = told.lines().skip_while(|line| !line.starts_with(behind)).skip(2);
    let rows = lines.map(|line| line.split_whitespace().collect::<Vec<&str>>());
    rows.take_while(|cells| {
        cells.first().is_some_and(|cell| cell.parse::<u8>().is_ok()) && cells.len() > 3 && cells[1] != "of"
    })
    .collect()
}

#[test]
fn ping_finds_executing_routers_and_branch_finds_divergence() {
    for carriage in ["udp", "ip"] {
        let Some(told) = run("paths.sh", &["--carriage", carriage]) else { return };
        assert_paths(&told);
    }
}

fn assert_paths(output: &str) {
    let cells =
        |rows: &[Vec<&str>], hop: usize| [rows[hop][1], rows[hop][3], rows[hop][4], rows[hop][5]].map(String::from);
    let way = table(output, "the way to receiver 1");
    assert_eq!(way.len(), 3, "{output}");
    assert_eq!(cells(&way, 0), ["10.1.0.1", "yes", "yes", "yes"], "{output}");
    assert_eq!(cells(&way, 1), ["10.1.1.2", "yes", "yes", "yes"], "{output}");
    assert_eq!(cells(&way, 2), ["10.2.1.2", "no", "no", "-"], "{output}");
    // Only the first router lets packets read its name.
    assert!(way[0][6].starts_with("0x") && way[1][6] == "-", "{output}");
    assert!(output.contains("2 of 2 routers are known to execute instructions; 10.2.1.2 is reached"), "{output}");
    let plain = table(output, "the way to receiver 5");
    assert_eq!(cells(&plain, 1), ["10.1.2.2", "no", "no", "no"], "{output}");
    assert!(output.contains("1 of 2 routers are known to execute instructions; 10.2.5.2 is reached"), "{output}");
    for parts in [
        "the paths diverge at 10.1.0.1: 10.2.1.2 10.2.2.2 | 10.2.5.2 | 10.2.8.2",
        "the paths diverge at 10.1.1.2: 10.2.1.2 | 10.2.2.2",
    ] {
        assert!(output.lines().any(|line| line == parts), "{parts}: {output}");
    }
    let ways = table(output, "the ways to receivers");
    let hop = |hop: &str| ways.iter().filter(|row| row[0] == hop).count();
    assert_eq!([hop("1"), hop("2"), hop("3")], [1, 3, 4], "{output}");
}

#[test]
fn ping_finds_executing_routers_over_ipv6() {
    let Some(told) = run("paths6.sh", &[]) else { return };
    let way = table(&told, "the way to receiver 1");
    let cells = |hop: usize| [way[hop][1], way[hop][3], way[hop][4], way[hop][5]].map(String::from);
    assert_eq!(way.len(), 3, "{told}");
    assert_eq!(cells(0), ["2001:db8:1::1", "yes", "yes", "yes"], "{told}");
    assert_eq!(cells(1), ["2001:db8:2::2", "yes", "no", "yes"], "{told}");
    assert_eq!(cells(2), ["2001:db8:3::2", "no", "no", "-"], "{told}");
    assert!(told.contains("2 of 2 routers are known to execute instructions; 2001:db8:3::2 is reached"), "{told}");
    let parts = "the paths diverge at 2001:db8:1::1: 2001:db8:3::2 | 2001:db8:4::2";
    assert!(told.lines().any(|line| line == parts), "{told}");
}

/// Returns the number of packets that each receiver got.
fn received(told: &str, behind: &str) -> Vec<u64> {
    let line = told.lines().find(|line| line.starts_with(behind)).unwrap_or_else(|| panic!("{behind}: {told}"));
    let (_, counts) = line.split_once("received: ").expect("it says so");
    counts
        .split(' ')
        .map(|count| count.split_once(':').and_then(|(_, count)| count.parse().ok()).expect("a number"))
        .collect()
}

/// Spec E-45 and E-X13.
#[test]
fn subcast_reaches_subscribers_only() {
    for (arguments, asked) in [(&[][..], [5, 5, 0, 0, 0, 0, 5, 0]), (&["single"], [5, 5, 5, 0, 0, 0, 5, 5])] {
        let Some(told) = run("subcast.sh", arguments) else { return };
        assert_eq!(received(&told, "sent to everybody"), [5; 8], "{told}");
        assert_eq!(received(&told, "sent to those who asked"), asked, "{told}");
    }
}

/// Spec E-46 and E-X14.
#[test]
fn group_size_of_a_hundred_receivers_needs_few_packets() {
    for (arguments, packets) in [(&[][..], 4), (&["0.05"], 26)] {
        let Some(told) = run("feedback.sh", arguments) else { return };
        for (question, result) in [("how many are there", 100), ("what does the worst of them lose", 47)] {
            let line = told.lines().find(|line| line.starts_with(question)).unwrap_or_else(|| panic!("{told}"));
            let (_, json) = line.split_once(": {").unwrap_or_else(|| panic!("{told}"));
            let json: serde_json::Value = serde_json::from_str(&format!("{{{json}")).expect("JSON");
            assert_eq!((&json["result"], &json["complete"]), (&result.into(), &true.into()), "{told}");
            assert!(json["packets"].as_u64().is_some_and(|came| came <= packets), "{told}");
        }
    }
}

/// Returns the most frequent number of layers of a receiver in the second half, and its loss in the lowest layer.
fn layers(told: &str, receiver: &str) -> (usize, f64) {
    let line = told.lines().find(|line| line.starts_with(receiver)).unwrap_or_else(|| panic!("{receiver}: {told}"));
    let (said, layers) = line.rsplit_once("by the second: ").expect("it says so");
    let mut layers: Vec<usize> = layers.split(' ').map(|layers| layers.parse().expect("a number")).collect();
    let mut later = layers.split_off(layers.len() / 2);
    later.sort_unstable();
    let lost = said.split_once("lost ").and_then(|(_, rest)| rest.split_once('%')?.0.parse().ok());
    (later[later.len() / 2], lost.expect("a part"))
}

/// Spec E-47: a slow branch drops layers, and the others keep them all.
#[test]
fn slow_branch_drops_its_highest_layers_only() {
    let Some(told) = run("layers.sh", &[]) else { return };
    for (receiver, had) in [("receiver 1", 4..=4), ("receiver 2", 4..=4), ("receiver 3", 1..=3), ("receiver 4", 1..=3)]
    {
        let (layers, lost) = layers(&told, receiver);
        assert!(had.contains(&layers), "{receiver}: {told}");
        assert!(lost <= 10.0, "{receiver}: {told}");
    }
    // Up to 200 ms of queued packets still arrive from the slow link. Unmarking takes half an epoch, 250 ms; expiry alone would take two epochs.
    let ended = told.lines().find_map(|line| line.strip_prefix("a layer ended at the slow branch "));
    let after = ended.and_then(|rest| rest.split_once(" ms")?.0.parse::<u64>().ok());
    assert!(after.is_some_and(|ms| ms <= 450), "{told}");
    let shed =
        told.lines().find_map(|line| line.strip_prefix("packets of layers that top let end at the slow branch: "));
    assert!(shed.and_then(|count| count.parse::<u64>().ok()).is_some_and(|count| count > 100), "{told}");
}
