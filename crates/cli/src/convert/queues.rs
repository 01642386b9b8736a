//! Queueing disciplines and classes: `tc -j qdisc` and `tc -j class show dev INTERFACE`. tc prints rates in bytes a second and times in microseconds.

use super::draft::{Draft, DumpPlace, quoted};
use super::dumps::{DumpObject, text};
use super::interfaces::Interfaces;
use serde_json::Value;
use std::collections::BTreeMap;
use units::Rate;

/// The default interval of CoDel in CAKE, in microseconds.
const CAKE_INTERVAL: u64 = 100_000;
/// The bytes that RED's thresholds count for a packet here: tc does not print the average size that it was given.
const RED_PACKET: u64 = 1000;
/// The bytes of an Ethernet header, which CAKE's overhead includes and ours does not.
const ETHERNET_HEADER: i64 = 14;

/// The most disciplines inside each other. A dump may name a discipline as its own parent.
const MOST_NESTED: usize = 8;

/// A scheme in the language of the configuration, and the parts that were lost.
struct Scheme {
    text: String,
    lost: Vec<String>,
}

impl Scheme {
    fn new(text: impl Into<String>) -> Scheme {
        Scheme { text: text.into(), lost: Vec::new() }
    }
}

/// The interfaces with a discipline that becomes a scheme.
pub(super) fn used_interfaces(qdiscs: &[DumpObject]) -> impl Iterator<Item = String> {
    let plain = ["noqueue", "pfifo_fast", "ingress", "clsact", "mq", "fq_codel"];
    let shaped = qdiscs.iter().filter(move |qdisc| !plain.contains(&text(&qdisc.value["kind"])));
    shaped.map(|qdisc| text(&qdisc.value["dev"]).to_owned())
}

/// Adds the scheme of each interface to `interfaces`.
pub(super) fn convert(qdiscs: &[DumpObject], classes: &[DumpObject], draft: &mut Draft, interfaces: &mut Interfaces) {
    let mut devices: BTreeMap<&str, Vec<&DumpObject>> = BTreeMap::new();
    for qdisc in qdiscs {
        devices.entry(text(&qdisc.value["dev"])).or_default().push(qdisc);
    }
    for (device, own) in devices {
        for ingress in own.iter().filter(|qdisc| matches!(text(&qdisc.value["kind"]), "ingress" | "clsact")) {
            draft.leave_out(
                place(ingress, device),
                "filters and actions of tc are not converted; rules of paths and filters are their counterpart",
            );
        }
        let Some(root) = own.iter().find(|qdisc| qdisc.value["root"] == Value::Bool(true)) else { continue };
        let place = place(root, device);
        let kind = text(&root.value["kind"]);
        if kind == "netem" {
            match emulated_link(&root.value["options"]) {
                Ok((line, lost)) => {
                    interfaces.schemes.entry(device.to_owned()).or_default().push((place.clone(), line));
                    lost.into_iter().for_each(|lost| draft.warn(place.clone(), lost));
                }
                Err(reason) => draft.leave_out(place, reason),
            }
            continue;
        }
        if kind == "htb" {
            let own_classes: Vec<&DumpObject> =
                classes.iter().filter(|class| is_class_of(class, device, root, &own, qdiscs)).collect();
            htb(root, &own, &own_classes, (device, place), draft, interfaces);
            continue;
        }
        match scheme(root, &own, 0) {
            Ok(None) => {}
            Ok(Some(scheme)) => {
                let line = format!("scheme = {}", quoted(&scheme.text));
                interfaces.schemes.entry(device.to_owned()).or_default().push((place.clone(), line));
                scheme.lost.into_iter().for_each(|lost| draft.warn(place.clone(), lost));
            }
            Err(reason) => draft.leave_out(place, reason),
        }
    }
}

fn place(qdisc: &DumpObject, device: &str) -> DumpPlace {
    let (kind, handle) = (text(&qdisc.value["kind"]), text(&qdisc.value["handle"]));
    DumpPlace::new(&qdisc.source, format!("qdisc {kind} {handle} of {device}"))
}

