//! The JSON schema agrees with the parser.

use crate::catalogue::catalogue;
use serde_json::{Value, json};
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// A TOML document as JSON, which is what an editor validates.
fn json_of(source: &str) -> Value {
    let table = DeTable::parse(source).unwrap();
    table_json(table.get_ref())
}

fn table_json(table: &DeTable<'_>) -> Value {
    Value::Object(table.iter().map(|(key, value)| (key.get_ref().to_string(), value_json(value.get_ref()))).collect())
}

fn value_json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => json!(text),
        DeValue::Integer(number) => json!(i64::from_str_radix(number.as_str(), number.radix()).unwrap()),
        DeValue::Float(number) => json!(number.as_str().parse::<f64>().unwrap()),
        DeValue::Boolean(value) => json!(value),
        DeValue::Datetime(date) => json!(date.to_string()),
        DeValue::Array(array) => array.iter().map(|v| value_json(v.get_ref())).collect(),
        DeValue::Table(table) => table_json(table),
    }
}

fn validator() -> jsonschema::Validator {
    let schema = plan::schema(&catalogue());
    jsonschema::meta::validate(&schema).expect("a schema of its draft");
    jsonschema::validator_for(&schema).unwrap()
}

#[test]
fn schema_accepts_what_the_parser_accepts() {
    let validator = validator();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut taken = 0;
    for folder in [folder.join("../../examples"), folder.join("corpus")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().path();
            if plan::load(&file, &catalogue()).is_err() {
                continue;
            }
            let instance = json_of(&std::fs::read_to_string(&file).unwrap());
            let wrong: Vec<String> =
                validator.iter_errors(&instance).map(|e| format!("{} {e}", e.instance_path())).collect();
            assert!(wrong.is_empty(), "{}: {wrong:?}", file.display());
            taken += 1;
        }
    }
    assert!(taken >= 4, "only {taken} configurations were compared");
}

#[test]
fn editor_underlines_simple_errors() {
    let validator = validator();
    let base = r#"version = 1
        port.lan = { device = "packet:eth0" }
        "#;
    assert!(validator.is_valid(&json_of(base)));
    for wrong in [
        "colour = 1",
        "router.workers = 65",
        "router.workers = \"2\"",
        "port.Lan = { device = \"packet:eth0\" }",
        "port.wan = {}",
        "port.wan = { device = \"eth0\" }",
        "port.wan = { device = \"memory:a\", mtu = 90000 }",
        "port.wan = { device = \"memory:a\", scheme = \"fifi\" }",
        "port.wan = { device = \"memory:a\", mac = \"02:00\" }",
        "port.wan = { device = \"memory:a\", address = [\"192.0.2.1\"] }",
        "port.wan = { device = \"memory:a\", faults = { loss = 2 } }",
        "port.wan = { device = \"memory:a\", vlan.x = {} }",
        "route = [{ via = \"192.0.2.1\" }]",
        "route = [{ to = \"10.0.0.0\" }]",
        "path = [{ name = \"x\", match = \"dport 3\" }]",
        "path = [{ name = \"control\", match = \"any\" }]",
        "path = [{ name = \"x\", match = \"any\", functions = [\"route\"] }]",
        "neighbour = [{}]",
        "cpu.layout = 4",
        "cpu.scheduler = \"wfq\"",
        "cpu.forwarding = \"throttled\"",
        "cpu.balance = [5]",
        "cpu.balance = [5, -1, 5]",
        "cpu.tune = true",
        "port.wan = { device = \"memory:a\", line_rate = \"140\" }",
        "port.wan = { device = \"memory:a\", congestion = \"stop\" }",
        "port.wan = { device = \"memory:a\", estimator = { low = 0 } }",
        "path = [{ name = \"x\", match = \"any\", reserve = \"fast\" }]",
        "path = [{ name = \"x\", match = \"any\", cost = \"2ns/kb\" }]",
    ] {
        let source = format!("{base}{wrong}\n");
        assert!(!validator.is_valid(&json_of(&source)), "{wrong}");
        assert!(plan::check(&source, "f", &catalogue()).is_err(), "the reader is no laxer: {wrong}");
    }
}

#[test]
fn every_key_has_a_description_and_defaults_validate() {
    fn walk(schema: &Value, path: &str, seen: &mut usize) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        for (name, property) in properties {
            let path = format!("{path}.{name}");
            *seen += 1;
            assert!(property["description"].as_str().is_some_and(|d| d.ends_with('.')), "{path} is not described");
            for value in
                property.get("default").into_iter().chain(property["examples"].as_array().into_iter().flatten())
            {
                assert!(jsonschema::is_valid(property, value), "{path}: {value}");
            }
            walk(property, &path, seen);
            walk(&property["items"], &path, seen);
            for (_, inner) in property["patternProperties"].as_object().into_iter().flatten() {
                walk(inner, &path, seen);
            }
        }
    }
    let mut seen = 0;
    walk(&plan::schema(&catalogue()), "", &mut seen);
    assert!(seen > 40, "{seen} keys");
}
