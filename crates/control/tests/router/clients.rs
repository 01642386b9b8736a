//! Malicious and silent clients.

use crate::rig::Rig;
use control::api;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

/// Sends bytes, and returns the answer until the connection is closed.
fn say(rig: &Rig, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(&rig.socket).unwrap();
    stream.set_read_timeout(Some(crate::rig::PATIENCE.into())).unwrap();
    // The router may close the connection before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn only_the_owner_may_connect() {
    let rig = Rig::start("");
    assert_eq!(std::fs::metadata(&rig.socket).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn stalled_clients_do_not_delay_others() {
    let mut rig = Rig::start("");
    let mut hanging = Vec::new();
    for half in [
        "",
        "GET /v1/po",
        "GET /v1/ports HTTP/1.1\r\nhost:",
        "POST /v1/apply HTTP/1.1\r\ncontent-length: 999\r\n\r\nver",
    ] {
        for _ in 0..15 {
            let mut stream = UnixStream::connect(&rig.socket).unwrap();
            stream.write_all(half.as_bytes()).unwrap();
            hanging.push(stream);
        }
    }
    let started = io::clock::now();
    for i in 0..20 {
        rig.client.get::<api::Ports>("/v1/ports").unwrap();
        rig.send([198, 51, 100, 9], &[64], i);
        assert_eq!(rig.wan.await_ports(1), [i]);
    }
    let took = io::clock::now().since(started);
    assert!(took < units::Nanos::secs(4), "{took}");
    // Clients that sent no request are disconnected.
    let mut first = hanging.remove(0);
    first.set_read_timeout(Some(crate::rig::PATIENCE.into())).unwrap();
    let mut rest = Vec::new();
    first.read_to_end(&mut rest).unwrap();
}

#[test]
fn idle_connections_are_evicted_for_new_requests() {
    let rig = Rig::start("");
    let halves = ["", "GET /v1/po", "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\nver"];
    let mut hanging = Vec::new();
    // More connections than places, repeatedly.
    for round in 0..5 {
        for _ in 0..70 {
            let mut stream = UnixStream::connect(&rig.socket).unwrap();
            stream.write_all(halves[round % 3].as_bytes()).unwrap();
            hanging.push(stream);
        }
        let text = crate::rig::config("");
        rig.client.get::<api::Status>("/v1/status").unwrap();
        rig.client.post::<api::CheckReply>("/v1/check", "test.toml", &text).unwrap();
        rig.client.post::<api::Applied>("/v1/apply", "test.toml", &text).unwrap();
    }
    // The first ones are closed before their time limit.
    let mut first = hanging.remove(0);
    first.set_read_timeout(Some(std::time::Duration::from_secs(4))).unwrap();
    assert_eq!(first.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_request_with_two_lengths_is_refused() {
    let rig = Rig::start("");
    let say = |fields: &str| {
        let body = "version = 1";
        say(&rig, format!("POST /v1/check HTTP/1.1\r\nhost: x\r\n{fields}\r\n{body}").as_bytes())
    };
    assert!(say("content-length: 11\r\n").starts_with("HTTP/1.1 200"));
    for fields in [
        "content-length: 11\r\ncontent-length: 11\r\n",
        "content-length: 11\r\ncontent-length: 3\r\n",
        "content-length: 3\r\nContent-Length: 11\r\n",
        "content-length: 11, 3\r\n",
        "content-length: 11\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 11\r\n",
        "transfer-encoding: gzip\r\ncontent-length: 11\r\n",
        "content-length: +11\r\n",
        "content-length: -1\r\n",
    ] {
        let answer = say(fields);
        assert!(answer.starts_with("HTTP/1.1 400"), "{fields:?}: {answer}");
    }
    let get = |fields: &str| {
        crate::clients::say(&rig, format!("GET /v1/ports HTTP/1.1\r\nhost: x\r\n{fields}\r\n").as_bytes())
    };
    assert!(get("").starts_with("HTTP/1.1 200"));
    let answer = get("content-length: 0\r\ncontent-length: 0\r\n");
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("more than one length"), "{answer}");
}

#[test]
fn metrics_use_accepted_format() {
    let rig = Rig::start("");
    for (accept, status, media, last) in [
        ("", 200, "application/openmetrics-text", "# EOF\n"),
        (
            "accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3\r\n",
            200,
            "application/openmetrics-text",
            "# EOF\n",
        ),
        ("accept: text/plain\r\n", 200, "text/plain; version=0.0.4", "\n"),
        ("accept: application/json\r\n", 406, "application/json", "\n"),
    ] {
        let answer = say(&rig, format!("GET /metrics HTTP/1.1\r\nhost: x\r\n{accept}\r\n").as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{accept}: {answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(media) && head.contains("vary: accept") && body.ends_with(last), "{accept}: {head}");
        assert_eq!(
            body.contains("# TYPE switchpath_port_received_packets_total counter"),
            media.starts_with("text/plain")
        );
        assert_eq!(body.contains("# EOF"), media.starts_with("application/openmetrics"));
    }
}

#[test]
fn invalid_requests_are_refused() {
    let rig = Rig::start("");
    for (bytes, expected) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00"[..], "HTTP/1.1 400"),
        (b"GET\r\n\r\n", "HTTP/1.1 400"),
        (b"GET /v1/nothing HTTP/1.1\r\nhost: x\r\n\r\n", "HTTP/1.1 404"),
        (b"DELETE /v1/ports HTTP/1.1\r\nhost: x\r\n\r\n", "HTTP/1.1 405"),
        (b"GET /v1/routes?limit=x HTTP/1.1\r\nhost: x\r\n\r\n", "HTTP/1.1 400"),
        (b"POST /v1/apply HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\n\xff\xff\xff", "HTTP/1.1 400"),
        (b"POST /v1/apply HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx", "HTTP/1.1 422"),
        (b"POST /v1/apply HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\nx", "HTTP/1.1 413"),
        (b"POST /v1/apply HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400"),
    ] {
        let answer = say(&rig, bytes);
        assert!(answer.starts_with(expected), "{:?} was answered by {answer:?}", String::from_utf8_lossy(bytes));
    }
    let mut long = b"GET /v1/ports HTTP/1.1\r\n".to_vec();
    long.extend(b"x: ".iter().chain([b'a'; 1 << 20].iter()));
    say(&rig, &long);
    assert_eq!(rig.client.get::<api::Status>("/v1/status").unwrap().generation, 1);
}

#[test]
fn many_clients_are_answered_at_once() {
    let rig = Rig::start("");
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..20 {
                    rig.client.get::<api::QueuesReply>("/v1/queues").unwrap();
                }
            });
        }
    });
}