/// True if a class is below the root discipline of a device. `tc class show dev` leaves the device out: then the handle must be unique.
fn is_class_of(class: &DumpObject, device: &str, root: &DumpObject, own: &[&DumpObject], all: &[DumpObject]) -> bool {
    let handle = text(&root.value["handle"]);
    let is_below = text(&class.value["handle"]).starts_with(handle) && class.value["class"] == root.value["kind"];
    let same =
        all.iter().filter(|qdisc| text(&qdisc.value["handle"]) == handle && qdisc.value["root"] == Value::Bool(true));
    match class.value["dev"].as_str() {
        Some(other) => is_below && other == device,
        None => is_below && !own.is_empty() && same.count() == 1,
    }
}

/// The discipline below a class or another discipline.
fn child<'d>(handle: &str, own: &[&'d DumpObject]) -> Option<&'d DumpObject> {
    own.iter().copied().find(|qdisc| text(&qdisc.value["parent"]) == handle)
}

/// The scheme of a discipline. None for those that are like the default.
fn scheme(qdisc: &DumpObject, own: &[&DumpObject], depth: usize) -> Result<Option<Scheme>, String> {
    if depth > MOST_NESTED {
        return Err(format!("it is nested in more than {MOST_NESTED} others"));
    }
    let (value, options) = (&qdisc.value, &qdisc.value["options"]);
    let number = |key: &str| options[key].as_u64();
    let handle = text(&value["handle"]);
    Ok(Some(match text(&value["kind"]) {
        "noqueue" => return Ok(None),
        "pfifo_fast" => Scheme { text: "fifo".into(), lost: vec!["its three bands by TOS become one queue".into()] },
        "pfifo" => Scheme::new(call("fifo", &[("limit", number("limit").map(|limit| limit.max(1).to_string()))])),
        "bfifo" => Scheme::new(call("fifo", &[("bytes", number("limit").map(bytes))])),
        "mq" => {
            // A port of one worker has one queue; the disciplines of a card's queues are usually the same.
            let below: Vec<&DumpObject> = own.iter().copied().filter(|other| is_below(other, handle)).collect();
            let Some(first) = below.first() else { return Ok(None) };
            let mut scheme = match scheme(first, own, depth + 1)? {
                Some(scheme) => scheme,
                None => return Ok(None),
            };
            if below.iter().any(|other| other.value["kind"] != first.value["kind"]) {
                scheme
                    .lost
                    .push("the queues of the card have different disciplines: all have the first one here".into());
            }
            scheme
        }
        "fq_codel" => {
            let codel = codel(options);
            let limits = [
                ("flows", number("flows").map(|flows| flows.to_string())),
                ("quantum", number("quantum").map(bytes)),
                ("limit", number("limit").map(|limit| limit.to_string())),
            ];
            Scheme::new(format!("{}{{{codel}}}", call("fq", &limits)))
        }
        "codel" => Scheme::new(codel(options)),
        "sfq" => sfq(options),
        "pie" => pie(options),
        "red" => red(options),
        "cake" => cake(options),
        "tbf" => tbf(value, own, depth)?,
        "fq" => return Err("it paces the sockets of a host; a router uses `fq{codel}`".into()),
        "prio" => {
            return Err(
                "its bands by TOS have no counterpart: give paths a `class`, and the port `priority` or `tree`".into(),
            );
        }
        kind @ ("hfsc" | "drr" | "qfq" | "ets" | "cbq" | "hhf" | "multiq" | "taprio" | "etf" | "mqprio") => {
            return Err(format!("'{kind}' is not converted: see the schemes `tree`, `share` and `drr`"));
        }
        kind => return Err(format!("{} is not converted", plan::quote(kind))),
    }))
}

fn is_below(other: &DumpObject, handle: &str) -> bool {
    // The kernel prints the automatic `mq` as 0: and its children as :1, :2.
    let before = if handle == "0:" { ":" } else { handle };
    text(&other.value["parent"]).strip_prefix(before).is_some_and(|minor| !minor.is_empty())
}

/// `name(key=value, ...)` of the values that are there.
fn call(name: &str, options: &[(&str, Option<String>)]) -> String {
    let set: Vec<String> =
        options.iter().filter_map(|(key, value)| value.as_ref().map(|value| format!("{key}={value}"))).collect();
    if set.is_empty() { name.to_owned() } else { format!("{name}({})", set.join(", ")) }
}

