//! Packet filters and address translation: `nft -j list ruleset`. The importer of `switchpath filter import` translates the rules of the filter.

use super::draft::{Draft, DumpPlace, quoted};
use super::dumps::text;
use super::interfaces::Interfaces;
use plan::import::{ImportFormat, import};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The translation that the rules ask for.
#[derive(Default)]
struct Translation {
    /// The outside interfaces, by their names here, each with the place of a rule.
    outside: Vec<(String, DumpPlace)>,
    forwards: Vec<Forward>,
}

/// A forwarded port.
struct Forward {
    text: String,
    place: DumpPlace,
    /// The interface here that packets have to come from.
    input: Option<String>,
}

/// The conditions of a rule that translation can have.
#[derive(Default)]
struct Conditions {
    input: Option<String>,
    output: Option<String>,
    protocol: Option<&'static str>,
    ports: Vec<u64>,
    destination: Option<IpAddr>,
    /// Conditions without a counterpart, in words.
    ignored: Vec<String>,
}

/// Adds `[nat]` and a path with the filter of the hook `forward`.
pub(super) fn convert(rulesets: &[(String, String)], interfaces: &Interfaces, draft: &mut Draft) {
    let (mut translation, mut filter) = (Translation::default(), None);
    for (source, content) in rulesets {
        let Some(objects) =
            serde_json::from_str::<Value>(content).ok().and_then(|json| json["nftables"].as_array().cloned())
        else {
            draft.leave_out(
                DumpPlace::new(source, "the file"),
                "it has no key 'nftables': print the rules with `nft -j list ruleset`",
            );
            continue;
        };
        for chain in objects.iter().filter_map(|object| object.get("chain")) {
            let place = DumpPlace::new(source, chain_name(chain));
            match (text(&chain["type"]), text(&chain["hook"])) {
                ("nat", hook @ ("postrouting" | "prerouting")) => {
                    rules(&objects, chain).for_each(|rule| {
                        let handle = rule["handle"].as_u64().unwrap_or(0);
                        let place = DumpPlace::new(source, format!("{}, rule with handle {handle}", chain_name(chain)));
                        translation.add(rule, hook, place, interfaces, draft);
                    });
                }
                ("filter", "forward") if filter.is_none() => {
                    filter = Some((source, content, text(&chain["name"]).to_owned(), place))
                }
                ("filter", "forward") => {
                    draft.leave_out(place, "a filter has one list of rules: another chain of the hook 'forward' has it")
                }
                ("filter", "input" | "output") => {
                    draft.leave_out(
                        place,
                        "it filters packets of the machine itself: with [linux] the kernel still applies it to them",
                    );
                }
                ("", _) => {}
                (kind, hook) => draft
                    .leave_out(place, format!("chains of the type '{kind}' at the hook '{hook}' have no counterpart")),
            }
        }
    }
    let translates = translation.write(draft);
    let filter = filter.and_then(|(source, content, chain, place)| {
        let imported = import(content, ImportFormat::Nftables, Some(&chain));
        imported.map_err(|reason| draft.leave_out(place.clone(), reason)).ok().map(|imported| (source, imported, place))
    });
    let mut functions = vec!["ip"];
    if filter.is_some() {
        functions.insert(0, "filter");
    }
    if translates {
        functions.insert(0, "nat");
    }
    if functions.len() == 1 {
        return;
    }
    let place =
        filter.as_ref().map_or_else(|| DumpPlace::new("nft", "address translation"), |(_, _, place)| place.clone());
    let functions: Vec<String> = functions.iter().map(|function| quoted(function)).collect();
    let path = format!("\n[[path]]\nname = \"forwarded\"\nmatch = \"any\"\nfunctions = [{}]", functions.join(", "));
    let path = draft.piece(None, place, path);
    let Some((source, imported, _)) = filter else { return };
    for problem in &imported.problems {
        draft.leave_out(DumpPlace::new(source, problem.place.to_string()), &problem.reason);
    }
    for problem in &imported.warnings {
        draft.warn(DumpPlace::new(source, problem.place.to_string()), &problem.reason);
    }
    draft.glue(path, "filter = [");
    for (place, rule) in &imported.rules {
        let place = DumpPlace::new(source, place.to_string());
        let rule = rule.to_string();
        if rule.contains("ct state") && !translates {
            draft.leave_out(
                place,
                "only translated connections have a state here, and the configuration translates none",
            );
            continue;
        }
        match with_ports(&rule, interfaces) {
            Ok(rule) => {
                draft.piece(Some(path), place, format!("  {},", quoted(&rule)));
            }
            Err(reason) => draft.leave_out(place, reason),
        }
    }
    draft.glue(path, "]");
}

