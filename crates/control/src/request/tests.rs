//! Parsing of requests.

use super::*;
use proptest::prelude::*;

fn get(path: &str, query: &str) -> Result<Request, ApiError> {
    parse("GET", path, query, b"")
}

#[test]
fn every_endpoint_parses_its_example_parameters() {
    for endpoint in ENDPOINTS {
        let mut query = form_urlencoded::Serializer::new(String::new());
        // `to` and `steps` exclude each other.
        let given = endpoint.parameters.iter().filter(|p| p.name != "steps");
        query.extend_pairs(given.map(|p| (p.name, p.example)));
        let body: &[u8] = if endpoint.path == "/v1/inject" { b"0200\n" } else { b"version = 1" };
        for query in [query.finish(), String::new()] {
            let parsed = parse(endpoint.method, endpoint.path, &query, body);
            // Only the names of a set and of a slice are required, that of a list of rules to change, and that of a port whose shares to change.
            let required = |name: &&str| match *name {
                "list" => endpoint.takes_text,
                "port" => endpoint.path == "/v1/shares/batch",
                name => name == "set" || name == "slice",
            };
            let missing = endpoint.parameters.iter().map(|parameter| parameter.name).find(required);
            if let Some(missing) = missing.filter(|_| query.is_empty()) {
                let error = parsed.expect_err(endpoint.path).to_string();
                assert!(error.contains(&format!("the parameter {missing} is missing")), "{}: {error}", endpoint.path);
                continue;
            }
            parsed.unwrap_or_else(|e| panic!("{} {}?{query}: {e}", endpoint.method, endpoint.path));
        }
    }
}

#[test]
fn query_parameters_are_parsed_as_documented() {
    assert_eq!(get("/v1/routes", ""), Ok(Request::Routes { within: None, origin: None, vrf: None, limit: 1000 }));
    let within = Some("192.0.2.0/24".parse().unwrap());
    let (origin, vrf) = (Some(Origin::Api), Some("red".to_string()));
    assert_eq!(
        get("/v1/routes", "prefix=192.0.2.7%2F24&limit=5&origin=api&vrf=red"),
        Ok(Request::Routes { within, origin, vrf, limit: 5 })
    );
    let text = ConfigText { name: "request".into(), text: "flush".into() };
    assert_eq!(parse("POST", "/v1/routes", "", b"flush"), Ok(Request::Edit(text)));
    let Ok(Request::Capture(capture)) = get("/v1/capture", "match=udp+dport+53&limit=2&snaplen=64") else { panic!() };
    assert_eq!(capture.matching.to_string(), "udp dport 53");
    assert_eq!((capture.limit, capture.snaplen), (Some(2), Some(64)));
    let text = ConfigText { name: "a b.toml".into(), text: "x".into() };
    assert_eq!(
        parse("POST", "/v1/apply", "name=a%20b.toml", b"x"),
        Ok(Request::Apply(text.clone(), ApplyConditions::default()))
    );
    let conditions = ApplyConditions {
        confirm: Some(Nanos::secs(60)),
        login: Some("192.0.2.7,192.0.2.1".parse().unwrap()),
        force: true,
    };
    let query = "name=a%20b.toml&confirm=60s&login=192.0.2.7,192.0.2.1&force=true";
    assert_eq!(parse("POST", "/v1/apply", query, b"x"), Ok(Request::Apply(text, conditions)));
    let rollback = |query| match parse("POST", "/v1/rollback", query, b"") {
        Ok(Request::RollBack(back, _)) => back,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (rollback(""), rollback("steps=3"), rollback("to=7")),
        (RollbackTarget::Steps(1), RollbackTarget::Steps(3), RollbackTarget::To(7))
    );
    assert_eq!(get("/v1/config", "generation=3"), Ok(Request::Config(Some(3))));
}

#[test]
fn invalid_requests_are_refused_with_a_hint() {
    for (method, path, query, body, kind) in [
        ("GET", "/", "", &b""[..], ErrorKind::NotFound),
        ("GET", "/v1/ports/", "", b"", ErrorKind::NotFound),
        ("POST", "/v1/ports", "", b"", ErrorKind::Method),
        ("GET", "/v1/apply", "", b"", ErrorKind::Method),
        ("GET", "/v1/ports", "x=1", b"", ErrorKind::BadRequest),
        ("GET", "/v1/routes", "limit=0", b"", ErrorKind::BadRequest),
        ("GET", "/v1/routes", "limit=1&limit=2", b"", ErrorKind::BadRequest),
        ("GET", "/v1/routes", "prefix=lan", b"", ErrorKind::BadRequest),
        ("GET", "/v1/routes", "origin=me", b"", ErrorKind::BadRequest),
        ("POST", "/v1/routes", "", b"\xff", ErrorKind::BadRequest),
        ("GET", "/v1/events", "since=-1", b"", ErrorKind::BadRequest),
        ("GET", "/v1/capture", "match=udp+sport", b"", ErrorKind::BadRequest),
        ("GET", "/v1/capture", "snaplen=1", b"", ErrorKind::BadRequest),
        ("POST", "/v1/apply", "", b"\xff", ErrorKind::BadRequest),
        ("POST", "/v1/apply", "confirm=60", b"", ErrorKind::BadRequest),
        ("POST", "/v1/apply", "confirm=0s", b"", ErrorKind::BadRequest),
        ("POST", "/v1/apply", "login=me", b"", ErrorKind::BadRequest),
        ("POST", "/v1/apply", "force=perhaps", b"", ErrorKind::BadRequest),
        ("POST", "/v1/rollback", "steps=1&to=2", b"", ErrorKind::BadRequest),
        ("GET", "/v1/config", "generation=0", b"", ErrorKind::BadRequest),
    ] {
        let error = parse(method, path, query, body).unwrap_err();
        assert_eq!(error.error, kind, "{method} {path}?{query}");
        assert!(!error.reason.is_empty() && !error.hint.is_empty(), "{error}");
    }
    let long = "/".repeat(5000) + "\u{1b}[2J";
    assert!(get(&long, "").unwrap_err().reason.len() < 500);
}

/// The corpus of the fuzz target: a request line, an empty line, and the body.
#[test]
fn corpus_is_parsed_without_panic() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/request");
    let mut files = 0;
    for file in std::fs::read_dir(corpus).unwrap() {
        exercise(&std::fs::read(file.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files > 20, "{files}");
}

proptest! {
    #[test]
    fn any_request_is_answered(method in "GET|POST|\\PC*", path in ".*", query in ".*", body: Vec<u8>) {
        let _ = parse(&method, &path, &query, body);
    }

    #[test]
    fn any_query_of_any_address_is_answered(
        at in 0..ENDPOINTS.len(),
        name in "match|limit|snaplen|prefix|since|name|\\PC*",
        value in "\\PC*|[0-9]{1,25}|[0-9a-f.:/]{0,40}|(ip6? |udp |tcp |[sd]port |[sd]addr |[0-9-]{1,6} ){0,8}",
        body in "\\PC*",
    ) {
        let query = form_urlencoded::Serializer::new(String::new()).append_pair(&name, &value).finish();
        if let Err(error) = parse(ENDPOINTS[at].method, ENDPOINTS[at].path, &query, body.as_bytes()) {
            prop_assert!(error.reason.len() < 2000, "{}", error.reason);
        }
    }

    #[test]
    fn parser_accepts_any_bytes(bytes: Vec<u8>) {
        exercise(&bytes);
    }
}
