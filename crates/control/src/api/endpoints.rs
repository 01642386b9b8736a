//! The declarations of all API addresses. The OpenAPI document and the reference page are generated from this table, and tests compare the request
//! parser and the answers with it.

use super::*;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// A query parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// A value it may have.
    pub example: &'static str,
    /// Its description in one sentence.
    pub doc: &'static str,
}

/// One method at one address.
#[derive(Clone, Copy)]
pub struct Endpoint {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The address.
    pub path: &'static str,
    /// Its description in one sentence.
    pub doc: &'static str,
    /// The query parameters.
    pub parameters: &'static [Parameter],
    /// True if the body is the text of a configuration.
    pub takes_text: bool,
    /// The rights it needs.
    pub needs: AccessLevel,
    /// The type of its answer.
    pub answer: AnswerType,
}

/// The rights of a caller: see [`crate::access`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AccessLevel {
    /// Read access: counters, tables, configurations.
    Read,
    /// Full access: change the router, or see the packets of others.
    Full,
}

impl AccessLevel {
    /// Returns its name for the reference page.
    pub const fn name(self) -> &'static str {
        match self {
            AccessLevel::Read => "read",
            AccessLevel::Full => "full",
        }
    }
}

/// The media type of lines of JSON.
pub(crate) const LINES: &str = "application/x-ndjson";