fn bytes(count: u64) -> String {
    format!("{count}b")
}

/// A rate of tc, in bytes a second, as here.
fn rate(value: &Value) -> Option<String> {
    let bits = value.as_u64()?.checked_mul(8)?;
    format!("{bits}bit").parse::<Rate>().ok().map(|rate| rate.to_string())
}

/// Microseconds. The kernel counts in units of 1.024 us, so that 5 ms become 4999.
fn micros(us: u64) -> String {
    let us = if us % 1000 == 999 { us.saturating_add(1) } else { us };
    if us.is_multiple_of(1000) { format!("{}ms", us / 1000) } else { format!("{us}us") }
}

fn on(value: &Value) -> Option<String> {
    (value == &Value::Bool(true)).then(|| "on".to_owned())
}

fn codel(options: &Value) -> String {
    let limits = [
        ("target", options["target"].as_u64().map(micros)),
        ("interval", options["interval"].as_u64().map(micros)),
        ("ecn", on(&options["ecn"])),
    ];
    call("codel", &limits)
}

fn sfq(options: &Value) -> Scheme {
    let flows = options["divisor"].as_u64().filter(|flows| *flows > 0);
    let limit = options["limit"].as_u64().filter(|limit| *limit > 0);
    let text = call("sfq", &[("flows", flows.map(|n| n.to_string())), ("limit", limit.map(|n| n.to_string()))]);
    Scheme { text, lost: vec!["a turn is one packet here, not `quantum` bytes".into()] }
}

fn pie(options: &Value) -> Scheme {
    let limits = [
        ("limit", options["limit"].as_u64().map(|limit| limit.to_string())),
        ("target", options["target"].as_u64().map(micros)),
        ("update", options["tupdate"].as_u64().map(micros)),
        ("ecn", on(&options["ecn"])),
    ];
    let is_usual = matches!((options["alpha"].as_u64(), options["beta"].as_u64()), (None | Some(2), None | Some(20)));
    let lost = (!is_usual).then(|| "its `alpha` and `beta` are lost".to_owned());
    Scheme { text: call("pie", &limits), lost: lost.into_iter().collect() }
}

fn red(options: &Value) -> Scheme {
    let packets = |key: &str| options[key].as_u64().map(|count| (count / RED_PACKET).max(1));
    let (min, max) = (packets("min"), packets("max"));
    let limits = [
        ("min", min.map(|n| n.to_string())),
        ("max", max.map(|n| n.to_string())),
        ("limit", packets("limit").map(|n| n.to_string())),
        ("ecn", on(&options["ecn"])),
    ];
    let lost =
        "its thresholds in bytes became packets of 1000 bytes; its probability and weight are the defaults".to_owned();
    Scheme { text: call("red", &limits), lost: vec![lost] }
}

fn cake(options: &Value) -> Scheme {
    let mut lost = Vec::new();
    let interval = options["rtt"].as_u64().filter(|rtt| *rtt != CAKE_INTERVAL && *rtt >= 20);
    let inner = interval
        .map_or_else(String::new, |rtt| format!("{{codel(target={}, interval={})}}", micros(rtt / 20), micros(rtt)));
    let Some(bandwidth) = rate(&options["bandwidth"]) else {
        let lost =
            vec!["without a bandwidth it does not shape: `fq` has fair queues without tins and hosts".to_owned()];
        return Scheme { text: format!("fq{}", if inner.is_empty() { "{codel}" } else { &inner }), lost };
    };
    let tins = match text(&options["diffserv"]) {
        "besteffort" => "one",
        "" | "diffserv3" => "three",
        "diffserv4" => "four",
        other => {
            lost.push(format!("'{other}' became three tins"));
            "three"
        }
    };
    let hosts = match text(&options["flowmode"]) {
        "dual-srchost" | "srchost" => "source",
        "dual-dsthost" | "dsthost" => "destination",
        "flows" | "flowblind" => "none",
        _ => "both",
    };
    let is_raw = options["raw"] == Value::Bool(true);
    let overhead = options["overhead"]
        .as_i64()
        .filter(|_| !is_raw)
        .map(|overhead| overhead.saturating_sub(ETHERNET_HEADER).max(0));
    let cells = Some(text(&options["atm"])).filter(|cells| matches!(*cells, "atm" | "ptm"));
    for (key, what) in
        [("nat", "hosts behind translation"), ("wash", "washing of code points"), ("ingress", "ingress mode")]
    {
        if options[key] == Value::Bool(true) {
            lost.push(format!("its {what} has no counterpart"));
        }
    }
    if matches!(text(&options["ack-filter"]), "enabled" | "aggressive") {
        lost.push("its ACK filter has no counterpart".into());
    }
    let limits = [
        ("rate", Some(bandwidth)),
        ("tins", Some(tins.to_owned()).filter(|tins| tins != "three")),
        ("hosts", Some(hosts.to_owned()).filter(|hosts| hosts != "both")),
        ("overhead", overhead.filter(|overhead| *overhead > 0).map(|overhead| format!("{overhead}b"))),
        ("minimum", options["mpu"].as_u64().filter(|minimum| *minimum > 0).map(bytes)),
        ("cells", cells.map(str::to_owned)),
    ];
    Scheme { text: call("cake", &limits) + &inner, lost }
}

