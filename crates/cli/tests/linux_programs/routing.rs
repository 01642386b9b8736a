//! Unmodified routing daemons.

use crate::network::{Network, run_in, wait};
use crate::service::ServiceManager;
use io::clock;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use units::Nanos;

/// BGP of the router: with its neighbour on the link (RFC 5082), and by its loopback address with a password (RFC 2385).
const ROUTER_BGP: &str = "router bgp 65001
 bgp router-id 10.255.0.1
 no bgp ebgp-requires-policy
 neighbor 10.0.11.2 remote-as 65011
 neighbor 10.0.11.2 ttl-security hops 1
 neighbor 10.255.0.9 remote-as 65001
 neighbor 10.255.0.9 update-source 10.255.0.1
 neighbor 10.255.0.9 password secret
";

const ONE_BGP: &str = "router bgp 65011
 bgp router-id 10.255.0.11
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor 10.0.11.1 remote-as 65001
 neighbor 10.0.11.1 ttl-security hops 1
 address-family ipv4 unicast
  network 203.0.113.0/24
";

const FAR_BGP: &str = "protocol static { ipv4; route 198.51.100.0/24 blackhole; }
protocol bgp peer {
  local 10.255.0.9 as 65001; neighbor 10.255.0.1 as 65001; multihop; password \"secret\";
  ipv4 { import all; export where net = 198.51.100.0/24; };
}
";

#[test]
fn ospf_bgp_and_bfd_work_and_traffic_survives_a_cut_link() {
    let Some(network) = Network::new("daemons", true) else { return };
    let router = network.start_router();
    let daemons = network.start_router_daemons(ROUTER_BGP);
    let _one = network.start_frr(&network.one, "10.255.0.11", ONE_BGP);
    let _two = network.start_frr(&network.two, "10.255.0.12", "");
    let bird = network.start_bird(FAR_BGP);
    // OSPF, then BGP by the addresses that OSPF has announced.
    network.await_route("10.0.9.1/32 one");
    network.await_route("203.0.113.0/24 one");
    network.await_route("198.51.100.0/24 one");
    wait("BGP", || bird.ask("show protocols all peer"), || bird.ask("show protocols peer").contains("Established"));
    let peers = || daemons.ask("show bfd peers");
    wait("BFD", peers, || peers().matches("Status: up").count() == 2);
    for destination in ["10.0.9.1", "198.51.100.1", "10.255.0.1"] {
        let pings = network.ping_while(destination, 1, || {});
        assert_eq!(pings.answered, pings.sent, "{destination}: {pings:?}");
    }
    // The far end of the link is gone, but the router's port has its carrier: only BFD notices.
    let cut = network.ping_while("198.51.100.1", 4, || {
        run_in(network.one.namespace(), "ip link set plug nomaster");
    });
    println!("link cut without a carrier change: {cut:?}");
    assert!(cut.longest_gap_ms < 1000, "{cut:?}\n{}", daemons.logs());
    network.await_route("198.51.100.0/24 two");
    run_in(network.one.namespace(), "ip link set plug master near");
    network.await_route("198.51.100.0/24 one");
    // A cable without a carrier: for a route of OSPF, and for one of BGP by it.
    for destination in ["10.0.9.1", "198.51.100.1"] {
        network.await_route("10.0.9.1/32 one");
        network.await_route("198.51.100.0/24 one");
        let unplugged = network.ping_while(destination, 3, || {
            run_in(network.one.namespace(), "ip link set plug down");
        });
        println!("carrier lost: {unplugged:?}");
        assert!(unplugged.longest_gap_ms < 1000, "{unplugged:?}\n{}", daemons.logs());
        let shown = || run_in(&network.mirror(), "ip link show one");
        wait("no carrier", shown, || shown().contains("NO-CARRIER"));
        run_in(network.one.namespace(), "ip link set plug up");
    }
    network.await_route("198.51.100.0/24 one");
    router.stop();
}

