//! The rules of nftables as `nft -j list ruleset` prints them (libnftables-json(5)).
//!
//! A base chain becomes a list of rules. The rules of a chain that it jumps to get the conditions of the jump, and named sets become lists. A rule
//! that has no counterpart is left out and reported.

use super::{ImportPlace, Imported, MOST_RULES};
use crate::{FibMatch, FilterRule};
use serde_json::Value;

/// Limit of nested jumps, as in nftables.
const MOST_JUMPS: usize = 16;
/// Limit of rules that one rule becomes, if its conditions have alternatives.
const MOST_ALTERNATIVES: usize = 256;
/// Values in one list; a larger set becomes several rules.
const LIST: usize = 1024;

/// The objects of a rule set.
struct Ruleset<'j> {
    chains: Vec<&'j Value>,
    rules: Vec<&'j Value>,
    sets: Vec<&'j Value>,
}

/// One condition: each of its texts is an alternative.
type Condition = Vec<String>;

/// See [`super::import`].
pub(super) fn import(text: &str, chain: Option<&str>) -> Result<Imported, String> {
    let json: Value =
        serde_json::from_str(text).map_err(|error| format!("this is not the JSON of nftables: {error}"))?;
    let objects = json["nftables"]
        .as_array()
        .ok_or("the key 'nftables' is missing: print the rules with 'nft -j list ruleset'")?;
    let of = |kind: &str| objects.iter().filter_map(|object| object.get(kind)).collect::<Vec<_>>();
    let ruleset = Ruleset { chains: of("chain"), rules: of("rule"), sets: of("set") };
    let base = ruleset.base(chain)?;
    let mut out = Imported::default();
    let family = match text_of(&base["family"]) {
        "ip" => vec![vec!["ip".to_string()]],
        "ip6" => vec![vec!["ip6".to_string()]],
        "inet" => Vec::new(),
        other => return Err(format!("chains of family '{other}' see other packets than a filter here")),
    };
    ruleset.chain(base, &family, 0, &mut out);
    if base["policy"] == "drop" {
        ruleset.add(&family, " drop", &place(base, None), &mut out);
    }
    Ok(out)
}