/// The format of an answer.
#[derive(Clone, Copy)]
pub enum AnswerType {
    /// JSON of a named type, which registers its schema.
    Json(&'static str, fn(&mut SchemaGenerator)),
    /// Lines of JSON, each of a named type, which registers its schema.
    Lines(&'static str, fn(&mut SchemaGenerator)),
    /// Another format, with its media type.
    Other(&'static str),
}

const fn json<T: JsonSchema>(name: &'static str) -> AnswerType {
    AnswerType::Json(name, |generator| drop(generator.subschema_for::<T>()))
}

const fn get(path: &'static str, doc: &'static str, answer: AnswerType) -> Endpoint {
    Endpoint { method: "GET", path, doc, parameters: &[], takes_text: false, needs: AccessLevel::Read, answer }
}

const fn post(path: &'static str, doc: &'static str, parameters: &'static [Parameter], answer: AnswerType) -> Endpoint {
    Endpoint { method: "POST", path, doc, parameters, takes_text: true, needs: AccessLevel::Full, answer }
}

const NAME: &[Parameter] = &[Parameter {
    name: "name",
    example: "router.toml",
    doc: "The name of the file, for messages; `request` where it is left out.",
}];

const INJECT: &[Parameter] = &[
    Parameter { name: "port", example: "lan", doc: "The port they come in by; the only one where it is left out." },
    Parameter { name: "ours", example: "true", doc: "They are for that port, whatever station they name." },
];

const CONFIRM: Parameter = Parameter {
    name: "confirm",
    example: "60s",
    doc: "The router rolls back unless it receives `/v1/confirm` within this time (1s to 86400s), even if the caller is gone.",
};

const LOGIN: Parameter = Parameter {
    name: "login",
    example: "192.0.2.7,192.0.2.1",
    doc: "The login of the caller: its source and destination address, a dash if one is unknown. A port that \
          would take an interface which carries it is refused. Over the remote API the connection itself counts as one.",
};

const FORCE: Parameter =
    Parameter { name: "force", example: "true", doc: "Take interfaces that carry the login all the same." };

const APPLY: &[Parameter] = &[NAME[0], CONFIRM, LOGIN, FORCE];

const ROLLBACK: &[Parameter] = &[
    Parameter { name: "steps", example: "1", doc: "So many configurations back." },
    Parameter { name: "to", example: "3", doc: "To the configuration of this generation." },
    CONFIRM,
    LOGIN,
    FORCE,
];

/// All addresses of the API.
pub const ENDPOINTS: &[Endpoint] = &[
    get("/v1/status", "The router as a whole.", json::<Status>("Status")),
    get("/v1/ports", "The ports, their interfaces and links.", json::<Ports>("Ports")),
    get("/v1/paths", "The switching paths.", json::<Paths>("Paths")),
    get("/v1/queues", "The queues of paths and links.", json::<QueuesReply>("QueuesReply")),
    Endpoint {
        parameters: &[
            Parameter { name: "port", example: "lan", doc: "Only those of this port." },
            Parameter {
                name: "samples",
                example: "10",
                doc: "Of the series the latest so many values; all 300 where it is left out, none with 0.",
            },
        ],
        ..get(
            "/v1/links",
            "The link of each port: backlog, sojourn times, drops and marks by group of queues, and the state of the scheme.",
            json::<Links>("Links"),
        )
    },
    get("/v1/workers", "The workers, whether they move or not.", json::<Workers>("Workers")),
    get("/v1/tasks", "The tasks of the CPU scheduler of each worker.", json::<TasksReply>("TasksReply")),
    Endpoint {
        parameters: &[
            Parameter { name: "prefix", example: "192.0.2.0/24", doc: "Only routes to destinations within it." },
            Parameter { name: "limit", example: "100", doc: "At most so many; 1000 where it is left out." },
            Parameter { name: "origin", example: "api", doc: "Only those that come from here." },
            Parameter {
                name: "vrf",
                example: "main",
                doc: "Only those of this VRF; `main` is where everything else is.",
            },
        ],
        ..get("/v1/routes", "The routes.", json::<Routes>("Routes"))
    },
    post(
        "/v1/routes",
        "Adds and takes away routes and neighbours: all of a batch, or nothing. The body has one change a line, as \
         `docs/operate/routes.md` tells.",
        NAME,
        json::<Edited>("Edited"),
    ),
    get("/v1/routes/batch", "How far such a batch is, while it is being made.", json::<Editing>("Editing")),
    get("/v1/functions", "The functions of paths and what they have counted.", json::<FunctionsReply>("FunctionsReply")),
    Endpoint {
        parameters: &[Parameter {
            name: "limit",
            example: "100",
            doc: "At most so many connections; 1000 where it is left out.",
        }],
        ..get("/v1/nat", "Address translation and its connections.", json::<NatReply>("NatReply"))
    },
    get("/v1/state", "Ephemeral state: its stores, and what packets asked for.", json::<Ephemeral>("Ephemeral")),
    Endpoint {
        needs: AccessLevel::Full,
        parameters: &[
            Parameter { name: "port", example: "lan", doc: "Only those of this port; `central` is in the middle." },
            Parameter { name: "limit", example: "100", doc: "At most so many; 1000 where it is left out." },
        ],
        ..get("/v1/state/entries", "The entries of its stores.", json::<EphemeralEntries>("EphemeralEntries"))
    },
    get(
        "/v1/policy",
        "The objectives of packets, and the schemes that follow from them.",
        json::<Policies>("Policies"),
    ),
    get("/v1/multicast", "The multicast groups that are forwarded.", json::<Multicast>("Multicast")),
    get("/v1/counters", "Every counter, with a sentence about it.", json::<CountersReply>("CountersReply")),
    get("/v1/neighbours", "The neighbours.", json::<Neighbours>("Neighbours")),
    get("/v1/drops", "Drops by reason.", json::<Drops>("Drops")),
    Endpoint {
        parameters: &[Parameter { name: "since", example: "17", doc: "Only events with this number or a later one." }],
        ..get("/v1/events", "The last 500 events of each kind.", json::<Events>("Events"))
    },
    get("/v1/accounting", "The packet ledgers: that every packet has met one fate.", json::<Ledgers>("Ledgers")),
    Endpoint {
        parameters: &[Parameter {
            name: "generation",
            example: "3",
            doc: "The configuration of this generation, from the history, instead of the one that runs.",
        }],
        ..get("/v1/config", "The configuration that runs.", json::<Config>("Config"))
    },
    get("/v1/history", "The configurations that have run, at most a hundred.", json::<History>("History")),
    Endpoint {
        needs: AccessLevel::Read,
        ..post("/v1/check", "Checks a configuration. Changes nothing.", NAME, json::<CheckReply>("CheckReply"))
    },
    Endpoint {
        needs: AccessLevel::Read,
        ..post(
            "/v1/diff",
            "Says what applying a configuration would change. Changes nothing.",
            NAME,
            json::<Changes>("Changes"),
        )
    },
    post(
        "/v1/apply",
        "Applies a configuration: all of it, or nothing. Answers when every worker runs it. Refused while another one waits \
         to be confirmed.",
        APPLY,
        json::<Applied>("Applied"),
    ),
    Endpoint {
        takes_text: false,
        ..post(
            "/v1/confirm",
            "Keeps the configuration that waits to be confirmed.",
            &[],
            json::<Confirmed>("Confirmed"),
        )
    },
    Endpoint {
        takes_text: false,
        ..post(
            "/v1/rollback",
            "Has an earlier configuration run again, as a generation of its own: the one before, where nothing else is said.",
            ROLLBACK,
            json::<Applied>("Applied"),
        )
    },
    Endpoint {
        parameters: &[
            Parameter {
                name: "packet",
                example: "in lan ip saddr 192.0.2.7 daddr 198.51.100.9 udp dport 5060",
                doc: "The packet in words, as `switchpath explain` takes it; what is not said has a default.",
            },
            Parameter { name: "frame", example: "0200000000010200000000020806", doc: "Or the frame in hexadecimal." },
            Parameter {
                name: "port",
                example: "lan",
                doc: "The port the frame comes in by; the only one where it is left out.",
            },
            Parameter { name: "ours", example: "true", doc: "The frame is for the port, whatever station it names." },
        ],
        ..get(
            "/v1/explain",
            "What the router would do with a packet, step by step, and why. Sends nothing and counts nothing.",
            json::<ExplainReply>("ExplainReply"),
        )
    },
    Endpoint {
        needs: AccessLevel::Full,
        parameters: &[
            Parameter {
                name: "match",
                example: "ip dscp ef udp",
                doc: "Only these packets; all where it is left out.",
            },
            Parameter { name: "limit", example: "1000", doc: "Ends after so many packets." },
            Parameter { name: "snaplen", example: "128", doc: "At most so many bytes of each packet." },
            Parameter {
                name: "arrivals",
                example: "true",
                doc: "Each packet as it came in as well, before it as it left: such a file can be replayed.",
            },
        ],
        ..get(
            "/v1/capture",
            "Every packet as it meets its fate, from now on: a pcapng file that grows until its reader hangs up. The \
             comment of a packet is its fate, `sent PORT`, `consumed` or `dropped REASON`, then the path it took and where \
             it came from: `, path NAME, in PORT`, or `, generated`. The trailer `switchpath-missed` counts packets its \
             reader was too slow for.",
            AnswerType::Other("application/x-pcapng"),
        )
    },
    Endpoint {
        needs: AccessLevel::Full,
        parameters: &[
            Parameter {
                name: "match",
                example: "ip dscp ef udp",
                doc: "Only these packets; all where it is left out.",
            },
            Parameter { name: "port", example: "lan", doc: "Only what comes in by this port." },
            Parameter { name: "limit", example: "10", doc: "Ends after so many packets." },
            Parameter {
                name: "rate",
                example: "100",
                doc: "Follows at most so many packets a second; 100 where it is left out.",
            },
            Parameter {
                name: "injected",
                example: "true",
                doc: "Only what comes in by `/v1/inject`, all of it; without it, nothing of that.",
            },
        ],
        ..get(
            "/v1/trace",
            "The way of packets through the router, from now on: a line of JSON (TracedPacket) for each that has met its fate, \
             until the reader hangs up. Packets beyond the rate are not looked at. The trailer `switchpath-missed` counts \
             those that could not be followed, or that its reader was too slow for.",
            AnswerType::Lines("TracedPacket", |generator| drop(generator.subschema_for::<TracedPacket>())),
        )
    },
    Endpoint {
        parameters: &[
            Parameter {
                name: "time",
                example: "200ms",
                doc: "How long to look on, 1ms to 60s; 1s where it is left out.",
            },
            Parameter {
                name: "events",
                example: "1000000",
                doc: "Keeps the latest so many events of each worker, 2000000 at most; 100000 where it is left out.",
            },
        ],
        ..get(
            "/v1/schedule",
            "What the CPU scheduler of each worker does from now on, as a file of trace events for ui.perfetto.dev: runs with \
             their packets, bytes and cost, what waited for what, time-outs, drops, queues, and the efficiency index. Comes when \
             the time is over. One may look on at a time. The trailer `switchpath-missed` counts the events there was no room \
             for: the oldest.",
            AnswerType::Other("application/json"),
        )
    },
    post(
        "/v1/inject",
        "Frames come in by a port as if its device had received them. The body has a frame a line, in hexadecimal, at most \
         256 of them. What becomes of them is told by `/v1/trace` with `injected`.",
        INJECT,
        json::<Injected>("Injected"),
    ),
    get(
        "/metrics",
        "All counters for Prometheus: OpenMetrics, or the older text form 0.0.4 where `Accept` asks for that.",
        AnswerType::Other("application/openmetrics-text; version=1.0.0; charset=utf-8"),
    ),
    get("/v1/openapi.json", "This page for programs (OpenAPI 3.1).", AnswerType::Other("application/json")),
];

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

A running router answers HTTP/1.1 on a Unix socket that its owner may use (mode 0600) and the groups it names, and where it is
started with `--listen`, over TLS 1.3 to whoever has a token. `switchpath show NOUN -j` prints what the address of the same name
answers. One request a connection.

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
    page.push_str("\nThe body of a `POST` is the text of a configuration, or of a batch for `/v1/routes`, but for `/v1/confirm` and `/v1/rollback`, which have none.\n");
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
