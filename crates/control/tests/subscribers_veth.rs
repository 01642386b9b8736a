//! The round-trip times of a kernel's TCP connection that crosses the router on real interfaces, beside those that the kernel itself measures.

#![allow(clippy::print_stdout)]

use control::{Daemon, DaemonOptions};
use io::clock;
use io::devices::Devices;
use io::netns::{Lab, LabHost};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Packets to the subscriber take 6 ms in the link of `lan`, those to the Internet 19 ms in that of `wan`.
const CONFIG: &str = "version = 1
[port.lan]
device = 'packet:lan'
address = ['192.0.2.1/24']
scheme = 'share(rate=1gbit)'
link = { delay = '6ms' }
[port.wan]
device = 'packet:wan'
address = ['198.51.100.1/24']
scheme = 'share(rate=1gbit)'
link = { delay = '19ms' }
[subscribers]
inside = ['lan']
outside = ['wan']
file = 'TABLE'
";

const TABLE: &str = "circuit,address,down,up\nalice,192.0.2.7,100mbit,20mbit\nbob,192.0.2.8,100mbit,20mbit\n";
const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
/// Requests, each of which is answered before the next: the kernel's average then covers the last ones.
const REQUESTS: usize = 120;
/// The longest wait for a host: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// The least and the average round-trip time of a host's only connection to the server in milliseconds, as `ss` prints them. `None` without `ss`.
fn kernel_rtt(host: &LabHost) -> Option<[f64; 2]> {
    let mut command = Command::new("ss");
    command.args(["-tin", "state", "established", "dst", &SERVER.to_string()]).stdout(Stdio::piped());
    let output = host.spawn(command).ok()?.wait_with_output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value = |name: &str| {
        let mut values = text.split_whitespace().filter_map(|word| word.strip_prefix(name));
        let value = values.next().and_then(|value| value.split('/').next()?.parse().ok());
        value.unwrap_or_else(|| panic!("ss shows the connection: {text}"))
    };
    Some([value("minrtt:"), value("rtt:")])
}

#[test]
fn round_trip_times_of_kernel_tcp_add_up_to_those_of_the_kernel() {
    let lab = match Lab::new() {
        Ok(lab) => lab,
        Err(forbidden) => return println!("skipped: {forbidden}"),
    };
    let [client, router, server] = ["client", "router", "server"].map(|name| lab.host(name).unwrap());
    router.silence_kernel().unwrap();
    lab.cable(&client.plug("eth0"), &router.plug("lan")).unwrap();
    lab.cable(&server.plug("eth0"), &router.plug("wan")).unwrap();
    client.add_address("eth0", CLIENT.into(), 24).unwrap();
    client.add_default_route(Ipv4Addr::new(192, 0, 2, 1).into()).unwrap();
    server.add_address("eth0", SERVER.into(), 24).unwrap();
    server.add_default_route(Ipv4Addr::new(198, 51, 100, 1).into()).unwrap();

    let directory = tempfile::tempdir().unwrap();
    let table = directory.path().join("subscribers.csv");
    fs::write(&table, TABLE).unwrap();
    let text = CONFIG.replace("TABLE", table.to_str().unwrap());
    let devices = Devices::new(clock::epoch()).in_namespace(router.namespace().clone());
    let plan = plan::check(&text, "test.toml", &plane::catalogue()).unwrap_or_else(|wrong| panic!("{wrong}"));
    let options = DaemonOptions::new(devices, &text, "test.toml", |notice| panic!("{notice:?}"));
    let daemon = Daemon::start(&plan, options).unwrap_or_else(|error| panic!("{error}"));

    let listener = server.run(|| TcpListener::bind((SERVER, 7)).unwrap()).unwrap();
    let echo = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.set_nodelay(true).unwrap();
        let mut bytes = [0; 100];
        while stream.read_exact(&mut bytes).is_ok() {
            stream.write_all(&bytes).unwrap();
        }
    });
    let to = SocketAddr::from((SERVER, 7));
    let mut stream = client.run(|| TcpStream::connect_timeout(&to, PATIENCE).unwrap()).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = [7; 100];
    for _ in 0..REQUESTS {
        stream.write_all(&bytes).unwrap();
        stream.read_exact(&mut bytes).unwrap();
    }
    let kernel = kernel_rtt(&client);
    let listed = daemon.subscribers(None, 10).subscribers;
    drop(stream);
    echo.join().unwrap();

    let millis = |time: Option<u64>| time.expect("there are samples") as f64 / 1e6;
    let rtt = listed[0].rtt.unwrap();
    let (near, far) = (millis(rtt.subscriber.p50_ns), millis(rtt.internet.p50_ns));
    println!(
        "toward the subscriber {near:.2} ms, toward the Internet {far:.2} ms; least and average of the kernel {kernel:?} ms"
    );
    assert!((6.0..9.0).contains(&near) && (19.0..22.0).contains(&far), "{near} and {far} ms");
    assert!(rtt.subscriber.weight > 60 && rtt.internet.weight > 60, "{rtt:?}");
    if let Some([least, average]) = kernel {
        // The average of the kernel follows single late answers of a busy machine; a median does not.
        assert!((least - 1.0..average + 3.0).contains(&(near + far)), "{near} and {far} ms; {least} to {average} ms");
    }
    let bob = listed[1].rtt.unwrap();
    assert_eq!((bob.subscriber.weight, bob.internet.p50_ns), (0, None), "bob has no connection");
}
