//! Rules for all sections: every declared key has an effect, and every effect is reported as a difference.

use plan::{Catalogue, GuestCode, Guests, InstructionDeclaration, Plan, diff};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use toml::de::{DeTable, DeValue};
use units::declare::{Declaration, DeclaredCost};

/// Configurations that together contain every table, with values that are neither the default nor the example.
const DOCUMENTS: [&str; 7] = [
    include_str!("../../corpus/good-everything.toml"),
    include_str!("../../corpus/good-cpu.toml"),
    include_str!("../../corpus/good-policy.toml"),
    include_str!("../sections/edge.toml"),
    include_str!("../sections/links.toml"),
    include_str!("../sections/access.toml"),
    include_str!("../sections/tunnels.toml"),
];

/// Keys without an effect of their own: a route has one of several targets, a leak is only a permission, and a file of rules is read beforehand.
const TOGETHER: [&str; 6] =
    ["path.*.filter.file", "route.*.blackhole", "route.*.leak", "route.*.unreachable", "routing.rules.file", "version"];

/// A catalogue with an instruction and a packet function.
#[derive(Debug)]
struct Mean;

impl Guests for Mean {
    fn find(&self, name: &str) -> Result<(Declaration, GuestCode), (String, String)> {
        Err((format!("there is no guest '{name}'"), String::new()))
    }

    fn function(&self, _: &str) -> Result<(Declaration, GuestCode), (String, String)> {
        let declared =
            Declaration { name: "guest:names", summary: "", cost: DeclaredCost::None, source: "", options: &[] };
        Ok((declared, GuestCode { digest: 2, maker: Arc::new(()) }))
    }

    fn instruction(&self, _: &str) -> Result<(InstructionDeclaration, GuestCode), (String, String)> {
        let declared = InstructionDeclaration { name: "mean", summary: "", tags: 1, creates: 1 };
        Ok((declared, GuestCode { digest: 1, maker: Arc::new(()) }))
    }
}

fn catalogue() -> Catalogue {
    let mut catalogue = crate::catalogue::catalogue();
    let device = |name| Declaration { name, summary: "", cost: DeclaredCost::None, source: "", options: &[] };
    catalogue.devices.extend(["xdp", "gre", "ipip", "vxlan"].map(device));
    catalogue.guests = Some(Arc::new(Mean));
    catalogue
}

/// A TOML value as JSON, and back.
fn json_of(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::Integer(number) => json!(i64::from_str_radix(number.as_str(), number.radix()).unwrap()),
        DeValue::Float(number) => json!(number.as_str().parse::<f64>().unwrap()),
        DeValue::Boolean(value) => json!(value),
        DeValue::Array(array) => array.iter().map(|value| json_of(value.get_ref())).collect(),
        DeValue::Table(table) => table_of(table),
        other => json!(other.as_str()),
    }
}

fn table_of(table: &DeTable<'_>) -> Value {
    table.iter().map(|(key, value)| (key.get_ref().to_string(), json_of(value.get_ref()))).collect()
}

fn toml_of(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("[{}]", list.iter().map(toml_of).collect::<Vec<_>>().join(", ")),
        Value::Object(table) => {
            let pairs: Vec<String> = table.iter().map(|(key, value)| format!("{key} = {}", toml_of(value))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        value => value.to_string(),
    }
}

fn read(document: &Value, catalogue: &Catalogue) -> Option<Plan> {
    let lines = document.as_object()?.iter().map(|(key, value)| format!("{key} = {}\n", toml_of(value)));
    plan::check(&lines.collect::<String>(), "f", catalogue).ok()
}

/// Every key of a schema: its path, in which `*` stands for a name or an index, and its own schema.
fn keys<'s>(schema: &'s Value, path: &[&'s str], all: &mut Vec<(Vec<&'s str>, &'s Value)>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path: Vec<&str> = path.iter().copied().chain([name.as_str()]).collect();
        all.push((path.clone(), property));
        keys(property, &path, all);
        property["oneOf"].as_array().into_iter().flatten().for_each(|one| keys(one, &path, all));
        let inner = property["patternProperties"].as_object().into_iter().flatten().map(|(_, inner)| inner);
        for inner in inner.chain([&property["items"]]) {
            keys(inner, &path.iter().copied().chain(["*"]).collect::<Vec<_>>(), all);
        }
    }
}