/// The rule with the names of ports instead of those of interfaces.
fn with_ports(rule: &str, interfaces: &Interfaces) -> Result<String, String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_interface = false;
    for word in rule.split(' ') {
        words.push(match is_interface {
            true => interfaces
                .name(word)
                .ok_or_else(|| format!("the interface {} is no port", plan::quote(word)))?
                .to_owned(),
            false => word.to_owned(),
        });
        is_interface = word == "iif";
    }
    Ok(words.join(" "))
}

fn chain_name(chain: &Value) -> String {
    format!("table {} {}, chain {}", text(&chain["family"]), text(&chain["table"]), text(&chain["name"]))
}

fn rules<'j>(objects: &'j [Value], chain: &'j Value) -> impl Iterator<Item = &'j Value> {
    objects.iter().filter_map(|object| object.get("rule")).filter(move |rule| {
        rule["chain"] == chain["name"] && rule["table"] == chain["table"] && rule["family"] == chain["family"]
    })
}

impl Translation {
    fn add(&mut self, rule: &Value, hook: &str, place: DumpPlace, interfaces: &Interfaces, draft: &mut Draft) {
        if rule["family"] == "ip6" {
            return draft.leave_out(place, "IPv6 is not translated");
        }
        let (mut conditions, mut done) = (Conditions::default(), None);
        for expression in rule["expr"].as_array().into_iter().flatten() {
            let Some((kind, value)) = expression.as_object().and_then(|object| object.iter().next()) else { continue };
            match kind.as_str() {
                "match" => conditions.add(value),
                "counter" | "comment" => {}
                "masquerade" | "snat" | "dnat" | "redirect" if done.is_none() => done = Some((kind.as_str(), value)),
                other => return draft.leave_out(place, format!("'{other}' has no counterpart in translation")),
            }
        }
        let added = match done {
            Some(("masquerade", _)) => self.masquerade(&conditions, None, &place, interfaces),
            Some(("snat", value)) => match snat_address(value) {
                Ok(address) => self.masquerade(&conditions, Some(address), &place, interfaces),
                Err(reason) => Err(reason),
            },
            Some(("dnat", value)) => self.forward(&conditions, value, &place, interfaces),
            Some((kind, _)) => {
                Err(format!("'{kind}' has no counterpart: the router's own ports belong to the kernel's programs"))
            }
            None => Err(format!("a rule of the hook '{hook}' without translation has no counterpart")),
        };
        match added {
            Err(reason) => draft.leave_out(place, reason),
            Ok(()) if conditions.ignored.is_empty() => {}
            Ok(()) => {
                let reason = format!(
                    "it holds without its conditions on {}: narrow the `match` of the path",
                    conditions.ignored.join(" and ")
                );
                draft.warn(place, reason);
            }
        }
    }

    fn masquerade(
        &mut self,
        conditions: &Conditions,
        address: Option<IpAddr>,
        place: &DumpPlace,
        interfaces: &Interfaces,
    ) -> Result<(), String> {
        let output = conditions
            .output
            .as_deref()
            .ok_or("it names no output interface (oifname), which becomes `outside` of [nat]")?;
        let name = interfaces
            .name(output)
            .ok_or_else(|| format!("its output interface {} is no port", plan::quote(output)))?;
        if !conditions.ports.is_empty() || conditions.input.is_some() || conditions.destination.is_some() {
            return Err("translation here is for all packets that leave by an interface".into());
        }
        if let Some(address) = address.filter(|address| !interfaces.has(output, *address)) {
            return Err(format!(
                "{address} is no static address of '{output}', and the router translates to the first one of its interface"
            ));
        }
        if !self.outside.iter().any(|(other, _)| other == name) {
            self.outside.push((name.to_owned(), place.clone()));
        }
        Ok(())
    }

