//! Packet filters and translation in a configuration, and their errors.

use crate::catalogue::catalogue;

const PORTS: &str = r#"
version = 1
[port.lan]
device = "memory:a"
address = ["192.168.1.1/24"]
[port.wan]
device = "memory:b"
address = ["203.0.113.1/24"]
[port.bare]
device = "memory:c"
"#;

/// The reasons of all errors and warnings.
fn said(rest: &str) -> Vec<String> {
    let checked = plan::examine(&format!("{PORTS}{rest}"), "f.toml", &catalogue());
    let list = checked.diagnostics.list().iter();
    list.map(|d| format!("{}: {}", d.path, d.reason)).collect()
}

const TRANSLATED: &str = "[[path]]\nname = \"home\"\nmatch = \"any\"\nfunctions = [\"nat\", \"ip\"]\n";

#[test]
fn translation_is_parsed_with_its_defaults() {
    let text =
        format!("{PORTS}{TRANSLATED}[nat]\noutside = \"wan\"\nforward = [\"udp 53 to 192.168.1.9\"]\nudp = \"120s\"\n");
    let plan = plan::check(&text, "f.toml", &catalogue()).unwrap();
    let nat = plan.nat.as_ref().unwrap();
    assert_eq!(
        nat.to_string(),
        "outside wan connections 65536 per_host 8064 ports 1024-65535 endpoint_independent_filtering false tcp_opening 240s tcp 7440s tcp_closing 240s udp 120s \
         icmp 60s forward udp 53 to 192.168.1.9:53"
    );
    let without =
        plan::check(&format!("{PORTS}{TRANSLATED}").replace("\"nat\", ", ""), "f.toml", &catalogue()).unwrap();
    let changes: Vec<String> = plan::diff(&without, &plan).iter().map(ToString::to_string).collect();
    assert!(changes.iter().any(|change| change.starts_with("~ nat: rules none -> outside wan")), "{changes:?}");
}

#[test]
fn translation_errors_are_reported() {
    let nat = |keys: &str| said(&format!("{TRANSLATED}[nat]\n{keys}\n"));
    assert_eq!(nat("outside = \"wan\""), [""; 0]);
    for (keys, reason) in [
        ("outside = \"wna\"", "nat.outside: "),
        ("outside = \"bare\"", "nat.outside: 'bare' has no IPv4 address"),
        ("outside = \"wan\"\nports = \"80\"", "nat.ports: '80' is no range of ports"),
        ("outside = \"wan\"\nudp = \"0s\"", "nat.udp: 0ns is out of range"),
        ("outside = \"wan\"\nforward = [\"tcp 80 to lan\"]", "nat.forward[0]: 'lan' is no IPv4 address"),
        (
            "outside = \"wan\"\nforward = [\"tcp 80 to 192.168.1.9\", \"tcp 80 to 192.168.1.8\"]",
            "nat.forward[1]: there is 'tcp 80 to 192.168.1.9:80' already",
        ),
        ("outside = \"wan\"\nconnections = 1", "nat.connections: "),
        ("outside = \"wan\"\nper_host = 0", "nat.per_host: "),
        (
            "outside = \"wan\"\nconnections = 100\nper_host = 100",
            "nat.per_host: with 100 connections one host leaves none for the others",
        ),
        (
            "outside = \"wan\"\nports = \"2000-2099\"\nper_host = 200",
            "nat.per_host: with 200 connections one host leaves none for the others",
        ),
    ] {
        let said = nat(keys);
        assert!(said.len() == 1 && said[0].starts_with(reason), "{keys}: {said:?}");
    }
    assert_eq!(said(TRANSLATED), ["path: path 'home' has the function 'nat', but there is no [nat]"]);
    assert_eq!(said("[nat]\noutside = \"wan\"\n"), ["nat: no path has the function 'nat', so nothing is translated"]);
}