impl<'j> Ruleset<'j> {
    fn base(&self, name: Option<&str>) -> Result<&'j Value, String> {
        let base: Vec<&Value> = self.chains.iter().copied().filter(|chain| chain["type"] == "filter").collect();
        let names = || base.iter().map(|chain| format!("'{}'", text_of(&chain["name"]))).collect::<Vec<_>>().join(", ");
        match (name, &base[..]) {
            (_, []) => Err("there is no base chain of type 'filter'".into()),
            (Some(name), _) => base
                .iter()
                .copied()
                .find(|chain| chain["name"] == name)
                .ok_or_else(|| format!("there is no base chain '{name}'; use one of {}", names())),
            (None, [one]) => Ok(one),
            (None, _) => base
                .iter()
                .copied()
                .find(|chain| chain["hook"] == "forward")
                .ok_or_else(|| format!("no base chain has the hook 'forward'; choose one of {}", names())),
        }
    }

    /// Adds the rules of a chain, each with the conditions of the jumps to it.
    fn chain(&self, chain: &Value, before: &[Condition], depth: usize, out: &mut Imported) {
        let of_chain = |rule: &&&Value| {
            rule["chain"] == chain["name"] && rule["table"] == chain["table"] && rule["family"] == chain["family"]
        };
        for rule in self.rules.iter().filter(of_chain) {
            if out.rules.len() >= MOST_RULES {
                return;
            }
            let place = place(chain, rule["handle"].as_u64());
            if let Err(reason) = self.rule(rule, before, (depth, &place), out) {
                out.problem(place, reason);
            }
        }
    }

    fn rule(
        &self,
        rule: &Value,
        before: &[Condition],
        (depth, place): (usize, &ImportPlace),
        out: &mut Imported,
    ) -> Result<(), String> {
        let mut conditions = before.to_vec();
        let mut rest = String::new();
        let mut decides = false;
        for expression in rule["expr"].as_array().into_iter().flatten() {
            let (kind, value) =
                expression.as_object().and_then(|object| object.iter().next()).ok_or("an expression is empty")?;
            match kind.as_str() {
                "match" if rest.is_empty() => {
                    conditions.push(self.condition(value, rule)?);
                    if let Some(set) = value["right"].as_str().and_then(|text| text.strip_prefix('@')) {
                        let reason = format!("the set '{set}' became a list, which does not follow its changes");
                        out.warn(place.clone(), reason);
                    }
                }
                "match" => return Err("a condition follows a statement".into()),
                // Every rule counts.
                "counter" => {}
                "log" => {
                    rest +=
                        &value["prefix"].as_str().map_or(" log".into(), |prefix| format!(" log prefix \"{prefix}\""))
                }
                "limit" => rest += &limit(value)?,
                "mangle" if value["key"]["payload"]["field"] == "dscp" => {
                    rest += &format!(" ip dscp set {}", scalar(&value["value"])?)
                }
                "accept" | "drop" => {
                    rest += &format!(" {kind}");
                    decides = true;
                }
                "reject" => {
                    rest += if value["type"] == "tcp reset" { " reject with tcp reset" } else { " reject" };
                    decides = true;
                }
                "jump" | "goto" => {
                    if !rest.is_empty() {
                        return Err(format!("'{kind}' follows a statement"));
                    }
                    return self.jump(rule, (kind, text_of(&value["target"])), &conditions, depth, out);
                }
                other => return Err(format!("'{other}' has no counterpart here")),
            }
        }
        match (decides, rest.is_empty()) {
            // A rule that only counts decides nothing.
            (false, true) => {
                out.warn(place.clone(), "the rule has no effect but its counter, and is left out");
                Ok(())
            }
            (false, false) => Err("the rule has no verdict".into()),
            (true, _) => {
                let comment = rule["comment"].as_str().map(|text| format!(" comment \"{}\"", text.replace('"', "'")));
                self.add(&conditions, &(rest + &comment.unwrap_or_default()), place, out);
                Ok(())
            }
        }
    }

    fn jump(
        &self,
        rule: &Value,
        (kind, target): (&str, &str),
        conditions: &[Condition],
        depth: usize,
        out: &mut Imported,
    ) -> Result<(), String> {
        if depth >= MOST_JUMPS {
            return Err(format!("more than {MOST_JUMPS} nested jumps"));
        }
        let of_table = |chain: &&&Value| {
            chain["name"] == target && chain["table"] == rule["table"] && chain["family"] == rule["family"]
        };
        let chain = self.chains.iter().find(of_table).ok_or_else(|| format!("there is no chain '{target}'"))?;
        // Behind a 'goto' the policy of the base chain decides, not the next rule.
        if kind == "goto" {
            return Err(format!(
                "'goto {target}' has no counterpart here: use 'jump', and a verdict at the end of '{target}'"
            ));
        }
        self.chain(chain, conditions, depth + 1, out);
        Ok(())
    }

    /// Adds a rule for each combination of alternatives.
    fn add(&self, conditions: &[Condition], rest: &str, place: &ImportPlace, out: &mut Imported) {
        let combinations = conditions.iter().map(Vec::len).try_fold(1usize, usize::checked_mul).unwrap_or(usize::MAX);
        if combinations > MOST_ALTERNATIVES {
            return out.problem(place.clone(), format!("the rule would become more than {MOST_ALTERNATIVES} rules"));
        }
        let mut is_possible = false;
        for mut number in 0..combinations {
            let mut clauses: Vec<&str> = Vec::new();
            for alternatives in conditions {
                let clause = &alternatives[number % alternatives.len()];
                number /= alternatives.len();
                if !clauses.contains(&clause.as_str()) {
                    clauses.push(clause);
                }
            }
            match FilterRule::parse(&format!("{}{rest}", clauses.join(" "))) {
                Ok(rule) => {
                    out.rules.push((place.clone(), rule));
                    is_possible = true;
                }
                // Alternatives contradict other conditions: no packet is in both.
                Err(error) if error.reason.contains("contradicts") => {}
                Err(error) => return out.problem(place.clone(), error.reason),
            }
        }
        if !is_possible {
            out.warn(place.clone(), "no packet matches this rule: its conditions contradict each other");
        }
    }

    fn condition(&self, value: &Value, rule: &Value) -> Result<Condition, String> {
        let (left, right) = (&value["left"], &value["right"]);
        let op = text_of(&value["op"]);
        if let Some([payload, mask]) = left["&"].as_array().map(Vec::as_slice) {
            if payload["payload"]["field"] != "flags" || op != "==" {
                return Err("a mask is supported only for 'tcp flags'".into());
            }
            let wanted = flags(right)?;
            let wanted = if wanted == "0" { "none".to_string() } else { wanted };
            return Ok(vec![format!("tcp flags {wanted}/{}", flags(mask)?)]);
        }
        if !matches!(op, "==" | "in") {
            return Err(format!("the operator '{op}' has no counterpart here"));
        }
        if let Some(key) = left["meta"]["key"].as_str() {
            return self.meta(key, right);
        }
        if let Some(fib) = left.get("fib") {
            return fib_condition(fib, right);
        }
        if left["ct"]["key"] == "state" {
            return Ok(vec![format!("ct state {}", values(right)?.join(","))]);
        }
        let payload = &left["payload"];
        let field = (text_of(&payload["protocol"]), text_of(&payload["field"]));
        match field {
            ("ip" | "ip6", "saddr" | "daddr") | ("tcp" | "udp", "sport" | "dport") => {
                let list = self.resolve(right, rule)?;
                Ok(lists(&format!("{} {}", field.0, field.1), &list))
            }
            ("th", port @ ("sport" | "dport")) => {
                let list = self.resolve(right, rule)?;
                Ok(["tcp", "udp"].iter().flat_map(|protocol| lists(&format!("{protocol} {port}"), &list)).collect())
            }
            ("icmp" | "icmpv6", "type") => Ok(lists(&format!("{} type", field.0), &values(right)?)),
            ("tcp", "flags") => Ok(values(right)?.iter().map(|flag| format!("tcp flags {flag}")).collect()),
            ("ip" | "ip6", "dscp")
            | ("ip", "protocol")
            | ("ip6", "nexthdr" | "flowlabel")
            | ("icmp" | "icmpv6", "code")
            | ("vlan", "id") => {
                Ok(values(right)?.iter().map(|value| format!("{} {} {value}", field.0, field.1)).collect())
            }
            (protocol, field) => Err(format!("a condition on '{protocol} {field}' has no counterpart here")),
        }
    }

    fn meta(&self, key: &str, right: &Value) -> Result<Condition, String> {
        let values = values(right)?;
        let each = |clause: &str| values.iter().map(|value| format!("{clause} {value}")).collect::<Vec<_>>();
        match key {
            "l4proto" => Ok(each("meta l4proto").into_iter().map(|text| text.replace("ipv6-icmp", "icmpv6")).collect()),
            "length" => Ok(each("meta length")),
            "iif" | "iifname" => Ok(each("iif")),
            "nfproto" | "protocol" => values
                .iter()
                .map(|value| match value.as_str() {
                    "ipv4" | "ip" => Ok("ip".to_string()),
                    "ipv6" | "ip6" => Ok("ip6".to_string()),
                    other => Err(format!("'{other}' is no IP version")),
                })
                .collect(),
            _ => Err(format!("a condition on 'meta {key}' has no counterpart here")),
        }
    }

    /// The values on the right, with those of a named set.
    fn resolve(&self, right: &Value, rule: &Value) -> Result<Vec<String>, String> {
        let Some(name) = right.as_str().and_then(|text| text.strip_prefix('@')) else { return values(right) };
        let of_table =
            |set: &&&Value| set["name"] == name && set["table"] == rule["table"] && set["family"] == rule["family"];
        let set = self.sets.iter().find(of_table).ok_or_else(|| format!("there is no set '{name}'"))?;
        match set["elem"].as_array() {
            Some(elements) if !elements.is_empty() => {
                elements.iter().map(values).collect::<Result<Vec<_>, _>>().map(|values| values.concat())
            }
            _ => Err(format!("the set '{name}' is empty here: its rule matches nothing")),
        }
    }
}