#[test]
fn killed_router_forwards_again_at_once_with_the_routes_of_the_kernel() {
    let Some(network) = Network::new("restart", false) else { return };
    let mut manager = ServiceManager::new(&network);
    manager.start(&network);
    assert_eq!(manager.kept(), 3, "a descriptor for each interface");
    let daemons = network.start_router_daemons(ROUTER_BGP);
    let _one = network.start_frr(&network.one, "10.255.0.11", ONE_BGP);
    let _two = network.start_frr(&network.two, "10.255.0.12", "");
    let _bird = network.start_bird(FAR_BGP);
    network.await_route("198.51.100.0/24 one");
    let restart = network.ping_while("198.51.100.1", 6, || {
        manager.kill();
        manager.start(&network);
    });
    println!("router killed and started again: {restart:?}");
    // The daemons have not noticed.
    let neighbours = daemons.ask("show ip ospf neighbor");
    assert_eq!(neighbours.matches("Full/").count(), 2, "{neighbours}");
    assert!(daemons.ask("show bgp summary").contains("10.255.0.9"), "{}", daemons.logs());
    assert!(restart.longest_gap_ms < 2000, "{restart:?}");
    network.await_route("198.51.100.0/24 one");
    // The manager's copy of the descriptor does not stand in the way of a change.
    let text = std::fs::read_to_string(network.place.path("run.toml")).unwrap();
    network.place.write("run.toml", &text.replace("[port.lan]", "[port.lan]\nmtu = 1400"));
    network.place.run_ok(&["apply", "run.toml"]);
    let shown = || run_in(&network.mirror(), "ip link show lan");
    wait("the MTU", shown, || shown().contains("mtu 1400"));
}

#[test]
fn killed_daemons_come_back_and_the_router_keeps_forwarding() {
    let Some(network) = Network::new("graceful", false) else { return };
    let router = network.start_router();
    let graceful = " bgp graceful-restart\n bgp graceful-restart preserve-fw-state\n";
    let mut daemons = network.start_router_daemons(&format!("{ROUTER_BGP}{graceful}"));
    let _one = network.start_frr(&network.one, "10.255.0.11", &format!("{}{graceful}", ONE_BGP));
    let _two = network.start_frr(&network.two, "10.255.0.12", "");
    let _bird = network.start_bird(FAR_BGP);
    network.await_route("198.51.100.0/24 one");
    network.await_route("203.0.113.0/24 one");
    for (daemon, more) in [("bgpd", &[][..]), ("ospfd", &[]), ("zebra", &["-K", "30"])] {
        let pings = network.ping_while("198.51.100.1", 5, || {
            daemons.kill(daemon);
            daemons.launch(daemon, more);
        });
        println!("{daemon} killed and started again: {pings:?}");
        network.await_route("198.51.100.0/24 one");
    }
    router.stop();
}

/// The number of routes that the neighbour announces: `SWITCHPATH_ROUTES`.
fn announced_routes() -> u32 {
    std::env::var("SWITCHPATH_ROUTES").map_or(10_000, |text| text.parse().expect("a number"))
}

/// BGP of the far router with a table of this many routes, 16.0.0.0/24 and those behind it. The table is disabled at first.
fn table(routes: u32) -> String {
    let route = |index: u32| format!("route {}/24 blackhole;\n", Ipv4Addr::from((16 << 24) + (index << 8)));
    let routes: String = (0..routes).map(route).collect();
    format!(
        "protocol static full {{ disabled; ipv4;\n{routes}}}\nprotocol bgp peer {{\n\
         local 10.255.0.9 as 65001; neighbor 10.255.0.1 as 65001; multihop; password \"secret\";\n\
         ipv4 {{ import all; export where proto = \"full\"; }};\n}}\n"
    )
}

const BIRD_BGP: &str = "protocol bgp far {
  local 10.255.0.1 as 65001; neighbor 10.255.0.9 as 65001; multihop; password \"secret\";
  ipv4 { import all; export none; };
}
";

/// Waits until the router has so many routes. Returns the time it took.
fn await_routes(network: &Network, is_enough: impl Fn(u64) -> bool) -> Nanos {
    let begun = clock::now();
    while !is_enough(network.route_count()) {
        assert!(clock::now().since(begun) < Nanos::secs(300), "{} routes", network.route_count());
        thread::park_timeout(Duration::from_millis(100));
    }
    clock::now().since(begun)
}