/// Valid values of a key, from its schema.
fn values(schema: &Value) -> Vec<Value> {
    let listed = ["enum", "examples"].into_iter().filter_map(|key| schema[key].as_array()).flatten().cloned();
    let single = ["default", "minimum", "maximum"].into_iter().filter_map(|key| schema.get(key).cloned());
    let mut all: Vec<Value> = listed.chain(single).collect();
    if schema["type"] == "boolean" {
        all.extend([json!(true), json!(false)]);
    }
    let members = values_of(&schema["items"]).into_iter().map(|member| json!([member]));
    all.extend(members);
    all.extend(schema["oneOf"].as_array().into_iter().flatten().flat_map(values));
    all
}

fn values_of(items: &Value) -> Vec<Value> {
    if items["type"] == "string" { values(items) } else { Vec::new() }
}

/// The tables of a document at a path.
fn tables(document: &Value, path: &[&str], at: String, all: &mut Vec<String>) {
    let Some((step, rest)) = path.split_first() else {
        all.extend(document.is_object().then_some(at));
        return;
    };
    match (document, *step) {
        (Value::Object(table), "*") => {
            table.iter().for_each(|(key, value)| tables(value, rest, format!("{at}/{key}"), all))
        }
        (Value::Array(list), "*") => {
            list.iter().enumerate().for_each(|(index, value)| tables(value, rest, format!("{at}/{index}"), all))
        }
        (Value::Object(table), key) => {
            table.get(key).into_iter().for_each(|value| tables(value, rest, format!("{at}/{key}"), all))
        }
        _ => {}
    }
}

/// The document with each valid value of a key in one of its tables, and without the key.
fn variants(document: &Value, table: &str, key: &str, schema: &Value) -> Vec<Value> {
    let with = |value: Option<Value>| {
        let mut document = document.clone();
        let table: &mut Map<String, Value> = document.pointer_mut(table).unwrap().as_object_mut().unwrap();
        match value {
            Some(value) => table.insert(key.to_string(), value),
            None => table.remove(key),
        };
        document
    };
    let mut all = vec![document.clone(), with(None)];
    all.extend(values(schema).into_iter().map(|value| with(Some(value))));
    all
}

#[test]
fn every_key_changes_the_plan_and_every_change_is_reported() {
    let (catalogue, schema) = (catalogue(), plan::schema(&catalogue()));
    let documents = DOCUMENTS.map(|text| table_of(DeTable::parse(text).unwrap().get_ref()));
    for document in &documents {
        assert!(read(document, &catalogue).is_some(), "{document}");
    }
    let mut all = Vec::new();
    keys(&schema, &[], &mut all);
    let (mut without_effect, mut unreported) = (Vec::new(), BTreeSet::new());
    for (path, schema) in &all {
        let (key, parents) = path.split_last().unwrap();
        let mut has_effect = false;
        for document in &documents {
            let mut places = Vec::new();
            tables(document, parents, String::new(), &mut places);
            for place in places {
                let variants = variants(document, &place, key, schema);
                let plans: Vec<Plan> = variants.iter().filter_map(|document| read(document, &catalogue)).collect();
                for pair in plans.windows(2) {
                    let reported = diff(&pair[0], &pair[1]).iter().any(|change| !change.values().is_empty());
                    if reported == (pair[0] == pair[1]) {
                        unreported.insert(format!("{place}/{key}"));
                    }
                    has_effect |= reported;
                }
            }
        }
        // A table has no effect but that of its keys.
        let is_table = all.iter().any(|(other, _)| other.len() > path.len() && other.starts_with(path));
        if !has_effect && !is_table {
            without_effect.push(path.join("."));
        }
    }
    assert_eq!(unreported, BTreeSet::new(), "differences of these keys are not reported, or there is none that is");
    assert_eq!(without_effect, TOGETHER, "no document shows what these keys change");
}
