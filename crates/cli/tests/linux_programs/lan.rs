//! A home: clients get addresses and names from dnsmasq on the router, and the router gets its own address from the provider's server.

use crate::daemons::Process;
use crate::home::{Home, await_address, output};
use crate::network::{is_permitted, run_in, wait};
use io::netns::Namespace;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const TOOLS: [&str; 4] = ["/usr/sbin/dnsmasq", "/usr/sbin/udhcpc", "/usr/bin/dig", "/usr/bin/curl"];

/// A script for udhcpc, which passes the lease in the environment.
const LEASE_SCRIPT: &str = "#!/bin/sh
case $1 in
bound|renew)
  ip addr replace $ip/$mask dev $interface
  [ -n \"$router\" ] && ip route replace default via $router dev $interface
  [ -n \"$dns\" ] && echo \"nameserver $dns\" > \"$LEASES/$interface.resolv\"
  ;;
deconfig) ip addr flush dev $interface scope global ;;
esac
exit 0
";

impl Home {
    /// Starts dnsmasq without the machine's configuration, with these options.
    fn dnsmasq(&self, name: &str, namespace: &Namespace, options: &[&str]) -> Process {
        let mut command = Command::new(TOOLS[0]);
        command.args([
            "--no-daemon",
            "--conf-file=/dev/null",
            "--no-hosts",
            "--no-resolv",
            "--user=root",
            "--bind-dynamic",
        ]);
        command
            .arg("--pid-file=")
            .arg(format!("--dhcp-leasefile={}", self.place.path(&format!("{name}.leases")).display()));
        Process::start(namespace, command.args(options), &self.place.path(&format!("{name}.log")))
    }

    /// Starts a DHCP client.
    pub fn udhcpc(&self, namespace: &Namespace, interface: &str) -> Process {
        self.place.write("lease", LEASE_SCRIPT);
        fs::set_permissions(self.place.path("lease"), fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new(TOOLS[1]);
        command.args(["-f", "-t", "30", "-T", "1", "-i", interface, "-s"]).arg(self.place.path("lease"));
        command.env("LEASES", self.place.path("."));
        Process::start(namespace, &mut command, &self.place.path(&format!("udhcpc-{interface}.log")))
    }
}

#[test]
fn home_with_dhcp_on_both_sides_resolves_names_and_fetches_pages() {
    let configuration = "version = 1
[port.lan]
device = 'packet:to-lan'
address = ['192.168.7.1/24']
[port.wan]
device = 'packet:to-wan'
[nat]
outside = ['wan']
[[path]]
name = 'internet'
match = 'iif lan'
functions = ['nat', 'ip']
[[path]]
name = 'back'
match = 'iif wan'
functions = ['nat', 'ip']
[linux]
namespace = 'MIRROR'
";
    let Some(home) = Home::new("home", &TOOLS, configuration) else { return };
    let router = home.start_router();
    let mirror = home.mirror();
    let provider = home.provider.namespace().clone();
    run_in(&provider, "ip addr add 203.0.113.1/24 dev eth0");
    run_in(&provider, "ip addr add 198.51.100.80/32 dev lo");
    let names =
        ["--dhcp-range=203.0.113.50,203.0.113.99", "--address=/www.example.net/198.51.100.80", "--interface=eth0"];
    let _provider_server = home.dnsmasq("provider", &provider, &names);
    fs::create_dir(home.place.path("www")).unwrap();
    home.place.write("www/index.html", "hello from the Internet\n");
    let mut web = Command::new("python3");
    web.args(["-m", "http.server", "80", "--bind", "198.51.100.80", "--directory"]).arg(home.place.path("www"));
    let _web = Process::start(&provider, &mut web, &home.place.path("web.log"));
    // The router's own address and default route, by a client on the kernel's interface.
    let _wan_client = home.udhcpc(&mirror, "wan");
    await_address(&home, &mirror, "wan", "203.0.113.");
    let routes = || home.place.run_ok(&["show", "routes", "--origin", "kernel"]);
    wait("the default route", routes, || routes().contains("0.0.0.0/0"));
    // A server for the LAN, which asks the provider's.
    let options = ["--interface=lan", "--dhcp-range=192.168.7.50,192.168.7.99", "--server=203.0.113.1"];
    let _lan_server = home.dnsmasq("lan", &mirror, &options);
    let client = home.client.namespace().clone();
    let _lan_client = home.udhcpc(&client, "eth0");
    await_address(&home, &client, "eth0", "192.168.7.");
    let resolv = || fs::read_to_string(home.place.path("eth0.resolv")).unwrap_or_default();
    wait("the name server", || home.logs(), || resolv().trim() == "nameserver 192.168.7.1");
    let name = output(&client, &["dig", "+short", "+time=5", "@192.168.7.1", "www.example.net"]);
    assert_eq!(name.trim(), "198.51.100.80", "{}", home.logs());
    let page = output(
        &client,
        &[
            "curl",
            "-s",
            "-m",
            "10",
            "--resolve",
            &format!("www.example.net:80:{}", name.trim()),
            "http://www.example.net/",
        ],
    );
    assert_eq!(page, "hello from the Internet\n", "{}", home.logs());
    let translated = home.place.json(&["show", "nat"]);
    println!("{translated}");
    router.stop();
}

#[test]
fn clients_get_addresses_from_a_server_elsewhere_by_the_relay() {
    let configuration = "version = 1
[port.lan]
device = 'packet:to-lan'
address = ['192.168.7.1/24', '2001:db8:7::1/64']
[port.wan]
device = 'packet:to-wan'
address = ['203.0.113.2/24', '2001:db8:1::2/64']
[linux]
namespace = 'MIRROR'
dhcp_relay = ['lan 203.0.113.1 2001:db8:1::1']
";
    let Some(home) = Home::new("relay", &TOOLS, configuration) else { return };
    let router = home.start_router();
    let _mirror = home.mirror();
    let provider = home.provider.namespace().clone();
    for command in [
        "ip addr add 203.0.113.1/24 dev eth0",
        "ip addr add 2001:db8:1::1/64 dev eth0",
        "ip route add 192.168.7.0/24 via 203.0.113.2",
        "ip route add 2001:db8:7::/64 via 2001:db8:1::2",
    ] {
        run_in(&provider, command);
    }
    let ranges = [
        "--interface=eth0",
        "--dhcp-range=192.168.7.50,192.168.7.99,255.255.255.0,2m",
        "--dhcp-option=3,192.168.7.1",
        "--dhcp-range=2001:db8:7::50,2001:db8:7::99,64,2m",
        "--log-dhcp",
    ];
    let _server = home.dnsmasq("provider", &provider, &ranges);
    let client = home.client.namespace().clone();
    let _client = home.udhcpc(&client, "eth0");
    await_address(&home, &client, "eth0", "192.168.7.");
    let mut six = Command::new("/usr/sbin/dhclient");
    six.args(["-6", "-d", "-v", "-1", "-sf", "/bin/true", "-pf"]).arg(home.place.path("six.pid"));
    six.arg("-lf").arg(home.place.path("six.leases")).arg("eth0");
    let _six = Process::start(&client, &mut six, &home.place.path("dhclient6.log"));
    let lease = home.place.path("six.leases");
    let has_lease = || fs::read_to_string(&lease).is_ok_and(|text| text.contains("2001:db8:7::"));
    wait("a lease of DHCPv6", || home.logs(), has_lease);
    let shown = home.place.json(&["show", "linux"]);
    let relay = &shown["dhcp_relays"][0];
    assert!(relay["requests"].as_u64() >= Some(4) && relay["replies"].as_u64() >= Some(4), "{relay}");
    assert_eq!((&relay["refused_messages"], &relay["running"]), (&0.into(), &true.into()), "{relay}");
    let ping = output(&client, &["ping", "-n", "-c", "3", "-i", "0.2", "203.0.113.1"]);
    assert!(ping.contains("3 received"), "{ping}");
    router.stop();
}

#[test]
fn delegated_prefix_reaches_the_clients_of_the_lan() {
    let configuration = "version = 1
[port.lan]
device = 'packet:to-lan'
address = ['192.168.7.1/24']
[port.wan]
device = 'packet:to-wan'
address = ['2001:db8:1::2/64']
[[route]]
to = '::/0'
via = '2001:db8:1::1'
[linux]
namespace = 'MIRROR'
";
    let Some(home) = Home::new("delegation", &TOOLS, configuration) else { return };
    if !is_permitted(&["/usr/sbin/dhcpd", "/usr/sbin/dhclient"].map(Path::new)) {
        return;
    }
    let router = home.start_router();
    let mirror = home.mirror();
    let provider = home.provider.namespace().clone();
    run_in(&provider, "ip addr add 2001:db8:1::1/64 dev eth0");
    run_in(&provider, "ip addr add 2001:db8:ffff::1/128 dev lo");
    run_in(&provider, "ip route add 2001:db8:100::/40 via 2001:db8:1::2");
    home.place.write(
        "dhcpd.conf",
        "default-lease-time 120;\nsubnet6 2001:db8:1::/64 { prefix6 2001:db8:100:: 2001:db8:1ff:: /56; }\n",
    );
    home.place.write("dhcpd.leases", "");
    let mut server = Command::new("/usr/sbin/dhcpd");
    server.args(["-6", "-d", "-cf"]).arg(home.place.path("dhcpd.conf")).arg("-lf").arg(home.place.path("dhcpd.leases"));
    server.arg("-pf").arg(home.place.path("dhcpd.pid")).arg("eth0");
    let _server = Process::start(&provider, &mut server, &home.place.path("dhcpd.log"));
    // The client gives the LAN's interface the first network of the prefix.
    home.place.write(
        "prefix",
        "#!/bin/sh\n[ -n \"$new_ip6_prefix\" ] && ip addr replace \"${new_ip6_prefix%%::/*}::1/64\" dev lan\nexit 0\n",
    );
    fs::set_permissions(home.place.path("prefix"), fs::Permissions::from_mode(0o755)).unwrap();
    let links = || output(&mirror, &["ip", "-6", "addr", "show", "dev", "wan", "scope", "link"]);
    wait("a usable address", links, || links().contains("fe80") && !links().contains("tentative"));
    let mut client = Command::new("/usr/sbin/dhclient");
    client
        .args(["-6", "-P", "-d", "-v", "-sf"])
        .arg(home.place.path("prefix"))
        .arg("-pf")
        .arg(home.place.path("pd.pid"));
    client.arg("-lf").arg(home.place.path("pd.leases")).arg("wan");
    let _client = Process::start(&mirror, &mut client, &home.place.path("dhclient.log"));
    let options = ["--interface=lan", "--enable-ra", "--dhcp-range=::,constructor:lan,ra-only,64,2m", "--port=0"];
    let _announcer = home.dnsmasq("lan", &mirror, &options);
    let lan = home.client.namespace().clone();
    home.client.sysctl("net/ipv6/conf/eth0/accept_ra", "1").unwrap();
    await_address(&home, &lan, "eth0", "2001:db8:1");
    let ping = || output(&lan, &["ping", "-n", "-c", "1", "-W", "1", "2001:db8:ffff::1"]);
    wait("the provider", || home.logs(), || ping().contains("1 received"));
    router.stop();
}