/// `fib saddr . iif oif missing`.
fn fib_condition(fib: &Value, right: &Value) -> Result<Condition, String> {
    let mut flags: Vec<&str> = fib["flags"].as_array().into_iter().flatten().map(text_of).collect();
    flags.sort_unstable();
    let by_input = match (&flags[..], text_of(&fib["result"])) {
        (["saddr"], "oif" | "oifname" | "check") => false,
        (["iif", "saddr"], "oif" | "oifname" | "check") => true,
        (flags, result) => {
            return Err(format!("a condition on 'fib {} {result}' has no counterpart here", flags.join(" . ")));
        }
    };
    let Some(exists) = right.as_bool() else {
        return Err("a condition on 'fib' is supported only with 'missing' or 'exists'".into());
    };
    Ok(vec![FibMatch { by_input, missing: !exists }.to_string()])
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn place(chain: &Value, handle: Option<u64>) -> ImportPlace {
    let [family, table, chain] = ["family", "table", "name"].map(|key| text_of(&chain[key]).to_string());
    ImportPlace::Chain { family, table, chain, handle }
}

/// `field { a, b }`, for as many lists as the values need.
fn lists(field: &str, values: &[String]) -> Condition {
    values
        .chunks(LIST)
        .map(|values| match values {
            [value] => format!("{field} {value}"),
            values => format!("{field} {{ {} }}", values.join(", ")),
        })
        .collect()
}

fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(format!("the value {other} has no counterpart here")),
    }
}