fn tbf(value: &Value, own: &[&DumpObject], depth: usize) -> Result<Scheme, String> {
    let options = &value["options"];
    let bandwidth = rate(&options["rate"]).ok_or("it has no rate")?;
    let handle = text(&value["handle"]);
    let below = own
        .iter()
        .copied()
        .find(|other| text(&other.value["parent"]).trim_end_matches(char::is_numeric) == handle && !handle.is_empty());
    let inner = match below {
        Some(below) if text(&below.value["kind"]) != "bfifo" => scheme(below, own, depth + 1)?,
        _ => None,
    };
    let limit = options["limit"].as_u64().or_else(|| {
        let (rate, latency) = (options["rate"].as_u64()?, options["lat"].as_u64()?);
        let waiting = u128::from(rate) * u128::from(latency) / 1_000_000;
        u64::try_from(waiting).ok()?.checked_add(options["burst"].as_u64().unwrap_or(0))
    });
    let inner =
        inner.unwrap_or_else(|| Scheme::new(call("fifo", &[("bytes", limit.map(|limit| bytes(limit.max(1514))))])));
    let outer = call("shape", &[("rate", Some(bandwidth)), ("burst", options["burst"].as_u64().map(bytes))]);
    let mut lost = inner.lost;
    if options["peakrate"].as_u64().is_some_and(|peak| peak > 0) {
        lost.push("its peak rate is lost".into());
    }
    Ok(Scheme { text: format!("{outer}{{{}}}", inner.text), lost })
}

/// The emulated link of netem.
fn emulated_link(options: &Value) -> Result<(String, Vec<String>), String> {
    let (mut parts, mut lost) = (Vec::new(), Vec::new());
    let seconds = |value: &Value| {
        value
            .as_f64()
            .filter(|time| (0.0..=60.0).contains(time))
            .map(|time| format!("{}us", (time * 1e6).round() as u64))
    };
    let percent = |value: &Value| {
        value.as_f64().filter(|part| (0.0..=1.0).contains(part)).map(|part| format!("{:.4}%", part * 100.0))
    };
    parts.extend(rate(&options["rate"]["rate"]).map(|rate| format!("rate = \"{rate}\"")));
    for (key, value) in [
        ("delay", seconds(&options["delay"]["delay"])),
        ("jitter", seconds(&options["delay"]["jitter"]).filter(|jitter| jitter != "0us")),
        ("loss", percent(&options["loss-random"]["loss"])),
        ("duplicate", percent(&options["duplicate"]["duplicate"])),
    ] {
        parts.extend(value.map(|value| format!("{key} = \"{value}\"")));
    }
    for key in ["corrupt", "reorder", "loss-state", "loss-gemodel", "slot"] {
        if !options[key].is_null() {
            lost.push(format!("its '{key}' is lost"));
        }
    }
    if parts.is_empty() {
        return Err("it changes nothing that an emulated link has".into());
    }
    Ok((format!("link = {{ {} }}", parts.join(", ")), lost))
}

