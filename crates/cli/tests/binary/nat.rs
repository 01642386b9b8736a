//! Address translation between hosts with the kernel's own TCP, UDP and ping. The server has no route to the client, so every answer was translated.
//! Both hosts leave checksums and segmentation to their interfaces, as usual.

use crate::interfaces::{answers, lab};
use crate::rig::{Router, TestDirectory};
use io::netlink::Netlink;
use io::netns::{Lab, LabHost};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// The longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(10);
const OURS: &str = "198.51.100.1";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn config(more: &str) -> String {
    format!(
        "version = 1\n[port.lan]\ndevice = 'packet:lan'\naddress = ['10.0.1.1/24']\n\
         [port.wan]\ndevice = 'packet:wan'\naddress = ['{OURS}/24']\n\
         [nat]\noutside = 'wan'\nforward = ['tcp 8080 to 10.0.1.2:80']\n\
         [[path]]\nname = 'home'\nmatch = 'any'\nfunctions = ['nat', 'filter', 'ip']\n\
         filter = ['ct state established,related accept', 'iif wan tcp dport 80 accept', 'iif lan accept', 'drop']\n{more}"
    )
}

/// client 10.0.1.2 - lan [router] wan 198.51.100.1 - 198.51.100.2 server
struct Home {
    router: LabHost,
    client: LabHost,
    server: LabHost,
}

impl Home {
    fn lay(lab: &Lab) -> Home {
        let [router, client, server] = ["router", "client", "server"].map(|name| lab.host(name).unwrap());
        for (host, near, address) in [(&client, "lan", "10.0.1.2"), (&server, "wan", "198.51.100.2")] {
            lab.cable(&host.plug("eth0"), &router.plug(near)).unwrap();
            host.run(|| Netlink::open().unwrap().set_up("eth0", true).unwrap()).unwrap();
            host.add_address("eth0", ip(address), 24).unwrap();
        }
        client.add_default_route(ip("10.0.1.1")).unwrap();
        Home { router, client, server }
    }

    fn start(&self, place: &TestDirectory) -> Router {
        place.write("run.toml", &config(""));
        self.router.run(|| place.start()).unwrap()
    }
}

/// The same with small MTUs: the inner link has the smallest, the outer link one below that of the hosts.
fn narrow() -> String {
    let more = |device: &str, mtu: u16| format!("device = 'packet:{device}'\nmtu = {mtu}");
    // This test causes many ICMP errors in a short time, more than the default rate allows.
    let router = "version = 1\n[router]\nicmp_rate = 10000\nicmp_burst = 1000\n";
    let config = config("").replace("version = 1\n", router).replace("device = 'packet:lan'", &more("lan", 900));
    config
        .replace("device = 'packet:wan'", &more("wan", 1200))
        .replace("'iif wan tcp dport 80 accept', ", "'iif wan accept', ")
}

fn patient(stream: &TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
}

/// Sends this many bytes in both directions and compares them.
fn echo(here: &mut TcpStream, there: &mut TcpStream, bytes: usize) {
    let sent: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; bytes];
            there.read_exact(&mut buffer).unwrap();
            there.write_all(&buffer).unwrap();
        });
        let mut back = vec![0; bytes];
        here.write_all(&sent).unwrap();
        here.read_exact(&mut back).unwrap();
        assert!(back == sent, "what came back is not what was sent");
    });
}

/// Opens a connection from a host to an address; returns both ends and the peer's address.
fn connect((from, to): (&LabHost, &LabHost), address: &str, listen: &str) -> (TcpStream, TcpStream, SocketAddr) {
    let listener = to.run(|| TcpListener::bind(listen).unwrap()).unwrap();
    let address: SocketAddr = address.parse().unwrap();
    let here = from.run(|| TcpStream::connect_timeout(&address, PATIENCE).unwrap()).unwrap();
    let (there, peer) = listener.accept().unwrap();
    patient(&here);
    patient(&there);
    (here, there, peer)
}

#[test]
fn translated_connections_survive_an_apply() {
    let Some(lab) = lab() else { return };
    let home = Home::lay(&lab);
    let place = TestDirectory::new(1);
    let router = home.start(&place);

    // TCP with super-frames and partial checksums. The connection survives a new configuration.
    let (mut here, mut there, peer) = connect((&home.client, &home.server), "198.51.100.2:7000", "0.0.0.0:7000");
    assert_eq!((peer.ip(), peer.port()), (ip(OURS), here.local_addr().unwrap().port()), "from us, with its own port");
    echo(&mut here, &mut there, 1 << 20);
    for more in ["queue = 300", "queue = 300\nclass = 2", "[[path]]\nname = 'other'\nmatch = 'udp'"] {
        place.write("next.toml", &config(more));
        place.run_ok(&["apply", "next.toml"]);
        echo(&mut here, &mut there, 1 << 18);
    }
    let nat = place.json(&["show", "nat"]);
    let known =
        nat["connections"].as_array().unwrap().iter().find(|known| known["peer"] == "198.51.100.2:7000").unwrap();
    assert_eq!(
        (&known["state"], &known["inside"]),
        (&"established".into(), &here.local_addr().unwrap().to_string().into())
    );
    place.run_ok(&["apply", "run.toml"]);

    // A forwarded port, and one that is not forwarded.
    let (mut here, mut there, peer) = connect((&home.server, &home.client), "198.51.100.1:8080", "0.0.0.0:80");
    assert_eq!(peer.ip(), ip("198.51.100.2"));
    echo(&mut here, &mut there, 1 << 16);
    let refused =
        home.server.run(|| TcpStream::connect_timeout(&"198.51.100.1:8081".parse().unwrap(), PATIENCE)).unwrap();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused, "nobody asked for it: it is the router's");

    // UDP, and an ICMP error that reaches the right socket.
    let socket = home.client.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    let far = home.server.run(|| UdpSocket::bind("0.0.0.0:7001").unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    far.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 16];
    socket.connect("198.51.100.2:7001").unwrap();
    socket.send(b"ask").unwrap();
    let (length, from) = far.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from.ip()), (&b"ask"[..], ip(OURS)));
    far.send_to(b"answer", from).unwrap();
    assert_eq!(socket.recv(&mut buffer).unwrap(), 6);
    socket.connect("198.51.100.2:7002").unwrap();
    socket.send(b"nobody").unwrap();
    assert_eq!(socket.recv(&mut buffer).unwrap_err().kind(), ErrorKind::ConnectionRefused, "ICMP port unreachable");

    // Ping, if it is installed.
    assert_ne!(answers(&home.client, "198.51.100.2"), Some(false));
    // From the outside without translation: the filter behind it knows no connection.
    home.server.add_default_route(ip(OURS)).unwrap();
    assert_ne!(answers(&home.server, "10.0.1.2"), Some(true));
    let functions = place.json(&["show", "functions"]);
    let filter = functions["functions"].as_array().unwrap().iter().find(|one| one["function"] == "filter").unwrap();
    assert!(filter["counters"][0]["packets"].as_u64().unwrap() > 100, "{filter}");
    router.stop();
}