/// Every kind of match before the path that translates. A warning names those whose packets would be translated there, and the consequence. The
/// others get none.
#[test]
fn path_ahead_of_translation_gets_a_warning_at_its_match() {
    const OUT: &str = "leave with the addresses of inside hosts";
    const BACK: &str = "end at the router";
    for (matching, what) in [
        ("udp dport 5060", Some(OUT)),
        ("iif lan", Some(OUT)),
        ("iif lan tcp", Some(OUT)),
        ("ip saddr 192.168.1.0/24", Some(OUT)),
        ("ip saddr 192.168.1.7", Some(OUT)),
        ("ip saddr 10.0.0.0/8", Some(OUT)),
        ("ip daddr 198.51.100.0/24", Some(OUT)),
        ("ip dscp ef", Some(OUT)),
        ("iif wan", Some(BACK)),
        ("iif wan ip daddr 203.0.113.1", Some(BACK)),
        ("ip6 saddr 2001:db8::/64", None),
        ("ip daddr 192.168.1.7", None),
        ("ip daddr 192.168.1.0/24", None),
        ("ip daddr 239.0.0.0/8", None),
        ("ip saddr 198.51.100.0/24 ip daddr 192.168.1.0/24", None),
        ("iif wan ip daddr 192.168.1.0/24", None),
        ("iif lan ip daddr 192.168.1.1", None),
    ] {
        let ahead = format!("[[path]]\nname = \"fast\"\nmatch = \"{matching}\"\n");
        let nat = "[nat]\noutside = \"wan\"\n";
        let first = said(&format!("{ahead}{TRANSLATED}{nat}"));
        match what {
            Some(what) => {
                let named = first.len() == 1 && first[0].starts_with("path[0].match: 'fast' does not translate");
                assert!(named && first[0].contains(what), "{matching}: {first:?}");
            }
            None => assert_eq!(first, [""; 0], "{matching}"),
        }
        let translating = ahead.clone() + "functions = [\"nat\", \"ip\"]\n";
        assert_eq!(said(&format!("{translating}{TRANSLATED}{nat}")), [""; 0], "{matching}, translated");
        let narrow = TRANSLATED.replace("\"any\"", "\"iif lan\"");
        let behind: Vec<String> = said(&format!("{narrow}{ahead}{nat}"));
        assert!(behind.iter().all(|said| !said.contains("does not translate")), "{matching}, behind: {behind:?}");
    }
}

#[test]
fn filter_error_marks_its_position() {
    let path = |keys: &str| said(&format!("[[path]]\nname = \"p\"\nmatch = \"any\"\n{keys}\n"));
    assert_eq!(path("functions = [\"filter\", \"ip\"]\nfilter = [\"tcp dport 22 accept\", \"drop\"]"), [""; 0]);
    for (keys, reason) in [
        ("functions = [\"filter\", \"ip\"]", "path[0]: the function 'filter' has no rules"),
        ("filter = [\"drop\"]", "path[0].filter: there are rules, but the path does not have the function 'filter'"),
        ("functions = [\"filter\"]\nfilter = [\"tcp dport 22\"]", "path[0].filter[0]: '22' is no verdict"),
        ("functions = [\"filter\"]\nfilter = [\"drop\", \"iif eth0 drop\"]", "path[0].filter[1]: "),
        ("functions = [\"filter\"]\nfilter = [7]", "path[0].filter[0]: "),
    ] {
        let said = path(keys);
        assert!(said.len() == 1 && said[0].starts_with(reason), "{keys}: {said:?}");
    }
}

#[test]
fn verdict_among_the_functions_suggests_a_filter() {
    let path = |verdict: &str| {
        let text = format!("[[path]]\nname = \"p\"\nmatch = \"any\"\nfunctions = [\"{verdict}\"]\n");
        plan::check(&format!("{PORTS}{text}"), "f", &catalogue()).unwrap_err().to_string()
    };
    for verdict in ["drop", "reject", "accept"] {
        let said = path(verdict);
        let hint = said.split_once("use a filter: ").unwrap().1.trim();
        let (functions, filter) = hint.split_once(", and ").unwrap();
        // The suggestion is valid by itself.
        let right = format!("{PORTS}[[path]]\nname = \"p\"\nmatch = \"any\"\n{functions}\n{filter}\n");
        assert!(plan::check(&right, "f", &catalogue()).is_ok(), "{right}");
    }
}

#[test]
fn dispatch_error_marks_its_position() {
    let path = |keys: &str| {
        said(&format!(
            "[[path]]\nname = \"p\"\nmatch = \"tcp dport 1\"\n{keys}\n[[path]]\nname = \"q\"\nmatch = \"any\"\n"
        ))
    };
    let rules = |rules: &str| format!("functions = [\"dispatch\", \"ip\"]\ndispatch = {rules}");
    assert_eq!(path(&rules("[\"tls name *.a.b q\", \"payload 0 0x16 best-effort\"]")), [""; 0]);
    for (keys, reason) in [
        ("functions = [\"dispatch\"]".to_owned(), "path[0]: the function 'dispatch' has no rules"),
        (
            "dispatch = [\"dns name a q\"]".to_owned(),
            "path[0].dispatch: there are rules, but the path does not have the function 'dispatch'",
        ),
        (
            "functions = [\"ip\", \"dispatch\"]\ndispatch = [\"dns name a q\"]".to_owned(),
            "path[0].dispatch: 'ip' before 'dispatch' forwards the packet twice",
        ),
        (rules("[\"dns name a q\", \"dns name a\"]"), "path[0].dispatch[1]: a rule has four words, not 3"),
        (rules("[\"dns name a r\"]"), "path[0].dispatch[0]: there is no path 'r'"),
        (rules("[\"dns name a p\"]"), "path[0].dispatch[0]: the packet is on path 'p' already"),
        (rules("[7]"), "path[0].dispatch[0]: "),
    ] {
        let said = path(&keys);
        assert!(said.len() == 1 && said[0].starts_with(reason), "{keys}: {said:?}");
    }
}
