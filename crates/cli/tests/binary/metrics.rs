//! Metrics on a loopback address: for Prometheus on the same machine only.

#![allow(clippy::print_stdout)]

use crate::rig::{PATIENCE, Router, TestDirectory, config, until};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn start() -> (TestDirectory, Router, String) {
    let place = TestDirectory::new(60000);
    place.write("run.toml", &config("2000pps", ""));
    let address = free_address();
    let router = place.start_as(place.command(&["run", "run.toml", "--metrics", &address]));
    (place, router, address)
}

fn send_request(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get(address: &str, path: &str, accept: &str) -> String {
    send_request(address, &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\naccept: {accept}\r\n\r\n"))
}

#[test]
fn the_metrics_address_answers_with_metrics_and_nothing_else() {
    let (_place, router, address) = start();
    let page = get(&address, "/metrics", "text/plain;version=0.0.4");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("\nswitchpath_ledger_balanced 1\n"), "{page}");
    for request in ["GET /v1/status", "GET /v1/config", "GET /", "POST /v1/confirm", "POST /v1/check"] {
        let answer = send_request(&address, &format!("{request} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("only /metrics"), "{request}: {answer}");
    }
    assert!(send_request(&address, "POST /metrics HTTP/1.1\r\nhost: x\r\n\r\n").starts_with("HTTP/1.1 405"));
    router.stop();
}

#[test]
fn metrics_in_plain_text_stay_on_this_machine() {
    let place = TestDirectory::new(1);
    place.write("run.toml", &config("2000pps", ""));
    for address in ["0.0.0.0:9469", "192.0.2.1:9469", "[::]:9469"] {
        let said = place.run_failing(2, &["run", "run.toml", "--metrics", address]);
        assert!(said.contains("no loopback address") && said.contains("--listen"), "{said}");
    }
}

/// A process that ends with the test.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn prometheus_scrapes_the_metrics() {
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok_and(|said| said.status.success());
    let here = runs("promtool") && runs("prometheus");
    assert!(here || std::env::var_os("CI").is_none(), "Prometheus is missing: .ci/setup test");
    if !here {
        println!("left out: Prometheus; apt-get install prometheus");
        return;
    }
    let (place, router, address) = start();
    for content_type in ["text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0"] {
        let page = get(&address, "/metrics", content_type);
        let (_, body) = page.split_once("\r\n\r\n").unwrap();
        let mut promtool = Command::new("promtool");
        promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut promtool = promtool.spawn().unwrap();
        promtool.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
        let output = promtool.wait_with_output().unwrap();
        let report = String::from_utf8_lossy(&output.stderr);
        // promtool reads OpenMetrics as the older format, in which the description of a counter has the name with `_total`.
        let is_known = |line: &&str| content_type.starts_with("application") && line.ends_with("_total no help text");
        let findings: Vec<&str> = report.lines().filter(|line| !is_known(line)).collect();
        assert!(findings.is_empty() && output.status.code() != Some(1), "{content_type}: {findings:#?}");
    }

    let prometheus = free_address();
    place.write(
        "prometheus.yml",
        &format!(
            "global:\n  scrape_interval: 200ms\nscrape_configs:\n  - job_name: switchpath\n    static_configs:\n      - targets: [\"{address}\"]\n"
        ),
    );
    let mut command = Command::new("prometheus");
    command.args(["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=error"]);
    command.arg(format!("--web.listen-address={prometheus}"));
    command.current_dir(place.path("")).stdout(Stdio::null()).stderr(fs::File::create(place.path("log")).unwrap());
    let _prometheus = KillOnDrop(command.spawn().unwrap());
    // `up` is 1 if Prometheus could read the whole answer.
    for query in ["up", "switchpath_ledger_balanced", "switchpath_packets_total%3E0"] {
        until(|| {
            let mut stream = TcpStream::connect(&prometheus).ok()?;
            stream.set_read_timeout(Some(PATIENCE)).ok()?;
            write!(stream, "GET /api/v1/query?query={query} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            (answer.contains("\"job\":\"switchpath\"") && !answer.contains(",\"0\"]")).then_some(())
        });
    }
    router.stop();
}
