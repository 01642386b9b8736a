//! Which schemes isolate a reservation from best effort: admission judges every scheme, and a refusal suggests one that isolates it.

use plan::{Diagnostic, Plan};

const PORTS: &str = "version = 1\n[port.lan]\ndevice = 'memory:lan'\naddress = ['192.0.2.1/24']\n\
                     [port.wan]\ndevice = 'memory:wan'\naddress = ['198.51.100.1/24']\n";
const VOICE: &str = "reserve = '1mbit'\npacket_size = '218b'\nmax_delay = '20ms'";

/// A configuration with these keys of port `wan` and of path `voice`, which leaves by it, followed by `more`.
fn config(wan: &str, voice: &str, more: &str) -> String {
    format!("{PORTS}{wan}\n[[path]]\nname = 'voice'\nmatch = 'iif lan ip dscp ef'\n{voice}\n{more}\n")
}

fn check(text: &str) -> Result<Plan, Box<Diagnostic>> {
    plan::check(text, "router.toml", &plane::catalogue())
        .map_err(|errors| Box::new(errors.errors().next().expect("one").clone()))
}

fn with(scheme: &str) -> Result<Plan, Box<Diagnostic>> {
    check(&config(&format!("scheme = '{scheme}'"), VOICE, ""))
}

/// The scheme that a hint suggests.
fn named(hint: &str) -> &str {
    hint.split("scheme = \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap_or_else(|| panic!("no scheme: {hint}"))
}

/// The schemes of the catalogue: alone, around others and inside others.
fn schemes() -> Vec<String> {
    let catalogue = plane::catalogue();
    let queues: Vec<&str> = catalogue.schemes.iter().map(|scheme| scheme.name).collect();
    let mut all: Vec<String> = queues.iter().map(ToString::to_string).collect();
    for order in &catalogue.orders {
        let name = order.declaration.name;
        all.push(name.to_string());
        match order.inner {
            units::declare::Inside::Branches(..) => {
                all.extend(queues.iter().map(|queue| format!("tree{{branch{{{queue}}}}}")));
                all.extend(queues.iter().map(|queue| format!("tree{{branch(class=1){{{queue}}}, branch}}")));
            }
            _ => all.extend(queues.iter().map(|queue| format!("{name}{{{queue}}}"))),
        }
        if order.declaration.options.iter().any(|option| option.name == "by") {
            all.extend(queues.iter().map(|queue| format!("{name}(by=class){{{queue}}}")));
        }
    }
    // A tree of shares divides a whole link.
    let whole = |scheme: &&String| scheme.starts_with("share") || scheme.starts_with("dfq");
    let inside: Vec<String> = all.iter().filter(|scheme| !whole(scheme)).cloned().collect();
    all.extend(
        inside
            .iter()
            .filter(|scheme| !scheme.starts_with("shape"))
            .map(|scheme| format!("shape(rate=50mbit){{{scheme}}}")),
    );
    all.extend(inside.iter().map(|scheme| format!("tree{{branch(class=1){{fifo}}, branch{{{scheme}}}}}")));
    all
}

#[test]
fn every_scheme_isolates_reservations_or_is_refused_with_an_alternative() {
    let (mut kept, mut refused) = (Vec::new(), 0);
    for scheme in schemes() {
        match with(&scheme) {
            Ok(_) => kept.push(scheme),
            Err(error) => {
                refused += 1;
                assert!(!error.reason.contains("it is unknown how"), "{scheme} is judged: {}", error.reason);
                assert_eq!((error.line, error.path.as_str()), (8, "port.wan.scheme"), "{scheme}");
                let better = named(&error.hint);
                if let Err(error) = with(better) {
                    panic!("{scheme}: {better} is no better: {}; {}", error.reason, error.hint);
                }
            }
        }
    }
    assert!(kept.len() > 40 && refused > 80, "{} kept, {refused} refused", kept.len());
    for scheme in ["priority", "shape{priority}", "drr(by=class)", "tree{branch(class=1){fifo}, branch}"] {
        assert!(with(scheme).is_ok(), "{scheme}");
    }
    for scheme in [
        "fifo",
        "fq",
        "drr",
        "wf2q",
        "cake",
        "priority{red}",
        "shape",
        "shape{fq}",
        "tree",
        "tree{branch(class=1){blue}, branch}",
    ] {
        assert!(with(scheme).is_err(), "{scheme}");
    }
}

#[test]
fn shaper_rate_bounds_reservations() {
    let shaped = |rate: &str| with(&format!("shape(rate={rate}){{priority}}"));
    assert!(shaped("1100kbit").is_ok());
    let error = shaped("500kbit").unwrap_err();
    assert_eq!(error.line, 8);
    assert!(
        error.reason.contains("it needs 1002kbit of the rate of the shaper, but 500kbit is left"),
        "{}",
        error.reason
    );
    // ATM cells carry 218 bytes in 265, and in 318 with the headers.
    assert!(with("shape(rate=1300kbit, cells=atm){priority}").is_ok());
    assert!(with("shape(rate=1300kbit, cells=atm, overhead=48b){priority}").is_err());
    let two = format!("[[path]]\nname = 'video'\nmatch = 'iif lan udp dport 5004'\n{VOICE}");
    let error = check(&config("scheme = 'shape(rate=1500kbit){priority}'", VOICE, &two)).unwrap_err();
    assert!(error.reason.contains("but 498kbit is left"), "{}", error.reason);
    // A rate in packets does not bound their size: each may be as long as the longest frame.
    let pps = |more: &str| {
        check(&config("scheme = 'shape(rate=50mbit){priority}'", &format!("reserve = '10kpps'\n{more}"), ""))
    };
    assert!(pps("packet_size = '64b'").is_ok() && pps("").is_err());
}

#[test]
fn emulated_link_rate_bounds_reservations() {
    let linked = |rate: &str| check(&config(&format!("link = {{ rate = '{rate}' }}"), VOICE, ""));
    assert!(linked("2mbit").is_ok());
    let error = linked("1mbit").unwrap_err();
    assert!(error.reason.contains("of the link, but 1mbit is left"), "{}", error.reason);
}

#[test]
fn default_scheme_has_a_class_for_reservations() {
    let scheme = |voice: &str| {
        let plan = check(&config("", voice, "")).unwrap();
        let of = |name: &str| plan.ports.iter().find(|port| &*port.name == name).unwrap().scheme.name;
        (of("lan"), of("wan"))
    };
    assert_eq!(scheme(VOICE), ("fifo", "priority"), "packets leave by the other port");
    assert_eq!(scheme(""), ("fifo", "fifo"));
}

#[test]
fn class_shared_with_best_effort_protects_no_reservation() {
    let other = "[[path]]\nname = 'bulk'\nmatch = 'iif lan tcp'\nclass = 1";
    let error = check(&config("", VOICE, other)).unwrap_err();
    assert!(error.reason.contains("packets of 'bulk' have the same class"), "{}", error.reason);
    assert!(error.hint.contains("give 'voice' class = 2"), "{}", error.hint);
    let better = named(&error.hint);
    assert!(check(&config(&format!("scheme = '{better}'"), &format!("{VOICE}\nclass = 2"), other)).is_ok(), "{better}");
    let none = check(&config("", &format!("{VOICE}\nclass = 0"), "")).unwrap_err();
    assert!(none.hint.contains("give 'voice' class = 1"), "{}", none.hint);
}

#[test]
fn policy_schemes_must_isolate_reservations() {
    let policy = |scheme: &str| {
        let policy = format!("[policy.edge]\nthroughput = '{scheme}'");
        let wan = "policy = 'edge'\nobjective = 'throughput'";
        check(&format!("{}{policy}\n", config(wan, VOICE, "")))
    };
    assert!(policy("priority").is_ok());
    let error = policy("fifo(limit=20000)").unwrap_err();
    assert_eq!(error.path, "policy.edge.throughput");
    assert_eq!(named(&error.hint), "priority{fifo(limit=20000)}");
}

#[test]
fn admission_warn_accepts_unprotected_reservation_with_advisory() {
    let text = config("scheme = 'fifo'", VOICE, "[cpu]\nadmission = 'warn'");
    let checked = plan::examine(&text, "router.toml", &plane::catalogue());
    assert!(checked.plan.is_some());
    assert!(
        checked.diagnostics.warnings().any(|warning| warning.path == "port.wan.scheme"),
        "{}",
        checked.diagnostics.render(false)
    );
}