    fn forward(
        &mut self,
        conditions: &Conditions,
        value: &Value,
        place: &DumpPlace,
        interfaces: &Interfaces,
    ) -> Result<(), String> {
        let protocol = conditions
            .protocol
            .filter(|_| !conditions.ports.is_empty())
            .ok_or("a forward needs a port of TCP or UDP")?;
        let address =
            text(&value["addr"]).parse::<IpAddr>().map_err(|_| "its target is no single address".to_owned())?;
        if !address.is_ipv4() {
            return Err("IPv6 is not translated".into());
        }
        let target = match &value["port"] {
            Value::Null => None,
            port => Some(port.as_u64().ok_or("its target is no single port")?),
        };
        if target.is_some() && conditions.ports.len() > 1 {
            return Err("several ports lead to one: a target has one port of the router here".into());
        }
        if let Some(foreign) = conditions.destination.filter(|destination| !interfaces.owns(*destination)) {
            return Err(format!("the destination {foreign} is no address of the router"));
        }
        let input = match &conditions.input {
            Some(input) => Some(
                interfaces
                    .name(input)
                    .ok_or_else(|| format!("its input interface {} is no port", plan::quote(input)))?,
            ),
            None => None,
        };
        for port in &conditions.ports {
            let text = format!("{protocol} {port} to {address}:{}", target.unwrap_or(*port));
            self.forwards.push(Forward { text, place: place.clone(), input: input.map(str::to_owned) });
        }
        Ok(())
    }

    /// Adds `[nat]`. Returns whether there is one.
    fn write(self, draft: &mut Draft) -> bool {
        let Some((_, place)) = self.outside.first() else {
            for forward in self.forwards {
                draft.leave_out(
                    forward.place,
                    "no rule translates the sources of packets, so there is no [nat] for the forward",
                );
            }
            return false;
        };
        let names: Vec<String> = self.outside.iter().map(|(name, _)| quoted(name)).collect();
        let nat = draft.piece(None, place.clone(), format!("\n[nat]\noutside = [{}]", names.join(", ")));
        let is_outside = |forward: &Forward| {
            forward.input.as_ref().is_none_or(|input| self.outside.iter().any(|(name, _)| name == input))
        };
        let (forwards, inner): (Vec<Forward>, Vec<Forward>) = self.forwards.into_iter().partition(is_outside);
        for forward in inner {
            draft.leave_out(
                forward.place,
                "its input interface is not outside: ports are forwarded for packets from outside",
            );
        }
        if !forwards.is_empty() {
            draft.glue(nat, "forward = [");
            let mut known = BTreeSet::new();
            for Forward { text, place, .. } in forwards {
                if known.insert(text.clone()) {
                    draft.piece(Some(nat), place, format!("  {},", quoted(&text)));
                }
            }
            draft.glue(nat, "]");
        }
        true
    }
}

impl Conditions {
    fn add(&mut self, value: &Value) {
        let (left, right) = (&value["left"], &value["right"]);
        let is_equal = matches!(text(&value["op"]), "==" | "in");
        let field = (text(&left["payload"]["protocol"]), text(&left["payload"]["field"]));
        let ports = || -> Option<Vec<u64>> {
            right["set"]
                .as_array()
                .map_or_else(|| Some(vec![right.as_u64()?]), |list| list.iter().map(Value::as_u64).collect())
        };
        match (text(&left["meta"]["key"]), field) {
            ("iif" | "iifname", _) if is_equal && right.is_string() => self.input = Some(text(right).to_owned()),
            ("oif" | "oifname", _) if is_equal && right.is_string() => self.output = Some(text(right).to_owned()),
            ("", (protocol @ ("tcp" | "udp"), "dport")) if is_equal && self.ports.is_empty() && ports().is_some() => {
                self.protocol = Some(if protocol == "tcp" { "tcp" } else { "udp" });
                self.ports = ports().unwrap_or_default();
            }
            ("", ("ip", "daddr")) if is_equal && text(right).parse::<IpAddr>().is_ok() => {
                self.destination = text(right).parse().ok();
            }
            ("", ("", _)) => self.ignored.push(left.to_string()),
            ("", (protocol, field)) => self.ignored.push(format!("{protocol} {field}")),
            (key, _) => self.ignored.push(format!("meta {key}")),
        }
    }
}

/// The single address of `snat to`.
fn snat_address(value: &Value) -> Result<IpAddr, String> {
    if !value["port"].is_null() {
        return Err("its range of ports has no counterpart: `ports` of [nat] is for all".into());
    }
    text(&value["addr"]).parse().map_err(|_| "its target is no single address".to_owned())
}
