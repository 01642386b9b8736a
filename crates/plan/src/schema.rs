//! The JSON schema of the configuration, for editors: completion, and errors underlined while typing.
//!
//! It covers the rules for single values; [`crate::check()`] checks the rest.

use crate::Catalogue;
use crate::key::{Form, Key, Kind};
use crate::section::ROOT;
use crate::section::port::interface::MOST_INTERFACES;
use crate::section::route::hop::MOST_NEXT_HOPS;
use serde_json::{Map, Value, json};
use units::declare::Declaration;

/// The schema (JSON Schema 2020-12) of a configuration that may use the entries of the catalogue.
pub fn schema(catalogue: &Catalogue) -> Value {
    let mut schema = object(ROOT, catalogue);
    schema.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".into(), json!("Switchpath configuration"));
    Value::Object(schema)
}

fn object(keys: &[Key], catalogue: &Catalogue) -> Map<String, Value> {
    let properties: Map<String, Value> =
        keys.iter().map(|key| (key.name.to_string(), Value::Object(property(key, catalogue)))).collect();
    let required: Vec<&str> = keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    let mut out = Map::new();
    out.insert("type".into(), json!("object"));
    out.insert("properties".into(), Value::Object(properties));
    out.insert("required".into(), json!(required));
    out.insert("additionalProperties".into(), json!(false));
    out
}

fn property(key: &Key, catalogue: &Catalogue) -> Map<String, Value> {
    let mut out = match &key.kind {
        Kind::Integer { least, most } => members(json!({ "type": "integer", "minimum": least, "maximum": most })),
        Kind::Boolean => members(json!({ "type": "boolean" })),
        Kind::Probability => members(json!({ "type": "number", "minimum": 0, "maximum": 1 })),
        Kind::Text(form) | Kind::Quantity { form, .. } => text(*form, catalogue),
        Kind::Texts { form, most } => {
            members(json!({ "type": "array", "items": text(*form, catalogue), "maxItems": most }))
        }
        Kind::TextsOrTable { form, most, keys } => {
            let list = json!({ "type": "array", "items": text(*form, catalogue), "maxItems": most });
            members(json!({ "oneOf": [list, object(keys, catalogue)] }))
        }
        Kind::OneOrMore(form) => {
            let one = text(*form, catalogue);
            let list = json!({ "type": "array", "items": one, "minItems": 1, "maxItems": MOST_NEXT_HOPS });
            members(json!({ "oneOf": [one, list] }))
        }
        Kind::Table(keys) => object(keys, catalogue),
        Kind::Tables { name, keys } => members(json!({
            "type": "object",
            "patternProperties": { format!("^{name}$"): object(keys, catalogue) },
            "additionalProperties": false,
            "maxProperties": MOST_INTERFACES,
        })),
        Kind::List(keys) => members(json!({ "type": "array", "items": object(keys, catalogue) })),
        Kind::Switch(keys) => members(json!({ "oneOf": [{ "type": "boolean" }, object(keys, catalogue)] })),
        Kind::Counts { least, most, highest } => {
            let one = json!({ "type": "integer", "minimum": 0, "maximum": highest });
            let length = json!({ "type": "array", "items": one, "minItems": least, "maxItems": most });
            members(json!({ "oneOf": [{ "type": "array", "maxItems": 0 }, length] }))
        }
    };
    let said = out.remove("description").and_then(|d| d.as_str().map(|d| format!("{} {d}", key.doc)));
    out.insert("description".into(), json!(said.as_deref().unwrap_or(key.doc)));
    // Defaults are written so that they parse as JSON too; a test ensures that.
    if let Ok(default) = serde_json::from_str::<Value>(key.default) {
        out.insert("default".into(), default);
    }
    if let Some(example) = serde_json::from_str::<Value>(key.example).ok().filter(|e| !e.is_object()) {
        out.insert("examples".into(), json!([example]));
    }
    out
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn text(form: Form, catalogue: &Catalogue) -> Map<String, Value> {
    let (pattern, description) = match form {
        Form::Choice(names) => return members(json!({ "type": "string", "enum": names })),
        Form::CpuScheduler => {
            let declarations: Vec<_> = catalogue.cpu_schedulers.iter().map(|one| one.declaration).collect();
            let names: Vec<_> = declarations.iter().map(|one| one.name).collect();
            return members(json!({ "type": "string", "enum": names, "description": listed(&declarations) }));
        }
        Form::Pattern(pattern) => (pattern.to_string(), None),
        Form::Except(pattern, names) => {
            return members(json!({ "type": "string", "pattern": pattern, "not": { "enum": names } }));
        }
        Form::Call(declared) => (calls(declared), Some(listed(declared))),
        Form::Device => (format!("^({}):", names(&catalogue.devices)), Some(listed(&catalogue.devices))),
        Form::Scheme => (scheme(catalogue), Some(listed(&all_schemes(catalogue)))),
        // Only the router knows the available guests.
        Form::Function => {
            let pattern = format!(r"^\s*({}|guest:[a-z][a-z0-9_-]*)\s*(\(.*\)\s*)?$", names(&catalogue.functions));
            (pattern, Some(listed(&catalogue.functions)))
        }
    };
    let mut out = members(json!({ "type": "string", "pattern": pattern }));
    out.extend(description.map(|description| ("description".into(), json!(description))));
    out
}

fn all_schemes(catalogue: &Catalogue) -> Vec<Declaration> {
    catalogue.schemes.iter().copied().chain(catalogue.orders.iter().map(|order| order.declaration)).collect()
}

/// The pattern of a scheme with or without others in braces. A pattern cannot limit the nesting depth.
fn scheme(catalogue: &Catalogue) -> String {
    let orders: Vec<Declaration> = catalogue.orders.iter().map(|order| order.declaration).collect();
    let all = names(&all_schemes(catalogue));
    let options = r"\s*(\([^{}]*\)\s*)?";
    // Only the router knows the available guests.
    let all = format!("{all}|guest:[a-z][a-z0-9_-]*");
    if orders.is_empty() {
        return format!(r"^\s*({all}){options}$");
    }
    format!(r"^\s*(({all}){options}|({}){options}\{{.*\S.*\}}\s*)$", names(&orders))
}

fn names(declarations: &[Declaration]) -> String {
    declarations.iter().map(|d| d.name).collect::<Vec<_>>().join("|")
}

/// A name of the catalogue, with or without options.
fn calls(declarations: &[Declaration]) -> String {
    format!(r"^\s*({})\s*(\(.*\)\s*)?$", names(declarations))
}

/// `fifo: first in, first out; limit (default 1000): packets that wait.`
fn listed(declarations: &[Declaration]) -> String {
    let one = |d: &Declaration| {
        let options: Vec<String> =
            d.options.iter().map(|o| format!("; {} (default {}): {}", o.name, o.default, o.doc)).collect();
        format!("'{}': {}{}", d.name, d.summary, options.concat())
    };
    declarations.iter().map(one).collect::<Vec<_>>().join(" ")
}
