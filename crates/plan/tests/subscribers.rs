//! Files of subscribers: our own table, and those of LibreQoS.

use expect_test::{Expect, expect};
use plan::subscribers::{
    OversubscribedSite, SubscriberPlan, SubscriberResult, exercise, shaped_devices, subscriber_file, to_share_changes,
};
use plan::{ShareName, ShareOrigin, ShareTree};
use proptest::prelude::*;
use std::fmt::Write;
use std::path::Path;
use units::Rate;

/// A plan as its downlink shares, with the uplink ceilings and guarantees, keys and titles behind them.
fn picture(plan: &SubscriberPlan) -> String {
    let shares = to_share_changes(plan);
    let mut out = String::new();
    for (at, down) in shares.down.iter().enumerate() {
        let up = shares.up[at].to_string();
        let up = up.split_once(" ceiling ").map_or("none", |(_, ceiling)| ceiling);
        let _ = write!(out, "{down} / {up}");
        if let Some(one) = at.checked_sub(plan.sites.len()).map(|at| &plan.subscribers[at]) {
            let guarantee = one.up.rate.map_or("none".to_string(), |rate| rate.to_string());
            let keys: Vec<String> = one.keys.iter().map(ToString::to_string).collect();
            let _ = write!(out, " guarantee {guarantee} | {} | {}", keys.join(", "), one.title);
        }
        out.push('\n');
    }
    out
}

fn check(result: SubscriberResult, expected: &Expect) {
    let plan = result.plan.as_ref().map(picture).unwrap_or_default();
    expected.assert_eq(&(plan + &result.diagnostics.to_string()));
}

/// The table and the network of a file of the corpus.
fn corpus(name: &str) -> (String, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/subscribers").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let (table, network) = text.split_once("\n--- network.json\n").unwrap_or((&text, ""));
    (table.to_string(), network.to_string())
}

