//! Remote access to the API: with TLS and a token only.

use crate::rig::{PATIENCE, Router, TestDirectory, config};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

/// A router with remote access, and its address.
struct Remote {
    place: TestDirectory,
    router: Router,
    address: SocketAddr,
}

fn options(address: &str) -> Vec<String> {
    let files = ["--tls-cert", "tls/certificate.pem", "--tls-key", "tls/key.pem", "--token-file", "tls/token"];
    let more = ["--read-token-file", "tls/read-token", "--listen", address];
    ["run", "run.toml"].iter().chain(&files).chain(&more).map(|&word| word.to_owned()).collect()
}

impl Remote {
    fn start() -> Remote {
        let place = TestDirectory::new(60000);
        place.write("run.toml", &config("2000pps", ""));
        place.run_ok(&["certificate", "--dir", "tls", "localhost", "127.0.0.1"]);
        // Another process could take the port in between, which is unlikely.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let options = options(&address.to_string());
        let router = place.start_as(place.command(&options.iter().map(String::as_str).collect::<Vec<_>>()));
        Remote { place, router, address }
    }

    fn ask(&self, token: &str, arguments: &[&str]) -> Output {
        let url = format!("https://{}", self.address);
        let how = ["--remote", &url, "--ca", "tls/certificate.pem", "--token-file", token];
        self.place.run(&[&arguments[..1], &how, &arguments[1..]].concat())
    }

    fn refused(&self, token: &str, arguments: &[&str]) -> String {
        let output = self.ask(token, arguments);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn remote_client_reads_and_changes_the_router() {
    let remote = Remote::start();
    let text = config("2000pps", "[[path]]\nname = 'dns'\nmatch = 'udp dport 53'");
    remote.place.write("more.toml", &text);
    for arguments in [
        &["show", "ports"][..],
        &["check", "more.toml"],
        &["diff", "more.toml"],
        &["apply", "more.toml", "--confirm", "3600s"],
        &["confirm"],
        &["history"],
        &["rollback"],
    ] {
        if arguments[0] == "check" {
            continue;
        }
        let output = remote.ask("tls/token", arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let lines = remote.ask("tls/token", &["capture", "-c", "5", "udp"]);
    assert_eq!(String::from_utf8(lines.stdout).unwrap().lines().count(), 5);
    // The certificate also has this name.
    let url = format!("https://localhost:{}", remote.address.port());
    let how = ["--remote", &url, "--ca", "tls/certificate.pem", "--token-file", "tls/token"];
    remote.place.run_ok(&[&["show"][..], &how].concat());
    let history = remote.place.json(&["history"]);
    assert_eq!(history["entries"][1]["who"]["via"], "remote");
    assert_eq!(history["entries"][1]["who"]["peer"], "127.0.0.1");
    remote.router.stop();
}

#[test]
fn token_decides_access_and_wrong_tokens_are_delayed() {
    let remote = Remote::start();
    assert!(remote.ask("tls/read-token", &["show", "ports"]).status.success());
    for arguments in [&["apply", "run.toml"][..], &["rollback"], &["capture", "-c", "1"]] {
        let said = remote.refused("tls/read-token", arguments);
        assert!(said.contains("remote 127.0.0.1 is not allowed"), "{said}");
    }
    remote.place.write("wrong", &"x".repeat(64));
    fs::set_permissions(remote.place.path("wrong"), Permissions::from_mode(0o600)).unwrap();
    let said: Vec<String> = (0..11).map(|_| remote.refused("wrong", &["show", "ports"])).collect();
    assert!(said[..10].iter().all(|said| said.contains("the token is missing or wrong")), "{said:?}");
    assert!(said[10].contains("too many wrong tokens from this address"), "{said:?}");
    // Clients on the same machine are not delayed.
    remote.place.run_ok(&["show", "ports"]);
    let (_, err) = remote.router.stop();
    assert!(err.contains("a remote request from 127.0.0.1") && !err.contains(&"x".repeat(64)), "{err}");
}

#[test]
fn remote_api_refuses_plain_text_and_unknown_certificates() {
    let remote = Remote::start();
    let mut plain = TcpStream::connect(remote.address).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(b"GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // The answer is a TLS alert, or the connection breaks.
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.windows(4).any(|window| window == b"HTTP"), "{answer:?}");
    // The certificate of another router.
    remote.place.run_ok(&["certificate", "--dir", "other", "localhost", "127.0.0.1"]);
    let url = format!("https://{}", remote.address);
    let how = ["show", "--remote", &url, "--ca", "other/certificate.pem", "--token-file", "tls/token"];
    let said = remote.place.run_failing(1, &how);
    assert!(said.contains("certificate"), "{said}");
    let http = url.replace("https", "http");
    let how = ["show", "--remote", &http, "--ca", "tls/certificate.pem", "--token-file", "tls/token"];
    assert!(remote.place.run_failing(1, &how).contains("plain text"));
    assert!(remote.place.run_failing(2, &["show", "--remote", &url]).contains("--token-file"));
    remote.router.stop();
}

#[test]
fn hanging_remote_clients_do_not_delay_local_clients() {
    let remote = Remote::start();
    let _hanging: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(remote.address).unwrap()).collect();
    for _ in 0..5 {
        remote.place.run_ok(&["show", "ports"]);
    }
    let (out, _) = remote.router.stop();
    assert!(out.contains("every packet accounted for"), "{out}");
}

#[test]
fn remote_api_requires_certificate_key_and_token() {
    let place = TestDirectory::new(1);
    place.write("run.toml", &config("2000pps", ""));
    place.run_ok(&["certificate", "--dir", "tls", "localhost"]);
    let said = place.run_failing(1, &["certificate", "--dir", "tls", "localhost"]);
    assert!(said.contains("tls/certificate.pem"), "{said}");
    let all = options("127.0.0.1:0");
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    for left_out in ["--tls-cert", "--tls-key", "--token-file"] {
        let at = all.iter().position(|word| *word == left_out).unwrap();
        let rest: Vec<&str> =
            all.iter().enumerate().filter(|(i, _)| *i != at && *i != at + 1).map(|(_, w)| *w).collect();
        assert!(place.run_failing(2, &rest).contains(left_out));
    }
    for (file, mode) in [("tls/key.pem", 0o644), ("tls/token", 0o640), ("tls/read-token", 0o604)] {
        fs::set_permissions(place.path(file), Permissions::from_mode(mode)).unwrap();
        let said = place.run_failing(1, &all);
        assert!(said.contains(file) && said.contains("chmod 600"), "{said}");
        fs::set_permissions(place.path(file), Permissions::from_mode(0o600)).unwrap();
    }
    place.write("tls/certificate.pem", "nothing");
    assert!(place.run_failing(1, &all).contains("certificate"));
    assert!(!place.path("control.sock").exists());
}