/// The texts of one value or of a list: prefixes, ranges, names, numbers.
fn values(value: &Value) -> Result<Vec<String>, String> {
    if let Some(list) = value.as_array().or(value["set"].as_array()) {
        return list.iter().map(values).collect::<Result<Vec<_>, _>>().map(|values| values.concat());
    }
    if let Some(element) = value.get("elem") {
        return values(&element["val"]);
    }
    if let Some(prefix) = value.get("prefix") {
        return Ok(vec![format!("{}/{}", text_of(&prefix["addr"]), prefix["len"])]);
    }
    let Some([first, last]) = value["range"].as_array().map(Vec::as_slice) else { return Ok(vec![scalar(value)?]) };
    match (text_of(first).parse(), text_of(last).parse()) {
        (Ok(first), Ok(last)) => Ok(prefixes(first, last).iter().map(ToString::to_string).collect()),
        _ => Ok(vec![format!("{}-{}", scalar(first)?, scalar(last)?)]),
    }
}

/// The prefixes of a range of addresses, which must be of one family.
fn prefixes(first: std::net::IpAddr, last: std::net::IpAddr) -> Vec<crate::Prefix> {
    let mut out = Vec::new();
    let mut next = Some(first).filter(|first| first.is_ipv4() == last.is_ipv4());
    while let Some(address) = next.filter(|address| *address <= last) {
        // The largest prefix that begins here and ends within the range. A host always does.
        let fits =
            |length| crate::Prefix::new(address, length).filter(|prefix| prefix.is_network() && prefix.last() <= last);
        let Some(prefix) = (0..=128).find_map(fits) else { break };
        next = match prefix.last() {
            std::net::IpAddr::V4(end) => {
                end.to_bits().checked_add(1).map(|bits| std::net::Ipv4Addr::from_bits(bits).into())
            }
            std::net::IpAddr::V6(end) => {
                end.to_bits().checked_add(1).map(|bits| std::net::Ipv6Addr::from_bits(bits).into())
            }
        };
        out.push(prefix);
    }
    out
}

/// `syn,ack`, from a name, a list, or names joined by `|`.
fn flags(value: &Value) -> Result<String, String> {
    let joined = value.get("|").unwrap_or(value);
    match joined.as_array() {
        Some(list) => Ok(list.iter().map(flags).collect::<Result<Vec<_>, _>>()?.join(",")),
        None => scalar(joined),
    }
}

fn limit(value: &Value) -> Result<String, String> {
    let over = if value["inv"] == true { "over " } else { "" };
    let rate = value["rate"].as_u64().ok_or("a limit has no rate")?;
    let burst = value["burst"].as_u64().filter(|burst| *burst > 0);
    let scale = match value["rate_unit"].as_str().unwrap_or("packets") {
        "packets" => {
            let burst = burst.map_or_else(String::new, |burst| format!(" burst {burst} packets"));
            return Ok(format!(" limit rate {over}{rate}/{}{burst}", text_of(&value["per"])));
        }
        "bytes" => 8,
        "kbytes" => 8 << 10,
        "mbytes" => 8 << 20,
        other => return Err(format!("the unit '{other}' of a limit is not known")),
    };
    if value["per"] != "second" {
        return Err("a limit in bytes has to be one per second".into());
    }
    Ok(format!(" limit rate {over}{}bit", rate.saturating_mul(scale)))
}
