//! The description of the API: the OpenAPI document for programs, and the reference page. Both follow from the declared addresses and types.

use super::endpoint::AnswerType;
use super::{ApiError, ENDPOINTS, LINES, Parameter};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Returns the schemas of all API types by name.
fn schemas() -> Map<String, Value> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    for endpoint in ENDPOINTS {
        if let AnswerType::Json(_, register) | AnswerType::Lines(_, register) = endpoint.answer {
            register(&mut generator);
        }
    }
    drop(generator.subschema_for::<ApiError>());
    generator.take_definitions(true)
}

fn reference_to(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Returns the OpenAPI 3.1 document of the API.
pub fn openapi() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in ENDPOINTS {
        let (media, schema) = match endpoint.answer {
            AnswerType::Json(name, _) => ("application/json", reference_to(name)),
            AnswerType::Lines(name, _) => (LINES, reference_to(name)),
            AnswerType::Other(media) => (media, json!({})),
        };
        let parameter = |p: &Parameter| {
            json!({ "name": p.name, "in": "query", "description": p.doc, "example": p.example,
                    "schema": { "type": "string" } })
        };
        let mut operation = json!({
            "summary": endpoint.doc,
            "parameters": endpoint.parameters.iter().map(parameter).collect::<Vec<_>>(),
            "responses": {
                "200": { "description": "The answer.", "content": { media: { "schema": schema } } },
                "default": { "description": "A refusal.",
                             "content": { "application/json": { "schema": reference_to("ApiError") } } },
            },
        });
        if endpoint.takes_text {
            let text = json!({ "application/toml": { "schema": { "type": "string" } } });
            operation["requestBody"] = json!({ "required": true, "content": text });
        }
        let methods = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        methods[endpoint.method.to_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Switchpath", "version": "1" },
        "paths": paths,
        "components": { "schemas": schemas() },
    })
}

const INTRODUCTION: &str = "\
# The control API

<!-- Made from the declarations in crates/control/src/api; `UPDATE_EXPECT=1 cargo test -p control` brings it up to date. -->

A running router answers HTTP/1.1 on a Unix socket (mode 0600) to its owner and to the members of `--socket-group`. With `--listen`
it also answers over TLS 1.3, to callers with a token. `switchpath show NOUN -j` prints the answer of the address of the same name.
Each connection carries one request.

```sh
curl --unix-socket /run/switchpath/control.sock http://switchpath/v1/ports
curl --unix-socket /run/switchpath/control.sock --data-binary @router.toml 'http://switchpath/v1/apply?name=router.toml'
curl --cacert certificate.pem -H 'Authorization: Bearer TOKEN' https://router.example:8443/v1/ports
```

Names are those of the configuration. A field's name carries its unit: `_bps` is bits per second, `_bytes` and `_packets`
count, `_ns` is nanoseconds. Fields may be added to version 1; none is removed or changes its meaning.

A refusal has a status of 400 or more and an `ApiError` as its body. Nothing was changed.
";

/// Returns the reference page of the API in Markdown.
pub fn reference() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n## Addresses\n\n| request | answer | needs | |\n|---|---|---|---|\n");
    for endpoint in ENDPOINTS {
        let answer = match endpoint.answer {
            AnswerType::Json(name, _) => format!("[{name}](#{})", name.to_lowercase()),
            AnswerType::Lines(name, _) => format!("lines of [{name}](#{})", name.to_lowercase()),
            AnswerType::Other(media) => format!("`{}`", media.split(';').next().unwrap_or(media)),
        };
        let (method, path, needs) = (endpoint.method, endpoint.path, endpoint.needs.name());
        let _ = writeln!(page, "| `{method} {path}` | {answer} | {needs} | {} |", endpoint.doc);
    }
    page.push_str("\nThe body of a `POST` is the text of a configuration, or of a batch for `/v1/routes`, or elements for `/v1/sets`, but for `/v1/confirm`, `/v1/rollback`, `/v1/sets/flush` and `/v1/subscribers/reload`, which have none.\n");
    page.push_str("\n| parameter of | | example | |\n|---|---|---|---|\n");
    for endpoint in ENDPOINTS {
        for p in endpoint.parameters {
            let _ = writeln!(page, "| `{}` | `{}` | `{}` | {} |", endpoint.path, p.name, p.example, p.doc);
        }
    }
    page.push_str("\n## Types\n");
    for (name, schema) in schemas() {
        let _ = write!(page, "\n### {name}\n\n{}\n\n", described(&schema));
        if let Some(fields) = schema["properties"].as_object() {
            page.push_str("| field | type | |\n|---|---|---|\n");
            for (field, schema) in fields {
                let _ = writeln!(page, "| `{field}` | {} | {} |", type_of(schema), described(schema));
            }
        }
        if let Some(values) = schema["oneOf"].as_array() {
            page.push_str("| value | |\n|---|---|\n");
            for value in values {
                let name = value["const"].as_str().unwrap_or_default();
                let _ = writeln!(page, "| `{name}` | {} |", described(value));
            }
        }
    }
    page
}

fn described(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('\n', " ")
}

/// Returns the type of a schema in a word or two.
fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        return choices.iter().map(type_of).collect::<Vec<_>>().join(" or ");
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => format!("list of {}", type_of(&schema["items"])),
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "any".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect_file;

    #[test]
    fn reference_page_matches_types() {
        expect_file!["../../../../docs/reference/control-api.md"].assert_eq(&reference());
    }

    #[test]
    fn every_type_and_field_is_described() {
        for (name, schema) in schemas() {
            assert!(!described(&schema).is_empty(), "{name}");
            for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
                let said = !described(schema).is_empty() || schema.get("$ref").is_some();
                assert!(said, "{name}.{field}");
            }
        }
    }

    #[test]
    fn every_answer_type_has_schema() {
        let document = openapi().to_string();
        for endpoint in ENDPOINTS {
            if let AnswerType::Json(name, _) | AnswerType::Lines(name, _) = endpoint.answer {
                assert!(document.contains(&format!("\"{name}\":{{")), "{name}");
            }
        }
    }
}