#[test]
fn own_table_has_sites_circuits_and_keys() {
    let expected = expect![[r#"
        add North ceiling 1gbit / 1gbit
        add AP_A in North ceiling 300mbit / 100mbit
        add 10001 in AP_A rate 1mbit ceiling 155mbit / 20mbit guarantee 1mbit | 100.64.0.1/32, 2001:db8:100::/56 | Doe, Jane
        add 10002 in AP_A ceiling 50mbit / 10mbit guarantee none | 02:00:00:00:00:02 | Corner shop
        add 10003 in North rate 50mbit ceiling 100mbit / 100mbit guarantee 50mbit | VLAN 100.20, 203.0.113.0/29 | School
    "#]];
    check(subscriber_file(&corpus("tower.csv").0, "tower.csv"), &expected);
}

#[test]
fn small_table_needs_three_columns() {
    let expected = expect![[r#"
        add "a b" ceiling 10mbit / 1mbit guarantee none |  | 
        s.csv:2:2: warning: the circuit 'a b' has no address, MAC address or VLAN; give it one, or no packet belongs to it
    "#]];
    check(subscriber_file("circuit,down,up\r\n\"a b\",10mbit,1mbit\r\n", "s.csv"), &expected);
}

#[test]
fn errors_of_own_table_have_places_and_hints() {
    let table = "\
circuit,site,parent,address,mac,vlan,down,up,down_min,up_min,title
,S,T,,,,1gbit,1gbit,,,
,L,L2,,,,,,,,
,L2,L,,,,,,,,
,S,,,,,,,,,
,X,,192.0.2.1,,,1mbit,,1mbit,,
a,,S,192.0.2.300,,,10mbps,10,,,
b,,Q,192.0.2.1/24 192.0.2.9,02:00:00:00:00,4095,10mbit,1mbit,20mbit,,
c,,S,192.0.2.9 192.0.2.9,01:00:5e:00:00:01,1.2.3,10mbit,1mbit,,,
c,,L,,,,11mbit,1mbit,,,
d,,,,,,,1mbit,,,
e,S,,,,,1mbit,1mbit,,,
S,,,,,,1mbit,1mbit,,,
,,,,,,1mbit,1mbit,,,
f,,,,,,1mbit,1mbit,,,Doe, Jane
\"root\",,,,,,1mbit,2tbit,,,
";
    let expected = expect![[r#"
        bad.csv:2:4: error: there is no site 'T'; did you mean 'S'?
        bad.csv:3:2: error: the site 'L' is above itself; correct the parent of one of the sites in the circle
        bad.csv:5:2: error: there is another site 'S' in line 2; remove one of the two rows, or rename the site
        bad.csv:6:5: error: a site has no 'address'; leave the cell empty, or move it to the row of a circuit
        bad.csv:6:24: error: a site has no 'down_min'; leave the cell empty, or move it to the row of a circuit
        bad.csv:7:6: error: '192.0.2.300' is no address; write an address or a prefix, like 192.0.2.1 or 2001:db8::/32
        bad.csv:7:20: error: 'mbps' is no unit of rate; in tc 'bps' means bytes per second; say bits: '10mbit'
        bad.csv:7:27: error: '10' has no unit; use one of tbit, gbit, mbit, kbit, bit, like '10mbit'
        bad.csv:8:4: error: there is no site 'Q'; did you mean 'S'?
        bad.csv:8:6: error: 192.0.2.1/24 has bits set behind its length; write 192.0.2.0/24 for the network, or 192.0.2.1 for the address
        bad.csv:8:29: error: '02:00:00:00:00' is no MAC address; write it like '02:00:00:00:00:01'
        bad.csv:8:44: error: '4095' is no VLAN; write an id from 1 to 4094, like '100', or the outer and the inner one, like '100.20'
        bad.csv:8:62: error: the guarantee 20mbit is above the rate of the plan, 10mbit; write at most 10mbit
        bad.csv:9:6: error: 192.0.2.9/32 belongs to the circuit 'b' too, of line 8; remove it from one of the circuits
        bad.csv:9:16: error: 192.0.2.9/32 belongs to the circuit 'b' too, of line 8; remove it from one of the circuits
        bad.csv:9:26: error: 01:00:5e:00:00:01 is the address of no host; write that of the device
        bad.csv:9:44: error: '1.2.3' is no VLAN; write an id from 1 to 4094, like '100', or the outer and the inner one, like '100.20'
        bad.csv:10:4: error: the circuit 'c' has another parent in line 9; give all rows of a circuit the same parent, or rename one of the circuits
        bad.csv:10:9: error: the circuit 'c' has other rates in line 9; give all rows of a circuit the same rates, or rename one of the circuits
        bad.csv:11:1: warning: the circuit 'd' has no address, MAC address or VLAN; give it one, or no packet belongs to it
        bad.csv:11:8: error: the circuit has no rate in the column 'down'; write the rate of its plan, like '100mbit'
        bad.csv:12:1: error: the row has a circuit and a site; write two rows, the circuit with the site as its parent
        bad.csv:13:1: error: 'S' is the name of a site and of a circuit; rename one of the two: they are shares of one port
        bad.csv:13:1: warning: the circuit 'S' has no address, MAC address or VLAN; give it one, or no packet belongs to it
        bad.csv:14:1: error: the row has neither a circuit nor a site; write the name of a circuit, or of a site in the column 'site'
        bad.csv:15:27: error: the row has more cells than the header; write a cell with a comma in quotes, like "Doe, Jane"
        bad.csv:16:2: error: no circuit can have this name: 'root' is the port itself, and no share; use another name
    "#]];
    check(subscriber_file(table, "bad.csv"), &expected);
}

#[test]
fn wrong_headers_are_refused() {
    for (text, wanted) in [
        ("", "f:1:1: error: the table is empty; the first line has the names of the columns"),
        ("circuit,down\na,1mbit", "f:1:1: error: the column 'up' is missing"),
        ("circuit,down,up,adress", "f:1:17: error: there is no column 'adress'; did you mean 'address'?"),
        ("circuit,down,up,circuit", "f:1:17: error: there are two columns 'circuit'"),
        ("circuit;down;up", "f:1:1: error: the columns are not separated by commas"),
        ("Circuit ID,Circuit Name", "f:1:1: error: this is a table of LibreQoS; name the file in shaped_devices"),
    ] {
        let found = subscriber_file(text, "f").into_result().expect_err(text).to_string();
        assert!(found.contains(wanted), "{text:?}: {found}");
    }
    for (text, wanted) in [
        ("", "f:1:1: error: the table is empty"),
        ("circuit,down,up\n", "f:1:1: error: the columns Circuit ID, IPv4, Download Min Mbps"),
        ("Circuit ID;IPv4", "save the table with commas between its columns"),
    ] {
        let found = shaped_devices((text, "f"), None).into_result().expect_err(text).to_string();
        assert!(found.contains(wanted), "{text:?}: {found}");
    }
}

#[test]
fn files_of_libreqos_are_read_as_they_are() {
    let (table, network) = corpus("shaped.csv");
    let expected = expect![[r#"
        add Hill ceiling 1gbit / 1gbit
        add Roof ceiling 5mbit / 5mbit
        add Mast in Hill ceiling 200500kbit / 100mbit
        add Mill in Hill / 60mbit
        add 101 in Mast rate 1mbit ceiling 155mbit / 20mbit guarantee 1mbit | 100.64.1.1/32, 100.64.1.2/32, 2001:db8:1:100::/56 | 1 Hill Road, Springfield
        add 102 in Mast rate 500kbit ceiling 2500kbit / 1mbit guarantee 500kbit | 100.64.1.3/32 | 2 Hill Road
        add 103 in Mill rate 25500kbit ceiling 100500kbit / 50250kbit guarantee 12500kbit | 100.64.1.4/32, 100.64.1.5/32, 2001:db8:1:300::/56, 2001:db8:1:400::/56 | Mill
        add 105 in Roof rate 5mbit ceiling 300mbit / 300mbit guarantee 5mbit | 100.64.2.0/24 | Farm
        add 106 rate 10mbit ceiling 60mbit / 20mbit guarantee 5mbit |  | Dialler
        add 107 rate 1mbit ceiling 20mbit / 20mbit guarantee 1mbit | 02:00:00:00:00:07 | Barn
        network.json:15:51: warning: the guarantees below 'Roof' add up to 10mbit down, more than its 5mbit: they are reduced to 50%; give lower guarantees, or the site more bandwidth
        network.json:15:51: warning: the guarantees below 'Roof' add up to 10mbit up, more than its 5mbit: they are reduced to 50%; give lower guarantees, or the site more bandwidth
        ShapedDevices.csv:3:93: warning: the column 'sqm' has no effect: the port's scheme manages the queues of all circuits; write that scheme: scheme = "share{fq{codel}}"
        ShapedDevices.csv:7:1: warning: the row has two cells fewer than the header, and is read without 'Parent Node ID' and 'Anchor Node ID'; more rows like it are not reported; add two empty cells behind 'Parent Node'
        ShapedDevices.csv:8:1: warning: the circuit '106' has no address, MAC address or VLAN; give it one, or no packet belongs to it
    "#]];
    check(shaped_devices((&table, "ShapedDevices.csv"), Some((&network, "network.json"))), &expected);
    let flat = shaped_devices((&table, "ShapedDevices.csv"), Some(("{}", "network.json")));
    let warnings: Vec<String> =
        flat.diagnostics.warnings().map(|warning| format!("{}:{}", warning.line, warning.reason)).collect();
    assert!(warnings.iter().any(|text| text.starts_with("2:the network has no nodes")), "{warnings:?}");
    let plan = flat.plan.expect("a flat network is valid");
    assert!(plan.sites.is_empty() && plan.subscribers.iter().all(|one| one.parent.is_none()));
    let expected = expect![[r#"
        add 1 rate 1mbit ceiling 25mbit / 10mbit guarantee 1mbit | 192.0.2.1/32 | Thirteen columns
    "#]];
    check(shaped_devices((&corpus("old.csv").0, "old.csv"), None), &expected);
}

#[test]
fn errors_of_libreqos_files_name_their_file() {
    let table = "\
Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment
1,One,1,D,AP,,100.64.0.1,,1,1,25,10,
2,Two,2,D,AQ,,100.64.0.1,,1,1,25,10,
1,One,3,D,AP,,100.64.0.2,,1,1,26,10,
3,Three,4,D,AP,,100.64.0.3,,30,1,25,x,
4,Four,5,D,L8,,100.64.0.4,2001:db8::1/56,1,1,0,10,
,None,5,D,AP,,100.64.0.5,,1,1,2,10,
AP,Name,6,D,AP,,100.64.0.6,,1,1,2,10,
";
    let mut network = "{\n \"AP\": {\"downloadBandwidthMbps\": 10, \"uploadBandwidthMbps\": -1},\n".to_string();
    for level in 2..=9 {
        let _ = writeln!(network, " \"L{level}\": {{\"children\": {{");
    }
    network.push_str(&"}}".repeat(8));
    network.push('}');
    let expected = expect![[r#"
        n.json:10:2: error: 'L9' is on level 9, with the port as level 1; use at most 8 levels: leave out a site, or mark it as virtual in network.json
        S.csv:3:15: error: 100.64.0.1/32 belongs to the circuit '1' too, of line 2; remove it from one of the circuits
        S.csv:4:31: error: the circuit '1' has other rates in line 2; give all rows of a circuit the same rates, or rename one of the circuits
        S.csv:5:29: error: the minimum 30mbit is above the maximum 25mbit; write at most the number in 'Download Max Mbps'
        S.csv:5:37: error: 'Upload Max Mbps': 'x' is no number; write megabits a second, like 100 or 2.5
        S.csv:6:12: error: '4' is on level 9, with the port as level 1; use at most 8 levels: leave out a site, or mark it as virtual in network.json
        S.csv:6:27: error: 2001:db8::1/56 has bits set behind its length; write 2001:db8::/56 for the network, or 2001:db8::1 for the address
        S.csv:6:46: error: 'Download Max Mbps' is not above zero; write the rate of the plan in megabits a second
        S.csv:7:1: error: no circuit can have this name: the name is empty; write 1 to 63 bytes, like 'gold'
        S.csv:8:1: error: 'AP' is the name of a site and of a circuit; rename one of the two: they are shares of one port
    "#]];
    check(shaped_devices((table, "S.csv"), Some((&network, "n.json"))), &expected);
    let good =
        "Circuit ID,IPv4,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps\n1,100.64.0.1,1,1,2,2\n";
    for (network, wanted) in [
        ("[1]", "n.json:1:1: error: invalid type: sequence, expected an object"),
        ("{\n\"a\": {\n}", "n.json:3:1: error: EOF while parsing an object; the file is JSON"),
        ("{\"a\": 5}", "n.json:1:7: error: the node 'a' is no object"),
        (
            "{\"a\": {},\n \"b\": {\"children\": {\"a\": {}}}}",
            "n.json:2:21: error: there is another node 'a' in line 1",
        ),
        ("{\"a\": {\"uploadBandwidthMbps\": \"fast\"}}", "n.json:1:31: error: 'fast' is no number"),
        ("{\"a\": {\"uploadBandwidthMbps\": 1e7}}", "n.json:1:31: error: 10000000 Mbit/s is out of range"),
        ("{\"\": {}}", "n.json:1:2: error: no site can have this name: the name is empty"),
        ("{\"a\": {\"children\": []}}", "n.json:1:20: error: invalid type: sequence"),
    ] {
        let found =
            shaped_devices((good, "S.csv"), Some((network, "n.json"))).into_result().expect_err(network).to_string();
        assert!(found.contains(wanted), "{network:?}: {found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
    let deep = format!("{}{{}}{}", "{\"a\": {\"children\": ".repeat(100_000), "}}".repeat(100_000));
    assert!(shaped_devices((good, "S.csv"), Some((&deep, "n.json"))).plan.is_none());
}

#[test]
fn guarantees_are_reduced_to_the_bandwidth_in_proportion() {
    let table = "\
site,circuit,parent,address,down,up,down_min,up_min
S,,,,90mbit,,,
T,,S,,40mbit,,,
,a,T,192.0.2.1,100mbit,1mbit,60mbit,
,b,T,192.0.2.2,100mbit,1mbit,20mbit,1mbit
,c,S,192.0.2.3,100mbit,1mbit,80mbit,
,d,,192.0.2.4,100mbit,1mbit,10mbit,
";
    let expected = expect![[r#"
        add S ceiling 90mbit / none
        add T in S ceiling 40mbit / none
        add a in T rate 22500kbit ceiling 100mbit / 1mbit guarantee none | 192.0.2.1/32 | 
        add b in T rate 7500kbit ceiling 100mbit / 1mbit guarantee 1mbit | 192.0.2.2/32 | 
        add c in S rate 60mbit ceiling 100mbit / 1mbit guarantee none | 192.0.2.3/32 | 
        add d rate 10mbit ceiling 100mbit / 1mbit guarantee none | 192.0.2.4/32 | 
        t.csv:2:1: warning: the guarantees below 'S' add up to 120mbit down, more than its 90mbit: they are reduced to 75%; give lower guarantees, or the site more bandwidth
        t.csv:3:1: warning: the guarantees below 'T' add up to 80mbit down, more than its 40mbit: they are reduced to 50%; give lower guarantees, or the site more bandwidth
    "#]];
    check(subscriber_file(table, "t.csv"), &expected);
    let mut plan = subscriber_file(table, "t.csv").plan.unwrap();
    assert_eq!(plan.reduce_guarantees(Some(Rate::mbit(100)), None), [], "90mbit and 10mbit fit");
    let port = OversubscribedSite { site: None, is_down: true, guaranteed: Rate::mbit(100), bandwidth: Rate::mbit(50) };
    // The guarantees of a, b and c were rounded down.
    let reduced = plan.reduce_guarantees(Some(Rate::mbit(50)), Some(Rate::mbit(1)));
    assert!(reduced.len() == 1 && (port.guaranteed.get() - reduced[0].guaranteed.get()) < 3, "{reduced:?}");
    assert_eq!(OversubscribedSite { guaranteed: port.guaranteed, ..reduced[0].clone() }, port);
    let mut tree = ShareTree::new(Some(Rate::mbit(50)));
    tree.apply_all(&to_share_changes(&plan).down, ShareOrigin::Subscribers).expect("the guarantees fit");
    assert!(tree.guaranteed().get() > 49_999_990, "{}", tree.guaranteed());
}

#[test]
fn corpus_of_subscriber_files_is_read_or_refused_with_positions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/subscribers");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let read: usize = files.iter().map(|file| exercise(&std::fs::read_to_string(file).unwrap())).sum();
    assert_eq!((files.len(), read), (5, 10));
}

/// Parts of tables, to be inserted in wrong places.
const PIECES: [&str; 22] = [
    ",",
    "\"",
    "\n",
    "\r",
    "#",
    "{",
    "}",
    ":",
    ".",
    "/",
    " ",
    "0",
    "1e9",
    "-",
    "\u{feff}",
    "é",
    "\u{1b}",
    "root",
    "10001",
    "AP_A",
    "\\u00e9",
    "\n--- network.json\n",
];

fn mutated() -> impl Strategy<Value = String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/subscribers");
    let files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let edit = (any::<prop::sample::Index>(), 0usize..12, prop::sample::select(PIECES.to_vec()), 0u8..3);
    (prop::sample::select(files), prop::collection::vec(edit, 1..6)).prop_map(|(mut text, edits)| {
        for (place, length, piece, kind) in edits {
            let at = text.floor_char_boundary(place.index(text.len() + 1));
            let end = text.floor_char_boundary((at + length).min(text.len())).max(at);
            match kind {
                0 => text.replace_range(at..end, ""),
                1 => text.insert_str(at, piece),
                _ => text.replace_range(at..end, piece),
            }
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn mutated_files_never_panic(text in mutated()) {
        exercise(&text);
    }

    #[test]
    fn reduced_guarantees_fit_every_site(
        bandwidths in prop::collection::vec((0usize..8, prop::option::of(1u64..50)), 1..8),
        circuits in prop::collection::vec((0usize..9, 1u64..30), 1..30),
        port in prop::option::of(1u64..100),
    ) {
        let mut table = "site,circuit,parent,address,down,up,down_min\n".to_string();
        for (site, (parent, bandwidth)) in bandwidths.iter().enumerate() {
            let parent = if *parent < site { format!("s{parent}") } else { String::new() };
            let bandwidth = bandwidth.map_or(String::new(), |rate| format!("{rate}mbit"));
            let _ = writeln!(table, "s{site},,{parent},,{bandwidth},,");
        }
        for (circuit, (parent, rate)) in circuits.iter().enumerate() {
            let parent = if *parent < bandwidths.len() { format!("s{parent}") } else { String::new() };
            let _ = writeln!(table, ",c{circuit},{parent},192.0.2.{circuit},1gbit,1gbit,{rate}mbit");
        }
        // Eight sites may be too deep.
        let Some(mut plan) = subscriber_file(&table, "f").plan else { return Ok(()) };
        let port = port.map(Rate::mbit);
        plan.reduce_guarantees(port, None);
        let mut tree = ShareTree::new(port);
        let applied = tree.apply_all(&to_share_changes(&plan).down, ShareOrigin::Subscribers);
        prop_assert_eq!(applied, Ok(()), "{}", table);
        for (circuit, (_, rate)) in circuits.iter().enumerate() {
            let share = tree.get(&format!("c{circuit}")).expect("each circuit has a share");
            prop_assert!(share.guarantee <= Rate::mbit(*rate));
        }
    }
}

#[test]
fn large_files_are_read() {
    let count = std::env::var("SWITCHPATH_FRAMES").map_or(100_000, |n| n.parse().expect("a number of frames"));
    let count = (count / 5u32).clamp(20_000, 100_000);
    let mut table =
        "Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,Parent Node ID,Anchor Node ID,MAC,IPv4,IPv6,\
                     Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment\n"
            .to_string();
    let mut network = "{".to_string();
    for site in 0..count / 50 {
        let comma = if site == 0 { "" } else { "," };
        let _ =
            write!(network, "{comma}\"AP{site}\": {{\"downloadBandwidthMbps\": 500, \"uploadBandwidthMbps\": 500}}");
    }
    network.push('}');
    for circuit in 0..count {
        let (a, b, c) = (64 + (circuit >> 16), (circuit >> 8) & 255, circuit & 255);
        let _ = writeln!(
            table,
            "{circuit},\"{circuit} Hill Road, Springfield\",{circuit},Router,AP{},,,,\"100.{a}.{b}.{c}\",2001:db8:{a:x}:{:x}::/64,1,1,155.5,20,",
            circuit % (count / 50),
            circuit & 0xffff,
        );
    }
    let plan = shaped_devices((&table, "S.csv"), Some((&network, "n.json"))).into_result().unwrap();
    assert_eq!(plan.subscribers.len() as u32, count);
    let shares = to_share_changes(&plan);
    assert_eq!(shares.circuits.len() as u32, 2 * count);
    assert_eq!(shares.circuits[0].1, ShareName::new("0").unwrap());
    let wrong = table.replace(",1,1,155.5,", ",200,x,155.5,").replace("AP", "AQ");
    let errors = shaped_devices((&wrong, "S.csv"), Some((&network, "n.json"))).into_result().unwrap_err();
    assert!(errors.omitted() > 0);
}