/// HTB becomes shares: a class is a share, its rate the guarantee, its ceil the ceiling.
fn htb(
    root: &DumpObject,
    own: &[&DumpObject],
    classes: &[&DumpObject],
    (device, place): (&str, DumpPlace),
    draft: &mut Draft,
    interfaces: &mut Interfaces,
) {
    if classes.is_empty() {
        let reason = format!(
            "its classes are missing: add the output of `tc -j class show dev {device}` as class-{device}.json"
        );
        return draft.leave_out(place, reason);
    }
    let handle = |class: &DumpObject| text(&class.value["handle"]).to_owned();
    let parent = |class: &DumpObject| text(&class.value["parent"]).to_owned();
    let is_top =
        |class: &DumpObject| class.value["root"] == Value::Bool(true) || parent(class) == text(&root.value["handle"]);
    let tops: Vec<&DumpObject> = classes.iter().copied().filter(|class| is_top(class)).collect();
    let has_children = |class: &DumpObject| classes.iter().any(|other| parent(other) == handle(class));
    // A single class at the top that only holds others is the line itself.
    let line = match tops[..] {
        [only] if has_children(only) => Some(only),
        _ => None,
    };
    let line_rate = line.and_then(|line| rate(&line.value["ceil"]).or_else(|| rate(&line.value["rate"])));
    let line_name = line.map(handle);
    // Parents first: each round adds the classes whose parent is known.
    let (mut shares, mut known): (Vec<String>, Vec<String>) = (Vec::new(), line_name.clone().into_iter().collect());
    let mut open: Vec<&DumpObject> = classes.iter().copied().filter(|class| Some(handle(class)) != line_name).collect();
    loop {
        let (ready, rest): (Vec<_>, Vec<_>) =
            open.into_iter().partition(|class| is_top(class) || known.contains(&parent(class)));
        if ready.is_empty() {
            for class in rest {
                draft.leave_out(
                    DumpPlace::new(&class.source, format!("class {} of {device}", handle(class))),
                    "its parent is missing",
                );
            }
            break;
        }
        for class in ready {
            shares.push(share(
                class,
                if is_top(class) {
                    None
                } else {
                    Some(parent(class)).filter(|parent| Some(parent) != line_name.as_ref())
                },
            ));
            known.push(handle(class));
        }
        open = rest;
    }
    let leaves: Vec<&DumpObject> = classes
        .iter()
        .copied()
        .filter(|class| !has_children(class))
        .filter_map(|class| child(&handle(class), own))
        .collect();
    let mut inner = String::new();
    for leaf in &leaves {
        match scheme(leaf, own, 0) {
            Ok(Some(found)) if inner.is_empty() => inner = found.text,
            Ok(Some(found)) if found.text == inner => {}
            Ok(None) => {}
            Ok(Some(_)) => draft.leave_out(
                self::place(leaf, device),
                format!("all leaves of a port have one scheme, which is {inner}"),
            ),
            Err(reason) => draft.leave_out(self::place(leaf, device), reason),
        }
    }
    let outer = call("share", &[("rate", line_rate)]);
    let scheme = if inner.is_empty() { outer } else { format!("{outer}{{{inner}}}") };
    let lines: String = shares.iter().map(|share| format!("  {},\n", quoted(share))).collect();
    let entry = interfaces.schemes.entry(device.to_owned()).or_default();
    entry.push((place.clone(), format!("scheme = {}", quoted(&scheme))));
    entry.push((DumpPlace::new(&place.source, format!("classes of {device}")), format!("shares = [\n{lines}]")));
    let reason = "the filters of tc are not converted: give paths `link_share = \"CLASS\"`, or subscribers their addresses. Packets without a share use the default leaf";
    draft.leave_out(DumpPlace::new(&place.source, format!("filters of {device}")), reason);
}

fn share(class: &DumpObject, parent: Option<String>) -> String {
    let mut words = vec![text(&class.value["handle"]).to_owned()];
    words.extend(parent.map(|parent| format!("in {parent}")));
    words.extend(rate(&class.value["rate"]).map(|rate| format!("rate {rate}")));
    words.extend(rate(&class.value["ceil"]).map(|ceiling| format!("ceiling {ceiling}")));
    words.extend(
        class.value["prio"]
            .as_u64()
            .filter(|priority| *priority > 0)
            .map(|priority| format!("priority {}", priority.min(7))),
    );
    words.join(" ")
}
