//! Clients that mean no good, or do none.

use crate::rig::{Rig, until};
use control::api;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

/// Sends bytes, and answers what comes until the connection is closed.
fn say(rig: &Rig, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(&rig.socket).unwrap();
    stream.set_read_timeout(Some(crate::rig::PATIENCE.into())).unwrap();
    // The router may close before it has all of it.
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
fn clients_that_hang_keep_nobody_waiting() {
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
    // Those that never said what they ask are hung up on.
    let mut first = hanging.remove(0);
    first.set_read_timeout(Some(crate::rig::PATIENCE.into())).unwrap();
    let mut rest = Vec::new();
    first.read_to_end(&mut rest).unwrap();
}

#[test]
fn too_many_clients_are_told_so_and_the_rest_served() {
    let rig = Rig::start("");
    let hanging: Vec<UnixStream> = (0..64).map(|_| UnixStream::connect(&rig.socket).unwrap()).collect();
    let answer = say(&rig, b"GET /v1/ports HTTP/1.1\r\nhost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("too many connections"), "{answer}");
    drop(hanging);
    until(|| rig.client.get::<api::Ports>("/v1/ports").ok());
}

#[test]
fn nonsense_is_refused_and_harms_nobody() {
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
                    rig.client.get::<api::Queues>("/v1/queues").unwrap();
                }
            });
        }
    });
}