#[test]
fn table_of_bgp_arrives_and_leaves_without_a_lost_packet() {
    let routes = announced_routes();
    for daemon in ["bird", "frr"] {
        let Some(network) = Network::new(&format!("table-{daemon}"), false) else { return };
        let router = network.start_router();
        let _daemons = match daemon {
            "bird" => (Some(network.start_router_bird(BIRD_BGP)), None),
            _ => (None, Some(network.start_router_daemons(ROUTER_BGP))),
        };
        let _one = network.start_frr(&network.one, "10.255.0.11", "");
        let _two = network.start_frr(&network.two, "10.255.0.12", "");
        let far =
            network.start_bird(&table(routes).replace("protocol static full {", "protocol static full { disabled;"));
        network.await_route("10.0.9.1/32 one");
        let session = || far.ask("show protocols peer");
        wait("BGP", session, || session().contains("Established"));
        let before = network.route_count();
        let mut times = Vec::new();
        // The table flaps once a second.
        let flaps = if routes > 10_000 { 10 } else { 2 };
        let pings = network.ping_while("10.0.9.1", 5 + flaps + routes / 20_000, || {
            far.ask("enable full");
            times.push(await_routes(&network, |count| count >= before + u64::from(routes)));
            for _ in 0..flaps {
                for change in ["disable full", "enable full"] {
                    far.ask(change);
                    thread::park_timeout(Duration::from_millis(500));
                }
            }
            times.push(await_routes(&network, |count| count >= before + u64::from(routes)));
            far.ask("disable full");
            // Neighbours have become known meanwhile, each with a route.
            times.push(await_routes(&network, |count| count < before + 100));
        });
        println!("{daemon}: {routes} routes learned, settled after flaps, and withdrawn in {times:?}, {pings:?}");
        assert_eq!(pings.answered, pings.sent, "{daemon}: {pings:?}");
        router.stop();
    }
}

#[test]
fn flood_at_bgp_and_bfd_takes_neither_their_sessions_nor_forwarded_packets() {
    let Some(network) = Network::new("flood", true) else { return };
    let router = network.start_router();
    let daemons = network.start_router_daemons(ROUTER_BGP);
    let _one = network.start_frr(&network.one, "10.255.0.11", ONE_BGP);
    let _two = network.start_frr(&network.two, "10.255.0.12", "");
    let _bird = network.start_bird(FAR_BGP);
    network.await_route("203.0.113.0/24 one");
    network.await_route("198.51.100.0/24 one");
    let changes = daemons.ask("show bfd peers counters");
    let count = |text: &str| text.matches("Session down events: 0").count();
    let quiet = count(&changes);
    assert!(quiet >= 2, "{changes}");
    // Another host of the neighbour's link; as many packets as it can send.
    let flood = |port: u16| {
        let run = format!(
            "import socket,time\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\ns.setsockopt(0,socket.IP_TTL,255)\n\
             e=time.time()+3\nn=0\nwhile time.time()<e:\n for _ in range(100): s.sendto(b'x'*24,('10.0.1.1',{port})); n+=1\nprint(n)\n"
        );
        let mut command = Command::new("python3");
        command.args(["-c", &run]).stdout(Stdio::piped());
        network.client.namespace().run(|| command.spawn()).unwrap().unwrap()
    };
    let mut sent = 0;
    let pings = network.ping_while("198.51.100.1", 4, || {
        let output = flood(3784).wait_with_output().unwrap();
        sent = String::from_utf8_lossy(&output.stdout).trim().parse::<u64>().unwrap();
    });
    let shown = network.place.json(&["show", "linux"]);
    let bfd = shown["protocols"].as_array().unwrap().iter().find(|one| one["protocol"] == "bfd").unwrap();
    println!("{sent} packets in three seconds; {bfd}; {pings:?}");
    assert!(bfd["limited_packets"].as_u64() > Some(sent / 2), "{bfd}");
    assert_eq!(count(&daemons.ask("show bfd peers counters")), quiet, "a session was lost");
    assert_eq!(daemons.ask("show ip ospf neighbor").matches("Full/").count(), 2);
    router.stop();
}