/// Sends datagrams of all lengths, each with its number, and compares the answers. The kernels reassemble the fragments.
fn datagrams(home: &Home) {
    let near = home.client.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    let far = home.server.run(|| UdpSocket::bind("0.0.0.0:7001").unwrap()).unwrap();
    near.set_read_timeout(Some(PATIENCE)).unwrap();
    far.set_read_timeout(Some(PATIENCE)).unwrap();
    near.connect("198.51.100.2:7001").unwrap();
    let datagram = |number: usize| -> Vec<u8> {
        let length = [40, 700, 860, 900, 1100, 1160, 1300, 1480, 2500, 4000][number % 10] + number / 10;
        (0..length).map(|at| (at * 7 + number) as u8).collect()
    };
    let mut buffer = [0; 8192];
    for burst in 0..20 {
        let numbers = burst * 10..burst * 10 + 10;
        numbers.clone().for_each(|number| assert_eq!(near.send(&datagram(number)).unwrap(), datagram(number).len()));
        for number in numbers.clone() {
            let (length, from) = far.recv_from(&mut buffer).unwrap();
            assert!(buffer[..length] == datagram(number), "the {number}th out is not the {number}th that was sent");
            far.send_to(&buffer[..length], from).unwrap();
        }
        for number in numbers {
            let length = near.recv(&mut buffer).unwrap();
            assert!(buffer[..length] == datagram(number), "the {number}th back is not the {number}th that was sent");
        }
    }
}

#[test]
fn translated_packets_are_fragmented_and_path_mtu_discovery_works_inside() {
    let Some(lab) = lab() else { return };
    // veth has a queue for each core, so a sender or router that moves to another core can reorder its own packets. The router inherits the core.
    io::cores::pin(io::cores::allowed().unwrap()[0]).unwrap();
    let home = Home::lay(&lab);
    let place = TestDirectory::new(1);
    place.write("run.toml", &narrow());
    let router = home.router.run(|| place.start()).unwrap();
    // Hosts with path MTU discovery set DF. Here datagrams may be fragmented, and TCP segments may not.
    let measure = |yes: bool| {
        let text = if yes { "0" } else { "1" };
        let set = || std::fs::write("/proc/sys/net/ipv4/ip_no_pmtu_disc", text).is_ok();
        [&home.client, &home.server].into_iter().all(|host| host.run(set).unwrap())
    };
    if measure(false) {
        datagrams(&home);
        assert!(measure(true));
    }
    // Ping, if it is installed.
    let ping =
        home.client.run(|| Command::new("ping").args(["-c", "3", "-i", "0.2", "-s", "5000", "198.51.100.2"]).output());
    if let Ok(Ok(output)) = ping {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("3 received"), "{text}");
    }
    // The outer host sends segments as long as its own link allows, with DF set.
    let (mut here, mut there, _) = connect((&home.server, &home.client), "198.51.100.1:8080", "0.0.0.0:80");
    echo(&mut here, &mut there, 1 << 18);
    // Nothing listens on the router: it resets TCP and refuses UDP.
    for address in ["198.51.100.1:8081", "198.51.100.1:22"] {
        let address: SocketAddr = address.parse().unwrap();
        for host in [&home.server, &home.client] {
            let refused = host.run(|| TcpStream::connect_timeout(&address, PATIENCE)).unwrap();
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused, "{address}");
        }
        let asking = home.server.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        asking.set_read_timeout(Some(PATIENCE)).unwrap();
        asking.connect(address).unwrap();
        asking.send(b"nobody").unwrap();
        assert_eq!(asking.recv(&mut [0; 16]).unwrap_err().kind(), ErrorKind::ConnectionRefused, "{address}");
    }
    let drops = place.json(&["show", "drops"]);
    let lost = |name: &str| drops["drops"].as_array().unwrap().iter().any(|drop| drop["reason"] == name);
    assert!(!lost("nat_fragment") && !lost("fragment_limit"), "{drops}");
    router.stop();
}
